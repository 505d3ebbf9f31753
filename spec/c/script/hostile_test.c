// Scripts that try to outlive their limits, on a thread with a stack of 1 MiB and the real watchdog. Each
// ends the way it must, and leaves nothing.
// ctest-labels: thread deadline
#include <dirent.h>

#include "script/hostile_support.h"

static const struct hostile hostile[] = {
    // endless loops, and ways to swallow the end
    {"while", DEADLINE, "while true do end"},
    {"repeat", DEADLINE, "repeat local x = 1 until false"},
    {"goto", DEADLINE, "::top:: goto top"},
    {"for", DEADLINE, "for i = 1, math.huge do end"},
    {"for nan step", DEADLINE, "for i = 1, 2, 0 do end"},
    {"floats", DEADLINE, "local x = 1.5 for i = 1, 1e15 do x = x / 1.0000001 end return x"},
    {"strings", DEADLINE, "local n = 0 while true do n = #(n .. 'x') end"},
    {"pcall loop", DEADLINE, "while true do pcall(function() while true do end end) end"},
    {"pcall of pcall", DEADLINE, "while true do pcall(pcall, function() while true do end end) end"},
    {"pcall of error", DEADLINE, "while true do pcall(error) end"},
    {"xpcall loop", DEADLINE, "local function f() while true do end end while true do xpcall(f, f) end"},
    {"xpcall handler", DEADLINE, "xpcall(error, function() while true do end end)"},
    {"xpcall handler in pcall", DEADLINE,
     "while true do pcall(xpcall, error, function() while true do end end) end"},
    {"recursive handler", NIL, "local function f() return xpcall(f, f) end f()"},
    {"index", DEADLINE,
     "local t = setmetatable({}, {__index = function() while true do end end}) while true do "
     "pcall(function() return t.a end) end"},
    {"newindex", DEADLINE,
     "local t = setmetatable({}, {__newindex = function() while true do end end}) while true do "
     "pcall(function() t.a = 1 end) end"},
    {"call", DEADLINE,
     "local t = setmetatable({}, {__call = function() while true do end end}) while true do pcall(t) end"},
    {"eq", DEADLINE,
     "local m = {__eq = function() while true do end end} local a, b = setmetatable({}, m), setmetatable({}, "
     "m)"
     " while true do pcall(function() return a == b end) end"},
    {"lt", DEADLINE,
     "local m = {__lt = function() while true do end end} local a, b = setmetatable({}, m), setmetatable({}, "
     "m)"
     " while true do pcall(function() return a < b end) end"},
    {"concat", DEADLINE,
     "local a = setmetatable({}, {__concat = function() while true do end end}) while true do "
     "pcall(function() return a .. 1 end) end"},
    {"unm", DEADLINE,
     "local a = setmetatable({}, {__unm = function() while true do end end}) while true do pcall(function() "
     "return -a end) end"},
    {"tostring", DEADLINE,
     "local a = setmetatable({}, {__tostring = function() while true do end end}) while true do "
     "pcall(tostring, a) end"},
    {"error object", DEADLINE, "error(setmetatable({}, {__tostring = function() while true do end end}))"},
    {"error object in format", DEADLINE,
     "string.format('%s', setmetatable({}, {__tostring = function() while true do end end}))"},
    {"sort comparison", DEADLINE, "table.sort({3, 2, 1}, function() while true do end end)"},
    {"gsub callback", DEADLINE, "('abc'):gsub('.', function() while true do end end)"},
    {"gsub table", DEADLINE,
     "('abc'):gsub('.', setmetatable({}, {__index = function() while true do end end}))"},
    {"iterator", DEADLINE, "for x in function() return 1 end do end"},
    // work in C that runs no bytecode
    {"sort by a function in C", DEADLINE,
     "local a, b, t = ('a'):rep(150), '.-.-b', {} for i = 1, 1e4 do t[i] = i % 2 == 0 and a or b end "
     "table.sort(t, string.find)"},
    {"sort of long texts", DEADLINE,
     "local s = 'x' for i = 1, 20 do s = s .. s end local a, b, t = s .. 'a', s .. 'b', {} "
     "for i = 1, 1e5 do t[i] = i % 2 == 0 and a or b end table.sort(t)"},
    {"template without end", DEADLINE, "return (('a'):rep(4e5):gsub('', ('%0'):rep(4e5)))"},
    {"long set",
     RAISED("t.lua: pattern takes too long (more than 1,000,000 steps): anchor it, or use fewer of * + -"),
     "return ('a'):rep(5e5):find('[' .. ('b'):rep(5e5) .. ']')"},
    {"long set in a loop", DEADLINE,
     "while true do pcall(string.find, ('a'):rep(5e5), '[^' .. ('b'):rep(5e5) .. ']+c') end"},
    {"gmatch", DEADLINE, "while true do for w in ('a'):rep(1e5):gmatch('()') do end end"},
    {"pairs", DEADLINE,
     "local t = {} for i = 1, 1000 do t['k' .. i] = i end while true do for k in pairs(t) do end end"},
    {"next", DEADLINE, "local t = {} for i = 1, 1000 do t['k' .. i] = i end while true do next(t) end"},
    {"format", DEADLINE, "while true do string.format('%99.99f', -1e300) end"},
    {"plain find", DEADLINE,
     "local s = ('a'):rep(1e6) local p = ('a'):rep(4e5) .. 'b' while true do s:find(p, 1, true) end"},
    {"lower", DEADLINE, "local s = ('A'):rep(1e6) while true do s:lower() end"},
    {"reverse", DEADLINE, "local s = ('A'):rep(1e6) while true do s:reverse() end"},
    {"insert in front", DEADLINE,
     "local t = {} for i = 1, 1e5 do t[i] = i end for i = 1, 1e9 do table.insert(t, 1, i) end"},
    {"remove in front", DEADLINE,
     "while true do local t = {} for i = 1, 1e5 do t[i] = i end while #t > 0 do table.remove(t, 1) end end"},
    {"table concat", DEADLINE,
     "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.concat(t, ',') end"},
    {"select", DEADLINE,
     "local function f(...) return select('#', ...) end while true do f(unpack({}, 1, 5000)) end"},
    {"maxn", DEADLINE, "local t = {} for i = 1, 1e5 do t[i] = i end while true do table.maxn(t) end"},
    {"ok and loop", DEADLINE, "local ok = pcall(string.rep, 'x', 1e9) while ok == false do end"},
    {"log", LIMIT("world.log: more than 1000 lines in one pass"),
     "while true do pcall(world.log, 'info', 'x') end"},
    {"lists", MEMORY, "while true do for _, p in ipairs(world.list('v1/Pod')) do pcall(next, p) end end"},
    {"bad patterns", DEADLINE, "while true do pcall(string.find, 'a', '[') end"},
    {"pattern of pcalls", DEADLINE,
     "local s = ('a'):rep(2000) while true do pcall(string.find, s, 'a-a-a-a-b') end"},
    // recursion
    {"recursion", OVERFLOW, "local function f() return 1 + f() end f()"},
    {"tail recursion", DEADLINE, "local function f() return f() end f()"},
    {"recursion with pcall", NIL, "local function f() return pcall(f) end f()"},
    {"recursion with pcall, then loop", DEADLINE,
     "local function f() return pcall(f) end f() while true do end"},
    {"recursion in pcall in recursion", DEADLINE, "local function f() pcall(f) return 1 + f() end f()"},
    {"recursion gsub", RAISED("t.lua:2: string.gsub: calls nest too deep (more than 100)"),
     "local function f(s) return (s:gsub('.', f)) end f('a')"},
    {"recursion gsub table", RAISED("t.lua:2: string.gsub: calls nest too deep (more than 100)"),
     "local t = setmetatable({}, {}) getmetatable(t).__index = function(_, k) return (k:gsub('.', t)) end "
     "('a'):gsub('.', t)"},
    {"recursion gmatch", OVERFLOW, "local function f() for x in ('a'):gmatch('a') do f() end end f()"},
    {"recursion sort", RAISED("t.lua:2: table.sort: calls nest too deep (more than 100)"),
     "local function f() table.sort({3, 1, 2}, function(a, b) f() return a < b end) end f()"},
    {"recursion sort lt", RAISED("t.lua:2: table.sort: calls nest too deep (more than 100)"),
     "local m = {} m.__lt = function(a, b) table.sort({setmetatable({}, m), setmetatable({}, m)}) return "
     "true end"
     " table.sort({setmetatable({}, m), setmetatable({}, m)})"},
    {"recursion tostring", RAISED("t.lua:2: tostring: calls nest too deep (more than 100)"),
     "local t = setmetatable({}, {__tostring = function(t) return tostring(t) end}) tostring(t)"},
    {"recursion format", RAISED("t.lua:2: string.format: calls nest too deep (more than 100)"),
     "local m = {} m.__tostring = function() return string.format('%s', setmetatable({}, m)) end "
     "tostring(setmetatable({}, m))"},
    {"recursion index function", OVERFLOW,
     "local t = setmetatable({}, {}) getmetatable(t).__index = function(t, k) return t[k + 1] end return "
     "t[1]"},
    {"index chain", RAISED("t.lua:2: loop in gettable"),
     "local t = setmetatable({}, {}) getmetatable(t).__index = t return t.x"},
    {"error object raises itself",
     RAISED("t.lua:2: the script raised a table that can not be turned into text"),
     "local function f() error(setmetatable({}, {__tostring = f})) end pcall(f) f()"},
    {"recursion require", OVERFLOW, "local function f() return require('tidelock') and f() + 1 end f()"},
    {"recursion options", RAISED("t.lua:2: x"),
     "local m = {} m.__index = function() return world.list('v1/Pod', setmetatable({}, m)) end"
     " world.list('v1/Pod', setmetatable({}, m)) error('x')"},
    {"concat metamethods", OVERFLOW,
     "local m = {} m.__concat = function(a, b) return a .. b end return setmetatable({}, m) .. 'x'"},
    {"lt metamethods", OVERFLOW,
     "local m = {} m.__lt = function(a, b) return a < b end return setmetatable({}, m) < setmetatable({}, "
     "m)"},
    // memory
    {"string doubling", MEMORY, "local s = 'x' while true do s = s .. s end"},
    {"string tripling", MEMORY, "local s = 'x' while true do s = s .. s .. s end"},
    {"many operands", MEMORY,
     "local s = ('x'):rep(1e6) while true do s = s..s..s..s..s..s..s..s..s..s..s..s..s..s..s..s..s..s..s..s "
     "end"},
    {"table growth", MEMORY, "local t = {} for i = 1, 1e9 do t[i] = i end"},
    {"table of tables", MEMORY, "local t = {} while true do t = {t} end"},
    {"keys", MEMORY, "local t = {} for i = 1, 1e9 do t['k' .. i] = i end"},
    {"closures", MEMORY, "local t = {} for i = 1, 1e9 do t[i] = function() return i end end"},
    {"memory in pcall", MEMORY,
     "while true do pcall(function() local t = {} for i = 1, 1e9 do t[i] = {} end end) end"},
    {"memory in gsub", FAR_MEMORY, "local s = ('x'):rep(1e6) return s:gsub('x', s)"},
    {"memory in concat", FAR_MEMORY,
     "local t = {} for i = 1, 1000 do t[i] = ('x'):rep(1e5) end return #table.concat(t, t[1])"},
    {"memory in format", FAR_MEMORY,
     "local s = ('x'):rep(1e6) return #string.format(('%s'):rep(200), unpack((function() local t = {} for i "
     "= 1, 200 do t[i] = s end return t end)()))"},
    {"memory in lower", MEMORY,
     "local s = ('X'):rep(1e6) local t = {} for i = 1, 1e6 do t[i] = (s .. i):lower() end"},
    {"memory in lists", MEMORY,
     "local t = {} while true do local l = world.list('v1/Pod') next(l[1]) t[#t + 1] = l end"},
    {"kept by a global", MEMORY, "kept = {} while true do kept[#kept + 1] = {1, 2, 3, 4, 5, 6, 7, 8} end"},
    {"churn of sizes", FAR_MEMORY,
     "for n = 1, 400 do local t = {} for i = 1, 100000 / n do t[i] = ('x'):rep(n * 16) .. i end end while "
     "true do end"},
    {"weak table", MEMORY, "local t = setmetatable({}, {__mode = 'k'}) while true do t[{}] = 1 end"},
    {"garbage of metatables", DEADLINE, "while true do setmetatable({}, {__mode = 'k'}) end"},
    {"garbage", DEADLINE, "while true do local t = {{}, {}, {}} end"},
    // caps and absent functions
    {"rep", RAISED("t.lua:2: string.rep: the result would be longer than 1048576 bytes"),
     "return #(('x'):rep(1e10))"},
    {"rep of nothing", OK("{\"status\":{\"n\":0}}"), "return {status = {n = #(('')):rep(1e15)}}"},
    {"rep nan", OK("{\"status\":{\"n\":0}}"), "return {status = {n = #('x'):rep(0/0)}}"},
    {"rep with separator", RAISED("t.lua: string.rep: the result would be longer than 1048576 bytes"),
     "return ('x'):rep(1000, ('y'):rep(1e5))"},
    {"unpack", RAISED("t.lua:2: too many results to unpack"), "return select('#', unpack({}, 1, 1e8))"},
    {"byte", RAISED("t.lua: string slice too long"), "return ('x'):rep(1e6):byte(1, -1)"},
    {"char", RAISED("t.lua: bad argument #1 to '?' (invalid value)"), "return string.char(256)"},
    {"insert far below",
     RAISED("t.lua:2: bad argument #2 to 'insert' (the position must be a whole number from 1 to 4)"),
     "table.insert({1, 2, 3}, -math.huge, 1)"},
    {"insert far above",
     RAISED("t.lua:2: bad argument #2 to 'insert' (the position must be a whole number from 1 to 4)"),
     "table.insert({1, 2, 3}, math.huge, 1)"},
    {"insert nowhere",
     RAISED("t.lua:2: bad argument #2 to 'insert' (the position must be a whole number from 1 to 4)"),
     "table.insert({1, 2, 3}, 0/0, 1)"},
    {"remove far away", OK("{}"),
     "table.remove({1, 2, 3}, -math.huge) table.remove({1}, math.huge) table.remove({1}, 0/0) return {}"},
    {"concat far away", RAISED("t.lua: invalid value (nil) at index 0 in table for 'concat'"),
     "return table.concat({1, 2, 3}, ',', -math.huge, math.huge)"},
    {"concat to the end of numbers", RAISED("t.lua: invalid value (nil) at index 4 in table for 'concat'"),
     "return table.concat({1, 2, 3}, ',', 1, 2147483647)"},
    {"unpack all numbers", RAISED("t.lua: too many results to unpack"),
     "return unpack({}, -2147483648, 2147483647)"},
    {"unpack at the end of numbers", OK("{}"),
     "unpack({}, 2147483646, 2147483647) unpack({}, -1/0, -1/0) return {}"},
    {"sub far away", OK("{\"status\":{\"s\":\"\"}}"),
     "return {status = {s = ('abc'):sub(-math.huge, math.huge), b = ('abc'):byte(math.huge)}}"},
    {"find far away", OK("{\"status\":{\"a\":3,\"b\":3,\"c\":1}}"),
     "return {status = {a = ('abc'):find('c', -math.huge), b = ('abc'):find('c', math.huge), c = "
     "('abc'):find('', 0/0)}}"},
    {"gsub without end", OK("{\"status\":{\"s\":\"xaxbxcx\",\"t\":\"abc\"}}"),
     "return {status = {s = ('abc'):gsub('', 'x', 1/0), t = ('abc'):gsub('', 'x', 0/0)}}"},
    {"select far away", RAISED("t.lua: bad argument #1 to '?' (index out of range)"),
     "return select(-math.huge, 1, 2)"},
    {"for to the end of numbers", DEADLINE, "for i = 2^53, 2^53 + 2 do end while true do end"},
    {"sort too many", RAISED("t.lua:2: table.sort: at most 100000 elements, got 200000"),
     "local t = {} for i = 1, 200000 do t[i] = 200000 - i end table.sort(t)"},
    {"sort without order", NIL,
     "local t = {} for i = 1, 1000 do t[i] = i end table.sort(t, function() return true end)"},
    {"sort that changes", NIL,
     "local t = {3, 2, 1, 5} table.sort(t, function(a, b) t[1] = nil t[9] = 1 return a < b end)"},
    {"sort of mixed",
     RAISED("t.lua:2: table.sort: elements can not be compared: string with number; give it a function that "
            "compares them"),
     "table.sort({1, 'a', {}})"},
    {"format width", RAISED("t.lua: string.format: the width has more than two digits"),
     "return ('%1000d'):format(1)"},
    {"format end", RAISED("t.lua: string.format: the format ends in the middle of a % directive"),
     "return ('%'):format(1)"},
    {"format NUL", RAISED("t.lua: string.format: unknown directive '%\\0'"), "return ('%\\0d'):format(1)"},
    {"format of a byte", RAISED("t.lua: string.format: unknown directive '%\\255'"),
     "return ('%-\\255'):format(1)"},
    {"pattern depth", RAISED("t.lua: pattern too complex"),
     "return ('a'):rep(1000):find(('(a'):rep(31) .. ('a?'):rep(1000))"},
    {"absent functions", OK("{\"status\":{\"n\":0}}"),
     "local n = 0 for _, name in ipairs {'coroutine', 'load', 'loadstring', 'loadfile', 'dofile', 'module', "
     "'package', 'getfenv', 'setfenv', 'collectgarbage', 'gcinfo', 'newproxy', 'print', 'os', 'io', 'debug', "
     "'jit', 'ffi'} do if _G[name] ~= nil then n = n + 1 end end for _, f in pairs {string.dump, "
     "math.random, math.randomseed} do n = n + 1 end return {status = {n = n}}"},
    {"an absent function", RAISED("t.lua:2: attempt to call field 'dump' (a nil value)"),
     "string.dump(function() end)"},
    {"gc of a table", OK("{}"),
     "for i = 1, 1000 do setmetatable({}, {__gc = function() while true do end end}) end return {}"},
    {"ffi",
     RAISED("t.lua:2: module 'ffi' not found: require finds the tidelock modules and the other .lua files "
            "next to the script"),
     "require('ffi')"},
    {"string metatable", RAISED("t.lua:2: attempt to index a boolean value"),
     "getmetatable('').__index = function() while true do end end"},
    {"string metatable set",
     RAISED("t.lua:2: bad argument #1 to 'setmetatable' (table expected, got string)"),
     "setmetatable('', {})"},
    {"protected metatable",
     RAISED("t.lua:2: cannot change a protected metatable (lists and objects that were read have one of "
            "their own: copy them first)"),
     "setmetatable(world.list('v1/Pod'), {})"},
    {"environment", RAISED("t.lua:2: attempt to call global 'error' (a nil value)"),
     "_G.error = nil error('x')"},
    {"no globals", RAISED("t.lua:2: attempt to index global '_G' (a nil value)"),
     "for k in pairs(_G) do _G[k] = nil end x.y = 1"},
    {"globals that raise", RAISED("t.lua:2: x"),
     "setmetatable(_G, {__index = function() error('x') end}) return nothing"},
    {"globals that loop", DEADLINE,
     "setmetatable(_G, {__index = function() while true do end end}) return nothing"},
    {"next with a strange key", OK("{}"), "next({1, 2}, 'nothing') return {}"},
    {"rawset of a lazy item", OK("{}"), "rawset(world.list('v1/Pod')[1], 'x', 1) return {}"},
    {"deep result", LIMIT("is nested deeper than 200 levels"),
     "local t = {} for i = 1, 1e5 do t = {t} end return {status = {t = t}}"},
    {"result in itself", RESULT("status.t: the table contains itself"),
     "local t = {} t.t = t return {status = t}"},
    {"large result", LIMIT("status.t[85]: the text is longer than 8388608 bytes"),
     "local t = {} for i = 1, 100 do t[i] = ('x'):rep(1e5) .. i end return {status = {t = t}}"},
    {"many events", LIMIT("events: has 1000 events, more than the limit of 100 a pass"),
     "local t = {} for i = 1, 1000 do t[i] = {type = 'Normal', reason = 'R', message = 'm' .. i} end return "
     "{events = t}"},
    {"result of a function",
     RESULT("status.f: is a function: only text, numbers, booleans and tables can be JSON"),
     "return {status = {f = function() end}}"},
    {"result that reads", OK("{}"), "return setmetatable({}, {__index = function() while true do end end})"},
    {"strange error", RAISED("t.lua:2: the script raised a table that can not be turned into text"),
     "error(setmetatable({}, {__metatable = 1, __index = error, __tostring = error}))"},
};

