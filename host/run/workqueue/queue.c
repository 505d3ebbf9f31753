#include "run/workqueue/queue.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/hash_table.h"
#include "base/heap.h"

// One key's place: waiting, in process, in process and dirty, delayed, or only remembered for its failures.
struct item {
    char *key;
    bool waiting; // in the order list
    bool active;  // given to a worker
    bool dirty;   // added while active
    unsigned failures;
    bool retrying;          // its timer was set by queue_retry
    struct heap_node timer; // delayed: in the heap of timers, due in ms
    uint64_t added_us, taken_us;
    TAILQ_ENTRY(item) order;
    UT_hash_handle hh;
};

TAILQ_HEAD(order, item);

enum gate { GATE_OPEN, GATE_SHUT, GATE_ONE };

struct queue_metrics {
    struct series *depth, *adds, *retries, *wait, *work, *active;
};

struct queue {
    struct loop *loop;
    struct dispatcher *dispatcher;
    struct limiter limiter;
    struct random random;
    int max_active;
    void *owner;
    struct item *items; // by key
    struct order order;
    struct heap timers;
    struct loop_timer *timer; // for the earliest of timers
    size_t depth, active;
    enum gate gate, gate_next; // next: what the gate's timer makes of it
    bool on_trial;             // the one key that GATE_ONE let through is in process
    struct loop_timer *gate_timer;
    bool shut;
    void (*on_drained)(void *ud);
    void *drained_ud;
    struct queue_metrics m;
};

static const double exp_buckets[] = {1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1, 10, 100, 1000};
#define EXP_BUCKETS .buckets = exp_buckets, .bucket_count = sizeof exp_buckets / sizeof exp_buckets[0]

static const struct metric_def def_depth = {"workqueue_depth", "Keys that wait.", METRIC_GAUGE,
                                            "name,controller"};
static const struct metric_def def_adds = {"workqueue_adds_total", "Keys added.", METRIC_COUNTER,
                                           "name,controller"};
static const struct metric_def def_retries = {"workqueue_retries_total", "Keys added after an error.",
                                              METRIC_COUNTER, "name,controller"};
static const struct metric_def def_wait = {"workqueue_queue_duration_seconds",
                                           "How long a key waits before it is taken.", METRIC_HISTOGRAM,
                                           "name,controller", EXP_BUCKETS};
static const struct metric_def def_work = {"workqueue_work_duration_seconds",
                                           "How long a key is in process, its writes included.",
                                           METRIC_HISTOGRAM, "name,controller", EXP_BUCKETS};

static const struct metric_def def_active = {"controller_runtime_active_workers", "Keys in process.",
                                             METRIC_GAUGE, "controller"};

static void open_metrics(struct queue *q, struct metrics *m, const char *name)
{
    q->m.depth = metric_series(metrics_add(m, &def_depth), name, name);
    q->m.adds = metric_series(metrics_add(m, &def_adds), name, name);
    q->m.retries = metric_series(metrics_add(m, &def_retries), name, name);
    q->m.wait = metric_series(metrics_add(m, &def_wait), name, name);
    q->m.work = metric_series(metrics_add(m, &def_work), name, name);
    q->m.active = metric_series(metrics_add(m, &def_active), name);
}

static void on_timer(void *ud);
static void on_gate_timer(void *ud);

struct queue *queue_new(const struct queue_options *o)
{
    struct queue *q = xcalloc(1, sizeof *q);
    q->loop = o->loop;
    q->dispatcher = o->dispatcher;
    q->limiter = o->limiter;
    q->max_active = o->max_active;
    q->owner = o->owner;
    random_init(&q->random, o->seed);
    TAILQ_INIT(&q->order);
    q->timer = loop_timer_new(o->loop, on_timer, q);
    q->gate_timer = loop_timer_new(o->loop, on_gate_timer, q);
    open_metrics(q, o->metrics, o->name);
    return q;
}

static void free_item(struct queue *q, struct item *i)
{
    HASH_DEL(q->items, i);
    free(i->key);
    free(i);
}

void queue_free(struct queue *q)
{
    if (q == NULL)
        return;
    dispatch_lock(q->dispatcher);
    ASSERT(q->active == 0);
    dispatch_forget_locked(q->dispatcher, q);
    dispatch_unlock(q->dispatcher);
    struct item *i, *tmp;
    HASH_ITER (hh, q->items, i, tmp)
        free_item(q, i);
    heap_fini(&q->timers);
    loop_timer_free(q->timer);
    loop_timer_free(q->gate_timer);
    series_set(q->m.depth, 0);
    free(q);
}

void *queue_owner(const struct queue *q)
{
    return q->owner;
}

static struct item *find(const struct queue *q, const char *key)
{
    struct item *i;
    HASH_FIND_STR(q->items, key, i);
    return i;
}

static struct item *find_or_add(struct queue *q, const char *key)
{
    struct item *i = find(q, key);
    if (i == NULL) {
        i = xcalloc(1, sizeof *i);
        i->key = xstrdup(key);
        HASH_ADD_KEYPTR(hh, q->items, i->key, strlen(i->key), i);
    }
    return i;
}

