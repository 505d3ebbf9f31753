#include "run/workqueue/limiter.h"
#include "unit.h"

static void exponential_to_its_cap(void **unused)
{
    struct random r;
    (void)unused;
    random_init(&r, 1);
    assert_int_equal(limiter_delay_ms(&limiter_default, 0, &r), 5);
    assert_int_equal(limiter_delay_ms(&limiter_default, 1, &r), 10);
    assert_int_equal(limiter_delay_ms(&limiter_default, 17, &r), 655360);
    assert_int_equal(limiter_delay_ms(&limiter_default, 18, &r), 1000000);
    assert_int_equal(limiter_delay_ms(&limiter_default, 4000000000u, &r), 1000000);
}

static void fast_then_slow(void **unused)
{
    struct random r;
    struct limiter l = {.kind = LIMITER_FAST_SLOW, .base_ms = 1000, .max_ms = 10000, .fast_attempts = 3};
    (void)unused;
    random_init(&r, 1);
    assert_int_equal(limiter_delay_ms(&l, 2, &r), 1000);
    assert_int_equal(limiter_delay_ms(&l, 3, &r), 10000);
}

static void jitter_spreads_downwards(void **unused)
{
    struct random r;
    struct limiter l = limiter_default;
    uint64_t least = UINT64_MAX, most = 0;
    (void)unused;
    l.jitter = true;
    random_init(&r, 1);
    for (int i = 0; i < 1000; i++) {
        uint64_t ms = limiter_delay_ms(&l, 10, &r); // 5120
        least = ms < least ? ms : least;
        most = ms > most ? ms : most;
    }
    assert_in_range(least, 2560, 2700);
    assert_in_range(most, 5000, 5120);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponential_to_its_cap),
        cmocka_unit_test(fast_then_slow),
        cmocka_unit_test(jitter_spreads_downwards),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
