// Memory that ends at any allocation of loading a script, of a pass, and of each function that a script may
// call. The sandbox leaves all frames then (script/own.h), so LuaJIT, which does not survive that everywhere,
// never sees an allocation fail: no crash, no leak (the leak checker of the asan build looks), and the next
// pass is as it was. And how far from there the soft limit ends a script.
//
// Linked with -Wl,--wrap: arena_alloc, budget_begin and budget_end of the sandbox come by here.
#include "script/script_support.h"

#include "script/allow.h"
#include "script/arena.h"

void *__real_arena_alloc(void *ud, void *ptr, size_t osize, size_t nsize);
void *__wrap_arena_alloc(void *ud, void *ptr, size_t osize, size_t nsize);
void __real_budget_begin(struct budget *b, struct lua_State *L, uint64_t cpu_us);
void __wrap_budget_begin(struct budget *b, struct lua_State *L, uint64_t cpu_us);
uint64_t __real_budget_end(struct budget *b);
uint64_t __wrap_budget_end(struct budget *b);

static struct {
    bool in_job;        // between budget_begin and budget_end: the set-up is not meant
    uint64_t count;     // allocations of the job
    uint64_t refuse_at; // 0: none
    uint64_t failures;  // that LuaJIT saw
} allocations;

void *__wrap_arena_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    if (allocations.in_job && nsize > 0 && ++allocations.count == allocations.refuse_at)
        arena_limit(ud, 0, 1, NULL, arena_owner(ud)); // nothing fits any more
    void *p = __real_arena_alloc(ud, ptr, osize, nsize);
    if (p == NULL && nsize > 0)
        allocations.failures++;
    return p;
}

void __wrap_budget_begin(struct budget *b, struct lua_State *L, uint64_t cpu_us)
{
    allocations.in_job = true;
    allocations.count = 0;
    __real_budget_begin(b, L, cpu_us);
}

uint64_t __wrap_budget_end(struct budget *b)
{
    allocations.in_job = false;
    return __real_budget_end(b);
}

static const char main_chunk[] =
    "local k8s, json, yaml = require 'tidelock', require 'tidelock.json', require 'tidelock.yaml'\n"
    "local base64, sha256, lib = require 'tidelock.base64', require 'tidelock.sha256', require 'lib'\n"
    "local compat = require 'tidelock.compat'\n"
    "local function sorted(t) table.sort(t, function(a, b) return tostring(a) < tostring(b) end) return t "
    "end\n"
    "return {\n"
    "  subject = 'v1/ConfigMap', selector = {app = 'web'}, namespaces = {'a', 'b'}, changed = {'spec', "
    "'data'},\n"
    "  retry = {kind = 'exponential', base = '1s', max = '5m'}, resync = '10m', name = 'web',\n"
    "  reconcile = function(object, world)\n"
    "    local pods, text = world.list('v1/Pod', {labels = {app = 'web', tier = 'x'}, owner = object}), {}\n"
    "    for i, pod in ipairs(pods) do text[i] = pod.metadata.name .. #pod.spec.containers end\n"
    "    local ok, why = pcall(k8s.retry, 'Later', 'not yet')\n"
    "    text[#text + 1] = tostring(ok) .. tostring(why) .. string.format('%5d %q %s', 3, 'x', {})\n"
    "    text[#text + 1] = ('a-b-c'):gsub('%a', function(c) return c .. c end)\n"
    "    local copy = k8s.merge(k8s.copy(object), json.decode(json.encode({l = pods, big = "
    "pods[2].spec.big})))\n"
    "    local docs = yaml.decode_all(yaml.encode({a = {1, 2}, b = k8s.array {}}) .. '---\\nx: null\\n')\n"
    "    local bytes = base64.decode(base64.encode(('x'):rep(500))) .. sha256.hex('x')\n"
    "    local q = k8s.quantity('500m') + '1' * 2\n"
    "    world.log('info', 'seen', {pods = #pods, q = q, list = sorted(text)})\n"
    "    local old = compat.open(world).run('old', {obj = object})\n"
    "    local child = {apiVersion = 'v1', kind = 'ConfigMap', metadata = {name = 'c'}, data = {q = "
    "tostring(q)}}\n"
    "    return {\n"
    "      apply = {child, {object = k8s.copy(child), ready = function(c) return c.x == nil end, adopt = "
    "{'me'}}},\n"
    "      status = {copy = copy, docs = docs, n = #bytes, lib = lib.f(3), old = old, text = text,\n"
    "        conditions = {k8s.condition('Ready', true, 'Up')}, match = k8s.labels_match('a in (b)', {a = "
    "'b'})},\n"
    "      events = {k8s.event('Normal', 'Seen', 'pods')}, requeue_after = '30s',\n"
    "    }\n"
    "  end,\n"
    "  finalize = function() error(setmetatable({}, {__tostring = function() return ('no'):rep(3) end})) "
    "end,\n"
    "}\n";
