// Attacks by what a script is offered: where the usual way needs a function that is absent (coroutines, load,
// dump, finalizers, the collector, debug, randomness), another way to the same aim; and what makes a pattern
// go back and back. Each ends the way it must, and leaves nothing.
// ctest-labels: thread deadline
#include "script/hostile_support.h"

#define K8S "local k8s, json, yaml = require 'tidelock', require 'tidelock.json', require 'tidelock.yaml' "
#define LONG "pattern takes too long (more than 1,000,000 steps): anchor it, or use fewer of * + -"
// f is called by a function in C, each time by another one.
#define CALLED_IN_TURN                                                                                       \
    "local f local turn, ways = 0, {function() return (('a'):gsub('a', f)) end, "                            \
    "function() table.sort({2, 1}, function(a, b) f() return a < b end) end, "                               \
    "function() return tostring(setmetatable({}, {__tostring = f})) end, "                                   \
    "function() return ('%s'):format(setmetatable({}, {__tostring = f})) end, "                              \
    "function() return (('a'):gsub('a', setmetatable({}, {__index = f}))) end, "                             \
    "function() for _ in ('a'):gmatch('a') do f() end end} "

static const struct hostile hostile[] = {
    // patterns
    {"balance that is never found", RAISED("t.lua: " LONG), "return ('('):rep(1e5):find('%b()')"},
    {"balance of every start", RAISED("t.lua: " LONG), "return ('(('):rep(5e5):gsub('%b()', '')"},
    {"two stars", RAISED("t.lua: " LONG), "return ('a'):rep(2e4):find('.*.*b')"},
    {"five shortest matches", RAISED("t.lua: " LONG), "return ('a'):rep(2000):find('a-a-a-a-a-b')"},
    {"shortest match of a long text", RAISED("t.lua: " LONG), "return ('a'):rep(2e5):find('.-b')"},
    {"back references", RAISED("t.lua: " LONG), "return ('ab'):rep(1e4):find('(.-)%1%1%1x')"},
    {"frontiers of a long set", RAISED("t.lua: " LONG),
     "return ('a'):rep(1e5):find('%f[' .. ('b'):rep(1e5) .. ']')"},
    {"gmatch of a large text", DEADLINE,
     "local s = ('a'):rep(1e6) s = s .. s s = s .. s while true do for _ in s:gmatch('()') do end end"},
    {"gsub with a pattern that takes long, in turns", DEADLINE,
     "local s = ('a'):rep(3000) while true do pcall(string.gsub, s, '.-.-b', '') end"},
    // a loop in another place each time, and recursion in C, without coroutines
    {"loop in a new iterator", DEADLINE,
     "while true do pcall(function() for _ in function() while true do end end do end end) end"},
    {"loop in an iterator that is a table", DEADLINE,
     "while true do pcall(function() for _ in setmetatable({}, {__call = function() while true do end end}) "
     "do end end) end"},
    {"loops that hand over to each other", DEADLINE,
     "local a, b function a(n) for i = 1, 100 do n = n + i end return pcall(b, n) end function b(n) return "
     "select(2, pcall(a, n)) end while true do a(0) end"},
    {"generators that are kept", MEMORY,
     "local kept = {} local function new(n) return function() n = n + 1 return n, new(n) end end while true "
     "do local _, g = (kept[#kept] or new(0))() kept[#kept + 1] = g end"},
    {"recursion by all that call back", RAISED("t.lua:2: string.format: calls nest too deep (more than 100)"),
     CALLED_IN_TURN "function f() turn = turn % #ways + 1 ways[turn]() return '' end f()"},
    {"recursion by all that call back, in pcall", DEADLINE,
     CALLED_IN_TURN
     "function f() turn = turn % #ways + 1 pcall(ways[turn]) pcall(f) return '' end while true do f() end"},
    {"pcall that is called by pcall", NIL, "local t = setmetatable({}, {__call = pcall}) t()"},
    {"xpcall that is called by xpcall", NIL, "local t = setmetatable({}, {__call = xpcall}) t(t)"},
    {"tostring that is called by tostring", RAISED("t.lua:2: tostring: calls nest too deep (more than 100)"),
     "tostring(setmetatable({}, {__tostring = tostring}))"},
    {"pcall as index", RESULT("reconcile returned true: return a table"),
     "local m = {__index = pcall} m.__call = function(t, k) return t[k] end return setmetatable({}, m).x"},
    {"gsub by gsub", RESULT("reconcile returned \"aaa\": return a table"),
     "return (('aaa'):gsub('((.)(.))', string.gsub))"},
    {"sort by pcall", DEADLINE, "local f = function() while true do end end table.sort({f, f, f}, pcall)"},
    {"handler and function in one", NIL, "local function f() xpcall(f, f) end f()"},
    {"handlers of handlers", DEADLINE, "local function f() xpcall(error, function() f() end) f() end f()"},
    // a parser in C that goes deep, or makes much of little, without load and dump
    {"sequences in sequences", RAISED("t.lua:2: YAML: line 1 column 2001: nested too deep"),
     K8S "yaml.decode(('- '):rep(4e5))"},
    {"keys of keys", RAISED("t.lua:2: YAML: line 1 column 3: a key must be a string, not a list or a map"),
     K8S "yaml.decode(('? '):rep(4e5))"},
    {"maps in a line", RAISED("t.lua:2: YAML: line 1 column 4001: nested too deep"),
     K8S "yaml.decode(('{a: '):rep(2e5))"},
    {"anchors of one value", RAISED("t.lua:2: YAML: line 1 column 4: did not find expected <document start>"),
     K8S "yaml.decode(('&a '):rep(2e5))"},
    {"tags of one value", RAISED("t.lua:2: YAML: line 1 column 4: did not find expected <document start>"),
     K8S "yaml.decode(('!a '):rep(2e5))"},
    {"texts in texts", RAISED("t.lua:2: the text is longer than 8388608 bytes"),
     K8S "local s = '\"' while true do s = json.encode(s) end"},
    {"texts in texts of YAML", DEADLINE, K8S "local s = '\"' while true do s = yaml.encode(s) end"},
    {"quotes of quotes", MEMORY, "local s = '\"' while true do s = ('%q'):format(s) end"},
    {"text that is turned back and forth", DEADLINE,
     K8S "local s = json.encode(('x'):rep(1e6)) while true do s = json.encode(json.decode(s)) end"},
    {"bytecode as a module's name", RAISED("' not found: require finds the tidelock modules"),
     "require('\\27LJ\\2\\2')"},
    {"texts of functions", OK("{\"status\":{\"s\":[\"functionfunction\",\"functionfunction\"]}}"),
     K8S "local s = {} for i, f in ipairs {string.rep, function() end} do s[i] = "
         "tostring(f) .. ('%s'):format(f) end return {status = {s = s}}"},
    // what finalizers and the collector could do
    {"garbage beside a full heap", DEADLINE,
     "local t = {} for i = 1, 1e5 do t[i] = {} end while true do local x = {{}} end"},
    {"a full heap that changes", DEADLINE,
     "local t = {} for i = 1, 1e5 do t[i] = {} end while true do for i = 1, 1e5 do t[i] = {i} end end"},
    {"finalizers of all that has a metatable", OK("{\"status\":{\"n\":0}}"),
     K8S "local _, e = pcall(k8s.retry, 'R', 'x') local n = 0 for _, v in pairs {'', object, world.list("
         "'v1/Pod'), k8s.null, k8s.quantity('1'), k8s.array {}, e} do if type("
         "getmetatable(v)) == 'table' then n = n + 1 end end return {status = {n = n}}"},
    {"finalizers of what is dropped", OK("{}"),
     "local m = {} m.__gc = function() while true do end end for i = 1, 1e6 do setmetatable({i}, m) end "
     "return {}"},
    // what debug and setfenv could reach
    {"errors at every level", OK("{\"status\":{\"n\":0}}"),
     "local n = 0 for level = 0, 300 do local ok, e = pcall(function() error('x', level) end) if e ~= 'x' "
     "and e:sub(1, 6) ~= 't.lua:' then n = n + 1 end end return {status = {n = n}}"},
    {"errors at strange levels", RAISED("x"),
     "for _, level in ipairs {-1, 0.5, 1e9, -1e9, 2^31, 2^53, 1/0, -1/0, 0/0} do pcall(error, 'x', level) "
     "end error('x', 1e300)"},
    {"an environment by the globals", DEADLINE,
     "setmetatable(_G, {__newindex = function() while true do end end}) nothing = 1"},
    // what randomness, a clock or addresses could tell
    {"numbers by chance, sorted again and again", DEADLINE,
     "local x = 1 while true do local t = {} for i = 1, 1e5 do x = x * 16807 % 2147483647 t[i] = x end "
     "table.sort(t) end"},
    {"addresses as dice", OK("{\"status\":{\"n\":0}}"),
     "local n = 0 for i = 1, 1000 do if tostring({}) ~= tostring({}) or tostring(function() end) ~= "
     "tostring(error) then n = n + 1 end end return {status = {n = n}}"},
    {"nan as a text", RESULT("reconcile returned \"nan\": return a table"),
     "pcall(string.rep, 'x', -1) return tostring(0/0)"},
};

static void test_hostile(void **state)
{
    (void)state;
    hostile_run_all(hostile, sizeof(hostile) / sizeof(hostile[0]));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
