// Values between JSON and Lua: what is read and returned unchanged is the same JSON value.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include <lauxlib.h>
#include <lualib.h>

#include "base/buf.h"
#include "script/convert.h"
#include "script/failure.h"
#include "script/native.h"
#include "script/seed.h"

static lua_State *new_state(void)
{
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    convert_open(L);
    failure_open(L);
    native_push(L);
    lua_setglobal(L, "native");
    return L;
}

static int set_up(void **state)
{
    *state = new_state();
    return 0;
}

static int tear_down(void **state)
{
    lua_close(*state);
    return 0;
}

static void run(lua_State *L, const char *code)
{
    if (luaL_dostring(L, code) != 0)
        fail_msg("%s: %s", code, lua_tostring(L, -1));
}

static void decode(lua_State *L, const char *text)
{
    struct err e;
    if (convert_push_text(L, text, strlen(text), &e) < 0)
        fail_msg("%s", e.text);
}

// The JSON of the value at the top, which is taken away.
static char *encode(lua_State *L)
{
    struct buf out;
    struct json_writer w;
    struct err e;
    int top = lua_gettop(L);
    buf_init(&out, 64 << 20);
    jw_init(&w, &out);
    if (convert_write(L, -1, &w, "", &e) < 0)
        fail_msg("%s", e.text);
    assert_int_equal(lua_gettop(L), top);
    lua_pop(L, 1);
    return buf_take(&out, NULL);
}

static void expect_json(lua_State *L, const char *want)
{
    char *got = encode(L);
    assert_string_equal(got, want);
    free(got);
}

static void expect_code(lua_State *L, const char *code, const char *want)
{
    run(L, code);
    expect_json(L, want);
    lua_settop(L, 0);
}

static int write_error(lua_State *L, const char *code, size_t max, struct err *e)
{
    struct buf out;
    struct json_writer w;
    run(L, code);
    int top = lua_gettop(L);
    buf_init(&out, max);
    jw_init(&w, &out);
    int r = convert_write(L, -1, &w, "status", e);
    assert_int_equal(lua_gettop(L), top);
    lua_settop(L, 0);
    buf_fini(&out);
    return r;
}

static void expect_error(lua_State *L, const char *code, const char *want)
{
    struct err e = {0};
    assert_true(write_error(L, code, 1 << 20, &e) < 0);
    if (strstr(e.text, want) == NULL)
        fail_msg("%s: wanted \"%s\", got \"%s\"", code, want, e.text);
}

// Text in, Lua, text out.
static void expect_same(lua_State *L, const char *text)
{
    decode(L, text);
    expect_json(L, text);
}

static void test_empty_tables_keep_their_kind(void **state)
{
    lua_State *L = *state;
    expect_same(L, "{\"ingress\":[],\"nested\":[[],{}],\"podSelector\":{},\"policyTypes\":[\"Ingress\"]}");
    decode(L, "{\"l\":[1],\"e\":[]}");
    lua_setglobal(L, "v");
    expect_code(L, "table.remove(v.l); table.insert(v.e, 'x'); return v", "{\"e\":[\"x\"],\"l\":[]}");
    expect_code(L, "return {native.array{}, {}, native.array()}", "[[],{},[]]");
}

static void test_numbers_are_exact(void **state)
{
    lua_State *L = *state;
    expect_same(L, "{\"any\":18446744073709551615,\"big\":9223372036854775807,\"e15\":999999999999999,"
                   "\"edge\":9007199254740992,\"million\":1000000,\"neg\":-9223372036854775808,"
                   "\"odd\":9007199254740993,\"tiny\":1.0e-07,\"uid\":1000660000}");
    decode(L, "{\"ratio\":1.0,\"exp\":1e3,\"zero\":-0,\"million\":1000000,\"odd\":9007199254740993}");
    lua_setglobal(L, "s");
    expect_code(L, "return {s.ratio, s.exp, s.zero, s.million / 2, tostring(s.odd), '' .. s.odd}",
                "[1,1000,0,500000,\"9007199254740993\",\"9007199254740993\"]");
    expect_code(L, "return {2^53, 2^62, -2^62, 1e300, 0.1}",
                "[9007199254740992,4611686018427387904,-4611686018427387904,1.0e+300,0.1]");
}

