// The indexed store of one informer: the versions of its objects. Writer: the loop thread. Readers: any
// thread, through a snapshot, which is a pinned revision of all stores together (one counter, struct
// store_clock): versions a snapshot can see stay until it is released. Objects are immutable and refcounted,
// so what a reader got stays valid after the snapshot.
#ifndef KUBE_STORE_H
#define KUBE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kube/object.h"
#include "kube/selector.h"

struct store_clock; // the revision counter and the set of pinned snapshots
struct store;

struct store_clock *store_clock_new(void);
void store_clock_free(struct store_clock *c);
uint64_t store_clock_now(struct store_clock *c); // the latest revision; any thread
uint64_t store_snapshot(struct store_clock *c);  // pins the latest revision; any thread
void store_snapshot_release(struct store_clock *c, uint64_t revision);

struct store *store_new(struct store_clock *c, const struct gvk *gvk);
struct store *store_ref(struct store *s); // any thread: a reader keeps a store that the loop may drop
void store_unref(struct store *s);
const struct gvk *store_gvk(const struct store *s);

// ---- loop thread
// Takes the reference. `fn` (may be NULL) is told the version before (NULL: new) and the new one. An object
// of another UID than the stored one is a delete followed by a create: fn is called twice. An object that is
// byte-equal with an equal resourceVersion is no change: fn is not called.
typedef void store_event_fn(void *ud, struct object *old, struct object *new, uint64_t revision);
void store_put(struct store *s, struct object *o, store_event_fn *fn, void *ud);
void store_remove(struct store *s, const char *ns, const char *name, store_event_fn *fn, void *ud);
// Relist: begin marks; puts unmark; sweep removes what is still marked (fn called for each).
void store_relist_begin(struct store *s);
void store_relist_sweep(struct store *s, store_event_fn *fn, void *ud);
void store_relist_abort(struct store *s);
// Calls fn for each object whose version changed after `revision` (fn's old: the version visible at
// `revision` or NULL; new: the latest or NULL), which must be pinned. Cheap when nothing changed.
void store_changed_since(struct store *s, uint64_t revision, store_event_fn *fn, void *ud);

// ---- any thread; `revision` must be pinned, or UINT64_MAX for the latest
// +1 reference or NULL.
struct object *store_get(struct store *s, uint64_t revision, const char *ns, const char *name);
struct store_query {
    const char *ns;                // NULL: all
    const struct selector *labels; // NULL: all
    const char *owner_uid;         // an ownerReference has this UID; NULL: any
    const char *manager;           // one of our managers (object_managers) has this name; NULL: any
    const struct field_selector
        *near; // its first equality narrows the search by an index; the caller selects
};
struct object_list {
    struct object **items; // each +1 reference
    size_t count;
};
// Sorted by namespace, name.
void store_list(struct store *s, uint64_t revision, const struct store_query *q, struct object_list *ret);
void object_list_fini(struct object_list *l);
// Moves the members of `more` (which is empty then) to the end of l.
void object_list_append(struct object_list *l, struct object_list *more);
size_t store_count(struct store *s);
size_t store_bytes(struct store *s); // exact: objects, versions, indexes

#endif