// An item that is nowhere and remembers nothing goes.
static void drop_if_idle(struct queue *q, struct item *i)
{
    if (!i->waiting && !i->active && !heap_has(&i->timer) && i->failures == 0)
        free_item(q, i);
}

static uint64_t now_us(const struct queue *q)
{
    return clock_now_us(loop_clock(q->loop));
}

static struct item *item_of_timer(struct heap_node *n)
{
    return (struct item *)((char *)n - offsetof(struct item, timer));
}

static void stop_timer(struct queue *q, struct item *i)
{
    if (heap_has(&i->timer))
        heap_remove(&q->timers, &i->timer);
    i->retrying = false;
}

// Lock held.
static void put_in_order(struct queue *q, struct item *i)
{
    i->waiting = true;
    i->added_us = now_us(q);
    TAILQ_INSERT_TAIL(&q->order, i, order);
    q->depth++;
    series_set(q->m.depth, (double)q->depth);
    dispatch_ready_locked(q->dispatcher, q);
}

void queue_add(struct queue *q, const char *key)
{
    dispatch_lock(q->dispatcher);
    bool wake = false;
    if (!q->shut) {
        struct item *i = find_or_add(q, key);
        if (i->active)
            i->dirty = true;
        else if (!i->waiting) {
            put_in_order(q, i);
            wake = true;
        }
        series_inc(q->m.adds);
    }
    dispatch_unlock(q->dispatcher);
    if (wake)
        dispatch_wake(q->dispatcher);
}

static void arm_timer(struct queue *q)
{
    const struct heap_node *first = heap_first(&q->timers);
    uint64_t now = loop_now_ms(q->loop);
    if (first == NULL)
        loop_timer_stop(q->timer);
    else
        loop_timer_start(q->timer, first->due > now ? first->due - now : 0);
}

static void delay(struct queue *q, const char *key, uint64_t ms, bool retrying)
{
    uint64_t now = loop_now_ms(q->loop);
    uint64_t due = ms > UINT64_MAX / 2 - now ? UINT64_MAX / 2 : now + ms;
    dispatch_lock(q->dispatcher);
    if (!q->shut) {
        struct item *i = find_or_add(q, key);
        bool earlier = heap_has(&i->timer) && i->timer.due <= due;
        if (!earlier) {
            stop_timer(q, i);
            i->timer.due = due;
            heap_add(&q->timers, &i->timer);
        }
        i->retrying |= retrying;
    }
    dispatch_unlock(q->dispatcher);
    arm_timer(q);
}

static void on_timer(void *ud)
{
    struct queue *q = ud;
    uint64_t now = loop_now_ms(q->loop);
    for (struct heap_node *n; (n = heap_first(&q->timers)) != NULL && n->due <= now;) {
        struct item *i = item_of_timer(n);
        stop_timer(q, i);
        queue_add(q, i->key);
    }
    arm_timer(q);
}

void queue_add_after(struct queue *q, const char *key, uint64_t ms)
{
    if (ms == 0)
        queue_add(q, key);
    else
        delay(q, key, ms, false);
}

uint64_t queue_retry(struct queue *q, const char *key, uint64_t at_least_ms)
{
    dispatch_lock(q->dispatcher);
    struct item *i = find_or_add(q, key);
    uint64_t ms = limiter_delay_ms(&q->limiter, i->failures, &q->random);
    i->failures++;
    stop_timer(q, i); // the back-off after an error wins over an older timer
    dispatch_unlock(q->dispatcher);
    if (ms < at_least_ms)
        ms = at_least_ms;
    series_inc(q->m.retries);
    delay(q, key, ms, true);
    return ms;
}

void queue_forget(struct queue *q, const char *key)
{
    dispatch_lock(q->dispatcher);
    struct item *i = find(q, key);
    if (i != NULL) {
        i->failures = 0;
        if (i->retrying)
            stop_timer(q, i);
        drop_if_idle(q, i);
    }
    dispatch_unlock(q->dispatcher);
}

void queue_cancel_timer(struct queue *q, const char *key)
{
    dispatch_lock(q->dispatcher);
    struct item *i = find(q, key);
    if (i != NULL) {
        stop_timer(q, i);
        drop_if_idle(q, i);
    }
    dispatch_unlock(q->dispatcher);
}

unsigned queue_failures(const struct queue *q, const char *key)
{
    const struct item *i = find(q, key);
    return i == NULL ? 0 : i->failures;
}

enum queue_place queue_place(const struct queue *q, const char *key)
{
    dispatch_lock(q->dispatcher);
    const struct item *i = find(q, key);
    enum queue_place place = i == NULL    ? QUEUE_ELSEWHERE
                             : i->waiting ? QUEUE_WAITING
                             : i->active  ? QUEUE_ACTIVE
                                          : QUEUE_ELSEWHERE;
    dispatch_unlock(q->dispatcher);
    return place;
}

bool queue_has_ready_locked(const struct queue *q)
{
    return !q->shut && q->gate != GATE_SHUT && !TAILQ_EMPTY(&q->order) &&
           (q->max_active == 0 || q->active < (size_t)q->max_active);
}

