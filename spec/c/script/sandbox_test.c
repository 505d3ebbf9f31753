// The functions a script has: which, and where they differ from LuaJIT's own.
#include <lauxlib.h>
#include <lua.h>
#include <lualib.h>

#include "script/script_support.h"

#include "base/random.h"
#include "base/strset.h"
#include "script/allow.h"
#include "script/sandbox.h"

static void run_job(void (*fn)(lua_State *L, void *ud), void *ud)
{
    struct sandbox *s = sandbox_new(NULL);
    struct sandbox_outcome outcome = {.end = PASS_OK};
    buf_init(&outcome.traceback, 4096);
    struct sandbox_job job = {.fn = fn, .ud = ud, .cpu_us = 10000000, .memory = 64 << 20};
    sandbox_run(s, &job, &outcome);
    if (outcome.end != PASS_OK)
        fail_msg("%s: %s", pass_end_name(outcome.end), outcome.err.text);
    buf_fini(&outcome.traceback);
    sandbox_free(s);
}

static void add_name(void *ud, const char *library, const char *name)
{
    char *full = xasprintf("%s%s%s", library, library[0] != 0 ? "." : "", name);
    strset_add(ud, full);
    free(full);
}

// Adds the names in the table on top, and what is in tables below it.
static void add_found(lua_State *L, struct strset *found, const char *library)
{
    for (lua_pushnil(L); lua_next(L, -2); lua_pop(L, 1)) {
        const char *name = lua_tostring(L, -2);
        if (strcmp(name, "_G") == 0)
            continue;
        if (lua_istable(L, -1))
            add_found(L, found, name);
        else
            add_name(found, library, name);
    }
}

static void collect_globals(lua_State *L, void *ud)
{
    lua_pushvalue(L, LUA_GLOBALSINDEX);
    add_found(L, ud, "");
}

static void test_exactly_the_list_is_there(void **state)
{
    (void)state;
    struct strset listed;
    struct strset found;
    strset_init(&listed);
    strset_init(&found);
    allow_each(add_name, &listed);
    run_job(collect_globals, &found);
    for (size_t i = 0; i < listed.count; i++) {
        if (!strset_has(&found, listed.items[i]))
            fail_msg("%s is listed, but not there", listed.items[i]);
    }
    for (size_t i = 0; i < found.count; i++) {
        if (!strset_has(&listed, found.items[i]))
            fail_msg("%s is there, but not listed", found.items[i]);
    }
    strset_fini(&listed);
    strset_fini(&found);
}

static void test_tostring(void **state)
{
    (void)state;
    support_value("return tostring({})", "\"table\"");
    support_value("return tostring(print) .. tostring(error) .. tostring(function() end)",
                  "\"nilfunctionfunction\"");
    support_value("return tostring(1e15) .. ' ' .. tostring(1234567890123456) .. ' ' .. tostring(-0) .. ' ' "
                  ".. tostring(0.1)",
                  "\"1000000000000000 1234567890123456 0 0.1\"");
    support_value("return tostring(0/0) .. tostring(-(0/0)) .. tostring(1/0)", "\"nannaninf\"");
    support_value("return tostring(setmetatable({}, {__tostring = function() return 'me' end}))", "\"me\"");
    support_value("return tostring(9007199254740993) .. tostring(world.list('v1/Pod')[2].spec.big)",
                  "\"90071992547409929007199254740993\"");
    support_value("return string.format('%d %s', world.list('v1/Pod')[2].spec.big, {})",
                  "\"9007199254740993 table\"");
    support_value("local big = world.list('v1/Pod')[2].spec.big return string.format('%.3d %+d %020d %x', "
                  "big, big, big, big)",
                  "\"9007199254740993 +9007199254740993 00009007199254740993 20000000000001\"");
    support_value(
        "local t = require('tidelock.json').decode('[18446744073709551615, -9223372036854775808]')\n"
        "return string.format('%d %i %x %.30d', t[1], t[2], t[1], t[2])",
        "\"18446744073709551615 -9223372036854775808 ffffffffffffffff "
        "-000000000009223372036854775808\"");
}

