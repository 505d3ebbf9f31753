#include "script/script_support.h"

static void test_returns_a_result(void **state)
{
    (void)state;
    support_value("return 'x'", "\"x\"");
    support_value("return object.metadata.name .. world.env.name", "\"sdev\"");
    support_value("return world.now()", "1700000000.5");
    support_value("return object.list", "[]");
    support_value("return object.map", "{}");
    support_value("return world.data('motd') .. tostring(world.data('none'))", "\"hellonil\"");
    support_value("return world.secret_value('db', {length = 3})", "\"sss\"");
    support_end("", PASS_NIL, NULL);
    support_end("return nil", PASS_NIL, NULL);
    support_end("return 'ok'", PASS_RESULT, NULL);
    support_end("return {statsu = {}}", PASS_RESULT, "status");
}

static void test_reads_the_world(void **state)
{
    (void)state;
    support_value("return world.get('v1/Pod', 'a').spec.nodeName", "\"n1\"");
    support_value("return tostring(world.get('v1/Pod', 'z'))", "\"nil\"");
    support_value(
        "local t = {} for _, p in ipairs(world.list('v1/Pod')) do t[#t + 1] = p.metadata.name end return t",
        "[\"a\",\"b\"]");
    support_value("local t = {} for k in pairs(world.list('v1/Pod')[1]) do t[#t + 1] = k end return t",
                  "[\"apiVersion\",\"kind\",\"metadata\",\"spec\"]");
    support_value("return world.list('v1/Pod')[2]",
                  "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"b\",\"uid\":\"u-b\"},"
                  "\"spec\":{\"big\":9007199254740993,\"containers\":[{\"image\":\"i\",\"name\":\"c\"}]}}");
    support_value("return next(world.list('v1/Pod')[1])", "\"apiVersion\"");
    support_value("return rawget(world.list('v1/Pod')[1], 'kind')", "\"Pod\"");
    support_value("return #world.children('v1/Pod')", "0");
}

// What `ready` of an entry for pod `name` becomes in the result.
static void expect_ready(const char *name, const char *function, const char *verdict)
{
    char *body =
        xasprintf("return {apply = {{object = {apiVersion = 'v1', kind = 'Pod', metadata = {name = '%s'}}, "
                  "ready = %s}}}",
                  name, function);
    char *want = xasprintf(
        "{\"apply\":[{\"object\":{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"%s\"}},"
        "\"ready\":%s}]}",
        name, verdict);
    struct program *p = support_program(body);
    struct pass_runner *r = pass_runner_new(NULL);
    struct fake_world w = {0};
    struct pass_output out;
    support_run(r, p, &w, NULL, &out);
    assert_string_equal(out.err.text, "");
    assert_string_equal(out.result.data, want);
    pass_output_fini(&out);
    pass_runner_free(r);
    program_unref(p);
    free(body);
    free(want);
}

static void test_asks_whether_children_are_ready(void **state)
{
    (void)state;
    expect_ready("a", "function(live) return live.spec.nodeName == 'n1' end", "true");
    expect_ready("a", "function(live) live.spec = 1 return live.status ~= nil end", "false");
    expect_ready("a", "function(live) return live.status end", "false");
    expect_ready("a", "function(live) return world.now() > 0 end", "true");
    expect_ready("z", "function(live) error('not called') end", "false");
    expect_ready("z", "object.data.k == 'v'", "true"); // a verdict that needs no live object
}

#define READY(function)                                                                                      \
    "local cm = {apiVersion = 'v1', kind = 'Pod', metadata = {name = 'a'}}\n"                                \
    "return {apply = {{object = cm, ready = function(live) " function " end}}}"

static void test_errors_of_ready_are_errors_of_the_pass(void **state)
{
    (void)state;
    support_end(READY("error('not yet')"), PASS_RAISED, "apply[1].ready: t.lua:3: not yet");
    support_end(READY("return 1"), PASS_RAISED, "apply[1].ready: must return true or false, got a number");
    support_end(READY("live()"), PASS_RAISED, "apply[1].ready: t.lua:3: attempt to call");
    support_end(READY(""), PASS_RAISED, "apply[1].ready: must return true or false, but returned nothing");
    support_end(READY("while true do end"), PASS_DEADLINE, "apply[1].ready: ");
    support_end(READY("require('tidelock').retry('NotYet', 'wait')"), PASS_RETRY, "apply[1].ready: wait");
}

