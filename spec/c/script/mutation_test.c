// Random hostile scripts from a small grammar: none may crash the process, hurt the next pass, or end without
// a word: 20,000 in a release build, fewer in the slow ones. TIDELOCK_MUTATIONS=N runs that many,
// TIDELOCK_SEED=N from that seed (both are printed). ctest-labels: thread
#include <pthread.h>

#include "script/script_support.h"

#include "base/random.h"

#if defined(NDEBUG) && !defined(TIDELOCK_SANITIZED)
enum { ROUNDS = 20000 };
#else
enum { ROUNDS = 1500 };
#endif
enum { STACK_BYTES = 1024 * 1024, DEPTH = 5, TEXT_MAX = 6000 };

struct gen {
    struct random r;
    struct buf out;
};

static const char *pick(struct gen *g, const char *const *list, size_t n)
{
    return list[random_below(&g->r, n)];
}
#define PICK(g, list) pick(g, list, sizeof(list) / sizeof((list)[0]))

static void add(struct gen *g, const char *text)
{
    buf_add_str(&g->out, text);
}

static void add_expression(struct gen *g, int depth);
static void add_block(struct gen *g, int depth);

static void add_leaf(struct gen *g)
{
    static const char *const leaves[] = {"nil",
                                         "true",
                                         "false",
                                         "0",
                                         "-1",
                                         "1",
                                         "2",
                                         "1e3",
                                         "1e5",
                                         "1e10",
                                         "-1e300",
                                         "0/0",
                                         "1/0",
                                         "0.5",
                                         "2^53",
                                         "''",
                                         "'a'",
                                         "'%s'",
                                         "'%99.99f'",
                                         "'(.-)%1'",
                                         "'[^a'",
                                         "'a-a-a-b'",
                                         "'%b()'",
                                         "'\\0\\255'",
                                         "('x'):rep(1000)",
                                         "{}",
                                         "{1, 2, 3}",
                                         "{a = 1, b = {c = 2}}",
                                         "a",
                                         "b",
                                         "c",
                                         "f",
                                         "g",
                                         "object",
                                         "object.list",
                                         "object.metadata",
                                         "world",
                                         "world.env",
                                         "_G",
                                         "string",
                                         "table",
                                         "math.huge",
                                         "...",
                                         "k8s",
                                         "k8s.null",
                                         "k8s.array {}",
                                         "world.list('v1/Pod')[1]",
                                         "world.list('v1/Pod')[2].spec.big",
                                         "setmetatable({}, m)"};
    add(g, PICK(g, leaves));
}

static void add_call(struct gen *g, int depth)
{
    static const char *const functions[] = {"pcall",
                                            "xpcall",
                                            "error",
                                            "tostring",
                                            "tonumber",
                                            "next",
                                            "pairs",
                                            "ipairs",
                                            "select",
                                            "unpack",
                                            "type",
                                            "rawget",
                                            "rawset",
                                            "rawlen",
                                            "rawequal",
                                            "setmetatable",
                                            "getmetatable",
                                            "assert",
                                            "require",
                                            "string.find",
                                            "string.match",
                                            "string.gsub",
                                            "string.gmatch",
                                            "string.format",
                                            "string.rep",
                                            "string.sub",
                                            "string.byte",
                                            "string.char",
                                            "string.lower",
                                            "string.reverse",
                                            "table.insert",
                                            "table.remove",
                                            "table.concat",
                                            "table.sort",
                                            "table.maxn",
                                            "math.floor",
                                            "math.max",
                                            "math.fmod",
                                            "bit.band",
                                            "bit.lshift",
                                            "bit.tohex",
                                            "world.get",
                                            "world.list",
                                            "world.children",
                                            "world.log",
                                            "world.data",
                                            "world.secret_value",
                                            "f",
                                            "g",
                                            "k8s.retry",
                                            "k8s.invalid",
                                            "k8s.array",
                                            "k8s.condition",
                                            "k8s.event",
                                            "k8s.compare",
                                            "k8s.quantity",
                                            "k8s.copy",
                                            "a",
                                            "b"};
    add(g, PICK(g, functions));
    add(g, "(");
    uint64_t n = random_below(&g->r, 4);
    for (uint64_t i = 0; i < n; i++) {
        add(g, i > 0 ? ", " : "");
        add_expression(g, depth - 1);
    }
    add(g, ")");
}

