// How long a subject that is being deleted waits: the rule alone.

#include "run/controller/deletion.h"

#include "unit.h"

enum { NOW = 1000 * 1000, LONG_AGO = 1000 };

// Deleted long ago, its hook works and there is no finalize_timeout.
static struct deletion_facts waiting(void)
{
    return (struct deletion_facts){.now_ms = NOW,
                                   .seen_ms = LONG_AGO,
                                   .moved_ms = LONG_AGO,
                                   .ran = true,
                                   .works = true,
                                   .left_us = INT64_MAX};
}

static struct deletion_facts terminating(uint64_t since_ms)
{
    struct deletion_facts f = waiting();
    f.terminating_ms = NOW - since_ms;
    return f;
}

static void expect(const struct deletion_facts *f, enum given_up what, uint64_t again_ms)
{
    struct deletion_verdict v = deletion_judge(f);
    assert_int_equal(v.given_up, what);
    assert_int_equal(v.again_ms, again_ms);
}

static void in_a_namespace_that_stays_it_waits_for_ever(void **unused)
{
    struct deletion_facts f = waiting();
    (void)unused;
    expect(&f, GIVEN_UP_NOTHING, UINT64_MAX);
    f.works = false;
    f.failures = 100;
    expect(&f, GIVEN_UP_NOTHING, UINT64_MAX);
    assert_false(deletion_judge(&f).overdue);
}

static void or_until_its_time_is_over(void **unused)
{
    struct deletion_facts f = waiting();
    (void)unused;
    f.left_us = 1500;
    f.abandon = true;
    expect(&f, GIVEN_UP_NOTHING, NOW + 2);
    f.left_us = 0;
    expect(&f, GIVEN_UP_HOOK, UINT64_MAX);
    f.abandon = false;
    expect(&f, GIVEN_UP_NOTHING, UINT64_MAX);
    assert_true(deletion_judge(&f).overdue);
}

static void the_hook_runs_before_it_is_too_late(void **unused)
{
    struct deletion_facts f = waiting();
    (void)unused;
    f.left_us = -1;
    f.abandon = true;
    f.ran = f.works = false;
    f.seen_ms = NOW - 1;
    expect(&f, GIVEN_UP_NOTHING, NOW - 1 + DELETION_IDLE_MS);
    f.seen_ms = NOW - DELETION_IDLE_MS;
    expect(&f, GIVEN_UP_HOOK, UINT64_MAX);
}

static void with_its_namespace_it_goes_when_nothing_moves(void **unused)
{
    struct deletion_facts f = terminating(1);
    (void)unused;
    expect(&f, GIVEN_UP_NOTHING, NOW - 1 + DELETION_STILL_MS);
    f = terminating(DELETION_STILL_MS);
    expect(&f, GIVEN_UP_ALL, UINT64_MAX);
    f.moved_ms = NOW - 2;
    expect(&f, GIVEN_UP_NOTHING, NOW - 2 + DELETION_STILL_MS);
    f = terminating(DELETION_MOST_MS);
    f.moved_ms = NOW - 2;
    expect(&f, GIVEN_UP_ALL, UINT64_MAX);
}

static void or_sooner_when_nothing_can_be_hoped_for(void **unused)
{
    struct deletion_facts f = terminating(3);
    (void)unused;
    f.works = false;
    f.left_us = INT64_MAX - 1; // a timeout says how long the hook may take; it does not run
    expect(&f, GIVEN_UP_NOTHING, NOW - 3 + DELETION_IDLE_MS);
    f = terminating(DELETION_IDLE_MS);
    f.works = false;
    expect(&f, GIVEN_UP_ALL, UINT64_MAX);
}

static void or_when_it_fails_again_and_again(void **unused)
{
    struct deletion_facts f = terminating(3);
    (void)unused;
    f.failures = DELETION_TRIES - 1;
    expect(&f, GIVEN_UP_NOTHING, NOW - 3 + DELETION_STILL_MS);
    f.failures = DELETION_TRIES;
    expect(&f, GIVEN_UP_NOTHING, NOW - 3 + DELETION_IDLE_MS);
    f.left_us = 5000;
    expect(&f, GIVEN_UP_NOTHING, NOW + 5);
    f.refused = true;
    expect(&f, GIVEN_UP_ALL, UINT64_MAX);
}

static void a_timeout_says_how_long_a_working_hook_may_take(void **unused)
{
    struct deletion_facts f = terminating(2 * DELETION_MOST_MS);
    (void)unused;
    f.left_us = 60 * 1000 * 1000;
    expect(&f, GIVEN_UP_NOTHING, NOW + 60 * 1000);
    f.left_us = 0;
    expect(&f, GIVEN_UP_ALL, UINT64_MAX); // whether finalize_abandon or not
}

static void at_last_it_is_taken_off_by_force(void **unused)
{
    struct deletion_facts f = terminating(DELETION_STILL_MS);
    (void)unused;
    f.given_up = GIVEN_UP_ALL;
    f.given_up_ms = NOW - 1;
    expect(&f, GIVEN_UP_ALL, NOW - 1 + DELETION_STILL_MS);
    assert_false(deletion_judge(&f).last_resort);
    f.given_up_ms = NOW - DELETION_STILL_MS;
    assert_true(deletion_judge(&f).last_resort);
    f.given_up = GIVEN_UP_HOOK; // that alone takes nothing off by force
    f.terminating_ms = 0;
    assert_false(deletion_judge(&f).last_resort);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(in_a_namespace_that_stays_it_waits_for_ever),
        cmocka_unit_test(or_until_its_time_is_over),
        cmocka_unit_test(the_hook_runs_before_it_is_too_late),
        cmocka_unit_test(with_its_namespace_it_goes_when_nothing_moves),
        cmocka_unit_test(or_sooner_when_nothing_can_be_hoped_for),
        cmocka_unit_test(or_when_it_fails_again_and_again),
        cmocka_unit_test(a_timeout_says_how_long_a_working_hook_may_take),
        cmocka_unit_test(at_last_it_is_taken_off_by_force),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
