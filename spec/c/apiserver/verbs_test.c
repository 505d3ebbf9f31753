// Reading, writing and deleting, and how the server words what it refuses; as seen on kube-apiserver 1.36.3.
#include "apiserver/kit.h"

#define CM_A                                                                                                 \
    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"},\"data\":{\"k\":\"v\"}}"
#define WIDGET(meta, rest)                                                                                   \
    "{\"apiVersion\":\"x.test/v1\",\"kind\":\"Widget\",\"metadata\":{" meta "}" rest "}"

static void refused(struct kit *k, int status, const char *method, const char *path, const char *type,
                    const char *body, const char *reason, const char *message)
{
    kit_expect(k, status, method, path, type, body);
    const char *said = json_get_str(json_root(k->doc), "message"),
               *why = json_get_str(json_root(k->doc), "reason");
    assert_non_null(said);
    assert_string_equal(said, message);
    assert_string_equal(why == NULL ? "" : why, reason);
}

static void test_create(void **state)
{
    struct kit *k = *state;
    kit_expect(k, 201, "POST", CM, NULL, CM_A);
    kit_has(k, "metadata.creationTimestamp", "\"2026-01-02T03:04:05Z\"");
    kit_has(k, "metadata.namespace", "\"default\"");
    kit_has(k, "metadata.generation", NULL);
    refused(k, 409, "POST", CM, NULL, CM_A, "AlreadyExists", "configmaps \"a\" already exists");
    kit_has(k, "details", "{\"name\":\"a\",\"kind\":\"configmaps\"}");
    refused(k, 404, "POST", "/api/v1/namespaces/nons/configmaps", NULL, CM_A, "NotFound",
            "namespaces \"nons\" not found");
    refused(k, 400, "POST", CM, NULL,
            "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\",\"namespace\":"
            "\"other\"}}",
            "BadRequest",
            "the namespace of the provided object does not match the namespace sent on the request");
    refused(k, 422, "POST", CM, NULL, "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{}}",
            "Invalid",
            "ConfigMap \"\" is invalid: metadata.name: Required value: name or generateName is required");
    kit_expect(k, 422, "POST", CM, NULL,
               "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"A_\"}}");
    refused(k, 500, "POST", CM, NULL,
            "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"b\",\"resourceVersion\":"
            "\"5\"}}",
            "", "resourceVersion should not be set on objects to be created");
    refused(k, 400, "POST", WIDGETS, NULL, "{\"kind\":\"Widget\",\"metadata\":{\"name\":\"w\"}}",
            "BadRequest",
            "the API version in the data () does not match the expected API version (x.test/v1)");
    refused(k, 422, "POST", WIDGETS, NULL,
            "{\"apiVersion\":\"x.test/v1\",\"kind\":\"Wodget\",\"metadata\":{\"name\":\"w\"}}", "Invalid",
            "Wodget.x.test \"w\" is invalid: kind: Invalid value: \"Wodget\": must be Widget");
    kit_expect(k, 201, "POST", CM, NULL,
               "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"generateName\":\"b-\"}}");
    assert_int_equal(strlen(json_str(json_path(json_root(k->doc), "metadata", "name", NULL))), 7);
    kit_expect(k, 400, "POST", CM, NULL, "{bad");
    kit_expect(k, 400, "POST", CM, NULL, "[]");
    kit_expect(k, 405, "POST", "/api/v1/configmaps", NULL, CM_A);
    refused(k, 405, "POST", CM "/a", NULL, CM_A, "MethodNotAllowed",
            "the server does not allow this method on the requested resource");
}

static void test_not_found(void **state)
{
    struct kit *k = *state;
    refused(k, 404, "GET", CM "/nope", NULL, NULL, "NotFound", "configmaps \"nope\" not found");
    refused(k, 404, "GET", WIDGETS "/nope", NULL, NULL, "NotFound", "widgets.x.test \"nope\" not found");
    kit_has(k, "details", "{\"name\":\"nope\",\"group\":\"x.test\",\"kind\":\"widgets\"}");
    refused(k, 404, "GET", "/api/v1/namespaces/default/nopes", NULL, NULL, "NotFound",
            "the server could not find the requested resource");
    kit_expect(k, 404, "GET", "/apis/nope.test/v1", NULL, NULL);
    assert_string_equal(k->body, "404 page not found\n");
    kit_expect(k, 404, "GET", "/apis/x.test/v1/namespaces/default/plains/x", NULL, NULL);
    kit_expect(k, 404, "GET", "/apis/x.test/v1/widgets/x", NULL, NULL);
    kit_expect(k, 404, "PUT", CM "/a", NULL, CM_A);
    kit_expect(k, 404, "PATCH", CM "/a", MERGE, "{}");
    kit_expect(k, 400, "GET", "nothing", NULL, NULL);
    kit_expect(k, 400, "GET", "/api/v1/%zz", NULL, NULL);
    kit_expect(k, 404, "GET", "/a/b/c/d/e/f/g/h/i/j/k", NULL, NULL);
}

