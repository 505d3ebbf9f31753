// What the host does with what scripts return, and with scripts that come, change, break and go.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "run/sim.h"
#include "unit.h"

enum { SETTLE_MS = 10 * 1000 };

#define MERGE "application/merge-patch+json"
#define CONFIG_MAPS "/api/v1/namespaces/default/configmaps"
#define THINGS "/apis/x.test/v1/namespaces/default/things"

static const char thing_crd[] =
    "{\"apiVersion\":\"apiextensions.k8s.io/"
    "v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{\"name\":\"things.x.test\"},\"spec\":{"
    "\"group\":\"x.test\",\"scope\":\"Namespaced\",\"names\":{\"plural\":\"things\",\"singular\":\"thing\","
    "\"kind\":\"Thing\"},\"versions\":[{"
    "\"name\":\"v1\",\"served\":true,\"storage\":true,\"subresources\":{\"status\":{}},\"schema\":{"
    "\"openAPIV3Schema\":{\"type\":\"object\","
    "\"x-kubernetes-preserve-unknown-fields\":true}}}]}}";

// A child ConfigMap for each name in spec.children, with data.v = spec.v.
static const char children_script[] =
    "return { name = 'things', subject = 'x.test/v1/Thing', reconcile = function(o)\n"
    "  local apply = {}\n"
    "  for _, name in ipairs(o.spec.children) do\n"
    "    apply[#apply + 1] = { apiVersion = 'v1', kind = 'ConfigMap', metadata = { name = name },\n"
    "      data = { v = o.spec.v } }\n"
    "  end\n"
    "  return { apply = apply, status = { seen = o.spec.v } }\n"
    "end }\n";

static void put_thing(struct sim *s, const char *name, const char *spec)
{
    char *text = xasprintf("{\"apiVersion\":\"x.test/"
                           "v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"%s\",\"namespace\":\"default\"},"
                           "\"spec\":%s}",
                           name, spec);
    sim_apply(s, "kubectl", text);
    free(text);
}

static void start(struct sim *s, const char *script)
{
    sim_init(s, 3);
    sim_apply(s, "kubectl", thing_crd);
    sim_put_script_text(s, "things", "things.lua", script);
}

// data.v of a ConfigMap, "" when it has none, "absent" when there is no such ConfigMap.
static const char *value_of(struct sim *s, const char *name)
{
    static char value[64];
    struct json_doc *doc = sim_get(s, "v1", "configmaps", name);
    const char *v = json_str(json_path(json_root(doc), "data", "v", NULL));
    snprintf(value, sizeof value, "%s", doc == NULL ? "absent" : v == NULL ? "" : v);
    json_doc_free(doc);
    return value;
}

static bool thing_status(struct sim *s, const char *name, const char *seen)
{
    struct json_doc *doc = sim_get(s, "x.test/v1", "things", name);
    const char *v = json_str(json_path(json_root(doc), "status", "seen", NULL));
    bool same = v != NULL && strcmp(v, seen) == 0;
    json_doc_free(doc);
    return same;
}

// Is there an Event with this reason, in this namespace?
static bool has_event(struct sim *s, const char *ns, const char *reason)
{
    char *body = NULL, *path = xasprintf("/apis/events.k8s.io/v1/namespaces/%s/events", ns);
    struct json_doc *doc;
    bool found = false;
    assert_int_equal(apiserver_request(s->server, "player", "GET", path, NULL, NULL, &body), 200);
    assert_int_equal(json_parse(body, strlen(body), &doc, NULL), 0);
    for (struct json_iter i = json_iter(json_get(json_root(doc), "items")); json_next(&i);)
        found |= strcmp(json_get_str(i.value, "reason"), reason) == 0;
    json_doc_free(doc);
    free(body);
    free(path);
    return found;
}

static void children_are_applied_and_pruned(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, children_script);
    put_thing(&s, "t", "{\"children\":[\"a\",\"b\"],\"v\":\"1\"}");
    sim_run(&s, SETTLE_MS);
    assert_string_equal(value_of(&s, "a"), "1");
    assert_string_equal(value_of(&s, "b"), "1");
    assert_true(thing_status(&s, "t", "1"));
    put_thing(&s, "t", "{\"children\":[\"b\"],\"v\":\"2\"}");
    sim_run(&s, SETTLE_MS);
    assert_string_equal(value_of(&s, "a"), "absent");
    assert_string_equal(value_of(&s, "b"), "2");
    sim_fini(&s);
}

