// One write of a plan: its claim, its place among the writes in flight, its outcome. What is sent, and what
// an answer leads to, stands in apply_fields (an apply), apply_create, apply_delete and the files of what
// helps an apply that was refused. Private to apply*.c. Loop thread.
#ifndef RUN_APPLY_APPLY_OP_H
#define RUN_APPLY_APPLY_OP_H

#include "base/strset.h"
#include "run/apply/apply.h"
#include "run/apply/fights.h"

struct applier {
    struct applier_options o;
    struct own_writes *own;
    struct claims *claims;
    struct write_gate *gate;
    struct fights *fights;
    struct metric *writes;
    struct metric *fought;
    struct metric *deleted;
    struct strset warnings; // texts of the server's that were logged
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
    bool in_gate;   // holds a place
    bool emptied;   // containers that nothing would be left in were emptied, or it was tried
    unsigned asked; // whose the replicas are
    // the request under way
    void (*then)(struct apply_op *o, struct client_result *res);
    bool writes;
    const char *remedy; // what it is to help with stands in err; NULL: nothing
    // what others may undo
    char *contested;       // the field or child, see run/apply/fights.h; NULL: nothing
    struct object *before; // +1, for a probe: what others have made of the object; NULL: none is known
    bool often;            // the child has been made again and again
    // the outcome
    bool ok;
    bool written;     // the server took something
    bool terminating; // refused because the namespace is going away
    bool foreign;
    enum fights_move move;
    uint64_t again_ms; // FIGHTS_WAIT: nothing was sent; look again then
    int64_t retry_after_ms;
    struct err err;
    void (*on_done)(struct apply_op *o);
    void *ud;
};

// The caller fills applier, in, op, waiter, on_done, ud first.
void apply_op_start(struct apply_op *o);
void apply_op_fini(struct apply_op *o); // one that was not started, too

// ---- for what carries it out
// Its last answer has come, and the outcome stands in it; rv as for own_writes_end. Calls on_done.
void apply_op_end(struct apply_op *o, const char *rv);
void apply_op_fail(struct apply_op *o, const struct api_status *why);
// The server refused, and what comes next is to help: if that fails too, both is told. `remedy` says what it
// is.
void apply_op_fail_but_try(struct apply_op *o, const struct api_status *why, const char *remedy);
void apply_op_refuse(struct apply_op *o, enum err_code code, const char *text);
// What is written from now on; the buffer is empty after it.
void apply_op_set_body(struct apply_op *o, struct buf *body);
bool apply_op_is_about_subject(const struct op *op);
// The object as the store has it by now, +1 reference, or NULL.
struct object *apply_op_stored(const struct apply_op *o);

#endif
