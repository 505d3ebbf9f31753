// Hands back what a script that is no more left in the cluster: children lose its marks and stay as they are,
// patches are released, subjects lose its finalizer, and its inventory goes. Or another script takes all of
// it over. Each object is changed for the version that was seen, so that it can be broken off and repeated at
// any time; the inventory goes last. Loop thread.
#ifndef RUN_RELEASE_RELEASE_H
#define RUN_RELEASE_RELEASE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/strset.h"
#include "kube/client.h"

struct release;

struct release_options { // texts are borrowed for its life
    struct client *client;
    const char *instance;
    const char *namespace_;          // the host's: the inventories are there
    const char *script_ns, *script;  // whose; script_ns "-" for files
    const char *to_ns, *to;          // who takes over; `to` NULL: nobody
    const struct strset *namespaces; // look into these only; NULL or empty: everywhere
    bool dry_run;
    void (*say)(void *ud, const char *line); // what was done, a line an object
    // 0; -ERR_NOT_FOUND: there is no inventory of that script; another: some of it is not done (what, was
    // said).
    void (*on_done)(void *ud, int r, const struct err *e, size_t done);
    void *ud;
};

struct release *release_start(const struct release_options *o);
void release_free(struct release *r); // cancels

#endif