static void test_hostile(void **state)
{
    (void)state;
    hostile_run_all(hostile, sizeof(hostile) / sizeof(hostile[0]));
}

static bool is_lua(const char *name)
{
    size_t n = strlen(name);
    return n > 4 && strcmp(name + n - 4, ".lua") == 0;
}

static char *read_text(const char *folder, const char *name)
{
    char *path = xasprintf("%s/%s", folder, name);
    struct buf text;
    buf_init(&text, 16 << 20);
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    char piece[4096];
    for (size_t n; (n = fread(piece, 1, sizeof(piece), f)) > 0;)
        buf_add(&text, piece, n);
    fclose(f);
    free(path);
    return buf_take(&text, NULL);
}

// More of them, each the body of a reconcile: whatever they do, they end in time and leave nothing.
static void test_hostile_folder(void **state)
{
    enum { MOST = 1000 };
    static struct hostile found[MOST];
    const char *folder = getenv("TIDELOCK_HOSTILE");
    struct dirent *entry;
    int count = 0;
    (void)state;
    if (folder == NULL) {
        print_message("skipped: TIDELOCK_HOSTILE names no folder with more scripts (*.lua)\n");
        skip();
    }
    DIR *d = opendir(folder);
    assert_non_null(d);
    while ((entry = readdir(d)) != NULL && count < MOST) {
        if (!is_lua(entry->d_name))
            continue;
        struct hostile *h = &found[count++];
        *h = (struct hostile){xstrdup(entry->d_name), ANY_END, "", read_text(folder, entry->d_name)};
        program_unref(hostile_program(h)); // what does not load fails the test
    }
    closedir(d);
    print_message("%d scripts of %s\n", count, folder);
    assert_true(count > 0);
    hostile_run_all(found, count);
    for (int i = 0; i < count; i++) {
        free((char *)found[i].name);
        free((char *)found[i].body);
    }
}

