// When a key runs again after an error, exactly, on the virtual clock: the strategies of a script's `retry`,
// k8s.retry, k8s.invalid, requeue_after and resync.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strset.h"
#include "things.h"

enum { SECOND = 1000, HOUR = 3600 * 1000 };

#define MERGE "application/merge-patch+json"
#define THING "/apis/x.test/v1/namespaces/default/things/t"
#define CONFIG "/api/v1/namespaces/default/configmaps/input"

static const char thing_crd[] =
    "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":"
    "{\"name\":\"things.x.test\"},\"spec\":{\"group\":\"x.test\",\"scope\":\"Namespaced\",\"names\":"
    "{\"plural\":\"things\",\"singular\":\"thing\",\"kind\":\"Thing\"},\"versions\":[{\"name\":\"v1\","
    "\"served\":true,\"storage\":true,\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\","
    "\"x-kubernetes-preserve-unknown-fields\":true}}}]}}";

static unsigned passes(struct sim *s)
{
    return (unsigned)things_metric(s,
                                   "controller_runtime_reconcile_time_seconds_count{controller=\"things\"}");
}

// Lets time pass until the next pass; ms (0: at once). NONE: none within `limit`.
#define NONE UINT64_MAX
static uint64_t next_pass(struct sim *s, uint64_t limit)
{
    unsigned before = passes(s);
    for (uint64_t ms = 0; ms <= limit; ms++) {
        sim_run(s, ms > 0 ? 1 : 0);
        if (passes(s) != before)
            return ms;
    }
    return NONE;
}

static void expect_pass_in(struct sim *s, uint64_t ms)
{
    unsigned before = passes(s);
    if (ms > 20)
        sim_run(s, ms - 20);
    assert_int_equal(passes(s), before);
    assert_int_equal(next_pass(s, ms > 20 ? 40 : ms + 20), ms > 20 ? 20 : ms);
}

static void expect_no_pass(struct sim *s, uint64_t ms)
{
    unsigned before = passes(s);
    sim_run(s, ms);
    assert_int_equal(passes(s), before);
}

static void patch(struct sim *s, const char *path, const char *body)
{
    sim_request(s, "alice", "PATCH", path, MERGE, body);
}

// A script with one subject, at the end of its first pass.
static void start(struct sim *s, const char *head, const char *body)
{
    char *script =
        xasprintf("local k8s = require 'tidelock'\n"
                  "return { name = 'things', subject = 'x.test/v1/Thing', %s reconcile = function(o, world)\n"
                  "  %s\nend }",
                  head, body);
    sim_init(s, 11);
    sim_apply(s, "kubectl", thing_crd);
    sim_put_script_text(s, "things", "things.lua", script);
    sim_run(s, SECOND);
    sim_apply(s, "kubectl",
              "{\"apiVersion\":\"x.test/v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"t\",\"namespace\":"
              "\"default\"},\"spec\":{\"v\":\"1\"}}");
    assert_true(next_pass(s, SECOND) != NONE);
    free(script);
}

#define FAILS "error('broken', 0)"

static void exponential_by_default(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "", FAILS);
    for (uint64_t ms = 5; ms < 700 * SECOND; ms *= 2)
        expect_pass_in(&s, ms);
    expect_pass_in(&s, 1000 * SECOND); // the cap
    expect_pass_in(&s, 1000 * SECOND);
    sim_fini(&s);
}

static void exponential_as_the_script_says(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "retry = { base = '100ms', max = '1s' },", FAILS);
    static const uint64_t delays[] = {100, 200, 400, 800, 1000, 1000};
    for (size_t i = 0; i < sizeof delays / sizeof delays[0]; i++)
        expect_pass_in(&s, delays[i]);
    sim_fini(&s);
    start(&s, "retry = { base = '30m' },", FAILS); // beyond the default's cap
    expect_pass_in(&s, 30 * 60 * SECOND);
    expect_pass_in(&s, 30 * 60 * SECOND);
    sim_fini(&s);
}

static void exponential_with_jitter(void **unused)
{
    struct sim s;
    uint64_t full = 1000, same = 0;
    (void)unused;
    start(&s, "retry = { kind = 'exponential', base = '1s', max = '8s', jitter = true },", FAILS);
    for (int i = 0; i < 8; i++) {
        uint64_t ms = next_pass(&s, full + 1);
        assert_in_range(ms, full / 2, full);
        same += ms == full;
        full = full < 8000 ? full * 2 : full;
    }
    assert_in_range(same, 0, 2); // spread out
    sim_fini(&s);
}

static void fixed(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "retry = { kind = 'fixed', base = '7s' },", FAILS);
    for (int i = 0; i < 5; i++)
        expect_pass_in(&s, 7 * SECOND);
    sim_fini(&s);
}