static void test_pcall_and_xpcall(void **state)
{
    (void)state;
    support_value("local a, b, c = pcall(function(...) return ... end, 1, 2) return {tostring(a), b, c}",
                  "[\"true\",1,2]");
    support_value("local a, b = pcall(error, 'x', 0) return {tostring(a), b}", "[\"false\",\"x\"]");
    support_value("local a, b = xpcall(function() error('x', 0) end, function(e) return e .. '!' end) return "
                  "{tostring(a), b}",
                  "[\"false\",\"x!\"]");
    support_value(
        "local a, b, c = xpcall(function(...) return ... end, error, 3, 4) return {tostring(a), b, c}",
        "[\"true\",3,4]");
    support_value("local a, b = pcall(error, {code = 7}) return b.code", "7");
    support_end("pcall()", PASS_RAISED, "bad argument #1 to 'pcall'");
}

static void test_pairs_in_order(void **state)
{
    (void)state;
    support_value(
        "local t, r = {z = 1, a = 1, [3] = 1, [1.5] = 1, [-2] = 1, [true] = 1, [false] = 1, ['a\\0'] = 1}, {}"
        " for k in pairs(t) do r[#r + 1] = (tostring(k):gsub('%z', '0')) end return r",
        "[\"-2\",\"1.5\",\"3\",\"a\",\"a0\",\"z\",\"false\",\"true\"]");
    support_value(
        "local t, r = {z = 1, a = 2, m = 3}, {} for k, v in pairs(t) do t[k] = nil r[#r + 1] = k .. v end"
        " return {r, tostring(next(t))}",
        "[[\"a2\",\"m3\",\"z1\"],\"nil\"]");
    support_value(
        "local t, r = {z = 1, a = 2, m = 3}, {} for k in pairs(t) do t.m = nil r[#r + 1] = k end return r",
        "[\"a\",\"z\"]");
    support_value("local t, r, k, v = {z = 1, a = 2, m = 3}, {} repeat k, v = next(t, k) r[#r + 1] = "
                  "tostring(k) until not k return r",
                  "[\"a\",\"m\",\"z\",\"nil\"]");
    support_value("local t = {b = 1} local k = next(t) t.a = 1 return {k, next(t), (next(t, 'a'))}",
                  "[\"b\",\"a\",\"b\"]");
    support_value("local n = 0 for k, v in pairs({1, 2, 3, nil, 5}) do n = n * 10 + v end return n", "1235");
    support_end("pairs(nil)", PASS_RAISED, "t.lua:2: bad argument #1 to 'pairs' (table expected, got nil)");
}

static void test_sort(void **state)
{
    (void)state;
    support_value("local t = {3, 1, 2} table.sort(t) return t", "[1,2,3]");
    support_value("local t = {'b', 'a', 'ab', ''} table.sort(t) return t", "[\"\",\"a\",\"ab\",\"b\"]");
    support_value("local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return t", "[3,2,1]");
    support_value("local t = {} for i = 1, 9 do t[i] = {k = i % 2, i = i} end table.sort(t, function(a, b) "
                  "return a.k < b.k end)"
                  " local s = '' for i = 1, 9 do s = s .. t[i].i end return s",
                  "\"246813579\"");
    support_value("local l = world.list('v1/Pod') table.sort(l, function(a, b) return a.metadata.name > "
                  "b.metadata.name end)"
                  " table.remove(l) table.remove(l) return l",
                  "[]");
    support_end("table.sort({1, 'x'})", PASS_RAISED, "t.lua:2: table.sort: elements can not be compared: ");
    support_end("table.sort({1, 2}, function(a, b) return a.x < b.x end)", PASS_RAISED,
                "t.lua:2: attempt to index");
    support_value("local t = {} for i = 1, 2000 do t[i] = (i * 7919) % 2003 end table.sort(t)"
                  " for i = 2, 2000 do if t[i - 1] > t[i] then return 'bad' end end return 'good'",
                  "\"good\"");
}

