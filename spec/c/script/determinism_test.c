// The same passes in fresh processes give the same bytes: results, errors, tracebacks, log lines and budget
// used. Not the memory: LuaJIT makes a table whose keys come and go anew at a moment that depends on their
// hashes, so what a pass holds at most may differ by the size of one. The processes differ in address layout,
// seed of the string hashes, order of the passes, time zone and locale; that the first two do differ is
// checked, too.
//
// The program starts itself: determinism_test --passes SEED PADDING ORDER
#include <fcntl.h>
#include <lauxlib.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/wait.h>

#include "script/script_support.h"

#include "script/grammar.h"
#include "script/sandbox.h"
#include "script/seed.h"

enum {
    PROCESSES = 3,
    GRAMMAR_SCRIPTS = 150,
    OUTPUT_MAX = 64 << 20,
    // From here on the collector runs, which frees texts in the order of their hashes, and so the moment at
    // which the pass's memory is looked at differs a little.
    COLLECTS_FROM = 1 << 20,
};

static const char *const bodies[] = {
    // keys of every type, in tables that grew, shrank and grew again
    "local t, out = {}, {}\n"
    "for i = 1, 300 do t['key' .. i * 7919 % 1000] = i t[i * 31 % 97] = i t[i / 7 - 20] = i t[-i] = i end\n"
    "for i = 1, 300 do t[{}] = i t[function() return i end] = i end\n"
    "t[true], t[false], t[k8s.null], t[1 / 0], t[-1 / 0], t[2 ^ 53] = 1, 2, 3, 4, 5, 6\n"
    "t[k8s.quantity('1500m')], t[world.list('v1/Pod')[2].spec.big], t[print or pairs], t[_G] = 7, 8, 9, 10\n"
    "for i = 1, 300, 3 do t['key' .. i] = nil t[i] = nil end\n"
    "for k, v in pairs(t) do out[#out + 1] = tostring(k) .. '=' .. v end\n"
    "for k, v in next, t do out[#out + 1] = tostring(k) .. '=' .. v end\n"
    "return {status = {out = out}}",
    "local out, m = {}, {x = 1, [1] = 2, [true] = 3, [2.5] = 4, y = 5, [false] = 6, [0] = 7, [-3] = 8}\n"
    "for k in pairs(m) do m[k] = nil out[#out + 1] = tostring(k) end\n"
    "for _, n in ipairs {1, 2, 3, 10, 100} do\n"
    "  local t = {} for i = n, 1, -1 do t[i] = i t[tostring(i)] = -i end\n"
    "  for k, v in pairs(t) do out[#out + 1] = type(k) .. k .. v end\n"
    "end return {status = {out = out}}",
    // all that a script can reach, by pairs, with how each is told
    "local out, seen = {}, {}\n"
    "local function walk(path, t)\n"
    "  if seen[t] then return end seen[t] = true\n"
    "  for k, v in pairs(t) do\n"
    "    out[#out + 1] = path .. '.' .. tostring(k) .. ' ' .. tostring(v) .. string.format(' %s', v)\n"
    "    if type(v) == 'table' then walk(path .. '.' .. tostring(k), v) end\n"
    "  end\n"
    "end\n"
    "walk('_G', _G) walk('world', world) walk('object', object)\n"
    "for _, name in ipairs {'', '.json', '.yaml', '.base64', '.sha256', '.compat', '.selector', '.native'} "
    "do\n"
    "  local ok, m = pcall(require, 'tidelock' .. name)\n"
    "  if type(m) == 'table' then walk(name, m) else out[#out + 1] = tostring(m) end\n"
    "end return {status = {out = out}}",
    "local out = {}\n"
    "for _, v in ipairs {{}, function() end, pairs, k8s.null, k8s.quantity('1Gi'), "
    "world.list('v1/Pod')[2].spec.big,\n"
    "    setmetatable({}, {__tostring = function() return 'mine' end}), setmetatable({}, {}), 0.1, 1e15, "
    "1e16, 2 ^ 53,\n"
    "    1e300, 1 / 3, -0, 1 / 0, 0 / 0, true, 'x'} do\n"
    "  out[#out + 1] = tostring(v) .. string.format(' %s', v)\n"
    "end return {status = {out = out, n = {1e15, 0.1, 1 / 3, 1e300, -0, 1e-7, 123456789012, 2 ^ 63}}}",
    // sorts: equal elements, comparators without sense, objects by their text
    "local out, t = {}, {} for i = 1, 500 do t[i] = {k = i * 7919 % 13, i = i} end\n"
    "table.sort(t, function(a, b) return a.k < b.k end) for i = 1, 500 do out[i] = t[i].i end\n"
    "pcall(table.sort, t, function(a, b) return true end) for i = 1, 500 do out[#out + 1] = t[i].i end\n"
    "local n = 0 pcall(table.sort, t, function(a, b) n = n + 1 return n % 3 == 0 end)\n"
    "for i = 1, 500 do out[#out + 1] = t[i].i end\n"
    "table.sort(t, function(a, b) return tostring(a) < tostring(b) end) for i = 1, 500 do out[#out + 1] = "
    "t[i].i end\n"
    "local words = {} for i = 1, 200 do words[i] = ('w'):rep(i * 31 % 17) .. i % 7 end table.sort(words)\n"
    "return {status = {out = out, words = words}}",
    // a result of every part, its tables made in another order than they are written
    "local data = {} for i = 1, 200 do data['k' .. i * 7919 % 1009] = {z = i, a = {y = 1, b = {}}, m = "
    "k8s.array {}} end\n"
    "local child = {metadata = {name = 'c', labels = {z = '1', a = '2'}}, kind = 'ConfigMap', data = data,\n"
    "  apiVersion = 'v1'}\n"
    "world.log('info', 'said', {z = 1, a = {q = 2, b = 3}, m = {}, k = data.k1})\n"
    "return {status = data, apply = {child, {ready = function() return true end, once = true, object = "
    "k8s.copy(child)}},\n"
    "  events = {k8s.event('Normal', 'A', 'b')}, requeue_after = '30s'}",
    // texts made of tables
    "local j, y, t = require 'tidelock.json', require 'tidelock.yaml', {}\n"
    "for i = 1, 100 do t['k' .. i * 7919 % 1009] = {i, {x = i}} t['n' .. i] = i / 3 end\n"
    "local merged = k8s.merge(t, {k1 = k8s.null, zz = {1}})\n"
    "local text = ('k1 k2 none k3'):gsub('%w+', t) .. ('a b'):gsub('%w', function(c) return tostring({}) "
    "end)\n"
    "return {status = {j = j.encode(merged), y = y.encode(t), back = y.decode_all(y.encode(t)), text = "
    "text}}",
    "local j = require 'tidelock.json' local ok, e = pcall(j.encode, {a = {b = function() end, c = {}}, d = "
    "{[{}] = 1}})\n"
    "local _, e2 = pcall(j.encode, {x = {1, nil, 3, k = 1}}) local _, e3 = pcall(function() return {} .. {} "
    "end)\n"
    "local _, e4 = pcall(function() return {} < {} end) local _, e5 = pcall(error, {z = 1, a = {}})\n"
    "return {status = {tostring(e), tostring(e2), tostring(e3), tostring(e4), tostring(e5)}}",
    "local compat = require 'tidelock.compat' return {status = {now = world.now(), env = world.env}}",
    // errors: a table with many members, one with objects, a deep one, one of a wrong result
    "local t = {} for i = 1, 20 do t['k' .. i * 7 % 23] = i end error(t)",
    "error({[{}] = 1, [function() end] = 2})",
    "error(function() end)",
    "error(setmetatable({}, {__tostring = function(t) return 'told ' .. tostring({}) .. tostring(pairs) "
    "end}))",
    "local function f(n) if n == 0 then error('deep') end return (f(n - 1)) end f(20)",
    "local t = {} for i = 1, 50 do t['k' .. i] = i % 7 == 0 and function() end or i end return {status = t}",
    "local t = {} for i = 1, 50 do t['field' .. i] = i end return t",
    // objects as keys in memory that the collector gave back
    "local out, t, keep = {}, {}, ('x'):rep(700000) .. 'y'\n"
    "for i = 1, 60000 do local s = ('s'):rep(i % 40) .. i end\n"
    "for i = 1, 100 do t[{}] = i t[function() return i end] = -i end\n"
    "for _, v in pairs(t) do out[#out + 1] = v end return {status = {out = out, n = #keep}}",
    "local out, t = {}, {}\n"
    "for i = 1, 5000 do local s = 'k' .. i * 7919 % 65536 t[s] = i t['k' .. (i - 7) * 7919 % 65536] = nil\n"
    "  if i % 50 == 0 then local f = {} for j = 1, i % 9 do f['x' .. j] = j end f = nil end end\n"
    "local o = {} for i = 1, 100 do o[function() return out end] = i o[{}] = -i end\n"
    "for _, v in pairs(o) do out[#out + 1] = v end return {status = {out = out}}",
    "local out, weak = {}, setmetatable({}, {__mode = 'v'})\n"
    "local keep = ('x'):rep(900000) .. 'y'\n"
    "for i = 1, 30000 do weak[i % 1000] = {('s'):rep(i % 40) .. i} if i % 100 == 0 then\n"
    "  local n = 0 for k in pairs(weak) do n = n + 1 end out[#out + 1] = n end end\n"
    "return {status = {out = out, n = #keep}}",
    "local out, m = {}, {} local weak = setmetatable({}, m) m.__mode = 'kv'\n"
    "local keep = ('x'):rep(900000) .. 'y'\n"
    "for i = 1, 30000 do weak[{}] = {('s'):rep(i % 40) .. i} if i % 1000 == 0 then\n"
    "  local n = 0 for k in pairs(weak) do n = n + 1 end out[#out + 1] = n end end\n"
    "return {status = {out = out, n = #keep}}",
    // budgets that end
    "local t = {} while true do t[{}] = #tostring(t) end",
    "local t = {} for i = 1, 1e9 do t['k' .. i] = ('x'):rep(i % 1000) end",
    "while true do pcall(function() error({}) end) end",
    "local function f() return f() + 1 end return f()",
};
enum { BODIES = sizeof(bodies) / sizeof(bodies[0]), PASSES = BODIES + GRAMMAR_SCRIPTS };

