// One write of a plan: guard, request, answer. Private to apply*.c. Loop thread.
#ifndef RUN_APPLY_OP_H
#define RUN_APPLY_OP_H

#include "run/apply.h"

struct applier {
    struct applier_options o;
    struct own_writes *own;
    struct claims *claims;
    struct write_gate *gate;
    struct metric *writes;
    size_t active;
    bool hurry;
};

struct apply_op {
    struct write_waiter gate;
    struct applier *applier;
    const struct apply_input *in;
    struct op *op;
    struct own_waiter *waiter;
    bool claimed;
    bool in_gate; // holds a place
    // the outcome
    bool ok;
    bool terminating; // refused because the namespace is going away
    bool foreign;
    int64_t retry_after_ms;
    struct err err;
    void (*on_done)(struct apply_op *o);
    void *ud;
};

// Fills applier, in, op, waiter, on_done, ud first.
void apply_op_start(struct apply_op *o);

#endif
