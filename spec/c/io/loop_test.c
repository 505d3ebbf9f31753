// ctest-labels: thread
#include "io/loop.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"

// What ran, as text: each thing adds its letter.
struct trace {
    struct loop *loop;
    char text[256];
    size_t len;
};

static void trace_add(struct trace *t, char c)
{
    assert_true(t->len + 1 < sizeof(t->text));
    t->text[t->len++] = c;
    t->text[t->len] = '\0';
}

struct note {
    struct message message;
    struct trace *trace;
    char letter;
    bool stop;
};

static void run_note(struct message *m)
{
    struct note *n = (struct note *)m;
    trace_add(n->trace, n->letter);
    if (n->stop)
        loop_stop(n->trace->loop);
    free(n);
}

static void post(struct trace *t, char letter, bool stop)
{
    struct note *n = xmalloc(sizeof(*n));
    *n = (struct note){.message.run = run_note, .trace = t, .letter = letter, .stop = stop};
    loop_post(t->loop, &n->message);
}

static struct trace trace_virtual(void)
{
    return (struct trace){.loop = loop_new(clock_virtual_new(1000))};
}

static struct trace trace_real(void)
{
    return (struct trace){.loop = loop_new(clock_real())};
}

static void trace_free(struct trace *t)
{
    struct clock *c = loop_clock(t->loop);
    loop_free(t->loop);
    clock_free(c);
}

struct tick {
    struct trace *trace;
    struct loop_timer *timer;
    char letter;
    int again; // how many times it starts itself again
    uint64_t again_ms;
    bool free_itself;
    bool stop;
};

static void on_tick(void *ud)
{
    struct tick *k = ud;
    trace_add(k->trace, k->letter);
    if (k->again-- > 0)
        loop_timer_start(k->timer, k->again_ms);
    if (k->free_itself) {
        loop_timer_free(k->timer);
        k->timer = NULL;
    }
    if (k->stop)
        loop_stop(k->trace->loop);
}

static void tick_start(struct tick *k, struct trace *t, char letter, uint64_t ms)
{
    k->trace = t;
    k->letter = letter;
    k->timer = loop_timer_new(t->loop, on_tick, k);
    loop_timer_start(k->timer, ms);
}

static void test_virtual_order(void **state)
{
    (void)state;
    struct trace t = trace_virtual();
    struct tick a = {0}, b = {0}, c = {0}, d = {0};
    tick_start(&a, &t, 'a', 20);
    tick_start(&b, &t, 'b', 10);
    tick_start(&c, &t, 'c', 10);
    tick_start(&d, &t, 'd', 30);
    post(&t, '1', false);
    post(&t, '2', false);
    assert_int_equal(loop_run_until(t.loop, 20), 5);
    assert_string_equal(t.text, "12bca");
    assert_int_equal(loop_now_ms(t.loop), 20);
    assert_true(loop_timer_active(d.timer));
    assert_int_equal(loop_run_until(t.loop, 25), 0);
    assert_int_equal(loop_now_ms(t.loop), 25);
    assert_int_equal(loop_run_until(t.loop, 1000), 1);
    assert_int_equal(loop_now_ms(t.loop), 1000);
    loop_timer_free(a.timer);
    loop_timer_free(b.timer);
    loop_timer_free(c.timer);
    loop_timer_free(d.timer);
    trace_free(&t);
}

static void test_virtual_step(void **state)
{
    (void)state;
    struct trace t = trace_virtual();
    struct tick a = {.again = 2, .again_ms = 5};
    tick_start(&a, &t, 'a', 5);
    post(&t, '1', false);
    assert_true(loop_step(t.loop, 4));
    assert_false(loop_step(t.loop, 4)); // the timer is due at 5
    assert_int_equal(loop_now_ms(t.loop), 0);
    assert_true(loop_step(t.loop, 5));
    assert_int_equal(loop_now_ms(t.loop), 5);
    assert_true(loop_step(t.loop, UINT64_MAX));
    assert_true(loop_step(t.loop, UINT64_MAX));
    assert_false(loop_step(t.loop, UINT64_MAX));
    assert_int_equal(loop_now_ms(t.loop), 15);
    assert_string_equal(t.text, "1aaa");
    loop_timer_free(a.timer);
    trace_free(&t);
}