static void test_boxed_integers(void **state)
{
    lua_State *L = *state;
    decode(L,
           "[9007199254740993,9007199254740993,9007199254740995,-9223372036854775808,18446744073709551615]");
    lua_setglobal(L, "v");
    run(L, "assert(v[1] == v[2] and v[1] ~= v[3] and v[1] < v[3] and v[4] < v[1] and v[5] > v[3] and v[4] <= "
           "v[4])");
    run(L, "local c = native.compare; assert(c(v[1], v[2]) == 0 and c(v[1], 1) == 1 and c(1, v[1]) == -1)");
    run(L, "assert(native.compare(v[1], 2^53) == 1 and native.compare(v[5], 1e30) == -1)");
    run(L, "assert(native.compare(v[4], -2^63) == 0 and native.compare(-1e30, v[4]) == -1)");
    run(L, "assert(not pcall(native.compare, 0/0, 1) and native.compare('a', 'b') == -1)");
    for (const char *op = "+-*/%^"; *op != 0; op++) {
        char code[256];
        snprintf(code, sizeof(code),
                 "local ok, e = pcall(function() return v[1] %c 1 end) "
                 "assert(not ok and e:find('9007199254740993', 1, true) and e:find('k8s.compare'), e)",
                 *op);
        run(L, code);
    }
    run(L,
        "assert(not pcall(function() return v[1] < 1 end)); assert(not pcall(function() return v[1].x end))");
    run(L, "assert(getmetatable(v[1]) == false)");
}

static void test_null(void **state)
{
    lua_State *L = *state;
    expect_same(L, "{\"any\":{\"l\":[],\"m\":{},\"nu\":null},\"list\":[null,\"a\",null],\"opt\":null}");
    decode(L, "{\"opt\":null,\"x\":1,\"list\":[null]}");
    lua_setglobal(L, "v");
    run(L, "assert(v.opt == nil and v.list[1] == native.null and #v.list == 1)");
    run(L, "local n = 0 for k in pairs(v) do n = n + 1 end assert(n == 2)");
    expect_code(L, "return native.mark_like({x = 2}, v)", "{\"opt\":null,\"x\":2}");
    expect_code(L, "v.opt = 5; v.list = nil; return v", "{\"opt\":5,\"x\":1}");
    expect_code(L, "return {a = native.null, b = {native.null}}", "{\"a\":null,\"b\":[null]}");
    run(L, "assert(tostring(native.null) == 'null' and native.null ~= nil)");
    run(L, "local ok, e = pcall(function() return native.null.x end) assert(not ok and e:find('index "
           "k8s.null'), e)");
    expect_error(L, "return {[native.null] = 1}", "status: has a key of type k8s.null");
}

static void test_wrong_tables_are_named(void **state)
{
    lua_State *L = *state;
    expect_error(L, "return {items = {'a', nil, 'c'}}",
                 "status.items[2]: is nil, but the list goes on to [3]");
    expect_error(L, "return {any = {s = {[1] = 'x', [1000000] = 'y'}}}", "status.any.s[2]: is nil");
    expect_error(L, "return {mix = {'x', key = 'y'}}", "status.mix: is a list and also has the key \"key\"");
    expect_error(L, "local a = native.array{}; a.key = 1; return {a = a}",
                 "status.a: is a list and also has the key \"key\"");
    expect_error(L, "return {a = {[true] = 1}}", "status.a: has a key of type boolean");
    expect_error(L, "return {a = {[1.5] = 1}}", "status.a: has the key 1.5");
    expect_error(L, "return {a = {[0] = 1}}", "status.a: has the key 0");
    expect_error(L, "return {a = {[-1] = 1}}", "status.a: has the key -1");
    expect_error(L, "return {a = {[math.huge] = 1}}", "status.a: has the key inf");
    expect_error(L, "return {a = {[print] = 1}}", "status.a: has a key of type function");
    expect_error(L, "return {a = {b = print}}", "status.a.b: is a function");
    expect_error(L, "return {a = coroutine.create(print)}", "status.a: is a thread");
    expect_error(L, "return {a = io.stdout}", "status.a: is a userdata");
    expect_error(L, "return {a = require('ffi').new('int')}", "status.a: is a cdata");
    expect_error(L, "return {a = 0/0}", "status.a: is NaN");
    expect_error(L, "return {1, -1/0}", "status[2]: is infinite");
    expect_error(L, "return {['app.kubernetes.io/name'] = {print}}",
                 "status[\"app.kubernetes.io/name\"][1]: is a function");
    expect_error(L, "local t = {}; t.a = {b = t}; return t", "status.a.b: the table contains itself");
    expect_error(L, "local t = {}; for i = 1, 300 do t = {t} end return t", "nested deeper than 200 levels");
    expect_error(L, "return {a = 'x\\255'}", "status.a: the text is not valid UTF-8");
    expect_error(L, "return {['\\255'] = 1}", "the key is not valid UTF-8");
}