bool queue_is_tried_locked(const struct queue *q)
{
    return q->gate == GATE_ONE;
}

// The pass that was let through has told what it can, or never will. The lock is held; true: others may go
// on.
static bool end_trial(struct queue *q)
{
    if (!q->on_trial)
        return false;
    q->on_trial = false;
    dispatch_trial_ended_locked(q->dispatcher);
    return true;
}

const char *queue_pop_locked(struct queue *q)
{
    if (!queue_has_ready_locked(q))
        return NULL;
    struct item *i = TAILQ_FIRST(&q->order);
    TAILQ_REMOVE(&q->order, i, order);
    i->waiting = false;
    i->active = true;
    i->taken_us = now_us(q);
    if (q->gate == GATE_ONE) {
        q->gate = GATE_SHUT;
        q->on_trial = true;
    }
    q->depth--;
    q->active++;
    series_set(q->m.active, (double)q->active);
    series_set(q->m.depth, (double)q->depth);
    series_observe(q->m.wait, (double)(i->taken_us - i->added_us) / 1e6);
    return i->key;
}

void queue_done(struct queue *q, const char *key)
{
    dispatch_lock(q->dispatcher);
    struct item *i = find(q, key);
    ASSERT(i != NULL && i->active);
    i->active = false;
    if (--q->active == 0)
        end_trial(q);
    series_set(q->m.active, (double)q->active);
    series_observe(q->m.work, (double)(now_us(q) - i->taken_us) / 1e6);
    bool again = i->dirty && !q->shut;
    i->dirty = false;
    if (again)
        put_in_order(q, i);
    else
        drop_if_idle(q, i);
    dispatch_ready_locked(q->dispatcher, q); // max_active may have held keys back
    bool drained = q->shut && q->active == 0 && q->on_drained != NULL;
    dispatch_unlock(q->dispatcher);
    dispatch_wake(q->dispatcher);
    if (drained)
        q->on_drained(q->drained_ud);
}

void queue_set_limiter(struct queue *q, const struct limiter *l, int max_active)
{
    dispatch_lock(q->dispatcher);
    q->limiter = *l;
    q->max_active = max_active;
    dispatch_ready_locked(q->dispatcher, q);
    dispatch_unlock(q->dispatcher);
    dispatch_wake(q->dispatcher);
}

static void set_gate(struct queue *q, enum gate gate)
{
    dispatch_lock(q->dispatcher);
    bool ended = end_trial(q);
    q->gate = gate;
    dispatch_ready_locked(q->dispatcher, q);
    dispatch_unlock(q->dispatcher);
    if (ended || gate != GATE_SHUT)
        dispatch_wake(q->dispatcher);
}

static void on_gate_timer(void *ud)
{
    struct queue *q = ud;
    set_gate(q, q->gate_next);
}

void queue_hold(struct queue *q, uint64_t until_ms, bool one)
{
    uint64_t now = loop_now_ms(q->loop);
    q->gate_next = one ? GATE_ONE : GATE_OPEN;
    loop_timer_stop(q->gate_timer);
    set_gate(q, until_ms > now ? GATE_SHUT : q->gate_next);
    if (until_ms > now && until_ms != UINT64_MAX)
        loop_timer_start(q->gate_timer, until_ms - now);
}

void queue_release(struct queue *q)
{
    loop_timer_stop(q->gate_timer);
    if (queue_is_held(q))
        set_gate(q, GATE_OPEN);
}

bool queue_is_held(const struct queue *q)
{
    dispatch_lock(q->dispatcher);
    bool held = q->gate != GATE_OPEN;
    dispatch_unlock(q->dispatcher);
    return held;
}

void queue_put_first(struct queue *q, const char *key)
{
    dispatch_lock(q->dispatcher);
    struct item *i = find(q, key);
    if (i != NULL && i->waiting) {
        TAILQ_REMOVE(&q->order, i, order);
        TAILQ_INSERT_HEAD(&q->order, i, order);
    }
    dispatch_unlock(q->dispatcher);
}

size_t queue_depth(const struct queue *q)
{
    dispatch_lock(q->dispatcher);
    size_t n = q->depth;
    dispatch_unlock(q->dispatcher);
    return n;
}

size_t queue_active(const struct queue *q)
{
    dispatch_lock(q->dispatcher);
    size_t n = q->active;
    dispatch_unlock(q->dispatcher);
    return n;
}

void queue_shut(struct queue *q, void (*on_drained)(void *ud), void *ud)
{
    dispatch_lock(q->dispatcher);
    q->shut = true;
    q->on_drained = on_drained;
    q->drained_ud = ud;
    dispatch_forget_locked(q->dispatcher, q);
    bool idle = q->active == 0, ended = end_trial(q);
    dispatch_unlock(q->dispatcher);
    if (ended)
        dispatch_wake(q->dispatcher);
    loop_timer_stop(q->timer);
    if (idle && on_drained != NULL)
        loop_defer(q->loop, on_drained, ud);
}