static void pruned_after_a_restart_with_a_new_version(void **unused)
{
    struct sim s;
    char *shorter;
    (void)unused;
    start(&s, children_script);
    put_thing(&s, "t", "{\"children\":[\"a\",\"b\"],\"v\":\"1\"}");
    sim_run(&s, SETTLE_MS);
    sim_restart_host(&s);
    sim_run(&s, SETTLE_MS);
    size_t writes = s.host_writes;
    sim_run(&s, SETTLE_MS);
    assert_int_equal(s.host_writes, writes);
    shorter = xasprintf("%s", "return { name = 'things', subject = 'x.test/v1/Thing', reconcile = "
                              "function(o) return { apply = {} } end }");
    sim_put_script_text(&s, "things", "things.lua", shorter);
    sim_restart_host(&s);
    sim_run(&s, SETTLE_MS);
    assert_string_equal(value_of(&s, "a"), "absent");
    assert_string_equal(value_of(&s, "b"), "absent");
    free(shorter);
    sim_fini(&s);
}

static void a_restart_writes_nothing(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, children_script);
    for (char name[3] = "ta"; name[1] < 'k'; name[1]++) {
        char spec[64];
        snprintf(spec, sizeof spec, "{\"children\":[\"c%s\"],\"v\":\"1\"}", name);
        put_thing(&s, name, spec);
    }
    sim_run(&s, SETTLE_MS);
    assert_string_equal(value_of(&s, "cta"), "1");
    size_t writes = s.host_writes;
    sim_restart_host(&s);
    sim_run(&s, SETTLE_MS);
    // The Event that tells of the loaded script is the only write.
    assert_in_range(s.host_writes - writes, 0, 1);
    sim_fini(&s);
}

static void drift_is_corrected_in_our_fields_only(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, children_script);
    put_thing(&s, "t", "{\"children\":[\"a\"],\"v\":\"1\"}");
    sim_run(&s, SETTLE_MS);
    sim_request(&s, "kubectl", "PATCH", CONFIG_MAPS "/a", MERGE,
                "{\"data\":{\"v\":\"drift\",\"theirs\":\"x\"}}");
    sim_run(&s, SETTLE_MS);
    struct json_doc *doc = sim_get(&s, "v1", "configmaps", "a");
    assert_string_equal(json_str(json_path(json_root(doc), "data", "v", NULL)), "1");
    assert_string_equal(json_str(json_path(json_root(doc), "data", "theirs", NULL)), "x");
    json_doc_free(doc);
    sim_request(&s, "kubectl", "DELETE", CONFIG_MAPS "/a", NULL, NULL);
    sim_run(&s, SETTLE_MS);
    assert_string_equal(value_of(&s, "a"), "1");
    sim_fini(&s);
}

static void a_strangers_object_is_refused(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, children_script);
    sim_request(&s, "alice", "POST", CONFIG_MAPS, "application/json",
                "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"},\"data\":{\"v\":"
                "\"hers\"}}");
    put_thing(&s, "t", "{\"children\":[\"a\",\"b\"],\"v\":\"1\"}");
    sim_run(&s, SETTLE_MS);
    assert_string_equal(value_of(&s, "a"), "hers");
    assert_string_equal(value_of(&s, "b"), "1"); // its sibling is not held back
    struct json_doc *doc = sim_get(&s, "v1", "configmaps", "a");
    assert_null(json_path(json_root(doc), "metadata", "labels", NULL));
    json_doc_free(doc);
    assert_true(has_event(&s, "default", "ApplyFailed"));
    sim_fini(&s);
}

static void two_subjects_want_one_child(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, children_script);
    put_thing(&s, "t1", "{\"children\":[\"a\"],\"v\":\"1\"}");
    put_thing(&s, "t2", "{\"children\":[\"a\"],\"v\":\"2\"}");
    sim_run(&s, SETTLE_MS);
    const char *first = xstrdup(value_of(&s, "a"));
    size_t writes = s.host_writes;
    sim_run(&s, SETTLE_MS);
    assert_string_equal(value_of(&s, "a"), first); // nobody flaps
    assert_in_range(s.host_writes - writes, 0, 2); // at most the Event, and its series
    assert_true(has_event(&s, "default", "ApplyFailed"));
    free((char *)first);
    sim_fini(&s);
}

