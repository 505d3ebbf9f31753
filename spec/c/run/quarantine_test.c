// The rules of quarantine and share as plain values, then a whole host: scripts that overrun, exhaust memory
// or fail, beside others that do not.

#include "run/controller/quarantine.h"
#include "run/controller/share.h"
#include "run/workqueue/pass_job.h"
#include "things.h"

enum { SECOND = 1000, MINUTE = 60 * SECOND };

// ---- the rules

static enum quarantine_turn note(struct quarantine *q, enum quarantine_verdict v, uint64_t key, uint64_t ms)
{
    struct quarantine_pass p = {.verdict = v, .key = key, .begun_ms = ms};
    return quarantine_note(q, &p, ms);
}

static void overruns_in_a_row(void **unused)
{
    struct quarantine q = {0};
    (void)unused;
    for (uint64_t ms = 1; ms < 5; ms++)
        assert_int_equal(note(&q, VERDICT_OVERRUN, 1, ms), QUARANTINE_SAME);
    assert_int_equal(note(&q, VERDICT_SUCCESS, 2, 5), QUARANTINE_SAME); // begins anew
    for (uint64_t ms = 6; ms < 10; ms++)
        assert_int_equal(note(&q, VERDICT_OVERRUN, 1, ms), QUARANTINE_SAME);
    assert_int_equal(note(&q, VERDICT_NONE, 1, 10), QUARANTINE_SAME);
    assert_int_equal(note(&q, VERDICT_ERROR, 1, 11), QUARANTINE_BEGINS); // counts too
    assert_true(q.on);
    assert_int_equal(q.until_ms, 11 + 10 * SECOND);
    assert_false(quarantine_admits_changes(&q));
}

static void intervals_double(void **unused)
{
    struct quarantine q = {0};
    uint64_t expected = 10 * SECOND, now = 1;
    (void)unused;
    note(&q, VERDICT_STUCK, 1, now); // at once
    for (int i = 0; i < 10; i++) {
        assert_int_equal(q.until_ms - now, expected < 10 * MINUTE ? expected : 10 * MINUTE);
        now = q.until_ms;
        expected *= 2;
        assert_int_equal(note(&q, VERDICT_OVERRUN, 1, now), QUARANTINE_BEGINS);
    }
    assert_int_equal(note(&q, VERDICT_SUCCESS, 1, q.until_ms), QUARANTINE_ENDS);
    now = q.ended_ms;
    note(&q, VERDICT_STUCK, 1, now + MINUTE); // soon again: no short interval
    assert_int_equal(q.until_ms - q.since_ms, 10 * MINUTE);
    assert_int_equal(note(&q, VERDICT_SUCCESS, 1, q.until_ms), QUARANTINE_ENDS);
    note(&q, VERDICT_STUCK, 1, q.ended_ms + 11 * MINUTE);
    assert_int_equal(q.until_ms - q.since_ms, 10 * SECOND);
}

static void what_began_before_says_nothing(void **unused)
{
    struct quarantine q = {0};
    struct quarantine_pass late = {.verdict = VERDICT_SUCCESS, .key = 2, .begun_ms = 99};
    (void)unused;
    note(&q, VERDICT_STUCK, 1, 100);
    assert_int_equal(quarantine_note(&q, &late, 150), QUARANTINE_SAME);
    late.verdict = VERDICT_OVERRUN;
    assert_int_equal(quarantine_note(&q, &late, 150), QUARANTINE_SAME);
    assert_int_equal(q.until_ms, 100 + 10 * SECOND);
}

static void errors_need_several_keys(void **unused)
{
    struct quarantine q = {0};
    (void)unused;
    for (uint64_t ms = 1; ms < 100; ms++)
        assert_int_equal(note(&q, VERDICT_ERROR, 1, ms), QUARANTINE_SAME);
    assert_int_equal(note(&q, VERDICT_ERROR, 2, 100), QUARANTINE_BEGINS);
    assert_true(quarantine_admits_changes(&q));
    assert_int_equal(note(&q, VERDICT_ERROR, 1, 5000),
                     QUARANTINE_SAME); // before its time: for a changed input
    assert_int_equal(q.until_ms, 100 + 10 * SECOND);
    assert_int_equal(note(&q, VERDICT_OVERRUN, 1, 6000), QUARANTINE_BEGINS);
    assert_false(quarantine_admits_changes(&q));
}