static void test_good_tables(void **state)
{
    lua_State *L = *state;
    expect_code(L, "return {['1'] = 'one', ['2'] = 'two'}", "{\"1\":\"one\",\"2\":\"two\"}");
    expect_code(L, "return {[2] = 'two', [1] = 'one'}", "[\"one\",\"two\"]");
    expect_code(L, "local s = {x = 1}; return {a = s, b = s}", "{\"a\":{\"x\":1},\"b\":{\"x\":1}}");
    expect_code(L, "return {b = 1, a = 2, ab = 3, B = 4, [''] = 5}",
                "{\"\":5,\"B\":4,\"a\":2,\"ab\":3,\"b\":1}");
    expect_code(L, "return 'a\\0b'", "\"a\\u0000b\"");
    expect_code(L, "local t = {}; for i = 1, 200 do t = {t} end return #t == 1", "true");
    // Metatables of a script's own say nothing and are not asked.
    expect_code(L,
                "local function no() error('called') end return setmetatable({x = 1}, {__index = no, "
                "__newindex = no, "
                "__pairs = no, __len = no, __tostring = no, __metatable = no})",
                "{\"x\":1}");
}

static void test_a_long_list(void **state)
{
    lua_State *L = *state;
    run(L, "local t = {} for i = 1, 200000 do t[i] = i end return t");
    char *text = encode(L);
    decode(L, text);
    assert_int_equal(lua_objlen(L, -1), 200000);
    expect_json(L, text);
    free(text);
}

// Text that a few tables would blow up to: stopped by the cap, at once.
static void test_the_cap_is_kept(void **state)
{
    lua_State *L = *state;
    struct err e = {0};
    int r = write_error(L, "local t = {'x'} for i = 1, 100 do t = {t, t} end return t", 10000, &e);
    assert_int_equal(r, -ERR_LIMIT);
    assert_non_null(strstr(e.text, "longer than 10000 bytes"));
    r = write_error(L, "return {a = string.rep('x', 20000)}", 10000, &e);
    assert_int_equal(r, -ERR_LIMIT);
}

static const char pod[] =
    "{\"kind\":\"Pod\",\"metadata\":{\"labels\":{\"a\":\"b\"},\"name\":\"p\",\"x\":null},\"spec\":null}";

static void push_lazy(lua_State *L, const char *text)
{
    convert_push_lazy(L, text, strlen(text));
    lua_setglobal(L, "lazy");
}

static void test_lazy_tables(void **state)
{
    lua_State *L = *state;
    push_lazy(L, pod);
    run(L, "assert(lazy.metadata.labels.a == 'b' and lazy.spec == nil and lazy.kind == 'Pod')");
    expect_code(L, "return lazy", pod);
    push_lazy(L, pod);
    expect_code(L, "return lazy", pod);
    push_lazy(L, pod);
    expect_code(L, "lazy.kind = 'Cat'; lazy.metadata = nil; return lazy", "{\"kind\":\"Cat\",\"spec\":null}");
    push_lazy(L, pod);
    run(L,
        "assert(next(native.force(lazy)) ~= nil); for k in pairs(lazy) do assert(type(k) == 'string') end");
    push_lazy(L, "{}");
    expect_code(L, "assert(lazy.x == nil) return {lazy, native.is_array(lazy)}", "[{},false]");
    push_lazy(L, " [1,2]");
    expect_code(L, "assert(#lazy == 2) return lazy", "[1,2]");
    push_lazy(L, "{\"a\":1");
    run(L, "local ok, e = pcall(function() return lazy.a end) assert(not ok and e:find('JSON: line 1'), e)");
}

static void test_decode_errors(void **state)
{
    lua_State *L = *state;
    struct err e = {0};
    assert_int_equal(convert_push_text(L, "{\"a\":}", 6, &e), -ERR_PARSE);
    char *deep = calloc(1, 4001);
    memset(deep, '[', 2000);
    memset(deep + 2000, ']', 2000);
    assert_int_equal(convert_push_text(L, deep, 4000, &e), -ERR_LIMIT);
    assert_int_equal(lua_gettop(L), 0);
    memmove(deep, deep + 1000, 2001); // 1000 levels: the most that is read
    assert_int_equal(convert_push_text(L, deep, 2000, &e), 0);
    free(deep);
}

