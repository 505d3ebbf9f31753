// What becomes of writes that fail: one request a back-off step, siblings go on, every failing child is
// named, and all is well once the cause is gone.

#include "run/things.h"

#define TWO "return { apply = { cm('a', o.spec.v), cm('b', o.spec.v) }, status = { seen = o.spec.v } }"

// The fault of this test: writes to paths that contain `path` are answered with it.
static struct {
    const char *path;
    struct apiserver_answer answer;
    enum apiserver_fault fault; // otherwise: what happens after the write was executed
    size_t times;               // how often it happens, at most
    size_t happened;            // how often it did
} plan;

static enum apiserver_fault fail_some(struct sim *s, const struct apiserver_passage *p,
                                      struct apiserver_answer *ret_answer)
{
    (void)s;
    bool after = plan.fault != APISERVER_ANSWER;
    if (strcmp(p->method, "GET") == 0 || strstr(p->path, plan.path) == NULL || p->answered != after ||
        plan.times == 0)
        return APISERVER_PASS;
    plan.times--;
    plan.happened++;
    *ret_answer = plan.answer;
    return plan.fault;
}

static void answer_with(struct sim *s, const char *path, int status, const char *body, size_t times)
{
    plan.path = path;
    plan.answer = (struct apiserver_answer){.status = status, .body = body};
    plan.fault = APISERVER_ANSWER;
    plan.times = times;
    plan.happened = 0;
    s->fault = fail_some;
}

static bool status_seen(struct sim *s, const char *v)
{
    struct json_doc *doc = sim_get(s, "x.test/v1", "things", "t");
    const char *seen = json_str(json_path(json_root(doc), "status", "seen", NULL));
    bool same = seen != NULL && strcmp(seen, v) == 0;
    json_doc_free(doc);
    return same;
}

#define STATUS(code, reason, message)                                                                        \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"reason\":\"" reason                 \
    "\",\"message\":\"" message "\",\"code\":" #code "}"
#define PLAIN_500(message)                                                                                   \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"message\":\"" message               \
    "\",\"code\":500}"
#define TERMINATING                                                                                          \
    "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"reason\":\"Forbidden\","            \
    "\"message\":"                                                                                           \
    "\"configmaps \\\"a\\\" is forbidden: unable to create new content in namespace default because it is "  \
    "being terminated\",\"details\":{\"name\":\"a\",\"kind\":\"configmaps\",\"causes\":[{\"reason\":"        \
    "\"NamespaceTerminating\",\"message\":\"namespace default is being terminated\",\"field\":"              \
    "\"metadata.namespace\"}]},\"code\":403}"

// For a minute every write to child a fails like that; what is seen in the meantime, and that it heals.
static void fails_and_heals(int code, const char *body, const char *reason, const char *text, size_t events)
{
    struct sim s;
    things_start(&s, TWO, "");
    answer_with(&s, "/configmaps/a", code, body, 1000);
    things_put(&s, "t", "{\"v\":\"1\"}");
    sim_run(&s, 60 * 1000);
    assert_in_range(plan.happened, 5, 30); // 5 ms doubling, to the limiter's maximum: never a storm
    assert_string_equal(things_value(&s, "default", "a"), "absent");
    assert_string_equal(things_value(&s, "default", "b"), "1"); // its sibling goes on
    assert_int_equal(things_requests(&s, "PATCH", "/configmaps/b"),
                     1); // once: the rest is resumed, not begun anew
    assert_true(status_seen(&s, "1"));
    assert_int_equal(things_events(&s, "default", reason, text), events);
    plan.times = 0;
    sim_run(&s, 20 * 60 * 1000);
    assert_string_equal(things_value(&s, "default", "a"), "1");
    sim_fini(&s);
}

static void every_class_backs_off_and_heals(void **unused)
{
    (void)unused;
    fails_and_heals(409, STATUS(409, "Conflict", "the object has been modified"), "ApplyFailed",
                    "create v1/ConfigMap default/a: the object has been modified", 1);
    fails_and_heals(422, STATUS(422, "Invalid", "data.v: Invalid value"), "ApplyFailed",
                    "data.v: Invalid value", 1);
    fails_and_heals(403, STATUS(403, "Forbidden", "user tidelock can not patch"), "ApplyFailed",
                    "user tidelock can not patch", 1);
    fails_and_heals(404, STATUS(404, "NotFound", "namespaces default not found"), "ApplyFailed", "not found",
                    1);
    fails_and_heals(503, STATUS(503, "ServiceUnavailable", "etcd leader changed"), "ApplyFailed",
                    "leader changed", 1);
    // what passes comes as a 500 too, with and without a reason
    fails_and_heals(500, PLAIN_500("etcdserver: leader changed"), "ApplyFailed", "etcdserver: leader changed",
                    1);
    fails_and_heals(500, STATUS(500, "InternalError", "Internal error occurred: etcdserver: leader changed"),
                    "ApplyFailed", "etcdserver: leader changed", 1);
    fails_and_heals(500, PLAIN_500("etcdserver: request timed out"), "ApplyFailed", "request timed out", 1);
    fails_and_heals(500,
                    PLAIN_500("failed to create typed patch object: .notYet: field not declared in schema"),
                    "ApplyFailed", ".notYet: field not declared in schema", 1);
    fails_and_heals(403, TERMINATING, "NamespaceTerminating", NULL, 0); // no Event could be made there
}

