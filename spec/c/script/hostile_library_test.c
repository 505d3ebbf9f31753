// Hostile use of the library, of values and of errors: what is encoded, decoded, copied, matched, raised and
// returned. Each ends the way it must, and leaves nothing.
// ctest-labels: thread deadline
#include "script/hostile_support.h"

#define K8S "local k8s, json, yaml = require 'tidelock', require 'tidelock.json', require 'tidelock.yaml' "

static const struct hostile hostile[] = {
    // values: shared, deep, cyclic, huge
    {"shared tables", LIMIT("the text is longer than 8388608 bytes"),
     "local t = {1} for i = 1, 60 do t = {t, t} end return {status = {t = t}}"},
    {"shared tables encoded", RAISED("the text is longer than 8388608 bytes"),
     K8S "local t = {1} for i = 1, 60 do t = {t, t} end json.encode(t)"},
    {"shared tables encoded in pcall", DEADLINE,
     K8S "local t = {1} for i = 1, 60 do t = {t, t} end while true do pcall(json.encode, t) end"},
    {"shared tables copied", MEMORY, K8S "local t = {1} for i = 1, 60 do t = {t, t} end k8s.copy(t)"},
    {"shared tables merged", MEMORY,
     K8S "local t = {a = 1} for i = 1, 60 do t = {a = t, b = t} end k8s.merge(t, t)"},
    {"copy of itself", OVERFLOW, K8S "local t = {} t.t = t k8s.copy(t)"},
    {"merge of itself", OVERFLOW, K8S "local t = {} t.t = t k8s.merge(t, t)"},
    {"copy of a deep table", OVERFLOW,
     K8S "local t = {} for i = 1, 1e5 do t = {t} end k8s.copy(t) return {}"},
    {"encode of a deep table", RAISED("is nested deeper than 200 levels"),
     K8S "local t = {} for i = 1, 1e5 do t = {t} end json.encode(t)"},
    {"decode of a deep text", RAISED("t.lua:2: JSON: line 1 column 1000001: unexpected end of data"),
     K8S "json.decode(('['):rep(1e6))"},
    {"decode of a deep whole text", RAISED("t.lua:2: JSON: nested deeper than 1000 levels"),
     K8S "json.decode(('['):rep(1e5) .. (']'):rep(1e5))"},
    {"decode of deep objects", RAISED("t.lua:2: JSON: line 1 column 500001: unexpected end of data"),
     K8S "json.decode(('{\"a\":'):rep(1e5))"},
    {"decode of many", MEMORY,
     K8S
     "local s = '[' .. ('{},'):rep(3e5) .. '1]' local t = {} while true do t[#t + 1] = json.decode(s) end"},
    {"decode in a loop", DEADLINE,
     K8S "local s = '[' .. ('1,'):rep(3e5) .. '1]' while true do json.decode(s) end"},
    {"encode in a loop", DEADLINE,
     K8S "local t = {} for i = 1, 1e5 do t[i] = 'x' end while true do json.encode(t) end"},
    {"encode of a large text", RAISED("t.lua:2: [3]: the text is longer than 8388608 bytes"),
     K8S "local s = ('\\1'):rep(1e6) local t = {} for i = 1, 100 do t[i] = s end json.encode(t)"},
    {"keys that are long", OK("{\"status\":{\"kkkkkkkk"),
     "local t = {} for i = 1, 5 do t[('k'):rep(1e6) .. i] = 1 end return {status = t}"},
    {"keys that are no text",
     RESULT("status: has a key of type table: only text (or 1..n in a list) can be a key"),
     "return {status = {[{}] = 1}}"},
    {"many keys", OK("{\"status\":{\"k1\":1,\"k10\":10,\"k100\":100,\"k1000\":1000,\"k10000\":"),
     "local t = {} for i = 1, 1e5 do t['k' .. i] = i end return {status = t}"},
    {"a sparse list",
     RESULT("status.l[2]: is nil, but the list goes on to [9007199254740992]: leave no gaps (k8s.null writes "
            "a null; text keys make an object)"),
     "return {status = {l = {[1] = 1, [2^53] = 2}}}"},
    {"a list with a hole",
     RESULT("status.l[2]: is nil, but the list goes on to [3]: leave no gaps (k8s.null writes a null; text "
            "keys make an object)"),
     "return {status = {l = {1, nil, 3}}}"},
    {"numbers that are none", RESULT("status.n: is NaN (0/0), which JSON has no number for"),
     "return {status = {n = 0/0}}"},
    {"text with bytes", RESULT("status.s: the text is not valid UTF-8 (bytes go through tidelock.base64)"),
     "return {status = {s = '\\255\\0'}}"},
    {"apply of nothing",
     RESULT("apply[1]: is nil, but the list goes on to [2]: leave no gaps (k8s.null writes a null; text keys "
            "make an object)"),
     "return {apply = {nil, {}}}"},
    {"apply of many", MEMORY,
     "local t = {} for i = 1, 1e5 do t[i] = {apiVersion = 'v1', kind = 'ConfigMap', metadata = {name = 'n' "
     ".. i}} end "
     "return {apply = t}"},
    {"metatable in a result", OK("{\"status\":{\"a\":1}}"),
     "return {status = setmetatable({a = 1}, {__index = function() while true do end end, __pairs = "
     "error})}"},
    {"adopt of itself", RESULT("apply[1].adopt: is an object, but must be a list: { first, second }"),
     "local t = {} t.adopt = t t.object = t return {apply = {t}}"},
    {"requeue never",
     RESULT("requeue_after: is longer than 100 years: leave it out to wait for changes only"),
     "return {requeue_after = 1e300}"},
    {"requeue nan",
     RESULT("requeue_after: expected a Go duration such as \"30s\" or \"1h30m\", or seconds, greater than 0, "
            "got -nan"),
     "return {requeue_after = 0/0}"},
    {"deep text that is read", OK("{\"status\":{\"n\":0}}"),
     K8S
     "local n = 1000 local t = json.decode(('['):rep(n) .. (']'):rep(n)) for i = 1, n - 1 do t = t[1] end "
     "return {status = {n = #t}}"},
    {"deep text that is written", RAISED("is nested deeper than 200 levels"),
     K8S "json.encode(json.decode(('['):rep(1000) .. (']'):rep(1000)))"},
    {"a text of many megabytes", OK("{\"status\":{\"n\":4000000}}"),
     K8S
     "local s = ('x'):rep(1e6) s = s .. s s = s .. s return {status = {n = #json.decode(json.encode(s))}}"},
    {"a text too large to decode", MEMORY,
     K8S "local s = ('x'):rep(1e6) json.decode('\"' .. s .. s .. s .. s .. s .. s .. s .. s .. s .. '\"')"},
    // the library where the stack ends
    {"encode at the stack's end", OVERFLOW,
     K8S "local function f() json.encode({a = {1}}) return 1 + f() end f()"},
    {"encode at the stack's end in pcall", DEADLINE,
     K8S "local function f() pcall(json.encode, {a = {1}}) pcall(f) return 1 + f() end f()"},
    {"decode at the stack's end", OVERFLOW,
     K8S "local function f() json.decode('{\"a\":[1]}') return 1 + f() end f()"},
    {"yaml at the stack's end", OVERFLOW,
     K8S "local function f() yaml.decode(yaml.encode({a = {1}})) return 1 + f() end f()"},
    {"base64 at the stack's end", OVERFLOW,
     "local b = require 'tidelock.base64' local function f() b.decode(b.encode('x')) return 1 + f() end f()"},
    {"lists at the stack's end", OVERFLOW,
     "local function f() local n = #world.list('v1/Pod')[2].spec.containers return n + f() end f()"},
    {"log at the stack's end", LIMIT("world.log: more than 1000 lines in one pass"),
     "local function f() world.log('debug', 'x', {a = 1}) return 1 + f() end f()"},
    {"quantities at the stack's end", OVERFLOW,
     K8S "local function f() local q = k8s.quantity('1') + '2' tostring(q) return 1 + f() end f()"},
    {"sort and gsub at the stack's end", OVERFLOW,
     "local function f() table.sort({3, 2, 1}, function(a, b) return a < b end); ('a'):gsub('a', '%0') "
     "return "
     "1 + f() end f()"},
    {"format at the stack's end", OVERFLOW,
     "local function f() local s = ('%s %d %q'):format('x', 1, 'y') return #s + f() end f()"},
    {"files at the stack's end", DEADLINE,
     "local c = require('tidelock.compat').open(world) local function f() c.os.date() pcall(c.run, 'x') "
     "return 1 + f() end f()"},
    // encodings
    {"yaml of anchors",
     RAISED("t.lua:2: YAML: line 7 column 14: anchors and aliases make too much text: write it out, or leave "
            "some out"),
     K8S "local s = 'a0: &a0 [x,x,x,x,x,x,x,x,x,x]\\n' for i = 1, 12 do s = s .. 'a' .. i .. ': &a' .. i .. "
         "' [' .. "
         "('*a' .. (i - 1) .. ','):rep(9) .. '*a' .. (i - 1) .. ']\\n' end yaml.decode(s)"},
    {"yaml that is deep", RAISED("t.lua:2: YAML: line 1 column 1001: nested too deep"),
     K8S "yaml.decode(('['):rep(5e5))"},
    {"yaml that is deep by lines", NIL,
     K8S "local t = {} for i = 0, 500 do t[#t + 1] = (' '):rep(i) .. 'a:' end yaml.decode(table.concat(t, "
         "'\\n'))"},
    {"yaml of many documents", DEADLINE, K8S "while true do yaml.decode_all(('---\\na\\n'):rep(1000)) end"},
    {"yaml too large", RAISED("t.lua:2: YAML: the text is longer than 1048576 bytes"),
     K8S "yaml.decode(('a'):rep(1e6) .. ('b'):rep(1e6))"},
    {"yaml encode", DEADLINE,
     K8S "local t = {} for i = 1, 20000 do t[i] = {a = 'x'} end while true do yaml.encode(t) end"},
    {"base64 too large", MEMORY,
     "local b = require 'tidelock.base64' local s = ('x'):rep(1e6) while true do s = b.encode(s) end"},
    {"base64 of nothing", RAISED("t.lua:2: base64: character 1 (0x3d) is not allowed there"),
     "require('tidelock.base64').decode('=')"},
    {"sha256 in a loop", DEADLINE,
     "local h = require 'tidelock.sha256' local s = ('x'):rep(1e6) while true do h.hex(s) end"},
    {"quantity of digits", RAISED("999\" is not a quantity: write a number with a suffix"),
     K8S "k8s.quantity(('9'):rep(1e6)) return {}"},
    {"quantity with an exponent", OK("{}"), K8S "tostring(k8s.quantity('1e999999999')) return {}"},
    {"quantity that grows", RAISED("t.lua:2: quantity: the amount is too large"),
     K8S "local q = k8s.quantity('1Ei') while true do q = q * 1000000 + q end"},
    {"duration", RAISED("t.lua:2: expected a Go duration such as"), K8S "k8s.duration(('1h'):rep(1e5))"},
    {"time", RAISED("222\" is not a time such as"), K8S "k8s.time(('2'):rep(1e6))"},
    {"selector that is long", MEMORY,
     K8S "local s = ('a=b,'):rep(1e5) .. 'c' for i = 1, 100 do pcall(k8s.labels_match, s, {a = 'b'}) end "
         "return {}"},
    {"selector of a map", OK("{}"),
     "local t = {} for i = 1, 20000 do t['k' .. i] = ('v'):rep(60) end world.list('v1/Pod', {labels = t}) "
     "return {}"},
    {"kind that is long", RAISED("t.lua:2: world.get: the kind is longer than 512 bytes"),
     "world.get(('k'):rep(1e6), 'n') return {}"},
    {"log of a large table", RAISED("t.lua:2: world.log: fields: the text is longer than 8192 bytes"),
     "local t = {} for i = 1, 1e5 do t['k' .. i] = i end world.log('info', 'x', t)"},
    {"log of a large text", RAISED("t.lua:2: world.log: a message has at most 8192 bytes"),
     "world.log('info', ('x'):rep(1e6))"},
    {"log of itself", RAISED("t.lua:2: world.log: fields.t: the table contains itself"),
     "local t = {} t.t = t world.log('info', 'x', t)"},
    {"secret that is long",
     RAISED("t.lua:2: world.secret_value: length must be a whole number from 1 to 1024"),
     "world.secret_value('x', {length = 1e9})"},
    // errors of any type
    {"error of a number", RAISED("t.lua:2: 42"), "error(42)"},
    {"error of false", RAISED("t.lua:2: the script raised false: give error() a text"), "error(false)"},
    {"error of nil", RAISED("t.lua:2: the script raised nil: give error() a text"), "error()"},
    {"error of a function", RAISED("t.lua:2: the script raised a function: give error() a text"),
     "error(function() end)"},
    {"error of a table", RAISED("t.lua:2: the script raised a table, {\"code\":1}: give error() a text"),
     "error({code = 1})"},
    {"error of null", RAISED("t.lua:2: the script raised null: give error() a text"), K8S "error(k8s.null)"},
    {"error of an empty text", RAISED("t.lua:2: "), "error('')"},
    {"error of bytes", RAISED("t.lua:2: \357\277\275\357\277\275\357\277\275"), "error('\\255\\0\\254')"},
    {"error of a large text", RAISED("t.lua:2: xxxx"), "error(('x'):rep(1e6))"},
    {"error with a strange tostring",
     RAISED("t.lua:2: the script raised a table that can not be turned into text"),
     "error(setmetatable({}, {__tostring = function() return {} end}))"},
    {"error with no tostring", RAISED("t.lua:2: the script raised a table that can not be turned into text"),
     "error(setmetatable({}, {__tostring = 5}))"},
    {"error of the library raised again", RETRY("x"),
     K8S "local _, e = pcall(k8s.retry, 'Later', 'x') pcall(error, e) error(e)"},
    {"error of the library as a key",
     RESULT("status.e: is a userdata: only text, numbers, booleans and tables can be JSON"),
     K8S "local _, e = pcall(k8s.retry, 'Later', 'x') return {status = {e = e}}"},
    {"reason that is long", RETRY("x"), K8S "k8s.retry(('R'):rep(1e6), 'x')"},
    {"message that is long", INVALID("xxx ... xxx"), K8S "k8s.invalid('Bad', ('x'):rep(1e6))"},
    {"error at what is no level", RAISED("t.lua:2: bad argument #2 to 'error' (number expected, got table)"),
     "error('x', {})"},
    {"error at what is no level, as a return",
     RAISED("t.lua: bad argument #2 to 'error' (number expected, got function)"), "return error('x', error)"},
    {"error at a level that is a text", RAISED("t.lua:2: x"), "error('x', '1')"},
    {"error at the level of who called", RAISED("t.lua:3: x"),
     "local function f()\nreturn (function() error('x', 2) end)() or 1 end\nreturn {f()}"},
    {"error in an error", RAISED("t.lua:2: the script raised a table that can not be turned into text"),
     "local ok, e = pcall(error, setmetatable({}, {__tostring = error})) error(e)"},
    {"error in ready",
     RAISED(".ready: t.lua: the script raised a table, "
            "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"uid\":\"u-a\"},\"spec\":{"
            "\"containers\":[],\"nodeName\":\"n1\"}}: give error() a text"),
     "return {apply = {{object = {apiVersion = 'v1', kind = 'Pod', metadata = {name = 'a'}}, ready = "
     "error}}}"},
    // functions of the language
    {"changes while walking", OK("{}"),
     "local t = {1} for k in pairs(t) do for i = 1, 100 do t[k .. i] = i end end return {}"},
    {"next in a changed table", OK("{}"),
     "local t = {} for i = 1, 100 do t['k' .. i] = i end for k in pairs(t) do t[k] = nil t[k .. 'x'] = 1 end "
     "return {}"},
    {"pairs of mixed keys", OK("{\"status\":{\"n\":4000}}"),
     "local t = {} for i = 1, 1000 do t[i * 1.5] = i t['k' .. i] = i t[{}] = i t[function() end] = i end "
     "local n = 0 "
     "for k in pairs(t) do n = n + 1 end return {status = {n = n}}"},
    {"sort of a sorted list", OK("{}"),
     "local t = {} for i = 1, 1e5 do t[i] = i end table.sort(t) return {}"},
    {"sort that sorts", RAISED("t.lua:2: table.sort: calls nest too deep (more than 100)"),
     "local t = {} for i = 1, 100 do t[i] = i end local function c(a, b) table.sort(t, c) return a < b end "
     "table.sort(t, c)"},
    {"sort that raises", RAISED("t.lua:2: attempt to index local 'a' (a number value)"),
     "table.sort({3, 2, 1}, function(a, b) return a.x < b.x end)"},
    {"gsub of each character", DEADLINE,
     "local s = ('x'):rep(1e5) while true do s:gsub('.', function(c) return c .. c end) end"},
    {"gsub with a bad replacement", RAISED("t.lua:2: invalid capture index"), "('abc'):gsub('.', '%9')"},
    {"gmatch that never ends", DEADLINE, "for i = 1, 1e9 do for a in ('abc'):gmatch('') do end end"},
    {"format of a large text", MEMORY,
     "local s = ('x'):rep(1e6) while true do s = ('%q'):format(s .. s) end"},
    {"tostring in format in tostring", RAISED("t.lua:2: string.format: calls nest too deep (more than 100)"),
     "local t t = setmetatable({}, {__tostring = function() return ('%s%s'):format(t, t) end}) tostring(t)"},
    {"unpack of a list with a metatable", OK("{\"status\":{\"n\":5}}"),
     "return {status = {n = select('#', unpack(setmetatable({}, {__index = function() while true do end "
     "end}), 1, 5))}}"},
    {"varargs that grow", RAISED("t.lua:2: stack overflow"),
     "local function f(...) return f(1, ...) end f()"},
    {"concat chain", DEADLINE, "local s = 'x' for i = 1, 1e9 do s = s .. i .. s:sub(1, 1000) end"},
    {"upvalues", OK("{}"),
     "local a = {} local function f() a = {a} return a end for i = 1, 1e4 do f() end return {}"},
    {"integer overflow in bit", OK("{\"status\":{\"m\":0,\"n\":1073982688}}"),
     "return {status = {n = bit.lshift(1e300, 99), m = bit.tobit(0/0)}}"},
    {"tohex", OK("{\"status\":{\"m\":\"1\",\"n\":\""),
     "return {status = {n = bit.tohex(-1, -1000), m = bit.tohex(1, 1e9)}}"},
    {"ldexp", RESULT("status.m: is NaN (0/0), which JSON has no number for"),
     "return {status = {n = math.ldexp(1, 2^31), m = math.fmod(1, 0)}}"},
    {"tonumber", RESULT("status.a: is infinite, which JSON has no number for"),
     "return {status = {a = tonumber(('9'):rep(1e6)), b = tonumber('0x' .. ('f'):rep(1e5)), c = "
     "tonumber('1', 36)}}"},
    {"compat that runs nothing",
     RAISED("t.lua:2: run: there is no file 'nothing' or 'nothing.lua' next to the script"),
     "require('tidelock.compat').open(world).run('nothing')"},
    {"compat dates", DEADLINE,
     "local os = require('tidelock.compat').open(world).os while true do os.date(('%c'):rep(1000), 1e10) "
     "end"},
    {"changed library", DEADLINE,
     K8S "for _, t in pairs {k8s, json, yaml} do for n in pairs(t) do t[n] = function() while true do end "
         "end end end "
         "return k8s.copy({})"},
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
