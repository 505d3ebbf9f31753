// One call into C that takes longer than a pass may: it is stopped in its middle. With the most memory that a
// host gives by default, and CPU time of the thread as in hostile_support.h. ctest-labels: thread deadline
#include "script/script_support.h"

#include "script/budget.h"

enum { CPU_US = 100000, LATE_US = 50000, MEMORY = 64 << 20 };

// Keys in a table.
#define MANY "local t = {} for i = 1, 4e5 do t[i * 7919 % 1000003 + 0.5] = i end "
#define NAMES "local t = {} for i = 1, 3e5 do t['k' .. i * 7919 % 1000003] = i end "
#define JSON "local j = require 'tidelock.json' "
#define YAML "local y = require 'tidelock.yaml' "

static const char *const bodies[] = {
    MANY "while true do for k in pairs(t) do break end end",
    MANY "while true do next(t) end",
    MANY "while true do next(t, 0.5) pcall(next, t) end",
    NAMES "while true do for k in pairs(t) do break end end",
    NAMES JSON "while true do j.encode(t) end",
    NAMES "return {status = t}",
    NAMES "error(t)",
    NAMES "world.log('info', 'x', t)",
    NAMES "world.list('v1/Pod', {labels = t})",
    NAMES
    "local n = next(t) for k in pairs(t) do if k ~= n then t[k] = nil end end while true do pairs(t)(t) end",
    "local t = {} for i = 1, 2e6 do t[i] = i end for k in pairs(t) do t[k] = nil end",
    "local t = {} for i = 1, 2e6 do t[i] = false end while true do pairs(t) end",
    JSON "local s = '[' .. ('{},'):rep(3e5) .. '{}]' while true do j.decode(s) end",
    JSON "local s = '[' .. ('null,'):rep(2e5) .. '1]' while true do j.decode(s) end",
    JSON "local s = '[' .. ('[[[1,2]]],'):rep(1e5) .. '1]' while true do j.decode(s) end",
    JSON "local p = {} for i = 1, 2e5 do p[i] = '\"' .. i .. '\":null' end "
         "local s = '{' .. table.concat(p, ',') .. '}' while true do j.decode(s) end",
    YAML "local s = ('- a\\n'):rep(2.6e5) while true do y.decode(s) end",
    YAML "local s = '[' .. ('[a],'):rep(2e5) .. 'a]' while true do y.decode(s) end",
    YAML "local p = {'m: &m {'} for i = 1, 2e4 do p[#p + 1] = 'k' .. i .. ': 1,' end p[#p + 1] = '}\\n' "
         "for i = 1, 60 do p[#p + 1] = 'c' .. i .. ': {<<: *m}\\n' end "
         "local s = table.concat(p) while true do y.decode(s) end",
    YAML "local t = {} for i = 1, 2e5 do t[i] = 1 end for i = 1, 900 do t = {t} end while true do "
         "pcall(y.encode, t) end",
    YAML "local t = {} for i = 1, 1e5 do t[i] = {i} end while true do y.encode(t) end",
    YAML "local p = {} for i = 1, 6e4 do p[i] = '%TAG !' .. i .. '! x\\n' end "
         "local s = table.concat(p) while true do pcall(y.decode, s) end",
    JSON "local s = '\\195\\164' for i = 1, 23 do s = s .. s end while true do pcall(j.encode, s) end",
    "local s = ('1h'):rep(5e5) for i = 1, 4 do s = s .. s end "
    "local d = require('tidelock').duration while true do pcall(d, s) end",
    "local s = ('%%'):rep(5e5) s = s .. s .. s .. s while true do s:format() end",
    "local s = ('%%'):rep(5e5) s = s .. s .. s .. s while true do ('x'):gsub('x', s) end",
};

static void test_stopped_in_time(void **state)
{
    (void)state;
    support_skip_without_signals();
    struct watchdog *w = watchdog_new();
    struct pass_runner *r = pass_runner_new(w);
    unsigned problems = 0;
    for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) {
        struct program *p = support_program(bodies[i]);
        struct fake_world world = {0};
        struct pass_output out;
        support_run(r, p, &world, &(struct pass_limits){.cpu_us = CPU_US, .memory = MEMORY}, &out);
        if (out.end != PASS_DEADLINE || out.cpu_us > CPU_US + LATE_US) {
            print_error("ended %s: %s, after %llu us\nin: %s\n", pass_end_name(out.end), out.err.text,
                        (unsigned long long)out.cpu_us, bodies[i]);
            problems++;
        }
        pass_output_fini(&out);
        program_unref(p);
    }
    pass_runner_free(r);
    watchdog_free(w);
    assert_int_equal(problems, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stopped_in_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
