#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "base/random.h"
#include "data/json_write.h"

static struct buf out;
static struct json_writer w;

static int setup(void **state)
{
    (void)state;
    buf_init(&out, 1 << 20);
    jw_init(&w, &out);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    buf_fini(&out);
    return 0;
}

static void restart(void)
{
    buf_reset(&out);
    jw_init(&w, &out);
}

static void test_structure(void **state)
{
    (void)state;
    jw_object(&w);
    jw_member_str(&w, "a", "x");
    jw_member_str(&w, "none", NULL);
    jw_key(&w, "list");
    jw_array(&w);
    jw_int(&w, -1);
    jw_uint(&w, UINT64_MAX);
    jw_object(&w);
    jw_object_end(&w);
    jw_array(&w);
    jw_array_end(&w);
    jw_str(&w, NULL);
    jw_raw(&w, "[1]", 3);
    jw_array_end(&w);
    jw_member_int(&w, "i", INT64_MIN);
    jw_member_bool(&w, "b", false);
    jw_member(&w, "gone", NULL);
    jw_object_end(&w);
    assert_string_equal(out.data, "{\"a\":\"x\",\"list\":[-1,18446744073709551615,{},[],null,[1]],"
                                  "\"i\":-9223372036854775808,\"b\":false}");
    assert_false(w.failed);
}

static void test_strings_safe_for_both_readers(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        const char *json;
    } rows[] = {
        {"/", "\"/\""},
        {"https://h.test/p", "\"https://h.test/p\""},
        {"\U0001f600", "\"\U0001f600\""},
        {"\x7f", "\"\\u007f\""},
        {"\xc2\x85", "\"\\u0085\""},
        {"\xc2\x81", "\"\\u0081\""},
        {"\xc2\x9f", "\"\\u009f\""},
        {"\xc2\xa0", "\"\xc2\xa0\""},
        {"\xe2\x80\xa8", "\"\xe2\x80\xa8\""},
        {"\xef\xbb\xbf", "\"\xef\xbb\xbf\""},
        {"\xef\xbf\xbe", "\"\\ufffe\""},
        {"\xef\xbf\xbf", "\"\\uffff\""},
        {"\t\r\n\b\f", "\"\\t\\r\\n\\b\\f\""},
        {"\x01\x1f", "\"\\u0001\\u001f\""},
        {"a\"b\\c", "\"a\\\"b\\\\c\""},
        {"a\xff"
         "b",
         "\"a\ufffdb\""},
        {"\xed\xa0\x80", "\"\ufffd\ufffd\ufffd\""},
        {"\xe2\x82", "\"\ufffd\ufffd\""},
        {"\xc0\x80", "\"\ufffd\ufffd\""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        restart();
        jw_str(&w, rows[i].text);
        assert_string_equal(out.data, rows[i].json);
    }
    restart();
    jw_strn(&w, "a\0b", 3);
    assert_string_equal(out.data, "\"a\\u0000b\"");
}

static void test_doubles(void **state)
{
    (void)state;
    static const struct {
        double v;
        const char *text;
    } rows[] = {
        {500000, "500000"},
        {1, "1"},
        {-0.0, "0"},
        {1e15, "1000000000000000"},
        {9007199254740991, "9007199254740991"},
        {-9007199254740991, "-9007199254740991"},
        {0.1, "0.1"},
        {1e-7, "1.0e-07"},
        {1.5e-7, "1.5e-07"},
        {1e21, "1.0e+21"},
        {1.0 / 3, "0.3333333333333333"},
        {18446744073709551615.0, "1.8446744073709552e+19"},
        {5e-324, "4.94065645841247e-324"},
        {1.7976931348623157e308, "1.7976931348623157e+308"},
        {9007199254740992, "9007199254740992"},
        {-2.5, "-2.5"},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        restart();
        jw_double(&w, rows[i].v);
        assert_string_equal(out.data, rows[i].text);
        assert_false(w.failed);
    }
    static const double bad[] = {NAN, INFINITY, -INFINITY};
    for (size_t i = 0; i < 3; i++) {
        restart();
        jw_double(&w, bad[i]);
        assert_true(w.failed);
    }
}

static void test_doubles_read_back(void **state)
{
    (void)state;
    struct random r;
    random_init(&r, 7);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = random_u64(&r);
        double v;
        memcpy(&v, &bits, sizeof(v));
        if (!isfinite(v))
            continue;
        restart();
        jw_double(&w, v);
        struct json_doc *d;
        assert_int_equal(json_parse(out.data, out.len, &d, NULL), 0);
        assert_true(yyjson_get_num((yyjson_val *)json_root(d)) == v);
        json_doc_free(d);
    }
}

static void test_whole_values_keep_their_text(void **state)
{
    (void)state;
    static const char text[] = "{\"big\":9223372036854775807,\"neg\":-9223372036854775808,\"odd\":"
                               "9007199254740993,\"million\":1000000,"
                               "\"e15\":999999999999999,\"any\":18446744073709551615,\"t\":true,\"n\":null,"
                               "\"s\":\"a/b\\u0000\",\"o\":{},\"l\":[[]]}";
    struct json_doc *d;
    assert_int_equal(json_parse(text, strlen(text), &d, NULL), 0);
    char *printed;
    size_t n;
    assert_int_equal(json_print(json_root(d), 1 << 20, &printed, &n, NULL), 0);
    assert_string_equal(printed, text);
    assert_int_equal(n, strlen(text));
    free(printed);
    assert_int_equal(json_print(NULL, 100, &printed, NULL, NULL), 0);
    assert_string_equal(printed, "null");
    free(printed);
    json_doc_free(d);
}

static void test_cap(void **state)
{
    (void)state;
    struct buf small;
    buf_init(&small, 8);
    jw_init(&w, &small);
    jw_array(&w);
    for (int i = 0; i < 100; i++)
        jw_str(&w, "text");
    jw_array_end(&w);
    assert_true(w.failed);
    assert_true(small.len <= 8);
    buf_fini(&small);
}

static bool long_key(const char *unit, size_t count)
{
    restart();
    jw_object(&w);
    struct buf key;
    buf_init(&key, 1 << 20);
    for (size_t i = 0; i < count; i++)
        buf_add_str(&key, unit);
    jw_key(&w, "outer");
    jw_array(&w);
    jw_object(&w);
    jw_key(&w, key.data);
    jw_int(&w, 1);
    jw_object_end(&w);
    jw_array_end(&w);
    jw_object_end(&w);
    buf_fini(&key);
    struct json_doc *d;
    assert_int_equal(json_parse(out.data, out.len, &d, NULL), 0);
    bool is_long = json_has_long_key(json_root(d));
    json_doc_free(d);
    return is_long;
}

static void test_long_keys(void **state)
{
    (void)state;
    assert_false(long_key("k", 900));
    assert_false(long_key("k", 1022)); // two quotes
    assert_true(long_key("k", 1023));
    assert_true(long_key("k", 1200));
    assert_false(long_key("\u20ac", 1022)); // characters, not bytes
    assert_true(long_key("\x01", 171));     // six each
    assert_false(long_key("\x01", 170));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_structure, setup, teardown),
        cmocka_unit_test_setup_teardown(test_strings_safe_for_both_readers, setup, teardown),
        cmocka_unit_test_setup_teardown(test_doubles, setup, teardown),
        cmocka_unit_test_setup_teardown(test_doubles_read_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_whole_values_keep_their_text, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cap, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_keys, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
