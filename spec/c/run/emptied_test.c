// Containers of a custom kind that are emptied while somebody else keeps them.

#include "data/json_write.h"
#include "run/things.h"

#define WRITES(code) "tidelock_writes_total{script=\"things\",op=\"patch\",code=\"" code "\"}"
#define SAMPLES "/apis/x.test/v1/namespaces/default/samples"

static const char crd[] =
    "{\"apiVersion\":\"apiextensions.k8s.io/"
    "v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{\"name\":"
    "\"samples.x.test\"},\"spec\":{\"group\":\"x.test\",\"scope\":\"Namespaced\",\"names\":{\"plural\":"
    "\"samples\",\"singular\":\"sample\",\"kind\":\"Sample\"},\"versions\":[{\"name\":\"v1\",\"served\":true,"
    "\"storage\":true,\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\",\"properties\":{\"spec\":{"
    "\"type\":"
    "\"object\",\"properties\":{\"m\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}},"
    "\"s\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"x-kubernetes-list-type\":\"set\"},"
    "\"any\":{\"type\":\"object\",\"x-kubernetes-preserve-unknown-fields\":true}}}}}}}]}}";

static const char script[] =
    "return { patch = { { force = true, object = { apiVersion = 'x.test/v1', kind = 'Sample',\n"
    "  metadata = { name = 's' }, spec = require('tidelock.json').decode(o.spec.want) } } } }";

// What the script is to want of the Sample's spec, as JSON.
static void wish(struct sim *s, const char *spec)
{
    struct buf text;
    struct json_writer w;
    buf_init(&text, 1 << 20);
    jw_init(&w, &text);
    jw_object(&w);
    jw_member_str(&w, "want", spec);
    jw_object_end(&w);
    things_put(s, "t", text.data);
    buf_fini(&text);
    things_settle(s);
}

static char *spec_of(struct sim *s)
{
    struct json_doc *doc = sim_get(s, "x.test/v1", "samples", "s");
    char *text = NULL;
    assert_int_equal(json_print(json_get(json_root(doc), "spec"), 1 << 20, &text, NULL, NULL), 0);
    json_doc_free(doc);
    return text;
}

static void start(struct sim *s, const char *hers)
{
    char *body = xasprintf("{\"apiVersion\":\"x.test/v1\",\"kind\":\"Sample\",\"metadata\":{\"name\":\"s\"},"
                           "\"spec\":%s}",
                           hers);
    things_start(s, script, "");
    sim_apply(s, "kubectl", crd);
    sim_request(s, "alice", "POST", SAMPLES, "application/json", body);
    free(body);
}

// Her map's keys are taken, and dropped again.
static void drop(const char *hers, const char *taken, const char *then, const char *want, size_t most)
{
    struct sim s;
    start(&s, hers);
    wish(&s, taken);
    char *before = spec_of(&s);
    assert_string_equal(before, taken);
    size_t writes = things_writes(&s);
    wish(&s, then);
    char *after = spec_of(&s);
    assert_string_equal(after, want);
    assert_in_range(things_writes(&s) - writes, 1, most);
    assert_int_equal(things_events(&s, "default", "ApplyFailed", NULL), 0);
    writes = things_writes(&s);
    sim_restart_host(&s);
    things_settle(&s);
    assert_int_equal(things_writes(&s), writes); // and that is all
    free(before);
    free(after);
    sim_fini(&s);
}

static void a_strangers_map(void **unused)
{
    (void)unused;
    drop("{\"m\":{\"a\":\"1\"}}", "{\"m\":{\"a\":\"2\"}}", "{\"m\":{}}", "{\"m\":{}}", 3);
    drop("{\"m\":{\"a\":\"1\"}}", "{\"m\":{\"a\":\"2\"}}", "{}", "{\"m\":{}}", 3);
    drop("{\"m\":{\"a\":\"1\",\"b\":\"1\"}}", "{\"m\":{\"a\":\"2\",\"b\":\"1\"}}", "{\"m\":{}}",
         "{\"m\":{\"b\":\"1\"}}", 1);
}

// What is stored there is null: no reason to write again.
static void where_anything_goes(void **unused)
{
    (void)unused;
    drop("{\"any\":{\"d\":{\"a\":\"1\"}}}", "{\"any\":{\"d\":{\"a\":\"2\"}}}", "{\"any\":{\"d\":{}}}",
         "{\"any\":{\"d\":null}}", 1);
    drop("{\"any\":{\"d\":{\"a\":\"1\"}}}", "{\"any\":{\"d\":{\"a\":\"2\"}}}", "{}", "{\"any\":{\"d\":null}}",
         1);
}