static void test_update(void **state)
{
    struct kit *k = *state;
    kit_expect(k, 201, "POST", WIDGETS, NULL, WIDGET("\"name\":\"w\"", ",\"spec\":{\"m\":{\"a\":\"b\"}}"));
    char *rv = kit_rv(k);
    refused(k, 422, "PUT", WIDGETS "/w", NULL, WIDGET("\"name\":\"w\"", ""), "Invalid",
            "widgets.x.test \"w\" is invalid: metadata.resourceVersion: Invalid value: 0: must be specified "
            "for an update");
    refused(k, 409, "PUT", WIDGETS "/w", NULL, WIDGET("\"name\":\"w\",\"resourceVersion\":\"1\"", ""),
            "Conflict",
            "Operation cannot be fulfilled on widgets.x.test \"w\": the object has been modified; please "
            "apply your changes "
            "to the latest version and try again");
    char *body = xasprintf(WIDGET("\"name\":\"w\",\"resourceVersion\":\"%s\"",
                                  ",\"spec\":{\"num\":1},\"status\":{\"replicas\":1}"),
                           rv);
    kit_expect(k, 200, "PUT", WIDGETS "/w", NULL, body);
    kit_has(k, "spec", "{\"num\":1}");
    kit_has(k, "status", NULL);
    kit_has(k, "metadata.generation", "2");
    kit_expect(k, 200, "PATCH", WIDGETS "/w", JSONPATCH,
               "[{\"op\":\"add\",\"path\":\"/metadata/labels\",\"value\":{\"a\":\"b\"}}]");
    kit_has(k, "metadata.generation", "2");
    refused(k, 400, "PUT", CM "/a", NULL,
            "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"b\"}}", "BadRequest",
            "the name of the object (b) does not match the name on the URL (a)");
    kit_expect(k, 201, "POST", CM, NULL, CM_A);
    kit_expect(k, 200, "PUT", CM "/a", NULL, CM_A);
    kit_expect(k, 409, "PUT", CM "/a", NULL,
               "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\",\"uid\":\"x\"}}");
    free(body);
    free(rv);
}

static void test_patches(void **state)
{
    struct kit *k = *state;
    kit_expect(k, 201, "POST", CM, NULL, CM_A);
    kit_expect(k, 200, "PATCH", CM "/a", MERGE, "{\"data\":{\"k\":null,\"l\":\"1\"}}");
    kit_has(k, "data", "{\"l\":\"1\"}");
    kit_expect(k, 200, "PATCH", CM "/a", JSONPATCH,
               "[{\"op\":\"add\",\"path\":\"/data/x~1y\",\"value\":\"2\"},{\"op\":\"copy\",\"from\":\"/data/"
               "l\",\"path\":\"/data/m\"},"
               "{\"op\":\"test\",\"path\":\"/data/m\",\"value\":\"1\"},{\"op\":\"move\",\"from\":\"/data/"
               "l\",\"path\":\"/data/n\"}]");
    kit_has(k, "data", "{\"x/y\":\"2\",\"m\":\"1\",\"n\":\"1\"}");
    refused(k, 422, "PATCH", CM "/a", JSONPATCH, "[{\"op\":\"remove\",\"path\":\"/metadata/nope\"}]",
            "Invalid", "the server rejected our request due to an error in our request");
    kit_expect(k, 422, "PATCH", CM "/a", JSONPATCH,
               "[{\"op\":\"test\",\"path\":\"/data/m\",\"value\":\"2\"}]");
    kit_expect(k, 400, "PATCH", CM "/a", JSONPATCH, "{}");
    kit_expect(k, 400, "PATCH", CM "/a", MERGE, "[]");
    kit_expect(k, 400, "PATCH", CM "/a", MERGE, "{");
    kit_expect(k, 400, "PATCH", CM "/a", JSONPATCH, "[{\"op\":\"replace\",\"path\":\"\",\"value\":7}]");
    kit_expect(k, 415, "PATCH", CM "/a", "text/x", "{}");
    kit_expect(k, 501, "PATCH", CM "/a", "application/strategic-merge-patch+json", "{}");
    refused(k, 422, "PATCH", CM "/a?force=true", MERGE, "{}", "Invalid",
            "PatchOptions.meta.k8s.io \"\" is invalid: force: Forbidden: may not be specified for non-apply "
            "patch");
    kit_expect(k, 409, "PATCH", CM "/a", MERGE, "{\"metadata\":{\"resourceVersion\":\"1\"}}");
    kit_expect(k, 405, "PATCH", CM, APPLY, CM_A);
}

