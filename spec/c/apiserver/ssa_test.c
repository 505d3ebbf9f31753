// Server-side apply; what is expected was seen on kube-apiserver 1.36.3.
#include "apiserver/kit.h"

#define CM_S "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"s\"}"
#define W "{\"apiVersion\":\"x.test/v1\",\"kind\":\"Widget\",\"metadata\":{\"name\":\"w\"}"

static void test_create_and_repeat(void **state)
{
    struct kit *k = *state;
    kit_expect(k, 201, "PATCH", CM "/s?fieldManager=m1", APPLY,
               "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"s\",\"labels\":{},"
               "\"annotations\":null},"
               "\"data\":{\"k\":\"v\",\"n\":null}}");
    kit_has(k, "data", "{\"k\":\"v\",\"n\":\"\"}");
    kit_has(k, "metadata.labels", NULL);
    kit_owns(k, "m1 Apply",
             "{\"f:data\":{\"f:k\":{},\"f:n\":{}},\"f:metadata\":{\"f:annotations\":{},\"f:labels\":{}}}");
    char *rv = kit_rv(k);
    loop_run_until(k->loop, 5000);
    kit_expect(k, 200, "PATCH", CM "/s?fieldManager=m1", APPLY,
               "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"s\",\"labels\":{},"
               "\"annotations\":null},"
               "\"data\":{\"k\":\"v\",\"n\":null}}");
    char *again = kit_rv(k);
    assert_string_equal(rv, again); // nothing was written
    free(rv);
    free(again);
}

static void test_conflict_share_force(void **state)
{
    struct kit *k = *state;
    kit_expect(k, 201, "PATCH", CM "/s?fieldManager=m1", APPLY, CM_S ",\"data\":{\"k\":\"v\"}}");
    kit_expect(k, 409, "PATCH", CM "/s?fieldManager=m2", APPLY, CM_S ",\"data\":{\"k\":\"w\"}}");
    kit_has(k, "",
            "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":"
            "\"Apply failed with 1 "
            "conflict: conflict with \\\"m1\\\": "
            ".data.k\",\"reason\":\"Conflict\",\"details\":{\"causes\":[{\"reason\":"
            "\"FieldManagerConflict\",\"message\":\"conflict with "
            "\\\"m1\\\"\",\"field\":\".data.k\"}]},\"code\":409}");
    kit_expect(k, 200, "PATCH", CM "/s?fieldManager=m2", APPLY,
               CM_S ",\"data\":{\"k\":\"v\"}}"); // equal: shared
    kit_owns(k, "m1 Apply", "{\"f:data\":{\"f:k\":{}}}");
    kit_owns(k, "m2 Apply", "{\"f:data\":{\"f:k\":{}}}");
    kit_has(k, "metadata.managedFields.0.manager", "\"m2\""); // it changed nothing and has no time
    kit_has(k, "metadata.managedFields.0.time", NULL);
    kit_expect(k, 200, "PATCH", CM "/s?fieldManager=m2&force=true", APPLY, CM_S ",\"data\":{\"k\":\"w\"}}");
    kit_owns(k, "m1 Apply", NULL);
    kit_owns(k, "m2 Apply", "{\"f:data\":{\"f:k\":{}}}");
    kit_has(k, "data.k", "\"w\"");
}

static void test_dropped_fields(void **state)
{
    struct kit *k = *state;
    kit_expect(k, 201, "PATCH", CM "/s?fieldManager=m1", APPLY,
               CM_S ",\"data\":{\"a\":\"1\",\"b\":\"2\",\"c\":\"3\"}}");
    kit_expect(k, 200, "PATCH", CM "/s?fieldManager=m2", APPLY, CM_S ",\"data\":{\"b\":\"2\"}}");
    kit_expect(k, 200, "PATCH", CM "/s?fieldManager=m1", APPLY, CM_S ",\"data\":{\"a\":\"1\"}}");
    kit_has(k, "data", "{\"a\":\"1\",\"b\":\"2\"}"); // b is m2's as well, c nobody's any more
    kit_expect(k, 200, "PATCH", CM "/s?fieldManager=m1", APPLY, CM_S "}");
    kit_has(k, "data", "{\"b\":\"2\"}");
    kit_expect(k, 200, "PATCH", CM "/s?fieldManager=m2", APPLY, CM_S "}");
    kit_has(k, "data", NULL);
    kit_has(k, "metadata.managedFields", NULL);
}

