// What the two kinds of loop share; for io/ only. A kind embeds struct loop first.
// A turn runs messages, then due timers, then (real) file descriptors, so that none of the three starves
// another.
#ifndef IO_LOOP_IMPL_H
#define IO_LOOP_IMPL_H

#include <stdatomic.h>

#include "base/heap.h"
#include "io/loop.h"

struct event_base;

struct loop_ops {
    void (*run)(struct loop *l);
    void (*wake)(struct loop *l); // any thread
    void (*free)(struct loop *l);
};

struct loop {
    const struct loop_ops *ops;
    struct clock *clock;
    struct mailbox *box;
    struct message *ready;   // taken from the box, not yet run
    struct heap timers;      // by due time (us), then by order of starting
    atomic_uintptr_t runner; // which thread is in it; 0: none
    atomic_bool stopping;
    bool closing; // in loop_free: deferred calls are dropped
};

struct loop *loop_real_new(struct clock *clock);
struct loop *loop_virtual_new(struct clock *clock);
struct event_base *loop_event_base(struct loop *l); // real only

void loop_init(struct loop *l, const struct loop_ops *ops, struct clock *clock);
void loop_fini(struct loop *l);
// Marks the calling thread as the one that runs the loop; returns what was there, for loop_leave.
uintptr_t loop_enter(struct loop *l);
void loop_leave(struct loop *l, uintptr_t previous);

// Takes new messages when the last ones are through; true when there are some to run.
bool loop_fill_ready(struct loop *l);
void loop_run_ready(struct loop *l); // the oldest one

// When the next timer is due (us, monotonic), UINT64_MAX: none.
uint64_t loop_next_due_us(const struct loop *l);
void loop_run_timer(struct loop *l); // the next one
// Runs the timers that are due and were started before the call.
void loop_run_due(struct loop *l);

#endif
