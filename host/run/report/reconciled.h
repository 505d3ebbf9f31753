// The condition `Reconciled` on subjects whose kind has a list-map of conditions in its status: False with a
// reason while the key fails, True once it is healed, never written for keys that never failed. It is the
// host's own report, under a field manager of its own, so that it is apart from what the script returns; a
// script (or anybody) that keeps a condition of that type itself is left alone. One write for each change;
// of messages that change all the time, one every 10 s. Loop thread.
#ifndef RUN_REPORT_RECONCILED_H
#define RUN_REPORT_RECONCILED_H

#include <stdint.h>

#include "base/clock.h"
#include "kube/client.h"
#include "kube/discovery.h"
#include "kube/object.h"
#include "kube/schemas.h"
#include "run/apply/own_writes.h"
#include "run/source/marks.h"

struct reconciled; // of one script

struct reconciled_options {
    struct client *client;
    struct discovery *discovery;
    struct schemas *schemas;
    struct own_writes *own; // its echoes wake nobody
    struct clock *clock;
    const char *script; // its hash, copied
    // The key is to be looked at again: a write was lost, or the subject was changed meanwhile.
    void (*again)(void *ud, const char *key, uint64_t ms);
    void *ud;
};

struct reconciled *reconciled_new(const struct reconciled_options *o);
void reconciled_free(struct reconciled *r); // cancels what is under way

// subject: as the pass saw it.
void reconciled_failing(struct reconciled *r, const char *key, struct object *subject, const char *reason,
                        const char *message);
void reconciled_healed(struct reconciled *r, const char *key, struct object *subject);
void reconciled_on_schemas(struct reconciled *r); // a schema is there, or will not come
void reconciled_forget(struct reconciled *r, const char *key);

#endif