// --- one process ---

static void run(struct pass_runner *r, struct program *p, uint64_t cpu_us, struct buf *out)
{
    struct fake_world w = {0};
    struct pass_output o;
    support_run(r, p, &w, &(struct pass_limits){.cpu_us = cpu_us, .memory = 8 << 20}, &o);
    buf_addf(out, "%s: %s %s %lld\n%s\n%.*s\n%.*s\n", pass_end_name(o.end), o.err.text, o.reason,
             (long long)o.retry_after_us, w.log, (int)o.traceback.len,
             o.traceback.len > 0 ? o.traceback.data : "", (int)o.result.len,
             o.result.len > 0 ? o.result.data : "");
    if (o.memory_peak < COLLECTS_FROM)
        buf_addf(out, "%llu us\n", (unsigned long long)o.cpu_us);
    pass_output_fini(&o);
    program_unref(p);
}

static void run_number(struct pass_runner *r, int i, uint64_t seed, struct buf *out)
{
    if (i < BODIES) {
        char *body = xasprintf("local k8s = require 'tidelock'\n%s", bodies[i]);
        buf_addf(out, "--- body %d: ", i);
        run(r, support_program(body), 100000, out);
        free(body);
        return;
    }
    struct grammar g;
    struct program *p;
    struct err e;
    buf_init(&g.out, 1 << 20);
    grammar_make(&g, seed + (uint64_t)i);
    struct program_options o = {.main = {"t.lua", g.out.data, g.out.len}};
    if (program_new(&o, &p, &e) < 0)
        fail_msg("%s", e.text);
    buf_addf(out, "--- %s\n", g.out.data);
    run(r, p, 10000, out);
    buf_fini(&g.out);
}

