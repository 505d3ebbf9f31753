// What a script's `limits` give its passes, and that all memory which a pass makes the host take is within
// them: what the library holds in C too.
#include "script/script_support.h"

#include <fcntl.h>
#include <unistd.h>

enum {
    MEBIBYTE = 1024 * 1024,
    HARD_FACTOR = 4,
    UNCOUNTED = 6 * MEBIBYTE, // what the parser of YAML has of a text, and malloc on top
};

static struct program *program_with(const char *limits, const char *body)
{
    char *text = xasprintf(
        "return {subject = 'v1/ConfigMap', limits = {%s}, when = function(object, world)\n%s\nend,\n"
        "reconcile = function(object, world)\n%s\nend}",
        limits, body, body);
    struct program_options o = {.main = {"t.lua", text, strlen(text)}};
    struct program *p = NULL;
    struct err e = {0};
    if (program_new(&o, &p, &e) < 0)
        fail_msg("%s\nin: %s", e.text, text);
    free(text);
    return p;
}

static void run(const struct program *p, const char *entry, const struct world_ops *ops,
                const struct pass_limits *limits, struct pass_output *ret)
{
    struct pass_runner *r = pass_runner_new(NULL);
    struct fake_world w = {0};
    struct pass_input in = {.program = p,
                            .entry = entry,
                            .object_json = fake_subject,
                            .object_len = strlen(fake_subject),
                            .world = ops,
                            .ud = &w};
    if (strcmp(entry, "when") == 0) {
        in.old_json = fake_subject;
        in.old_len = in.object_len;
    }
    if (limits != NULL)
        in.limits = *limits;
    pass_run(r, &in, ret);
    pass_runner_free(r);
}

static void expect(const char *limits, const char *entry, const char *body, enum pass_end end,
                   const char *text)
{
    struct program *p = program_with(limits, body);
    struct pass_output out;
    run(p, entry, &fake_ops, NULL, &out);
    if (out.end != end || (text != NULL && strstr(out.err.text, text) == NULL))
        fail_msg("limits = {%s}: %s: %s, not %s %s", limits, pass_end_name(out.end), out.err.text,
                 pass_end_name(end), text != NULL ? text : "");
    pass_output_fini(&out);
    program_unref(p);
}

// About 7.5 million instructions: more than 100 ms are, fewer than 250 ms.
static const char long_loop[] = "local n = 0 for i = 1, 2500000 do n = n + i % 7 end return nil";
// About 24 MiB that live at once.
static const char large_table[] =
    "local t = {} for i = 1, 24 do t[i] = ('x'):rep(2^20 - 100) .. i end return nil";

static void test_cpu(void **state)
{
    (void)state;
    static const char told[] =
        "the script used up its CPU budget of 100 ms: do less in one pass, or ask for more by "
        "limits = { cpu = ... }";
    expect("", "reconcile", long_loop, PASS_DEADLINE, told);
    expect("cpu = '250ms'", "reconcile", long_loop, PASS_NIL, NULL);
    expect("cpu = 0.25", "reconcile", long_loop, PASS_NIL, NULL);
    expect("cpu = '20ms'", "reconcile", long_loop, PASS_DEADLINE, "CPU budget of 20 ms");
    expect("", "when", long_loop, PASS_DEADLINE, told);
    expect("cpu = '250ms'", "when", "local n = 0 for i = 1, 2500000 do n = n + i % 7 end return true",
           PASS_OK, NULL);
}

// Inline the count of instructions grows with the budget: a loop without end is stopped where it is used up.
static void test_the_count_grows_with_the_budget(void **state)
{
    (void)state;
    static const uint64_t ms[] = {10, 100, 400};
    for (size_t i = 0; i < sizeof(ms) / sizeof(ms[0]); i++) {
        char *limits = xasprintf("cpu = '%dms'", (int)ms[i]);
        struct program *p = program_with(limits, "while true do end");
        struct pass_output out;
        run(p, "reconcile", &fake_ops, NULL, &out);
        assert_int_equal(out.end, PASS_DEADLINE);
        assert_true(out.cpu_us >= ms[i] * 1000 && out.cpu_us < ms[i] * 1000 + 100);
        pass_output_fini(&out);
        program_unref(p);
        free(limits);
    }
}