static void a_broken_version_leaves_the_running_one(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, children_script);
    put_thing(&s, "t", "{\"children\":[\"a\"],\"v\":\"1\"}");
    sim_run(&s, SETTLE_MS);
    sim_put_script_text(&s, "things", "things.lua", "return { name = 'things', subject = ");
    sim_run(&s, SETTLE_MS);
    assert_true(has_event(&s, "tidelock-system", "ScriptInvalid"));
    put_thing(&s, "t", "{\"children\":[\"a\"],\"v\":\"2\"}");
    sim_run(&s, SETTLE_MS);
    assert_string_equal(value_of(&s, "a"), "2");
    sim_fini(&s);
}

static void a_deleted_script_leaves_its_children(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, children_script);
    put_thing(&s, "t", "{\"children\":[\"a\"],\"v\":\"1\"}");
    sim_run(&s, SETTLE_MS);
    sim_request(&s, "kubectl", "DELETE", "/api/v1/namespaces/tidelock-system/configmaps/things", NULL, NULL);
    sim_run(&s, SETTLE_MS);
    sim_request(&s, "kubectl", "PATCH", CONFIG_MAPS "/a", MERGE, "{\"data\":{\"v\":\"drift\"}}");
    sim_run(&s, SETTLE_MS);
    assert_string_equal(value_of(&s, "a"), "drift");
    sim_fini(&s);
}

static void a_script_waits_for_its_kind(void **unused)
{
    struct sim s;
    (void)unused;
    sim_init(&s, 3);
    sim_put_script_text(&s, "things", "things.lua", children_script);
    sim_run(&s, SETTLE_MS);
    sim_apply(&s, "kubectl", thing_crd);
    put_thing(&s, "t", "{\"children\":[\"a\"],\"v\":\"1\"}");
    sim_run(&s, 30 * 1000);
    assert_string_equal(value_of(&s, "a"), "1");
    sim_fini(&s);
}

// Reads wake the key: nobody declared that these Things depend on that ConfigMap.
static void reads_are_dependencies(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "return { name = 'things', subject = 'x.test/v1/Thing', reconcile = function(o, world)\n"
              "  local source = world.get('v1/ConfigMap', o.spec.from)\n"
              "  local labelled = world.list('v1/ConfigMap', { labels = { count = 'me' } })\n"
              "  return { status = { seen = (source and source.data.v or 'none') .. #labelled } }\n"
              "end }\n");
    put_thing(&s, "t", "{\"from\":\"source\"}");
    sim_run(&s, SETTLE_MS);
    assert_true(thing_status(&s, "t", "none0"));
    sim_request(&s, "alice", "POST", CONFIG_MAPS, "application/json",
                "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"source\"},\"data\":{"
                "\"v\":\"x\"}}");
    sim_run(&s, SETTLE_MS);
    assert_true(thing_status(&s, "t", "x0"));
    sim_request(&s, "alice", "PATCH", CONFIG_MAPS "/source", MERGE,
                "{\"metadata\":{\"labels\":{\"count\":\"me\"}}}");
    sim_run(&s, SETTLE_MS);
    assert_true(thing_status(&s, "t", "x1"));
    sim_request(&s, "alice", "PATCH", CONFIG_MAPS "/source", MERGE,
                "{\"metadata\":{\"labels\":{\"count\":null}}}");
    sim_run(&s, SETTLE_MS);
    assert_true(thing_status(&s, "t", "x0")); // it matched before the change
    sim_request(&s, "alice", "DELETE", CONFIG_MAPS "/source", NULL, NULL);
    sim_run(&s, SETTLE_MS);
    assert_true(thing_status(&s, "t", "none0"));
    sim_fini(&s);
}

static void errors_write_nothing_and_heal(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, children_script);
    put_thing(&s, "good", "{\"children\":[\"a\"],\"v\":\"1\"}");
    put_thing(&s, "bad", "{\"v\":\"1\"}"); // ipairs(nil) raises
    sim_run(&s, SETTLE_MS);
    assert_string_equal(value_of(&s, "a"), "1");
    assert_true(has_event(&s, "default", "ScriptError"));
    put_thing(&s, "bad", "{\"children\":[\"b\"],\"v\":\"1\"}");
    sim_run(&s, SETTLE_MS);
    assert_string_equal(value_of(&s, "b"), "1");
    sim_fini(&s);
}

