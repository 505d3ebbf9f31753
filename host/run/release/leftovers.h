// Tells of scripts that run no more while their finalizers still wait on their subjects, which can not be
// deleted then: a warning in the log and an Event on the script's inventory, naming the command that hands
// them back. Looks at the host's start, when a script was removed, and every 10 minutes; only at inventories
// of this host's own scripts that do not run.
//
// In a namespace that is being deleted nobody will hand them back in time: there the finalizer is taken off,
// after 10 s, and that is said too. Children elsewhere stay, as all that a removed script has left. The same
// holds for subjects of the kind that a script had before, which its version of today does not look after.
// Loop thread.
#ifndef RUN_RELEASE_LEFTOVERS_H
#define RUN_RELEASE_LEFTOVERS_H

#include "base/strset.h"
#include "kube/client.h"
#include "kube/discovery.h"
#include "kube/terminating.h"
#include "run/report/recorder.h"

struct leftovers;

struct leftovers_options {
    struct client *client;
    struct discovery *discovery;
    struct recorder *recorder;
    struct terminating *terminating;
    struct metrics *metrics;
    const char *instance, *namespace_; // of the host; outlive it
    const struct strset *namespaces;   // the host is confined to these; NULL or empty: to none
    uint64_t seed;
    bool (*settled)(void *ud); // are the scripts known, and none on its way in or out?
    // The kind of the subjects of that one, if it runs; else NULL.
    const struct gvk *(*subject)(void *ud, const char *script_hash);
    void *ud;
};

struct leftovers *leftovers_new(const struct leftovers_options *o);
void leftovers_free(struct leftovers *l);         // cancels
void leftovers_look(struct leftovers *l);         // soon
void leftovers_on_namespace(struct leftovers *l); // `terminating` has answered

#endif