static void test_mark_and_is_array(void **state)
{
    lua_State *L = *state;
    decode(L, "{\"a\":[],\"o\":{}}");
    lua_setglobal(L, "v");
    run(L, "local is = native.is_array; assert(is(v.a) and not is(v.o) and is{1, 2} and not is{} and not "
           "is{1, x = 2})");
    run(L, "assert(not native.is_array('x') and not native.is_array(nil) and not native.is_array{[2] = 1, "
           "[3] = 1})");
    run(L, "assert(not pcall(native.array, 'x')); assert(getmetatable(v.a) == false)");
    run(L, "assert(not pcall(setmetatable, v.a, {}))");
}

static void test_encodings(void **state)
{
    lua_State *L = *state;
    run(L, "assert(native.json_encode(native.json_decode('[1,{\"a\":[]}]')) == '[1,{\"a\":[]}]')");
    run(L, "local ok, e = pcall(native.json_encode, {a = {print}}) assert(not ok and e:find('a[1]: is a "
           "function', 1, true), e)");
    run(L, "assert(not pcall(native.json_decode, '{')); assert(not pcall(native.json_encode))");
    run(L, "assert(native.base64_decode(native.base64_encode('a\\0\\255')) == 'a\\0\\255')");
    run(L, "assert(not pcall(native.base64_decode, '*'))");
    run(L,
        "assert(native.sha256('abc') == 'ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad')");
    run(L, "local d = native.yaml_decode('a: 1\\n---\\nb: [x, {}]\\n') assert(#d == 2 and d[1].a == 1 and "
           "d[2].b[1] == 'x')");
    run(L, "assert(#native.yaml_decode('') == 0 and not pcall(native.yaml_decode, 'a: [')) ");
    run(L, "assert(native.yaml_decode(native.yaml_encode{a = {1, 'x'}})[1].a[2] == 'x')");
    run(L, "assert(native.duration('1m30s') == 90e6 and native.duration(0.5) == 500000)");
    run(L, "assert(not pcall(native.duration, '30') and not pcall(native.duration, 0/0) and not "
           "pcall(native.duration))");
}

static void test_quantities(void **state)
{
    lua_State *L = *state;
    run(L, "q = native.quantity");
    run(L, "assert(q'1000m' == q'1' and q'1Gi' > q'1G' and q'0.5' <= q'500m' and q(0.5) == q'500m')");
    run(L, "assert(tostring(q'2048Mi') == '2Gi' and tostring(q'1000m') == '1' and q'1':compare('2') == -1)");
    run(L, "assert(tostring(q'1Gi' + q'1Gi') == '2Gi' and tostring(q'1500m' + q'500m') == '2')");
    run(L, "assert(tostring(q'1Gi' - q'512Mi') == '512Mi' and tostring(q'250m' * 3) == '750m' and "
           "tostring(-q'1') == '-1')");
    run(L, "assert(tostring(q'0' + q'1Mi') == '1Mi' and q'1Ki':tonumber() == 1024 and 'x' .. q'1' == 'x1')");
    run(L,
        "assert(not pcall(q, '1gi') and not pcall(q, {}) and not pcall(function() return q'1' * 1.5 end))");
    run(L, "assert(not pcall(function() return q'9E' * 2^53 * 2^53 end))");
    expect_code(L, "return {cpu = q'1000m'}", "{\"cpu\":\"1\"}");
}

// --- random values ---

static void random_text(struct random *r, struct json_writer *w, bool key)
{
    static const char *const pieces[] = {
        "a", "app.kubernetes.io/name", "\xc3\xa9", "\xf0\x9f\x98\x80", "\"", "\\", "\n", "0", " "};
    char text[128] = "";
    for (uint64_t i = random_below(r, 4); i > 0; i--)
        strcat(text, pieces[random_below(r, sizeof(pieces) / sizeof(pieces[0]))]);
    if (key)
        jw_key(w, text);
    else
        jw_str(w, text);
}

static void random_number(struct random *r, struct json_writer *w)
{
    uint64_t bits = random_u64(r) >> random_below(r, 64);
    switch (random_below(r, 4)) {
    case 0:
        jw_uint(w, bits);
        break;
    case 1:
        jw_int(w, (int64_t)bits);
        break;
    case 2:
        jw_double(w, (random_unit(r) - 0.5) * pow(10, (double)random_below(r, 40) - 20));
        break;
    default:
        jw_int(w, (int64_t)random_below(r, 3) - 1 + (int64_t)(1ULL << 53));
    }
}