static void test_update_managers(void **state)
{
    struct kit *k = *state;
    kit_expect(k, 201, "POST", CM, NULL, CM_S ",\"data\":{\"k\":\"v\"}}");
    kit_owns(k, "probe Update", "{\"f:data\":{\".\":{},\"f:k\":{}}}");
    kit_expect(k, 200, "PUT", CM "/s", NULL, CM_S ",\"data\":{\"k\":\"v2\",\"l\":\"x\"}}");
    kit_owns(k, "probe Update", "{\"f:data\":{\".\":{},\"f:k\":{},\"f:l\":{}}}");
    kit_expect(k, 409, "PATCH", CM "/s?fieldManager=m2", APPLY, CM_S ",\"data\":{\"k\":\"c\",\"l\":\"d\"}}");
    kit_has(
        k, "message",
        "\"Apply failed with 2 conflicts: conflicts with \\\"probe\\\" using v1:\\n- .data.k\\n- .data.l\"");
    kit_expect(k, 200, "PATCH", CM "/s?fieldManager=m2&force=true", APPLY, CM_S ",\"data\":{\"k\":\"c\"}}");
    kit_owns(k, "probe Update", "{\"f:data\":{\".\":{},\"f:l\":{}}}");
    kit_expect(k, 200, "PATCH", CM "/s?fieldManager=m1", MERGE,
               "{\"data\":{\"k\":\"zz\"}}"); // an update takes
    kit_owns(k, "m2 Apply", NULL);
    kit_owns(k, "m1 Update", "{\"f:data\":{\"f:k\":{}}}");
}

static void test_before_first_apply(void **state)
{
    struct kit *k = *state;
    kit_expect(k, 201, "POST", CM, NULL, CM_S ",\"data\":{\"a\":\"b\"}}");
    kit_expect(k, 200, "PUT", CM "/s", NULL,
               "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"s\",\"managedFields\":"
               "[{}]},\"data\":{"
               "\"a\":\"b\"}}");
    kit_has(k, "metadata.managedFields", NULL);
    kit_expect(k, 200, "PATCH", CM "/s?fieldManager=m", APPLY, CM_S ",\"data\":{\"c\":\"d\"}}");
    kit_owns(k, "before-first-apply Update", "{\"f:data\":{\".\":{},\"f:a\":{}}}");
    kit_owns(k, "m Apply", "{\"f:data\":{\"f:c\":{}}}");
}

static void create_widget(struct kit *k)
{
    kit_expect(k, 201, "PATCH", WIDGETS "/w?fieldManager=m1", APPLY,
               "{\"apiVersion\":\"x.test/"
               "v1\",\"kind\":\"Widget\",\"metadata\":{\"name\":\"w\",\"labels\":{\"a\":\"b\"}},\"spec\":{"
               "\"m\":{\"a\":\"b\"},\"any\":{\"x\":{\"y\":1},\"e\":{},\"l\":[1]},\"lm\":[{\"name\":\"q\","
               "\"v\":\"1\"}],\"set\":["
               "\"s\",\"t\"],\"arr\":[\"1\"],\"obj\":null},\"status\":{\"replicas\":1}}");
}

