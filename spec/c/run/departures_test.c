// What subjects leave behind when they go, or leave the script's selector.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "run/sim.h"
#include "unit.h"

enum { SETTLE_MS = 15 * 1000 };

#define MERGE "application/merge-patch+json"
#define THINGS "/apis/x.test/v1/namespaces/default/things"

static const char thing_crd[] =
    "{\"apiVersion\":\"apiextensions.k8s.io/"
    "v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{\"name\":\"things.x.test\"},\"spec\":{"
    "\"group\":\"x.test\",\"scope\":\"Namespaced\",\"names\":{\"plural\":\"things\",\"singular\":\"thing\","
    "\"kind\":\"Thing\"},\"versions\":[{"
    "\"name\":\"v1\",\"served\":true,\"storage\":true,\"subresources\":{\"status\":{}},\"schema\":{"
    "\"openAPIV3Schema\":{\"type\":\"object\","
    "\"x-kubernetes-preserve-unknown-fields\":true}}}]}}";

// Patches a ConfigMap that is not its own, in another namespace, and has two children, one in another
// namespace.
static const char script[] =
    "return { name = 'things', subject = 'x.test/v1/Thing', selector = 'ours=yes', reconcile = function(o)\n"
    "  local function map(name, ns) return { apiVersion = 'v1', kind = 'ConfigMap',\n"
    "    metadata = { name = o.metadata.name .. name, namespace = ns }, data = { v = '1' } } end\n"
    "  return { apply = { map('-near'), map('-far', 'kube-system') }, status = { seen = 'yes' },\n"
    "    patch = { { apiVersion = 'v1', kind = 'ConfigMap',\n"
    "      metadata = { name = 'target', namespace = 'kube-system', labels = { [o.metadata.name] = 'here' } "
    "} } } }\n"
    "end }\n";

static void put_thing(struct sim *s, const char *name)
{
    char *text = xasprintf("{\"apiVersion\":\"x.test/v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"%s\","
                           "\"namespace\":\"default\",\"labels\":{\"ours\":\"yes\"}},\"spec\":{\"a\":1}}",
                           name);
    sim_apply(s, "kubectl", text);
    free(text);
}

static void start(struct sim *s)
{
    sim_init(s, 11);
    sim_apply(s, "kubectl", thing_crd);
    sim_request(s, "alice", "POST", "/api/v1/namespaces/kube-system/configmaps", "application/json",
                "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"target\"}}");
    sim_put_script_text(s, "things", "things.lua", script);
    put_thing(s, "a");
    put_thing(s, "b");
    sim_run(s, SETTLE_MS);
}

static bool exists(struct sim *s, const char *ns, const char *name)
{
    struct json_doc *doc = apiserver_get_json(s->server, "v1", "configmaps", ns, name);
    bool there = doc != NULL;
    json_doc_free(doc);
    return there;
}

static bool patched(struct sim *s, const char *subject)
{
    struct json_doc *doc = apiserver_get_json(s->server, "v1", "configmaps", "kube-system", "target");
    bool there = json_path(json_root(doc), "metadata", "labels", subject, NULL) != NULL;
    json_doc_free(doc);
    return there;
}

static void assert_whole(struct sim *s, const char *subject)
{
    char near[32], far[32];
    snprintf(near, sizeof near, "%s-near", subject);
    snprintf(far, sizeof far, "%s-far", subject);
    assert_true(exists(s, "default", near));
    assert_true(exists(s, "kube-system", far));
    assert_true(patched(s, subject));
}

static void assert_given_back(struct sim *s, const char *subject)
{
    char near[32], far[32];
    snprintf(near, sizeof near, "%s-near", subject);
    snprintf(far, sizeof far, "%s-far", subject);
    assert_false(exists(s, "default", near));
    assert_false(exists(s, "kube-system", far));
    assert_false(patched(s, subject));
}

// The subject is there, and nothing on it is ours.
static void assert_clean(struct sim *s, const char *name)
{
    struct json_doc *doc = sim_get(s, "x.test/v1", "things", name);
    const json *root = json_root(doc);
    assert_non_null(doc);
    assert_int_equal(json_count(json_path(root, "metadata", "finalizers", NULL)), 0);
    assert_null(json_path(root, "status", "seen", NULL));
    assert_non_null(json_path(root, "spec", "a", NULL));
    for (struct json_iter i = json_iter(json_path(root, "metadata", "managedFields", NULL)); json_next(&i);)
        assert_null(strstr(json_get_str(i.value, "manager"), "tidelock-"));
    json_doc_free(doc);
}

