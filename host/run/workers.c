#include "run/workers.h"

#include <pthread.h>
#include <signal.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "run/queue.h"

struct worker {
    struct workers *set;
    struct pass_runner *runner;
    pthread_t thread;
};

struct workers {
    struct workers_options o;
    struct dispatcher *dispatcher;
    struct watchdog *watchdog; // NULL inline
    struct worker *workers;
    unsigned count;
    bool started, turn_waits;
};

// The outcome's way back: it runs on the loop.
static void deliver(struct message *m)
{
    struct outcome *o = (struct outcome *)m; // message is its first member
    o->deliver(o);
}

static void process(struct worker *w, const struct dispatch_item *item)
{
    if (item->task != NULL) {
        item->task->run(item->task, w);
        return;
    }
    struct outcome *o = xcalloc(1, sizeof *o);
    o->owner = queue_owner(item->queue);
    o->deliver = w->set->o.on_outcome;
    o->message.run = deliver;
    pass_job_run(w->set->o.env, w->runner, w->set->o.view(o->owner), item->key, o);
    loop_post(w->set->o.loop, &o->message);
}

static void *thread_main(void *ud)
{
    struct worker *w = ud;
    struct dispatch_item item;
    w->runner = pass_runner_new(w->set->watchdog);
    while (dispatch_take(w->set->dispatcher, &item))
        process(w, &item);
    pass_runner_free(w->runner);
    return NULL;
}

static void inline_turn(void *ud);

static void on_ready(void *ud)
{
    struct workers *s = ud;
    if (!s->started || s->turn_waits)
        return;
    s->turn_waits = true;
    loop_defer(s->o.loop, inline_turn, s);
}

static void inline_turn(void *ud)
{
    struct workers *s = ud;
    struct dispatch_item item;
    s->turn_waits = false;
    if (!dispatch_try_take(s->dispatcher, &item))
        return;
    process(&s->workers[0], &item);
    on_ready(s); // there may be more
}

struct workers *workers_new(const struct workers_options *o)
{
    struct workers *s = xcalloc(1, sizeof *s);
    s->o = *o;
    s->count = o->threads == 0 ? 1 : o->threads;
    s->workers = xcalloc(s->count, sizeof s->workers[0]);
    for (unsigned i = 0; i < s->count; i++)
        s->workers[i].set = s;
    s->dispatcher = dispatch_new(o->threads == 0 ? on_ready : NULL, s);
    return s;
}

struct dispatcher *workers_dispatcher(struct workers *w)
{
    return w->dispatcher;
}

static void start_threads(struct workers *s)
{
    sigset_t process, old;
    pthread_attr_t attr;
    s->watchdog = watchdog_new();
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 1 << 20);
    sigemptyset(&process); // signals to the process are the loop's
    sigaddset(&process, SIGTERM);
    sigaddset(&process, SIGINT);
    sigaddset(&process, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &process, &old);
    for (unsigned i = 0; i < s->count; i++) {
        int r = pthread_create(&s->workers[i].thread, &attr, thread_main, &s->workers[i]);
        ASSERT(r == 0);
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    pthread_attr_destroy(&attr);
}

void workers_start(struct workers *s)
{
    s->started = true;
    if (s->o.threads > 0) {
        start_threads(s);
        return;
    }
    s->workers[0].runner = pass_runner_new(NULL);
    on_ready(s);
}

void workers_stop(struct workers *s)
{
    dispatch_shut(s->dispatcher);
    if (!s->started)
        return;
    s->started = false;
    for (unsigned i = 0; s->o.threads > 0 && i < s->count; i++)
        pthread_join(s->workers[i].thread, NULL);
    if (s->o.threads == 0)
        pass_runner_free(s->workers[0].runner);
}

void workers_free(struct workers *s)
{
    if (s == NULL)
        return;
    workers_stop(s);
    watchdog_free(s->watchdog);
    dispatch_free(s->dispatcher);
    free(s->workers);
    free(s);
}

struct pass_runner *worker_runner(void *worker)
{
    return ((struct worker *)worker)->runner;
}