static const char lib_chunk[] =
    "local M = {} function M.f(n) return n > 0 and {M.f(n - 1)} or 'end' end return M";
static const char old_chunk[] =
    "if not obj then return end list = {} for k in pairs(obj) do table.insert(list, k) end "
    "return os.date('%c') .. table.concat(list, ',')";

static int load(struct program **ret, struct err *e)
{
    const struct program_file modules[] = {{"lib.lua", lib_chunk, strlen(lib_chunk)},
                                           {"old.lua", old_chunk, strlen(old_chunk)}};
    struct program_options o = {
        .main = {"t.lua", main_chunk, strlen(main_chunk)}, .modules = modules, .module_count = 2};
    return program_new(&o, ret, e);
}

static void test_loading(void **state)
{
    (void)state;
    uint64_t n = 1;
    int r;
    do {
        struct program *p = NULL;
        struct err e = {0};
        allocations.refuse_at = n;
        r = load(&p, &e);
        if (r < 0 && (r != -ERR_LIMIT || strstr(e.text, "memory budget") == NULL))
            fail_msg("allocation %d: %s", (int)n, e.text);
        program_unref(p);
        n++;
    } while (r < 0);
    allocations.refuse_at = 0;
    print_message("loading: %d allocations, each refused once\n", (int)allocations.count);
    assert_true(allocations.count > 300);
}

// One pass of that entry, with the allocation `refuse_at` refused; the memory it held.
static size_t run_entry(struct pass_runner *r, const struct program *p, const char *entry, uint64_t refuse_at,
                        struct pass_output *ret)
{
    struct fake_world w = {0};
    struct pass_input in = {.program = p,
                            .entry = entry,
                            .object_json = fake_subject,
                            .object_len = strlen(fake_subject),
                            .env_json = "{\"name\":\"dev\"}",
                            .now_us = 1700000000500000,
                            .world = &fake_ops,
                            .ud = &w};
    allocations.refuse_at = refuse_at;
    pass_run(r, &in, ret);
    allocations.refuse_at = 0;
    return ret->memory_peak;
}

static size_t good_pass(struct pass_runner *r, const struct program *p)
{
    struct pass_output out;
    size_t peak = run_entry(r, p, "reconcile", 0, &out);
    if (out.end != PASS_OK)
        fail_msg("%s: %s", pass_end_name(out.end), out.err.text);
    pass_output_fini(&out);
    return peak;
}

// Runs the entry with each allocation refused once; the pass's end without one is `end`. How many there were.
static uint64_t refuse_each(const struct program *p, const char *entry, enum pass_end end)
{
    struct pass_runner *r = pass_runner_new(NULL);
    size_t before = good_pass(r, p);
    uint64_t count = 0;
    for (uint64_t n = 1;; n++) {
        struct pass_output out;
        run_entry(r, p, entry, n, &out);
        count = allocations.count;
        if (out.end != (count >= n ? PASS_MEMORY : end))
            fail_msg("%s, allocation %d: %s: %s", entry, (int)n, pass_end_name(out.end), out.err.text);
        pass_output_fini(&out);
        if (good_pass(r, p) != before)
            fail_msg("%s: the pass after allocation %d was refused differs", entry, (int)n);
        if (count < n)
            break;
    }
    pass_runner_free(r);
    assert_int_equal(allocations.failures, 0);
    return count;
}

