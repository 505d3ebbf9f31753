// The stores of a script's children, one a kind (and namespace, where the host is confined to some), as a
// pass sees them: immutable, refcounted, replaced as a whole by the loop when kinds come. A kind stands in
// the inventory before its first child exists, so all kinds together are all children there can be.
#ifndef RUN_WORLD_CHILD_STORES_H
#define RUN_WORLD_CHILD_STORES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kube/store.h"

struct child_store {
    const struct gvk *gvk;
    struct store *store; // +1 reference
    bool synced;
};

struct child_stores {
    unsigned refs;                  // atomic
    const struct gvk **patch_kinds; // kinds the script has patched objects of; owned
    size_t patch_count;
    size_t count;
    struct child_store items[];
};

// All items' stores are referenced by it.
struct child_stores *child_stores_new(size_t count);
struct child_stores *child_stores_ref(struct child_stores *c);
void child_stores_unref(struct child_stores *c);
bool child_stores_synced(const struct child_stores *c);
// The children whose owner label is this UID, of one kind (any version of it) or of all (gvk NULL).
void child_stores_list(const struct child_stores *c, uint64_t revision, const struct gvk *gvk,
                       const char *owner_uid, struct object_list *ret);
// The child as it was at `revision`, +1 reference, or NULL.
struct object *child_stores_get(const struct child_stores *c, uint64_t revision, const struct gvk *gvk,
                                const char *ns, const char *name);

#endif