static void deselect(struct sim *s, const char *name)
{
    char *path = xasprintf(THINGS "/%s", name);
    sim_request(s, "alice", "PATCH", path, MERGE, "{\"metadata\":{\"labels\":{\"ours\":null}}}");
    free(path);
}

static void delete (struct sim *s, const char *name)
{
    char *path = xasprintf(THINGS "/%s", name);
    sim_request(s, "alice", "DELETE", path, "application/json", "{}");
    free(path);
}

static void a_deleted_subject(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    assert_whole(&s, "a");
    delete (&s, "a");
    sim_run(&s, SETTLE_MS);
    assert_given_back(&s, "a");
    assert_whole(&s, "b");
    sim_fini(&s);
}

static void one_that_leaves_the_selector(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    deselect(&s, "a");
    sim_run(&s, 2 * SETTLE_MS);
    assert_given_back(&s, "a");
    assert_clean(&s, "a");
    assert_whole(&s, "b");
    put_thing(&s, "a"); // and back
    sim_run(&s, SETTLE_MS);
    assert_whole(&s, "a");
    sim_fini(&s);
}

static void take_finalizer(struct sim *s, const char *name)
{
    char *path = xasprintf(THINGS "/%s", name);
    sim_request(s, "alice", "PATCH", path, MERGE, "{\"metadata\":{\"finalizers\":null}}");
    free(path);
}

// Somebody took the finalizer off, so that the subject could go without a host.
static void deleted_while_no_host_ran(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    sim_stop_host(&s);
    take_finalizer(&s, "a");
    delete (&s, "a");
    sim_run(&s, SETTLE_MS);
    assert_true(patched(&s, "a"));
    size_t mark = s.trace.len;
    sim_start_host(&s);
    sim_run(&s, SETTLE_MS);
    assert_false(patched(&s, "a"));
    assert_whole(&s, "b");
    assert_non_null(strstr(s.trace.data + mark, "/configmaps?limit=500"));
    sim_fini(&s);
}

static void left_while_no_host_ran(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    sim_stop_host(&s);
    deselect(&s, "a");
    sim_start_host(&s);
    sim_run(&s, 2 * SETTLE_MS);
    assert_given_back(&s, "a");
    assert_clean(&s, "a");
    assert_whole(&s, "b");
    sim_fini(&s);
}

static void a_new_version_with_another_selector(void **unused)
{
    struct sim s;
    char *text = xstrdup(script), *at;
    (void)unused;
    start(&s);
    sim_request(&s, "alice", "PATCH", THINGS "/b", MERGE, "{\"metadata\":{\"labels\":{\"mine\":\"yes\"}}}");
    at = strstr(text, "ours=yes");
    memcpy(at, "mine=yes", 8);
    sim_put_script_text(&s, "things", "things.lua", text);
    sim_run(&s, 2 * SETTLE_MS);
    assert_given_back(&s, "a");
    assert_clean(&s, "a");
    assert_whole(&s, "b");
    free(text);
    sim_fini(&s);
}

// A restart with nothing to give back reads, and writes nothing.
static void nothing_to_give_back(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    size_t mark = s.trace.len;
    sim_restart_host(&s);
    sim_run(&s, 2 * SETTLE_MS);
    assert_null(strstr(s.trace.data + mark, "tidelock PATCH /api/v1/"));
    assert_null(strstr(s.trace.data + mark, "tidelock PATCH /apis/x.test/"));
    assert_null(strstr(s.trace.data + mark, "tidelock DELETE"));
    assert_whole(&s, "a");
    assert_whole(&s, "b");
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_deleted_subject),
        cmocka_unit_test(one_that_leaves_the_selector),
        cmocka_unit_test(deleted_while_no_host_ran),
        cmocka_unit_test(left_while_no_host_ran),
        cmocka_unit_test(a_new_version_with_another_selector),
        cmocka_unit_test(nothing_to_give_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