static void test_virtual_run_ends_with_nothing_left(void **state)
{
    (void)state;
    struct trace t = trace_virtual();
    struct tick a = {0};
    tick_start(&a, &t, 'a', 3600000);
    loop_run(t.loop);
    assert_string_equal(t.text, "a");
    assert_int_equal(loop_now_ms(t.loop), 3600000);
    loop_timer_free(a.timer);
    trace_free(&t);
}

static void test_timer_stop_restart_free(void **state)
{
    (void)state;
    struct trace t = trace_virtual();
    struct tick a = {0}, b = {0}, c = {.free_itself = true};
    tick_start(&a, &t, 'a', 10);
    tick_start(&b, &t, 'b', 10);
    tick_start(&c, &t, 'c', 15);
    loop_timer_stop(a.timer);
    loop_timer_stop(a.timer);
    assert_false(loop_timer_active(a.timer));
    loop_timer_start(b.timer, 20); // instead of 10
    loop_run_until(t.loop, 100);
    assert_string_equal(t.text, "cb");
    assert_null(c.timer);
    loop_timer_free(a.timer);
    loop_timer_free(b.timer);
    loop_timer_free(NULL);
    trace_free(&t);
}

// Many timers with pseudo-random times run in order of time, equal ones in order of starting.
struct ordered {
    struct loop *loop;
    struct loop_timer *timer;
    uint64_t due;
    int number;
    struct ordered **last;
};

static void on_ordered(void *ud)
{
    struct ordered *o = ud;
    const struct ordered *before = *o->last;
    if (before != NULL)
        assert_true(before->due < o->due || (before->due == o->due && before->number < o->number));
    assert_int_equal(loop_now_ms(o->loop), o->due);
    *o->last = o;
}

static void test_many_timers(void **state)
{
    (void)state;
    enum { COUNT = 2000 };
    static struct ordered all[COUNT];
    struct trace t = trace_virtual();
    struct ordered *last = NULL;
    uint32_t x = 12345;
    for (int i = 0; i < COUNT; i++) {
        x = x * 1664525 + 1013904223;
        all[i] = (struct ordered){t.loop, NULL, x >> 24, i, &last};
        all[i].timer = loop_timer_new(t.loop, on_ordered, &all[i]);
        loop_timer_start(all[i].timer, all[i].due);
    }
    for (int i = 0; i < COUNT; i += 3)
        loop_timer_stop(all[i].timer);
    assert_int_equal(loop_run_until(t.loop, 1000), COUNT - (COUNT + 2) / 3);
    for (int i = 0; i < COUNT; i++)
        loop_timer_free(all[i].timer);
    trace_free(&t);
}

static void on_defer_inner(void *ud)
{
    trace_add(ud, 'i');
}

static void on_defer(void *ud)
{
    struct trace *t = ud;
    loop_defer(t->loop, on_defer_inner, t);
    trace_add(t, 'o'); // the inner one has not run
}

static void test_defer_is_not_reentrant(void **state)
{
    (void)state;
    struct trace t = trace_virtual();
    loop_defer(t.loop, on_defer, &t);
    post(&t, '1', false);
    assert_string_equal(t.text, "");
    loop_run_until(t.loop, 0);
    assert_string_equal(t.text, "o1i");
    loop_defer(t.loop, on_defer, &t); // dropped
    post(&t, '2', false);             // run by loop_free
    struct clock *c = loop_clock(t.loop);
    loop_free(t.loop);
    clock_free(c);
    assert_string_equal(t.text, "o1i2");
}

static void test_stop_ends_run_until(void **state)
{
    (void)state;
    struct trace t = trace_virtual();
    struct tick a = {.stop = true}, b = {0};
    tick_start(&a, &t, 'a', 10);
    tick_start(&b, &t, 'b', 20);
    loop_run_until(t.loop, 100);
    assert_string_equal(t.text, "a");
    assert_int_equal(loop_now_ms(t.loop), 10);
    loop_run_until(t.loop, 100);
    assert_string_equal(t.text, "ab");
    loop_timer_free(a.timer);
    loop_timer_free(b.timer);
    trace_free(&t);
}