static void told_to_wait(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s, TWO, "");
    answer_with(&s, "/configmaps/a", 429, STATUS(429, "TooManyRequests", "slow down"), 1);
    plan.answer.retry_after_s = 20;
    things_put(&s, "t", "{\"v\":\"1\"}");
    sim_run(&s, 19 * 1000);
    assert_string_equal(things_value(&s, "default", "a"), "absent");
    assert_int_equal(things_requests(&s, "PATCH", "/configmaps/b"), 1);
    sim_run(&s, 3 * 1000);
    assert_string_equal(things_value(&s, "default", "a"), "1");
    sim_fini(&s);
}

// The write was executed, but nobody knows.
static void unknown_outcome(void **unused)
{
    static const enum apiserver_fault faults[] = {APISERVER_DROP, APISERVER_HANG};
    (void)unused;
    for (size_t i = 0; i < 2; i++) {
        struct sim s;
        things_start(&s, TWO, "");
        plan.path = "/configmaps/a";
        plan.fault = faults[i];
        plan.times = 1;
        s.fault = fail_some;
        things_put(&s, "t", "{\"v\":\"1\"}");
        sim_run(&s, 60 * 1000);
        assert_string_equal(things_value(&s, "default", "a"), "1");
        assert_string_equal(things_value(&s, "default", "b"), "1");
        assert_in_range(things_requests(&s, "PATCH", "/configmaps/a"), 1, 2);
        things_put(&s, "t", "{\"v\":\"2\"}");
        plan.times = 1;
        sim_run(&s, 60 * 1000);
        assert_string_equal(things_value(&s, "default", "a"), "2");
        assert_true(status_seen(&s, "2"));
        size_t writes = things_writes(&s);
        sim_restart_host(&s);
        things_settle(&s);
        assert_int_equal(things_writes(&s), writes);
        sim_fini(&s);
    }
}

static void each_failing_child_is_named(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s, "return { apply = { cm('bad1', '1'), cm('good', '1'), cm('bad2', '1') } }", "");
    answer_with(&s, "/configmaps/bad", 422, STATUS(422, "Invalid", "no"), 1000);
    things_put(&s, "t", "{}");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "good"), "1");
    assert_true(things_events(&s, "default", "ApplyFailed", "default/bad1: no") > 0);
    assert_true(things_events(&s, "default", "ApplyFailed", "default/bad2: no") > 0);
    sim_fini(&s);
}

// A new version does not wait for the old one's back-off.
static void healed_at_once_by_a_new_version(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s, "return { apply = { cm('bad', '1') } }", "");
    answer_with(&s, "/configmaps/bad", 500, PLAIN_500("etcdserver: request is too large"), 100000);
    things_put(&s, "t", "{}");
    sim_run(&s, 30 * 60 * 1000);
    size_t tried = plan.happened;
    sim_run(&s, 60 * 60 * 1000);
    assert_in_range(plan.happened - tried, 2, 14); // at its maximum
    things_put_script(&s, "return { apply = { cm('good', '1') } }", "");
    sim_run(&s, 3000);
    assert_string_equal(things_value(&s, "default", "good"), "1");
    sim_fini(&s);
}

// ---- replace

// An object that is there does not become version 2.
static enum apiserver_fault refuse_change(struct sim *s, const struct apiserver_passage *p,
                                          struct apiserver_answer *ret_answer)
{
    static const char body[] = STATUS(422, "Invalid", "data.v: Invalid value: field is immutable");
    if (p->answered || strcmp(p->method, "PATCH") != 0 || strstr(p->path, "/configmaps/a") == NULL ||
        memmem(p->body, p->body_len, "\"v\":\"2\"", 7) == NULL ||
        strcmp(things_value(s, "default", "a"), "1") != 0)
        return APISERVER_PASS;
    plan.happened++;
    *ret_answer = (struct apiserver_answer){.status = 422, .body = body};
    return APISERVER_ANSWER;
}

static void start_replace(struct sim *s)
{
    things_start(s, "return { apply = { { object = cm('a', o.spec.v), replace = true } } }", "");
    s->fault = refuse_change;
    plan.happened = 0;
    things_put(s, "t", "{\"v\":\"1\"}");
    things_settle(s);
    assert_string_equal(things_value(s, "default", "a"), "1");
}