// Errors of key 1, every second from `ms` on; at which of them (from 1) the quarantine begins, 0: at none
// of 30.
static int errors_of_one(struct quarantine *q, uint64_t ms, bool paced)
{
    for (int i = 1; i <= 30; i++, ms += SECOND) {
        struct quarantine_pass p = {.verdict = VERDICT_ERROR, .key = 1, .begun_ms = ms, .paced = paced};
        if (quarantine_note(q, &p, ms) == QUARANTINE_BEGINS)
            return i;
    }
    return 0;
}

static void errors_of_a_key_alone(void **unused)
{
    struct quarantine q = {0};
    (void)unused;
    assert_int_equal(errors_of_one(&q, 1, true), 0); // as often as the script wants it
    q = (struct quarantine){0};
    assert_int_equal(errors_of_one(&q, 1, false), 11); // after 10 s
    assert_true(quarantine_admits_changes(&q));
    assert_int_equal(note(&q, VERDICT_ERROR, 1, q.until_ms), QUARANTINE_BEGINS);
    assert_int_equal(q.until_ms - q.since_ms, 20 * SECOND);
    q = (struct quarantine){0};
    note(&q, VERDICT_SUCCESS, 1, 1); // it went through once itself
    assert_int_equal(errors_of_one(&q, 2, false), 11);
    q = (struct quarantine){0};
    note(&q, VERDICT_SUCCESS, 2, 1); // another one did
    assert_int_equal(errors_of_one(&q, 2, false), 0);
    q = (struct quarantine){0};
    note(&q, VERDICT_SUCCESS, 2, 1);
    note(&q, VERDICT_SUCCESS, 1, 2);
    assert_int_equal(errors_of_one(&q, 3, false), 0);
}

static void a_share_refills(void **unused)
{
    struct share s;
    (void)unused;
    share_init(&s, 6 * 1000 * 1000, 0); // 100 ms a second
    share_spend(&s, 6 * 1000 * 1000, 0);
    assert_int_equal(share_due_ms(&s, 0), 0);
    share_spend(&s, 1000 * 1000, 0);
    assert_int_equal(share_due_ms(&s, 0), 10 * SECOND);
    assert_int_equal(share_due_ms(&s, 4 * SECOND), 10 * SECOND);
    assert_int_equal(share_due_ms(&s, 10 * SECOND), 10 * SECOND);
    for (uint64_t ms = 10 * SECOND; ms < 11 * SECOND; ms++) // in small portions nothing is lost
        share_spend(&s, 100, ms);
    assert_int_equal(share_due_ms(&s, 11 * SECOND), 11 * SECOND);
    share_spend(&s, UINT64_MAX, 11 * SECOND); // a minute is waited for at most
    assert_int_equal(share_due_ms(&s, 11 * SECOND), 71 * SECOND);
    share_spend(&s, 0, 1000 * MINUTE);
    share_spend(&s, 6 * 1000 * 1000, 1000 * MINUTE); // never holds more than a minute's
    assert_int_equal(share_due_ms(&s, 1000 * MINUTE), 1000 * MINUTE);
    share_spend(&s, 1, 1000 * MINUTE);
    assert_true(share_due_ms(&s, 1000 * MINUTE) > 1000 * MINUTE);
    share_init(&s, 0, 0);
    share_spend(&s, UINT64_MAX, 0);
    assert_int_equal(share_due_ms(&s, 0), 0); // no limit
}

// ---- a host

// `body` decides about the Thing o; the script beside it writes a ConfigMap good-NAME for each Thing.
static void start(struct sim *s, const char *body)
{
    things_start(s, body, "");
    sim_put_script_text(
        s, "good", "good.lua",
        "return { name = 'good', subject = 'x.test/v1/Thing', reconcile = function(o)\n"
        "  return { apply = { { apiVersion = 'v1', kind = 'ConfigMap',\n"
        "    metadata = { name = 'good-' .. o.metadata.name }, data = { v = o.spec.v } } } }\n"
        "end }\n");
    sim_run(s, 2 * SECOND);
}

static unsigned passes(struct sim *s)
{
    return (unsigned)things_metric(s,
                                   "controller_runtime_reconcile_time_seconds_count{controller=\"things\"}");
}

static bool quarantined(struct sim *s)
{
    return things_metric(s, "tidelock_script_quarantined{script=\"things\"}") > 0;
}

// Time until the next pass of the script, to the ms.
static uint64_t next_pass(struct sim *s, uint64_t limit)
{
    unsigned before = passes(s);
    uint64_t ms = 0;
    while (ms < limit && passes(s) == before) {
        sim_run(s, 10);
        ms += 10;
    }
    return ms;
}

