// The real loop: libevent waits for file descriptors, signals and wake-ups; messages and timers are our own
// (loop_impl.h).
#include <event2/event.h>
#include <event2/thread.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "io/loop_impl.h"
#include "io/loop_rest.h"

enum { MESSAGES_A_TURN = 256, LAG_PROBE_MS = 100 };

struct signal_handler {
    SLIST_ENTRY(signal_handler) entry;
    struct event *event;
    void (*fn)(void *ud, int signo);
    void *ud;
};

struct loop_fd {
    struct event *read;
    struct event *write;
    int want;
    void (*fn)(void *ud, int what);
    void *ud;
};

struct real_loop {
    struct loop loop;
    struct event_base *base;
    struct event *wake_event;
    struct event *due_event;
    int due_fd;        // a timerfd: libevent would set one anew for each wait
    uint64_t armed_us; // when due_fd ends a wait; UINT64_MAX: not at all
    struct loop_rest rest;
    unsigned done; // since the last wait
    SLIST_HEAD(, signal_handler) signals;
    struct loop_timer *lag_probe;
    uint64_t lag_due_us;
    uint64_t lag_worst_us;
};

static struct real_loop *real(struct loop *l)
{
    return (struct real_loop *)l;
}

// Sees to it that the next wait ends by `due`. It may end earlier, for a timer that is stopped by then: that
// costs less than setting due_fd each time.
static void arm(struct real_loop *r, uint64_t due, uint64_t now)
{
    if (r->armed_us <= due && r->armed_us > now)
        return;
    uint64_t wait = due - now;
    const uint64_t longest = UINT64_C(3600) * 1000000;
    if (wait > longest)
        wait = longest;
    struct itimerspec at = {
        .it_value = {.tv_sec = (time_t)(wait / 1000000), .tv_nsec = (long)(wait % 1000000) * 1000}};
    ASSERT(timerfd_settime(r->due_fd, 0, &at, NULL) == 0);
    r->armed_us = now + wait;
}

static void sleep_us(uint64_t us)
{
    struct timespec t = {(time_t)(us / 1000000), (long)(us % 1000000) * 1000};
    nanosleep(&t, NULL); // a signal ends it early
}

static void run_messages(struct real_loop *r)
{
    for (int i = 0; loop_fill_ready(&r->loop) && i < MESSAGES_A_TURN; i++, r->done++)
        loop_run_ready(&r->loop);
}

static void turn(struct real_loop *r)
{
    struct loop *l = &r->loop;
    run_messages(r);
    loop_run_due(l);

    uint64_t due = loop_next_due_us(l);
    uint64_t now = clock_now_us(l->clock);
    bool is_due = due <= now || loop_fill_ready(l) || atomic_load(&l->stopping);
    uint64_t rest = is_due ? 0 : loop_rest_before_wait(&r->rest, now, due, r->done);
    if (rest > 0)
        sleep_us(rest);
    if (!is_due)
        r->done = 0;
    int flags = EVLOOP_ONCE | EVLOOP_NO_EXIT_ON_EMPTY;
    if (is_due || now + rest >= due)
        flags |= EVLOOP_NONBLOCK;
    else
        arm(r, due, now + rest);
    event_base_loop(r->base, flags);
}

static void real_run(struct loop *l)
{
    while (!atomic_load(&l->stopping))
        turn(real(l));
}

static void real_wake(struct loop *l)
{
    // The loop thread looks into the box before it waits.
    if (atomic_load_explicit(&l->runner, memory_order_relaxed) == 0 || !loop_is_current(l))
        event_active(real(l)->wake_event, EV_READ, 0);
}

static void on_wake(evutil_socket_t fd, short what, void *ud)
{
    (void)fd, (void)what, (void)ud;
}

static void on_due(evutil_socket_t fd, short what, void *ud)
{
    struct real_loop *r = ud;
    (void)fd, (void)what; // edge-triggered: there is nothing to read
    r->armed_us = UINT64_MAX;
}

static void start_lag_probe(struct real_loop *r)
{
    r->lag_due_us = clock_now_us(r->loop.clock) + LAG_PROBE_MS * 1000;
    loop_timer_start(r->lag_probe, LAG_PROBE_MS);
}

static void on_lag_probe(void *ud)
{
    struct real_loop *r = ud;
    uint64_t late = clock_now_us(r->loop.clock) - r->lag_due_us;
    if (late > r->lag_worst_us)
        r->lag_worst_us = late;
    start_lag_probe(r);
}