static void random_value(struct random *r, struct json_writer *w, int depth)
{
    uint64_t count = random_below(r, 5);
    switch (random_below(r, depth > 0 ? 7 : 5)) {
    case 0:
        jw_null(w);
        break;
    case 1:
        jw_bool(w, random_below(r, 2));
        break;
    case 2:
    case 3:
        random_number(r, w);
        break;
    case 4:
        random_text(r, w, false);
        break;
    case 5:
        jw_array(w);
        while (count-- > 0)
            random_value(r, w, depth - 1);
        jw_array_end(w);
        break;
    default:
        jw_object(w);
        for (; count > 0; count--) {
            char key[16]; // two members of one name would make "the same value" ambiguous
            snprintf(key, sizeof(key), "%c%d", 'a' + (int)random_below(r, 26), (int)count);
            jw_key(w, key);
            random_value(r, w, depth - 1);
        }
        jw_object_end(w);
    }
}

static void assert_equal_json(const char *a, const char *b)
{
    struct json_doc *x, *y;
    assert_int_equal(json_parse(a, strlen(a), &x, NULL), 0);
    assert_int_equal(json_parse(b, strlen(b), &y, NULL), 0);
    if (!json_equal(json_root(x), json_root(y)))
        fail_msg("%s\nbecame\n%s", a, b);
    json_doc_free(x);
    json_doc_free(y);
}

static void test_random_values_survive(void **state)
{
    enum { ROUNDS = 5000 };
    lua_State *L = *state;
    struct random r;
    const uint64_t seed = seed_get();
    seed_announce(seed, NULL, 0);
    random_init(&r, seed);
    for (int i = 0; i < ROUNDS; i++) {
        struct buf text;
        struct json_writer w;
        buf_init(&text, 1 << 20);
        jw_init(&w, &text);
        random_value(&r, &w, 6);
        if (text.data[0] == '{' && random_below(&r, 2) == 0)
            convert_push_lazy(L, text.data, text.len);
        else
            decode(L, text.data);
        char *again = encode(L);
        assert_equal_json(text.data, again);
        // The second way round changes no byte: keys are sorted, numbers in their one form.
        decode(L, again);
        expect_json(L, again);
        free(again);
        buf_fini(&text);
    }
}

// --- memory that ends ---

struct purse {
    size_t left;
};

static void *spend(void *ud, void *p, size_t osize, size_t nsize)
{
    struct purse *purse = ud;
    if (nsize == 0) {
        free(p);
        return NULL;
    }
    if (nsize > osize) {
        if (purse->left == 0)
            return NULL;
        purse->left--;
    }
    return realloc(p, nsize);
}

static int push_and_write(lua_State *L)
{
    struct buf *out = lua_touserdata(L, 1);
    struct json_writer w;
    struct err e;
    jw_init(&w, out);
    convert_push_text(L, pod, strlen(pod), &e);
    convert_push_lazy(L, pod, strlen(pod));
    lua_getfield(L, -1, "kind");
    convert_write(L, -2, &w, "x", &e);
    return 0;
}

// Whatever allocation fails, the document and the keys are freed (the leak checker of the asan build looks).
static void test_memory_may_end_anywhere(void **state)
{
    (void)state;
    for (size_t n = 0; n < 200; n++) {
        struct purse purse = {.left = SIZE_MAX};
        lua_State *L = lua_newstate(spend, &purse);
        assert_non_null(L);
        convert_open(L);
        struct buf out;
        buf_init(&out, 1000);
        lua_pushcfunction(L, push_and_write);
        lua_pushlightuserdata(L, &out);
        purse.left = n;
        int failed = lua_pcall(L, 1, 0, 0);
        purse.left = SIZE_MAX;
        buf_fini(&out);
        lua_close(L);
        if (!failed && n > 150)
            break;
    }
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_empty_tables_keep_their_kind),
        TEST(test_numbers_are_exact),
        TEST(test_boxed_integers),
        TEST(test_null),
        TEST(test_wrong_tables_are_named),
        TEST(test_good_tables),
        TEST(test_a_long_list),
        TEST(test_the_cap_is_kept),
        TEST(test_lazy_tables),
        TEST(test_decode_errors),
        TEST(test_mark_and_is_array),
        TEST(test_encodings),
        TEST(test_quantities),
        TEST(test_random_values_survive),
        cmocka_unit_test(test_memory_may_end_anywhere),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