static void test_real_timers_and_messages(void **state)
{
    (void)state;
    struct trace t = trace_real();
    struct tick a = {0}, b = {.stop = true}, c = {.again = 3};
    tick_start(&b, &t, 'b', 20);
    tick_start(&a, &t, 'a', 10);
    tick_start(&c, &t, 'c', 0);
    uint64_t start = loop_now_ms(t.loop);
    post(&t, '1', false);
    loop_run(t.loop);
    assert_string_equal(t.text, "1ccccab");
    assert_true(loop_now_ms(t.loop) - start >= 20);
    loop_timer_free(a.timer);
    loop_timer_free(b.timer);
    loop_timer_free(c.timer);
    trace_free(&t);
}

enum { POSTERS = 4, POSTS = 3000 };

struct poster {
    struct trace *trace;
    pthread_t thread;
    int number;
    int next; // what the reader expects
    int *left;
};

struct numbered {
    struct message message;
    struct poster *poster;
    int number;
};

static void run_numbered(struct message *m)
{
    struct numbered *n = (struct numbered *)m;
    assert_true(loop_is_current(n->poster->trace->loop));
    assert_int_equal(n->number, n->poster->next);
    n->poster->next++;
    if (--*n->poster->left == 0)
        loop_stop(n->poster->trace->loop);
    free(n);
}

static void *post_many(void *ud)
{
    struct poster *p = ud;
    for (int i = 0; i < POSTS; i++) {
        struct numbered *n = xmalloc(sizeof(*n));
        *n = (struct numbered){{NULL, run_numbered}, p, i};
        loop_post(p->trace->loop, &n->message);
    }
    return NULL;
}

static void test_real_posts_of_threads(void **state)
{
    (void)state;
    struct trace t = trace_real();
    struct poster posters[POSTERS];
    int left = POSTERS * POSTS;
    for (int i = 0; i < POSTERS; i++) {
        posters[i] = (struct poster){.trace = &t, .number = i, .left = &left};
        assert_int_equal(pthread_create(&posters[i].thread, NULL, post_many, &posters[i]), 0);
    }
    loop_run(t.loop);
    for (int i = 0; i < POSTERS; i++) {
        pthread_join(posters[i].thread, NULL);
        assert_int_equal(posters[i].next, POSTS);
    }
    trace_free(&t);
}

static void *ask_current(void *ud)
{
    struct trace *t = ud;
    trace_add(t, loop_is_current(t->loop) ? 'y' : 'n');
    loop_stop(t->loop);
    return NULL;
}

static void start_asking(void *ud)
{
    struct trace *t = ud;
    pthread_t thread;
    trace_add(t, loop_is_current(t->loop) ? 'y' : 'n');
    assert_int_equal(pthread_create(&thread, NULL, ask_current, t), 0);
    pthread_join(thread, NULL);
}

static void test_real_is_current_and_stop(void **state)
{
    (void)state;
    struct trace t = trace_real();
    assert_true(loop_is_current(t.loop));
    loop_defer(t.loop, start_asking, &t);
    loop_run(t.loop);
    assert_string_equal(t.text, "yn");
    loop_stop(t.loop); // before loop_run: that returns at once
    loop_run(t.loop);
    trace_free(&t);
}

// Messages that post the next one do not keep descriptors and timers from running.
struct chain {
    struct message message;
    struct trace *trace;
    struct loop_fd *fd;
    int pipe[2];
    int count;
    bool fd_ran, timer_ran;
};

static void run_chain(struct message *m)
{
    struct chain *c = (struct chain *)m;
    c->count++;
    if (c->fd_ran && c->timer_ran)
        loop_stop(c->trace->loop);
    else
        loop_post(c->trace->loop, &c->message);
}

static void on_chain_fd(void *ud, int what)
{
    struct chain *c = ud;
    char byte;
    assert_int_equal(what, LOOP_READ);
    assert_int_equal(read(c->pipe[0], &byte, 1), 1);
    c->fd_ran = true;
    loop_fd_free(c->fd);
}

static void on_chain_timer(void *ud)
{
    struct chain *c = ud;
    c->timer_ran = true;
    assert_int_equal(write(c->pipe[1], "x", 1), 1);
}

