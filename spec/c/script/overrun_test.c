// How late a script that overruns is stopped by the wall's clock, less the time in which its thread could
// have run and others did. hostile_test.c measures the CPU time of the thread; this is the second opinion,
// which counts what a pass sleeps and waits, too.
// ctest-labels: thread deadline
#include <time.h>

#include "script/script_support.h"

#include "script/budget.h"
#include "script/witness.h"

enum {
    CPU_US = 100000,
    LATE_US = 50000,
    TRIES = 3, // what others do with caches and memory makes one pass longer, not each
};

static uint64_t wall_us(void)
{
    return witness_clock_us(CLOCK_MONOTONIC);
}

// For how long this thread has waited for a processor since it began; 0 where the kernel does not tell.
static uint64_t thread_waited_us(void)
{
    unsigned long long ran = 0, waited = 0;
    FILE *f = fopen("/proc/thread-self/schedstat", "r");
    if (f == NULL)
        return 0;
    bool told = fscanf(f, "%llu %llu", &ran, &waited) == 2;
    fclose(f);
    return told ? waited / 1000 : 0;
}

// How late a pass ends by the wall; it must end by its deadline.
static uint64_t overrun(struct pass_runner *r, struct witness *witness, const char *body)
{
    struct program *p = support_program(body);
    struct fake_world w = {0};
    struct pass_output out;
    struct witness_pass watched;
    witness_begin(witness, &watched, CPU_US);
    uint64_t began = wall_us() - thread_waited_us();
    support_run(r, p, &w, &(struct pass_limits){.cpu_us = CPU_US, .log_lines = 1000000, .log_bytes = 1 << 30},
                &out);
    uint64_t took = wall_us() - thread_waited_us() - began;
    uint64_t allowed = CPU_US + witness_end(witness, &watched);
    if (out.end != PASS_DEADLINE)
        fail_msg("ended %s: %s\nin: %s", pass_end_name(out.end), out.err.text, body);
    pass_output_fini(&out);
    program_unref(p);
    return took > allowed ? took - allowed : 0;
}

static void test_stopped_in_time_by_the_wall(void **state)
{
    static const char *const bodies[] = {
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "while true do xpcall(error, function() while true do end end) end",
        "local t = setmetatable({}, {__index = function() while true do end end}) return t.x",
        "error(setmetatable({}, {__tostring = function() while true do end end}))",
        "('x'):gsub('x', function() while true do end end)",
        "local t = {} for i = 1, 1e5 do t[i] = i % 7 end while true do table.sort(t, rawequal) end",
        "local s = ('a'):rep(1e6) while true do s:find(('a'):rep(5e5) .. 'b', 1, true) end",
        "while true do pcall(string.find, ('a'):rep(200), 'a-a-a-a-b') end",
        "local t = {} for i = 1, 1e5 do t[i] = 'x' end while true do table.concat(t, ',') end",
        "local s = '[' .. ('1,'):rep(3e5) .. '1]' while true do require('tidelock.json').decode(s) end",
        "while true do local t = {{}, {}, {}} end",
        "local function f() return pcall(f) end f() while true do end",
        "while true do world.log('debug', 'x', {a = 1}) end",
    };
    (void)state;
    support_skip_without_signals();
    struct watchdog *w = watchdog_new();
    struct witness *witness = witness_new();
    struct pass_runner *r = pass_runner_new(w);
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        uint64_t late = UINT64_MAX;
        for (int tries = 0; tries < TRIES && late > LATE_US; tries++)
            late = overrun(r, witness, bodies[i]);
        if (late > LATE_US)
            fail_msg("ended %llu us late, %d times\nin: %s", (unsigned long long)late, TRIES, bodies[i]);
    }
    pass_runner_free(r);
    witness_free(witness);
    watchdog_free(w);
}

static int slow_get(void *ud, const char *kind, const char *name, const char *ns, struct world_object *ret,
                    struct err *e)
{
    struct timespec a_while = {.tv_nsec = 5 * 1000 * 1000};
    (void)ud, (void)kind, (void)name, (void)ns, (void)ret, (void)e;
    nanosleep(&a_while, NULL);
    return 0;
}

// A pass that takes next to no CPU time may still not hold its worker for longer than ten times its budget.
static void test_a_pass_that_waits_is_stopped(void **state)
{
    enum { BUDGET_US = 20000, WALL_US = 10 * BUDGET_US };
    (void)state;
    support_skip_without_signals();
    struct watchdog *w = watchdog_new();
    struct pass_runner *r = pass_runner_new(w);
    struct program *p = support_program("while true do pcall(world.get, 'v1/Pod', 'a') end");
    struct world_ops ops = fake_ops;
    ops.get = slow_get;
    struct pass_input in = {.program = p,
                            .entry = "reconcile",
                            .object_json = fake_subject,
                            .object_len = strlen(fake_subject),
                            .world = &ops,
                            .limits = {.cpu_us = BUDGET_US}};
    struct pass_output out;
    uint64_t began = wall_us();
    pass_run(r, &in, &out);
    uint64_t took = wall_us() - began;
    assert_int_equal(out.end, PASS_DEADLINE);
    assert_true(out.cpu_us < BUDGET_US);
    assert_true(took >= WALL_US);
    pass_output_fini(&out);
    program_unref(p);
    pass_runner_free(r);
    watchdog_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stopped_in_time_by_the_wall),
        cmocka_unit_test(test_a_pass_that_waits_is_stopped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