static void add_binary(struct gen *g, int depth)
{
    static const char *const operators[] = {" .. ", " + ",  " - ", " * ",  " / ",   " % ", " ^ ",
                                            " == ", " ~= ", " < ", " <= ", " and ", " or "};
    add(g, "(");
    add_expression(g, depth - 1);
    add(g, PICK(g, operators));
    add_expression(g, depth - 1);
    add(g, ")");
}

static void add_expression(struct gen *g, int depth)
{
    if (depth <= 0 || g->out.len > TEXT_MAX) {
        add_leaf(g);
        return;
    }
    switch (random_below(&g->r, 9)) {
    case 0:
    case 1:
    case 2:
        add_call(g, depth);
        break;
    case 3:
        add_binary(g, depth);
        break;
    case 4:
        add(g, "(function(...) ");
        add_block(g, depth - 1);
        add(g, " end)");
        break;
    case 5:
        add(g, "(");
        add_expression(g, depth - 1);
        add(g, ")[");
        add_expression(g, depth - 1);
        add(g, "]");
        break;
    case 6:
        add(g, "{");
        add_expression(g, depth - 1);
        add(g, ", x = ");
        add_expression(g, depth - 1);
        add(g, "}");
        break;
    case 7:
        add(g, "#(");
        add_expression(g, depth - 1);
        add(g, ")");
        break;
    default:
        add_leaf(g);
    }
}

static void add_statement(struct gen *g, int depth)
{
    static const char *const names[] = {"a",
                                        "b",
                                        "c",
                                        "f",
                                        "g",
                                        "m.__index",
                                        "m.__newindex",
                                        "m.__call",
                                        "m.__tostring",
                                        "m.__lt",
                                        "m.__eq",
                                        "m.__concat",
                                        "m.__metatable",
                                        "m.__len",
                                        "m.__gc",
                                        "m.__mode",
                                        "object.spec",
                                        "object.list[1]",
                                        "_G.x",
                                        "string.rep"};
    static const char *const loops[] = {"while true do ", "for i = 1, 100 do ", "for i = 1, 1e9 do ",
                                        "repeat "};
    switch (random_below(&g->r, 7)) {
    case 0:
    case 1:
        add(g, PICK(g, names));
        add(g, " = ");
        add_expression(g, depth);
        break;
    case 2:
        add(g, "pcall(function(...) ");
        add_block(g, depth - 1);
        add(g, " end)");
        break;
    case 3: {
        const char *loop = PICK(g, loops);
        add(g, loop);
        add_block(g, depth - 1);
        add(g, loop[0] == 'r' ? " until false" : " end");
        break;
    }
    case 4:
        add(g, "for k, v in pairs({a, b, c, x = m}) do ");
        add_block(g, depth - 1);
        add(g, " end");
        break;
    default:
        add(g, "a = ");
        add_call(g, depth);
    }
    add(g, "; ");
}

static void add_block(struct gen *g, int depth)
{
    uint64_t n = depth > 0 && g->out.len < TEXT_MAX ? 1 + random_below(&g->r, 3) : 0;
    for (uint64_t i = 0; i < n; i++)
        add_statement(g, depth);
    if (random_below(&g->r, 3) == 0) {
        add(g, "do return ");
        add_expression(g, depth > 0 ? 1 : 0);
        add(g, " end");
    }
}