// She puts something into it between the look and the write.
static enum apiserver_fault she_is_faster(struct sim *s, const struct apiserver_passage *p,
                                          struct apiserver_answer *ret_answer)
{
    (void)ret_answer;
    if (!p->answered && strcmp(p->method, "PATCH") == 0 && p->body_len > 0 && p->body[0] == '[') {
        s->fault = NULL;
        sim_request(s, "alice", "PATCH", SAMPLES "/s", THINGS_MERGE, "{\"spec\":{\"m\":{\"hers\":\"1\"}}}");
    }
    return APISERVER_PASS;
}

static void what_comes_meanwhile_stays(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "{\"m\":{\"a\":\"1\"}}");
    wish(&s, "{\"m\":{\"a\":\"2\"}}");
    s.fault = she_is_faster;
    wish(&s, "{\"m\":{}}");
    assert_null(s.fault);
    char *after = spec_of(&s);
    assert_string_equal(after, "{\"m\":{\"hers\":\"1\"}}");
    free(after);
    sim_fini(&s);
}

static enum apiserver_fault refuse_null(struct sim *s, const struct apiserver_passage *p,
                                        struct apiserver_answer *ret_answer)
{
    (void)s;
    if (p->answered || strcmp(p->method, "PATCH") != 0 || strstr(p->path, "/samples/new") == NULL)
        return APISERVER_PASS;
    *ret_answer = (struct apiserver_answer){
        .status = 422,
        .body =
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"reason\":\"Invalid\","
            "\"code\":422,\"message\":\"spec.s[1]: Invalid value: \\\"null\\\": must be of type string\"}"};
    return APISERVER_ANSWER;
}

// The server's own words stay when there is nothing to look at.
static void what_is_refused_at_birth_is_told(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(
        &s,
        "return { apply = { { apiVersion = 'x.test/v1', kind = 'Sample', metadata = { name = 'new' },\n"
        "  spec = require('tidelock.json').decode(o.spec.want) } } }",
        "");
    sim_apply(&s, "kubectl", crd);
    s.fault = refuse_null;
    wish(&s, "{\"s\":[\"a\",null]}");
    assert_int_equal(things_events(&s, "default", "ApplyFailed", "not found"), 0);
    assert_int_equal(things_events(&s, "default", "ApplyFailed", "spec.s[1]"), 1);
    sim_fini(&s);
}

// An identity that may patch, but not look.
static enum apiserver_fault no_get(struct sim *s, const struct apiserver_passage *p,
                                   struct apiserver_answer *ret_answer)
{
    (void)s;
    if (p->answered || strcmp(p->method, "GET") != 0 || strstr(p->path, "/samples/s") == NULL ||
        strstr(p->path, "?") != NULL)
        return APISERVER_PASS;
    *ret_answer = (struct apiserver_answer){
        .status = 403,
        .body = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"reason\":\"Forbidden\","
                "\"code\":403,\"message\":\"samples.x.test \\\"s\\\" is forbidden: cannot get\"}"};
    return APISERVER_ANSWER;
}

static void what_was_refused_is_told_with_why_it_can_not_be_helped(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "{\"m\":{\"a\":\"1\"}}");
    wish(&s, "{\"m\":{\"a\":\"2\"}}");
    s.fault = no_get;
    wish(&s, "{\"m\":{}}");
    assert_int_equal(things_events(&s, "default", "ApplyFailed", "spec.m: Invalid value: \"null\""), 1);
    assert_int_equal(
        things_events(&s, "default", "ApplyFailed",
                      "nor could its containers be emptied first: samples.x.test \"s\" is forbidden"),
        1);
    assert_true(things_metric(&s, WRITES("422")) > 0);
    assert_true(things_metric(&s, WRITES("403")) == 0); // that was no write
    s.fault = NULL;
    sim_run(&s, 60 * 1000);
    char *after = spec_of(&s);
    assert_string_equal(after, "{\"m\":{}}");
    free(after);
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_strangers_map),
        cmocka_unit_test(where_anything_goes),
        cmocka_unit_test(what_comes_meanwhile_stays),
        cmocka_unit_test(what_is_refused_at_birth_is_told),
        cmocka_unit_test(what_was_refused_is_told_with_why_it_can_not_be_helped),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