static void replaced_when_it_can_not_be_changed(void **unused)
{
    struct sim s;
    (void)unused;
    start_replace(&s);
    things_put(&s, "t", "{\"v\":\"2\"}");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "a"), "2");
    assert_int_equal(plan.happened, 1);
    assert_int_equal(things_requests(&s, "DELETE", "\"propagationPolicy\":\"Background\""), 1);
    assert_int_equal(things_events(&s, "default", "ApplyFailed", NULL), 0);
    sim_fini(&s);
}

// It takes its time to go, and the host is another by then.
static void replaced_when_it_is_gone(void **unused)
{
    struct sim s;
    (void)unused;
    start_replace(&s);
    sim_request(&s, "alice", "PATCH", THINGS_CONFIG_MAPS "/a", THINGS_MERGE,
                "{\"metadata\":{\"finalizers\":[\"alice.example.com/x\"]}}");
    things_put(&s, "t", "{\"v\":\"2\"}");
    assert_true(sim_run_and_die(&s, 1, 60 * 1000));
    sim_run(&s, 60 * 1000);
    assert_string_equal(things_value(&s, "default", "a"), "1");
    assert_int_equal(plan.happened, 1); // nothing is applied to what goes
    sim_request(&s, "alice", "PATCH", THINGS_CONFIG_MAPS "/a", THINGS_MERGE,
                "{\"metadata\":{\"finalizers\":null}}");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "a"), "2");
    assert_int_equal(things_requests(&s, "DELETE", "/configmaps/a"), 1);
    sim_fini(&s);
}

// Without the option it is an error, once a back-off step.
static void not_replaced_unless_allowed(void **unused)
{
    struct sim s;
    (void)unused;
    start_replace(&s);
    things_put_script(&s, "return { apply = { cm('a', o.spec.v), cm('b', o.spec.v) } }", "");
    things_settle(&s);
    things_put(&s, "t", "{\"v\":\"2\"}");
    sim_run(&s, 60 * 1000);
    assert_string_equal(things_value(&s, "default", "a"), "1");
    assert_string_equal(things_value(&s, "default", "b"), "2");
    assert_in_range(plan.happened, 5, 30);
    assert_int_equal(things_events(&s, "default", "ApplyFailed", "field is immutable"), 1);
    sim_fini(&s);
}

// ---- delete

static void deletes_what_it_names(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(
        &s,
        "local old = world.get('v1/ConfigMap', 'old')\n"
        "return { delete = { { apiVersion = 'v1', kind = 'ConfigMap', metadata = { name = 'old' } },\n"
        "  { apiVersion = 'v1', kind = 'ConfigMap', metadata = { name = 'other', uid = 'another-uid' } },\n"
        "  { apiVersion = 'x.test/v9', kind = 'Gone', metadata = { name = 'x' } },\n"
        "  { apiVersion = 'v1', kind = 'ConfigMap', metadata = { name = 'absent' } } },\n"
        "  status = { seen = old and 'there' or 'gone' } }",
        "");
    for (int i = 0; i < 2; i++) {
        char *text =
            xasprintf("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"%s\"}}",
                      i == 0 ? "old" : "other");
        sim_request(&s, "alice", "POST", THINGS_CONFIG_MAPS, "application/json", text);
        free(text);
    }
    things_put(&s, "t", "{}");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "old"), "absent");
    assert_string_equal(things_value(&s, "default", "other"), ""); // another object than was meant
    assert_true(status_seen(&s, "gone"));
    assert_int_equal(things_requests(&s, "DELETE", "/configmaps/"), 1);
    assert_int_equal(things_requests(&s, "DELETE", "\"propagationPolicy\":\"Background\""), 1);
    assert_int_equal(things_requests(&s, "DELETE", "\"preconditions\":{\"uid\":"), 1);
    sim_request(&s, "alice", "POST", THINGS_CONFIG_MAPS, "application/json",
                "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"old\"}}");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "old"), "absent"); // it was watched
    sim_fini(&s);
}

static void delete_has_limits(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s,
                 "return { apply = { cm('a', '1') }, delete = { cm('a', '1'),\n"
                 "  { apiVersion = 'v1', kind = 'Secret', metadata = { name = 's' } } } }",
                 "");
    things_put(&s, "t", "{}");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "a"), "1");
    assert_true(things_events(&s, "default", "ApplyFailed",
                              "delete[1] (ConfigMap a): the same object stands in apply") > 0);
    assert_true(things_events(&s, "default", "ApplyFailed", "delete[2] (Secret s): ") > 0);
    assert_int_equal(things_requests(&s, "DELETE", "/configmaps/"), 0);
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_class_backs_off_and_heals),
        cmocka_unit_test(told_to_wait),
        cmocka_unit_test(unknown_outcome),
        cmocka_unit_test(each_failing_child_is_named),
        cmocka_unit_test(healed_at_once_by_a_new_version),
        cmocka_unit_test(replaced_when_it_can_not_be_changed),
        cmocka_unit_test(replaced_when_it_is_gone),
        cmocka_unit_test(not_replaced_unless_allowed),
        cmocka_unit_test(deletes_what_it_names),
        cmocka_unit_test(delete_has_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
