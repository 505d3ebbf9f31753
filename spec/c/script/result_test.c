// What a script may return, and what it is told when it returns something else.
#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include <lauxlib.h>
#include <lualib.h>

#include "base/strset.h"
#include "script/convert.h"
#include "script/failure.h"
#include "script/native.h"
#include "script/result.h"
#include "script/seed.h"

static int set_up(void **state)
{
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    convert_open(L);
    failure_open(L);
    native_push(L);
    lua_setglobal(L, "native");
    *state = L;
    // An object with all that it needs.
    return luaL_dostring(
        L, "function cm(name, more) local o = more or {} o.apiVersion = 'v1' o.kind = 'ConfigMap' "
           "o.metadata = {name = name} return o end");
}

// Stands for any function.
static int some_function(lua_State *L)
{
    (void)L;
    return 0;
}

static int tear_down(void **state)
{
    lua_close(*state);
    return 0;
}

static int write_table(lua_State *L, const char *code, const char *entry, struct buf *out, struct err *e)
{
    struct pass_limits limits = {.events = 3};
    if (luaL_dostring(L, code) != 0)
        fail_msg("%s: %s", code, lua_tostring(L, -1));
    int top = lua_gettop(L);
    int r = result_write(L, -1, &limits, entry, out, e);
    assert_int_equal(lua_gettop(L), top);
    lua_settop(L, 0);
    return r;
}

static void expect(lua_State *L, const char *code, const char *want)
{
    struct buf out;
    struct err e;
    buf_init(&out, 1 << 20);
    if (write_table(L, code, "reconcile", &out, &e) < 0)
        fail_msg("%s: %s", code, e.text);
    assert_string_equal(out.data, want);
    buf_fini(&out);
}

static void expect_error_of(lua_State *L, const char *entry, const char *code, const char *want)
{
    struct buf out;
    struct err e = {0};
    buf_init(&out, 1 << 20);
    int r = write_table(L, code, entry, &out, &e);
    assert_int_equal(r, e.code);
    assert_int_equal(r, -ERR_INVALID);
    if (strncmp(e.text, want, strlen(want)) != 0)
        fail_msg("%s: wanted \"%s\", got \"%s\"", code, want, e.text);
    buf_fini(&out);
}

static void expect_error(lua_State *L, const char *code, const char *want)
{
    expect_error_of(L, "reconcile", code, want);
}

static void test_members_stand_there_only_if_given(void **state)
{
    lua_State *L = *state;
    expect(L, "return {}", "{}");
    expect(L, "return {apply = {}}", "{\"apply\":[]}");
    expect(L, "return {apply = native.array{}, patch = {}, delete = {}, events = {}, status = {}}",
           "{\"apply\":[],\"delete\":[],\"events\":[],\"patch\":[],\"status\":{}}");
    expect(L, "return {apply = nil, status = {phase = 'Up'}}", "{\"status\":{\"phase\":\"Up\"}}");
}

static void test_entries_take_both_forms(void **state)
{
    lua_State *L = *state;
    expect(L,
           "return {apply = {cm('a'), {object = cm('b'), once = true, keep = false, replace = true, adopt = "
           "{'kubectl'}, "
           "after = {cm('a', {data = {x = '1'}})}}}}",
           "{\"apply\":[{\"object\":{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":"
           "\"a\"}}},"
           "{\"adopt\":[\"kubectl\"],\"after\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{"
           "\"name\":\"a\"}}],"
           "\"keep\":false,\"object\":{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":"
           "\"b\"}},"
           "\"once\":true,\"replace\":true}]}");
    expect(L, "return {patch = {{object = cm('a', {data = {x = native.null}}), force = true}}}",
           "{\"patch\":[{\"force\":true,\"object\":{\"apiVersion\":\"v1\",\"data\":{\"x\":null},\"kind\":"
           "\"ConfigMap\","
           "\"metadata\":{\"name\":\"a\"}}}]}");
    // Of a whole object only the reference is kept.
    expect(L,
           "local o = cm('a', {data = {}}); o.metadata.uid = 'u1'; o.metadata.labels = {}; return {delete = "
           "{o}}",
           "{\"delete\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\",\"uid\":"
           "\"u1\"}}]}");
}

