#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "base/alloc.h"
#include "base/buf.h"
#include "base/err.h"

static void test_grows_and_stays_terminated(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 100000);
    for (int i = 0; i < 10000; i++) {
        assert_int_equal(buf_add_char(&b, (char)('a' + i % 26)), 0);
        assert_int_equal(b.data[b.len], 0);
    }
    assert_int_equal(b.len, 10000);
    assert_memory_equal(b.data, "abcdefghijklmnopqrstuvwxyzab", 28);
    buf_fini(&b);
    assert_null(b.data);
}

static void test_write_beyond_the_cap_is_dropped_whole(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 10);
    assert_int_equal(buf_add_str(&b, "12345678"), 0);
    assert_int_equal(buf_add_str(&b, "abc"), -ERR_LIMIT);
    assert_true(b.failed);
    assert_string_equal(b.data, "12345678");
    assert_int_equal(buf_add_str(&b, "a"), -ERR_LIMIT); // stays failed
    buf_reset(&b);
    assert_false(b.failed);
    assert_int_equal(buf_add_str(&b, "1234567890"), 0); // exactly full
    assert_string_equal(b.data, "1234567890");
    buf_fini(&b);
}

static void test_huge_sizes_do_not_wrap(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, SIZE_MAX);
    assert_int_equal(buf_add_str(&b, "x"), 0);
    assert_int_equal(buf_reserve(&b, SIZE_MAX - 1), -ERR_LIMIT);
    assert_int_equal(buf_reserve(&b, SIZE_MAX), -ERR_LIMIT);
    buf_fini(&b);
}

static void test_formats_short_and_long(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 4096);
    assert_int_equal(buf_addf(&b, "%s=%d;", "n", 42), 0);
    assert_int_equal(buf_addf(&b, "%0*d", 1000, 7), 0);
    assert_int_equal(b.len, 1005);
    assert_int_equal(b.data[b.len - 1], '7');
    assert_int_equal(buf_addf(&b, "%0*d", 5000, 7), -ERR_LIMIT);
    assert_int_equal(b.len, 1005);
    buf_fini(&b);
}

static void test_consume_and_take(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 64);
    buf_consume(&b, 0);
    buf_add_str(&b, "line one\nline two");
    buf_consume(&b, 9);
    assert_string_equal(b.data, "line two");
    size_t n = 0;
    char *text = buf_take(&b, &n);
    assert_string_equal(text, "line two");
    assert_int_equal(n, 8);
    free(text);
    assert_int_equal(b.max, 64);
    text = buf_take(&b, NULL);
    assert_string_equal(text, "");
    free(text);
}

static void test_small_allocations(void **state)
{
    (void)state;
    assert_null(xstrdup(NULL));
    char *a = xasprintf("%s-%d", "web", 3);
    char *b = xstrndup(a, 3);
    char *c = xmemdup("a\0b", 3);
    assert_string_equal(a, "web-3");
    assert_string_equal(b, "web");
    assert_memory_equal(c, "a\0b", 4);
    free(a);
    free(b);
    free(c);
    free(xcalloc(0, 0));
    free(xmalloc(0));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_grows_and_stays_terminated),
        cmocka_unit_test(test_write_beyond_the_cap_is_dropped_whole),
        cmocka_unit_test(test_huge_sizes_do_not_wrap),
        cmocka_unit_test(test_formats_short_and_long),
        cmocka_unit_test(test_consume_and_take),
        cmocka_unit_test(test_small_allocations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
