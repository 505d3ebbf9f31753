// What a pass read: recorded by the worker, installed as dependencies by the loop. One owner at a time; moves
// with the outcome.
#ifndef RUN_WORLD_READS_H
#define RUN_WORLD_READS_H

#include <stdbool.h>
#include <stddef.h>

#include "kube/informers.h"
#include "kube/selector.h"

struct read {
    const struct gvk *gvk;
    char *ns;                    // NULL: all namespaces, or a cluster-scoped kind
    char *name;                  // get: the object's name; NULL: a list
    char *labels;                // list: canonical selector text, or NULL
    char *owner_uid;             // list: or NULL
    enum informer_answer answer; // what the informers said when it was read
};

struct reads {
    struct read *items;
    size_t count, cap;
};

void reads_fini(struct reads *r);
// Copies; a read that is there already is not added twice (its answer becomes the newer one).
void reads_add(struct reads *r, const struct read *item);

#endif