static void test_passes_queries_on(void **state)
{
    (void)state;
    struct program *p = support_program("world.list('v1/Pod', {namespace = '*', labels = {b = 'x', "
                                        "['a.io/k'] = ''}, fields = {['spec.nodeName'] = 'n,1'},"
                                        " owner = object, metadata = true})");
    struct pass_runner *r = pass_runner_new(NULL);
    struct fake_world w = {0};
    struct pass_output out;
    support_run(r, p, &w, NULL, &out);
    assert_string_equal(out.err.text, "");
    assert_string_equal(w.last_ns, "*");
    assert_string_equal(w.last_labels, "a.io/k=,b=x");
    assert_string_equal(w.last_fields, "spec.nodeName=n\\,1");
    assert_string_equal(w.last_owner, "u-s");
    pass_output_fini(&out);
    pass_runner_free(r);
    program_unref(p);
}

static void test_names_wrong_arguments(void **state)
{
    (void)state;
    support_end("world.list('v1/Pod', 'x')", PASS_RAISED,
                "t.lua:2: world.list: 2nd argument must be a table of options, got string");
    support_end("world.list()", PASS_RAISED, "1st argument must be a kind");
    support_end("world.get('v1/Pod', 'a\\0b')", PASS_RAISED,
                "world.get: 2nd argument must be a name, got a text with a NUL");
    support_end("world.list('v1/Pod', {namespace = 'a\\0b'})", PASS_RAISED,
                "world.list: namespace must be a text without a NUL");
    support_end("world.list('v1/Pod', {labels = 'a=\\0b'})", PASS_RAISED,
                "world.list: labels: a selector is text without a NUL");
    support_end("world.list('v1/Pod', {fields = {['spec.nodeName'] = 'a\\0b'}})", PASS_RAISED,
                "world.list: fields: a selector is text without a NUL");
    support_end("world.list('v1/Pod', {lables = {}})", PASS_RAISED, "did you mean 'labels'");
    support_end("world.list('v1/Pod', {labels = {a = 'b,c=d'}})", PASS_RAISED, "is no label value");
    support_end("world.list('v1/Pod', {labels = {['a,b'] = 'x'}})", PASS_RAISED, "is no label key");
    support_end("world.list('v1/Pod', {labels = {a = 1}})", PASS_RAISED, "use tostring()");
    support_end("world.list('v1/Pod', {labels = {'a'}})", PASS_RAISED, "expected a map");
    support_end("world.list('v1/Pod', {owner = {}})", PASS_RAISED, "owner must be an object");
    support_end("world.get('v1/Pod')", PASS_RAISED, "2nd argument must be a name, got no value");
    support_end("world.log('loud', 'x')", PASS_RAISED, "unknown level 'loud'");
    support_end("world.log('info', 'x', {1})", PASS_RAISED, "fields are named");
    support_end("world.secret_value('n', {length = 0})", PASS_RAISED, "length must be");
    support_end("world.http({})", PASS_RAISED, "http");
}

static void run_with_answer(const char *body, int answer, enum pass_end end, const char *text)
{
    struct program *p = support_program(body);
    struct pass_runner *r = pass_runner_new(NULL);
    struct fake_world w = {.answer = answer};
    struct pass_output out;
    support_run(r, p, &w, NULL, &out);
    if (out.end != end || strstr(out.err.text, text) == NULL)
        fail_msg("%s: %s", pass_end_name(out.end), out.err.text);
    pass_output_fini(&out);
    pass_runner_free(r);
    program_unref(p);
}