static const char *const hostile[] = {
    "while true do end",
    "while true do pcall(function() while true do end end) end",
    "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end",
    "for i = 1, 2000 do world.log('info', 'again') end",
};

static void check_hostile(const char *body)
{
    struct sim s;
    start(&s, body);
    things_put(&s, "a", "{\"v\":\"1\"}");
    things_put(&s, "b", "{\"v\":\"1\"}");
    sim_run(&s, 2 * SECOND);
    assert_true(quarantined(&s));
    assert_int_equal(passes(&s), QUARANTINE_ROW);
    assert_int_equal(
        things_events(&s, "tidelock-system", "ScriptQuarantined", "script things is quarantined"), 1);
    assert_string_equal(things_value(&s, "default", "good-a"), "1");
    // The others do not notice.
    things_put(&s, "a", "{\"v\":\"2\"}");
    sim_run(&s, 200);
    assert_string_equal(things_value(&s, "default", "good-a"), "2");
    assert_int_equal(passes(&s), QUARANTINE_ROW);
    // One is tried, not all that wait.
    assert_in_range(next_pass(&s, 20 * SECOND), 5 * SECOND, 10 * SECOND);
    assert_in_range(next_pass(&s, 40 * SECOND), 19900, 20100);
    assert_in_range(next_pass(&s, 80 * SECOND), 39900, 40100);
    struct buf why;
    buf_init(&why, 1 << 20);
    assert_true(host_is_ready(s.host, &why));
    assert_non_null(strstr(why.data, "script things (quarantined) ok: quarantined until 2026-01-01T00:0"));
    buf_fini(&why);
    sim_fini(&s);
}

static void hostile_scripts(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof hostile / sizeof hostile[0]; i++)
        check_hostile(hostile[i]);
}

// A pass that failed is given back as run/workqueue/workers gives back that of a lost worker; that it finds
// and replaces such workers is in workers_test.c.
static bool worker_is_lost;

void __real_pass_job_run(const struct pass_env *env, struct pass_runner *runner, struct controller_view *view,
                         const char *key, struct outcome *ret);
void __wrap_pass_job_run(const struct pass_env *env, struct pass_runner *runner, struct controller_view *view,
                         const char *key, struct outcome *ret);
void __wrap_pass_job_run(const struct pass_env *env, struct pass_runner *runner, struct controller_view *view,
                         const char *key, struct outcome *ret)
{
    __real_pass_job_run(env, runner, view, key, ret);
    if (!worker_is_lost || ret->kind != OUTCOME_FAILED)
        return;
    ret->stuck = true;
    ret->end = PASS_CANCELED;
    err_set(&ret->err, ERR_CANCELED, "the pass is stuck in a function that does not end");
}

static void a_lost_worker(void **unused)
{
    struct sim s;
    (void)unused;
    worker_is_lost = true;
    start(&s, "error('here its worker was lost')");
    things_put(&s, "a", "{\"v\":\"1\"}");
    things_put(&s, "b", "{\"v\":\"1\"}");
    sim_run(&s, 2 * SECOND);
    assert_true(quarantined(&s));
    assert_int_equal(passes(&s), 1); // once is enough
    assert_int_equal(things_events(&s, "tidelock-system", "ScriptQuarantined", "stuck in a function"), 1);
    assert_string_equal(things_value(&s, "default", "good-a"), "1");
    struct buf why;
    buf_init(&why, 1 << 20);
    assert_true(host_is_ready(s.host, &why));
    assert_non_null(strstr(why.data, "script things (quarantined) ok: quarantined until 2026-01-01T00:0"));
    assert_non_null(strstr(why.data, "script good (running) ok"));
    buf_fini(&why);
    worker_is_lost = false;
    things_put_script(&s, "return { apply = { cm('c-' .. o.metadata.name, o.spec.v) } }", "");
    sim_run(&s, SECOND);
    assert_false(quarantined(&s));
    assert_string_equal(things_value(&s, "default", "c-a"), "1");
    sim_fini(&s);
}

static void a_new_version_frees(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "while true do end");
    things_put(&s, "a", "{\"v\":\"1\"}");
    things_put(&s, "b", "{\"v\":\"1\"}");
    sim_run(&s, 2 * SECOND);
    assert_true(quarantined(&s));
    things_put_script(&s, "return { apply = { cm('c-' .. o.metadata.name, o.spec.v) } }", "");
    sim_run(&s, SECOND);
    assert_false(quarantined(&s));
    assert_string_equal(things_value(&s, "default", "c-a"), "1");
    assert_string_equal(things_value(&s, "default", "c-b"), "1");
    assert_int_equal(things_events(&s, "tidelock-system", "ScriptReleased", "a new version"), 1);
    sim_fini(&s);
}

