// The workqueue's guarantees, on a virtual clock.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "run/workqueue/queue.h"
#include "unit.h"

struct rig {
    struct clock *clock;
    struct loop *loop;
    struct metrics *metrics;
    struct dispatcher *dispatcher;
    struct queue *queue;
};

static struct queue *new_queue(struct rig *r, const char *name, int max_active)
{
    return queue_new(&(struct queue_options){.loop = r->loop,
                                             .dispatcher = r->dispatcher,
                                             .metrics = r->metrics,
                                             .name = name,
                                             .limiter = limiter_default,
                                             .max_active = max_active,
                                             .seed = 1});
}

static int set_up(void **state)
{
    struct rig *r = calloc(1, sizeof *r);
    r->clock = clock_virtual_new(0);
    r->loop = loop_new(r->clock);
    r->metrics = metrics_new();
    r->dispatcher = dispatch_new(NULL, NULL);
    r->queue = new_queue(r, "q", 0);
    *state = r;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    queue_free(r->queue);
    dispatch_free(r->dispatcher);
    metrics_free(r->metrics);
    loop_free(r->loop);
    clock_free(r->clock);
    free(r);
    return 0;
}

// The next key, or "" when there is none.
static const char *take(struct rig *r)
{
    struct dispatch_item item;
    return dispatch_try_take(r->dispatcher, &item) ? item.key : "";
}

static void pass(struct rig *r, uint64_t ms)
{
    loop_run_until(r->loop, loop_now_ms(r->loop) + ms);
}

static void waits_once(void **state)
{
    struct rig *r = *state;
    queue_add(r->queue, "a");
    queue_add(r->queue, "b");
    queue_add(r->queue, "a");
    assert_int_equal(queue_depth(r->queue), 2);
    assert_string_equal(take(r), "a");
    assert_string_equal(take(r), "b");
    assert_string_equal(take(r), "");
    queue_done(r->queue, "a");
    queue_done(r->queue, "b");
}

static void dirty_while_in_process(void **state)
{
    struct rig *r = *state;
    queue_add(r->queue, "a");
    assert_string_equal(take(r), "a");
    queue_add(r->queue, "a");
    queue_add(r->queue, "a");
    assert_string_equal(take(r), ""); // never twice at the same time
    queue_done(r->queue, "a");
    assert_string_equal(take(r), "a"); // once more, after the last event
    queue_done(r->queue, "a");
    assert_string_equal(take(r), "");
}

static void earliest_timer_wins(void **state)
{
    struct rig *r = *state;
    queue_add_after(r->queue, "a", 200);
    queue_add_after(r->queue, "a", 100);
    queue_add_after(r->queue, "a", 300);
    pass(r, 99);
    assert_string_equal(take(r), "");
    pass(r, 1);
    assert_string_equal(take(r), "a");
    queue_done(r->queue, "a");
    pass(r, 1000);
    assert_string_equal(take(r), "");           // one timer a key
    queue_add_after(r->queue, "a", UINT64_MAX); // no overflow into the past
    pass(r, 1000 * 1000);
    assert_string_equal(take(r), "");
    queue_cancel_timer(r->queue, "a");
}

static void backs_off_and_forgets(void **state)
{
    struct rig *r = *state;
    uint64_t expected[] = {5, 10, 20, 40, 80};
    for (size_t i = 0; i < 5; i++) {
        queue_add(r->queue, "a");
        take(r);
        assert_int_equal(queue_retry(r->queue, "a", 0), expected[i]);
        queue_done(r->queue, "a");
        pass(r, expected[i] - 1);
        assert_string_equal(take(r), "");
        pass(r, 1);
        assert_string_equal(take(r), "a");
        queue_done(r->queue, "a");
    }
    assert_int_equal(queue_failures(r->queue, "a"), 5);
    assert_int_equal(queue_retry(r->queue, "a", 7000), 7000); // the server asked for more
    queue_forget(r->queue, "a");
    assert_int_equal(queue_failures(r->queue, "a"), 0);
    pass(r, 10 * 1000);
    assert_string_equal(take(r), ""); // the retry went with it
    assert_int_equal(queue_retry(r->queue, "a", 0), 5);
    queue_forget(r->queue, "a");
}

static void back_off_wins_over_a_timer(void **state)
{
    struct rig *r = *state;
    queue_add_after(r->queue, "a", 1);
    queue_retry(r->queue, "a", 500);
    pass(r, 499);
    assert_string_equal(take(r), "");
    pass(r, 1);
    assert_string_equal(take(r), "a");
    queue_done(r->queue, "a");
}

static void queues_take_turns(void **state)
{
    struct rig *r = *state;
    struct queue *other = new_queue(r, "other", 0);
    char key[16], order[64] = "";
    for (int i = 0; i < 3; i++) {
        snprintf(key, sizeof key, "a%d", i);
        queue_add(r->queue, key);
    }
    for (int i = 0; i < 3; i++) {
        snprintf(key, sizeof key, "b%d", i);
        queue_add(other, key);
    }
    for (const char *k; (k = take(r))[0] != '\0';)
        strcat(order, k);
    assert_string_equal(order, "a0b0a1b1a2b2");
    for (int i = 0; i < 3; i++) {
        snprintf(key, sizeof key, "a%d", i);
        queue_done(r->queue, key);
        snprintf(key, sizeof key, "b%d", i);
        queue_done(other, key);
    }
    queue_free(other);
}

