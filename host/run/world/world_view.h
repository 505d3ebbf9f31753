// The world of one pass: the stores at one pinned revision, seen with the script's rights. Records every
// read. Used by one worker for one pass; what it gives to the sandbox stays valid until world_view_fini.
#ifndef RUN_WORLD_WORLD_VIEW_H
#define RUN_WORLD_WORLD_VIEW_H

#include <stdint.h>

#include "kube/discovery.h"
#include "kube/informers.h"
#include "run/source/script.h"
#include "run/world/child_stores.h"
#include "run/world/host_key.h"
#include "run/world/reads.h"
#include "script/world.h"

struct world_view {
    struct informers *informers;
    struct discovery *discovery;
    struct script *script;               // borrowed
    struct object *subject;              // borrowed
    const struct child_stores *children; // borrowed; NULL: none yet
    uint64_t revision;                   // pinned by the caller
    struct reads reads;                  // taken by the caller afterwards
    struct object **held;                // references that keep what was given valid
    size_t held_count, held_cap;
    void **memory; // arrays given as lists
    size_t memory_count, memory_cap;
    struct host_key *host_key; // borrowed; NULL: there is none
    bool read_children;        // world.children was called
    bool parked;
    const bool *canceled; // atomic: the pass was given up, nothing may be read any more; NULL: it is not
    bool wants_key;       // parked until the host's key is there
};

extern const struct world_ops world_view_ops; // ud: struct world_view *

void world_view_fini(struct world_view *w); // the reads too

#endif
