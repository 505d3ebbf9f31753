// The workqueue of one script, with client-go's guarantees: a key that waits is there once; a key added while
// it is processed is processed again after `done`, never at the same time; keys come in the order they were
// added. Delayed adds keep one timer a key: the earliest wins.
//
// Adding, retrying and `done` belong to the loop thread; taking is done by workers through the dispatcher
// (run/workqueue/dispatch.h), which holds the one lock.
#ifndef RUN_WORKQUEUE_QUEUE_H
#define RUN_WORKQUEUE_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/metrics.h"
#include "base/random.h"
#include "io/loop.h"
#include "run/workqueue/dispatch.h"
#include "run/workqueue/limiter.h"

struct queue;

struct queue_options {
    struct loop *loop;
    struct dispatcher *dispatcher;
    struct metrics *metrics;
    const char *name; // of the metrics, copied
    struct limiter limiter;
    int max_active; // keys in process at once; 0: no limit of its own
    uint64_t seed;
    void *owner; // whose keys these are: what dispatch_take gives the worker
};

struct queue *queue_new(const struct queue_options *o);
// Drops what waits. Keys in process must have been given back by queue_done first.
void queue_free(struct queue *q);
void *queue_owner(const struct queue *q);

void queue_add(struct queue *q, const char *key);
void queue_add_after(struct queue *q, const char *key, uint64_t ms);
// Adds after the limiter's delay for this key's number of failures in a row, which grows by one. Returns the
// delay.
uint64_t queue_retry(struct queue *q, const char *key, uint64_t at_least_ms);
void queue_forget(struct queue *q,
                  const char *key); // its failures are forgotten, and a timer set by queue_retry
void queue_cancel_timer(struct queue *q, const char *key);
enum queue_place { QUEUE_ELSEWHERE, QUEUE_WAITING, QUEUE_ACTIVE }; // elsewhere: delayed, or not there
enum queue_place queue_place(const struct queue *q, const char *key);
unsigned queue_failures(const struct queue *q, const char *key);
void queue_done(struct queue *q, const char *key); // each key taken is given back once
void queue_set_limiter(struct queue *q, const struct limiter *l, int max_active);
// No key is given out before `until_ms` of the loop's clock (UINT64_MAX: before the next call). Then all are,
// or, with `one`, a single key and none after it before the next call: a trial, of which there is one at a
// time among all queues of the dispatcher, until the next call or until nothing
// is in process. A later call replaces an earlier
// one.
void queue_hold(struct queue *q, uint64_t until_ms, bool one);
void queue_release(struct queue *q);
bool queue_is_held(const struct queue *q);
void queue_put_first(struct queue *q, const char *key); // the next to be given out, if it waits
size_t queue_depth(const struct queue *q);              // waiting, without the delayed
size_t queue_active(const struct queue *q);             // in process
// No key is given out from now on; adds are ignored. on_drained is called on the loop once nothing is in
// process.
void queue_shut(struct queue *q, void (*on_drained)(void *ud), void *ud);

// For the dispatcher, which holds its lock while calling: the next key (owned by the queue until done) or
// NULL.
const char *queue_pop_locked(struct queue *q);
bool queue_has_ready_locked(const struct queue *q);
bool queue_is_tried_locked(const struct queue *q); // its next key is a trial

#endif
