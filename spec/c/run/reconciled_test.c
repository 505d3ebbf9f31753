// The host's own condition on failing subjects.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strset.h"
#include "run/report/keyed_conditions.h"
#include "run/sim.h"
#include "unit.h"

enum { SETTLE_MS = 5 * 1000, LONG_MS = 3600 * 1000 };

#define MERGE "application/merge-patch+json"
#define THING "/apis/x.test/v1/namespaces/default/things/t"
#define STATUS THING "/status"

#define CRD(subresources, list)                                                                              \
    "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":"        \
    "{\"name\":\"things.x.test\"},\"spec\":{\"group\":\"x.test\",\"scope\":\"Namespaced\",\"names\":"        \
    "{\"plural\":\"things\",\"singular\":\"thing\",\"kind\":\"Thing\"},\"versions\":[{\"name\":\"v1\","      \
    "\"served\":true,\"storage\":true," subresources "\"schema\":{\"openAPIV3Schema\":"                      \
    "{\"type\":\"object\",\"properties\":{\"status\":{\"type\":\"object\","                                  \
    "\"x-kubernetes-preserve-unknown-fields\":true,\"properties\":{\"conditions\":{\"type\":\"array\"," list \
    "\"items\":{\"type\":\"object\",\"x-kubernetes-preserve-unknown-fields\":true,\"properties\":{\"type\":" \
    "{\"type\":\"string\"}}}}}}},\"x-kubernetes-preserve-unknown-fields\":true}}}]}}"
#define WITH_STATUS "\"subresources\":{\"status\":{}},"
#define KEYED "\"x-kubernetes-list-type\":\"map\",\"x-kubernetes-list-map-keys\":[\"type\"],"

// Keeps a condition of its own, so that the list is known to be keyed; fails as the subject says.
static const char script[] =
    "local k8s = require 'tidelock'\n"
    "return { name = 'things', subject = 'x.test/v1/Thing', reconcile = function(o)\n"
    "  if o.spec.fail == 'invalid' then k8s.invalid('BadSpec', 'spec.v is wrong') end\n"
    "  if o.spec.fail == 'error' then error('broken ' .. o.spec.v, 0) end\n"
    "  local child = o.spec.child and { { apiVersion = 'v1', kind = 'ConfigMap', metadata = { name = 'c' },\n"
    "    data = { v = o.spec.child } } }\n"
    "  return { apply = child, status = { conditions = { k8s.condition('Ready', true, 'Up') } } }\n"
    "end }\n";

static void start(struct sim *s, const char *crd)
{
    sim_init(s, 5);
    sim_apply(s, "kubectl", crd);
    sim_put_script_text(s, "things", "things.lua", script);
    sim_apply(s, "kubectl",
              "{\"apiVersion\":\"x.test/v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"t\",\"namespace\":"
              "\"default\"},\"spec\":{\"v\":\"1\"}}");
    sim_run(s, SETTLE_MS);
}

static void patch(struct sim *s, const char *path, const char *body)
{
    sim_request(s, "alice", "PATCH", path, MERGE, body);
}

static const json *condition(struct json_doc *doc, const char *type)
{
    const json *list = json_path(json_root(doc), "status", "conditions", NULL);
    for (struct json_iter i = json_iter(list); json_next(&i);)
        if (str_eq(json_get_str(i.value, "type"), type))
            return i.value;
    return NULL;
}

// "False BadSpec spec.v is wrong", or "none".
static const char *reconciled(struct sim *s)
{
    static char text[256];
    struct json_doc *doc = sim_get(s, "x.test/v1", "things", "t");
    const json *c = condition(doc, "Reconciled");
    snprintf(text, sizeof text, "none");
    if (c != NULL)
        snprintf(text, sizeof text, "%s %s %s", json_get_str(c, "status"), json_get_str(c, "reason"),
                 json_get_str(c, "message"));
    assert_non_null(condition(doc, "Ready")); // the script's own is left alone
    json_doc_free(doc);
    return text;
}

static char *since(struct sim *s)
{
    struct json_doc *doc = sim_get(s, "x.test/v1", "things", "t");
    char *text = xstrdup(json_get_str(condition(doc, "Reconciled"), "lastTransitionTime"));
    json_doc_free(doc);
    return text;
}

static size_t requests(const struct sim *s, const char *piece)
{
    size_t n = 0;
    for (const char *at = s->trace.data; (at = strstr(at, piece)) != NULL; at++)
        n++;
    return n;
}

static size_t writes(const struct sim *s)
{
    return requests(s, "fieldManager=tidelock.host-");
}

static void failing_and_healed(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, CRD(WITH_STATUS, KEYED));
    assert_string_equal(reconciled(&s), "none");
    patch(&s, THING, "{\"spec\":{\"fail\":\"invalid\"}}");
    sim_run(&s, SETTLE_MS);
    assert_string_equal(reconciled(&s), "False BadSpec spec.v is wrong");
    assert_int_equal(writes(&s), 1);
    char *began = since(&s);
    sim_run(&s, LONG_MS); // its own write does not set off anything
    assert_int_equal(writes(&s), 1);
    patch(&s, THING, "{\"spec\":{\"fail\":\"error\",\"v\":\"7\"}}");
    sim_run(&s, LONG_MS); // retried many times
    assert_string_equal(reconciled(&s), "False ScriptError broken 7");
    assert_int_equal(writes(&s), 2);
    char *then = since(&s);
    assert_string_equal(began, then); // the status has not changed
    patch(&s, THING, "{\"spec\":{\"fail\":null}}");
    sim_run(&s, SETTLE_MS);
    assert_non_null(strstr(reconciled(&s), "True Reconciled"));
    assert_int_equal(writes(&s), 3);
    char *healed = since(&s);
    assert_string_not_equal(began, healed);
    assert_int_equal(requests(&s, "tidelock GET /openapi/v3/apis/x.test/v1"), 1);
    patch(&s, THING, "{\"spec\":{\"v\":\"8\"}}");
    sim_run(&s, SETTLE_MS);
    sim_restart_host(&s);
    sim_run(&s, SETTLE_MS);
    assert_int_equal(writes(&s), 3);
    free(began);
    free(then);
    free(healed);
    sim_fini(&s);
}