static void test_memory(void **state)
{
    (void)state;
    expect("", "reconcile", large_table, PASS_MEMORY,
           "memory budget of 16384 KiB: use less at once, or ask for more by limits = { memory = ... }");
    expect("memory = '48Mi'", "reconcile", large_table, PASS_NIL, NULL);
    expect("memory = 48 * 2^20", "reconcile", large_table, PASS_NIL, NULL);
    expect("memory = '2Mi'", "reconcile",
           "local t = {} for i = 1, 4 do t[i] = ('x'):rep(2^20 - 1) .. i end return nil", PASS_MEMORY,
           "memory budget of 2048 KiB");
}

// Both at once, and who runs the pass has the last word.
static void test_who_decides(void **state)
{
    (void)state;
    struct program *p = program_with("cpu = '250ms', memory = '48Mi'", long_loop);
    struct pass_output out;
    run(p, "reconcile", &fake_ops, &(struct pass_limits){.cpu_us = 50000}, &out);
    assert_int_equal(out.end, PASS_DEADLINE);
    pass_output_fini(&out);
    program_unref(p);
}

// A main chunk has the default, whatever its table asks for: it is not known yet.
static void test_main_chunks_have_the_default(void **state)
{
    (void)state;
    static const char text[] =
        "local n = 0 for i = 1, 2500000 do n = n + i % 7 end\n"
        "return {subject = 'v1/Pod', limits = {cpu = '1s'}, reconcile = function() end}";
    struct program_options o = {.main = {"t.lua", text, strlen(text)}};
    struct program *p = NULL;
    struct err e = {0};
    assert_int_equal(program_new(&o, &p, &e), -ERR_LIMIT);
    assert_non_null(strstr(e.text,
                           "the script used up its CPU budget of 100 ms: a main chunk has the same budget in "
                           "every script; let it only build its table"));
}

// ---- memory outside of the state

// Of the process, in bytes: "VmHWM:" is the most since reset_peak, "VmRSS:" what there is.
static size_t process_memory(const char *what)
{
    char line[256];
    size_t kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    assert_non_null(f);
    while (fgets(line, sizeof(line), f) != NULL) {
        if (strncmp(line, what, strlen(what)) == 0)
            kib = strtoul(line + strlen(what), NULL, 10);
    }
    fclose(f);
    assert_true(kib > 0);
    return kib * 1024;
}

static void reset_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY);
    assert_true(fd >= 0 && write(fd, "5", 1) == 1);
    close(fd);
}

enum { MANY = 200000 };

static int many_pods(void *ud, const struct world_query *q, struct world_list *ret, struct err *e)
{
    static struct world_object items[MANY];
    (void)ud, (void)q, (void)e;
    for (size_t i = 0; i < MANY; i++)
        items[i] = (struct world_object){fake_pod_a, strlen(fake_pod_a)};
    *ret = (struct world_list){items, MANY};
    return 0;
}

#define LIBRARY                                                                                              \
    "local json, yaml, base64 = require 'tidelock.json', require 'tidelock.yaml', require "                  \
    "'tidelock.base64'\n"                                                                                    \
    "local function times(s, n) local t = {} for i = 1, n do t[i] = s end return table.concat(t) end\n"