static void test_numbers_as_texts(void **state)
{
    (void)state;
    support_value(
        "return table.concat({999999999999999, 2^53, 1.5, -0, 'x', world.list('v1/Pod')[2].spec.big}, ' ')",
        "\"999999999999999 9007199254740992 1.5 0 x 9007199254740993\"");
    support_value(
        "return (('abc'):gsub('a', 999999999999999):gsub('b', {b = 1e15}):gsub('c', function() return "
        "-1e15 end))",
        "\"9999999999999991000000000000000-1000000000000000\"");
    support_value("return ('%s %d'):format(999999999999999, 2^53) .. tostring(1e15)",
                  "\"999999999999999 90071992547409921000000000000000\"");
    support_value("return world.list('v1/Pod')[2].spec.big .. '' .. world.list('v1/Pod')[2].spec.big",
                  "\"90071992547409939007199254740993\"");
    support_value(
        "return table.concat({1, 2, 3, 4}, ', ', 2, 3) .. table.concat({}) .. table.concat({'a'}, 'x', 2) "
        ".. table.concat({5, 6}, 7)",
        "\"2, 3576\"");
    support_end("table.concat({1, 2}, ',', 1, 3)", PASS_RAISED,
                "t.lua:2: invalid value (nil) at index 3 in table for 'concat'");
    support_end("table.concat({1, true})", PASS_RAISED, "invalid value (boolean) at index 2");
    support_end("table.concat('x')", PASS_RAISED, "table expected");
}

// Where instructions are counted, work in C counts too.
static void test_work_in_c_is_counted(void **state)
{
    (void)state;
    support_end("for i = 1, 30000 do string.format('%99.99f', 1e300) end", PASS_DEADLINE, "CPU budget");
    support_end("local s, t = ('a'):rep(1e6), ('a'):rep(5e5) .. 'b' for i = 1, 50 do s:find(t, 1, true) end",
                PASS_DEADLINE, "CPU budget");
    support_value("for i = 1, 30000 do string.format('%.2f', i) end return 1", "1");
}

static void test_marks_stay(void **state)
{
    (void)state;
    support_value("table.insert(object.list, 'x') table.remove(object.list) return object.list", "[]");
    support_value("object.list[1] = 1 object.list[1] = nil return {object.list, object.map}", "[[],{}]");
    support_end("setmetatable(object.list, {})", PASS_RAISED, "protected metatable");
    support_end("setmetatable(object.list, nil)", PASS_RAISED, "protected metatable");
    support_value("return setmetatable(object.list, false)", "[]");
    support_value("local t = {a = 1} return setmetatable(t, getmetatable(object.list))", "{\"a\":1}");
    support_end("setmetatable({}, true)", PASS_RAISED, "nil or table expected");
    support_end("setmetatable({})", PASS_RAISED, "nil or table expected");
    support_value("local m = setmetatable({}, {__index = {x = 1}}) return m.x", "1");
    // Weak tables are strong, whenever they became weak: what the collector takes would tell of hashes.
    support_value("local m, late, n = {__mode = 'k', __index = {x = 1}}, {}, 0\n"
                  "local t, u = setmetatable({}, m), setmetatable({}, late)\n"
                  "t[{}], u[1], u[2] = 1, {}, {} late.__mode = 'v'\n"
                  "local keep = {} for i = 1, 20000 do keep[i] = {i} end keep = nil\n"
                  "for i = 1, 20000 do keep = {i, i, i, i} end\n"
                  "return {t.x, m.__mode, late.__mode, next(t) and 1, #u}",
                  "[1,\"k\",\"v\",1,2]");
    support_value("return rawlen({1, 2}) + rawlen('abc')", "5");
    support_value("return tostring(getmetatable('x'))", "\"false\"");
}

// string.format against LuaJIT's own; no ties, which C rounds to even and LuaJIT away from zero.
static const char format_script[] =
    "local f, a, b = ... local ok, r = pcall(string.format, f, a, b) return ok and r or 'error'";

struct format_case {
    char format[64];
    double number;
    bool text_first;
    char answer[1024];
};

enum { FORMATS = 20000 };