static void make_script(struct gen *g)
{
    buf_reset(&g->out);
    add(g, "return {subject = 'v1/Pod', reconcile = function(object, world, ...)\n"
           "local k8s = require 'tidelock'\n"
           "local a, b, c, m = {}, 'text', 3, {} local function f(...) return a end local g = function(...) "
           "return f(...) end\n"
           "f = function(...) ");
    add_block(g, DEPTH - 2);
    add(g, " end\n");
    for (uint64_t i = 1 + random_below(&g->r, 5); i > 0; i--) {
        bool guarded = random_below(&g->r, 4) > 0;
        add(g, guarded ? "pcall(function(...) " : "");
        add_statement(g, DEPTH);
        add(g, guarded ? "end)\n" : "\n");
    }
    add(g, "do return ");
    add_expression(g, 2);
    add(g, " end end}");
}

static uint64_t setting(const char *name, uint64_t absent)
{
    const char *text = getenv(name);
    return text != NULL ? strtoull(text, NULL, 10) : absent;
}

struct run {
    uint64_t seed, rounds;
    unsigned ends[PASS_CANCELED + 1], refused;
    char problem[TEXT_MAX * 4];
};

static size_t run_good(struct pass_runner *r, const struct program *p)
{
    struct fake_world w = {0};
    struct pass_output out;
    support_run(r, p, &w, NULL, &out);
    size_t peak = out.end == PASS_OK && strcmp(out.result.data, "{\"status\":{\"n\":\"xx\"}}") == 0
                      ? out.memory_peak
                      : 0;
    pass_output_fini(&out);
    return peak;
}

static void run_one(struct run *run, struct pass_runner *r, struct gen *g)
{
    struct program_options o = {.main = {"m.lua", g->out.data, g->out.len}};
    struct program *p;
    struct err e = {0};
    if (program_new(&o, &p, &e) < 0) {
        run->refused++;
        return;
    }
    struct fake_world w = {0};
    struct pass_output out;
    support_run(r, p, &w, &(struct pass_limits){.cpu_us = 2000, .memory = 1 << 20}, &out);
    run->ends[out.end]++;
    if (out.end > PASS_NIL && out.err.text[0] == 0)
        snprintf(run->problem, sizeof(run->problem), "ended %s without a word: %s", pass_end_name(out.end),
                 g->out.data);
    pass_output_fini(&out);
    program_unref(p);
}

static void *run_all(void *arg)
{
    struct run *run = arg;
    struct gen g;
    buf_init(&g.out, 1 << 20);
    random_init(&g.r, run->seed);
    struct pass_runner *r = pass_runner_new(NULL);
    struct program *good = support_program("return {status = {n = string.rep('x', 2)}}");
    size_t before = run_good(r, good);
    for (uint64_t i = 0; i < run->rounds && run->problem[0] == 0; i++) {
        make_script(&g);
        if (getenv("TIDELOCK_MUTATIONS_PRINT") != NULL)
            fprintf(stderr, "--- %d\n%s\n", (int)i, g.out.data);
        run_one(run, r, &g);
        if (run_good(r, good) != before)
            snprintf(run->problem, sizeof(run->problem), "the next pass differs after: %s", g.out.data);
    }
    program_unref(good);
    pass_runner_free(r);
    buf_fini(&g.out);
    return NULL;
}

static void test_mutations(void **state)
{
    (void)state;
    struct run *run = calloc(1, sizeof(*run));
    run->seed = setting("TIDELOCK_SEED", 42);
    run->rounds = setting("TIDELOCK_MUTATIONS", ROUNDS);
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, &attr, run_all, run), 0);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    print_message("seed %llu, %llu scripts, %u refused:", (unsigned long long)run->seed,
                  (unsigned long long)run->rounds, run->refused);
    for (int i = 0; i <= PASS_CANCELED; i++)
        print_message(" %s %u", pass_end_name((enum pass_end)i), run->ends[i]);
    print_message("\n");
    bool bad = run->problem[0] != 0;
    if (bad)
        print_error("%s\n", run->problem);
    free(run);
    assert_false(bad);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