static const struct {
    const char *name, *body;
} hungry[] = {
    {"a long list in JSON", "local s = '[1' .. times((',1'):rep(2^19), 7) .. ']' return #json.decode(s)"},
    {"many documents kept",
     "local t, s = {}, '[' .. ('[],'):rep(2^18) .. '1]' for i = 1, 1e6 do t[i] = json.decode(s) end"},
    {"an alias bomb",
     "local t = {'a: &a [' .. ('1,'):rep(1000) .. '1]'} for i = 1, 26 do local c = ('*' .. "
     "string.char(96 + i) .. ' , '):rep(9) t[#t + 1] = string.char(97 + i) .. ': &' .. "
     "string.char(97 + i) .. ' [' .. c .. ']' end return #yaml.decode(table.concat(t, '\\n'))"},
    {"many keys in YAML", "local t = {} for i = 1, 90000 do t[i] = 'k' .. i .. ':' end return "
                          "yaml.decode(table.concat(t, '\\n'))"},
    {"many anchors", "local t = {} for i = 1, 60000 do t[i] = '- &a' .. i .. ' x' end local s = "
                     "table.concat(t, '\\n') local k = {} "
                     "for i = 1, 1e6 do k[i] = yaml.decode(s) end"},
    {"a YAML text kept", "local t, s = {}, ('- x\\n'):rep(2^17) for i = 1, 1e6 do t[i] = yaml.decode(s) end"},
    {"YAML of a long list",
     "local t = {} for i = 1, 2^18 do t[i] = 1 end for i = 1, 1e6 do t.s = nil yaml.encode(t) end"},
    {"JSON of many keys", "local t = {} for i = 1, 2^17 do t['k' .. i] = i end local k = {} for i = 1, 1e6 "
                          "do k[i] = json.encode(t) "
                          ".. i end"},
    {"base64",
     "local t, s = {}, times(('x'):rep(2^20), 5) for i = 1, 1e6 do t[i] = base64.encode(s) .. i end"},
    {"long lists of objects", "while true do world.list('v1/Pod') end"},
    {"many reads", "for i = 1, 1e9 do world.get('v1/Pod', 'p' .. i) end"},
};

// Whatever a script makes the library do: the process never has more for it than the hard limit, and nothing
// stays.
static void test_no_call_takes_more_than_the_hard_limit(void **state)
{
    (void)state;
#ifdef TIDELOCK_SANITIZED
    enum { BUDGETS = 1 }; // slow, and its own memory is in the process
#else
    enum { BUDGETS = 3 };
#endif
    static const size_t budgets[] = {1, 4, 16};
    struct world_ops ops = fake_ops;
    ops.list = many_pods;
    for (size_t i = 0; i < sizeof(hungry) / sizeof(hungry[0]) * BUDGETS; i++) {
        size_t budget = budgets[i % BUDGETS] * MEBIBYTE;
        size_t hard = budget * HARD_FACTOR < 4 * MEBIBYTE ? 4 * MEBIBYTE : budget * HARD_FACTOR;
        char *body = xasprintf(LIBRARY "%s", hungry[i / BUDGETS].body);
        char *limits = xasprintf("cpu = '1s', memory = %d", (int)budget);
        struct program *p = program_with(limits, body);
        struct pass_output out;
        reset_peak();
        size_t before = process_memory("VmRSS:");
        run(p, "reconcile", &ops, NULL, &out);
        size_t most = process_memory("VmHWM:");
        if (out.memory_peak > hard || (budget == MEBIBYTE && out.end != PASS_MEMORY))
            fail_msg("%s, %zu MiB: %s with %zu KiB: %s", hungry[i / BUDGETS].name, budgets[i % BUDGETS],
                     pass_end_name(out.end), out.memory_peak / 1024, out.err.text);
#ifndef TIDELOCK_SANITIZED
        if (most > before + hard + UNCOUNTED)
            fail_msg("%s, %zu MiB: the process grew by %zu KiB: %s", hungry[i / BUDGETS].name,
                     budgets[i % BUDGETS], (most - before) / 1024, out.err.text);
#endif
        print_message("%-22s %2zu MiB: %s, counted %6zu KiB, process %6zd KiB\n", hungry[i / BUDGETS].name,
                      budgets[i % BUDGETS], pass_end_name(out.end), out.memory_peak / 1024,
                      (ssize_t)(most - before) / 1024);
        pass_output_fini(&out);
        program_unref(p);
        free(limits);
        free(body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cpu),
        cmocka_unit_test(test_the_count_grows_with_the_budget),
        cmocka_unit_test(test_memory),
        cmocka_unit_test(test_who_decides),
        cmocka_unit_test(test_main_chunks_have_the_default),
        cmocka_unit_test(test_no_call_takes_more_than_the_hard_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