// What differs between the processes: where things are, and how LuaJIT itself walks through a table.
static void print_layout(lua_State *L, void *ud)
{
    (void)ud;
    printf("%p", lua_topointer(L, LUA_GLOBALSINDEX));
    lua_newtable(L);
    for (int i = 0; i < 100; i++) {
        lua_pushfstring(L, "key%d", i);
        lua_pushboolean(L, 1);
        lua_rawset(L, -3);
    }
    lua_pushnil(L);
    for (; lua_next(L, -2); lua_pop(L, 1))
        printf(" %s", lua_tostring(L, -2));
    printf("\n");
}

static int run_passes(uint64_t seed, size_t padding, bool backward)
{
    if (mmap(NULL, padding, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED)
        return 1;
    static struct buf outs[PASSES];
    struct pass_runner *r = pass_runner_new(NULL);
    struct sandbox_outcome outcome = {0};
    buf_init(&outcome.traceback, 4096);
    sandbox_run(pass_runner_sandbox(r),
                &(struct sandbox_job){.fn = print_layout, .cpu_us = 100000, .memory = 1 << 20}, &outcome);
    buf_fini(&outcome.traceback);
    for (int i = 0; i < PASSES; i++) {
        int n = backward ? PASSES - 1 - i : i;
        buf_init(&outs[n], OUTPUT_MAX);
        run_number(r, n, seed, &outs[n]);
    }
    for (int i = 0; i < PASSES; i++) {
        fwrite(outs[i].data, 1, outs[i].len, stdout);
        buf_fini(&outs[i]);
    }
    pass_runner_free(r);
    return 0;
}

// --- the processes ---

static void read_all(int fd, struct buf *out)
{
    char part[65536];
    ssize_t n;
    while ((n = read(fd, part, sizeof(part))) > 0)
        buf_add(out, part, (size_t)n);
    close(fd);
}

static void run_process(int number, uint64_t seed, struct buf *out)
{
    static const char *const zones[PROCESSES] = {"TZ=UTC", "TZ=Asia/Tokyo", "TZ=America/St_Johns"};
    static const char *const locales[PROCESSES] = {"LC_ALL=C", "LC_ALL=C.UTF-8", "LC_ALL=de_DE.UTF-8"};
    char seed_text[32];
    char padding[32];
    snprintf(seed_text, sizeof(seed_text), "%llu", (unsigned long long)seed);
    snprintf(padding, sizeof(padding), "%d", (number + 1) * 12345 * 16);
    char *argv[] = {
        (char *)seed_program(), "--passes", seed_text, padding, number % 2 ? "backward" : "forward", NULL};
    char *env[] = {(char *)zones[number], (char *)locales[number], NULL};
    int ends[2];
    posix_spawn_file_actions_t actions;
    pid_t pid;
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    assert_int_equal(posix_spawn(&pid, argv[0], &actions, NULL, argv, env), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    buf_init(out, OUTPUT_MAX);
    read_all(ends[0], out);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
}

// Of LuaJIT's own walk through a table: what stands behind the address in the first line.
static bool same_order(const struct buf *a, const struct buf *b)
{
    const char *x = a->data + strcspn(a->data, " ");
    const char *y = b->data + strcspn(b->data, " ");
    size_t n = strcspn(x, "\n");
    return n == strcspn(y, "\n") && strncmp(x, y, n) == 0;
}

static void assert_same(const struct buf *a, size_t from_a, const struct buf *b, size_t from_b)
{
    const char *x = a->data + from_a;
    const char *y = b->data + from_b;
    size_t n = a->len - from_a < b->len - from_b ? a->len - from_a : b->len - from_b;
    size_t i = 0;
    while (i < n && x[i] == y[i])
        i++;
    if (i == n && a->len - from_a == b->len - from_b)
        return;
    size_t from = i > 300 ? i - 300 : 0;
    fail_msg("byte %zu differs:\n%.*s\n=== and\n%.*s", i,
             (int)(i - from + 100 < n - from ? i - from + 100 : n - from), x + from,
             (int)(i - from + 100 < n - from ? i - from + 100 : n - from), y + from);
}

// For the processes that start from now on. False: it can not be had; a sanitizer's shadow memory does not go
// with each layout, so who runs it may have fixed them.
static bool randomize_layouts(void)
{
    int persona = personality(0xffffffff);
#ifndef TIDELOCK_SANITIZED
    if (persona != -1)
        persona = personality((unsigned long)persona & ~(unsigned long)ADDR_NO_RANDOMIZE) != -1 ? 0 : persona;
#endif
    return persona != -1 && (persona & ADDR_NO_RANDOMIZE) == 0;
}

static void test_fresh_processes_say_the_same(void **state)
{
    (void)state;
    uint64_t seed = seed_get();
    struct buf outs[PROCESSES];
    size_t layout[PROCESSES]; // length of the first line
    seed_announce(seed, NULL, 0);
    bool layouts_differ = randomize_layouts();
    if (!layouts_differ)
        print_message("skipped: whether the processes' addresses differ, as their layout is fixed here\n");
    for (int i = 0; i < PROCESSES; i++) {
        // LuaJIT has few different orders: two processes have the same one by chance now and then.
        for (int tries = 0; tries < 10; tries++) {
            if (tries > 0)
                buf_fini(&outs[i]);
            run_process(i, seed, &outs[i]);
            if (i == 0 || !same_order(&outs[0], &outs[i]))
                break;
        }
        layout[i] = strcspn(outs[i].data, "\n");
        assert_true(outs[i].len > 100000);
    }
    for (int i = 1; i < PROCESSES; i++) {
        if (layouts_differ)
            assert_true(strncmp(outs[0].data, outs[i].data, strcspn(outs[i].data, " ")) != 0);
        assert_false(same_order(&outs[0], &outs[i]));
        assert_same(&outs[0], layout[0], &outs[i], layout[i]);
    }
    print_message("%d processes, %d passes, %zu bytes each: the same\n", PROCESSES, PASSES,
                  outs[0].len - layout[0]);
    for (int i = 0; i < PROCESSES; i++)
        buf_fini(&outs[i]);
}

int main(int argc, char **argv)
{
    if (argc == 5 && strcmp(argv[1], "--passes") == 0)
        return run_passes(strtoull(argv[2], NULL, 10), strtoull(argv[3], NULL, 10),
                          strcmp(argv[4], "backward") == 0);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fresh_processes_say_the_same),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
