// The budget that a script asks for, in a whole host: within the ceilings its passes have it, above them it
// is not taken.

#include "run/source/script.h"
#include "things.h"

// More than the defaults give, less than what is asked for below.
#define WORK "local n = 0 for i = 1, 2500000 do n = n + i % 7 end return { apply = { cm('c', 'done') } }"
#define HOLD                                                                                                 \
    "local t = {} for i = 1, 24 do t[i] = ('x'):rep(2^20 - 100) .. i end return { apply = { cm('c', "        \
    "'done') } }"

static void run_with(struct sim *s, const char *body, const char *limits)
{
    char *rest = xasprintf("limits = { %s }", limits);
    things_start(s, body, rest);
    free(rest);
    things_put(s, "a", "{}");
    things_settle(s);
}

static void expect_done(const char *body, const char *limits)
{
    struct sim s;
    run_with(&s, body, limits);
    assert_string_equal(things_value(&s, "default", "c"), "done");
    assert_int_equal(things_events(&s, "default", "ScriptOverrun", NULL), 0);
    sim_fini(&s);
}

static void expect_overrun(const char *body, const char *limits, const char *told)
{
    struct sim s;
    run_with(&s, body, limits);
    assert_string_equal(things_value(&s, "default", "c"), "absent");
    assert_true(things_events(&s, "default", "ScriptOverrun", told) > 0);
    sim_fini(&s);
}

static void a_larger_budget_is_given(void **unused)
{
    (void)unused;
    expect_overrun(WORK, "",
                   "CPU budget of 100 ms: do less in one pass, or ask for more by limits = { cpu = ... }");
    expect_done(WORK, "cpu = '250ms'");
    expect_done(WORK, "cpu = '1s'"); // the ceiling itself
    expect_overrun(HOLD, "cpu = '1s'",
                   "memory budget of 16384 KiB: use less at once, or ask for more by limits = ");
    expect_done(HOLD, "memory = '48Mi'");
    expect_done(HOLD, "memory = '64Mi'");
}

static void a_predicate_has_it_too(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s, "return { apply = { cm('c', o.spec.v) } }",
                 "limits = { cpu = '250ms' }, when = function(old, new)\n"
                 "local n = 0 for i = 1, 2500000 do n = n + i % 7 end return new.spec.v ~= 'no' end");
    things_put(&s, "a", "{\"v\":\"1\"}");
    things_settle(&s);
    things_put(&s, "a", "{\"v\":\"no\"}");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "c"), "1"); // an overrun would have counted as a yes
    assert_int_equal(things_events(&s, "default", "PredicateError", NULL), 0);
    sim_fini(&s);
}

// What C does for a script counts too: here it reads fields of objects.
static void a_list_by_fields_has_it(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s,
                 "local n = 0 for i = 1, 20 do\n"
                 "  n = n + #world.list('v1/ConfigMap', { fields = 'data.x!=none' })\n"
                 "end return { apply = { cm('c', 'done') } }",
                 "limits = { cpu = '5ms' }");
    for (int i = 0; i < 100; i++) {
        char *object = xasprintf("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{"
                                 "\"namespace\":\"default\",\"name\":\"m%d\"}}",
                                 i);
        sim_apply(&s, "user", object);
        free(object);
    }
    things_put(&s, "a", "{}");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "c"), "absent");
    assert_true(things_events(&s, "default", "ScriptOverrun", "CPU budget of 5 ms") > 0);
    sim_fini(&s);
}

static void above_the_ceiling_it_is_refused(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s, "return { apply = { cm('c', 'before') } }", "");
    things_put(&s, "a", "{}");
    things_settle(&s);
    things_put_script(&s, "return { apply = { cm('c', 'after') } }", "limits = { cpu = '1001ms' }");
    things_settle(&s);
    assert_true(things_events(
                    &s, "tidelock-system", "ScriptInvalid",
                    "things.lua: limits.cpu: asks for 1.001s, but this host gives a pass 1s at most: ask for "
                    "less, or start the host with a larger --max-pass-cpu (the version before goes on)") ==
                1);
    things_put_script(&s, "return { apply = { cm('c', 'after') } }", "limits = { memory = '65Mi' }");
    things_settle(&s);
    assert_true(
        things_events(
            &s, "tidelock-system", "ScriptInvalid",
            "things.lua: limits.memory: asks for 65Mi, but this host gives a pass 64Mi at most: ask for "
            "less, or start the host with a larger --max-pass-memory") == 1);
    assert_string_equal(things_value(&s, "default", "c"), "before");
    things_put_script(&s, "return { apply = { cm('c', 'after') } }",
                      "limits = { cpu = '1s', memory = '64Mi' }");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "c"), "after");
    sim_fini(&s);
}

// Another host's ceilings, lower and higher.
static void the_operator_decides(void **unused)
{
    static const struct {
        const char *table;
        uint64_t cpu_us;
        size_t memory;
        const char *told; // NULL: it is taken
    } rows[] = {
        {"cpu = '3s', memory = '200Mi'", 3000000, 200 << 20, NULL},
        {"cpu = '3s'", 2500000, 200 << 20,
         "limits.cpu: asks for 3s, but this host gives a pass 2.5s at most"},
        {"memory = '17Mi'", 3000000, 16 << 20,
         "limits.memory: asks for 17Mi, but this host gives a pass 16Mi at most"},
        {"memory = '16Mi'", 3000000, 16 << 20, NULL},
        {"", 100000, 16 << 20, NULL},
    };
    (void)unused;
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        struct script_host host = {.instance = "t",
                                   .max_pass_cpu_us = rows[i].cpu_us,
                                   .max_pass_memory = rows[i].memory,
                                   .grants = grants_new()};
        char *text = xasprintf("return { subject = 'v1/Pod', reconcile = function() end, limits = { %s } }",
                               rows[i].table);
        struct program_options o = {.main = {"own.lua", text, strlen(text)}};
        struct program *p;
        struct script *script = NULL;
        struct err e = {0};
        assert_int_equal(program_new(&o, &p, &e), 0);
        assert_int_equal(script_new(&host, "ns", "here", p, &script, &e),
                         rows[i].told == NULL ? 0 : -ERR_LIMIT);
        if (rows[i].told != NULL)
            assert_non_null(strstr(e.text, rows[i].told));
        script_unref(script);
        grants_free((struct grants *)host.grants);
        free(text);
    }
}

static double passes_within(struct sim *s, const char *bytes)
{
    char *series = xasprintf("tidelock_pass_memory_bytes_bucket{controller=\"things\",le=\"%s\"}", bytes);
    double n = things_metric(s, series);
    free(series);
    return n;
}

static void memory_is_a_metric(void **unused)
{
    struct sim s;
    (void)unused;
    run_with(&s, HOLD, "memory = '48Mi'");
    double passes = things_metric(&s, "tidelock_pass_memory_bytes_count{controller=\"things\"}");
    assert_true(passes >= 1);
    assert_true(things_metric(&s, "tidelock_pass_memory_bytes_sum{controller=\"things\"}") >=
                passes * (24 << 20));
    assert_true(passes_within(&s, "16777216") == 0);
    assert_true(passes_within(&s, "67108864") == passes);
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_larger_budget_is_given), cmocka_unit_test(a_predicate_has_it_too),
        cmocka_unit_test(a_list_by_fields_has_it),  cmocka_unit_test(above_the_ceiling_it_is_refused),
        cmocka_unit_test(the_operator_decides),     cmocka_unit_test(memory_is_a_metric),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
