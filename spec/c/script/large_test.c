// Passes that read much and texts that are long: what costs memory, what gives it back, and which limit is
// named.
#include "script/script_support.h"

enum {
    PODS = 2000,
    CONTAINERS = 100,
    MEBIBYTE = 1024 * 1024,
};

// A list of so many pods, which take 100 MiB and more as tables and are the same text.
static struct world_object pods[PODS];

static int large_list(void *ud, const struct world_query *q, struct world_list *ret, struct err *e)
{
    (void)ud, (void)q, (void)e;
    *ret = (struct world_list){pods, PODS};
    return 0;
}

static char *make_pod(void)
{
    struct buf b;
    buf_init(&b, MEBIBYTE);
    buf_add_str(&b, "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"containers\":[");
    for (int i = 0; i < CONTAINERS; i++)
        buf_addf(&b, "%s{\"name\":\"c%d\",\"image\":\"i%d\",\"env\":[{\"name\":\"A\",\"value\":\"%d\"}]}",
                 i > 0 ? "," : "", i, i, i);
    buf_add_str(&b, "]}}");
    return buf_take(&b, NULL);
}

static void run_over_pods(const char *body, struct pass_output *ret)
{
    char *pod = make_pod();
    for (int i = 0; i < PODS; i++)
        pods[i] = (struct world_object){pod, strlen(pod)};
    struct world_ops ops = fake_ops;
    ops.list = large_list;
    struct program *p = support_program(body);
    struct pass_runner *r = pass_runner_new(NULL);
    struct pass_input in = {.program = p,
                            .entry = "reconcile",
                            .object_json = fake_subject,
                            .object_len = strlen(fake_subject),
                            .world = &ops,
                            .limits = {.cpu_us = 60 * 1000 * 1000}}; // memory is what it is about
    pass_run(r, &in, ret);
    pass_runner_free(r);
    program_unref(p);
    free(pod);
}

static void expect_pods(const char *body, enum pass_end end, const char *text, size_t peak_max)
{
    struct pass_output out;
    run_over_pods(body, &out);
    const char *got = out.end == PASS_OK ? out.result.data : out.err.text;
    if (out.end != end || strstr(got, text) == NULL || out.memory_peak > peak_max)
        fail_msg("%s: %s, a peak of %zu\nin: %s", pass_end_name(out.end), got, out.memory_peak, body);
    pass_output_fini(&out);
}

static void test_items_are_decoded_when_touched(void **state)
{
    (void)state;
    expect_pods("return {status = {n = #world.list('v1/Pod')}}", PASS_OK, "{\"status\":{\"n\":2000}}",
                MEBIBYTE);
    expect_pods("local l = world.list('v1/Pod') return {status = {n = #l[7].spec.containers}}", PASS_OK,
                "{\"status\":{\"n\":100}}", 2 * MEBIBYTE);
}

static void test_items_that_are_dropped_are_collected(void **state)
{
    (void)state;
    expect_pods("local l, n = world.list('v1/Pod'), 0\n"
                "for i = 1, #l do n = n + #l[i].spec.containers l[i] = false end return {status = {n = n}}",
                PASS_OK, "{\"status\":{\"n\":200000}}", 16 * MEBIBYTE);
    expect_pods("local n = 0 for i = 1, 200 do\n"
                "  local l = world.list('v1/Pod') for k = 1, 10 do n = n + #l[k].spec.containers end\n"
                "end return {status = {n = n}}",
                PASS_OK, "{\"status\":{\"n\":200000}}", 16 * MEBIBYTE);
}

static void test_items_that_are_kept_count(void **state)
{
    (void)state;
    expect_pods("local l, n = world.list('v1/Pod'), 0\n"
                "for i = 1, #l do n = n + #l[i].spec.containers end return {status = {n = n}}",
                PASS_MEMORY, "t.lua:3: the script uses more than its memory budget of 16384 KiB",
                64 * MEBIBYTE);
}

// As long as an object in the cluster can be; with what JSON escapes at both ends.
static void test_long_texts_come_through(void **state)
{
    enum { LENGTH = 3 * MEBIBYTE / 2 };
    (void)state;
    struct buf subject, want;
    buf_init(&subject, 4 * MEBIBYTE);
    buf_init(&want, 4 * MEBIBYTE);
    char *x = malloc(LENGTH + 1);
    assert_non_null(x);
    memset(x, 'x', LENGTH);
    x[LENGTH] = '\0';
    buf_addf(&subject, "{\"metadata\":{\"name\":\"s\"},\"data\":{\"k\":\"\\n%s\xC3\xA4\\u0001\"}}", x);
    buf_addf(&want, "{\"status\":{\"n\":%d,\"s\":\"\\n%s\xC3\xA4\\u0001\"}}", LENGTH + 4, x);
    struct program *p = support_program("return {status = {n = #object.data.k, s = object.data.k}}");
    struct pass_runner *r = pass_runner_new(NULL);
    struct pass_input in = {.program = p,
                            .entry = "reconcile",
                            .object_json = subject.data,
                            .object_len = subject.len,
                            .world = &fake_ops};
    struct pass_output out;
    pass_run(r, &in, &out);
    assert_string_equal(out.err.text, "");
    assert_int_equal(out.end, PASS_OK);
    assert_int_equal(out.result.len, want.len);
    assert_memory_equal(out.result.data, want.data, want.len);
    pass_output_fini(&out);
    pass_runner_free(r);
    program_unref(p);
    free(x);
    buf_fini(&want);
    buf_fini(&subject);
}

#define FOUR_MEGABYTES "local s = ('x'):rep(1e6) s = s .. s s = s .. s "

static void test_limits_of_texts_are_named(void **state)
{
    (void)state;
    support_value(FOUR_MEGABYTES "local j = require 'tidelock.json' return #j.decode(j.encode(s))",
                  "4000000");
    support_end(FOUR_MEGABYTES "return {status = {a = s, b = s, c = s}}", PASS_LIMIT, "8388608");
    support_end("return ('x'):rep(2^20 + 1)", PASS_RAISED, "1048576");
    support_end("local s = 'x' while true do s = s .. s end", PASS_MEMORY, "memory budget of 16384 KiB");
    support_end(FOUR_MEGABYTES "return s:upper() .. s:lower() .. s:reverse() .. s:upper() .. s:reverse()",
                PASS_MEMORY, "memory budget of 16384 KiB");
    support_end("world.log('info', ('x'):rep(1e6))", PASS_RAISED, "8192");
    support_end("require('tidelock').invalid('Bad', ('x'):rep(1e6))", PASS_INVALID, "xxx");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_items_are_decoded_when_touched),
        cmocka_unit_test(test_items_that_are_dropped_are_collected),
        cmocka_unit_test(test_items_that_are_kept_count),
        cmocka_unit_test(test_long_texts_come_through),
        cmocka_unit_test(test_limits_of_texts_are_named),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