static void test_patch_bombs(void **state)
{
    struct kit *k = *state;
    struct buf b;
    kit_expect(k, 201, "POST", "/apis/x.test/v1/plains", NULL,
               "{\"apiVersion\":\"x.test/"
               "v1\",\"kind\":\"Plain\",\"metadata\":{\"name\":\"p\"},\"spec\":{\"a\":[1]}}");
    buf_init(&b, 1 << 20);
    buf_add_str(&b, "[");
    for (int i = 0; i < 60; i++)
        buf_addf(&b, "%s{\"op\":\"copy\",\"from\":\"/spec\",\"path\":\"/spec/b%d\"}", i == 0 ? "" : ",", i);
    buf_add_str(&b, "]");
    kit_expect(k, 422, "PATCH", "/apis/x.test/v1/plains/p", JSONPATCH, b.data);
    buf_reset(&b);
    buf_add_str(&b, "{\"spec\":");
    for (int i = 0; i < 998; i++)
        buf_add_str(&b, "{\"a\":");
    buf_add_str(&b, "1");
    for (int i = 0; i < 999; i++)
        buf_add_str(&b, "}");
    kit_request(k, "u", "PATCH", "/apis/x.test/v1/plains/p", MERGE,
                b.data); // either way: no deeper than can be read
    kit_expect(k, 200, "GET", "/apis/x.test/v1/plains/p", NULL, NULL);
    buf_fini(&b);
}

static void test_too_large(void **state)
{
    struct kit *k = *state;
    for (size_t i = 0; i < 2; i++) {
        size_t n = i == 0 ? 2000000 : 4000000;
        char *text = malloc(n + 1);
        memset(text, 'x', n);
        text[n] = '\0';
        char *body = xasprintf("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"},"
                               "\"data\":{\"k\":\"%s\"}}",
                               text);
        kit_expect(k, i == 0 ? 500 : 413, "POST", CM, NULL, body);
        free(body);
        free(text);
    }
}

static void test_delete(void **state)
{
    struct kit *k = *state;
    kit_expect(k, 201, "POST", CM, NULL, CM_A);
    kit_expect(k, 409, "DELETE", CM "/a", NULL, "{\"preconditions\":{\"uid\":\"foo\"}}");
    assert_non_null(
        strstr(k->body,
               "Operation cannot be fulfilled on ConfigMap \\\"a\\\": the UID in the precondition (foo) does "
               "not match the UID in record ("));
    kit_expect(k, 409, "DELETE", CM "/a", NULL, "{\"preconditions\":{\"resourceVersion\":\"1\"}}");
    kit_expect(k, 422, "DELETE", CM "/a", NULL, "{\"propagationPolicy\":\"Wrong\"}");
    kit_expect(k, 400, "DELETE", CM "/a", NULL, "x");
    kit_expect(k, 200, "DELETE", CM "/a", NULL, "{\"propagationPolicy\":\"Background\"}");
    kit_has(k, "status", "\"Success\"");
    kit_has(k, "details.kind", "\"configmaps\"");
    kit_expect(k, 404, "DELETE", CM "/a", NULL, NULL);
    kit_expect(k, 501, "DELETE", CM, NULL, NULL);
    kit_expect(k, 405, "DELETE", WIDGETS "/w/status", NULL, NULL);
}

