#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "base/buf.h"
#include "data/json.h"
#include "data/yaml.h"

// What the documents came to: JSON texts, each behind its line.
static struct buf seen;
static int count;
static struct err e;

static int on_document(void *ud, const char *source, size_t n, size_t line, struct err *err)
{
    (void)ud;
    (void)err;
    struct json_doc *d;
    assert_int_equal(json_parse(source, n, &d, NULL), 0);
    json_doc_free(d);
    buf_addf(&seen, "%zu ", line);
    buf_add(&seen, source, n);
    buf_add_char(&seen, '\n');
    count++;
    return 0;
}

static int read_n(const char *text, size_t n)
{
    buf_reset(&seen);
    count = 0;
    e = (struct err){0};
    return yaml_to_json(text, n, on_document, NULL, &e);
}

static void assert_read(const char *text, const char *expected)
{
    if (read_n(text, strlen(text)) != 0)
        fail_msg("%s: %s", text, e.text);
    assert_string_equal(seen.data != NULL ? seen.data : "", expected);
}

static void assert_value(const char *scalar, const char *source)
{
    char text[600], expected[600];
    snprintf(text, sizeof(text), "a: %s\n", scalar);
    snprintf(expected, sizeof(expected), "1 {\"a\":%s}\n", source);
    assert_read(text, expected);
}

static void assert_fails(const char *text, int code, const char *part)
{
    int r = read_n(text, strlen(text));
    if (r != -code || strstr(e.text, part) == NULL)
        fail_msg("%s: %d, %s", text, r, e.text);
    assert_int_equal(e.code, -code);
}

