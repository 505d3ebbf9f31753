// Takes back the patches of subjects that are no more: walks through the metadata of all objects of the kinds
// a script has patched, and releases what a patch manager of the script holds whose subject does not live.
// Used at a script's start (subjects may have gone while no host ran) and after subjects have gone. Requests
// that come close together are one walk. Nothing is kept of what was seen. Loop thread.
#ifndef RUN_CONTROLLER_SWEEP_H
#define RUN_CONTROLLER_SWEEP_H

#include "base/strset.h"
#include "kube/client.h"
#include "kube/discovery.h"
#include "run/apply/inventory.h"

struct sweep;

struct sweep_options {
    struct client *client;
    struct discovery *discovery;
    const struct strset *namespaces; // the host is confined to these; NULL or empty: to none
    const char *manager;             // of the script, copied; patches add "-" and 16 hex digits
    const char *script;              // for the log, copied
    uint64_t seed;
    // Is it known which subjects live? Asked all along: once it says no, nothing is released until the next
    // request.
    bool (*ready)(void *ud);
    // Calls fn for the UID of each subject that lives, or of which it is not known yet.
    void (*each_live)(void *ud, void (*fn)(void *arg, const char *uid), void *arg);
    size_t (*kinds)(void *ud, const struct inventory_kind **ret);
    void *ud;
};

struct sweep *sweep_new(const struct sweep_options *o);
void sweep_free(struct sweep *s); // cancels
void sweep_request(struct sweep *s);
bool sweep_is_idle(const struct sweep *s); // nothing is wanted or under way

#endif