static void real_free(struct loop *l)
{
    struct real_loop *r = real(l);
    while (!SLIST_EMPTY(&r->signals)) {
        struct signal_handler *s = SLIST_FIRST(&r->signals);
        SLIST_REMOVE_HEAD(&r->signals, entry);
        event_free(s->event);
        free(s);
    }
    loop_timer_free(r->lag_probe);
    event_free(r->wake_event);
    event_free(r->due_event);
    close(r->due_fd);
    event_base_free(r->base);
    loop_fini(l);
    free(r);
}

static const struct loop_ops real_ops = {real_run, real_wake, real_free};

static void set_up_process(void)
{
    evthread_use_pthreads();
    signal(SIGPIPE, SIG_IGN); // a peer that closes is an error of write()
}

static struct event_base *base_new(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, set_up_process);
    struct event_base *base = event_base_new();
    ASSERT(base != NULL);
    return base;
}

struct loop *loop_real_new(struct clock *clock)
{
    struct real_loop *r = xcalloc(1, sizeof(*r));
    loop_init(&r->loop, &real_ops, clock);
    r->base = base_new();
    r->wake_event = event_new(r->base, -1, 0, on_wake, r);
    r->due_fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
    ASSERT(r->due_fd >= 0);
    r->due_event = event_new(r->base, r->due_fd, EV_READ | EV_PERSIST | EV_ET, on_due, r);
    ASSERT(r->wake_event != NULL && r->due_event != NULL && event_add(r->due_event, NULL) == 0);
    r->armed_us = UINT64_MAX;
    SLIST_INIT(&r->signals);
    r->lag_probe = loop_timer_new(&r->loop, on_lag_probe, r);
    start_lag_probe(r);
    return &r->loop;
}

struct event_base *loop_event_base(struct loop *l)
{
    ASSERT(l->ops == &real_ops);
    return real(l)->base;
}

uint64_t loop_lag_us(struct loop *l)
{
    ASSERT(l->ops == &real_ops);
    uint64_t worst = real(l)->lag_worst_us;
    real(l)->lag_worst_us = 0;
    return worst;
}

void loop_did(struct loop *l)
{
    if (l->ops == &real_ops)
        real(l)->done++;
}

static void on_signal(evutil_socket_t signo, short what, void *ud)
{
    struct signal_handler *s = ud;
    (void)what;
    s->fn(s->ud, (int)signo);
}

void loop_on_signal(struct loop *l, int signo, void (*fn)(void *ud, int signo), void *ud)
{
    struct signal_handler *s = xcalloc(1, sizeof(*s));
    s->fn = fn;
    s->ud = ud;
    s->event = evsignal_new(loop_event_base(l), signo, on_signal, s);
    ASSERT(s->event != NULL && event_add(s->event, NULL) == 0);
    SLIST_INSERT_HEAD(&real(l)->signals, s, entry);
}

static void on_fd(evutil_socket_t fd, short what, void *ud)
{
    struct loop_fd *f = ud;
    (void)fd;
    f->fn(f->ud, what & EV_READ ? LOOP_READ : LOOP_WRITE); // may free f
}

struct loop_fd *loop_fd_new(struct loop *l, int fd, void (*fn)(void *ud, int what), void *ud)
{
    struct loop_fd *f = xcalloc(1, sizeof(*f));
    f->fn = fn;
    f->ud = ud;
    f->read = event_new(loop_event_base(l), fd, EV_READ | EV_PERSIST, on_fd, f);
    f->write = event_new(loop_event_base(l), fd, EV_WRITE | EV_PERSIST, on_fd, f);
    ASSERT(f->read != NULL && f->write != NULL);
    return f;
}

static void set_want(struct event *e, bool on)
{
    int failed = on ? event_add(e, NULL) : event_del(e);
    DASSERT(failed == 0);
    (void)failed;
}

void loop_fd_want(struct loop_fd *f, int what)
{
    int changed = f->want ^ what;
    f->want = what;
    if (changed & LOOP_READ)
        set_want(f->read, what & LOOP_READ);
    if (changed & LOOP_WRITE)
        set_want(f->write, what & LOOP_WRITE);
}

void loop_fd_free(struct loop_fd *f)
{
    if (f == NULL)
        return;
    event_free(f->read);
    event_free(f->write);
    free(f);
}