static void test_passes(void **state)
{
    (void)state;
    struct program *p;
    struct err e;
    assert_int_equal(load(&p, &e), 0);
    print_message("reconcile: %d allocations, each refused once\n",
                  (int)refuse_each(p, "reconcile", PASS_OK));
    print_message("finalize: %d allocations, each refused once\n",
                  (int)refuse_each(p, "finalize", PASS_RAISED));
    program_unref(p);
}

// --- each function ---

#define LIBRARY                                                                                              \
    "local k8s, json, yaml = require 'tidelock', require 'tidelock.json', require 'tidelock.yaml' "          \
    "local base64, sha256 = require 'tidelock.base64', require 'tidelock.sha256' "                           \
    "local compat = require 'tidelock.compat' "

// Everything that a script can call stands in one of these at least: test_no_function_is_left_out.
static const char *const calls[] = {
    "local t = setmetatable({1, 2, x = 3}, {__index = {}}) rawset(t, 'k' .. 1, tostring(0.1)) local n = "
    "rawget(t, 'x')\n"
    "for k, v in pairs({x = 1, y = 2, [true] = 3, [2.5] = {}}) do t[tostring(k)] = tostring(v) end\n"
    "for k, v in next, {b = 1, a = 2, c = 3} do t[k] = v end for i, v in ipairs({1, 2}) do t[v] = {i} end\n"
    "assert(type(t) == 'table' and rawequal(t, t) and getmetatable(t) and rawlen('x') == 1)\n"
    "return {status = {n = select('#', unpack({1, 2, 3})), s = tostring(t), m = tonumber('12') + n, v = "
    "_VERSION}}",
    "local ok, e = pcall(error, {code = 1}) local good, why = xpcall(function() error('x' .. 1) end, "
    "function(m)\n"
    "  return m .. '!' end) return {status = {a = tostring(e), b = why}}",
    "return {status = {lib = require('lib').f(10), again = require('lib.lua') ~= nil}}",
    // string
    "return {status = {string.byte('abc', 1, -1), string.char(97, 98), string.len('x'), string.lower('ABC' "
    ".. 1),\n"
    "  string.upper('abc' .. 2), string.reverse('abc' .. 3), string.sub('abcdef', 2, -2)}}",
    "return {status = {string.find('a-b-c', '(%w)-(%w)', 2), string.match('k=v', '(%w)=(%w)'), "
    "('x'):find('x', 1, true)}}",
    "local t = {} for k, v in string.gmatch('a=1, b=2, c=3', '(%w)=(%w)') do t[k] = v end return {status = "
    "t}",
    "return {status = {string.gsub(('a b '):rep(100), '(%w) (%w)', '%2 %1 %0'), ('abc'):gsub('%w', {a = 'x', "
    "b = false}),\n"
    "  ('abc'):gsub('%w', function(c) return c:upper() .. c end), (('x'):rep(5000):gsub('x', 'yy'))}}",
    "return {status = {string.format('%5d|%-8s|%q|%.3f|%x|%s', 42, 'text', 'q\"\\n\\0', 1 / 3, 255, {}),\n"
    "  string.format('%s', setmetatable({}, {__tostring = function() return ('t'):rep(600) end})),\n"
    "  string.format(('%s'):rep(20), unpack(table.concat({('x'):rep(20)}) and {1, 2, 3, 4, 5, 6, 7, 8, 9, "
    "10, 11, 12, 13,\n"
    "    14, 15, 16, 17, 18, 19, ('y'):rep(3000)}))}}",
    "return {status = {string.rep('ab', 1000), string.rep('a', 50, ', '), string.rep('x', 100000):len()}}",
    // table
    "local t = {} for i = 1, 200 do table.insert(t, 'v' .. i) end table.insert(t, 1, 'first') "
    "table.remove(t, 1)\n"
    "return {status = {table.concat(t, ', '), table.concat({1, 2.5, 'x'}), #t, table.getn(t), "
    "table.maxn(t)}}",
    "local t = {} for i = 1, 300 do t[i] = 'v' .. i * 7919 % 1009 end table.sort(t)\n"
    "table.sort(t, function(a, b) return a .. 'x' > b .. 'x' end) return {status = {t = t}}",
    "local t = {} for i = 1, 200 do t[i] = {k = i * 7919 % 13} end\n"
    "pcall(table.sort, t, function(a, b) return a.k .. '' < b.k end) return {status = {n = bit.tohex(#t)}}",
    // the library
    "return {status = {conditions = {k8s.condition('Ready', true, 'Up')}}, events = {k8s.event('Normal', "
    "'Seen', 'it')}}",
    "local q = k8s.quantity('500m') + '1' * 2 return {status = {tostring(q), q, k8s.compare(2, 10), "
    "tostring(q - '1'),\n"
    "  k8s.compare(world.list('v1/Pod')[2].spec.big, 5)}}",
    "return {status = {k8s.time('2024-01-02T03:04:05Z'), k8s.format_time(1700000000), k8s.duration('1h5m')}}",
    "local out = {} for _, f in ipairs {k8s.retry, k8s.invalid} do\n"
    "  local ok, e = pcall(f, 'Reason', 'a message') out[#out + 1] = tostring(e) end return {status = out}",
    "local pod = world.list('v1/Pod')[2] return {status = {k8s.get(pod, 'spec.containers', {}), "
    "k8s.copy(pod),\n"
    "  k8s.merge(pod, {spec = {containers = k8s.array {}, x = k8s.null}}), "
    "k8s.is_array(pod.spec.containers),\n"
    "  k8s.list_find(pod.spec.containers, 'name', 'c'), k8s.labels_match('a in (b, c), !d, e=f', {a = 'b', e "
    "= 'f'})}}",
    "local text = json.encode({a = {1, 'x', k8s.null, k8s.array {}}, big = world.list('v1/Pod')[2].spec.big, "
    "s = 'é\\n'})\n"
    "return {status = {text, json.decode(text), (pcall(json.decode, '{\"a\":['))}}",
    "local text = yaml.encode({a = {1, 'x', k8s.null, {b = k8s.array {}}}, s = 'a: b\\n'}) return {status = "
    "{text,\n"
    "  yaml.decode(text), yaml.decode_all(text .. '---\\nx: &a [1, 2]\\ny: *a\\n'), (pcall(yaml.decode, 'a: "
    "[b'))}}",
    "return {status = {base64.decode(base64.encode(('x'):rep(5000))):len(), (pcall(base64.decode, '*')), "
    "sha256.hex('x')}}",
    "local old = compat.open(world) return {status = {old.run('old', {obj = object}), "
    "compat.without_nulls({a = k8s.null}),\n"
    "  compat.like({}, object.list)}}",
    // the world
    "local a = world.get('v1/Pod', 'a', 'default') return {status = {a.metadata.name, 1,\n"
    "  #world.list('v1/Pod', {labels = {app = 'web'}, fields = {['metadata.name'] = 'a'}, owner = object}),\n"
    "  #world.children('v1/Pod'), world.data('motd'), world.now(), world.secret_value('name', {length = "
    "20})}}",
    "for i = 1, 20 do world.log('info', 'text' .. i, {i = i, list = {1, {2}}}) end return {status = "
    "world.env}",
    // what has no name
    "local t = {} for i = 1, 500 do t[i] = {i} t['k' .. i] = function() return i end end\n"
    "local s = '' for i = 1, 100 do s = s .. i .. ('x'):rep(10) end return {status = {#t, s}}",
    "local function f(...) return select('#', ...) end local function deep(n) if n > 0 then return 1 + "
    "deep(n - 1) end\n"
    "  return 0 end return {status = {deep(2000), f(unpack({}, 1, 500))}}",
    "local l = world.list('v1/Pod') for i = 1, 2 do for k, v in pairs(l[i]) do l[i][k] = v end l[i].x = {1} "
    "end\n"
    "return {status = {l = l}, apply = {{apiVersion = 'v1', kind = 'ConfigMap', metadata = {name = 'c'}, "
    "data = {a = '1'}}}}",
};
enum { CALLS = sizeof(calls) / sizeof(calls[0]) };