static void healed_by_another_process(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, CRD(WITH_STATUS, KEYED));
    patch(&s, THING, "{\"spec\":{\"fail\":\"invalid\"}}");
    sim_run(&s, SETTLE_MS);
    sim_restart_host(&s);
    sim_run(&s, SETTLE_MS);
    assert_int_equal(writes(&s), 1); // it says so already
    patch(&s, THING, "{\"spec\":{\"fail\":null}}");
    sim_run(&s, SETTLE_MS);
    assert_non_null(strstr(reconciled(&s), "True"));
    assert_int_equal(writes(&s), 2);
    sim_fini(&s);
}

static void removed_by_somebody(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, CRD(WITH_STATUS, KEYED));
    patch(&s, THING, "{\"spec\":{\"fail\":\"invalid\"}}");
    sim_run(&s, SETTLE_MS);
    patch(&s, STATUS,
          "{\"status\":{\"conditions\":[{\"type\":\"Ready\",\"status\":\"True\",\"reason\":\"Up\"}]}}");
    sim_run(&s, SETTLE_MS);
    assert_string_equal(reconciled(&s), "False BadSpec spec.v is wrong");
    assert_in_range(writes(&s), 2, 3);
    sim_fini(&s);
}

static void never_where_there_is_no_such_list(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, CRD(WITH_STATUS, "\"x-kubernetes-list-type\":\"atomic\","));
    patch(&s, THING, "{\"spec\":{\"fail\":\"invalid\"}}");
    sim_run(&s, SETTLE_MS);
    assert_string_equal(reconciled(&s), "none");
    assert_int_equal(writes(&s), 0);
    sim_fini(&s);
    start(&s, CRD("", KEYED)); // no status subresource
    patch(&s, THING, "{\"spec\":{\"fail\":\"invalid\"}}");
    sim_run(&s, SETTLE_MS);
    assert_int_equal(writes(&s), 0);
    sim_fini(&s);
}

#define CHILD "/api/v1/namespaces/default/configmaps/c"

static const char *child_value(struct sim *s)
{
    static char v[20];
    struct json_doc *doc = sim_get(s, "v1", "configmaps", "c");
    snprintf(v, sizeof v, "%s", json_str(json_path(json_root(doc), "data", "v", NULL)));
    json_doc_free(doc);
    return v;
}