static void test_stops_are_not_catchable(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "world.get('v1/Pod', 'a') return {}",
        "pcall(world.get, 'v1/Pod', 'a') return {}",
        "pcall(pcall, world.list, 'v1/Pod') return {}",
        "xpcall(function() world.list('v1/Pod') end, function() return 1 end) return {}",
        "string.gsub('a', 'a', function() pcall(world.list, 'v1/Pod') end) return {}",
        "local t = setmetatable({}, {__index = function() return world.list('v1/Pod') end}) pcall(function() "
        "return t.x end) "
        "return {}",
        "table.sort({1, 2, 3}, function(a, b) pcall(world.list, 'v1/Pod') return a < b end) return {}",
    };
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        run_with_answer(bodies[i], -ERR_PARKED, PASS_PARKED, "v1/Pod: answer of the test");
        run_with_answer(bodies[i], -ERR_CANCELED, PASS_CANCELED, "v1/Pod: answer of the test");
    }
    run_with_answer("world.get('v1/Pod', 'a')", -ERR_FORBIDDEN, PASS_RAISED, "t.lua:2: v1/Pod: answer");
    run_with_answer("pcall(world.get, 'v1/Pod', 'a')", -ERR_FORBIDDEN, PASS_NIL, "");
}

static void test_tells_errors(void **state)
{
    (void)state;
    support_end("error('boom')", PASS_RAISED, "t.lua:2: boom");
    support_end("error('boom', 0)", PASS_RAISED, "boom");
    support_end("error()", PASS_RAISED, "t.lua:2: the script raised nil: give");
    support_end("error({})", PASS_RAISED, "t.lua:2: the script raised a table, {}: give error() a text");
    support_end("error({code = 7, why = {'a', 'b'}})", PASS_RAISED,
                "t.lua:2: the script raised a table, {\"code\":7,\"why\":[\"a\",\"b\"]}: give");
    support_end("error({f = print or error})", PASS_RAISED, "t.lua:2: the script raised a table: give");
    support_end("local t = {} t.t = t error(t)", PASS_RAISED, "t.lua:2: the script raised a table: give");
    support_end("local t = {1} for i = 1, 60 do t = {t, t} end error(t)", PASS_RAISED, "a table: give");
    support_end("error({('x'):rep(2000)})", PASS_RAISED, "t.lua:2: the script raised a table: give");
    support_end("error(setmetatable({}, {__tostring = function() return 'mine' end}))", PASS_RAISED, "mine");
    support_end("error(print)", PASS_RAISED, "raised nil");
    support_end("error(error)", PASS_RAISED, "function");
    support_end("error(42)", PASS_RAISED, "42");
    support_end("error(setmetatable({}, {__tostring = function() return 'mine' end}))", PASS_RAISED, "mine");
    support_end("error(setmetatable({}, {__tostring = function() return {} end}))", PASS_RAISED,
                "can not be turned into");
    support_end("error(setmetatable({}, {__tostring = function() error('x') end}))", PASS_RAISED,
                "can not be turned into");
    support_end("error('a\\255b\\0c', 0)", PASS_RAISED,
                "a\xEF\xBF\xBD"
                "b\xEF\xBF\xBD"
                "c");
    support_end("error('first' .. ('x'):rep(1000000) .. 'last', 0)", PASS_RAISED, "firstxxxx");
    support_end("error('first' .. ('x'):rep(1000000) .. 'last', 0)", PASS_RAISED, "xx ... xx");
    support_end("error('first' .. ('x'):rep(1000000) .. 'last', 0)", PASS_RAISED, "xxxxlast");
    support_end("error(('x'):rep(1000) .. ('\xC3\xA4'):rep(119) .. '.', 0)", PASS_RAISED, "x ... x\xC3\xA4");
    support_end("error(('x'):rep(1000) .. ('\xC3\xA4'):rep(120) .. '.', 0)", PASS_RAISED, "x ... \xC3\xA4");
    support_end("require('tidelock').quantity(('9'):rep(1e6))", PASS_RAISED,
                "9\" is not a quantity: write a number");
    support_end("error(false)", PASS_RAISED, "t.lua:2: the script raised false: give error() a text");
    support_end("error(function() end)", PASS_RAISED, "t.lua:2: the script raised a function: give");
    support_end("error(require('tidelock').null)", PASS_RAISED, "t.lua:2: the script raised null: give");
    support_end("return {status = {m = object.status.phase}}", PASS_RAISED,
                "t.lua:2: attempt to index field 'status'");
}

