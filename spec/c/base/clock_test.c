#include <stdlib.h>
#include <time.h>

#include "unit.h"

#include "base/clock.h"
#include "base/err.h"

#define NOON_US (1767355200LL * 1000000) // 2026-01-02T12:00:00Z

static void test_micro_time_has_six_digits(void **state)
{
    (void)state;
    char text[CLOCK_TEXT_MAX];
    clock_format_micro_time(text, NOON_US);
    assert_string_equal(text, "2026-01-02T12:00:00.000000Z");
    clock_format_micro_time(text, NOON_US + 100000);
    assert_string_equal(text, "2026-01-02T12:00:00.100000Z");
    clock_format_micro_time(text, NOON_US + 999999);
    assert_string_equal(text, "2026-01-02T12:00:00.999999Z");
    clock_format_time(text, NOON_US + 999999);
    assert_string_equal(text, "2026-01-02T12:00:00Z");
}

static void test_zone_of_the_process_does_not_matter(void **state)
{
    (void)state;
    setenv("TZ", "Asia/Kolkata", 1);
    tzset();
    char text[CLOCK_TEXT_MAX];
    clock_format_time(text, NOON_US);
    assert_string_equal(text, "2026-01-02T12:00:00Z");
    int64_t us = 0;
    assert_int_equal(clock_parse_time(text, &us), 0);
    assert_true(us == NOON_US);
    unsetenv("TZ");
    tzset();
}

static void test_format_agrees_with_gmtime(void **state)
{
    (void)state;
    // A day and some seconds on, over three centuries around the epoch, and back.
    for (int64_t s = -4733510400LL; s < 7258118400LL; s += 86400 + 3661) {
        time_t t = (time_t)s;
        struct tm tm;
        gmtime_r(&t, &tm);
        char expected[CLOCK_TEXT_MAX], text[CLOCK_TEXT_MAX];
        strftime(expected, sizeof(expected), "%Y-%m-%dT%H:%M:%SZ", &tm);
        clock_format_time(text, s * 1000000 + 999999);
        assert_string_equal(text, expected);
        int64_t us = 0;
        assert_int_equal(clock_parse_time(text, &us), 0);
        assert_true(us == s * 1000000);
    }
}

static void test_format_at_the_borders(void **state)
{
    (void)state;
    char text[CLOCK_TEXT_MAX];
    clock_format_micro_time(text, INT64_MAX);
    assert_string_equal(text, "9999-12-31T23:59:59.999999Z");
    clock_format_micro_time(text, INT64_MIN);
    assert_string_equal(text, "0000-01-01T00:00:00.000000Z");
    clock_format_micro_time(text, -1);
    assert_string_equal(text, "1969-12-31T23:59:59.999999Z");
}

static void test_parse_accepts_all_forms(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t us;
    } rows[] = {
        {"2026-01-02T12:00:00Z", NOON_US},
        {"2026-01-02T12:00:00.123Z", NOON_US + 123000},
        {"2026-01-02T12:00:00.123456789Z", NOON_US + 123456},
        {"2026-01-02T12:00:00.999999999Z", NOON_US + 999999},
        {"2026-01-02T17:30:00.000000+05:30", NOON_US},
        {"2026-01-02T04:00:00-08:00", NOON_US},
        {"2000-02-29T00:00:00Z", 951782400LL * 1000000},
        {"0001-01-01T00:00:00Z", -62135596800LL * 1000000},
        {"1970-01-01T00:00:00Z", 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t us = -7;
        assert_int_equal(clock_parse_time(rows[i].text, &us), 0);
        assert_true(us == rows[i].us);
    }
}

static void test_parse_refuses(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "2026",
        "2026-01-02",
        "2026-01-02T12:00:00",
        "2026-01-02 12:00:00Z",
        "2026-13-02T12:00:00Z",
        "2026-00-02T12:00:00Z",
        "2026-02-29T12:00:00Z",
        "2026-04-31T12:00:00Z",
        "2026-01-00T12:00:00Z",
        "2026-01-02T24:00:00Z",
        "2026-01-02T12:60:00Z",
        "2026-01-02T12:00:60Z",
        "2026-01-02T12:00:00.Z",
        "2026-01-02T12:00:00.1234567890Z",
        "2026-01-02T12:00:00+0530",
        "2026-01-02T12:00:00+24:00",
        "2026-01-02T12:00:00Zx",
        "2026-01-02T12:00:00,5Z",
        "1900-02-29T00:00:00Z",
        "+026-01-02T12:00:00Z",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        int64_t us = -7;
        assert_int_equal(clock_parse_time(texts[i], &us), -ERR_PARSE);
        assert_true(us == -7);
    }
}

