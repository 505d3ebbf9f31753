// Hands out work to the workers, fairly: queues with ready keys take turns, one key each; of keys that are
// tried, of scripts that failed before, one at a time, so that such scripts never have all the workers. Also
// single tasks (compiling a script), which go first. Any thread takes; the loop thread adds. One lock, also
// that of all queues registered here.
#ifndef RUN_WORKQUEUE_DISPATCH_H
#define RUN_WORKQUEUE_DISPATCH_H

#include <stdbool.h>
#include <stddef.h>

#include "base/mailbox.h"

struct dispatcher;
struct queue;

struct dispatch_task {
    struct dispatch_task *next;
    void (*run)(struct dispatch_task *t, void *worker); // on a worker
    struct message message;                             // posted to the loop when `run` has returned; owns t
    // Loop thread, instead of the message: the worker does not come back from `run`. The task is not freed
    // now, since the worker may still touch it, but when the message comes after all.
    void (*give_up)(struct dispatch_task *t);
};

// What a worker got: a task, or a key of a queue.
struct dispatch_item {
    struct dispatch_task *task;
    struct queue *queue;
    const char *key; // valid until queue_done, which the loop does after the worker has posted the outcome
};

// `on_ready` is called on the loop thread when something was added: it sees to it that somebody takes it.
// NULL: one that waits in dispatch_take is woken.
struct dispatcher *dispatch_new(void (*on_ready)(void *ud), void *ud);
void dispatch_free(struct dispatcher *d);
void dispatch_submit(struct dispatcher *d, struct dispatch_task *t);

// Waits; false once shut. try: false when there is nothing now.
bool dispatch_take(struct dispatcher *d, struct dispatch_item *ret);
void dispatch_signal(struct dispatcher *d); // wakes one that waits; it wakes the next if there is more
bool dispatch_try_take(struct dispatcher *d, struct dispatch_item *ret);
// No key from now on; tasks are still given out until dispatch_shut(tasks too).
void dispatch_pause_keys(struct dispatcher *d);
void dispatch_shut(struct dispatcher *d);

// For queues.
void dispatch_lock(struct dispatcher *d);
void dispatch_unlock(struct dispatcher *d);
void dispatch_ready_locked(struct dispatcher *d, struct queue *q); // q may have a key to give
void dispatch_forget_locked(struct dispatcher *d, struct queue *q);
void dispatch_trial_ended_locked(struct dispatcher *d); // of a key given out when queue_is_tried_locked
void dispatch_wake(struct dispatcher *d);               // after unlocking: tells a worker, or on_ready

#endif