static void expect_error_text(const char *body, const char *text)
{
    struct program *p = support_program(body);
    struct pass_runner *r = pass_runner_new(NULL);
    struct fake_world w = {0};
    struct pass_output out;
    support_run(r, p, &w, NULL, &out);
    assert_int_equal(out.end, PASS_RAISED);
    if (strncmp(out.err.text, text, strlen(text)) != 0)
        fail_msg("'%s' does not begin with '%s'\nin: %s", out.err.text, text, body);
    pass_output_fini(&out);
    pass_runner_free(r);
    program_unref(p);
}

// Also where LuaJIT gives none: functions that are called as a return. At the stack's end it calls no
// handler.
static void test_errors_have_the_line(void **state)
{
    (void)state;
    expect_error_text("local function f() return 1 + f() end f()", "t.lua: stack overflow: a function");
    expect_error_text("return (function() return ('a'):rep(999):find('a-a-a-a-a-b') end)()",
                      "t.lua: pattern takes");
    expect_error_text("\nlocal t = nil\nreturn t.x", "t.lua:4: attempt to index");
    expect_error_text("return (function() return (nil)() end)()", "t.lua:2: attempt to call");
    expect_error_text("return (function() return setmetatable(1) end)()", "t.lua: bad argument");
    expect_error_text("return (function() return require('tidelock').copy(nil, 1).x end)()",
                      "t.lua:2: attempt");
    expect_error_text("return {status = require('tidelock').quantity('x')}", "t.lua:2: ");
    expect_error_text("return (function() return require('tidelock').time('x') end)()", "t.lua");
    expect_error_text("return require('tidelock').duration('x')", "t.lua");
    expect_error_text("return require('tidelock').merge({a = 1}, {a = 1}, setmetatable).x.y", "t.lua:2: ");
    expect_error_text("return require('tidelock.json').decode('{')", "t.lua");
    expect_error_text("return require('tidelock.selector').parse(5)", "t.lua");
    expect_error_text("error('mine', 0)", "mine");
    expect_error_text("error('[mine]: x', 0)", "[mine]: x");
    expect_error_text("return error('mine', 0)", "mine");
    expect_error_text("local ok, e = pcall(error, 'first', 0) error(e, 0)", "first");
    expect_error_text("error('twice')", "t.lua:2: twice");
    expect_error_text("require('tidelock').quantity('1\\0')",
                      "t.lua:2: a quantity is made of text or a number, not of a text with");
    expect_error_text("require('tidelock').duration('30s\\0h')", "t.lua:2: expected a Go duration");
    expect_error_text("world.log('info', 'a\\0b')", "t.lua:2: world.log: the message has a NUL");
    expect_error_text("local ok, e = pcall(require('tidelock').retry, 'a b')\nerror(e, 0)",
                      "t.lua:2: k8s.retry: ");
    expect_error_text("local _, e = xpcall(require('tidelock').retry, tostring, 'a b')\nerror(e, 0)",
                      "t.lua:2: ");
    expect_error_text("error({}, 2)", "t.lua:2: the script raised a table, {}");
    expect_error_text("require('tidelock').labels_match('a in (', {})",
                      "t.lua:2: label selector \"a in (\": ");
    expect_error_text("return require('tidelock.selector').matches('{', {})", "t.lua");
}

static void test_retry_and_invalid(void **state)
{
    (void)state;
    struct program *p =
        support_program("local k8s = require 'tidelock' k8s.retry('Waiting', 'for the moon', '5s')");
    struct pass_runner *r = pass_runner_new(NULL);
    struct fake_world w = {0};
    struct pass_output out;
    support_run(r, p, &w, NULL, &out);
    assert_string_equal(out.err.text, "for the moon");
    assert_int_equal(out.end, PASS_RETRY);
    assert_string_equal(out.reason, "Waiting");
    assert_int_equal(out.retry_after_us, 5000000);
    pass_output_fini(&out);
    program_unref(p);
    pass_runner_free(r);
    support_end("require('tidelock').invalid('BadSpec', 'no size')", PASS_INVALID, "no size");
    support_end("local ok, e = pcall(require('tidelock').invalid, 'BadSpec', 'no size') error(e)",
                PASS_INVALID, "no size");
    support_end("require('tidelock.native')", PASS_RAISED, "not found");
    support_end("require('ffi')", PASS_RAISED, "t.lua:2: module 'ffi' not found");
}