static void test_finalizers(void **state)
{
    struct kit *k = *state;
    kit_expect(k, 201, "POST", WIDGETS, NULL, WIDGET("\"name\":\"w\",\"finalizers\":[\"x.test/f\"]", ""));
    kit_expect(k, 200, "DELETE", WIDGETS "/w", NULL, NULL);
    kit_has(k, "metadata.deletionTimestamp", "\"2026-01-02T03:04:05Z\"");
    kit_has(k, "metadata.deletionGracePeriodSeconds", "0");
    kit_has(k, "metadata.generation", "2");
    char *rv = kit_rv(k);
    kit_expect(k, 200, "DELETE", WIDGETS "/w", NULL, NULL);
    char *again = kit_rv(k);
    assert_string_equal(rv, again);
    free(rv);
    free(again);
    refused(k, 422, "PATCH", WIDGETS "/w", JSONPATCH,
            "[{\"op\":\"add\",\"path\":\"/metadata/finalizers/-\",\"value\":\"x.test/g\"}]", "Invalid",
            "Widget.x.test \"w\" is invalid: metadata.finalizers: Forbidden: no new finalizers can be added "
            "if the object is "
            "being deleted, found new finalizers []string{\"x.test/g\"}");
    kit_expect(k, 200, "PATCH", WIDGETS "/w/status", MERGE, "{\"status\":{\"replicas\":2}}"); // still legal
    kit_expect(k, 200, "PATCH", WIDGETS "/w", JSONPATCH,
               "[{\"op\":\"remove\",\"path\":\"/metadata/finalizers/0\"}]");
    kit_has(k, "metadata.finalizers", NULL);
    kit_expect(k, 404, "GET", WIDGETS "/w", NULL, NULL);
    kit_expect(k, 201, "POST", WIDGETS, NULL, WIDGET("\"name\":\"w\"", ""));
    kit_expect(k, 200, "DELETE", WIDGETS "/w?propagationPolicy=Foreground", NULL, NULL);
    kit_has(k, "metadata.finalizers", "[\"foregroundDeletion\"]");
}

static void test_pod_grace(void **state)
{
    struct kit *k = *state;
#define PODS "/api/v1/namespaces/default/pods"
    kit_expect(k, 201, "POST", PODS, NULL,
               "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"p\"},\"spec\":{\"nodeName\":"
               "\"n\"}}");
    kit_has(k, "status.phase", "\"Pending\"");
    kit_expect(k, 200, "DELETE", PODS "/p", NULL, NULL);
    kit_has(k, "metadata.deletionGracePeriodSeconds", "30");
    kit_has(k, "metadata.deletionTimestamp", "\"2026-01-02T03:04:35Z\"");
    kit_expect(k, 200, "DELETE", PODS "/p", NULL, "{\"gracePeriodSeconds\":0}");
    kit_expect(k, 404, "GET", PODS "/p", NULL, NULL);
}

static void test_namespace_goes(void **state)
{
    struct kit *k = *state;
    kit_expect(k, 201, "POST", "/api/v1/namespaces", NULL,
               "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"t1\"}}");
    kit_has(k, "metadata.labels", "{\"kubernetes.io/metadata.name\":\"t1\"}");
    kit_has(k, "status.phase", "\"Active\"");
    kit_expect(k, 201, "POST", "/api/v1/namespaces/t1/configmaps", NULL, CM_A);
    kit_expect(k, 201, "POST", "/apis/x.test/v1/namespaces/t1/widgets", NULL,
               WIDGET("\"name\":\"w\",\"finalizers\":[\"x.test/f\"]", ""));
    kit_expect(k, 200, "DELETE", "/api/v1/namespaces/t1", NULL, NULL);
    kit_has(k, "status.phase", "\"Terminating\"");
    kit_expect(k, 404, "GET", "/api/v1/namespaces/t1/configmaps/a", NULL, NULL);
    refused(k, 403, "PATCH", "/api/v1/namespaces/t1/configmaps/b?fieldManager=m", APPLY,
            "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"b\"}}", "Forbidden",
            "configmaps \"b\" is forbidden: unable to create new content in namespace t1 because it is being "
            "terminated");
    kit_has(k, "details.causes.0.reason", "\"NamespaceTerminating\"");
    kit_expect(k, 200, "GET", "/api/v1/namespaces/t1", NULL, NULL);
    kit_expect(k, 200, "PATCH", "/apis/x.test/v1/namespaces/t1/widgets/w", MERGE,
               "{\"metadata\":{\"finalizers\":null}}");
    kit_expect(k, 404, "GET", "/api/v1/namespaces/t1", NULL, NULL);
}