static void test_custom_resource(void **state)
{
    struct kit *k = *state;
    create_widget(k);
    kit_has(k, "status", NULL);
    kit_has(k, "metadata.generation", "1");
    kit_owns(k, "m1 Apply",
             "{\"f:metadata\":{\"f:labels\":{\"f:a\":{}}},\"f:spec\":{\"f:any\":{\"f:e\":{},\"f:l\":{},\"f:"
             "x\":{\".\":{},\"f:y\":{}}},"
             "\"f:arr\":{},\"f:lm\":{\"k:{\\\"name\\\":\\\"q\\\",\\\"ns\\\":\\\"default\\\"}\":{\".\":{},\"f:"
             "name\":{},\"f:v\":{}}},"
             "\"f:m\":{\"f:a\":{}},\"f:obj\":{},\"f:set\":{\"v:\\\"s\\\"\":{},\"v:\\\"t\\\"\":{}}}}");
    static const char second[] = W ",\"spec\":{\"m\":{\"a\":\"c\"},\"lm\":[{\"name\":\"q\",\"v\":\"2\"},{"
                                   "\"name\":\"r\",\"ns\":\"n\"}],\"set\":[\"u\"],"
                                   "\"arr\":[\"2\"]}}";
    kit_expect(k, 409, "PATCH", WIDGETS "/w?fieldManager=m2", APPLY, second);
    kit_has(k, "message",
            "\"Apply failed with 3 conflicts: conflicts with \\\"m1\\\":\\n- .spec.arr\\n- "
            ".spec.lm[name=\\\"q\\\",ns=\\\"default\\\"].v\\n- .spec.m.a\"");
    kit_expect(k, 200, "PATCH", WIDGETS "/w?fieldManager=m2&force=true", APPLY, second);
    kit_has(k, "metadata.generation", "2");
    kit_has(k, "spec.set", "[\"s\",\"t\",\"u\"]");
    kit_has(k, "spec.arr", "[\"2\"]");
    kit_has(k, "spec.lm", "[{\"name\":\"q\",\"v\":\"2\"},{\"name\":\"r\",\"ns\":\"n\"}]");
    kit_expect(k, 200, "PATCH", WIDGETS "/w?fieldManager=m1", APPLY, W ",\"spec\":{}}");
    kit_owns(k, "m1 Apply", "{\"f:spec\":{}}");
    kit_has(k, "metadata.labels", NULL);
    kit_has(k, "spec",
            "{\"arr\":[\"2\"],\"lm\":[{\"name\":\"q\",\"v\":\"2\"},{\"name\":\"r\",\"ns\":\"n\"}],\"m\":{"
            "\"a\":\"c\"},\"set\":[\"u\"]}");
    // m1 keeps the spec, in which nothing is left: null, which the schema forbids.
    kit_expect(k, 422, "PATCH", WIDGETS "/w?fieldManager=m2", APPLY, W "}");
    kit_has(k, "message",
            "\"Widget.x.test \\\"w\\\" is invalid: spec: Invalid value: \\\"null\\\": spec in body must be "
            "of type object: "
            "\\\"null\\\"\"");
    kit_expect(k, 200, "PATCH", WIDGETS "/w?fieldManager=m1", APPLY, W "}");
    kit_expect(k, 200, "PATCH", WIDGETS "/w?fieldManager=m2", APPLY, W "}");
    kit_has(k, "spec", NULL);
    kit_has(k, "metadata.managedFields", NULL);
}

#define NULLS "/apis/n.test/v1/namespaces/default/nulls"

static const char null_crd[] =
    "{\"apiVersion\":\"apiextensions.k8s.io/"
    "v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{\"name\":"
    "\"nulls.n.test\"},\"spec\":{\"group\":\"n.test\",\"scope\":\"Namespaced\",\"names\":{\"plural\":"
    "\"nulls\","
    "\"kind\":\"Nullx\"},\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true,\"schema\":{"
    "\"openAPIV3Schema\":{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\",\"properties\":{"
    "\"i\":{\"type\":\"integer\"},\"is\":{\"x-kubernetes-int-or-string\":true},"
    "\"def\":{\"type\":\"integer\",\"default\":5},\"nul\":{\"type\":\"integer\",\"nullable\":true},"
    "\"arr\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},\"list\":{\"type\":\"array\",\"items\":{"
    "\"type\":"
    "\"object\",\"properties\":{\"x\":{\"type\":\"integer\",\"default\":3},\"y\":{\"type\":\"integer\"}}}},"
    "\"m\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}},\"am\":{\"type\":\"object\","
    "\"x-kubernetes-map-type\":\"atomic\",\"properties\":{\"z\":{\"type\":\"string\"}}},\"any\":{\"type\":"
    "\"object\",\"x-kubernetes-preserve-unknown-fields\":true}}}}}}}]}}";

