// Subjects that have gone from a script's stores: a GET by name tells whether they are gone from the cluster,
// have left what the script selects, or are there after all. Without an answer nothing is decided: it is
// asked again, with back-off. Loop thread.
#ifndef RUN_CONTROLLER_DEPARTURES_H
#define RUN_CONTROLLER_DEPARTURES_H

#include "kube/client.h"
#include "kube/discovery.h"
#include "kube/object.h"

struct departures; // of one script

struct departures_options {
    struct client *client;
    struct discovery *discovery;
    const struct identity *as; // outlives it
    uint64_t seed;
    // May it be decided now? Not while a pass of the subject, or its writes, are under way.
    bool (*idle)(void *ud, const struct object *subject);
    void (*on_gone)(void *ud, struct object *last); // there is no such object, or another of that name
    void (*on_there)(void *ud, struct object *now); // it is there, as it is now
    void *ud;
};

struct departures *departures_new(const struct departures_options *o);
void departures_free(struct departures *d);
void departures_add(struct departures *d, struct object *last); // takes a reference of its own
void departures_drop(struct departures *d, const char *uid);    // it came back
void departures_each(const struct departures *d, void (*fn)(void *arg, const char *uid), void *arg);

#endif