static void test_what_is_no_result(void **state)
{
    lua_State *L = *state;
    expect_error(L, "return 'ok'", "reconcile returned \"ok\": return a table");
    expect_error(L, "return false", "reconcile returned false");
    expect_error(L, "return 42", "reconcile returned 42");
    expect_error(L, "return print", "reconcile returned a function");
    expect_error(L, "return {cm('a')}",
                 "reconcile returned a list: children belong into a field, { apply = { ... } }");
    expect_error(L, "return {[true] = 1}", "the result has a key of type boolean");
    expect_error(L, "return {[2] = 1}", "the result has a key of type number");
}

static void test_unknown_fields_name_the_nearest(void **state)
{
    lua_State *L = *state;
    expect_error(L, "return {children = {}}", "children: is not a field here: did you mean \"apply\"?");
    expect_error(L, "return {aply = {}}", "aply: is not a field here: did you mean \"apply\"?");
    expect_error(L, "return {requeueAfter = 5}",
                 "requeueAfter: is not a field here: did you mean \"requeue_after\"?");
    expect_error(L, "return {zebra = 1}",
                 "zebra: is not a field here: there are apply, delete, done, events");
    expect_error(L, "return {b_unknown = 1, a_unknown = 2}", "a_unknown: is not a field");
    expect_error(L, "return {apply = {{object = cm('a'), recreate = true}}}",
                 "apply[1].recreate: is not a field here: did you mean \"replace\"?");
    expect_error(L, "return {apply = {{object = cm('a'), ready = print}}}",
                 "apply[1].ready: expected a function of the live object that returns true or false, got");
    expect_error(L, "return {patch = {{object = cm('a'), once = true}}}",
                 "patch[1].once: is not a field here");
    expect_error(L, "return {['\\255'] = 1}", "?: is not a field here");
}

static void test_lists_are_lists(void **state)
{
    lua_State *L = *state;
    expect_error(L, "return {apply = cm('a')}",
                 "apply: is one object, but must be a list of them: write { object }");
    expect_error(L, "return {apply = {web = cm('a')}}", "apply: is an object, but must be a list");
    expect_error(L, "return {apply = {cm('a'), nil, cm('b')}}",
                 "apply[2]: is nil, but the list goes on to [3]");
    expect_error(L, "return {apply = {cm('a'), x = cm('b')}}", "apply: is a list and also has the key \"x\"");
    expect_error(L, "return {apply = 'x'}", "apply: expected a list, got \"x\"");
    expect_error(L, "return {apply = native.null}", "apply: expected a list, got k8s.null");
    expect_error(L, "return {apply = {'x'}}",
                 "apply[1]: expected an object with apiVersion, kind and metadata.name, got \"x\"");
    expect_error(L, "return {delete = {5}}", "delete[1]: expected an object");
    expect_error(L, "return {apply = {{object = 5}}}", "apply[1].object: expected an object");
    expect_error(L, "return {apply = {{object = cm('a'), once = 1}}}",
                 "apply[1].once: expected true or false, got 1");
    expect_error(L, "return {apply = {{object = cm('a'), adopt = 'kubectl'}}}",
                 "apply[1].adopt: expected a list");
    expect_error(L, "return {apply = {{object = cm('a'), adopt = {1}}}}",
                 "apply[1].adopt[1]: expected the name of a field manager");
}

static void test_objects_are_complete(void **state)
{
    lua_State *L = *state;
    expect_error(L, "return {apply = {cm('a'), {kind = 'Pod'}}}", "apply[2].apiVersion: is missing");
    expect_error(L, "return {apply = {{apiVersion = 'v1'}}}", "apply[1].kind: is missing");
    expect_error(L, "return {apply = {{apiVersion = 1, kind = 'Pod'}}}",
                 "apply[1].apiVersion: expected text, got 1");
    expect_error(L, "return {apply = {{apiVersion = 'v1', kind = ''}}}", "apply[1].kind: is empty");
    expect_error(L, "return {apply = {{apiVersion = 'v1', kind = 'Pod'}}}", "apply[1].metadata: is missing");
    expect_error(L, "return {apply = {{apiVersion = 'v1', kind = 'Pod', metadata = 'x'}}}",
                 "apply[1].metadata: expected an object");
    expect_error(L, "return {apply = {{apiVersion = 'v1', kind = 'Pod', metadata = {}}}}",
                 "apply[1].metadata.name: is missing");
    expect_error(L, "return {apply = {cm(native.null)}}",
                 "apply[1].metadata.name: expected text, got k8s.null");
    expect_error(
        L,
        "return {apply = {{object = {apiVersion = 'v1', kind = 'Pod', metadata = {generateName = 'x-'}}}}}",
        "apply[1].object.metadata.generateName: is not allowed: a pass must name the same object every time");
    expect_error(L, "local o = cm('a'); o.metadata.namespace = 5; return {apply = {o}}",
                 "apply[1].metadata.namespace: expected text");
    expect_error(L, "return {apply = {cm('a', {spec = {x = {1, nil, 3}}})}}", "apply[1].spec.x[2]: is nil");
    expect_error(L, "return {apply = {{object = cm('a', {spec = {x = print}})}}}",
                 "apply[1].object.spec.x: is a function");
    expect_error(L, "return {delete = {cm('a\\255')}}",
                 "delete[1].metadata.name: the text is not valid UTF-8");
    expect_error(L, "local o = cm('a'); o.kind = '\\255'; return {apply = {{object = cm('b'), after = {o}}}}",
                 "apply[1].after[1].kind: the text is not valid UTF-8");
}