static void test_null_in_a_custom_kind(void **state)
{
    struct kit *k = *state;
    static const struct {
        const char *spec;
        const char *applied; // the spec, or where and what is refused
        const char *posted;
    } table[] = {
        {"{\"i\":null}", "spec.i integer", "{}"},
        {"{\"is\":null}", "spec.is integer,string", "{}"},
        {"{\"def\":null}", "{\"def\":5}", "{\"def\":5}"},
        {"{\"nul\":null}", "{\"nul\":null}", "{\"nul\":null}"},
        {"{\"arr\":null}", "spec.arr array", "{}"},
        {"{\"arr\":[\"a\",null]}", "spec.arr[1] string", "spec.arr[1] string"},
        {"{\"list\":[{\"x\":null}]}", "{\"list\":[{\"x\":3}]}", "{\"list\":[{\"x\":3}]}"},
        {"{\"list\":[{\"y\":null}]}", "spec.list[0].y integer", "{\"list\":[{}]}"},
        {"{\"list\":[null]}", "spec.list[0] object", "spec.list[0] object"},
        {"{\"m\":null}", "spec.m object", "{}"},
        {"{\"m\":{\"k\":null}}", "spec.m.k string", "{\"m\":{}}"},
        {"{\"am\":{\"z\":null}}", "spec.am.z string", "{\"am\":{}}"},
        {"{\"any\":{\"q\":null}}", "{\"any\":{\"q\":null}}", "{\"any\":{\"q\":null}}"},
    };
    kit_expect(k, 201, "POST", CRDS, "application/json", null_crd);
    for (size_t i = 0; i < 2 * sizeof(table) / sizeof(table[0]); i++) {
        bool apply = i % 2 == 0;
        const char *want = apply ? table[i / 2].applied : table[i / 2].posted, *space = strchr(want, ' ');
        char *body = xasprintf(
                 "{\"apiVersion\":\"n.test/v1\",\"kind\":\"Nullx\",\"metadata\":{\"name\":\"n%zu\"},"
                 "\"spec\":%s}",
                 i, table[i / 2].spec),
             *path = apply ? xasprintf(NULLS "/n%zu?fieldManager=m", i) : xstrdup(NULLS);
        kit_expect(k, space == NULL ? 201 : 422, apply ? "PATCH" : "POST", path,
                   apply ? APPLY : "application/json", body);
        if (space == NULL) {
            kit_has(k, "spec", want);
        } else {
            int n = (int)(space - want);
            char *text = xasprintf(
                "\"Nullx.n.test \\\"n%zu\\\" is invalid: %.*s: Invalid value: \\\"null\\\": %.*s in "
                "body must be of type %s: \\\"null\\\"\"",
                i, n, want, n, want, space + 1);
            kit_has(k, "message", text);
            free(text);
        }
        free(path);
        free(body);
    }
}

static void test_status_subresource(void **state)
{
    struct kit *k = *state;
    create_widget(k);
    kit_expect(k, 200, "PATCH", WIDGETS "/w/status?fieldManager=m1", APPLY,
               W ",\"spec\":{\"num\":7},\"status\":{\"replicas\":1}}");
    kit_owns(k, "m1 Apply status", "{\"f:status\":{\"f:replicas\":{}}}");
    kit_has(k, "spec.num", NULL);
    kit_has(k, "metadata.generation", "1");
    char *rv = kit_rv(k);
    kit_expect(k, 200, "PATCH", WIDGETS "/w/status?fieldManager=m1", APPLY,
               W ",\"status\":{\"replicas\":1}}");
    char *again = kit_rv(k);
    assert_string_equal(rv, again);
    free(rv);
    free(again);
    kit_expect(
        k, 200, "PATCH", WIDGETS "/w/status?fieldManager=m1", MERGE,
        "{\"metadata\":{\"labels\":{\"z\":\"z\"}},\"spec\":{\"num\":7},\"status\":{\"items\":[\"a\"]}}");
    kit_owns(k, "m1 Update status", "{\"f:status\":{\"f:items\":{}}}");
    kit_has(k, "metadata.labels", "{\"a\":\"b\"}");
    kit_has(k, "status", "{\"items\":[\"a\"],\"replicas\":1}");
    kit_expect(k, 200, "PATCH", WIDGETS "/w?fieldManager=m3", MERGE,
               "{\"spec\":{\"num\":7},\"status\":{\"replicas\":9}}");
    kit_has(k, "status.replicas", "1");
    kit_has(k, "metadata.generation", "2");
    kit_expect(k, 200, "PATCH", WIDGETS "/w/status?fieldManager=m1", APPLY, W "}");
    kit_has(k, "status", "{\"items\":[\"a\"]}"); // what is no longer applied goes
    kit_expect(k, 404, "PATCH", WIDGETS "/nope/status?fieldManager=m1", APPLY,
               "{\"apiVersion\":\"x.test/"
               "v1\",\"kind\":\"Widget\",\"metadata\":{\"name\":\"nope\"},\"status\":{\"replicas\":1}}");
    kit_has(k, "message", "\"widgets.x.test \\\"nope\\\" not found\"");
}

