// A kind that gets or loses the status subresource while the host runs: the status goes where it belongs.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/things.h"

#define CRD "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/gains.x.test"
#define GAIN "/apis/x.test/v1/namespaces/default/gains/g"

static const char crd[] =
    "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{"
    "\"name\":\"gains.x.test\"},\"spec\":{\"group\":\"x.test\",\"scope\":\"Namespaced\",\"names\":{"
    "\"plural\":"
    "\"gains\",\"singular\":\"gain\",\"kind\":\"Gain\"},\"versions\":[{\"name\":\"v1\",\"served\":true,"
    "\"storage\":true,\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\","
    "\"x-kubernetes-preserve-unknown-fields\":true}}}]}}";

static void start(struct sim *s)
{
    sim_init(s, 3);
    sim_apply(s, "kubectl", crd);
    sim_put_script_text(s, "gain", "gain.lua",
                        "return { name = 'gain', subject = 'x.test/v1/Gain',\n"
                        "  reconcile = function(o) return { status = o.spec } end }");
    sim_apply(s, "kubectl",
              "{\"apiVersion\":\"x.test/v1\",\"kind\":\"Gain\",\"metadata\":{\"name\":\"g\",\"namespace\":"
              "\"default\"},\"spec\":{\"phase\":\"Up\",\"count\":1}}");
    things_settle(s);
}

static void set_subresource(struct sim *s, const char *operation)
{
    sim_request(s, "kubectl", "PATCH", CRD, "application/json-patch+json", operation);
    things_settle(s);
}

static void set(struct sim *s, const char *spec)
{
    char *text = xasprintf("{\"spec\":%s}", spec);
    sim_request(s, "kubectl", "PATCH", GAIN, THINGS_MERGE, text);
    free(text);
    things_settle(s);
}

static void assert_status(struct sim *s, const char *phase, int64_t count)
{
    struct json_doc *doc = sim_get(s, "x.test/v1", "gains", "g");
    const json *status = json_get(json_root(doc), "status");
    const char *live = json_get_str(status, "phase");
    assert_string_equal(live == NULL ? "" : live, phase);
    assert_int_equal(json_get_int(status, "count", -1), count);
    json_doc_free(doc);
}

static void goes_to_the_subresource_and_back(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    assert_status(&s, "Up", 1);
    set_subresource(
        &s, "[{\"op\":\"add\",\"path\":\"/spec/versions/0/subresources\",\"value\":{\"status\":{}}}]");
    set(&s, "{\"count\":2}");
    assert_status(&s, "Up", 2);
    assert_true(things_requests(&s, "PATCH " GAIN "/status", "") > 0);
    set(&s, "{\"phase\":null}"); // which was written before
    assert_status(&s, "", 2);
    size_t before = things_writes(&s);
    things_settle(&s);
    assert_int_equal(things_writes(&s), before);
    set_subresource(&s, "[{\"op\":\"remove\",\"path\":\"/spec/versions/0/subresources\"}]");
    set(&s, "{\"count\":3}");
    assert_status(&s, "", 3);
    before = things_writes(&s);
    things_settle(&s);
    assert_int_equal(things_writes(&s), before);
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(goes_to_the_subresource_and_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