static void set_retry(struct sim *s, const char *value)
{
    char *body = xasprintf("{\"metadata\":{\"annotations\":{\"tidelock.dev/retry\":\"%s\"}}}", value);
    sim_request(s, "kubectl", "PATCH", "/api/v1/namespaces/tidelock-system/configmaps/things", THINGS_MERGE,
                body);
    free(body);
}

static void the_annotation_frees(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "if o.spec.v == '1' then while true do end end\n"
              "return { apply = { cm('c-' .. o.metadata.name, o.spec.v) } }");
    things_put(&s, "a", "{\"v\":\"1\"}");
    sim_run(&s, 2 * SECOND);
    assert_true(quarantined(&s));
    things_put(&s, "a", "{\"v\":\"2\"}");
    sim_run(&s, SECOND);
    assert_true(quarantined(&s)); // a changed subject is no reason
    assert_string_equal(things_value(&s, "default", "c-a"), "absent");
    set_retry(&s, "1");
    sim_run(&s, SECOND);
    assert_false(quarantined(&s));
    assert_string_equal(things_value(&s, "default", "c-a"), "2");
    assert_int_equal(things_events(&s, "tidelock-system", "ScriptReleased", "it was asked for"), 1);
    things_put(&s, "a", "{\"v\":\"1\"}");
    sim_run(&s, 2 * SECOND);
    assert_true(quarantined(&s));
    set_retry(&s, "2"); // and again
    sim_run(&s, 50);
    assert_false(quarantined(&s));
    sim_fini(&s);
}

static void a_pass_that_goes_through_frees(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "if o.spec.v == '1' then while true do end end\n"
              "return { apply = { cm('c-' .. o.metadata.name, o.spec.v) } }");
    things_put(&s, "a", "{\"v\":\"1\"}");
    sim_run(&s, 2 * SECOND);
    assert_true(quarantined(&s));
    things_put(&s, "a", "{\"v\":\"2\"}");
    for (char name[2] = "b"; name[0] < 'j'; name[0]++)
        things_put(&s, name, "{\"v\":\"2\"}");
    sim_run(&s, 10 * SECOND);
    assert_false(quarantined(&s));
    assert_string_equal(things_value(&s, "default", "c-a"), "2");
    assert_string_equal(things_value(&s, "default", "c-i"), "2");
    sim_fini(&s);
}

static void errors_of_all_keys(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "local c = world.get('v1/ConfigMap', 'input') or error('no input', 0)\n"
              "return { apply = { cm('c-' .. o.metadata.name, c.data.v) } }");
    things_put(&s, "a", "{\"v\":\"1\"}");
    sim_run(&s, 5 * SECOND);
    assert_false(quarantined(&s)); // its own back-off is enough
    for (char name[2] = "b"; name[0] < 'z'; name[0]++)
        things_put(&s, name, "{\"v\":\"1\"}");
    sim_run(&s, SECOND);
    assert_true(quarantined(&s));
    unsigned before = passes(&s);
    sim_run(&s, 8 * SECOND);
    assert_int_equal(passes(&s), before); // not one retry each
    // What they wait for is there: at once.
    sim_request(
        &s, "alice", "POST", THINGS_CONFIG_MAPS, "application/json",
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"input\"},\"data\":{\"v\":"
        "\"x\"}}");
    sim_run(&s, SECOND);
    assert_false(quarantined(&s));
    assert_string_equal(things_value(&s, "default", "c-a"), "x");
    assert_string_equal(things_value(&s, "default", "c-y"), "x");
    sim_fini(&s);
}

// A script's only subject: paused with growing intervals, said everywhere, ended by another input at once.
static void errors_of_the_only_key(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "if o.spec.v == '1' then error('broken', 0) end\n"
              "return { apply = { cm('c-' .. o.metadata.name, o.spec.v) } }");
    things_put(&s, "a", "{\"v\":\"1\"}");
    sim_run(&s, 9 * SECOND);
    assert_false(quarantined(&s));
    sim_run(&s, 3 * SECOND);
    assert_true(quarantined(&s));
    assert_int_equal(things_events(&s, "tidelock-system", "ScriptQuarantined", "broken"), 1);
    uint64_t pause = next_pass(&s, 20 * SECOND);
    assert_in_range(pause, 7 * SECOND, 10 * SECOND);
    assert_in_range(next_pass(&s, 40 * SECOND), 20 * SECOND, 21 * SECOND);
    assert_in_range(next_pass(&s, 80 * SECOND), 40 * SECOND, 42 * SECOND);
    assert_true(quarantined(&s));
    // Another subject is looked at, and goes through: it was not the script.
    things_put(&s, "b", "{\"v\":\"2\"}");
    sim_run(&s, 200);
    assert_string_equal(things_value(&s, "default", "c-b"), "2");
    assert_false(quarantined(&s));
    sim_run(&s, 10 * MINUTE);
    assert_false(quarantined(&s));
    things_put(&s, "a", "{\"v\":\"3\"}");
    sim_run(&s, 200);
    assert_string_equal(things_value(&s, "default", "c-a"), "3");
    sim_fini(&s);
}

