// Hostile use of what a script shares with the language, the library and the host: metatables, protected
// calls, library tables, reads, values, results, files beside it. Each ends the way it must, and leaves
// nothing.
// ctest-labels: thread deadline
#include "script/hostile_support.h"

#define K8S "local k8s, json = require 'tidelock', require 'tidelock.json' "

static const struct hostile hostile[] = {
    // texts that grow, and what is made of them
    {"rep chain", RAISED, "local s = 'x' for i = 1, 100 do s = s:rep(10) end"},
    {"rep chain in pcall", DEADLINE,
     "local t, s = {}, 'x' while true do local ok, r = pcall(string.rep, s, 9) s = ok and r or 'x' t[#t + 1] "
     "= s end"},
    {"concat of one text many times", MEMORY,
     "local t, s = {}, ('x'):rep(1000) for i = 1, 1e5 do t[i] = s end return {status = {n = "
     "#table.concat(t)}}"},
    {"concat with a long separator", MEMORY,
     "local t = {} for i = 1, 1000 do t[i] = '' end return {status = {n = #table.concat(t, "
     "('x'):rep(1e6))}}"},
    {"concat of what is no text", RAISED, "table.concat({1, {}, 3})"},
    {"concat of a table with __concat", RAISED, "table.concat({setmetatable({}, {__concat = error})})"},
    {"concat of a sparse list", RAISED, "local t = {1} t[1e9] = 2 table.concat(t, ',', 1, 1e9)"},
    {"tostring that is long", MEMORY,
     "local t = setmetatable({}, {__tostring = function() return ('x'):rep(1e6) end}) local s = '' for i = "
     "1, 100 do s = s .. tostring(t) end"},
    {"gsub that doubles", SLOW(RAISED), "local s = 'x' while true do s = s:gsub('x', 'xx') end"},
    {"gsub with captures", MEMORY, "local s = ('x'):rep(1e5) s:gsub('(.*)', ('%1'):rep(1000))"},
    {"gsub through format through gsub", RAISED,
     "local function f(s) return ('%s'):format(setmetatable({}, {__tostring = function() return (s:gsub('.', "
     "f)) end})) end f('a')"},
    {"gsub callback of another type", RAISED, "('a'):gsub('a', function() return {} end)"},
    {"gsub by a list that was read", OK, "('1'):gsub('.', world.list('v1/Pod')[1]) return {}"},
    {"format of many arguments", RAISED,
     "local t = {} for i = 1, 7000 do t[i] = i end return {status = {s = "
     "('%d'):rep(7000):format(unpack(t))}} .. 1"},
    {"format widths", RAISED, "('%99.99f'):format(1e308) ('%-99s'):format('x') ('%0100d'):format(1)"},
    {"format precision", RAISED, "('%.100f'):format(1)"},
    {"format flags", RAISED, "('%+-+-+-+-+-#0 d'):format(1)"},
    {"format of addresses", RAISED, "return {status = {s = ('%p'):format({})}}"},
    {"format of what is no number", RAISED, "('%d'):format(('x'):rep(1e6))"},
    {"format of infinities", OK,
     "return {status = {a = ('%d'):format(2^63), b = ('%x'):format(-1), c = ('%g'):format(1/0)}}"},
    {"quotes of bytes", OK, "return {status = {n = #('%q'):format(('\\0\\r\\n\\255'):rep(1000))}}"},
    {"char of many", OK,
     "local t = {} for i = 1, 5000 do t[i] = i % 128 end return {status = {n = #string.char(unpack(t))}}"},
    {"tonumber of a base", RAISED, "tonumber('z', 37)"},
    {"upper of a large text", MEMORY,
     "local t, s = {}, ('x'):rep(1e6) while true do t[#t + 1] = (s .. #t):upper() end"},
    // metamethods
    {"index through many tables", RAISED,
     "local t = {} for i = 1, 10000 do t = setmetatable({}, {__index = t}) end return t.nothing"},
    {"newindex through many tables", RAISED,
     "local t = {} for i = 1, 10000 do t = setmetatable({}, {__newindex = t}) end t.x = 1"},
    {"call through many tables", RAISED,
     "local t = print for i = 1, 1000 do t = setmetatable({}, {__call = t}) end t()"},
    {"call of itself", DEADLINE,
     "local t = setmetatable({}, {}) getmetatable(t).__call = function(f, ...) return f(...) end t()"},
    {"call with one more argument each time", DEADLINE,
     "local t = setmetatable({}, {}) getmetatable(t).__call = function(f, ...) return f(1, ...) end t()"},
    {"equality of itself", RAISED,
     "local m = {} m.__eq = function(a, b) return a == b end return setmetatable({}, m) == setmetatable({}, "
     "m)"},
    {"order of itself", RAISED,
     "local m = {} m.__le = function(a, b) return not (b <= a) end return setmetatable({}, m) <= "
     "setmetatable({}, m)"},
    {"sum of itself", RAISED,
     "local m = {} m.__add = function(a, b) return a + b end return setmetatable({}, m) + 1"},
    {"concat of many with metamethods", RAISED,
     "local m = {} local function new() return setmetatable({}, m) end m.__concat = function(a, b) return "
     "new() .. new() end return new() .. 'a' .. 'b' .. 'c'"},
    {"metatable of its own metatable", RAISED,
     "local m = {} setmetatable(m, m) m.__index = m m.__newindex = m return {status = {x = m.y}}"},
    {"tostring that is no function", RAISED,
     "tostring(setmetatable({}, {__tostring = setmetatable({}, {__call = error})}))"},
    {"metatable that hides itself", OK,
     "local t = setmetatable({}, {__metatable = setmetatable({}, {__index = error})}) return {status = {x = "
     "tostring(getmetatable(t))}}"},
    {"order in sort by metamethods that lie", OK,
     "local n, m = 0, {} m.__lt = function() n = n + 1 return n % 3 == 0 end local t = {} for i = 1, 1000 do "
     "t[i] = setmetatable({}, m) end pcall(table.sort, t) return {}"},
    {"modes that change", OK,
     "local m = {} for i = 1, 1000 do local t = setmetatable({{}}, m) m.__mode = i % 2 == 0 and 'k' or 'v' "
     "t[{}] = {} end return {}"},
    // protected calls, loops and frames
    {"loop below pcalls", DEADLINE,
     "local function f(n) if n == 0 then while true do end end return pcall(f, n - 1) end while true do "
     "f(90) end"},
    {"pcalls beyond the limit", OK,
     "local function f(n) if n == 0 then return 1 end return pcall(f, n - 1) end for i = 1, 100 do f(10000) "
     "end return {}"},
    {"error below pcalls that raise", RAISED,
     "local function f(n) if n == 0 then error('x') end local ok, e = pcall(f, n - 1) error(e .. n, 0) end "
     "f(90)"},
    {"handler that raises", OK,
     "local function h() error('again') end for i = 1, 1000 do xpcall(error, h) end return {}"},
    {"handler that calls itself", OK,
     "local function h() return xpcall(error, h) end xpcall(error, h) return {}"},
    {"handler that takes memory", MEMORY,
     "xpcall(error, function() local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end end)"},
    {"handler after the end of the stack", RAISED | FINE | DEADLINE,
     "local function f() return 1 + f() end for i = 1, 50 do xpcall(f, function(e) return f() end) end "
     "return {}"},
    {"goto in circles", DEADLINE, "for i = 1, 1e15 do goto on ::on:: end"},
    {"goto out of closures", DEADLINE,
     "::top:: do local x = {} local f = function() x = {x} return x end f() end goto top"},
    {"frames of many locals", RAISED,
     "local function f(n) local a, b, c, d, e, g, h, i, j, k, l, m = n, n, n, n, n, n, n, n, n, n, n, n "
     "return f(n + 1) + a + b + c + d + e + g + h + i + j + k + l + m end f(1)"},
    {"arguments that fill the stack", OK,
     "local function f(...) local n = select('#', ...) if n > 7000 then return n end return f(n, n, n, n, "
     "...) end return {status = {n = f()}}"},
    {"iterator that is a table", DEADLINE,
     "for x in setmetatable({}, {__call = function() return 1 end}) do end"},
    {"ipairs without end", DEADLINE,
     "for i in ipairs(setmetatable({}, {__index = function() return 1 end})) do end while true do end"},
    {"loop over what raises", DEADLINE,
     "while true do for _, f in ipairs {error, tostring, next, rawset, setmetatable, unpack, table.sort, "
     "string.rep} do pcall(f, nil) end end"},
    {"sort that lies", OK,
     "local n, t = 0, {} for i = 1, 5000 do t[i] = i % 7 end table.sort(t, function() n = n + 1 return n % 3 "
     "== 0 end) return {}"},
    {"sort that always raises", DEADLINE,
     "local t = {} for i = 1, 100 do t[i] = i end while true do pcall(table.sort, t, function() error({}) "
     "end) end"},
    {"sort that returns nothing", OK,
     "local t = {} for i = 1, 1000 do t[i] = 1000 - i end table.sort(t, function() end) return {}"},
    {"sort that drops the list", OK,
     "local t = {} for i = 1, 1000 do t[i] = 1000 - i end table.sort(t, function(a, b) for k in pairs(t) do "
     "t[k] = nil end return (a or 0) < (b or 0) end) return {}"},
    {"sort in sort of one list", OK,
     "local t = {} for i = 1, 30 do t[i] = 30 - i end local deep = 0 table.sort(t, function(a, b) if deep < "
     "50 then deep = deep + 1 table.sort(t) end return (a or 0) < (b or 0) end) return {}"},
    // what a script shares with the library and the host
    {"library with a metatable", DEADLINE,
     "setmetatable(string, {__index = function() while true do end end}) return ('x').nothing"},
    {"libraries that are emptied", RAISED,
     "for _, l in pairs {string, table, math, bit} do for k in pairs(l) do l[k] = nil end end return {status "
     "= {s = ('x'):rep(2)}}"},
    {"libraries that are swapped", OK,
     "string.rep, table.sort, tostring, pairs = error, error, error, error world.log('info', 'x', {a = 1}) "
     "return {status = {a = {1, 2}}}"},
    {"a world that is changed", OK,
     "for k in pairs(world) do world[k] = error end setmetatable(world, {__index = error}) return {}"},
    {"a world with itself", BIT(PASS_RESULT), "world.world = world return {status = {w = world}}"},
    {"an object with a metatable", OK,
     "setmetatable(object, {__index = function() while true do end end}) return {status = {x = "
     "object.metadata.name}}"},
    {"an object in itself", BIT(PASS_RESULT), "object.metadata.self = object return {apply = {object}}"},
    {"an object without anything", BIT(PASS_RESULT),
     "for k in pairs(object) do rawset(object, k, nil) end return {apply = {object}}"},
    {"the globals as a result", BIT(PASS_RESULT), "return _G"},
    {"the globals in a result", BIT(PASS_RESULT), "return {status = {g = _G}}"},
    {"globals of globals", DEADLINE,
     "_G._G = setmetatable({}, {__index = function() while true do end end}) return _G._G.x"},
    {"environments", RAISED, "getfenv(1).x = 1"},
    {"threads", RAISED, "coroutine.create(function() end)"},
    {"the registry", RAISED, "debug.getregistry()"},
    {"modules by path", RAISED, "require('../../etc/passwd')"},
    {"modules by a long name", RAISED, "require(('m'):rep(1e6))"},
    {"modules with a NUL", RAISED, "require('tidelock\\0x')"},
    {"modules by a table", RAISED,
     "require(setmetatable({}, {__tostring = function() return 'tidelock' end}))"},
    {"modules that hide", RAISED, "require('tidelock.native')"},
    {"modules without end", DEADLINE, "while true do pcall(require, 'nothing') end"},
    // reads
    {"a read of tables", RAISED, "world.get({}, {})"},
    {"a read by a long name", OK, "world.get('v1/Pod', ('n'):rep(1e6)) return {}"},
    {"a read with a NUL", OK, "world.get('v1/Pod', 'a\\0b', 'c\\0d') return {}"},
    {"reads without end", MEMORY, "local t = {} while true do t[#t + 1] = world.get('v1/Pod', 'a') end"},
    {"options that loop", RAISED,
     "world.list('v1/Pod', {owner = setmetatable({}, {__index = function() while true do end end})}) while "
     "true do end"},
    {"options that are an object", RAISED, "world.list('v1/Pod', object)"},
    {"options of options", RAISED, "local o = {} o.labels = o o.owner = o world.list('v1/Pod', o)"},
    {"labels of other types", RAISED,
     "world.list('v1/Pod', {labels = {a = {}, [1] = 2, [true] = false}}) return {}"},
    {"a list that is sorted by its items", OK,
     "local l = world.list('v1/Pod') table.sort(l, function(a, b) return a.metadata.name > b.metadata.name "
     "end) l[3] = l[1] l[1].metadata = l return {status = {n = #l}}"},
    {"items that are given each other", BIT(PASS_RESULT),
     "local l = world.list('v1/Pod') l[1].spec.next = l[2] l[2].spec.next = l[1] return {apply = l}"},
    {"log levels", RAISED, "world.log(('x'):rep(1e6), 'x')"},
    {"log of what loops", RAISED,
     "world.log('info', setmetatable({}, {__tostring = function() while true do end end})) while true do "
     "end"},
    {"log of functions", RAISED, "world.log('info', 'x', {f = print, g = function() end})"},
    {"secrets without end", DEADLINE,
     "local t = {} while true do t[#t + 1] = world.secret_value('x' .. #t, {length = 1024}) end"},
    {"secret options 1", RAISED, "world.secret_value('x', {length = 0})"},
    {"secret options 2", RAISED, "world.secret_value('x', {length = -1})"},
    {"secret options 3", RAISED, "world.secret_value('x', {length = 0/0})"},
    {"secret options 4", RAISED, "world.secret_value('x', {length = 1.5})"},
    {"secret options 5", RAISED, "world.secret_value('x', {length = '8x'})"},
    {"secret options 6", RAISED, "world.secret_value('x', {chars = 'ab'})"},
    {"secret options 7", RAISED, "world.secret_value('x', 5)"},
    {"secret of a strange name", RAISED, "world.secret_value({}, {})"},
    // values of the library
    {"quantity of infinities", RAISED, K8S "return k8s.quantity('1') * (1/0)"},
    {"quantity of nan", RAISED, K8S "return k8s.quantity('1') * (0/0)"},
    {"quantity beside a table", RAISED, K8S "return k8s.quantity('1') < {}"},
    {"quantity that is changed", RAISED, K8S "local q = k8s.quantity('1') q.x = 1 setmetatable(q, {})"},
    {"quantity as a key", BIT(PASS_RESULT), K8S "return {status = {[k8s.quantity('1')] = 1}}"},
    {"quantities that are kept", DEADLINE,
     K8S "local t = {} while true do t[#t + 1] = k8s.quantity('1Gi') + #t end"},
    {"quantity of everything", OK,
     K8S "for _, v in pairs {{}, print, true, '', ' ', '-', '+', '1e', 'e1', '.', '1..', '0x1', '1\\0', 1/0, "
         "0/0, k8s.null, object} do pcall(k8s.quantity, v) end return {}"},
    {"quantity by another's methods", RAISED, K8S "getmetatable(k8s.quantity('1')).__add = nil"},
    {"quantity with a stranger", RAISED, K8S "k8s.quantity('1').compare({}, {})"},
    {"selector that loops", DEADLINE,
     K8S "while true do pcall(k8s.labels_match, setmetatable({}, {__index = function() while true do end "
         "end}), {}) end"},
    {"selector in itself", OK,
     K8S "local s = {} s.matchExpressions = s s.matchLabels = s k8s.labels_match(s, s) return {}"},
    {"selector of many expressions", FINE | DEADLINE | RAISED,
     K8S "local e = {} for i = 1, 2e4 do e[i] = {key = 'k' .. i, operator = 'NotIn', values = {'a', 'b'}} "
         "end k8s.labels_match({matchExpressions = e}, {}) return {}"},
    {"selector of strange texts", OK,
     K8S "for _, s in ipairs {',', '=', '!', 'a in (', 'a in ()', 'a=b=c', '!!a', ('('):rep(1e5), 'a\\0', 'a "
         "notin (b', 'a>1', ('a,'):rep(1e4)} do pcall(k8s.labels_match, s, {a = 'b'}) end return {}"},
    {"path that is long", FINE | RAISED | MEMORY | DEADLINE, K8S "k8s.get({}, ('a.'):rep(5e5)) return {}"},
    {"path through what loops", DEADLINE,
     K8S "return {status = {x = k8s.get(setmetatable({}, {__index = function() while true do end end}), "
         "'a.b')}}"},
    {"find in what loops", OK,
     K8S "k8s.list_find(setmetatable({}, {__index = function() while true do end end}), 'a', 1) return {}"},
    {"list of lists of itself", BIT(PASS_RESULT),
     K8S "local l = k8s.array {} l[1] = l return {status = {l = l}}"},
    {"list with names", BIT(PASS_RESULT), K8S "local l = k8s.array {1} l.x = 1 return {status = {l = l}}"},
    {"list of what is none", BIT(PASS_RESULT), K8S "return {status = {x = k8s.array(world)}}"},
    {"copy of functions", BIT(PASS_RESULT),
     K8S "return {status = k8s.copy({a = print, b = world, c = k8s.null})}"},
    {"merge of what is none", OK,
     K8S "return {status = {x = k8s.merge(nil, {}) or 1, y = k8s.merge({}, print)}}"},
    {"null that is used", RAISED, K8S "return k8s.null.x"},
    {"null that is called", RAISED, K8S "k8s.null()"},
    {"compare of what can not be", RAISED, K8S "k8s.compare({}, 1)"},
    {"condition of everything", RAISED,
     K8S "return {status = {conditions = {k8s.condition({}, {}, {}, {})}}}"},
    {"event that is long", OK, K8S "return {events = {k8s.event('Normal', 'R', ('x'):rep(1e6))}}"},
    {"event of strange bytes", BIT(PASS_RESULT),
     K8S "return {events = {k8s.event('Normal', 'R', ('\\255\\0'):rep(1000))}}"},
    {"time of strange texts", OK,
     K8S "for _, s in ipairs {'', 'T', '9999-99-99T99:99:99Z', '2024-02-30T00:00:00Z', ('2'):rep(1e5), "
         "'2024-01-01T00:00:00+99:99'} do pcall(k8s.time, s) end for _, n in ipairs {1/0, 0/0, 1e300, "
         "-1e300} do pcall(k8s.format_time, n) end return {}"},
    {"numbers of JSON", OK,
     K8S "for _, s in ipairs {'1e400', ('9'):rep(1e6), '-', '1' .. ('0'):rep(4000), '0.' .. ('0'):rep(1e5) "
         ".. '1', '01', '+1', '18446744073709551616', 'NaN'} do pcall(json.decode, s) end return {}"},
    {"keys of JSON", OK, K8S "json.decode('{' .. ('\"a\":1,'):rep(1e5) .. '\"a\":2}') return {}"},
    {"escapes of JSON", OK,
     K8S "for _, s in ipairs {'\"\\\\ud800\"', '\"\\\\u0000\"', '\"\\\\', '\"\\255\"', '\\239\\187\\191{}'} "
         "do pcall(json.decode, s) end return {}"},
    {"exact integer 1", RAISED,
     "local big = world.list('v1/Pod')[2].spec.big return {status = {x = big + 1}}"},
    {"exact integer 2", RAISED, "local big = world.list('v1/Pod')[2].spec.big return {status = {x = -big}}"},
    {"exact integer 3", RAISED,
     "local big = world.list('v1/Pod')[2].spec.big return {status = {x = ('x'):rep(big)}}"},
    {"exact integer 4", RAISED,
     "local big = world.list('v1/Pod')[2].spec.big return {status = {x = bit.band(big, 1)}}"},
    {"exact integer 5", RAISED,
     "local big = world.list('v1/Pod')[2].spec.big return {status = {x = math.floor(big)}}"},
    {"exact integer 6", RAISED,
     "local big = world.list('v1/Pod')[2].spec.big return {status = {x = unpack({}, 1, big)}}"},
    {"exact integer 7", RAISED,
     "local big = world.list('v1/Pod')[2].spec.big return {status = {x = big < 1}}"},
    {"exact integer 8", RAISED, "local big = world.list('v1/Pod')[2].spec.big return {status = {x = #big}}"},
    {"exact integer 9", RAISED, "local big = world.list('v1/Pod')[2].spec.big return {status = {x = big()}}"},
    {"exact integer 10", RAISED,
     "local big = world.list('v1/Pod')[2].spec.big return {status = {x = big.x}}"},
    {"exact integer 11", RAISED,
     "local big = world.list('v1/Pod')[2].spec.big return {status = {x = string.char(big)}}"},
    {"exact integer 12", RAISED,
     "local big = world.list('v1/Pod')[2].spec.big return {status = {x = table.concat({1}, ',', 1, big)}}"},
    {"exact integers as bounds", RAISED,
     "local big = world.list('v1/Pod')[2].spec.big for i = 1, big do end"},
    {"exact integers as keys", BIT(PASS_RESULT),
     "local big = world.list('v1/Pod')[2].spec.big local t = {} for i = 1, 1000 do t[big] = i end return "
     "{status = t}"},
    {"exact integers as texts", MEMORY | DEADLINE,
     "local big = world.list('v1/Pod')[2].spec.big local s = '' while true do s = s .. big .. s end"},
    // results
    {"result by __index", OK, "return setmetatable({}, {__index = {apply = 5, status = print}})"},
    {"result by __pairs", OK,
     "return setmetatable({}, {__pairs = function() while true do end end, __len = error, __next = error})"},
    {"two lists in each other", BIT(PASS_RESULT),
     "local a, b = {}, {} a[1] = b b[1] = a return {status = {a = a}}"},
    {"functions as keys", BIT(PASS_RESULT), "return {[print or error] = 1, status = {}}"},
    {"lists where maps are", BIT(PASS_RESULT), "return {apply = {apiVersion = 'v1'}, status = {1, 2}}"},
    {"maps where lists are", BIT(PASS_RESULT), "return {events = {a = 1}, delete = {b = 2}}"},
    {"strange times", BIT(PASS_RESULT), "return {requeue_after = '-1s'}"},
    {"times that overflow", BIT(PASS_RESULT), "return {requeue_after = '999999999999h'}"},
    {"the same object often", OK,
     "local o = {apiVersion = 'v1', kind = 'ConfigMap', metadata = {name = 'a'}} local t = {} for i = 1, "
     "1000 do t[i] = o end return {apply = t}"},
    {"ready that loops", DEADLINE,
     "return {apply = {{object = {apiVersion = 'v1', kind = 'Pod', metadata = {name = 'a'}}, ready = "
     "function() while true do pcall(error) end end}}}"},
    {"ready that takes memory", MEMORY,
     "return {apply = {{object = {apiVersion = 'v1', kind = 'Pod', metadata = {name = 'a'}}, ready = "
     "function() local t = {} while true do t[#t + 1] = {} end end}}}"},
    {"ready that changes the result", BIT(PASS_RESULT),
     "local r r = {apply = {{object = {apiVersion = 'v1', kind = 'Pod', metadata = {name = 'a'}}, ready = "
     "function(live) r.apply[1].object = r r.apply[2] = r r.status = r live.spec = r return true end}}} "
     "return r"},
    {"ready that is a table", BIT(PASS_RESULT),
     "return {apply = {{object = {apiVersion = 'v1', kind = 'Pod', metadata = {name = 'a'}}, ready = "
     "setmetatable({}, {__call = error})}}}"},
    {"ready that returns a table", RAISED,
     "return {apply = {{object = {apiVersion = 'v1', kind = 'Pod', metadata = {name = 'a'}}, ready = "
     "function() return {} end}}}"},
    {"after itself", BIT(PASS_RESULT),
     "local e = {object = {apiVersion = 'v1', kind = 'Pod', metadata = {name = 'a'}}} e.after = {e} return "
     "{apply = {e}}"},
    {"names that are long", OK,
     "return {apply = {{apiVersion = 'v1', kind = ('K'):rep(1e6), metadata = {name = ('n'):rep(1e6)}}}}"},
    {"names that are tables", BIT(PASS_RESULT),
     "return {apply = {{apiVersion = {}, kind = {}, metadata = {name = {}}}}}"},
    {"metadata that is a text", BIT(PASS_RESULT),
     "return {apply = {{apiVersion = 'v1', kind = 'Pod', metadata = 'x'}}}"},
    {"many values", OK, "return {}, {}, error, unpack({}, 1, 1000)"},
    // files beside the script
    {"files that need each other", RAISED, "require 'm'", "return require 'back'"},
    {"a file that needs itself", RAISED, "require 'm'", "return require 'm'"},
    {"a circle in pcall", DEADLINE, "while true do pcall(require, 'm') end", "return pcall(require, 'back')"},
    {"a file that loops", DEADLINE, "while true do pcall(require, 'm') end",
     "if true then while true do pcall(error) end end"},
    {"a file that takes memory", MEMORY, "pcall(require, 'm') pcall(require, 'back')",
     "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end"},
    {"a file that raises each time", DEADLINE, "while true do pcall(require, 'm') end",
     "error(setmetatable({}, {__tostring = error}))"},
    {"a file that is a trap", DEADLINE, "return {status = {x = require('m').x}}",
     "return setmetatable({}, {__index = function() while true do end end})"},
    {"a file that changes the libraries", RAISED, "require 'm' return {status = {s = ('x'):rep(3)}}",
     "string.rep = nil table.insert = error tostring = nil _G.pairs = nil return true"},
    {"a file that returns nan", OK, "return {status = {x = require 'm' == require 'm'}}", "return 0/0"},
    {"a file that returns nothing", OK, "require 'm' require 'm' return {}", ""},
    {"a file that is kept", OK, "local m = require 'm' m.n = m.n + 1 return {status = {n = m.n}}",
     "return {n = 0}"},
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
