// ctest-labels: thread
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "base/buf.h"
#include "data/json.h"
#include "data/json_write.h"

static struct json_doc *parse(const char *text)
{
    struct json_doc *d = NULL;
    struct err e = {0};
    if (json_parse(text, strlen(text), &d, &e) < 0)
        fail_msg("%s", e.text);
    return d;
}

static void test_readers_take_anything(void **state)
{
    (void)state;
    struct json_doc *d = parse("{\"a\":{\"b\":[1,\"x\",true,null]},\"n\":7,\"t\":true}");
    const json *root = json_root(d);
    assert_int_equal(json_count(root), 3);
    assert_string_equal(json_str(json_at(json_path(root, "a", "b", NULL), 1)), "x");
    assert_ptr_equal(json_path(root, "a", "b", NULL), json_dotted(root, "a.b"));
    assert_null(json_path(root, "a", "nope", "b", NULL));
    assert_null(json_dotted(root, "a.nope.b"));
    assert_null(json_dotted(root, "n.b"));
    assert_null(json_get(NULL, "a"));
    assert_null(json_at(root, 0));
    assert_null(json_str(root));
    assert_int_equal(json_count(NULL), 0);
    assert_int_equal(json_count(json_get(root, "n")), 0);
    assert_true(json_is_null(NULL));
    assert_true(json_true(json_get(root, "t")));
    assert_false(json_true(json_get(root, "n")));
    assert_false(json_true(NULL));
    assert_int_equal(json_get_int(root, "n", -1), 7);
    assert_int_equal(json_get_int(root, "t", -1), -1);
    assert_null(json_get_str(root, "n"));
    json_doc_free(d);
    json_doc_free(NULL);
    assert_null(json_root(NULL));
}

static void test_iteration(void **state)
{
    (void)state;
    struct json_doc *d = parse("[{\"k\":1,\"l\":[2,3],\"m\":{}},[],\"x\"]");
    char seen[64] = "";
    for (struct json_iter i = json_iter(json_root(d)); json_next(&i);) {
        assert_null(i.key);
        snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%zu:", i.index);
        for (struct json_iter j = json_iter(i.value); json_next(&j);)
            snprintf(seen + strlen(seen), sizeof(seen) - strlen(seen), "%s%zu/%zu ", j.key, j.key_len,
                     j.index);
    }
    assert_string_equal(seen, "0:k1/0 l1/1 m1/2 1:2:");
    struct json_iter none = json_iter(NULL);
    assert_false(json_next(&none));
    json_doc_free(d);
}

static void test_integers_are_exact(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int r;
        int64_t v;
    } rows[] = {
        {"9223372036854775807", 0, INT64_MAX},
        {"-9223372036854775808", 0, INT64_MIN},
        {"9007199254740993", 0, 9007199254740993},
        {"9223372036854775808", -ERR_INVALID, 0},
        {"-9223372036854775809", -ERR_INVALID, 0},
        {"18446744073709551615", -ERR_INVALID, 0},
        {"600.0", 0, 600},
        {"1e3", 0, 1000},
        {"-0", 0, 0},
        {"-0.0", 0, 0},
        {"0.5", -ERR_INVALID, 0},
        {"1e400000", -ERR_PARSE, 0},
        {"1e300", -ERR_INVALID, 0},
        {"\"1\"", -ERR_INVALID, 0},
        {"null", -ERR_INVALID, 0},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct json_doc *d = NULL;
        int r = json_parse(rows[i].text, strlen(rows[i].text), &d, NULL);
        if (rows[i].r == -ERR_PARSE) {
            assert_int_equal(r, -ERR_PARSE);
            continue;
        }
        assert_int_equal(r, 0);
        int64_t v = 77;
        assert_int_equal(json_int(json_root(d), &v), rows[i].r);
        assert_true(v == (rows[i].r == 0 ? rows[i].v : 77));
        json_doc_free(d);
    }
}

static void test_strings_may_hold_nul(void **state)
{
    (void)state;
    struct json_doc *d = parse("{\"a\\u0000b\":\"c\\u0000d\"}");
    const json *v = json_getn(json_root(d), "a\0b", 3);
    assert_non_null(v);
    assert_int_equal(json_str_len(v), 3);
    assert_memory_equal(json_str(v), "c\0d", 4);
    assert_null(json_get(json_root(d), "a"));
    json_doc_free(d);
}

static void test_errors_say_where(void **state)
{
    (void)state;
    struct err e;
    struct json_doc *d = NULL;
    static const char text[] = "{\"a\": 1,\n \"b\" 2}";
    assert_int_equal(json_parse(text, strlen(text), &d, &e), -ERR_PARSE);
    assert_non_null(strstr(e.text, "line 2 column 6"));
    static const char *const bad[] = {"",    " ",       "{",   "[1,]",       "{\"a\":1,}",
                                      "nul", "01",      "1 2", "\"\xff\"",   "\"\n\"",
                                      "'a'", "// c\n1", "NaN", "\"\\ud800\""};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_int_equal(json_parse(bad[i], strlen(bad[i]), &d, &e), -ERR_PARSE);
        assert_null(d);
    }
}