// A chunk that loops when it is loaded does not hold up who loads it.
static void test_hostile_main_chunks(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "while true do end",
        "local s = 'x' while true do s = s .. s end",
        "while true do pcall(function() while true do end end) end",
        "local function f() return 1 + f() end f()",
        "error(setmetatable({}, {__tostring = function() while true do end end}))",
        "return setmetatable({}, {__index = function() while true do end end})",
        "return {subject = setmetatable({}, {__tostring = function() while true do end end})}",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        struct program_options o = {.main = {"t.lua", texts[i], strlen(texts[i])}, .cpu_us = 2000};
        struct program *p = NULL;
        struct err e = {0};
        assert_true(program_new(&o, &p, &e) < 0);
        assert_true(strlen(e.text) > 0);
    }
}

// "%d" in the text, once, is the number.
static void add_times(struct buf *b, const char *text, int times)
{
    const char *number = strstr(text, "%d");
    for (int i = 0; i < times; i++) {
        if (number == NULL)
            buf_add_str(b, text);
        else
            buf_addf(b, "%.*s%d%s", (int)(number - text), text, i, number + 2);
    }
}

// Source that wants too much of the parser: refused with file and line, or run, on a stack of 1 MiB.
static void *load_sources(void *arg)
{
    static const struct {
        const char *before, *open, *middle, *close, *after;
        int times;
    } sources[] = {
        {"return ", "(", "1", ")", "", 100000},
        {"return ", "{", "", "}", "", 100000},
        {"return ", "{", "", "", "", 100000},
        {"return ", "not ", "1", "", "", 100000},
        {"return ", "-", "1", "", "", 100000},
        {"return 1", " .. 1", "", "", "", 100000},
        {"return 1", " ^ 1", "", "", "", 100000},
        {"return 1", " + x[1", "", "]", "", 50000},
        {"return ", "function() return ", "1", " end", "", 50000},
        {"", "do ", "", "end ", "", 50000},
        {"", "if x then ", "", "end ", "", 50000},
        {"", "while x do ", "", "end ", "", 50000},
        {"", "for i = 1, 2 do ", "", "end ", "", 50000},
        {"", "local a%d = 1 ", "", "", "", 300},
        {"local function f(a", ", a%d", ") end", "", "", 300},
        {"f(1", ", 1", ")", "", "", 100000},
        {"return {", "%d, ", "", "", "}", 200000},
        {"return {", "'k%d', ", "", "", "}", 100000},
        {"x", ".y", " = 1", "", "", 100000},
        {"x = 1", " if x then goto l end", " ::l::", "", "", 20000},
        {"", "::l%d:: ", "", "", "", 100000},
        {"return '", "\\65", "", "", "'", 100000},
        {"return '", "x", "", "", "'", 3000000},
        {"return [", "=", "[x]", "=", "]", 100000},
        {"--[", "=", "[x", "", "", 100000},
        {"return 0.", "9", "", "", "", 1000000},
        {"return 0x", "f", "", "", "p99999999", 100000},
        {"return ", "a", "", "", "", 1000000},
        {"", "\n", "return (", "", "", 1000000},
        {"", ";", "", "", "", 100000},
        {"", "x = 'k%d' ", "", "", "", 70000},
        {"", "x = %d.5 ", "", "", "", 70000},
        {"", "local a%d = 1 ", "local function f() ", "a%d = 1 ", "end", 150},
        {"", "local function f%d() end ", "", "", "", 300},
        {"", "repeat local x = function() return x end ", "", "until x ", "", 300},
        {"x = 1", ", 1", "", "", "", 100000},
        {"x", ", x", " = 1", "", "", 100000},
        {"x", "'a'", "", "", "", 100000},
        {"return ", "#", "x", "", "", 100000},
        {"if x then ", "elseif x == %d then ", "end", "", "", 100000},
    };
    int *problems = arg;
    for (size_t i = 0; i < sizeof(sources) / sizeof(sources[0]); i++) {
        struct buf text;
        buf_init(&text, 16 << 20);
        buf_add_str(&text, sources[i].before);
        add_times(&text, sources[i].open, sources[i].times);
        buf_add_str(&text, sources[i].middle);
        add_times(&text, sources[i].close, sources[i].times);
        buf_add_str(&text, sources[i].after);
        struct program_options o = {.main = {"t.lua", text.data, text.len}};
        struct program *p = NULL;
        struct err e = {0};
        if (program_new(&o, &p, &e) == 0 || strncmp(e.text, "t.lua:", 6) != 0) {
            print_error("%s%s...: '%s'\n", sources[i].before, sources[i].open, e.text);
            ++*problems;
        }
        program_unref(p);
        buf_fini(&text);
    }
    return NULL;
}

static void test_hostile_sources(void **state)
{
    (void)state;
    int problems = 0;
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    assert_int_equal(pthread_create(&thread, &attr, load_sources, &problems), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    assert_int_equal(problems, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_hostile),
        cmocka_unit_test(test_hostile_folder),
        cmocka_unit_test(test_hostile_main_chunks),
        cmocka_unit_test(test_hostile_sources),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