static void test_kind_without_status_subresource(void **state)
{
    struct kit *k = *state;
    static const char plain[] = "{\"apiVersion\":\"x.test/"
                                "v1\",\"kind\":\"Plain\",\"metadata\":{\"name\":\"p\"},\"status\":{\"a\":1}}";
    kit_expect(k, 201, "PATCH", "/apis/x.test/v1/plains/p?fieldManager=m", APPLY, plain);
    kit_has(k, "status.a", "1");
    kit_owns(k, "m Apply", "{\"f:status\":{\".\":{},\"f:a\":{}}}");
    kit_expect(k, 404, "PATCH", "/apis/x.test/v1/plains/p/status?fieldManager=m", APPLY, plain);
    kit_has(k, "message", "\"plains.x.test \\\"p\\\" not found\"");
    kit_expect(k, 200, "PATCH", "/apis/x.test/v1/plains/p?fieldManager=m", MERGE, "{\"status\":{\"a\":2}}");
    kit_has(k, "metadata.generation", "2");
}

#define DEPLOYMENTS "/apis/apps/v1/namespaces/default/deployments"
#define D(spec)                                                                                              \
    "{\"apiVersion\":\"apps/v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"d\"},\"spec\":" spec "}"
#define TEMPLATE(containers) "{\"template\":{\"spec\":{\"containers\":[" containers "]}}}"

static void test_pod_lists(void **state)
{
    struct kit *k = *state;
    kit_expect(k, 201, "PATCH", DEPLOYMENTS "/d?fieldManager=m1", APPLY,
               D(TEMPLATE("{\"name\":\"c\",\"image\":\"i\",\"env\":[{\"name\":\"A\",\"value\":\"1\"}],"
                          "\"ports\":[{\"containerPort\":80}]}")));
    kit_owns(k, "m1 Apply",
             "{\"f:spec\":{\"f:template\":{\"f:spec\":{\"f:containers\":{\"k:{\\\"name\\\":\\\"c\\\"}\":{\"."
             "\":{},\"f:name\":{},"
             "\"f:image\":{},\"f:env\":{\"k:{\\\"name\\\":\\\"A\\\"}\":{\".\":{},\"f:name\":{},\"f:value\":{}"
             "}},\"f:ports\":{"
             "\"k:{\\\"containerPort\\\":80,\\\"protocol\\\":\\\"TCP\\\"}\":{\".\":{},\"f:containerPort\":{}}"
             "}}}}}}}");
    kit_expect(k, 200, "PATCH", DEPLOYMENTS "/d?fieldManager=m2", APPLY,
               D(TEMPLATE("{\"name\":\"side\",\"image\":\"s\"},{\"name\":\"c\",\"env\":[{\"name\":\"B\","
                          "\"value\":\"2\"}]}")));
    kit_has(k, "spec.template.spec.containers",
            "[{\"name\":\"side\",\"image\":\"s\"},{\"name\":\"c\",\"image\":\"i\",\"env\":[{\"name\":\"A\","
            "\"value\":\"1\"},{\"name\":"
            "\"B\",\"value\":\"2\"}],\"ports\":[{\"containerPort\":80}]}]");
    kit_expect(k, 200, "PATCH", DEPLOYMENTS "/d?fieldManager=m2", APPLY,
               D(TEMPLATE("{\"name\":\"side\",\"image\":\"s\"}")));
    kit_has(k, "spec.template.spec.containers.0.env", NULL);
    kit_expect(k, 200, "PATCH", DEPLOYMENTS "/d?fieldManager=m1", APPLY,
               D(TEMPLATE("{\"name\":\"c\",\"image\":\"i\"}")));
    kit_has(k, "spec.template.spec.containers",
            "[{\"name\":\"side\",\"image\":\"s\"},{\"name\":\"c\",\"image\":\"i\"}]");
    kit_has(k, "metadata.generation", "4");
}

