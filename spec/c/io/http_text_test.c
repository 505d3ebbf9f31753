#include "io/http_text.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

// 2026-10-21T07:27:00Z
static const int64_t now_us = INT64_C(1792567620) * 1000000;

static void test_retry_after(void **state)
{
    (void)state;
    static const struct {
        const char *value;
        int64_t ms;
    } cases[] = {
        {NULL, -1},
        {"", -1},
        {"0", 0},
        {"1", 1000},
        {" 7 ", 7000},
        {"3600", 3600000},
        {"3601", 3600000},
        {"99999999999", 3600000},
        {"999999999999999999999999999999", 3600000},
        {"-5", -1},
        {"+5", -1},
        {"1.5", -1},
        {"7s", -1},
        {"abc", -1},
        {"0x10", -1},
        {"Wed, 21 Oct 2026 07:28:00 GMT", 60000},
        {"Wednesday, 21-Oct-26 07:28:00 GMT", 60000},
        {"Wed Oct 21 07:28:00 2026", 60000},
        {"Wed, 21 Oct 2026 07:26:00 GMT", 0},
        {"Wed, 21 Oct 2015 07:28:00 GMT", 0},
        {"Wed, 21 Oct 2126 07:28:00 GMT", 3600000},
        {"Wed, 21 Oct 2026 07:28:00 GMT, later", -1},
        {"Wed, 21 Oct 2026", -1},
        {"2026-10-21T07:28:00Z", -1},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        int64_t ms = http_text_retry_after_ms(cases[i].value, now_us);
        if (ms != cases[i].ms)
            fail_msg("\"%s\": %lld", cases[i].value, (long long)ms);
    }
}

static void assert_warning(const char *value, const char *wanted)
{
    char *text = http_text_take_warning(value);
    if (wanted == NULL)
        assert_null(text);
    else
        assert_string_equal(text, wanted);
    free(text);
}

static void test_warning(void **state)
{
    (void)state;
    assert_warning(NULL, NULL);
    assert_warning("299 - \"v1beta1 is deprecated\"", "v1beta1 is deprecated");
    assert_warning("299 - \"a \\\"b\\\" \\\\ c\" \"Wed, 21 Oct 2026 07:28:00 GMT\"", "a \"b\" \\ c");
    assert_warning("299 - \"never closed", "never closed");
    assert_warning("299 - \"ends in \\", "ends in \\");
    assert_warning("299 - \"\"", "");
    assert_warning(" no quotes", "no quotes");
    assert_warning("", "");
}

static void test_header_safe(void **state)
{
    (void)state;
    assert_true(http_text_is_header_safe(""));
    assert_true(http_text_is_header_safe("Bearer a.b-c \xc3\xa9"));
    assert_false(http_text_is_header_safe("a\r\nX: y"));
    assert_false(http_text_is_header_safe("a\tb"));
    assert_false(http_text_is_header_safe("a\x7f"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_retry_after),
        cmocka_unit_test(test_warning),
        cmocka_unit_test(test_header_safe),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
