// Memory that ends at any allocation of loading a script and of a pass. The sandbox leaves all frames then
// (script/own.h), so LuaJIT never sees an allocation fail: no crash, no leak (the leak checker of the asan
// build looks), and the next pass is as it was. And how far a script gets beyond its soft limit before.
//
// Linked with -Wl,--wrap: arena_alloc, budget_begin and budget_end of the sandbox come by here.
#include "script/script_support.h"

#include "script/arena.h"

#ifdef TIDELOCK_SANITIZED
enum { ALL_UP_TO = 200, STEP = 13 };
#else
enum { ALL_UP_TO = 100000, STEP = 1 };
#endif

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
} allocations;

void *__wrap_arena_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    if (allocations.in_job && nsize > 0 && ++allocations.count == allocations.refuse_at)
        arena_limit(ud, 0, 1, NULL, arena_owner(ud)); // nothing fits any more
    return __real_arena_alloc(ud, ptr, osize, nsize);
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

// The next number to fail at: each of the first ones, then in steps.
static uint64_t next(uint64_t n)
{
    return n + (n < ALL_UP_TO ? 1 : STEP);
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
        n = next(n);
    } while (r < 0);
    allocations.refuse_at = 0;
    print_message("loading: %d allocations, each refused once\n", (int)allocations.count);
    assert_true(allocations.count > 300);
}

static size_t good_pass(struct pass_runner *r, const struct program *p)
{
    struct fake_world w = {0};
    struct pass_output out;
    allocations.refuse_at = 0;
    support_run(r, p, &w, NULL, &out);
    size_t peak = out.end == PASS_OK ? out.memory_peak : 0;
    if (out.end != PASS_OK)
        print_error("%s\n", out.err.text);
    pass_output_fini(&out);
    return peak;
}

// Runs the entry with each allocation refused once; the pass's end without one is `end`.
static void refuse_each(const char *entry, enum pass_end end)
{
    struct program *p;
    struct err e;
    assert_int_equal(load(&p, &e), 0);
    struct pass_runner *r = pass_runner_new(NULL);
    size_t before = good_pass(r, p);
    assert_true(before > 0);
    for (uint64_t n = 1;; n = next(n)) {
        struct fake_world w = {0};
        struct pass_output out;
        struct pass_input in = {.program = p,
                                .entry = entry,
                                .object_json = fake_subject,
                                .object_len = strlen(fake_subject),
                                .env_json = "{\"name\":\"dev\"}",
                                .now_us = 1700000000500000,
                                .world = &fake_ops,
                                .ud = &w};
        allocations.refuse_at = n;
        pass_run(r, &in, &out);
        uint64_t count = allocations.count;
        bool refused = count >= n;
        if (out.end != (refused ? PASS_MEMORY : end))
            fail_msg("%s, allocation %d: %s: %s", entry, (int)n, pass_end_name(out.end), out.err.text);
        pass_output_fini(&out);
        if (good_pass(r, p) != before)
            fail_msg("%s: the pass after allocation %d was refused differs", entry, (int)n);
        if (!refused) {
            print_message("%s: %d allocations, each refused once\n", entry, (int)count);
            break;
        }
    }
    pass_runner_free(r);
    program_unref(p);
}

static void test_passes(void **state)
{
    (void)state;
    refuse_each("reconcile", PASS_OK);
    refuse_each("finalize", PASS_RAISED);
}

// What a script may hold at most when the soft limit stops it: the hard limit (four times as much) is where
// the frames are left, and where LuaJIT would else see a failure.
static void test_the_soft_limit_comes_first(void **state)
{
    (void)state;
    enum { SOFT = 4 << 20 };
    static const char *const bodies[] = {
        "local s = 'x' while true do s = s .. s end",
        "local t = {} for i = 1, 1e9 do t[i] = i end",
        "local t = {} while true do t[#t + 1] = {#t} end",
        "local t = {} for i = 1, 1e9 do t['k' .. i] = i end",
        "local t = {} for i = 1, 1e9 do t[i] = function() return i end end",
        "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1000) .. i end",
        "local t = {} for i = 1, 1e9 do t[i] = ('X'):rep(1e5):lower() .. i end",
        "local t = {} for i = 1, 1e9 do t[i] = world.list('v1/Pod') next(t[i][1]) end",
        "while true do pcall(function() local t = {} for i = 1, 1e9 do t[i] = {} end end) end",
    };
    struct pass_runner *r = pass_runner_new(NULL);
    double worst = 0;
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct program *p = support_program(bodies[i]);
        struct fake_world w = {0};
        struct pass_output out;
        support_run(r, p, &w, &(struct pass_limits){.cpu_us = 10000000, .memory = SOFT}, &out);
        double times = (double)out.memory_peak / SOFT;
        if (out.end != PASS_MEMORY || strstr(out.err.text, "far more") != NULL)
            fail_msg("%s: %s: %s", bodies[i], pass_end_name(out.end), out.err.text);
        if (times > worst)
            worst = times;
        pass_output_fini(&out);
        program_unref(p);
    }
    pass_runner_free(r);
    print_message("the most held: %.2f x the soft limit; the hard one is 4 x\n", worst);
    assert_true(worst < 4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_loading),
        cmocka_unit_test(test_passes),
        cmocka_unit_test(test_the_soft_limit_comes_first),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
