// Tells of scripts that run no more while their finalizers still wait on their subjects, which can not be
// deleted then: a warning in the log and an Event on the script's inventory, naming the command that hands
// them back. Looks at the host's start, when a script was removed, and every 10 minutes; only at inventories
// of this host's own scripts that do not run. Loop thread.
#ifndef RUN_RELEASE_LEFTOVERS_H
#define RUN_RELEASE_LEFTOVERS_H

#include "base/strset.h"
#include "kube/client.h"
#include "kube/discovery.h"
#include "run/report/recorder.h"

struct leftovers;

struct leftovers_options {
    struct client *client;
    struct discovery *discovery;
    struct recorder *recorder;
    const char *instance, *namespace_; // of the host; outlive it
    const struct strset *namespaces;   // the host is confined to these; NULL or empty: to none
    uint64_t seed;
    bool (*settled)(void *ud);                       // are the scripts known, and none on its way in or out?
    bool (*runs)(void *ud, const char *script_hash); // does that one run?
    void *ud;
};

struct leftovers *leftovers_new(const struct leftovers_options *o);
void leftovers_free(struct leftovers *l); // cancels
void leftovers_look(struct leftovers *l); // soon

#endif