static int setup(void **state)
{
    (void)state;
    buf_init(&seen, 64 << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    buf_fini(&seen);
    return 0;
}

static void test_scalars(void **state)
{
    (void)state;
    static const char *const rows[][2] = {
        {"", "null"},
        {"~", "null"},
        {"Null", "null"},
        {"nULL", "\"nULL\""},
        {"''", "\"\""},
        {"true", "true"},
        {"yes", "true"},
        {"On", "true"},
        {"y", "true"},
        {"n", "false"},
        {"OFF", "false"},
        {"yEs", "\"yEs\""},
        {"'yes'", "\"yes\""},
        {"\"no\"", "\"no\""},
        {"12", "12"},
        {"-7", "-7"},
        {"+7", "7"},
        {"012", "10"},
        {"0o17", "15"},
        {"0x1F", "31"},
        {"0b101", "5"},
        {"-0b11", "-3"},
        {"089", "89"},
        {"1_000", "1000"},
        {"_1", "\"_1\""},
        {"0", "0"},
        {"-0", "0"},
        {"00", "0"},
        {"0x", "\"0x\""},
        {"0o8", "\"0o8\""},
        {"9223372036854775807", "9223372036854775807"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"18446744073709551615", "18446744073709551615"},
        {"18446744073709551616", "1.8446744073709552e+19"},
        {"1.0", "1"},
        {"1.5", "1.5"},
        {".5", "0.5"},
        {"5.", "5"},
        {"1e3", "1000"},
        {"1e-7", "1.0e-07"},
        {"1e", "\"1e\""},
        {"1e400", "\"1e400\""},
        {"1.2.3", "\"1.2.3\""},
        {"+", "\"+\""},
        {".", "\".\""},
        {"1:30", "\"1:30\""},
        {"2001-12-14", "\"2001-12-14\""},
        {"2001-12-14T21:59:43.10Z", "\"2001-12-14T21:59:43.10Z\""},
        {"1000m", "\"1000m\""},
        {"2Gi", "\"2Gi\""},
        {"1.2.3.4", "\"1.2.3.4\""},
        {"!!str 12", "\"12\""},
        {"! 12", "\"12\""},
        {"!!int '12'", "12"},
        {"!!float 1", "1"},
        {"!!bool 'yes'", "true"},
        {"!!null ''", "null"},
        {"!!binary aGVsbG8=", "\"hello\""},
        {"!!timestamp 2001-12-14", "\"2001-12-14\""},
        {"!custom 12", "\"12\""},
        {"'.inf'", "\".inf\""},
        {"\"\\u00e9\\n\\x41\"", "\"\u00e9\\nA\""},
        {"\"\\/\"", "\"/\""},
        {"{b: [1, x, {}], c: }", "{\"b\":[1,\"x\",{}],\"c\":null}"},
        {"[]", "[]"},
        {"<<", "\"<<\""},
        {"x # comment", "\"x\""},
        {"x#y", "\"x#y\""},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        assert_value(rows[i][0], rows[i][1]);
    }
    assert_fails("a: .inf", ERR_PARSE, "line 1 column 4: JSON has no infinity");
    assert_fails("a: .NaN", ERR_PARSE, "JSON has no infinity and no NaN");
    assert_fails("a: 0xfffffffffffffffff", ERR_PARSE, "beyond 64 bits");
    assert_fails("a: !!int x", ERR_PARSE, "does not fit its !! tag");
    assert_fails("a: !!binary '!'", ERR_PARSE, "base64");
}

static void test_keys(void **state)
{
    (void)state;
    assert_read("1: a\n012: b\nyes: c\n1.5: d\n'1x': e\n\"\": f\n",
                "1 {\"1\":\"a\",\"10\":\"b\",\"true\":\"c\",\"1.5\":\"d\",\"1x\":\"e\",\"\":\"f\"}\n");
    assert_fails("a: 1\nb: 2\na: 3\n", ERR_PARSE,
                 "line 3 column 1: the key \"a\" is there already, in line 1");
    assert_fails("1: a\n'1': b\n", ERR_PARSE, "there already");
    assert_read("a: {x: 1}\nb: {x: 1}\n", "1 {\"a\":{\"x\":1},\"b\":{\"x\":1}}\n");
    assert_fails("~: a\n", ERR_PARSE, "not null");
    assert_fails("[1]: a\n", ERR_PARSE, "not a list or a map");
    assert_fails("? {a: 1}\n: b\n", ERR_PARSE, "not a list or a map");
}

static void test_block_scalar_that_begins_with_a_separator(void **state)
{
    (void)state;
    assert_read(
        "metadata:\n  annotations:\n    a: |\n      ---\n      apiVersion: v1\n      ---\n  name: x\n",
        "1 {\"metadata\":{\"annotations\":{\"a\":\"---\\napiVersion: v1\\n---\\n\"},\"name\":\"x\"}}\n");
}

static void test_bom_and_crlf(void **state)
{
    (void)state;
    assert_read("\xef\xbb\xbf"
                "a: |\r\n  x\r\n  y\r\nb: 1\r\n---\r\nc: 2\r\n",
                "1 {\"a\":\"x\\ny\\n\",\"b\":1}\n6 {\"c\":2}\n");
}

static void test_empty_documents_are_passed_over(void **state)
{
    (void)state;
    assert_read("---\n# only a comment\n---\n---\na: 1\n--- # comment\nb: 2\n...\n---\n{c: 3}\n",
                "5 {\"a\":1}\n7 {\"b\":2}\n10 {\"c\":3}\n");
    assert_read("", "");
    assert_read("\n\n", "");
    assert_read("# comment", "");
    assert_read("---", "");
    assert_read("---\n", "");
    assert_read("---\n---\n---", "");
    assert_read("\xef\xbb\xbf", "");
    assert_read("a: 1", "1 {\"a\":1}\n"); // no newline at the end
}

static void test_separators(void **state)
{
    (void)state;
    assert_fails("a: \"x\n---multiline\"\n", ERR_PARSE, "line 2: a line that begins with ---");
    assert_fails("a: 1\n---b: 2\n", ERR_PARSE, "line 2");
    assert_read("--- |\n  text\n--- {a: 1}\n", "1 \"text\\n\"\n3 {\"a\":1}\n");
    assert_read("%YAML 1.2\n---\na: 1\n", "3 {\"a\":1}\n");
    assert_read("%YAML 1.1\n---\na: 1\n", "3 {\"a\":1}\n");
    assert_fails("a:\n\tb: 1\n", ERR_PARSE, "line 2 column 1: a tab is not allowed here");
    assert_fails("a: 1\n---\nb: [1\n", ERR_PARSE, "line 4");
    assert_int_equal(count, 1); // the first was whole
    assert_fails("{a: 1} x\n", ERR_PARSE, "line 1");
    assert_int_equal(count, 0); // never half a line
}

static void test_json_documents(void **state)
{
    (void)state;
    assert_read("{\"a\":1}\n{\"b\":\n2}{\"c\":3}\n", "1 {\"a\":1}\n2 {\"b\":\n2}\n3 {\"c\":3}\n");
    assert_read("{\"a\":1}\n---\n{\"b\":2}\n--- \r\nc: 3\n", "1 {\"a\":1}\n3 {\"b\":2}\n5 {\"c\":3}\n");
    assert_read("{\"a\":1} # comment\n---\nb: 2\n", "1 {\"a\":1}\n3 {\"b\":2}\n");
    assert_read("{a: 1}\n", "1 {\"a\":1}\n");
    assert_read("{\"a\": yes}\n", "1 {\"a\":true}\n");
    assert_read("{\"a\":\"}\\\"{\\\\\"}{\"b\":[{}]}", "1 {\"a\":\"}\\\"{\\\\\"}\n1 {\"b\":[{}]}\n");
    assert_read("[1,2]\n", "1 [1,2]\n");
    assert_fails("{\"a\":1}\n\n{\"b\":\n]", ERR_PARSE, "line 4");
    assert_fails("{\"a\":1}\n---\n\nb: [\n", ERR_PARSE, "line 5");
}

static void test_anchors_and_merges(void **state)
{
    (void)state;
    assert_read("a: &x {v: 1}\nb: *x\nc: [*x, *x]\n",
                "1 {\"a\":{\"v\":1},\"b\":{\"v\":1},\"c\":[{\"v\":1},{\"v\":1}]}\n");
    assert_read("a: &x 1\nb: &x 2\nc: *x\n", "1 {\"a\":1,\"b\":2,\"c\":2}\n");
    assert_read("&k key: &v val\n*v : *k\n", "1 {\"key\":\"val\",\"val\":\"key\"}\n");
    assert_read("base: &b {x: 1, w: 2}\nd:\n  <<: *b\n  w: 3\n",
                "1 {\"base\":{\"x\":1,\"w\":2},\"d\":{\"w\":3,\"x\":1}}\n");
    assert_read("d:\n  w: 3\n  <<: [{x: 1, w: 2}, {x: 9, z: 5}]\n", "1 {\"d\":{\"w\":3,\"x\":1,\"z\":5}}\n");
    assert_read("d: {<<: {<<: {a: 1}, b: 2}, c: 3}\n", "1 {\"d\":{\"c\":3,\"b\":2,\"a\":1}}\n");
    assert_read("d: {a: 1, <<: &m {b: 2}, e: *m}\n", "1 {\"d\":{\"a\":1,\"e\":{\"b\":2},\"b\":2}}\n");
    assert_read("'<<': 1\n", "1 {\"<<\":1}\n");
    assert_read("a: {'<<': {b: 1}}\n", "1 {\"a\":{\"<<\":{\"b\":1}}}\n");
    assert_fails("<<: 1\n", ERR_PARSE, "must be a map");
    assert_fails("<<: [1]\n", ERR_PARSE, "must be a map");
    assert_fails("a: *x\n", ERR_PARSE, "has the anchor &x");
    assert_fails("a: &x [*x]\n", ERR_PARSE, "has the anchor &x");
    assert_fails("a: &x 1\n---\nb: *x\n", ERR_PARSE, "line 3"); // anchors end with the document
}

static void test_alias_bomb(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 1 << 20);
    buf_add_str(&text, "a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
    for (int i = 1; i < 30; i++)
        buf_addf(&text, "a%d: &a%d [*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d,*a%d]\n", i, i, i - 1, i - 1,
                 i - 1, i - 1, i - 1, i - 1, i - 1, i - 1, i - 1);
    assert_fails(text.data, ERR_LIMIT, "anchors and aliases make too much text");
    // Nesting by aliases: each level is one deeper than the text shows.
    buf_reset(&text);
    buf_add_str(&text, "a0: &a0 []\n");
    for (int i = 1; i < 1200; i++)
        buf_addf(&text, "a%d: &a%d [*a%d]\n", i, i, i - 1);
    assert_fails(text.data, ERR_LIMIT, "nested too deep");
    buf_reset(&text);
    buf_add_str(&text, "m0: &m0 {k0: 1}\n");
    for (int i = 1; i < 3000; i++)
        buf_addf(&text, "m%d: &m%d {<<: *m%d, k%d: 1}\n", i, i, i - 1, i);
    assert_fails(text.data, ERR_LIMIT, "anchors and aliases");
    buf_fini(&text);
}

static char *nested(const char *open, const char *middle, const char *close, int depth)
{
    struct buf b;
    buf_init(&b, SIZE_MAX);
    for (int i = 0; i < depth; i++)
        buf_add_str(&b, open);
    buf_add_str(&b, middle);
    for (int i = 0; i < depth; i++)
        buf_add_str(&b, close);
    return buf_take(&b, NULL);
}

static void test_depth(void **state)
{
    (void)state;
    char *text = nested("[", "", "]", 1000);
    assert_int_equal(read_n(text, strlen(text)), 0);
    free(text);
    static const int depths[] = {1001, 100000};
    for (int i = 0; i < 2; i++) {
        text = nested("[", "", "]", depths[i]);
        assert_fails(text, ERR_LIMIT, "nested too deep");
        free(text);
        text = nested("{a: ", "1", "}", depths[i]);
        assert_fails(text, ERR_LIMIT, "nested too deep");
        free(text);
        text = nested("{\"a\":", "1", "}", depths[i]);
        assert_fails(text, ERR_LIMIT, "nested too deep");
        free(text);
        text = nested("- ", "1", "", depths[i]);
        assert_fails(text, ERR_LIMIT, "nested too deep");
        free(text);
    }
}

static void test_many_documents(void **state)
{
    (void)state;
    struct buf text;
    buf_init(&text, 1 << 20);
    for (int i = 0; i < 3000; i++)
        buf_addf(&text, "---\nkind: List\nv: %d\n", i);
    text.len--; // no newline at the end
    assert_int_equal(read_n(text.data, text.len), 0);
    assert_int_equal(count, 3000);
    assert_non_null(strstr(seen.data, "\n8999 {\"kind\":\"List\",\"v\":2999}\n"));
    buf_fini(&text);
}

static int stop_at_second(void *ud, const char *source, size_t n, size_t line, struct err *err)
{
    (void)source;
    (void)n;
    (void)err;
    int *calls = ud;
    return ++*calls == 2 ? 1000 + (int)line : 0;
}

static void test_callback_stops(void **state)
{
    (void)state;
    int calls = 0;
    static const char yaml[] = "a: 1\n---\nb: 2\n---\nc: [\n";
    assert_int_equal(yaml_to_json(yaml, strlen(yaml), stop_at_second, &calls, NULL), 1003);
    calls = 0;
    static const char source[] = "{}\n{}\n{}";
    assert_int_equal(yaml_to_json(source, strlen(source), stop_at_second, &calls, NULL), 1002);
}

static void test_bytes_that_are_no_text(void **state)
{
    (void)state;
    assert_fails("a: 1\nb: \xff\n", ERR_PARSE, "line 2");
    assert_fails("a: 1\nb: \x01\n", ERR_PARSE, "line 2");
    assert_int_equal(read_n("a: \0\n", 5), -ERR_PARSE);
    assert_int_equal(read_n("---\0", 4), -ERR_PARSE);
    assert_fails("a: b: c\n", ERR_PARSE, "line 1 column 5: mapping values are not allowed");
}

static int keep(void *ud, const char *source, size_t n, size_t line, struct err *err)
{
    (void)line;
    (void)err;
    buf_add(ud, source, n);
    return 0;
}

static void assert_round_trip(const char *source)
{
    struct buf yaml, back;
    buf_init(&yaml, 1 << 20);
    buf_init(&back, 1 << 20);
    struct err err;
    assert_int_equal(yaml_from_json(source, strlen(source), &yaml, NULL), 0);
    if (yaml_to_json(yaml.data, yaml.len, keep, &back, &err) != 0)
        fail_msg("%s\n%s", yaml.data, err.text);
    struct json_doc *a, *b;
    assert_int_equal(json_parse(source, strlen(source), &a, NULL), 0);
    assert_int_equal(json_parse(back.data, back.len, &b, NULL), 0);
    if (!json_equal(json_root(a), json_root(b)))
        fail_msg("%s\n%s\n%s", source, yaml.data, back.data);
    json_doc_free(a);
    json_doc_free(b);
    buf_fini(&yaml);
    buf_fini(&back);
}

static void test_from_json(void **state)
{
    (void)state;
    static const char source[] =
        "{\"apiVersion\":\"apps/v1\",\"metadata\":{\"name\":\"web\",\"labels\":{},\"annotations\":{\"a/"
        "b\":\"yes\",\"n\":\"12\","
        "\"long\":\"x\\n "
        "y\\n\\nz\\n\"}},\"spec\":{\"replicas\":3,\"list\":[{\"name\":\"a\",\"args\":[\"-v\",\"--x=1\"]},[1,["
        "]],"
        "\"p: q\",null],\"ok\":true}}";
    struct buf yaml;
    buf_init(&yaml, 1 << 20);
    assert_int_equal(yaml_from_json(source, strlen(source), &yaml, NULL), 0);
    assert_string_equal(yaml.data, "apiVersion: apps/v1\n"
                                   "metadata:\n"
                                   "  name: web\n"
                                   "  labels: {}\n"
                                   "  annotations:\n"
                                   "    a/b: \"yes\"\n"
                                   "    \"n\": \"12\"\n"
                                   "    long: |\n"
                                   "      x\n"
                                   "       y\n"
                                   "\n"
                                   "      z\n"
                                   "spec:\n"
                                   "  replicas: 3\n"
                                   "  list:\n"
                                   "  - name: a\n"
                                   "    args:\n"
                                   "    - \"-v\"\n"
                                   "    - \"--x=1\"\n"
                                   "  - - 1\n"
                                   "    - []\n"
                                   "  - \"p: q\"\n"
                                   "  - null\n"
                                   "  ok: true\n");
    buf_fini(&yaml);
    buf_init(&yaml, 10);
    assert_int_equal(yaml_from_json(source, strlen(source), &yaml, NULL), -ERR_LIMIT);
    buf_fini(&yaml);
    buf_init(&yaml, 100);
    assert_int_equal(yaml_from_json("{", 1, &yaml, NULL), -ERR_PARSE);
    buf_fini(&yaml);
}

static int add_to(void *ud, const char *doc, size_t doc_len, size_t line, struct err *why)
{
    (void)line, (void)why;
    return buf_add(ud, doc, doc_len);
}

// Keys, anchors, aliases, merges, long texts and JSON: with what it takes the text is read, with less it is
// not, and the result is the same.
static void test_memory_is_bounded(void **state)
{
    (void)state;
    static const char *const heads[] = {"{\"a\": [1, 2, 3]}\n---\n", ""};
    for (int h = 0; h < 2; h++) {
        struct buf text, want, got;
        struct yaml_limits limits = {.memory = SIZE_MAX};
        buf_init(&text, 1 << 20);
        buf_init(&want, 1 << 20);
        buf_init(&got, 1 << 20);
        buf_add_str(&text, heads[h]);
        for (int i = 0; i < 500; i++)
            buf_addf(&text, "key%d: &a%d {x: %d, y: [a, b]}\n", i, i, i);
        buf_add_str(&text, "merged:\n  <<: [*a1, *a2]\n  z: *a3\nlong: \"");
        for (int i = 0; i < 5000; i++)
            buf_add_str(&text, "\\u0001");
        buf_add_str(&text, "\"\n");
        assert_int_equal(yaml_to_json_within(text.data, text.len, &limits, add_to, &want, &e), 0);
        size_t memory = limits.took;
        assert_true(memory >= text.len && memory <= 1 << 20);
        limits.memory = memory;
        assert_int_equal(yaml_to_json_within(text.data, text.len, &limits, add_to, &got, &e), 0);
        assert_int_equal(limits.took, memory);
        assert_string_equal(got.data, want.data);
        for (size_t max = 0; max < memory; max += memory / 200 + 1) {
            buf_reset(&got);
            limits.memory = max;
            int r = yaml_to_json_within(text.data, text.len, &limits, add_to, &got, &e);
            assert_true(r == -ERR_LIMIT ? limits.took > max : r == 0 && limits.took <= max);
            assert_true(r == 0 || max < memory);
        }
        limits.memory = memory / 2;
        assert_int_equal(yaml_to_json_within(text.data, text.len, &limits, add_to, &got, &e), -ERR_LIMIT);
        buf_fini(&text);
        buf_fini(&want);
        buf_fini(&got);
    }
}

static bool ends_at(void *ud, uint64_t nodes)
{
    uint64_t *left = ud;
    *left -= nodes < *left ? nodes : *left;
    return *left == 0;
}

static void expect_gives_up(const struct buf *text, uint64_t nodes_at_least)
{
    enum { PLENTY = 1000000, STEP = 64 };
    uint64_t left = PLENTY;
    struct buf got;
    struct yaml_limits limits = {.memory = SIZE_MAX, .is_over = ends_at, .ud = &left};
    buf_init(&got, 1 << 20);
    assert_int_equal(yaml_to_json_within(text->data, text->len, &limits, add_to, &got, &e), 0);
    uint64_t all = PLENTY - left;
    assert_in_range(all, nodes_at_least, PLENTY - 1);
    for (uint64_t end = 1; end + STEP < all; end += all / 10 + 1) {
        left = end;
        assert_int_equal(yaml_to_json_within(text->data, text->len, &limits, add_to, &got, &e),
                         -ERR_CANCELED);
    }
    buf_fini(&got);
}

// Whatever takes long can be given up: nodes, and the members of merges.
static void test_gives_up(void **state)
{
    struct buf text;
    (void)state;
    buf_init(&text, 1 << 20);
    for (int i = 0; i < 500; i++)
        buf_add_str(&text, "- {a: [b, c]}\n");
    expect_gives_up(&text, 500 * 5);
    buf_reset(&text);
    buf_add_str(&text, "m: &m {");
    for (int i = 0; i < 500; i++)
        buf_addf(&text, "k%d: 1, ", i);
    buf_add_str(&text, "}\n");
    for (int i = 0; i < 40; i++)
        buf_addf(&text, "c%d: {<<: *m}\n", i);
    expect_gives_up(&text, 500 * 40);
    buf_fini(&text);
}

static void test_round_trips(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{}",
        "[]",
        "1",
        "\"x\"",
        "\"a\\nb\"",
        "\"...\"",
        "\"... x\"",
        "null",
        "[\"\\n\",\"a\\n\",\"a\\n\\n\",\"a\\n\\n\\nb\",\" a\\nb\",\"a\\n  \\nb\",\"a\\n  "
        "\",\"\\ta\\nb\",\"a\\tb\\n\\tc\"]",
        "[\"\\u0085\",\"\\u2028\",\"\\ufeff\",\"\\uffff\",\"\\u0000\",\"\\u007f\",\"\\ud83d\\ude00\",\"/"
        "\",\"a\\r\\nb\"]",
        "[\"yes\",\"~\",\"\",\"1\",\"0x1\",\"1e3\",\".inf\",\"<<\",\"=\",\"#\",\"a #b\",\"a: b\",\"a:\",\"- "
        "a\",\"-\",\"?\",\"!a\",\"&a\",\"*a\",\"%a\",\"@a\",\"`a\",\"{a\",\"[a\",\"'a\",\"|\",\">\",\"---\","
        "\"...\",\"1:30\",\"2001-01-01\",\"a,b\",\"null\",\"x \",\" x\"]",
        "{\"<<\":1,\"yes\":2,\"1\":3,\"\":4,\"a b\":5,\"a\\nb\":6,\"---\":7,\"- x\":8,\"? x\":9}",
        "[[[[]],[{}]],{\"a\":[[1,2],[{\"b\":{\"c\":[{\"d\":1},{\"e\":\"x\\ny\"}]}}]]}]",
        "[1e21,1e-7,0.1,9223372036854775807,18446744073709551615,-1,1.5]",
        "\"---\\nx\"",
        "\"# x\\n\"",
        "[\"# x\\ny\\n\",\"---\\na\\n...\\n\"]",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        assert_round_trip(texts[i]);
    char *deep = nested("{\"a\":[", "1", "]}", 500);
    assert_round_trip(deep);
    free(deep);
    char *key = nested("k", "", "", 3000);
    char source[4000];
    snprintf(source, sizeof(source), "{\"a\":{\"%s\":{\"x\":[1]},\"b\":2}}", key);
    assert_round_trip(source);
    free(key);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_scalars, setup, teardown),
        cmocka_unit_test_setup_teardown(test_keys, setup, teardown),
        cmocka_unit_test_setup_teardown(test_block_scalar_that_begins_with_a_separator, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bom_and_crlf, setup, teardown),
        cmocka_unit_test_setup_teardown(test_empty_documents_are_passed_over, setup, teardown),
        cmocka_unit_test_setup_teardown(test_separators, setup, teardown),
        cmocka_unit_test_setup_teardown(test_json_documents, setup, teardown),
        cmocka_unit_test_setup_teardown(test_anchors_and_merges, setup, teardown),
        cmocka_unit_test_setup_teardown(test_alias_bomb, setup, teardown),
        cmocka_unit_test_setup_teardown(test_depth, setup, teardown),
        cmocka_unit_test_setup_teardown(test_many_documents, setup, teardown),
        cmocka_unit_test_setup_teardown(test_callback_stops, setup, teardown),
        cmocka_unit_test_setup_teardown(test_bytes_that_are_no_text, setup, teardown),
        cmocka_unit_test_setup_teardown(test_from_json, setup, teardown),
        cmocka_unit_test_setup_teardown(test_gives_up, setup, teardown),
        cmocka_unit_test_setup_teardown(test_round_trips, setup, teardown),
        cmocka_unit_test(test_memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
