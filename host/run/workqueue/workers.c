#include "run/workqueue/workers.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <time.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/log.h"
#include "run/workqueue/queue.h"

enum {
    STACK_BYTES = 1 << 20,
    STUCK_MS = 1000, // the watchdog waits longer: what has begun since is another item
};

struct worker {
    struct workers *set;
    pthread_t thread;
    bool canceled; // atomic: given up
    // Written by the thread under the set's lock; the item may be read by itself without.
    struct pass_runner *runner;
    uint64_t serial; // of the item
    uint64_t begun_ms;
    bool busy;
    struct dispatch_item item;
    struct outcome *outcome; // of a key
    bool ended;
    LIST_ENTRY(worker) link;
};
LIST_HEAD(worker_list, worker);

struct workers {
    unsigned refs; // atomic: the owner, and each note under way
    struct workers_options o;
    struct dispatcher *dispatcher;
    struct watchdog *watchdog;     // NULL inline
    pthread_mutex_t lock;          // after the dispatcher's and the watchdog's, never around them
    struct worker_list live, lost; // changed by the loop under the lock
    struct series *lost_total;
    unsigned count;
    bool started, turn_waits;
};

static void unref(struct workers *s)
{
    if (__atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    pthread_mutex_destroy(&s->lock);
    free(s);
}

static const struct metric_def def_lost = {
    "tidelock_workers_lost_total", "Workers that were stuck in a pass and given up.", METRIC_COUNTER, ""};

static uint64_t real_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

// ---- one item

// The outcome's way back: it runs on the loop.
static void deliver(struct message *m)
{
    struct outcome *o = (struct outcome *)m; // message is its first member
    o->deliver(o);
}

static void begin_item(struct worker *w, const struct dispatch_item *item, struct outcome *o)
{
    pthread_mutex_lock(&w->set->lock);
    w->serial++;
    w->begun_ms = real_ms();
    w->busy = true;
    w->item = *item;
    w->outcome = o;
    pthread_mutex_unlock(&w->set->lock);
}

// From here on the worker can not be given up for this item.
static void end_item(struct worker *w)
{
    pthread_mutex_lock(&w->set->lock);
    w->busy = false;
    pthread_mutex_unlock(&w->set->lock);
}

static void process_task(struct worker *w, const struct dispatch_item *item)
{
    begin_item(w, item, NULL);
    item->task->run(item->task, w);
    end_item(w);
    loop_post(w->set->o.loop, &item->task->message);
}

static void process_key(struct worker *w, const struct dispatch_item *item)
{
    struct workers *s = w->set;
    struct outcome *o = xcalloc(1, sizeof *o);
    uint64_t start_us = clock_thread_cpu_us();
    o->owner = queue_owner(item->queue);
    o->deliver = s->o.on_outcome;
    o->message.run = deliver;
    o->canceled = &w->canceled;
    begin_item(w, item, o);
    pass_job_run(s->o.env, w->runner, s->o.view(o->owner), item->key, o);
    o->spent_us = s->o.threads == 0 ? o->cpu_us : clock_thread_cpu_us() - start_us;
    end_item(w);
    if (__atomic_load_n(&w->canceled, __ATOMIC_ACQUIRE))
        o->deliver = outcome_free; // another one was told instead
    loop_post(s->o.loop, &o->message);
}

static void process(struct worker *w, const struct dispatch_item *item)
{
    if (item->task != NULL)
        process_task(w, item);
    else
        process_key(w, item);
}

// ---- threads

static void *thread_main(void *ud)
{
    struct worker *w = ud;
    struct workers *s = w->set;
    struct dispatch_item item;
    struct pass_runner *runner = pass_runner_new(s->watchdog);
    pthread_mutex_lock(&s->lock);
    w->runner = runner;
    pthread_mutex_unlock(&s->lock);
    while (!__atomic_load_n(&w->canceled, __ATOMIC_ACQUIRE) && dispatch_take(s->dispatcher, &item))
        process(w, &item);
    pthread_mutex_lock(&s->lock);
    w->runner = NULL;
    pthread_mutex_unlock(&s->lock);
    pass_runner_free(runner);
    pthread_mutex_lock(&s->lock);
    w->ended = true;
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void add_worker(struct workers *s, struct worker *w)
{
    pthread_mutex_lock(&s->lock);
    LIST_INSERT_HEAD(&s->live, w, link);
    pthread_mutex_unlock(&s->lock);
}

static int start_thread(struct workers *s)
{
    sigset_t process_signals, old;
    pthread_attr_t attr;
    struct worker *w = xcalloc(1, sizeof *w);
    w->set = s;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    sigemptyset(&process_signals); // signals to the process are the loop's
    sigaddset(&process_signals, SIGTERM);
    sigaddset(&process_signals, SIGINT);
    sigaddset(&process_signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &process_signals, &old);
    int r = pthread_create(&w->thread, &attr, thread_main, w);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
    if (r == 0)
        add_worker(s, w);
    else
        free(w);
    return r;
}

// ---- stuck ones

struct stuck_note { // from the watchdog to the loop
    struct message message;
    struct workers *set;         // +1
    const struct worker *worker; // which may be gone by then
    uint64_t serial;
};

// The pass did not end: its key is given back by an outcome of its own. Of the stuck one only what was
// written before the script began is read.
static void give_up_key(struct workers *s, const struct outcome *stuck)
{
    struct outcome *o = xcalloc(1, sizeof *o);
    o->owner = stuck->owner;
    o->key = xstrdup(stuck->key);
    o->kind = OUTCOME_FAILED;
    o->view = controller_view_ref(stuck->view);
    o->subject = object_ref(stuck->subject);
    o->revision = stuck->revision;
    o->end = PASS_CANCELED;
    o->finalizing = stuck->finalizing;
    o->leaving = stuck->leaving;
    o->start_us = stuck->start_us;
    o->stuck = true;
    err_set(&o->err, ERR_CANCELED,
            "the pass is stuck in a function that does not end; its worker was given up after %llu s",
            (unsigned long long)((clock_now_us(s->o.env->clock) - o->start_us) / 1000000));
    s->o.on_outcome(o);
}

// The worker, if it is still in that item, as one that is lost; or NULL.
static struct worker *take_lost(struct workers *s, const struct stuck_note *n)
{
    struct worker *w;
    pthread_mutex_lock(&s->lock);
    LIST_FOREACH (w, &s->live, link) {
        if (w == n->worker)
            break;
    }
    if (w != NULL && (!w->busy || w->serial != n->serial))
        w = NULL;
    if (w != NULL) {
        __atomic_store_n(&w->canceled, true, __ATOMIC_RELEASE);
        LIST_REMOVE(w, link);
        LIST_INSERT_HEAD(&s->lost, w, link);
    }
    pthread_mutex_unlock(&s->lock);
    return w;
}

static void give_up(struct workers *s, const struct worker *w)
{
    log_error("a worker is stuck in a pass and was given up", F_INT("stuck", (int64_t)workers_stuck(s)));
    if (s->lost_total != NULL)
        series_inc(s->lost_total);
    if (start_thread(s) != 0)
        log_error("no thread could be started in its place", F_STR("error", "too many threads"));
    if (w->item.task != NULL)
        w->item.task->give_up(w->item.task);
    else
        give_up_key(s, w->outcome);
}

static void on_stuck_note(struct message *m)
{
    struct stuck_note *n = (struct stuck_note *)m;
    struct workers *s = n->set;
    const struct worker *w = take_lost(s, n);
    if (w != NULL)
        give_up(s, w);
    free(n);
    unref(s);
}

// The watchdog's thread.
static void on_stuck(void *ud, struct budget *b)
{
    struct workers *s = ud;
    struct worker *w;
    struct stuck_note *n = NULL;
    pthread_mutex_lock(&s->lock);
    LIST_FOREACH (w, &s->live, link) {
        if (w->runner == NULL || pass_runner_budget(w->runner) != b)
            continue;
        if (w->busy && real_ms() - w->begun_ms > STUCK_MS) {
            n = xcalloc(1, sizeof *n);
            *n = (struct stuck_note){{NULL, on_stuck_note}, s, w, w->serial};
            __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
        }
        break;
    }
    pthread_mutex_unlock(&s->lock);
    if (n != NULL)
        loop_post(s->o.loop, &n->message);
}

unsigned workers_stuck(const struct workers *w)
{
    struct workers *s = (struct workers *)w;
    const struct worker *each;
    unsigned n = 0;
    pthread_mutex_lock(&s->lock);
    LIST_FOREACH (each, &s->lost, link) {
        n += !each->ended;
    }
    pthread_mutex_unlock(&s->lock);
    return n;
}

// ---- news for the workers

static void inline_turn(struct workers *s);

static void on_turn(void *ud)
{
    struct workers *s = ud;
    s->turn_waits = false;
    if (s->o.threads > 0)
        dispatch_signal(s->dispatcher);
    else
        inline_turn(s);
}

// Once for all that the loop adds in one turn: waking a thread costs more than adding a key.
static void on_ready(void *ud)
{
    struct workers *s = ud;
    if (!s->started || s->turn_waits)
        return;
    s->turn_waits = true;
    loop_defer(s->o.loop, on_turn, s);
}

static void inline_turn(struct workers *s)
{
    struct dispatch_item item;
    if (!dispatch_try_take(s->dispatcher, &item))
        return;
    process(LIST_FIRST(&s->live), &item);
    on_ready(s); // there may be more
}

// ---- life

struct workers *workers_new(const struct workers_options *o)
{
    struct workers *s = xcalloc(1, sizeof *s);
    s->refs = 1;
    s->o = *o;
    s->count = o->threads == 0 ? 1 : o->threads;
    pthread_mutex_init(&s->lock, NULL);
    LIST_INIT(&s->live);
    LIST_INIT(&s->lost);
    if (o->metrics != NULL)
        s->lost_total = metric_series(metrics_add(o->metrics, &def_lost));
    s->dispatcher = dispatch_new(on_ready, s);
    return s;
}

struct dispatcher *workers_dispatcher(struct workers *w)
{
    return w->dispatcher;
}

void workers_start(struct workers *s)
{
    s->started = true;
    if (s->o.threads > 0) {
        s->watchdog = watchdog_new();
        watchdog_on_stuck(s->watchdog, on_stuck, s);
        for (unsigned i = 0; i < s->count; i++)
            ASSERT(start_thread(s) == 0);
        return;
    }
    struct worker *w = xcalloc(1, sizeof *w);
    w->set = s;
    w->runner = pass_runner_new(NULL);
    add_worker(s, w);
    on_ready(s);
}

// Waits for all of the list that have ended or will, and frees them.
static void join_all(struct workers *s, struct worker_list *list, bool only_ended)
{
    struct worker *w, *next;
    for (w = LIST_FIRST(list); w != NULL; w = next) {
        next = LIST_NEXT(w, link);
        pthread_mutex_lock(&s->lock);
        bool skip = only_ended && !w->ended;
        if (!skip)
            LIST_REMOVE(w, link); // the watchdog does not find it any more
        pthread_mutex_unlock(&s->lock);
        if (skip)
            continue;
        if (s->o.threads > 0)
            pthread_join(w->thread, NULL);
        else
            pass_runner_free(w->runner);
        free(w);
    }
}

void workers_stop(struct workers *s)
{
    dispatch_shut(s->dispatcher);
    if (!s->started)
        return;
    s->started = false;
    join_all(s, &s->live, false);
}

void workers_free(struct workers *s)
{
    if (s == NULL)
        return;
    workers_stop(s);
    join_all(s, &s->lost, true);
    if (!LIST_EMPTY(&s->lost))
        return; // see the header
    watchdog_free(s->watchdog);
    dispatch_free(s->dispatcher);
    unref(s);
}

struct pass_runner *worker_runner(void *worker)
{
    return ((struct worker *)worker)->runner;
}