// While another manager sets the field again and again, and no longer.
static void while_a_field_is_fought_over(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, CRD(WITH_STATUS, KEYED));
    patch(&s, THING, "{\"spec\":{\"child\":\"1\"}}");
    sim_run(&s, SETTLE_MS);
    for (unsigned i = 0; i < 600; i++) {
        patch(&s, CHILD, "{\"data\":{\"v\":\"hers\"}}");
        sim_run(&s, 1000);
        if (i > 10)
            assert_string_equal(reconciled(&s),
                                "False FieldConflict ConfigMap default/c: field .data.v is changed "
                                "again and again by manager \"alice\"");
    }
    assert_int_equal(writes(&s), 1);
    sim_run(&s, 12 * 60 * 1000); // she has given up
    assert_string_equal(reconciled(&s), "True Reconciled the last pass went through");
    assert_int_equal(writes(&s), 2);
    patch(&s, THING, "{\"spec\":{\"child\":\"2\"}}"); // its own change is none
    sim_run(&s, SETTLE_MS);
    assert_string_equal(child_value(&s), "2");
    assert_int_equal(writes(&s), 2);
    sim_fini(&s);
}

static void while_a_child_is_deleted(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, CRD(WITH_STATUS, KEYED));
    patch(&s, THING, "{\"spec\":{\"child\":\"1\"}}");
    sim_run(&s, SETTLE_MS);
    for (unsigned i = 0; i < 300; i++) {
        struct json_doc *doc = sim_get(&s, "v1", "configmaps", "c");
        if (doc != NULL)
            sim_request(&s, "alice", "DELETE", CHILD, "application/json", "{}");
        json_doc_free(doc);
        sim_run(&s, 1000);
    }
    assert_string_equal(reconciled(&s),
                        "False ChildDeleted ConfigMap default/c is deleted by somebody again and again");
    assert_int_equal(writes(&s), 1);
    sim_run(&s, 12 * 60 * 1000);
    assert_string_equal(reconciled(&s), "True Reconciled the last pass went through");
    assert_int_equal(writes(&s), 2);
    sim_fini(&s);
}

// ---- what tells a keyed list

static enum keyed_answer by_schema(const char *status)
{
    struct schema *schema;
    char *text =
        xasprintf("{\"components\":{\"schemas\":{\"a\":{\"type\":\"object\",\"properties\":{%s},"
                  "\"x-kubernetes-group-version-kind\":[{\"group\":\"g\",\"version\":\"v1\",\"kind\":"
                  "\"K\"}]},\"s\":{\"type\":\"object\",\"properties\":{\"conditions\":{" KEYED
                  "\"type\":\"array\"}}},\"self\":{\"$ref\":\"#/components/schemas/self\"}}}}",
                  status);
    assert_int_equal(schema_compile(text, strlen(text), "g/v1", &schema, NULL), 0);
    enum keyed_answer a = keyed_by_schema(schema_kind(schema, "K"));
    schema_unref(schema);
    free(text);
    return a;
}

#define OBJECT(more) "\"type\":\"object\"," more
#define CONDITIONS(list)                                                                                     \
    "\"status\":{" OBJECT("\"properties\":{\"conditions\":{" list "\"type\":\"array\"}}}")

static void lists_in_schemas(void **unused)
{
    (void)unused;
    assert_int_equal(by_schema(CONDITIONS(KEYED)), KEYED_YES);
    // As built-in kinds have it: by references, wrapped into allOf.
    assert_int_equal(by_schema("\"status\":{\"allOf\":[{\"$ref\":\"#/components/schemas/s\"}]}"), KEYED_YES);
    assert_int_equal(by_schema(CONDITIONS("")), KEYED_NO);
    assert_int_equal(by_schema(CONDITIONS("\"x-kubernetes-list-type\":\"atomic\",")), KEYED_NO);
    assert_int_equal(by_schema(CONDITIONS("\"x-kubernetes-list-type\":\"map\",\"x-kubernetes-list-map-keys\":"
                                          "[\"type\",\"reason\"],")),
                     KEYED_NO);
    assert_int_equal(by_schema("\"status\":{" OBJECT("\"properties\":{\"x\":{\"type\":\"string\"}}}")),
                     KEYED_NO);
    assert_int_equal(by_schema("\"spec\":{\"type\":\"object\"}"), KEYED_NO);
    assert_int_equal(by_schema("\"status\":{" OBJECT("\"x-kubernetes-preserve-unknown-fields\":true}")),
                     KEYED_UNKNOWN);
    assert_int_equal(by_schema("\"status\":{\"$ref\":\"#/components/schemas/self\"}"), KEYED_UNKNOWN);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(failing_and_healed),
        cmocka_unit_test(healed_by_another_process),
        cmocka_unit_test(removed_by_somebody),
        cmocka_unit_test(never_where_there_is_no_such_list),
        cmocka_unit_test(while_a_field_is_fought_over),
        cmocka_unit_test(while_a_child_is_deleted),
        cmocka_unit_test(lists_in_schemas),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
