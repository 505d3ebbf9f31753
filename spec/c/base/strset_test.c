#include <string.h>

#include "unit.h"

#include "base/hash.h"
#include "base/random.h"
#include "base/strset.h"

static void test_set_keeps_order_and_no_doubles(void **state)
{
    (void)state;
    struct strset s;
    strset_init(&s);
    strset_add_split(&s, " b, a ,,b,\tc\n", ',');
    assert_int_equal(s.count, 3);
    assert_string_equal(s.items[0], "b");
    assert_string_equal(s.items[1], "a");
    assert_string_equal(s.items[2], "c");
    assert_false(strset_add(&s, "a"));
    for (int i = 0; i < 20; i++)
        assert_true(strset_add(&s, (char[]){(char)('d' + i), 0}));
    strset_sort(&s);
    assert_string_equal(s.items[0], "a");
    assert_true(strset_has(&s, "c"));
    assert_false(strset_has(&s, "cc"));
    strset_fini(&s);
    assert_int_equal(s.count, 0);
    strset_add_split(&s, "", ',');
    assert_int_equal(s.count, 0);
    strset_fini(&s);
}

static void test_strings(void **state)
{
    (void)state;
    assert_true(str_has_prefix("apps/v1", "apps/"));
    assert_false(str_has_prefix("app", "apps"));
    assert_true(str_has_suffix("a_spec.lua", "_spec.lua"));
    assert_false(str_has_suffix("lua", "_spec.lua"));
    assert_true(str_eq(NULL, NULL));
    assert_false(str_eq(NULL, ""));
    assert_true(str_eq("a", "a"));
}

static void test_utf8(void **state)
{
    (void)state;
    static const char *const good[] = {"", "abc", "\u00e9", "\u20ac", "\U0001f600", "\ufffd", "\U0010ffff"};
    static const char *const bad[] = {
        "\x80",         "\xc0\x80",         "\xc1\xbf",         "\xe0\x9f\xbf",
        "\xed\xa0\x80", "\xf0\x8f\xbf\xbf", "\xf4\x90\x80\x80", "\xf5\x80\x80\x80",
        "\xff",         "\xe2\x82"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++)
        assert_true(str_is_utf8(good[i], strlen(good[i])));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(str_is_utf8(bad[i], strlen(bad[i])));
    const char *text = "a\u20acb\U0001f600";
    static const size_t cuts[] = {0, 1, 1, 1, 4, 5, 5, 5, 5, 9, 9};
    for (size_t max = 0; max < sizeof(cuts) / sizeof(cuts[0]); max++)
        assert_int_equal(str_utf8_cut(text, strlen(text), max), cuts[max]);
    assert_int_equal(str_utf8_cut("\x80\x80\x80\x80\x80", 5, 4), 4);
}

static void test_hash(void **state)
{
    (void)state;
    assert_true(hash_str("") == 0xcbf29ce484222325ULL);
    assert_true(hash_str("a") == 0xaf63dc4c8601ec8cULL);
    assert_true(hash_str("foobar") == 0x85944171f73967e8ULL);
}

static void test_random(void **state)
{
    (void)state;
    struct random a, b;
    random_init(&a, 1);
    random_init(&b, 1);
    for (int i = 0; i < 100; i++)
        assert_true(random_u64(&a) == random_u64(&b));
    random_init(&b, 2);
    assert_true(random_u64(&a) != random_u64(&b));
    int seen[7] = {0};
    for (int i = 0; i < 1000; i++) {
        uint64_t v = random_below(&a, 7);
        assert_true(v < 7);
        seen[v]++;
        double unit = random_unit(&a);
        assert_true(unit >= 0 && unit < 1);
        uint64_t ms = random_jitter_ms(&a, 1000, 0.2);
        assert_true(ms >= 800 && ms <= 1200);
    }
    for (int i = 0; i < 7; i++)
        assert_true(seen[i] > 80);
    assert_true(random_below(&a, 1) == 0);
    assert_true(random_jitter_ms(&a, 0, 0.5) == 0);
    random_init_kernel(&a);
    random_init_kernel(&b);
    assert_true(random_u64(&a) != random_u64(&b));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_set_keeps_order_and_no_doubles),
        cmocka_unit_test(test_strings),
        cmocka_unit_test(test_utf8),
        cmocka_unit_test(test_hash),
        cmocka_unit_test(test_random),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