// What one key uses up is enough.
static void memory_of_the_only_key(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "local t = {} while true do t[#t + 1] = ('x'):rep(1000) .. #t end");
    things_put(&s, "a", "{\"v\":\"1\"}");
    sim_run(&s, 2 * SECOND);
    assert_true(quarantined(&s));
    assert_int_equal(passes(&s), QUARANTINE_ROW);
    assert_int_equal(things_events(&s, "tidelock-system", "ScriptQuarantined", "memory"), 1);
    sim_fini(&s);
}

static void one_broken_key_of_many(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "if o.metadata.name == 'a' then while true do end end\n"
              "return { apply = { cm('c-' .. o.metadata.name, o.spec.v) }, requeue_after = 0.05 }");
    for (char name[2] = "a"; name[0] < 'e'; name[0]++)
        things_put(&s, name, "{\"v\":\"1\"}");
    sim_run(&s, 20 * SECOND);
    assert_false(quarantined(&s));
    assert_string_equal(things_value(&s, "default", "c-d"), "1");
    sim_fini(&s);
}

static void when_that_overruns(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s, "return { apply = { cm('c-' .. o.metadata.name, o.spec.v) } }",
                 "when = function() while true do end end");
    things_put(&s, "a", "{\"v\":\"0\"}");
    sim_run(&s, 2 * SECOND);
    for (int i = 1; i < 20; i++) {
        char spec[32];
        snprintf(spec, sizeof spec, "{\"v\":\"%d\"}", i);
        things_put(&s, "a", spec);
        sim_run(&s, 100);
    }
    assert_true(quarantined(&s));
    sim_run(&s, 30 * SECOND);
    assert_false(quarantined(&s)); // its passes go through
    assert_string_equal(things_value(&s, "default", "c-a"), "19");
    sim_fini(&s);
}

// 60 ms a pass, over and over: within its budget, far beyond its share.
static void a_script_that_burns_its_share(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "for i = 1, 900000 do local x = i % 7 end return { requeue_after = 0.01 }");
    things_put(&s, "a", "{\"v\":\"1\"}");
    sim_run(&s, 30 * SECOND);
    assert_false(quarantined(&s));
    assert_true(things_metric(&s, "tidelock_script_slowed_total{script=\"things\"}") > 0);
    double cpu = things_metric(&s, "tidelock_pass_cpu_seconds_sum{controller=\"things\"}");
    unsigned before = passes(&s);
    assert_true(cpu > 10 && cpu < 15.2); // 10 s, and half a minute's share
    sim_run(&s, MINUTE);
    double spent = things_metric(&s, "tidelock_pass_cpu_seconds_sum{controller=\"things\"}") - cpu;
    assert_true(spent > 9.5 && spent < 10.5);
    assert_true(passes(&s) > before + 50); // slowed, not stopped
    things_put(&s, "a", "{\"v\":\"2\"}");
    sim_run(&s, 300);
    assert_string_equal(things_value(&s, "default", "good-a"), "2");
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(overruns_in_a_row),
        cmocka_unit_test(intervals_double),
        cmocka_unit_test(what_began_before_says_nothing),
        cmocka_unit_test(errors_need_several_keys),
        cmocka_unit_test(errors_of_a_key_alone),
        cmocka_unit_test(a_share_refills),
        cmocka_unit_test(hostile_scripts),
        cmocka_unit_test(a_lost_worker),
        cmocka_unit_test(a_new_version_frees),
        cmocka_unit_test(the_annotation_frees),
        cmocka_unit_test(a_pass_that_goes_through_frees),
        cmocka_unit_test(errors_of_all_keys),
        cmocka_unit_test(errors_of_the_only_key),
        cmocka_unit_test(memory_of_the_only_key),
        cmocka_unit_test(one_broken_key_of_many),
        cmocka_unit_test(when_that_overruns),
        cmocka_unit_test(a_script_that_burns_its_share),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