static void test_owner_references_and_finalizers(void **state)
{
    struct kit *k = *state;
#define META(refs, fin)                                                                                      \
    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"s\",\"ownerReferences\":[" refs  \
    "],\"finalizers\":[" fin "]}}"
    kit_expect(k, 201, "PATCH", CM "/s?fieldManager=m1", APPLY,
               META("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"a\",\"uid\":\"1\"}", "\"x.test/a\""));
    kit_expect(k, 200, "PATCH", CM "/s?fieldManager=m2", APPLY,
               META("{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"b\",\"uid\":\"2\"}", "\"x.test/b\""));
    kit_has(k, "metadata.finalizers", "[\"x.test/a\",\"x.test/b\"]");
    kit_has(k, "metadata.ownerReferences.1.uid", "\"2\"");
    kit_owns(k, "m2 Apply",
             "{\"f:metadata\":{\"f:finalizers\":{\"v:\\\"x.test/"
             "b\\\"\":{}},\"f:ownerReferences\":{\"k:{\\\"uid\\\":\\\"2\\\"}\":{}}}}");
    kit_expect(k, 200, "PATCH", CM "/s?fieldManager=m1", APPLY, META("", ""));
    kit_has(k, "metadata.finalizers", "[\"x.test/b\"]");
    kit_has(k, "metadata.ownerReferences",
            "[{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"name\":\"b\",\"uid\":\"2\"}]");
}

static void test_refusals(void **state)
{
    struct kit *k = *state;
#define BAD(code, query, body, text)                                                                         \
    do {                                                                                                     \
        kit_expect(k, code, "PATCH", query, APPLY, body);                                                    \
        kit_has(k, "message", text);                                                                         \
    } while (0)
    BAD(422, CM "/s", CM_S "}",
        "\"PatchOptions.meta.k8s.io \\\"\\\" is invalid: fieldManager: Required value: is required for apply "
        "patch\"");
    BAD(400, CM "/t?fieldManager=m", CM_S "}",
        "\"the name of the object (s) does not match the name on the URL (t)\"");
    BAD(400, CM "/s?fieldManager=m",
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"s\",\"managedFields\":[]}}",
        "\"metadata.managedFields must be nil\"");
    BAD(409, CM "/s?fieldManager=m",
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"s\",\"uid\":\"u\"}}",
        "\"Operation cannot be fulfilled on configmaps \\\"s\\\": uid mismatch: the provided object "
        "specified uid u, and no "
        "existing object was found\"");
    BAD(400, CM "/s?fieldManager=m",
        "{\"apiVersion\":\"v2\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"s\"}}",
        "\"invalid object type: /v2, Kind=ConfigMap\"");
    BAD(500, WIDGETS "/w?fieldManager=m", W ",\"spec\":{\"set\":[\"a\",\"a\"]}}",
        "\"failed to create typed patch object (/w; x.test/v1, Kind=Widget): .spec.set: duplicate entries "
        "for key "
        "[=\\\"a\\\"]\"");
    BAD(500, WIDGETS "/w?fieldManager=m", W ",\"spec\":{\"arr\":{}}}",
        "\"failed to create typed patch object (/w; x.test/v1, Kind=Widget): .spec.arr: expected list, got "
        "&{map[]}\"");
    BAD(500, CM "/s?fieldManager=m", CM_S ",\"data\":{\"k\":1}}",
        "\"failed to create typed patch object (/s; /v1, Kind=ConfigMap): .data.k: expected string, got "
        "&value.valueUnstructured{Value:1}\"");
    kit_expect(
        k, 201, "PATCH", CM "/s?fieldManager=m", APPLY,
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"s\",\"resourceVersion\":"
        "\"1\"}}"); // a version asks for nothing where there is no object
    BAD(422, CM "/s?fieldManager=m",
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"s\",\"uid\":\"u\"}}",
        "\"ConfigMap \\\"s\\\" is invalid: metadata.uid: Invalid value: \\\"u\\\": field is immutable\"");
    BAD(409, CM "/s?fieldManager=m",
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"s\",\"resourceVersion\":"
        "\"1\"}}",
        "\"Operation cannot be fulfilled on configmaps \\\"s\\\": the object has been modified; please apply "
        "your changes to the "
        "latest version and try again\"");
}