static void test_lists(void **state)
{
    struct kit *k = *state;
    for (char c = 'a'; c <= 'e'; c++) {
        char *body = xasprintf("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"%c\","
                               "\"labels\":{\"odd\":\"%d\"}}}",
                               c, c % 2);
        kit_expect(k, 201, "POST", CM, NULL, body);
        free(body);
    }
    kit_expect(k, 200, "GET", CM "?labelSelector=odd%3D1", NULL, NULL);
    assert_int_equal(json_count(json_get(json_root(k->doc), "items")), 3);
    kit_has(k, "kind", "\"ConfigMapList\"");
    kit_has(k, "items.0.kind", NULL);
    kit_expect(k, 200, "GET",
               "/api/v1/configmaps?fieldSelector=metadata.name%3Db,metadata.namespace%3Ddefault", NULL, NULL);
    assert_int_equal(json_count(json_get(json_root(k->doc), "items")), 1);
    kit_expect(k, 200, "GET", CM "?limit=2", NULL, NULL);
    kit_has(k, "metadata.remainingItemCount", "3");
    char *rv = kit_rv(k),
         *token = xstrdup(json_str(json_path(json_root(k->doc), "metadata", "continue", NULL))),
         *next = xasprintf(CM "?limit=2&continue=%s", token);
    kit_expect(k, 200, "DELETE", CM "/c", NULL, NULL); // the pages are of one moment
    kit_expect(k, 200, "GET", next, NULL, NULL);
    kit_has(k, "items.0.metadata.name", "\"c\"");
    char *same = kit_rv(k);
    assert_string_equal(rv, same);
    apiserver_compact(k->server);
    kit_expect(k, 410, "GET", next, NULL, NULL);
    kit_has(k, "reason", "\"Expired\"");
    char *fresh =
        xasprintf(CM "?continue=%s", json_str(json_path(json_root(k->doc), "metadata", "continue", NULL)));
    kit_expect(k, 200, "GET", fresh, NULL, NULL);
    kit_has(k, "items.0.metadata.name", "\"d\"");
    kit_expect(k, 400, "GET", CM "?continue=zzz", NULL, NULL);
    kit_expect(k, 504, "GET", CM "?resourceVersion=99999999", NULL, NULL);
    kit_has(k, "details",
            "{\"causes\":[{\"reason\":\"ResourceVersionTooLarge\",\"message\":\"Too large resource "
            "version\"}],\"retryAfterSeconds\":1}");
    kit_expect(k, 422, "GET", CM "?resourceVersionMatch=Exact", NULL, NULL);
    kit_expect(k, 400, "GET", CM "?resourceVersion=abc", NULL, NULL);
    kit_expect(k, 400, "GET", WIDGETS "?fieldSelector=spec.x%3D1", NULL, NULL);
    kit_has(k, "message", "\"field label not supported: spec.x\"");
    kit_expect(k, 400, "GET", CM "?labelSelector=a+in+(b", NULL, NULL);
    kit_expect(k, 200, "GET", WIDGETS, NULL, NULL);
    kit_has(k, "items", "[]");
    free(rv);
    free(token);
    free(next);
    free(same);
    free(fresh);
}

static void test_secrets(void **state)
{
    struct kit *k = *state;
    kit_expect(k, 201, "POST", "/api/v1/namespaces/default/secrets", NULL,
               "{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":\"s\"},\"stringData\":{"
               "\"a\":\"b\"}}");
    kit_has(k, "data", "{\"a\":\"Yg==\"}");
    kit_has(k, "type", "\"Opaque\"");
    kit_owns(k, "probe Update", "{\"f:data\":{\".\":{},\"f:a\":{}},\"f:type\":{}}");
}

static void test_what_is_not_done(void **state)
{
    struct kit *k = *state;
    kit_expect(k, 501, "GET", "/openapi/v2", NULL, NULL);
    kit_expect(k, 501, "POST", CM "?dryRun=All", NULL, CM_A);
    kit_expect(k, 501, "GET", "/apis/apps/v1/namespaces/default/deployments/x/scale", NULL, NULL);
    kit_has(k, "reason", "\"NotImplemented\"");
}

static void test_direct_requests(void **state)
{
    struct kit *k = *state;
    assert_int_equal(apiserver_apply_json(k->server, "me", WIDGET("\"name\":\"w\"", ""), NULL), 201);
    struct json_doc *doc = apiserver_get_json(k->server, "x.test/v1", "widgets", "default", "w");
    assert_non_null(doc);
    json_doc_free(doc);
    assert_null(apiserver_get_json(k->server, "x.test/v1", "widgets", "default", "v"));
    assert_int_equal(apiserver_apply_json(k->server, "me", "{\"apiVersion\":\"v9\",\"kind\":\"X\"}", NULL),
                     404);
    assert_non_null(strstr(k->trace.data, "me PATCH " WIDGETS "/w?fieldManager=me&force=true 201 {"));
}