static void test_status(void **state)
{
    lua_State *L = *state;
    expect_error(L, "return {status = 'Up'}", "status: expected an object");
    expect_error(L, "return {status = {'a'}}", "status: is a list");
    expect_error(L, "return {status = native.array{}}", "status: is a list");
    expect_error(L, "return {status = {items = {'a', nil, 'c'}}}", "status.items[2]: is nil");
    expect_error(L, "return {status = {x = 0/0}}", "status.x: is NaN");
}

static void test_events(void **state)
{
    lua_State *L = *state;
    expect(L, "return {events = {{type = 'Normal', reason = 'Ok', message = 'x'}}}",
           "{\"events\":[{\"message\":\"x\",\"reason\":\"Ok\",\"type\":\"Normal\"}]}");
    expect_error(L, "return {events = {{type = 'Error', reason = 'Ok', message = 'x'}}}",
                 "events[1].type: expected \"Normal\" or \"Warning\", got \"Error\"");
    // a reason that is none fails no pass
    expect(L, "return {events = {{type = 'Normal', reason = '', message = 'x'}}}",
           "{\"events\":[{\"message\":\"x\",\"reason\":\"\",\"type\":\"Normal\"}]}");
    expect(L, "return {events = {{type = 'Normal', reason = 'two words', message = 'x'}}}",
           "{\"events\":[{\"message\":\"x\",\"reason\":\"two words\",\"type\":\"Normal\"}]}");
    expect_error(L, "return {events = {{type = 'Normal', reason = 5, message = 'x'}}}",
                 "events[1].reason: expected text, got 5");
    expect_error(L, "return {events = {{type = 'Normal', reason = '\\255', message = 'x'}}}",
                 "events[1].reason: the text is not valid UTF-8");
    // what is cut off is not looked at
    expect(L, "return {events = {{type = 'Normal', reason = ('r'):rep(128) .. '\\255', message = 'x'}}}",
           "{\"events\":[{\"message\":\"x\",\"reason\":"
           "\"rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr"
           "rrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrrr\",\"type\":\"Normal\"}]}");
    expect_error(L, "return {events = {{type = 'Normal', reason = 'Ok'}}}", "events[1].message: is missing");
    expect_error(L, "return {events = {{type = 'Normal', reason = 'Ok', message = 5}}}",
                 "events[1].message: expected text, got 5");
    expect_error(L, "return {events = {{type = 'Normal', reason = 'Ok', note = 'x'}}}",
                 "events[1].note: is not a field here: did you mean \"message\"?");
    expect_error(L, "return {events = {'x'}}", "events[1]: expected what k8s.event");
    struct buf out;
    struct err e;
    buf_init(&out, 1 << 20);
    int r = write_table(
        L, "local e = {type = 'Normal', reason = 'Ok', message = 'x'} return {events = {e, e, e, e}}",
        "reconcile", &out, &e);
    assert_int_equal(r, -ERR_LIMIT);
    assert_string_equal(e.text, "events: has 4 events, more than the limit of 3 a pass");
    buf_reset(&out);
    r = write_table(L,
                    "local t = {} for i = 1, 5001 do t[i] = {apiVersion = 'v1', kind = 'Pod', metadata = "
                    "{name = 'p' .. i}} end return {delete = t}",
                    "reconcile", &out, &e);
    assert_int_equal(r, -ERR_LIMIT);
    assert_string_equal(e.text, "delete: has 5001 entries, more than the limit of 5000 a list");
    buf_reset(&out);
    // 1024 bytes at a character's border.
    r = write_table(
        L, "return {events = {{type = 'Normal', reason = 'Ok', message = 'x' .. ('\\195\\169'):rep(2000)}}}",
        "reconcile", &out, &e);
    assert_int_equal(r, 0);
    assert_true(out.len < 1100);
    struct json_doc *doc;
    assert_int_equal(json_parse(out.data, out.len, &doc, NULL), 0);
    assert_int_equal(json_str_len(json_get(json_at(json_get(json_root(doc), "events"), 0), "message")), 1023);
    json_doc_free(doc);
    buf_fini(&out);
}