static char *nested(const char *open, const char *middle, const char *close, size_t depth, size_t *ret_len)
{
    struct buf b;
    buf_init(&b, SIZE_MAX);
    for (size_t i = 0; i < depth; i++)
        buf_add_str(&b, open);
    buf_add_str(&b, middle);
    for (size_t i = 0; i < depth; i++)
        buf_add_str(&b, close);
    return buf_take(&b, ret_len);
}

static int parse_nested(const char *open, const char *middle, const char *close, size_t depth,
                        struct json_doc **d)
{
    size_t n;
    char *text = nested(open, middle, close, depth, &n);
    int r = json_parse(text, n, d, NULL);
    free(text);
    return r;
}

static void test_depth(void **state)
{
    (void)state;
    static const char *const pairs[][3] = {
        {"[", "", "]"}, {"{\"a\":", "1", "}"}, {"[1,", "2", ",{\"b\":[]}]"}};
    for (size_t i = 0; i < 3; i++) {
        size_t extra = i == 2 ? 2 : 0;
        struct json_doc *d = NULL;
        assert_int_equal(parse_nested(pairs[i][0], pairs[i][1], pairs[i][2], 1000 - extra, &d), 0);
        assert_true(json_equal(json_root(d), json_root(d)));
        json_doc_free(d);
        d = NULL;
        assert_int_equal(parse_nested(pairs[i][0], pairs[i][1], pairs[i][2], 1001 - extra, &d), -ERR_LIMIT);
        assert_null(d);
        assert_int_equal(parse_nested(pairs[i][0], pairs[i][1], pairs[i][2], 200000, &d), -ERR_LIMIT);
    }
    struct json_doc *d = NULL;
    assert_int_equal(parse_nested("[", "", "", 1000000, &d), -ERR_PARSE);
    assert_int_equal(parse_nested("{\"a\":", "", "", 100000, &d), -ERR_PARSE);
    assert_null(d);
}

// All that recurses does so within the stack of a small thread.
static void *walk_deep(void *arg)
{
    (void)arg;
    struct json_doc *a = NULL;
    struct json_doc *b = NULL;
    if (parse_nested("{\"a\":", "1", ",\"b\":[]}", 999, &a) < 0 ||
        parse_nested("{\"b\":[],\"a\":", "1.0", "}", 999, &b) < 0)
        return "not parsed";
    if (!json_equal(json_root(a), json_root(b)) || json_hash(json_root(a)) != json_hash(json_root(b)))
        return "not equal";
    char *text;
    if (json_has_long_key(json_root(a)) || json_print(json_root(a), 1 << 20, &text, NULL, NULL) < 0)
        return "not printed";
    free(text);
    json_doc_free(a);
    json_doc_free(b);
    return NULL;
}

static void test_depth_fits_a_small_stack(void **state)
{
    (void)state;
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, 1 << 20);
    pthread_t t;
    void *why;
    assert_int_equal(pthread_create(&t, &attr, walk_deep, NULL), 0);
    pthread_join(t, &why);
    assert_null(why);
    pthread_attr_destroy(&attr);
}

static void test_equal_and_hash(void **state)
{
    (void)state;
    static const struct {
        const char *a;
        const char *b;
        bool equal;
    } rows[] = {
        {"1", "1.0", true},
        {"1", "1e0", true},
        {"1000", "1e3", true},
        {"0", "-0", true},
        {"0", "-0.0", true},
        {"9007199254740993", "9007199254740992", false},
        {"9007199254740993", "9007199254740993.0", false},
        {"18446744073709551615", "18446744073709551616", false},
        {"18446744073709551615", "-1", false},
        {"0.1", "0.1", true},
        {"0.1", "0.10000000000000001", true},
        {"-9223372036854775808", "-9223372036854775808.0", true},
        {"1", "\"1\"", false},
        {"1", "true", false},
        {"true", "false", false},
        {"null", "null", true},
        {"null", "0", false},
        {"\"a\\u0000b\"", "\"a\\u0000c\"", false},
        {"\"\\u00e9\"", "\"\u00e9\"", true},
        {"\"a\"", "\"ab\"", false},
        {"[1,2]", "[2,1]", false},
        {"[1,2]", "[1,2,3]", false},
        {"[]", "{}", false},
        {"[[1],[2]]", "[[1],[2]]", true},
        {"{\"a\":1,\"b\":2}", "{\"b\":2,\"a\":1}", true},
        {"{\"a\":1,\"b\":2}", "{\"a\":1}", false},
        {"{\"a\":1,\"b\":2}", "{\"a\":1,\"c\":2}", false},
        {"{\"a\":1,\"b\":2}", "{\"a\":1,\"b\":3}", false},
        {"{\"a\":{\"x\":1,\"y\":[{}]}}", "{\"a\":{\"y\":[{}],\"x\":1.0}}", true},
        // of members with one key the first counts, as for json_get
        {"{\"a\":1,\"a\":2}", "{\"a\":1}", true},
        {"{\"a\":1,\"a\":2}", "{\"a\":1,\"a\":3}", true},
        {"{\"a\":1,\"a\":2}", "{\"a\":2,\"a\":2}", false},
        {"{\"a\":1,\"b\":0,\"a\":2,\"b\":5}", "{\"b\":0,\"a\":1}", true},
        {"{\"a\":1,\"b\":3,\"a\":2,\"b\":4}", "{\"a\":1,\"b\":3,\"a\":7,\"b\":8}", true},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        struct json_doc *a = parse(rows[i].a);
        struct json_doc *b = parse(rows[i].b);
        if (json_equal(json_root(a), json_root(b)) != rows[i].equal ||
            json_equal(json_root(b), json_root(a)) != rows[i].equal)
            fail_msg("%s and %s", rows[i].a, rows[i].b);
        if ((json_hash(json_root(a)) == json_hash(json_root(b))) != rows[i].equal)
            fail_msg("hashes of %s and %s", rows[i].a, rows[i].b);
        json_doc_free(a);
        json_doc_free(b);
    }
    assert_true(json_equal(NULL, NULL));
    struct json_doc *d = parse("null");
    assert_false(json_equal(NULL, json_root(d)));
    json_doc_free(d);
}