static struct program *program_of_call(const char *body)
{
    char *text = xasprintf(
        LIBRARY
        "local function body(object, world)\n%s\nend\n"
        "return {subject = 'v1/ConfigMap', reconcile = function(object, world)\n"
        "local r = body(object, world) if r.status[1] then r.status = {v = r.status} end return r end}",
        body);
    const struct program_file modules[] = {{"lib.lua", lib_chunk, strlen(lib_chunk)},
                                           {"old.lua", old_chunk, strlen(old_chunk)}};
    struct program_options o = {.main = {"t.lua", text, strlen(text)}, .modules = modules, .module_count = 2};
    struct program *p = NULL;
    struct err e;
    if (program_new(&o, &p, &e) < 0)
        fail_msg("%s\nin: %s", e.text, body);
    free(text);
    return p;
}

static void test_each_function(void **state)
{
    (void)state;
    uint64_t count = 0;
    for (int i = 0; i < CALLS; i++) {
        struct program *p = program_of_call(calls[i]);
        count += refuse_each(p, "reconcile", PASS_OK);
        program_unref(p);
    }
    print_message("%d bodies: %d allocations, each refused once; LuaJIT saw %d fail\n", CALLS, (int)count,
                  (int)allocations.failures);
}

static void expect_called(const char *name)
{
    for (int i = 0; i < CALLS; i++) {
        if (strstr(calls[i], name) != NULL)
            return;
    }
    fail_msg("no body calls %s: add one", name);
}