static void test_discovery(void **state)
{
    struct kit *k = *state;
    kit_expect(k, 200, "GET", "/apis", NULL, NULL);
    kit_has(k, "kind", "\"APIGroupList\"");
    kit_expect(k, 200, "GET", "/apis/x.test", NULL, NULL);
    kit_has(k, "preferredVersion.groupVersion", "\"x.test/v2\"");
    kit_expect(k, 200, "GET", "/apis/x.test/v1", NULL, NULL);
    kit_has(k, "resources.0.name", "\"widgets\"");
    kit_has(k, "resources.0.shortNames", "[\"wd\"]");
    kit_has(k, "resources.1.name", "\"widgets/status\"");
    kit_has(k, "resources.2.namespaced", "false");
    kit_expect(k, 200, "GET", "/api", NULL, NULL);
    kit_has(k, "versions", "[\"v1\"]");
    kit_expect(k, 200, "GET", "/api/v1", NULL, NULL);
    kit_has(k, "groupVersion", "\"v1\"");
    kit_expect(k, 200, "GET", "/version", NULL, NULL);
    kit_has(k, "minor", "\"36\"");
    kit_expect(k, 200, "GET", "/readyz", NULL, NULL);
    kit_expect(k, 200, "GET", CRDS "/widgets.x.test", NULL, NULL);
    kit_has(k, "status.conditions.1.type", "\"Established\"");
    kit_has(k, "spec.names.listKind", "\"WidgetList\"");
    kit_expect(k, 422, "POST", CRDS, NULL,
               "{\"apiVersion\":\"apiextensions.k8s.io/"
               "v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{\"name\":\"x\"},"
               "\"spec\":{\"group\":\"g\",\"scope\":\"Cluster\",\"names\":{\"plural\":\"xs\",\"kind\":\"X\"},"
               "\"versions\":[{\"name\":\"v1\"}]}}");
    kit_expect(k, 422, "POST", CRDS, NULL,
               "{\"apiVersion\":\"apiextensions.k8s.io/"
               "v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{\"name\":\"x\"}}");
    // One more subresource at run time.
    kit_expect(k, 200, "PATCH", CRDS "/plains.x.test", JSONPATCH,
               "[{\"op\":\"add\",\"path\":\"/spec/versions/0/subresources\",\"value\":{\"status\":{}}}]");
    kit_expect(k, 200, "GET", "/apis/x.test/v1", NULL, NULL);
    kit_has(k, "resources.3.name", "\"plains/status\"");
}

static void on_done(void *ud, const struct transport_response *r)
{
    char **out = ud;
    *out = xasprintf("%s\n%s", r->content_type, r->body);
}

static void test_aggregated_discovery(void **state)
{
    struct kit *k = *state;
    char *answer = NULL;
    struct transport *t = apiserver_transport(k->server, "u");
    struct transport_request q = {
        .method = METHOD_GET,
        .path = "/apis",
        .accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json"};
    transport_send(t, &q, &(struct transport_callbacks){.on_done = on_done, .ud = &answer});
    loop_run_until(k->loop, 10);
    assert_non_null(answer);
    assert_memory_equal(answer, "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList\n", 66);
    assert_non_null(
        strstr(answer,
               "{\"resource\":\"widgets\",\"responseKind\":{\"group\":\"x.test\",\"version\":\"v1\",\"kind\":"
               "\"Widget\"},\"scope\":\"Namespaced\",\"singularResource\":\"widget\""));
    assert_non_null(strstr(answer, "\"subresources\":[{\"subresource\":\"status\""));
    free(answer);
    transport_free(t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(test_create),
        KIT_TEST(test_not_found),
        KIT_TEST(test_update),
        KIT_TEST(test_patches),
        KIT_TEST(test_patch_bombs),
        KIT_TEST(test_too_large),
        KIT_TEST(test_delete),
        KIT_TEST(test_finalizers),
        KIT_TEST(test_pod_grace),
        KIT_TEST(test_namespace_goes),
        KIT_TEST(test_lists),
        KIT_TEST(test_secrets),
        KIT_TEST(test_what_is_not_done),
        KIT_TEST(test_direct_requests),
        KIT_TEST(test_discovery),
        KIT_TEST(test_aggregated_discovery),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