// Equal objects in another order on every level: two comparisons a level would never end.
static void test_equal_is_not_exponential(void **state)
{
    (void)state;
    struct json_doc *a = NULL;
    struct json_doc *b = NULL;
    assert_int_equal(parse_nested("{\"x\":", "1", ",\"p\":1,\"q\":2}", 500, &a), 0);
    assert_int_equal(parse_nested("{\"x\":", "1", ",\"q\":2,\"p\":1}", 500, &b), 0);
    assert_true(json_equal(json_root(a), json_root(b)));
    json_doc_free(a);
    json_doc_free(b);
}

static void test_big_containers(void **state)
{
    (void)state;
    enum { N = 50000 };
    struct buf up, down;
    buf_init(&up, SIZE_MAX);
    buf_init(&down, SIZE_MAX);
    for (int i = 0; i < N; i++) {
        buf_addf(&up, "%c\"key-%d\":%d", i == 0 ? '{' : ',', i, i);
        buf_addf(&down, "%c\"key-%d\":%d", i == 0 ? '{' : ',', N - 1 - i, N - 1 - i);
    }
    buf_add_char(&up, '}');
    buf_add_char(&down, '}');
    struct json_doc *a = parse(up.data);
    struct json_doc *b = parse(down.data);
    assert_true(json_equal(json_root(a), json_root(b)));
    assert_true(json_hash(json_root(a)) == json_hash(json_root(b)));
    char *text;
    size_t n;
    assert_int_equal(json_print(json_root(a), up.len, &text, &n, NULL), 0);
    assert_int_equal(n, up.len);
    assert_memory_equal(text, up.data, n);
    free(text);
    assert_int_equal(json_print(json_root(a), up.len - 1, &text, &n, NULL), -ERR_LIMIT);
    json_doc_free(a);
    json_doc_free(b);
    buf_fini(&up);
    buf_fini(&down);
}

// With exactly what it takes it is read, with less it is not, and what it takes is about what it weighs.
static void test_memory_is_bounded(void **state)
{
    (void)state;
    enum { COUNT = 50000 };
    struct buf text;
    struct json_doc *doc;
    struct err e;
    size_t memory, less;
    buf_init(&text, 1 << 20);
    for (int i = 0; i < COUNT; i++)
        buf_add_str(&text, i == 0 ? "[1" : ",1");
    buf_add_char(&text, ']');
    assert_int_equal(json_parse_within(text.data, text.len, SIZE_MAX, &doc, &memory, &e), 0);
    json_doc_free(doc);
    assert_true(memory >= COUNT * 16 && memory <= COUNT * 16 * 3);
    assert_int_equal(json_parse_within(text.data, text.len, memory, &doc, &less, &e), 0);
    assert_int_equal(json_count(json_root(doc)), COUNT);
    assert_int_equal(less, memory);
    json_doc_free(doc);
    for (size_t max = 0; max < memory; max += memory / 50 + 1) {
        doc = NULL;
        assert_int_equal(json_parse_within(text.data, text.len, max, &doc, &less, &e), -ERR_LIMIT);
        assert_null(doc);
        assert_true(less > max);
    }
    assert_int_equal(json_parse_within("[1,", 3, memory, &doc, &less, &e), -ERR_PARSE);
    assert_true(less <= memory);
    buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_readers_take_anything),    cmocka_unit_test(test_iteration),
        cmocka_unit_test(test_integers_are_exact),       cmocka_unit_test(test_strings_may_hold_nul),
        cmocka_unit_test(test_errors_say_where),         cmocka_unit_test(test_depth),
        cmocka_unit_test(test_depth_fits_a_small_stack), cmocka_unit_test(test_equal_and_hash),
        cmocka_unit_test(test_equal_is_not_exponential), cmocka_unit_test(test_big_containers),
        cmocka_unit_test(test_memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