static void expect_allowed_called(void *ud, const char *library, const char *name)
{
    char full[64];
    (void)ud;
    if (strcmp(library, "math") == 0 || (strcmp(library, "bit") == 0 && strcmp(name, "tohex") != 0))
        return; // numbers of numbers
    snprintf(full, sizeof(full), "%s%s%s", library, library[0] != 0 ? "." : "", name);
    expect_called(full);
}

static void test_no_function_is_left_out(void **state)
{
    (void)state;
    allow_each(expect_allowed_called, NULL);
    struct program *p =
        program_of_call("local out, m = {}, {k8s = k8s, json = json, yaml = yaml, base64 = base64, sha256 = "
                        "sha256, compat = compat,\n"
                        "  world = world} for name, t in pairs(m) do for k, v in pairs(t) do\n"
                        "  if type(v) == 'function' then out[#out + 1] = name .. '.' .. k end end end return "
                        "{status = {names = out}}");
    struct pass_runner *r = pass_runner_new(NULL);
    struct pass_output out;
    run_entry(r, p, "reconcile", 0, &out);
    assert_int_equal(out.end, PASS_OK);
    int count = 0;
    for (char *name = strtok(out.result.data, "\""); name != NULL; name = strtok(NULL, "\"")) {
        if (strchr(name, '.') != NULL) {
            expect_called(name);
            count++;
        }
    }
    assert_true(count > 30);
    pass_output_fini(&out);
    pass_runner_free(r);
    program_unref(p);
}

// --- how far the soft limit is from where frames are left ---

// Each asks for more and more, a little at a time or as much as one call may give.
static const char *const hoards[] = {
    "local s = 'x' while true do s = s .. s end",
    "local t = {} for i = 1, 1e9 do t[i] = i end",
    "local t = {} while true do t[#t + 1] = {#t} end",
    "local t = {} for i = 1, 1e9 do t['k' .. i] = i end",
    "local t = {} for i = 1, 1e9 do t[i] = function() return i end end",
    "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end",
    "local t = {} for i = 1, 1e9 do t[i] = ('X'):rep(1e5):lower() .. i end",
    "local t = {} for i = 1, 1e9 do t[i] = world.list('v1/Pod') next(t[i][1]) end",
    "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1048576 - i) end",
    "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1e5):gsub('x', 'yz') .. i end",
    "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1e4):gsub('x', function(c) return c .. i end) end",
    "local t = {} for i = 1, 1e9 do t[i] = string.format('%s%d', ('x'):rep(1e5), i) end",
    "local t = {} for i = 1, 1e9 do t[i] = table.concat({('x'):rep(1e5), i}, ', ') end",
    "local t = {} for i = 1, 1e9 do t[i] = json.encode({('x'):rep(1e5), i}) end",
    "local t = {} for i = 1, 1e9 do t[i] = json.decode('[' .. ('{\"a\":1},'):rep(1000) .. i .. ']') end",
    "local t = {} for i = 1, 1e9 do t[i] = yaml.decode('a: ' .. ('x'):rep(1e5) .. i) end",
    "local t = {} for i = 1, 1e9 do t[i] = base64.encode(('x'):rep(1e5) .. i) end",
    "local t = {} for i = 1, 1e9 do t[i] = k8s.copy(world.list('v1/Pod')) end",
    "while true do pcall(function() local t = {} for i = 1, 1e9 do t[i] = {} end end) end",
    "return #(('x'):rep(1e5):gsub('x', ('y'):rep(100)))", // one call that looks at it
};