static void call_format(lua_State *L, struct format_case *c)
{
    lua_getfield(L, LUA_REGISTRYINDEX, "ask");
    lua_pushstring(L, c->format);
    if (c->text_first)
        lua_pushstring(L, "some \"text\"\n");
    else
        lua_pushnumber(L, c->number);
    lua_pushnumber(L, c->number);
    lua_call(L, 3, 1);
    snprintf(c->answer, sizeof(c->answer), "%s", lua_tostring(L, -1));
    lua_settop(L, 0);
}

static void ask_formats(lua_State *L, void *ud)
{
    struct format_case *cases = ud;
    if (luaL_loadbuffer(L, format_script, strlen(format_script), "=ask") != 0)
        lua_error(L);
    lua_setfield(L, LUA_REGISTRYINDEX, "ask");
    for (int i = 0; i < FORMATS; i++)
        call_format(L, &cases[i]);
}

static void test_format_equals_luajit(void **state)
{
    (void)state;
    static const char letters[] = "diuoxXaAeEfgGcqs%";
    static const char *const flags[] = {"",  "",   "",   "-",  "0",   "+",    " ",  "#", "-+",
                                        "5", "12", ".3", ".0", "8.2", "-9.4", "05", "."};
    static const double numbers[] = {0, 1, -1, 42, 255, 1e6, 0.7, -0.3, 3.14159, 1e15, 1e-7, 123456789012.0,
                                     66};
    struct format_case *cases = calloc(FORMATS, sizeof(*cases));
    struct random r;
    random_init(&r, 99);
    for (int i = 0; i < FORMATS; i++) {
        char letter = letters[random_below(&r, sizeof(letters) - 1)];
        bool text = letter == 's' || letter == 'q';
        const char *flag =
            strchr("q%aA", letter) != NULL ? "" : flags[random_below(&r, sizeof(flags) / sizeof(flags[0]))];
        if (letter == 's' && strpbrk(flag, "0+ #") != NULL)
            flag = "-9";
        snprintf(cases[i].format, sizeof(cases[i].format), "<%%%s%c> %%5.1f", flag, letter);
        cases[i].number = numbers[random_below(&r, sizeof(numbers) / sizeof(numbers[0]))];
        cases[i].text_first = text;
        if (strchr("diuoxXc", letter) != NULL)
            cases[i].number = (double)(int64_t)cases[i].number;
        if (strchr("uoxX", letter) != NULL && cases[i].number < 0)
            cases[i].number = 7;
        if (letter == 'c')
            cases[i].number = 65;
    }
    run_job(ask_formats, cases);
    lua_State *L = luaL_newstate();
    luaL_openlibs(L);
    assert_int_equal(luaL_loadbuffer(L, format_script, strlen(format_script), "=ask"), 0);
    lua_setfield(L, LUA_REGISTRYINDEX, "ask");
    for (int i = 0; i < FORMATS; i++) {
        char ours[1024];
        memcpy(ours, cases[i].answer, sizeof(ours));
        call_format(L, &cases[i]);
        if (strcmp(ours, cases[i].answer) != 0)
            fail_msg("%s of %.17g: ours '%s', LuaJIT '%s'", cases[i].format, cases[i].number, ours,
                     cases[i].answer);
    }
    lua_close(L);
    free(cases);
}

// Memory that is garbage comes back; what is kept beyond the soft limit ends the pass.
static void test_memory_is_collected(void **state)
{
    (void)state;
    support_end("for i = 1, 20 do local t = {} for j = 1, 20000 do t[j] = {j} end end return nil", PASS_NIL,
                NULL);
    support_end("local s = '' for i = 1, 800 do s = s .. ('x'):rep(100) end return nil", PASS_NIL, NULL);
    support_end("local t = {} for j = 1, 1e6 do t[j] = {j} end return nil", PASS_MEMORY,
                "memory budget of 16384 KiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exactly_the_list_is_there),
        cmocka_unit_test(test_tostring),
        cmocka_unit_test(test_pcall_and_xpcall),
        cmocka_unit_test(test_pairs_in_order),
        cmocka_unit_test(test_sort),
        cmocka_unit_test(test_numbers_as_texts),
        cmocka_unit_test(test_work_in_c_is_counted),
        cmocka_unit_test(test_marks_stay),
        cmocka_unit_test(test_format_equals_luajit),
        cmocka_unit_test(test_memory_is_collected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