static void test_requeue_after(void **state)
{
    lua_State *L = *state;
    expect(L, "return {requeue_after = '30s'}", "{\"requeue_after_us\":30000000}");
    expect(L, "return {requeue_after = 1.5}", "{\"requeue_after_us\":1500000}");
    expect(L, "return {requeue_after = 1e-9}", "{\"requeue_after_us\":1}");
    static const char *const wrong[] = {"0",     "-1",   "0/0",    "1/0",        "1e300", "'30'",
                                        "'-1s'", "'0s'", "'soon'", "'9999999h'", "true",  "{}"};
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        char code[64];
        snprintf(code, sizeof(code), "return {requeue_after = %s}", wrong[i]);
        expect_error(L, code, "requeue_after: ");
    }
}

static void test_finalize(void **state)
{
    lua_State *L = *state;
    struct buf out;
    struct err e;
    buf_init(&out, 1000);
    assert_int_equal(write_table(L, "return {done = true, status = {}}", "finalize", &out, &e), 0);
    assert_string_equal(out.data, "{\"done\":true,\"status\":{}}");
    buf_fini(&out);
    expect_error_of(L, "finalize", "return {done = 1}", "done: expected true or false, got 1");
    expect_error_of(L, "finalize", "return true", "finalize returned true");
    expect_error(L, "return {done = true}", "done: belongs to what finalize returns");
}

static void test_the_cap_is_named(void **state)
{
    lua_State *L = *state;
    struct buf out;
    struct err e;
    buf_init(&out, 1000);
    int r =
        write_table(L, "return {apply = {cm('a', {data = {x = ('x'):rep(2000)}})}}", "reconcile", &out, &e);
    assert_int_equal(r, -ERR_LIMIT);
    assert_non_null(strstr(e.text, "1000 bytes"));
    buf_reset(&out);
    r = write_table(L, "local d = {} for i = 1, 100 do d[i] = cm('name' .. i) end return {delete = d}",
                    "reconcile", &out, &e);
    assert_int_equal(r, -ERR_LIMIT);
    buf_fini(&out);
}

// A lazy object straight from a list can be returned as it is.
static void test_lazy_objects(void **state)
{
    lua_State *L = *state;
    static const char text[] =
        "{\"kind\":\"ConfigMap\",\"apiVersion\":\"v1\",\"metadata\":{\"name\":\"a\"},\"data\":null}";
    struct buf out;
    struct err e;
    buf_init(&out, 1000);
    for (int form = 0; form < 2; form++) {
        convert_push_lazy(L, text, sizeof(text) - 1);
        lua_setglobal(L, "o");
        buf_reset(&out);
        assert_int_equal(write_table(L,
                                     form == 0 ? "return {apply = {o}}" : "return {apply = {{object = o}}}",
                                     "reconcile", &out, &e),
                         0);
        assert_string_equal(
            out.data, "{\"apply\":[{\"object\":{\"apiVersion\":\"v1\",\"data\":null,\"kind\":\"ConfigMap\","
                      "\"metadata\":{\"name\":\"a\"}}}]}");
    }
    buf_fini(&out);
}

// --- tables of all kinds of values ---

static void push_random(lua_State *L, struct random *r, int depth);