static void test_traceback_has_script_frames_only(void **state)
{
    (void)state;
    struct program *p = support_program(
        "local function deep() local x = nil; return x.y end\n"
        "local function middle() return (string.gsub('a', 'a', function() return deep() .. '' end)) end\n"
        "return middle() .. ''");
    struct pass_runner *r = pass_runner_new(NULL);
    struct fake_world w = {0};
    struct pass_output out;
    support_run(r, p, &w, NULL, &out);
    assert_int_equal(out.end, PASS_RAISED);
    assert_non_null(strstr(out.traceback.data, "t.lua:2: in function 'deep'"));
    assert_non_null(strstr(out.traceback.data, "t.lua:3: in function 'middle'"));
    assert_null(strstr(out.traceback.data, "["));
    pass_output_fini(&out);
    pass_runner_free(r);
    program_unref(p);
}

static void test_caps(void **state)
{
    (void)state;
    support_end("world.list('v1/Pod', {owner = ('x'):rep(513)})", PASS_RAISED,
                "t.lua:2: world.list: the owner's UID is longer than 512 bytes");
    support_end("world.get('v1/Pod', ('x'):rep(513))", PASS_RAISED, "world.get: the name is longer than 512");
    // Each is kept as what the pass depends on, also one that fails.
    support_end("for i = 1, 1e5 do pcall(world.list, 'v1/Pod', {owner = ('x'):rep(500) .. i}) end",
                PASS_MEMORY, NULL);
    support_end("for i = 1, 1001 do pcall(world.log, 'info', 'x') end", PASS_LIMIT, "more than 1000 lines");
    support_end("local t = {} for i = 1, 300000 do t[i] = 'some text that makes it large' end return {status "
                "= {t = t}}",
                PASS_LIMIT, NULL);
    support_end("local t = {} for i = 1, 300 do t = {t} end return {status = {t = t}}", PASS_LIMIT,
                "200 levels");
}

static void test_log(void **state)
{
    (void)state;
    struct program *p = support_program("world.log('warn', 'slow', {pods = 3, name = 'x'})");
    struct pass_runner *r = pass_runner_new(NULL);
    struct fake_world w = {0};
    struct pass_output out;
    support_run(r, p, &w, NULL, &out);
    assert_string_equal(w.log, "warn slow {\"name\":\"x\",\"pods\":3}");
    pass_output_fini(&out);
    pass_runner_free(r);
    program_unref(p);
}