static void nil_is_no_opinion(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, children_script);
    put_thing(&s, "t", "{\"children\":[\"a\"],\"v\":\"1\"}");
    sim_run(&s, SETTLE_MS);
    sim_put_script_text(
        &s, "things", "things.lua",
        "return { name = 'things', subject = 'x.test/v1/Thing', reconcile = function() return nil end }");
    sim_run(&s, SETTLE_MS);
    assert_string_equal(value_of(&s, "a"), "1");
    sim_fini(&s);
}

static void patches_are_released(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "return { name = 'things', subject = 'x.test/v1/Thing', reconcile = function(o)\n"
              "  if not o.spec.mark then return { patch = {} } end\n"
              "  return { patch = { { apiVersion = 'v1', kind = 'ConfigMap', metadata = { name = 'target', "
              "labels = { mark = o.spec.mark } } "
              "} } }\n"
              "end }\n");
    sim_request(&s, "alice", "POST", CONFIG_MAPS, "application/json",
                "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"target\"},\"data\":{"
                "\"v\":\"x\"}}");
    put_thing(&s, "t", "{\"mark\":\"m1\"}");
    sim_run(&s, SETTLE_MS);
    struct json_doc *doc = sim_get(&s, "v1", "configmaps", "target");
    assert_string_equal(json_str(json_path(json_root(doc), "metadata", "labels", "mark", NULL)), "m1");
    json_doc_free(doc);
    sim_restart_host(&s); // it is found again by the manager's name
    put_thing(&s, "t", "{\"other\":\"x\"}");
    sim_run(&s, SETTLE_MS);
    doc = sim_get(&s, "v1", "configmaps", "target");
    assert_null(json_path(json_root(doc), "metadata", "labels", "mark", NULL));
    assert_string_equal(value_of(&s, "target"), "x");
    json_doc_free(doc);
    sim_fini(&s);
}

static void pausing(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, children_script);
    put_thing(&s, "t", "{\"children\":[\"a\"],\"v\":\"1\"}");
    sim_run(&s, SETTLE_MS);
    sim_request(&s, "alice", "PATCH", THINGS "/t", MERGE,
                "{\"metadata\":{\"annotations\":{\"tidelock.dev/paused\":\"true\"}},\"spec\":{\"v\":\"2\"}}");
    sim_run(&s, SETTLE_MS);
    assert_string_equal(value_of(&s, "a"), "1");
    sim_request(&s, "alice", "PATCH", THINGS "/t", MERGE,
                "{\"metadata\":{\"annotations\":{\"tidelock.dev/paused\":null}}}");
    sim_run(&s, SETTLE_MS);
    assert_string_equal(value_of(&s, "a"), "2");
    sim_fini(&s);
}

static void denied_kinds_are_not_written(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "return { name = 'things', subject = 'x.test/v1/Thing', reconcile = function(o)\n"
              "  return { apply = { { apiVersion = 'v1', kind = 'Secret', metadata = { name = 's' } } } }\n"
              "end }\n");
    put_thing(&s, "t", "{}");
    sim_run(&s, SETTLE_MS);
    struct json_doc *doc = sim_get(&s, "v1", "secrets", "s");
    assert_null(doc);
    assert_true(has_event(&s, "default", "ApplyFailed"));
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(children_are_applied_and_pruned),
        cmocka_unit_test(pruned_after_a_restart_with_a_new_version),
        cmocka_unit_test(a_restart_writes_nothing),
        cmocka_unit_test(drift_is_corrected_in_our_fields_only),
        cmocka_unit_test(a_strangers_object_is_refused),
        cmocka_unit_test(two_subjects_want_one_child),
        cmocka_unit_test(a_broken_version_leaves_the_running_one),
        cmocka_unit_test(a_deleted_script_leaves_its_children),
        cmocka_unit_test(a_script_waits_for_its_kind),
        cmocka_unit_test(reads_are_dependencies),
        cmocka_unit_test(errors_write_nothing_and_heal),
        cmocka_unit_test(nil_is_no_opinion),
        cmocka_unit_test(patches_are_released),
        cmocka_unit_test(pausing),
        cmocka_unit_test(denied_kinds_are_not_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
