#include <string.h>

#include "unit.h"

#include "base/err.h"
#include "base/strset.h"

static void test_set_returns_the_negative_code(void **state)
{
    (void)state;
    struct err e;
    assert_int_equal(err_set(&e, ERR_NOT_FOUND, "%s is not there", "pods"), -ERR_NOT_FOUND);
    assert_int_equal(e.code, -ERR_NOT_FOUND);
    assert_string_equal(e.text, "pods is not there");
    assert_int_equal(err_set(NULL, ERR_IO, "nobody listens"), -ERR_IO);
}

static void test_set_may_use_its_own_text(void **state)
{
    (void)state;
    struct err e;
    err_set(&e, ERR_PARSE, "line 3");
    err_set(&e, ERR_INVALID, "file: %s", e.text);
    assert_string_equal(e.text, "file: line 3");
}

static void test_long_text_is_cut_between_characters(void **state)
{
    (void)state;
    char text[3 * ERR_TEXT_MAX + 1];
    for (size_t i = 0; i < ERR_TEXT_MAX; i++)
        memcpy(text + 3 * i, "\u20ac", 3);
    text[3 * ERR_TEXT_MAX] = 0;
    struct err e;
    err_set(&e, ERR_PARSE, "x%s", text);
    assert_true(strlen(e.text) >= ERR_TEXT_MAX - 4);
    assert_true(str_is_utf8(e.text, strlen(e.text)));
    err_prefix(&e, "ab");
    assert_memory_equal(e.text, "ab: x\u20ac", 8);
    assert_true(strlen(e.text) < ERR_TEXT_MAX);
    assert_true(str_is_utf8(e.text, strlen(e.text)));
}

static void test_prefix(void **state)
{
    (void)state;
    struct err e;
    err_set(&e, ERR_PARSE, "no kind");
    assert_int_equal(err_prefix(&e, "document %d", 2), -ERR_PARSE);
    assert_string_equal(e.text, "document 2: no kind");
    char big[2 * ERR_TEXT_MAX];
    memset(big, 'a', sizeof(big));
    big[sizeof(big) - 1] = 0;
    err_prefix(&e, "%s", big);
    assert_int_equal(strlen(e.text), ERR_TEXT_MAX - 1);
}

static void test_join(void **state)
{
    (void)state;
    struct err e;
    char first[900], other[900];
    err_set(&e, ERR_CONFLICT, "a: no");
    err_join(&e, 1, "b: no");
    err_join(&e, 2, "c: no");
    assert_string_equal(e.text, "a: no; b: no; c: no");
    assert_int_equal(e.code, -ERR_CONFLICT);
    // what begins and what ends each stays, and characters are whole
    memset(first, 'x', sizeof first);
    memcpy(first, "first", 5);
    strcpy(first + sizeof first - 5, "done");
    for (size_t i = 0; i + 2 < sizeof other; i += 2)
        memcpy(other + i, "\xc3\xa9", 2);
    memcpy(other, "other:", 6);
    strcpy(other + sizeof other - 6, "ended");
    for (size_t shift = 0; shift < 4; shift++) {
        err_set(&e, ERR_CONFLICT, "%s", first + shift);
        err_join(&e, 1, other);
        assert_non_null(strstr(e.text, "done; other:"));
        assert_true(str_has_suffix(e.text, "ended"));
        assert_true(str_is_utf8(e.text, strlen(e.text)));
        for (size_t parts = 2; parts < 9; parts++)
            err_join(&e, parts, other);
        assert_in_range(strlen(e.text), 900, ERR_TEXT_MAX - 1);
        assert_true(str_is_utf8(e.text, strlen(e.text)));
    }
}

static void test_names(void **state)
{
    (void)state;
    assert_string_equal(err_name(-ERR_NOT_FOUND), "NotFound");
    assert_string_equal(err_name(ERR_GONE), "Expired");
    assert_string_equal(err_name(0), "None");
    assert_string_equal(err_name(-100000), "Unknown");
    assert_string_equal(err_name(INT32_MIN), "Unknown");
}

static void test_from_http(void **state)
{
    (void)state;
    assert_int_equal(err_from_http(400), ERR_BAD_REQUEST);
    assert_int_equal(err_from_http(401), ERR_UNAUTHORIZED);
    assert_int_equal(err_from_http(404), ERR_NOT_FOUND);
    assert_int_equal(err_from_http(409), ERR_CONFLICT);
    assert_int_equal(err_from_http(410), ERR_GONE);
    assert_int_equal(err_from_http(418), ERR_BAD_REQUEST);
    assert_int_equal(err_from_http(422), ERR_INVALID);
    assert_int_equal(err_from_http(429), ERR_TOO_MANY);
    assert_int_equal(err_from_http(500), ERR_INTERNAL);
    assert_int_equal(err_from_http(502), ERR_INTERNAL);
    assert_int_equal(err_from_http(503), ERR_UNAVAILABLE);
    assert_int_equal(err_from_http(504), ERR_TIMEOUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set_returns_the_negative_code),
        cmocka_unit_test(test_set_may_use_its_own_text),
        cmocka_unit_test(test_long_text_is_cut_between_characters),
        cmocka_unit_test(test_prefix),
        cmocka_unit_test(test_join),
        cmocka_unit_test(test_names),
        cmocka_unit_test(test_from_http),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