// One call that asks for more than the hard limit. They need a soft limit above this for what they begin
// with.
enum { FLOOD_MIN = 3 << 20 };
#define TEN " .. s .. s .. s .. s .. s .. s .. s .. s .. s .. s"
static const char *const floods[] = {
    "local t, s = {}, ('x'):rep(1e6) for i = 1, 100 do t[i] = s end return #table.concat(t)",
    "local s = ('x'):rep(1e6) return #(s" TEN TEN TEN TEN TEN TEN TEN ")",
    "local s = ('x'):rep(1e6) local t = {} for i = 1, 90 do t[i] = s end return "
    "#string.format(('%s'):rep(90), unpack(t))",
};

// Runs it in `soft` bytes; the most it held.
static size_t exhaust(struct pass_runner *r, const char *body, size_t soft, bool flood)
{
    struct program *p = program_of_call(body);
    struct fake_world w = {0};
    struct pass_output out;
    support_run(r, p, &w, &(struct pass_limits){.cpu_us = 60000000, .memory = soft}, &out);
    if (out.end != PASS_MEMORY || flood != (strstr(out.err.text, "far more") != NULL))
        fail_msg("%s: %s: %s", body, pass_end_name(out.end), out.err.text);
    size_t peak = out.memory_peak;
    pass_output_fini(&out);
    program_unref(p);
    return peak;
}

static void test_the_soft_limit_comes_first(void **state)
{
    (void)state;
    static const struct {
        size_t soft, hard;
    } limits[] = {{1 << 20, 4 << 20}, {4 << 20, 16 << 20}, {16 << 20, 64 << 20}};
    struct pass_runner *r = pass_runner_new(NULL);
    for (size_t l = 0; l < sizeof(limits) / sizeof(limits[0]); l++) {
        size_t worst = 0;
        const char *which = NULL;
        for (size_t i = 0; i < sizeof(hoards) / sizeof(hoards[0]); i++) {
            size_t peak = exhaust(r, hoards[i], limits[l].soft, false);
            if (peak > worst)
                which = hoards[i];
            worst = peak > worst ? peak : worst;
        }
        for (size_t i = 0; i < sizeof(floods) / sizeof(floods[0]) && limits[l].soft > FLOOD_MIN; i++)
            assert_true(exhaust(r, floods[i], limits[l].soft, true) <= limits[l].hard);
        print_message("soft limit %zu KiB: the most held was %zu KiB, %.2f x; %zu KiB short of where frames "
                      "are left: %s\n",
                      limits[l].soft / 1024, worst / 1024, (double)worst / (double)limits[l].soft,
                      (limits[l].hard - worst) / 1024, which);
        assert_true(worst <= limits[l].hard - limits[l].hard / 8);
    }
    pass_runner_free(r);
    print_message("allocations that LuaJIT saw fail: %d\n", (int)allocations.failures);
    assert_int_equal(allocations.failures, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loading),
        cmocka_unit_test(test_passes),
        cmocka_unit_test(test_no_function_is_left_out),
        cmocka_unit_test(test_each_function),
        cmocka_unit_test(test_the_soft_limit_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
