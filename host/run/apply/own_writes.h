// Our own writes on their way back through the watches. Two uses: a change that is only the echo of a key's
// own write does not wake that key, and a key waits after its writes until the stores have seen them (read
// your writes). What one key has written is news to all others that own or read the object, of other scripts
// and of the same. Entries live from the sending of a write until its last echo. Loop thread.
#ifndef RUN_APPLY_OWN_WRITES_H
#define RUN_APPLY_OWN_WRITES_H

#include <stdbool.h>

#include "kube/gvk.h"
#include "kube/object.h"

struct own_writes;
struct own_waiter; // a key that waits for the echoes of its writes

struct own_writer {     // for whom a write is made; borrowed
    const char *script; // its hash
    const char *key;
};

struct own_write {
    const char *group, *kind, *ns, *name; // ns "" for cluster-scoped
    const char *rv;                       // as for own_writes_end; never NULL
};

// A store has shown a write: is there no other that holds the object, or will, and is behind? NULL: there is
// but one store.
struct own_writes *own_writes_new(bool (*by_all)(void *ud, const struct own_write *w), void *ud);
void own_writes_free(struct own_writes *w);

// A write to this object is being sent. `waiter` (may be NULL) then waits for it.
void own_writes_begin(struct own_writes *w, struct own_writer by, const struct gvk *gvk, const char *ns,
                      const char *name, struct own_waiter *waiter);
// It was answered: `rv` is the object's resourceVersion then, "" when the object is to vanish, NULL when the
// write failed or changed nothing. True: a change that is not theirs came in between; look at the object
// again.
bool own_writes_end(struct own_writes *w, struct own_writer by, const struct gvk *gvk, const char *ns,
                    const char *name, const char *rv);

// A store has this version of the object already ("" for: it is gone): a write that changed nothing has no
// echo.
void own_writes_store_has(struct own_writes *w, struct own_writer by, const struct gvk *gvk, const char *ns,
                          const char *name, const char *rv);

// A change has come through a watch (new NULL: deleted). True: it is only the echo of a write of theirs, or
// may be one (decided by own_writes_end).
bool own_writes_is_echo(struct own_writes *w, struct own_writer of, const struct object *old,
                        const struct object *new);
// All have been told of the change.
void own_writes_came(struct own_writes *w, const struct object *old, const struct object *new);

// A waiter calls on_seen (from a later call into this module) once all writes begun with it have ended and
// were seen.
struct own_waiter *own_waiter_new(struct own_writes *w, void (*on_seen)(void *ud), void *ud);
bool own_waiter_is_clear(const struct own_waiter *x); // nothing is outstanding now
void own_waiter_arm(struct own_waiter *x);            // no more begins: on_seen may be called
void own_waiter_free(struct own_waiter *x);           // gives up waiting
// What it still waits for; borrowed for the call.
void own_waiter_each(const struct own_waiter *x, void (*fn)(void *ud, const struct own_write *w), void *ud);

#endif