static void fast_then_slow(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "retry = { kind = 'fast_slow', base = '50ms', max = '2m', fast_attempts = 4 },", FAILS);
    for (int i = 0; i < 4; i++)
        expect_pass_in(&s, 50);
    for (int i = 0; i < 3; i++)
        expect_pass_in(&s, 120 * SECOND);
    sim_fini(&s);
}

static void a_success_begins_anew(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "", "if o.spec.v == 'ok' then return {} end " FAILS);
    for (uint64_t ms = 5; ms < 1000; ms *= 2)
        expect_pass_in(&s, ms);
    patch(&s, THING, "{\"spec\":{\"v\":\"ok\"}}");
    assert_in_range(next_pass(&s, SECOND), 0, 30); // not at the end of the back-off
    expect_no_pass(&s, HOUR);
    patch(&s, THING, "{\"spec\":{\"v\":\"bad\"}}");
    assert_in_range(next_pass(&s, SECOND), 0, 30);
    // The first step again: a pass in the ms of the change may count that ms or not.
    assert_in_range(next_pass(&s, SECOND), 4, 5);
    expect_pass_in(&s, 10);
    sim_fini(&s);
}

static void retry_after_a_time(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "", "k8s.retry('Waiting', 'not yet', '3s')");
    expect_pass_in(&s, 3 * SECOND);
    expect_pass_in(&s, 3 * SECOND);
    sim_fini(&s);
    start(&s, "", "k8s.retry('Waiting', 'not yet')"); // as the strategy says
    expect_pass_in(&s, 5);
    expect_pass_in(&s, 10);
    sim_fini(&s);
}

static void invalid_until_an_input_changes(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "resync = '1m',",
          "local input = world.get('v1/ConfigMap', 'input')\n"
          "if o.spec.v == 'timer' then return { requeue_after = '5s' } end\n"
          "if not input then k8s.invalid('NoInput', 'there is no ConfigMap input') end\n"
          "return {}");
    sim_run(&s, SECOND); // ConfigMaps are read in
    expect_no_pass(&s, HOUR);
    patch(&s, THING, "{\"spec\":{\"w\":\"1\"}}"); // the subject is an input ...
    assert_in_range(next_pass(&s, SECOND), 0, 30);
    expect_no_pass(&s, HOUR);
    // ... a timer of a pass before is none ...
    patch(&s, THING, "{\"spec\":{\"v\":\"timer\"}}");
    assert_in_range(next_pass(&s, SECOND), 0, 30);
    patch(&s, THING, "{\"spec\":{\"v\":\"1\"}}");
    assert_in_range(next_pass(&s, SECOND), 0, 30);
    expect_no_pass(&s, HOUR);
    // ... and what it read is one.
    sim_request(&s, "alice", "POST", "/api/v1/namespaces/default/configmaps", "application/json",
                "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"input\"}}");
    assert_in_range(next_pass(&s, SECOND), 0, 30);
    sim_run(&s, 59 * SECOND); // it is well: resync goes on
    assert_in_range(next_pass(&s, 2 * SECOND), 970, 1000);
    sim_fini(&s);
}

static void the_earliest_timer_wins(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "resync = '10s',", "return { requeue_after = o.spec.after }");
    expect_pass_in(&s, 10 * SECOND);
    patch(&s, THING, "{\"spec\":{\"after\":\"4s\"}}");
    assert_in_range(next_pass(&s, SECOND), 0, 30);
    expect_pass_in(&s, 4 * SECOND);
    sim_run(&s, SECOND);
    patch(&s, THING, "{\"spec\":{\"after\":\"8s\"}}");
    uint64_t ms = next_pass(&s, SECOND);
    assert_in_range(ms, 0, 30);
    expect_pass_in(&s, 3 * SECOND - ms); // that of the pass before is earlier
    expect_pass_in(&s, 8 * SECOND);
    sim_fini(&s);
}

static void back_off_wins_over_a_timer(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "retry = { kind = 'fixed', base = '20s' },",
          "if o.spec.v == 'bad' then error('broken', 0) end return { requeue_after = '5s' }");
    expect_pass_in(&s, 5 * SECOND);
    patch(&s, THING, "{\"spec\":{\"v\":\"bad\"}}");
    assert_in_range(next_pass(&s, SECOND), 0, 30);
    expect_pass_in(&s, 20 * SECOND);
    expect_pass_in(&s, 20 * SECOND);
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(exponential_by_default),  cmocka_unit_test(exponential_as_the_script_says),
        cmocka_unit_test(exponential_with_jitter), cmocka_unit_test(fixed),
        cmocka_unit_test(fast_then_slow),          cmocka_unit_test(a_success_begins_anew),
        cmocka_unit_test(retry_after_a_time),      cmocka_unit_test(invalid_until_an_input_changes),
        cmocka_unit_test(the_earliest_timer_wins), cmocka_unit_test(back_off_wins_over_a_timer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
