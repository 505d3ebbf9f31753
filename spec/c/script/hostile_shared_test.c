// Hostile use of what a script shares with the language, the library and the host: metatables, protected
// calls, library tables, reads, values, results, files beside it. Each ends the way it must, and leaves
// nothing.
// ctest-labels: thread deadline
#include "script/hostile_support.h"

#define K8S "local k8s, json = require 'tidelock', require 'tidelock.json' "

static const struct hostile hostile[] = {
    // texts that grow, and what is made of them
    {"rep chain", RAISED("t.lua:2: string.rep: the result would be longer than 1048576 bytes"),
     "local s = 'x' for i = 1, 100 do s = s:rep(10) end"},
    {"rep chain in pcall", DEADLINE,
     "local t, s = {}, 'x' while true do local ok, r = pcall(string.rep, s, 9) s = ok and r or 'x' t[#t + 1] "
     "= s end"},
    {"concat of one text many times", FAR_MEMORY,
     "local t, s = {}, ('x'):rep(1000) for i = 1, 1e5 do t[i] = s end return {status = {n = "
     "#table.concat(t)}}"},
    {"concat with a long separator", FAR_MEMORY,
     "local t = {} for i = 1, 1000 do t[i] = '' end return {status = {n = #table.concat(t, "
     "('x'):rep(1e6))}}"},
    {"concat of what is no text", RAISED("t.lua:2: invalid value (table) at index 2 in table for 'concat'"),
     "table.concat({1, {}, 3})"},
    {"concat of a table with __concat",
     RAISED("t.lua:2: invalid value (table) at index 1 in table for 'concat'"),
     "table.concat({setmetatable({}, {__concat = error})})"},
    {"concat of a sparse list", RAISED("t.lua:2: invalid value (nil) at index 2 in table for 'concat'"),
     "local t = {1} t[1e9] = 2 table.concat(t, ',', 1, 1e9)"},
    {"tostring that is long", MEMORY,
     "local t = setmetatable({}, {__tostring = function() return ('x'):rep(1e6) end}) local s = '' for i = "
     "1, 100 do s = s .. tostring(t) end"},
    {"gsub that doubles",
     RAISED("t.lua:2: pattern takes too long (more than 1,000,000 steps): anchor it, or use fewer of * + -"),
     "local s = 'x' while true do s = s:gsub('x', 'xx') end"},
    {"gsub with captures", FAR_MEMORY, "local s = ('x'):rep(1e5) s:gsub('(.*)', ('%1'):rep(1000))"},
    {"gsub through format through gsub",
     RAISED("t.lua:2: string.format: calls nest too deep (more than 100)"),
     "local function f(s) return ('%s'):format(setmetatable({}, {__tostring = function() return (s:gsub('.', "
     "f)) end})) end f('a')"},
    {"gsub callback of another type", RAISED("t.lua:2: invalid replacement value (a table)"),
     "('a'):gsub('a', function() return {} end)"},
    {"gsub by a list that was read", OK("{}"), "('1'):gsub('.', world.list('v1/Pod')[1]) return {}"},
    {"format of many arguments", OK("{\"status\":{\"s\":26893}}"),
     "local t = {} for i = 1, 7000 do t[i] = i end return {status = {s = "
     "#('%d'):rep(7000):format(unpack(t))}}"},
    {"format widths", RAISED("t.lua:2: string.format: the width has more than two digits"),
     "('%99.99f'):format(1e308); ('%-99s'):format('x'); ('%0100d'):format(1)"},
    {"format precision", RAISED("t.lua:2: string.format: the precision has more than two digits"),
     "('%.100f'):format(1)"},
    {"format flags", RAISED("t.lua:2: string.format: too many flags"), "('%+-+-+-+-+-#0 d'):format(1)"},
    {"format of addresses", RAISED("t.lua:2: string.format: unknown directive '%p'"),
     "return {status = {s = ('%p'):format({})}}"},
    {"format of what is no number",
     RAISED("t.lua:2: bad argument #1 to 'format' (number expected, got string)"),
     "('%d'):format(('x'):rep(1e6))"},
    {"format of infinities",
     OK("{\"status\":{\"a\":\"9223372036854775808\",\"b\":\"ffffffffffffffff\",\"c\":\"inf\"}}"),
     "return {status = {a = ('%d'):format(2^63), b = ('%x'):format(-1), c = ('%g'):format(1/0)}}"},
    {"quotes of bytes", OK("{\"status\":{\"n\":8002}}"),
     "return {status = {n = #('%q'):format(('\\0\\r\\n\\255'):rep(1000))}}"},
    {"char of many", OK("{\"status\":{\"n\":5000}}"),
     "local t = {} for i = 1, 5000 do t[i] = i % 128 end return {status = {n = #string.char(unpack(t))}}"},
    {"tonumber of a base", RAISED("t.lua:2: bad argument #2 to 'tonumber' (base out of range)"),
     "tonumber('z', 37)"},
    {"upper of a large text", MEMORY,
     "local t, s = {}, ('x'):rep(1e6) while true do t[#t + 1] = (s .. #t):upper() end"},
    // metamethods
    {"index through many tables", RAISED("t.lua:2: loop in gettable"),
     "local t = {} for i = 1, 10000 do t = setmetatable({}, {__index = t}) end return t.nothing"},
    {"newindex through many tables", RAISED("t.lua:2: loop in settable"),
     "local t = {} for i = 1, 10000 do t = setmetatable({}, {__newindex = t}) end t.x = 1"},
    {"call through many tables", RAISED("t.lua:2: attempt to call local 't' (a table value)"),
     "local t = print for i = 1, 1000 do t = setmetatable({}, {__call = t}) end t()"},
    {"call of itself", DEADLINE,
     "local t = setmetatable({}, {}) getmetatable(t).__call = function(f, ...) return f(...) end t()"},
    {"call with one more argument each time", RAISED("t.lua:2: stack overflow"),
     "local t = setmetatable({}, {}) getmetatable(t).__call = function(f, ...) return f(1, ...) end t()"},
    {"equality of itself", OVERFLOW,
     "local m = {} m.__eq = function(a, b) return a == b end return setmetatable({}, m) == setmetatable({}, "
     "m)"},
    {"order of itself", OVERFLOW,
     "local m = {} m.__le = function(a, b) return not (b <= a) end return setmetatable({}, m) <= "
     "setmetatable({}, m)"},
    {"sum of itself", OVERFLOW,
     "local m = {} m.__add = function(a, b) return a + b end return setmetatable({}, m) + 1"},
    {"concat of many with metamethods", OVERFLOW,
     "local m = {} local function new() return setmetatable({}, m) end m.__concat = function(a, b) return "
     "new() .. new() end return new() .. 'a' .. 'b' .. 'c'"},
    {"metatable of its own metatable", RAISED("t.lua:2: loop in gettable"),
     "local m = {} setmetatable(m, m) m.__index = m m.__newindex = m return {status = {x = m.y}}"},
    {"tostring that is no function", RAISED("bad argument #2 to '?' (number expected, got table)"),
     "tostring(setmetatable({}, {__tostring = setmetatable({}, {__call = error})}))"},
    {"metatable that hides itself", OK("{\"status\":{\"x\":\"table\"}}"),
     "local t = setmetatable({}, {__metatable = setmetatable({}, {__index = error})}) return {status = {x = "
     "tostring(getmetatable(t))}}"},
    {"order in sort by metamethods that lie", OK("{}"),
     "local n, m = 0, {} m.__lt = function() n = n + 1 return n % 3 == 0 end local t = {} for i = 1, 1000 do "
     "t[i] = setmetatable({}, m) end pcall(table.sort, t) return {}"},
    {"modes that change", OK("{}"),
     "local m = {} for i = 1, 1000 do local t = setmetatable({{}}, m) m.__mode = i % 2 == 0 and 'k' or 'v' "
     "t[{}] = {} end return {}"},
    // protected calls, loops and frames
    {"loop below pcalls", DEADLINE,
     "local function f(n) if n == 0 then while true do end end return pcall(f, n - 1) end while true do "
     "f(90) end"},
    {"pcalls beyond the limit", OK("{}"),
     "local function f(n) if n == 0 then return 1 end return pcall(f, n - 1) end for i = 1, 100 do f(10000) "
     "end return {}"},
    {"error below pcalls that raise",
     RAISED("t.lua:2: "
            "x12345678910111213141516171819202122232425262728293031323334353637383940414243444546474849505152"
            "535455565758596061626364656667686970717273747"),
     "local function f(n) if n == 0 then error('x') end local ok, e = pcall(f, n - 1) error(e .. n, 0) end "
     "f(90)"},
    {"handler that raises", OK("{}"),
     "local function h() error('again') end for i = 1, 1000 do xpcall(error, h) end return {}"},
    {"handler that calls itself", OK("{}"),
     "local function h() return xpcall(error, h) end xpcall(error, h) return {}"},
    {"handler that takes memory", MEMORY,
     "xpcall(error, function() local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end end)"},
    {"handler after the end of the stack", OK("{}"),
     "local function f() return 1 + f() end for i = 1, 50 do xpcall(f, function(e) return f() end) end "
     "return {}"},
    {"goto in circles", DEADLINE, "for i = 1, 1e15 do goto on ::on:: end"},
    {"goto out of closures", DEADLINE,
     "::top:: do local x = {} local f = function() x = {x} return x end f() end goto top"},
    {"frames of many locals", OVERFLOW,
     "local function f(n) local a, b, c, d, e, g, h, i, j, k, l, m = n, n, n, n, n, n, n, n, n, n, n, n "
     "return f(n + 1) + a + b + c + d + e + g + h + i + j + k + l + m end f(1)"},
    {"arguments that fill the stack", OK("{\"status\":{\"n\":7004}}"),
     "local function f(...) local n = select('#', ...) if n > 7000 then return n end return f(n, n, n, n, "
     "...) end return {status = {n = f()}}"},
    {"iterator that is a table", DEADLINE,
     "for x in setmetatable({}, {__call = function() return 1 end}) do end"},
    {"ipairs without end", DEADLINE,
     "for i in ipairs(setmetatable({}, {__index = function() return 1 end})) do end while true do end"},
    {"loop over what raises", DEADLINE,
     "while true do for _, f in ipairs {error, tostring, next, rawset, setmetatable, unpack, table.sort, "
     "string.rep} do pcall(f, nil) end end"},
    {"sort that lies", OK("{}"),
     "local n, t = 0, {} for i = 1, 5000 do t[i] = i % 7 end table.sort(t, function() n = n + 1 return n % 3 "
     "== 0 end) return {}"},
    {"sort that always raises", DEADLINE,
     "local t = {} for i = 1, 100 do t[i] = i end while true do pcall(table.sort, t, function() error({}) "
     "end) end"},
    {"sort that returns nothing", OK("{}"),
     "local t = {} for i = 1, 1000 do t[i] = 1000 - i end table.sort(t, function() end) return {}"},
    {"sort that drops the list", OK("{}"),
     "local t = {} for i = 1, 1000 do t[i] = 1000 - i end table.sort(t, function(a, b) for k in pairs(t) do "
     "t[k] = nil end return (a or 0) < (b or 0) end) return {}"},
    {"sort in sort of one list", OK("{}"),
     "local t = {} for i = 1, 30 do t[i] = 30 - i end local deep = 0 table.sort(t, function(a, b) if deep < "
     "50 then deep = deep + 1 table.sort(t) end return (a or 0) < (b or 0) end) return {}"},
    // what a script shares with the library and the host
    {"library with a metatable", DEADLINE,
     "setmetatable(string, {__index = function() while true do end end}) return ('x').nothing"},
    {"libraries that are emptied", RAISED("t.lua:2: attempt to call method 'rep' (a nil value)"),
     "for _, l in pairs {string, table, math, bit} do for k in pairs(l) do l[k] = nil end end return {status "
     "= {s = ('x'):rep(2)}}"},
    {"libraries that are swapped", OK("{\"status\":{\"a\":[1,2]}}"),
     "string.rep, table.sort, tostring, pairs = error, error, error, error world.log('info', 'x', {a = 1}) "
     "return {status = {a = {1, 2}}}"},
    {"a world that is changed", OK("{}"),
     "for k in pairs(world) do world[k] = error end setmetatable(world, {__index = error}) return {}"},
    {"a world with itself",
     RESULT("status.w.children: is a function: only text, numbers, booleans and tables can be JSON"),
     "world.world = world return {status = {w = world}}"},
    {"an object with a metatable", OK("{\"status\":{\"x\":\"s\"}}"),
     "setmetatable(object, {__index = function() while true do end end}) return {status = {x = "
     "object.metadata.name}}"},
    {"an object in itself", RESULT("apply[1].metadata.self: the table contains itself"),
     "object.metadata.self = object return {apply = {object}}"},
    {"an object without anything", RESULT("apply[1].apiVersion: is missing: e.g. \"v1\" or \"apps/v1\""),
     "for k in pairs(object) do rawset(object, k, nil) end return {apply = {object}}"},
    {"the globals as a result",
     RESULT("_G: is not a field here: there are apply, delete, done, events, patch, requeue_after, status"),
     "return _G"},
    {"the globals in a result", RESULT("status.g._G: the table contains itself"),
     "return {status = {g = _G}}"},
    {"globals of globals", DEADLINE,
     "_G._G = setmetatable({}, {__index = function() while true do end end}) return _G._G.x"},
    {"modules by path",
     RAISED("t.lua:2: module '../../etc/passwd' not found: require finds the tidelock modules and the other "
            ".lua files next to the script"),
     "require('../../etc/passwd')"},
    {"modules by a long name", RAISED("mmm' not found: require finds"), "require(('m'):rep(1e6))"},
    {"modules with a NUL", RAISED("t.lua:2: bad argument #1 to 'require' (the name of a module has no NUL)"),
     "require('tidelock\\0x')"},
    {"modules by a table", RAISED("t.lua:2: bad argument #1 to 'require' (string expected, got table)"),
     "require(setmetatable({}, {__tostring = function() return 'tidelock' end}))"},
    {"modules that hide",
     RAISED("t.lua:2: module 'tidelock.native' not found: require finds the tidelock modules and the other "
            ".lua files next to the script"),
     "require('tidelock.native')"},
    {"modules without end", DEADLINE, "while true do pcall(require, 'nothing') end"},
    // reads
    {"a read of tables",
     RAISED("t.lua:2: world.get: 1st argument must be a kind such as \"v1/Pod\", got table"),
     "world.get({}, {})"},
    {"a read by a long name", RAISED("t.lua:2: world.get: the name is longer than 512 bytes"),
     "world.get('v1/Pod', ('n'):rep(1e6)) return {}"},
    {"a read with a NUL", OK("{}"), "world.get('v1/Pod', 'a\\0b', 'c\\0d') return {}"},
    {"reads without end", MEMORY, "local t = {} while true do t[#t + 1] = world.get('v1/Pod', 'a') end"},
    {"options that loop",
     RAISED("t.lua:2: world.list: owner must be an object that was read, with metadata.uid, or its UID"),
     "world.list('v1/Pod', {owner = setmetatable({}, {__index = function() while true do end end})}) while "
     "true do end"},
    {"options that are an object", RAISED("t.lua:2: world.list: unknown option 'apiVersion'"),
     "world.list('v1/Pod', object)"},
    {"options of options", RAISED("t.lua:2: world.list: labels.labels: expected a text, got a table"),
     "local o = {} o.labels = o o.owner = o world.list('v1/Pod', o)"},
    {"labels of other types",
     RAISED(
         "t.lua:2: world.list: labels: expected a map of names to texts, got a list; write {app = \"web\"}"),
     "world.list('v1/Pod', {labels = {a = {}, [1] = 2, [true] = false}}) return {}"},
    {"a list that is sorted by its items", OK("{\"status\":{\"n\":3}}"),
     "local l = world.list('v1/Pod') table.sort(l, function(a, b) return a.metadata.name > b.metadata.name "
     "end) l[3] = l[1] l[1].metadata = l return {status = {n = #l}}"},
    {"items that are given each other", RESULT("apply[1].spec.next.spec.next: the table contains itself"),
     "local l = world.list('v1/Pod') l[1].spec.next = l[2] l[2].spec.next = l[1] return {apply = l}"},
    {"log levels", RAISED("t.lua:2: world.log: unknown level '"), "world.log(('x'):rep(1e6), 'x')"},
    {"log of what loops", RAISED("t.lua:2: world.log: 2nd argument must be a text, got table"),
     "world.log('info', setmetatable({}, {__tostring = function() while true do end end})) while true do "
     "end"},
    {"log of functions",
     RAISED(
         "t.lua:2: world.log: fields.g: is a function: only text, numbers, booleans and tables can be JSON"),
     "world.log('info', 'x', {f = print, g = function() end})"},
    {"secrets without end", DEADLINE,
     "local t = {} while true do t[#t + 1] = world.secret_value('x' .. #t, {length = 1024}) end"},
    {"secret options 1", RAISED("t.lua:2: world.secret_value: length must be a whole number from 1 to 1024"),
     "world.secret_value('x', {length = 0})"},
    {"secret options 2", RAISED("t.lua:2: world.secret_value: length must be a whole number from 1 to 1024"),
     "world.secret_value('x', {length = -1})"},
    {"secret options 3", RAISED("t.lua:2: world.secret_value: length must be a whole number from 1 to 1024"),
     "world.secret_value('x', {length = 0/0})"},
    {"secret options 4", RAISED("t.lua:2: world.secret_value: length must be a whole number from 1 to 1024"),
     "world.secret_value('x', {length = 1.5})"},
    {"secret options 5", RAISED("t.lua:2: world.secret_value: length must be a whole number from 1 to 1024"),
     "world.secret_value('x', {length = '8x'})"},
    {"secret options 6", RAISED("t.lua:2: world.secret_value: unknown option 'chars'"),
     "world.secret_value('x', {chars = 'ab'})"},
    {"secret options 7",
     RAISED("t.lua:2: world.secret_value: 2nd argument must be a table of options, got number"),
     "world.secret_value('x', 5)"},
    {"secret of a strange name",
     RAISED("t.lua:2: world.secret_value: 1st argument must be a name for the value, got table"),
     "world.secret_value({}, {})"},
    // values of the library
    {"quantity of infinities", RAISED("t.lua:2: a quantity can be multiplied by a whole number only"),
     K8S "return k8s.quantity('1') * (1/0)"},
    {"quantity of nan", RAISED("t.lua:2: a quantity can be multiplied by a whole number only"),
     K8S "return k8s.quantity('1') * (0/0)"},
    {"quantity beside a table", RAISED("t.lua:2: attempt to compare userdata with table"),
     K8S "return k8s.quantity('1') < {}"},
    {"quantity that is changed", RAISED("t.lua:2: attempt to index local 'q' (a userdata value)"),
     K8S "local q = k8s.quantity('1') q.x = 1 setmetatable(q, {})"},
    {"quantity as a key",
     RESULT("status: has a key of type userdata: only text (or 1..n in a list) can be a key"),
     K8S "return {status = {[k8s.quantity('1')] = 1}}"},
    {"quantities that are kept", MEMORY,
     K8S "local t = {} while true do t[#t + 1] = k8s.quantity('1Gi') + #t end"},
    {"quantity of everything", OK("{}"),
     K8S "for _, v in pairs {{}, print, true, '', ' ', '-', '+', '1e', 'e1', '.', '1..', '0x1', '1\\0', 1/0, "
         "0/0, k8s.null, object} do pcall(k8s.quantity, v) end return {}"},
    {"quantity by another's methods", RAISED("t.lua:2: attempt to index a boolean value"),
     K8S "getmetatable(k8s.quantity('1')).__add = nil"},
    {"quantity with a stranger", RAISED("t.lua:2: a quantity is made of text or a number, not of a table"),
     K8S "k8s.quantity('1').compare({}, {})"},
    {"selector that loops", DEADLINE,
     K8S "while true do pcall(k8s.labels_match, setmetatable({}, {__index = function() while true do end "
         "end}), {}) end"},
    {"selector in itself", OK("{}"),
     K8S "local s = {} s.matchExpressions = s s.matchLabels = s k8s.labels_match(s, s) return {}"},
    {"selector of many expressions", OK("{}"),
     K8S "local e = {} for i = 1, 2e4 do e[i] = {key = 'k' .. i, operator = 'NotIn', values = {'a', 'b'}} "
         "end k8s.labels_match({matchExpressions = e}, {}) return {}"},
    {"selector of strange texts", OK("{}"),
     K8S "for _, s in ipairs {',', '=', '!', 'a in (', 'a in ()', 'a=b=c', '!!a', ('('):rep(1e5), 'a\\0', 'a "
         "notin (b', 'a>1', ('a,'):rep(1e4)} do pcall(k8s.labels_match, s, {a = 'b'}) end return {}"},
    {"path that is long", OK("{}"), K8S "k8s.get({}, ('a.'):rep(5e5)) return {}"},
    {"path through what loops", DEADLINE,
     K8S "return {status = {x = k8s.get(setmetatable({}, {__index = function() while true do end end}), "
         "'a.b')}}"},
    {"find in what loops", OK("{}"),
     K8S "k8s.list_find(setmetatable({}, {__index = function() while true do end end}), 'a', 1) return {}"},
    {"list of lists of itself", RESULT("status.l[1]: the table contains itself"),
     K8S "local l = k8s.array {} l[1] = l return {status = {l = l}}"},
    {"list with names",
     RESULT("status.l: is a list and also has the key \"x\": make it a list (1..n) or an object (text keys)"),
     K8S "local l = k8s.array {1} l.x = 1 return {status = {l = l}}"},
    {"list of what is none",
     RESULT("status.x: is a list and also has the key \"children\": make it a list (1..n) or an object "
            "(text keys)"),
     K8S "return {status = {x = k8s.array(world)}}"},
    {"copy of functions",
     RESULT("status.b.children: is a function: only text, numbers, booleans and tables can be JSON"),
     K8S "return {status = k8s.copy({a = print, b = world, c = k8s.null})}"},
    {"merge of what is none", OK("{\"status\":{\"x\":{}}}"),
     K8S "return {status = {x = k8s.merge(nil, {}) or 1, y = k8s.merge({}, print)}}"},
    {"null that is used", RAISED("t.lua:2: attempt to index k8s.null"), K8S "return k8s.null.x"},
    {"null that is called", RAISED("t.lua:2: attempt to call field 'null' (a userdata value)"),
     K8S "k8s.null()"},
    {"compare of what can not be",
     RAISED("t.lua:2: k8s.compare: two integers, numbers or texts are wanted, got table and number"),
     K8S "k8s.compare({}, 1)"},
    {"condition of everything", RAISED("t.lua:2: k8s.condition: type: expected text, got table"),
     K8S "return {status = {conditions = {k8s.condition({}, {}, {}, {})}}}"},
    {"event that is long", OK("{\"events\":[{\"message\":\""),
     K8S "return {events = {k8s.event('Normal', 'R', ('x'):rep(1e6))}}"},
    {"event of strange bytes", RESULT("events[1].message: the text is not valid UTF-8"),
     K8S "return {events = {k8s.event('Normal', 'R', ('\\255\\0'):rep(1000))}}"},
    {"time of strange texts", OK("{}"),
     K8S "for _, s in ipairs {'', 'T', '9999-99-99T99:99:99Z', '2024-02-30T00:00:00Z', ('2'):rep(1e5), "
         "'2024-01-01T00:00:00+99:99'} do pcall(k8s.time, s) end for _, n in ipairs {1/0, 0/0, 1e300, "
         "-1e300} do pcall(k8s.format_time, n) end return {}"},
    {"numbers of JSON", OK("{}"),
     K8S "for _, s in ipairs {'1e400', ('9'):rep(1e6), '-', '1' .. ('0'):rep(4000), '0.' .. ('0'):rep(1e5) "
         ".. '1', '01', '+1', '18446744073709551616', 'NaN'} do pcall(json.decode, s) end return {}"},
    {"keys of JSON", OK("{}"), K8S "json.decode('{' .. ('\"a\":1,'):rep(1e5) .. '\"a\":2}') return {}"},
    {"escapes of JSON", OK("{}"),
     K8S "for _, s in ipairs {'\"\\\\ud800\"', '\"\\\\u0000\"', '\"\\\\', '\"\\255\"', '\\239\\187\\191{}'} "
         "do pcall(json.decode, s) end return {}"},
    {"exact integer 1",
     RAISED("t.lua:2: arithmetic on 9007199254740993: a Lua number would round it (exact up to 2^53); "
            "compare with k8s.compare(a, b), show with tostring(), or keep"),
     "local big = world.list('v1/Pod')[2].spec.big return {status = {x = big + 1}}"},
    {"exact integer 2",
     RAISED("t.lua:2: arithmetic on 9007199254740993: a Lua number would round it (exact up to 2^53); "
            "compare with k8s.compare(a, b), show with tostring(), or keep"),
     "local big = world.list('v1/Pod')[2].spec.big return {status = {x = -big}}"},
    {"exact integer 3", RAISED("t.lua:2: bad argument #1 to 'rep' (number expected, got userdata)"),
     "local big = world.list('v1/Pod')[2].spec.big return {status = {x = ('x'):rep(big)}}"},
    {"exact integer 4", RAISED("t.lua:2: bad argument #1 to 'band' (number expected, got userdata)"),
     "local big = world.list('v1/Pod')[2].spec.big return {status = {x = bit.band(big, 1)}}"},
    {"exact integer 5", RAISED("t.lua:2: bad argument #1 to 'floor' (number expected, got userdata)"),
     "local big = world.list('v1/Pod')[2].spec.big return {status = {x = math.floor(big)}}"},
    {"exact integer 6", RAISED("t.lua:2: bad argument #3 to 'unpack' (number expected, got userdata)"),
     "local big = world.list('v1/Pod')[2].spec.big return {status = {x = unpack({}, 1, big)}}"},
    {"exact integer 7", RAISED("t.lua:2: attempt to compare userdata with number"),
     "local big = world.list('v1/Pod')[2].spec.big return {status = {x = big < 1}}"},
    {"exact integer 8", RAISED("t.lua:2: attempt to get length of local 'big' (a userdata value)"),
     "local big = world.list('v1/Pod')[2].spec.big return {status = {x = #big}}"},
    {"exact integer 9", RAISED("t.lua:2: attempt to call local 'big' (a userdata value)"),
     "local big = world.list('v1/Pod')[2].spec.big return {status = {x = big()}}"},
    {"exact integer 10", RAISED("t.lua:2: attempt to index a 64-bit integer"),
     "local big = world.list('v1/Pod')[2].spec.big return {status = {x = big.x}}"},
    {"exact integer 11", RAISED("t.lua:2: bad argument #1 to 'char' (number expected, got userdata)"),
     "local big = world.list('v1/Pod')[2].spec.big return {status = {x = string.char(big)}}"},
    {"exact integer 12", RAISED("t.lua:2: bad argument #4 to 'concat' (number expected, got userdata)"),
     "local big = world.list('v1/Pod')[2].spec.big return {status = {x = table.concat({1}, ',', 1, big)}}"},
    {"exact integers as bounds", RAISED("t.lua:2: 'for' limit must be a number"),
     "local big = world.list('v1/Pod')[2].spec.big for i = 1, big do end"},
    {"exact integers as keys",
     RESULT("status: has a key of type userdata: only text (or 1..n in a list) can be a key"),
     "local big = world.list('v1/Pod')[2].spec.big local t = {} for i = 1, 1000 do t[big] = i end return "
     "{status = t}"},
    {"exact integers as texts", MEMORY,
     "local big = world.list('v1/Pod')[2].spec.big local s = '' while true do s = s .. big .. s end"},
    // results
    {"result by __index", OK("{}"), "return setmetatable({}, {__index = {apply = 5, status = print}})"},
    {"result by __pairs", OK("{}"),
     "return setmetatable({}, {__pairs = function() while true do end end, __len = error, __next = error})"},
    {"two lists in each other", RESULT("status.a[1][1]: the table contains itself"),
     "local a, b = {}, {} a[1] = b b[1] = a return {status = {a = a}}"},
    {"functions as keys", RESULT("the result has a key of type function: only field names belong here"),
     "return {[print or error] = 1, status = {}}"},
    {"lists where maps are", RESULT("apply: is one object, but must be a list of them: write { object }"),
     "return {apply = {apiVersion = 'v1'}, status = {1, 2}}"},
    {"maps where lists are", RESULT("delete: is an object, but must be a list: { first, second }"),
     "return {events = {a = 1}, delete = {b = 2}}"},
    {"strange times",
     RESULT("requeue_after: expected a Go duration such as \"30s\" or \"1h30m\", or seconds, greater than 0, "
            "got \"-1s\""),
     "return {requeue_after = '-1s'}"},
    {"times that overflow",
     RESULT("requeue_after: expected a Go duration such as \"30s\" or \"1h30m\", or seconds, greater than 0, "
            "got \"999999999999h\""),
     "return {requeue_after = '999999999999h'}"},
    {"the same object often", OK("{\"apply\":[{\"object\":{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"m"),
     "local o = {apiVersion = 'v1', kind = 'ConfigMap', metadata = {name = 'a'}} local t = {} for i = 1, "
     "1000 do t[i] = o end return {apply = t}"},
    {"ready that loops", DEADLINE,
     "return {apply = {{object = {apiVersion = 'v1', kind = 'Pod', metadata = {name = 'a'}}, ready = "
     "function() while true do pcall(error) end end}}}"},
    {"ready that takes memory", MEMORY,
     "return {apply = {{object = {apiVersion = 'v1', kind = 'Pod', metadata = {name = 'a'}}, ready = "
     "function() local t = {} while true do t[#t + 1] = {} end end}}}"},
    {"ready that changes the result",
     RESULT("apply[1].object.apiVersion: is missing: e.g. \"v1\" or \"apps/v1\""),
     "local r r = {apply = {{object = {apiVersion = 'v1', kind = 'Pod', metadata = {name = 'a'}}, ready = "
     "function(live) r.apply[1].object = r r.apply[2] = r r.status = r live.spec = r return true end}}} "
     "return r"},
    {"ready that is a table",
     RESULT("apply[1].ready: expected a function of the live object that returns true or false, got a table"),
     "return {apply = {{object = {apiVersion = 'v1', kind = 'Pod', metadata = {name = 'a'}}, ready = "
     "setmetatable({}, {__call = error})}}}"},
    {"ready that returns a table", RAISED("apply[1].ready: must return true or false, got a table"),
     "return {apply = {{object = {apiVersion = 'v1', kind = 'Pod', metadata = {name = 'a'}}, ready = "
     "function() return {} end}}}"},
    {"after itself", RESULT("apply[1].after[1].apiVersion: is missing: e.g. \"v1\" or \"apps/v1\""),
     "local e = {object = {apiVersion = 'v1', kind = 'Pod', metadata = {name = 'a'}}} e.after = {e} return "
     "{apply = {e}}"},
    {"names that are long", OK("{\"apply\":[{\"object\":{\"apiVersion\":\"v1\",\"kind\":\""),
     "return {apply = {{apiVersion = 'v1', kind = ('K'):rep(1e6), metadata = {name = ('n'):rep(1e6)}}}}"},
    {"names that are tables", RESULT("apply[1].apiVersion: expected text, got a table"),
     "return {apply = {{apiVersion = {}, kind = {}, metadata = {name = {}}}}}"},
    {"metadata that is a text", RESULT("apply[1].metadata: expected an object, got \"x\""),
     "return {apply = {{apiVersion = 'v1', kind = 'Pod', metadata = 'x'}}}"},
    {"many values", OK("{}"), "return {}, {}, error, unpack({}, 1, 1000)"},
    // files beside the script
    {"files that need each other",
     RAISED("t.lua:2: module 'm' requires itself, directly or through others, or has raised an error before"),
     "require 'm'", "return require 'back'"},
    {"a file that needs itself",
     RAISED("t.lua:2: module 'm' requires itself, directly or through others, or has raised an error before"),
     "require 'm'", "return require 'm'"},
    {"a circle in pcall", DEADLINE, "while true do pcall(require, 'm') end", "return pcall(require, 'back')"},
    {"a file that loops", DEADLINE, "while true do pcall(require, 'm') end",
     "if true then while true do pcall(error) end end"},
    {"a file that takes memory", MEMORY, "pcall(require, 'm') pcall(require, 'back')",
     "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end"},
    {"a file that raises each time", DEADLINE, "while true do pcall(require, 'm') end",
     "error(setmetatable({}, {__tostring = error}))"},
    {"a file that is a trap", DEADLINE, "return {status = {x = require('m').x}}",
     "return setmetatable({}, {__index = function() while true do end end})"},
    {"a file that changes the libraries", RAISED("t.lua:2: attempt to call method 'rep' (a nil value)"),
     "require 'm' return {status = {s = ('x'):rep(3)}}",
     "string.rep = nil table.insert = error tostring = nil _G.pairs = nil return true"},
    {"a file that returns nan", OK("{\"status\":{\"x\":false}}"),
     "return {status = {x = require 'm' == require 'm'}}", "return 0/0"},
    {"a file that returns nothing", OK("{}"), "require 'm' require 'm' return {}", ""},
    {"a file that is kept", OK("{\"status\":{\"n\":1}}"),
     "local m = require 'm' m.n = m.n + 1 return {status = {n = m.n}}", "return {n = 0}"},
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
