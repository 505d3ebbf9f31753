#include "io/loop_rest.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static const uint64_t start = 1000000;

static void now_and_then_never_rests(void **state)
{
    (void)state;
    struct loop_rest r = {0};
    for (uint64_t i = 0; i < 100; i++)
        assert_int_equal(loop_rest_before_wait(&r, start + i * LOOP_REST_GAP_US, UINT64_MAX, 9), 0);
}

// What one change makes the loop do: a handful of waits in a row.
static void a_few_in_a_row_never_rest(void **state)
{
    (void)state;
    struct loop_rest r = {0};
    for (uint64_t change = 0; change < 10; change++) {
        for (uint64_t i = 0; i < LOOP_REST_WAITS; i++)
            assert_int_equal(loop_rest_before_wait(&r, start + change * 50000 + i * 100, UINT64_MAX, 1), 0);
    }
}

// The time of the next wait, the first that rests.
static uint64_t make_busy(struct loop_rest *r)
{
    uint64_t now = start;
    for (int i = 0; i < LOOP_REST_WAITS; i++, now += 100)
        assert_int_equal(loop_rest_before_wait(r, now, UINT64_MAX, 1), 0);
    return now;
}

static void a_busy_one_waits_every_five_milliseconds(void **state)
{
    (void)state;
    struct loop_rest r = {0};
    uint64_t now = make_busy(&r);
    uint64_t rest = loop_rest_before_wait(&r, now, UINT64_MAX, 1);
    assert_int_equal(rest, LOOP_REST_US - 100);
    for (int i = 0; i < 50; i++) {
        now += rest + 2700; // of work
        rest = loop_rest_before_wait(&r, now, UINT64_MAX, LOOP_REST_PAYS);
        assert_int_equal(rest, LOOP_REST_US - 2700);
    }
}

static void much_work_needs_no_rest(void **state)
{
    (void)state;
    struct loop_rest r = {0};
    uint64_t now = make_busy(&r);
    now += loop_rest_before_wait(&r, now, UINT64_MAX, 1);
    now += LOOP_REST_US;
    assert_int_equal(loop_rest_before_wait(&r, now, UINT64_MAX, 99), 0);
    assert_int_equal(loop_rest_before_wait(&r, now + 4000, UINT64_MAX, 9), LOOP_REST_US - 4000); // still busy
}

static void a_rest_ends_when_something_is_due(void **state)
{
    (void)state;
    struct loop_rest r = {0};
    uint64_t now = make_busy(&r);
    assert_int_equal(loop_rest_before_wait(&r, now, now + 300, 1), 300);
    assert_int_equal(loop_rest_before_wait(&r, now + 300, now + 300, 1), 0);
}

static void a_quiet_while_ends_it(void **state)
{
    (void)state;
    struct loop_rest r = {0};
    uint64_t now = make_busy(&r);
    now += loop_rest_before_wait(&r, now, UINT64_MAX, 1) + LOOP_REST_QUIET_US;
    for (int i = 0; i < LOOP_REST_WAITS; i++, now += 100)
        assert_int_equal(loop_rest_before_wait(&r, now, UINT64_MAX, LOOP_REST_PAYS), 0);
    assert_int_not_equal(loop_rest_before_wait(&r, now, UINT64_MAX, LOOP_REST_PAYS), 0);
}

// Requests that each wait for the answer to the last.
static void one_that_does_not_pay_puts_off_the_next(void **state)
{
    (void)state;
    struct loop_rest r = {0};
    uint64_t now = make_busy(&r);
    for (int i = 0; i < 10; i++) {
        uint64_t rest = loop_rest_before_wait(&r, now, UINT64_MAX, 1);
        assert_int_equal(rest, LOOP_REST_US - 100);
        now += rest + 100;
        for (int k = 0; k <= LOOP_REST_WAITS - 1; k++, now += 100)
            assert_int_equal(loop_rest_before_wait(&r, now, UINT64_MAX, 1), 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(now_and_then_never_rests),
        cmocka_unit_test(a_few_in_a_row_never_rest),
        cmocka_unit_test(a_busy_one_waits_every_five_milliseconds),
        cmocka_unit_test(much_work_needs_no_rest),
        cmocka_unit_test(a_rest_ends_when_something_is_due),
        cmocka_unit_test(a_quiet_while_ends_it),
        cmocka_unit_test(one_that_does_not_pay_puts_off_the_next),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