static void a_limit_of_its_own(void **state)
{
    struct rig *r = *state;
    struct queue *one = new_queue(r, "one", 1);
    queue_add(one, "a");
    queue_add(one, "b");
    assert_string_equal(take(r), "a");
    assert_string_equal(take(r), "");
    queue_done(one, "a");
    assert_string_equal(take(r), "b");
    queue_done(one, "b");
    queue_free(one);
}

static void on_drained(void *ud)
{
    ++*(int *)ud;
}

static void shuts_when_what_runs_has_ended(void **state)
{
    struct rig *r = *state;
    int drained = 0;
    queue_add(r->queue, "a");
    queue_add(r->queue, "b");
    take(r);
    queue_shut(r->queue, on_drained, &drained);
    assert_string_equal(take(r), ""); // what waits is dropped
    queue_add(r->queue, "c");
    queue_add_after(r->queue, "d", 1);
    pass(r, 100);
    assert_string_equal(take(r), "");
    assert_int_equal(drained, 0);
    queue_done(r->queue, "a");
    pass(r, 1);
    assert_int_equal(drained, 1);
}

static void tells_its_metrics(void **state)
{
    struct rig *r = *state;
    struct buf text;
    buf_init(&text, 1 << 20);
    queue_add(r->queue, "a");
    queue_add(r->queue, "b");
    queue_retry(r->queue, "c", 0);
    metrics_render(r->metrics, &text);
    assert_non_null(strstr(text.data, "workqueue_depth{name=\"q\",controller=\"q\"} 2\n"));
    assert_non_null(strstr(text.data, "workqueue_adds_total{name=\"q\",controller=\"q\"} 2\n"));
    assert_non_null(strstr(text.data, "workqueue_retries_total{name=\"q\",controller=\"q\"} 1\n"));
    buf_fini(&text);
}

// Random operations against what must always hold: no key twice at once, and after its last add a key is
// given out again.
static void invariants_hold_at_random(void **state)
{
    enum { KEYS = 8, STEPS = 20000 };
    struct rig *r = *state;
    struct random random;
    bool active[KEYS] = {0}, owed[KEYS] = {0};
    random_init(&random, 42);
    for (int step = 0; step < STEPS; step++) {
        unsigned k = (unsigned)random_below(&random, KEYS);
        char key[4] = {(char)('a' + k), 0};
        switch (random_below(&random, 4)) {
        case 0:
            queue_add(r->queue, key);
            owed[k] = true;
            break;
        case 1:
            if (active[k])
                queue_done(r->queue, key);
            active[k] = false;
            break;
        case 2:
            queue_add_after(r->queue, key, random_below(&random, 20));
            break;
        default: {
            const char *got = take(r);
            if (got[0] == '\0')
                break;
            assert_false(active[got[0] - 'a']);
            active[got[0] - 'a'] = true;
            owed[got[0] - 'a'] = false;
            break;
        }
        }
        pass(r, random_below(&random, 3));
    }
    for (unsigned k = 0; k < KEYS; k++) {
        char key[4] = {(char)('a' + k), 0};
        if (active[k])
            queue_done(r->queue, key);
    }
    pass(r, 1000);
    for (const char *got; (got = take(r))[0] != '\0'; queue_done(r->queue, got))
        owed[got[0] - 'a'] = false;
    for (unsigned k = 0; k < KEYS; k++)
        assert_false(owed[k]);
}

// Of queues that are held with `one`, a key of one of them at a time; the others go on meanwhile.
static void one_trial_at_a_time(void **state)
{
    struct rig *r = *state;
    struct queue *bad = new_queue(r, "bad", 0), *worse = new_queue(r, "worse", 0);
    queue_add(bad, "b1");
    queue_add(bad, "b2");
    queue_add(worse, "w1");
    queue_hold(bad, 0, true);
    queue_hold(worse, 0, true);
    queue_add(r->queue, "a");
    assert_string_equal(take(r), "b1");
    assert_string_equal(take(r), "a"); // not w1, whose turn it is
    assert_string_equal(take(r), "");
    queue_hold(bad, UINT64_MAX, true); // what was tried has told
    assert_string_equal(take(r), "w1");
    queue_hold(bad, 0, true);
    assert_string_equal(take(r), "");
    queue_done(worse, "w1"); // nothing was told
    assert_string_equal(take(r), "b2");
    queue_hold(worse, 0, true);
    queue_add(worse, "w2");
    assert_string_equal(take(r), "");
    queue_shut(bad, NULL, NULL); // nor will be
    assert_string_equal(take(r), "w2");
    queue_release(worse); // it went through
    queue_add(worse, "w3");
    assert_string_equal(take(r), "w3");
    queue_done(bad, "b1");
    queue_done(bad, "b2");
    queue_done(worse, "w2");
    queue_done(worse, "w3");
    queue_done(r->queue, "a");
    queue_free(bad);
    queue_free(worse);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(waits_once),
        TEST(dirty_while_in_process),
        TEST(earliest_timer_wins),
        TEST(backs_off_and_forgets),
        TEST(back_off_wins_over_a_timer),
        TEST(queues_take_turns),
        TEST(a_limit_of_its_own),
        TEST(one_trial_at_a_time),
        TEST(shuts_when_what_runs_has_ended),
        TEST(tells_its_metrics),
        TEST(invariants_hold_at_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