static void test_real_messages_do_not_starve(void **state)
{
    (void)state;
    struct trace t = trace_real();
    struct chain c = {.message.run = run_chain, .trace = &t};
    assert_int_equal(pipe(c.pipe), 0);
    c.fd = loop_fd_new(t.loop, c.pipe[0], on_chain_fd, &c);
    loop_fd_want(c.fd, LOOP_READ);
    struct loop_timer *timer = loop_timer_new(t.loop, on_chain_timer, &c);
    loop_timer_start(timer, 1);
    loop_post(t.loop, &c.message);
    loop_run(t.loop);
    assert_true(c.count > 1);
    loop_timer_free(timer);
    close(c.pipe[0]);
    close(c.pipe[1]);
    trace_free(&t);
}

static void on_write(void *ud, int what)
{
    struct chain *c = ud;
    trace_add(c->trace, what == LOOP_WRITE ? 'w' : 'r');
    if (what == LOOP_WRITE) {
        assert_int_equal(write(c->pipe[1], "x", 1), 1);
        loop_fd_want(c->fd, 0);
        loop_stop(c->trace->loop);
    }
}

static void test_real_fd_want(void **state)
{
    (void)state;
    struct trace t = trace_real();
    struct chain c = {.trace = &t};
    assert_int_equal(pipe(c.pipe), 0);
    c.fd = loop_fd_new(t.loop, c.pipe[1], on_write, &c);
    loop_fd_want(c.fd, LOOP_WRITE);
    loop_run(t.loop);
    assert_string_equal(t.text, "w");
    struct tick end = {.stop = true};
    tick_start(&end, &t, 'e', 5);
    loop_run(t.loop); // wants nothing: only the timer
    assert_string_equal(t.text, "we");
    loop_timer_free(end.timer);
    loop_fd_free(c.fd);
    loop_fd_free(NULL);
    close(c.pipe[0]);
    close(c.pipe[1]);
    trace_free(&t);
}

static void on_signal(void *ud, int signo)
{
    struct trace *t = ud;
    trace_add(t, signo == SIGUSR1 ? '1' : '2');
    if (signo == SIGUSR1)
        raise(SIGUSR2);
    else
        loop_stop(t->loop);
}

static void raise_first(void *ud)
{
    (void)ud;
    raise(SIGUSR1);
}

static void test_real_signals(void **state)
{
    (void)state;
    struct trace t = trace_real();
    loop_on_signal(t.loop, SIGUSR1, on_signal, &t);
    loop_on_signal(t.loop, SIGUSR2, on_signal, &t);
    loop_defer(t.loop, raise_first, NULL);
    loop_run(t.loop);
    assert_string_equal(t.text, "12");
    trace_free(&t);
}

static void hold_up(void *ud)
{
    (void)ud;
    usleep(250000); // not a wait: the loop is meant to be late
}

static void test_real_lag(void **state)
{
    (void)state;
    struct trace t = trace_real();
    struct tick end = {.stop = true};
    tick_start(&end, &t, 'e', 240); // after the probe, which is due at 100
    loop_defer(t.loop, hold_up, NULL);
    loop_run(t.loop);
    assert_true(loop_lag_us(t.loop) >= 100000);
    assert_int_equal(loop_lag_us(t.loop), 0);
    loop_timer_free(end.timer);
    trace_free(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_virtual_order),
        cmocka_unit_test(test_virtual_step),
        cmocka_unit_test(test_virtual_run_ends_with_nothing_left),
        cmocka_unit_test(test_timer_stop_restart_free),
        cmocka_unit_test(test_many_timers),
        cmocka_unit_test(test_defer_is_not_reentrant),
        cmocka_unit_test(test_stop_ends_run_until),
        cmocka_unit_test(test_real_timers_and_messages),
        cmocka_unit_test(test_real_posts_of_threads),
        cmocka_unit_test(test_real_is_current_and_stop),
        cmocka_unit_test(test_real_messages_do_not_starve),
        cmocka_unit_test(test_real_fd_want),
        cmocka_unit_test(test_real_signals),
        cmocka_unit_test(test_real_lag),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