static void push_random_table(lua_State *L, struct random *r, int depth)
{
    static const char *const names[] = {"apply",         "patch",      "delete", "status",  "events",
                                        "object",        "metadata",   "name",   "kind",    "type",
                                        "requeue_after", "apiVersion", "reason", "message", "once",
                                        "adopt",         "namespace",  "\xff"};
    lua_newtable(L);
    int table = lua_gettop(L);
    for (uint64_t n = random_below(r, 6), i = 1; i <= n; i++) {
        uint64_t kind = random_below(r, 12);
        if (kind < 6)
            lua_pushstring(L, names[random_below(r, sizeof(names) / sizeof(names[0]))]);
        else if (kind < 11)
            lua_pushinteger(L, (lua_Integer)i);
        else
            push_random(L, r, 0);
        if (lua_isnil(L, -1) || (lua_isnumber(L, -1) && lua_tonumber(L, -1) != lua_tonumber(L, -1))) {
            lua_pop(L, 1);
            continue;
        }
        if (depth == 3 && random_below(r, 20) == 0)
            lua_pushvalue(L, table); // contains itself
        else
            push_random(L, r, depth - 1);
        lua_rawset(L, table);
    }
    if (random_below(r, 8) == 0)
        convert_mark_array(L, table);
}

static void push_random(lua_State *L, struct random *r, int depth)
{
    static const char *const texts[] = {"v1",  "ConfigMap", "Normal", "Warning", "Ok",
                                        "30s", "",          "\xc3",   "a\0b"};
    static const char lazy[] =
        "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\",\"x\":null}}";
    switch (random_below(r, depth > 0 ? 14 : 9)) {
    case 0:
        lua_pushnil(L);
        break;
    case 1:
        lua_pushboolean(L, (int)random_below(r, 2));
        break;
    case 2:
        lua_pushnumber(L, random_below(r, 4) == 0 ? 0.0 / 0.0 : (random_unit(r) - 0.5) * 1e6);
        break;
    case 3:
        convert_push_null(L);
        break;
    case 4:
        lua_pushcfunction(L, some_function);
        break;
    case 5: {
        struct err e;
        convert_push_text(L, "9007199254740993", 16, &e);
        break;
    }
    case 6:
    case 7:
        lua_pushstring(L, texts[random_below(r, sizeof(texts) / sizeof(texts[0]))]);
        break;
    case 8:
        convert_push_lazy(L, lazy, sizeof(lazy) - 1);
        break;
    default:
        push_random_table(L, r, depth);
    }
}

// Any table gives a result that is JSON, or an error with a text that is UTF-8.
static void test_any_table_gives_json_or_a_reason(void **state)
{
    enum { ROUNDS = 20000 };
    lua_State *L = *state;
    struct pass_limits limits = {.events = 3};
    struct random r;
    int good = 0;
    const uint64_t seed = seed_get();
    seed_announce(seed, NULL, 0);
    random_init(&r, seed);
    for (int i = 0; i < ROUNDS; i++) {
        struct buf out;
        struct err e = {0};
        struct json_doc *doc;
        buf_init(&out, 4000);
        push_random_table(L, &r, 4);
        if (result_write(L, -1, &limits, random_below(&r, 2) ? "reconcile" : "finalize", &out, &e) == 0) {
            assert_int_equal(json_parse(out.data, out.len, &doc, NULL), 0);
            json_doc_free(doc);
            good++;
        } else {
            assert_true(e.text[0] != 0 && str_is_utf8(e.text, strlen(e.text)));
        }
        lua_settop(L, 0);
        buf_fini(&out);
        // The value alone, below a path.
        struct json_writer w;
        buf_init(&out, 4000);
        jw_init(&w, &out);
        push_random(L, &r, 4);
        if (convert_write(L, -1, &w, "v", &e) == 0) {
            assert_int_equal(json_parse(out.data, out.len, &doc, NULL), 0);
            json_doc_free(doc);
            good++;
        } else {
            assert_true(str_is_utf8(e.text, strlen(e.text)));
        }
        assert_int_equal(lua_gettop(L), 1);
        lua_settop(L, 0);
        buf_fini(&out);
    }
    assert_true(good > ROUNDS / 10);
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        TEST(test_members_stand_there_only_if_given),
        TEST(test_entries_take_both_forms),
        TEST(test_what_is_no_result),
        TEST(test_unknown_fields_name_the_nearest),
        TEST(test_lists_are_lists),
        TEST(test_objects_are_complete),
        TEST(test_status),
        TEST(test_events),
        TEST(test_requeue_after),
        TEST(test_finalize),
        TEST(test_the_cap_is_named),
        TEST(test_lazy_objects),
        TEST(test_any_table_gives_json_or_a_reason),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