// Of several wrong keys the first is told, though the hash of each state has an order of its own.
static void test_errors_name_the_same_key(void **state)
{
    static const struct {
        const char *body;
        enum pass_end end;
        const char *text;
    } cases[] = {
        {"world.list('v1/Pod', {e = 1, d = 1, c = 1, b = 1, a = 1, f = 1, g = 1})", PASS_RAISED,
         "unknown option 'a'"},
        {"world.list('v1/Pod', {e = 1, d = 1, c = 1, 5, b = 1, a = 1})", PASS_RAISED, "options are named"},
        {"return {e = 1, d = 1, c = 1, b = 1, a = 1, f = 1, g = 1}", PASS_RESULT, "a: is not a field here"},
        {"return {a = 1, [5] = 1, [false] = 1, [{}] = 1, b = 1}", PASS_RESULT, "has a key of type boolean"},
        {"return {status = {e = 1, d = 1, c = 1, 5, b = 1, a = 1}}", PASS_RESULT, "also has the key \"a\""},
        {"return {status = {a = 1, [false] = 1, [{}] = 1, [-1.5] = 1, [print or pcall] = 1, b = 1}}",
         PASS_RESULT, "status: has a key of type boolean"},
        {"return {status = {[-1.5] = 1, [0.5] = 1, [-2.5] = 1, [{}] = 1, [1.5] = 1, b = 1}}", PASS_RESULT,
         "status: has the key -2.5"},
        {"return {status = {[require('tidelock').null] = 1, [{}] = 1, [pcall] = 1}}", PASS_RESULT,
         "status: has a key of type k8s.null"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        for (int state_of_its_own = 0; state_of_its_own < 20; state_of_its_own++)
            support_end(cases[i].body, cases[i].end, cases[i].text);
}

// What a pass does to its state is gone in the next.
static void test_nothing_survives_a_pass(void **state)
{
    (void)state;
    static const char spoil[] =
        "counter = (counter or 0) + 1 string.rep = nil table.insert = nil math.floor = function() return 4 "
        "end\n"
        "local k8s = require 'tidelock' k8s.spoiled = true _G.tostring = nil object.metadata.name = "
        "'changed'\n"
        "local g = _G _G._G = nil setmetatable(g, {__index = function() return 'x' end})\n"
        "return {status = {n = counter, spoiled = k8s.before ~= nil}}";
    static const char look[] = "local k8s = require 'tidelock'\n"
                               "return {status = {n = tostring(counter), rep = string.rep('a', 2), floor = "
                               "math.floor(1.5), mod = tostring(k8s.spoiled),"
                               " name = object.metadata.name, meta = tostring(getmetatable(_G))}}";
    struct program *a = support_program(spoil);
    struct program *b = support_program(look);
    struct pass_runner *r = pass_runner_new(NULL);
    struct fake_world w = {0};
    size_t peak = 0;
    for (int i = 0; i < 200; i++) {
        struct pass_output out;
        support_run(r, i % 2 == 0 ? a : b, &w, NULL, &out);
        assert_string_equal(out.err.text, "");
        if (i % 2 == 0)
            assert_string_equal(out.result.data, "{\"status\":{\"n\":1,\"spoiled\":false}}");
        else
            assert_string_equal(out.result.data,
                                "{\"status\":{\"floor\":1,\"meta\":\"nil\",\"mod\":\"nil\",\"n\":\"nil\","
                                "\"name\":\"s\",\"rep\":\"aa\"}}");
        if (i == 1)
            peak = out.memory_peak;
        if (i % 2 == 1)
            assert_int_equal(out.memory_peak, peak);
        pass_output_fini(&out);
    }
    program_unref(a);
    program_unref(b);
    pass_runner_free(r);
}

// Nor do the main chunk's locals, the metatable of texts and what a sibling keeps: each pass starts from the
// image.
static void test_locals_do_not_survive(void **state)
{
    (void)state;
    static const char kept[] = "local n = 0 return { next = function() n = n + 1 return n end }";
    static const char text[] = "local kept, calls, seen = require 'kept', 0, {}\n"
                               "return { subject = 'v1/ConfigMap', reconcile = function(o)\n"
                               "  calls = calls + 1 seen[#seen + 1] = calls\n"
                               "  local ok = pcall(function() getmetatable('').__index = nil end)\n"
                               "  return { status = { calls = calls, seen = #seen, kept = kept.next(), ok = "
                               "ok, up = ('x'):upper() } }\n"
                               "end }";
    struct program_file module = {"kept.lua", kept, strlen(kept)};
    struct program_options o = {.main = {"t.lua", text, strlen(text)}, .modules = &module, .module_count = 1};
    struct program *p = NULL;
    struct err e = {0};
    assert_int_equal(program_new(&o, &p, &e), 0);
    struct pass_runner *r = pass_runner_new(NULL);
    struct fake_world w = {0};
    for (int i = 0; i < 3; i++) {
        struct pass_output out;
        support_run(r, p, &w, NULL, &out);
        assert_string_equal(out.err.text, "");
        assert_string_equal(out.result.data,
                            "{\"status\":{\"calls\":1,\"kept\":1,\"ok\":false,\"seen\":1,\"up\":\"X\"}}");
        pass_output_fini(&out);
    }
    pass_runner_free(r);
    program_unref(p);
}

// Inline runs count instructions: the same budget, the same end.
// What pairs returns walks through its own table alone, as it was: not through the text behind an object that
// was not looked at, nor in the order of hashes.
static void test_the_iterator_of_pairs(void **state)
{
    (void)state;
    static const struct {
        const char *body, *result;
    } cases[] = {
        {"local f = pairs({}) local p = world.list('v1/Pod')[1] local k, v = f(p)\n"
         "return {status = {k = tostring(k), v = tostring(v), name = p.metadata.name}}",
         "{\"status\":{\"k\":\"nil\",\"name\":\"a\",\"v\":\"nil\"}}"},
        {"local f = pairs({1}) local p = world.list('v1/Pod')[1] local k = f(p) p[k] = 3e7\n"
         "return {status = {k = k, name = p.metadata.name}}",
         "{\"status\":{\"k\":1,\"name\":\"a\"}}"},
        {"local t, out = {1, 2, 3}, {}\n"
         "for k in pairs(t) do out[#out + 1] = k for i = 1, 50 do t['k' .. i] = 1 end end\n"
         "return {status = {out = table.concat(out, ' ')}}",
         "{\"status\":{\"out\":\"1 2 3\"}}"},
        {"local t, out = {1, 2, 3, 4}, {}\n"
         "for k, v in pairs(t) do out[#out + 1] = k .. '=' .. v t[k + 1] = nil t[k] = v * 2 end\n"
         "return {status = {out = table.concat(out, ' '), one = next({x = 1})}}",
         "{\"status\":{\"one\":\"x\",\"out\":\"1=1 3=3\"}}"},
    };
    struct pass_runner *r = pass_runner_new(NULL);
    struct fake_world w = {0};
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct program *p = support_program(cases[i].body);
        struct pass_output out;
        support_run(r, p, &w, NULL, &out);
        assert_string_equal(out.err.text, "");
        assert_string_equal(out.result.data, cases[i].result);
        pass_output_fini(&out);
        program_unref(p);
    }
    pass_runner_free(r);
}

static void test_inline_budget_is_deterministic(void **state)
{
    (void)state;
    struct program *p =
        support_program("local n = 0 while true do n = n + 1 world.log('info', tostring(n)) end");
    char first[1024] = "";
    for (int i = 0; i < 3; i++) {
        struct pass_runner *r = pass_runner_new(NULL);
        struct fake_world w = {0};
        struct pass_output out;
        struct pass_limits limits = {.cpu_us = 1000, .log_lines = 1000000, .log_bytes = 1 << 30};
        support_run(r, p, &w, &limits, &out);
        assert_int_equal(out.end, PASS_DEADLINE);
        assert_non_null(strstr(out.err.text, "t.lua:2: "));
        if (i == 0)
            snprintf(first, sizeof(first), "%s", w.log);
        assert_string_equal(w.log, first);
        pass_output_fini(&out);
        pass_runner_free(r);
    }
    program_unref(p);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_returns_a_result),
        cmocka_unit_test(test_reads_the_world),
        cmocka_unit_test(test_asks_whether_children_are_ready),
        cmocka_unit_test(test_errors_of_ready_are_errors_of_the_pass),
        cmocka_unit_test(test_passes_queries_on),
        cmocka_unit_test(test_names_wrong_arguments),
        cmocka_unit_test(test_stops_are_not_catchable),
        cmocka_unit_test(test_tells_errors),
        cmocka_unit_test(test_errors_have_the_line),
        cmocka_unit_test(test_retry_and_invalid),
        cmocka_unit_test(test_traceback_has_script_frames_only),
        cmocka_unit_test(test_caps),
        cmocka_unit_test(test_log),
        cmocka_unit_test(test_errors_name_the_same_key),
        cmocka_unit_test(test_nothing_survives_a_pass),
        cmocka_unit_test(test_locals_do_not_survive),
        cmocka_unit_test(test_the_iterator_of_pairs),
        cmocka_unit_test(test_inline_budget_is_deterministic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