static void test_virtual_clock(void **state)
{
    (void)state;
    struct clock *c = clock_virtual_new(NOON_US / 1000);
    assert_true(clock_is_virtual(c));
    assert_true(clock_now_ms(c) == 0);
    assert_true(clock_wall_us(c) == NOON_US);
    clock_advance_to(c, 1500);
    clock_advance_to(c, 1000); // never back
    assert_true(clock_now_ms(c) == 1500);
    assert_true(clock_now_us(c) == 1500000);
    assert_true(clock_wall_us(c) == NOON_US + 1500000);
    clock_free(c);
    clock_free(NULL);
}

static void test_real_clock(void **state)
{
    (void)state;
    struct clock *c = clock_real();
    assert_false(clock_is_virtual(c));
    uint64_t before = clock_now_us(c);
    assert_true(clock_now_us(c) >= before);
    assert_true(clock_wall_us(c) > 1600000000LL * 1000000);
    clock_free(c);
}

static void test_durations(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t us;
    } rows[] = {
        {"1h30m", 5400000000LL},
        {"250ms", 250000},
        {"1.5s", 1500000},
        {"0", 0},
        {"-1m", -60000000},
        {"+2us", 2},
        {"3\u00b5s", 3},
        {"3\u03bcs", 3},
        {"999ns", 0},
        {"1500ns", 1},
        {".5s", 500000},
        {"1.s", 1000000},
        {"0s", 0},
        {"1h1h", 7200000000LL},
        {"1.123456789123456789s", 1123456},
        {"2562047h", 2562047LL * 3600000000LL},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        int64_t us = -7;
        assert_int_equal(duration_parse(rows[i].text, &us), 0);
        assert_true(us == rows[i].us);
    }
    static const char *const bad[] = {"",
                                      "1",
                                      "s",
                                      "-",
                                      "+",
                                      ".s",
                                      "1.5",
                                      "1 s",
                                      "1d",
                                      "nan",
                                      "1e3s",
                                      "2562048h",
                                      "99999999999999999999s",
                                      "1h-1m",
                                      "1s ",
                                      "00"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        int64_t us = -7;
        assert_int_equal(duration_parse(bad[i], &us), -ERR_PARSE);
        assert_true(us == -7);
    }
}

static void test_duration_spelling(void **state)
{
    (void)state;
    static const struct {
        int64_t us;
        const char *text;
    } rows[] = {
        {0, "0s"},
        {1, "1\u00b5s"},
        {999, "999\u00b5s"},
        {1500, "1.5ms"},
        {250000, "250ms"},
        {1500000, "1.5s"},
        {90000000, "1m30s"},
        {60000000, "1m0s"},
        {3600000000LL, "1h0m0s"},
        {5400000000LL, "1h30m0s"},
        {-90000000, "-1m30s"},
        {61000001, "1m1.000001s"},
        {INT64_MAX, "2562047788h0m54.775807s"},
        {INT64_MIN, "-2562047788h0m54.775808s"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char text[CLOCK_TEXT_MAX];
        duration_format(text, rows[i].us);
        assert_string_equal(text, rows[i].text);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_micro_time_has_six_digits),
        cmocka_unit_test(test_zone_of_the_process_does_not_matter),
        cmocka_unit_test(test_format_agrees_with_gmtime),
        cmocka_unit_test(test_format_at_the_borders),
        cmocka_unit_test(test_parse_accepts_all_forms),
        cmocka_unit_test(test_parse_refuses),
        cmocka_unit_test(test_virtual_clock),
        cmocka_unit_test(test_real_clock),
        cmocka_unit_test(test_durations),
        cmocka_unit_test(test_duration_spelling),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