static void test_yaml_body(void **state)
{
    struct kit *k = *state;
    kit_expect(k, 400, "PATCH", CM "/s?fieldManager=m", APPLY, CM_S ",\"data\":{\"k\":\"a\\/b\"}}");
    kit_expect(k, 201, "PATCH", CM "/s?fieldManager=m", APPLY,
               "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: s\ndata:\n  k: \"a/b\"\n");
    kit_has(k, "data.k", "\"a/b\"");
}

static void test_versions(void **state)
{
    struct kit *k = *state;
    create_widget(k);
    kit_expect(k, 200, "GET", "/apis/x.test/v2/namespaces/default/widgets/w", NULL, NULL);
    kit_has(k, "apiVersion", "\"x.test/v2\"");
    kit_has(k, "spec.arr", "[\"1\"]");
    kit_expect(k, 200, "GET", WIDGETS "/w", NULL, NULL);
    kit_has(k, "apiVersion", "\"x.test/v1\"");
}

// An apply's body goes through a YAML reader, which knows fewer escapes than JSON and takes fewer characters.
static void test_body_is_yaml(void **state)
{
    struct kit *k = *state;
    static const struct {
        const char *text;   // as it stands in the body
        const char *stored; // NULL: 400
    } rows[] = {
        {"a/b", "\"a/b\""},
        {"a\\/b", NULL},
        {"\\ud83d\\ude00", NULL},
        {"\360\237\230\200", "\"\360\237\230\200\""},
        {"a\177b", NULL},
        {"a\\u007fb", "\"a\177b\""},
        {"a\302\201b", NULL},
        {"a\\u0081b", "\"a\302\201b\""},
        {"a\302\205b", "\"a b\""}, // a line break to YAML
        {"a\\u0085b", "\"a\302\205b\""},
        {"a\342\200\250b", "\"a\342\200\250b\""},
        {"a\357\277\277b", NULL},
        {"a\\u0000b", "\"a\\u0000b\""},
        {"a\\tb\\nc\\bd\\fe\\rf", "\"a\\tb\\nc\\bd\\fe\\rf\""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        char *body = xasprintf(CM_S ",\"data\":{\"k\":\"%s\"}}", rows[i].text);
        int got = kit_request(k, "admin", "PATCH", CM "/s?fieldManager=m", APPLY, body);
        if (rows[i].stored == NULL)
            assert_int_equal(got, 400);
        else
            assert_true(got == 200 || got == 201);
        if (rows[i].stored != NULL)
            kit_has(k, "data.k", rows[i].stored);
        free(body);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(test_create_and_repeat),
        KIT_TEST(test_conflict_share_force),
        KIT_TEST(test_dropped_fields),
        KIT_TEST(test_update_managers),
        KIT_TEST(test_before_first_apply),
        KIT_TEST(test_custom_resource),
        KIT_TEST(test_null_in_a_custom_kind),
        KIT_TEST(test_status_subresource),
        KIT_TEST(test_kind_without_status_subresource),
        KIT_TEST(test_pod_lists),
        KIT_TEST(test_owner_references_and_finalizers),
        KIT_TEST(test_refusals),
        KIT_TEST(test_yaml_body),
        KIT_TEST(test_versions),
        KIT_TEST(test_body_is_yaml),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
