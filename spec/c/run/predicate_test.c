// Which changes of a subject are followed by a pass. Counted by a metric, which also counts the looks at keys
// that are paused or gone.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strset.h"
#include "things.h"

enum { SETTLE_MS = 5 * 1000 };

#define MERGE "application/merge-patch+json"
#define THINGS "/apis/x.test/v1/namespaces/default/things"

static const char thing_crd[] =
    "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":"
    "{\"name\":\"things.x.test\"},\"spec\":{\"group\":\"x.test\",\"scope\":\"Namespaced\",\"names\":"
    "{\"plural\":\"things\",\"singular\":\"thing\",\"kind\":\"Thing\"},\"versions\":[{\"name\":\"v1\","
    "\"served\":true,\"storage\":true,\"subresources\":{\"status\":{}},\"schema\":{\"openAPIV3Schema\":"
    "{\"type\":\"object\",\"properties\":{\"status\":{\"type\":\"object\","
    "\"x-kubernetes-preserve-unknown-fields\":true,\"properties\":{\"conditions\":{\"type\":\"array\","
    "\"x-kubernetes-list-type\":\"map\",\"x-kubernetes-list-map-keys\":[\"type\"],\"items\":{\"type\":"
    "\"object\",\"x-kubernetes-preserve-unknown-fields\":true,\"properties\":{\"type\":{\"type\":"
    "\"string\"}}}}}}},\"x-kubernetes-preserve-unknown-fields\":true}}}]}}";

static void start(struct sim *s, const char *head)
{
    char *script = xasprintf("return { name = 'things', subject = 'x.test/v1/Thing', %s }", head);
    sim_init(s, 3);
    sim_apply(s, "kubectl", thing_crd);
    sim_put_script_text(s, "things", "things.lua", script);
    free(script);
}

static void put_thing(struct sim *s, const char *name, const char *more)
{
    char *text = xasprintf("{\"apiVersion\":\"x.test/v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"%s\","
                           "\"namespace\":\"default\"%s}",
                           name, more);
    sim_apply(s, "kubectl", text);
    free(text);
}

static void patch(struct sim *s, const char *user, const char *path, const char *body)
{
    sim_request(s, user, "PATCH", path, MERGE, body);
}

// That came to an end: those that wait for a kind to be synced, or for its schema, are run again.
static unsigned passes(struct sim *s)
{
    return (
        unsigned)(things_metric(s, "controller_runtime_reconcile_time_seconds_count{controller=\"things\"}") -
                  things_metric(s, "tidelock_passes_parked_total{controller=\"things\"}"));
}

// Is status.seen of Thing t this?
static bool has_seen(struct sim *s, const char *seen)
{
    struct json_doc *doc = sim_get(s, "x.test/v1", "things", "t");
    bool same = str_eq(json_str(json_path(json_root(doc), "status", "seen", NULL)), seen);
    json_doc_free(doc);
    return same;
}

// How many passes has the change (made already) led to?
static unsigned passes_after(struct sim *s, unsigned before)
{
    sim_run(s, SETTLE_MS);
    return passes(s) - before;
}

#define EXPECT_PASSES(s, n, user, path, body)                                                                \
    do {                                                                                                     \
        unsigned before_ = passes(s);                                                                        \
        patch(s, user, path, body);                                                                          \
        assert_int_equal(passes_after(s, before_), n);                                                       \
    } while (0)

#define THING THINGS "/t"
#define STATUS THINGS "/t/status"

static void any_content_but_our_own_status(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "reconcile = function(o) return { status = { seen = o.spec.v, conditions = {"
              "{ type = 'Ready', status = 'True', reason = 'Up', message = '' } } } } end");
    put_thing(&s, "t", "},\"spec\":{\"v\":\"1\"}");
    sim_run(&s, SETTLE_MS);
    assert_int_equal(passes(&s), 1); // its own status has woken nobody
    EXPECT_PASSES(&s, 1, "alice", THING, "{\"spec\":{\"v\":\"2\"}}");
    EXPECT_PASSES(&s, 1, "alice", THING, "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}");
    EXPECT_PASSES(&s, 0, "alice", THING, "{\"spec\":{\"v\":\"2\"}}"); // nothing changed
    // Somebody else's status field is an input; ours, changed or removed by somebody, is repaired.
    EXPECT_PASSES(&s, 1, "alice", STATUS, "{\"status\":{\"theirs\":\"x\"}}");
    EXPECT_PASSES(&s, 1, "alice", STATUS, "{\"status\":{\"seen\":\"drift\"}}");
    assert_true(has_seen(&s, "2"));
    EXPECT_PASSES(&s, 1, "alice", STATUS, "{\"status\":{\"seen\":null}}");
    assert_true(has_seen(&s, "2"));
    sim_fini(&s);
}

// Own writes wake nobody: what another script has written is none.
static void another_scripts_status(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "reconcile = function(o) return { status = { seen = (o.status or {}).theirs } } end");
    put_thing(&s, "t", "},\"spec\":{\"v\":\"1\"}");
    sim_run(&s, SETTLE_MS);
    assert_int_equal(passes(&s), 1);
    sim_put_script_text(&s, "others", "others.lua",
                        "return { name = 'others', subject = 'x.test/v1/Thing', "
                        "reconcile = function(o) return { status = { theirs = o.spec.v } } end }");
    assert_int_equal(passes_after(&s, 1), 1);
    assert_true(has_seen(&s, "1"));
    EXPECT_PASSES(&s, 2, "alice", THING, "{\"spec\":{\"v\":\"2\"}}");
    assert_true(has_seen(&s, "2"));
    sim_fini(&s);
}

static void changed_paths_only(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "changed = { 'spec.v', 'metadata.labels' }, reconcile = function(o) "
              "if o.spec.v == 'bad' then error('bad v') end return { status = { seen = o.spec.v } } end");
    put_thing(&s, "t", "},\"spec\":{\"v\":\"1\",\"w\":\"1\"}");
    sim_run(&s, SETTLE_MS);
    assert_int_equal(passes(&s), 1);
    EXPECT_PASSES(&s, 0, "alice", THING, "{\"spec\":{\"w\":\"2\"}}");
    EXPECT_PASSES(&s, 0, "alice", STATUS, "{\"status\":{\"theirs\":\"x\"}}");
    EXPECT_PASSES(&s, 1, "alice", THING, "{\"spec\":{\"v\":\"2\"}}");
    EXPECT_PASSES(&s, 1, "alice", THING, "{\"metadata\":{\"labels\":{\"a\":\"b\"}}}");
    // Paused, changed and changed back: the end of the pause is seen although no path has changed.
    EXPECT_PASSES(
        &s, 1, "alice", THING, // a look only
        "{\"metadata\":{\"annotations\":{\"tidelock.dev/paused\":\"true\"}},\"spec\":{\"v\":\"3\"}}");
    assert_true(has_seen(&s, "2"));
    EXPECT_PASSES(&s, 1, "alice", THING, "{\"metadata\":{\"annotations\":{\"tidelock.dev/paused\":null}}}");
    // A value goes back to what the last completed pass saw, while that of now has failed: it runs.
    patch(&s, "alice", THING, "{\"spec\":{\"v\":\"bad\"}}");
    sim_run(&s, SETTLE_MS);
    unsigned before = passes(&s);
    patch(&s, "alice", THING, "{\"spec\":{\"v\":\"3\"}}");
    assert_int_equal(passes_after(&s, before), 1);
    sim_run(&s, 3600 * 1000);
    assert_int_equal(passes(&s), before + 1); // and no retry is left
    sim_fini(&s);
}

static void when_is_asked_with_the_last_completed_version(void **unused)
{
    struct sim s;
    (void)unused;
    // Only a growth by half or more is worth a pass: small steps must add up.
    start(&s, "when = function(old, new) return new.spec.size >= old.spec.size * 1.5 end,"
              "reconcile = function(o) return { status = { seen = tostring(o.spec.size) } } end");
    put_thing(&s, "t", "},\"spec\":{\"size\":100}");
    sim_run(&s, SETTLE_MS);
    assert_int_equal(passes(&s), 1);
    EXPECT_PASSES(&s, 0, "alice", THING, "{\"spec\":{\"size\":120}}");
    EXPECT_PASSES(&s, 0, "alice", THING, "{\"spec\":{\"size\":140}}");
    EXPECT_PASSES(&s, 1, "alice", THING, "{\"spec\":{\"size\":160}}");
    EXPECT_PASSES(&s, 0, "alice", THING, "{\"spec\":{\"size\":200}}");
    EXPECT_PASSES(&s, 1, "alice", THING, "{\"spec\":{\"size\":240}}");
    // What it can not answer is a yes, and said once.
    EXPECT_PASSES(&s, 1, "alice", THING, "{\"spec\":{\"size\":\"many\"}}");
    assert_non_null(strstr(s.trace.data, "PredicateError"));
    sim_fini(&s);
}

static void when_sees_what_came_during_a_pass(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "when = function(old, new) return old.spec.v ~= new.spec.v end, "
              "reconcile = function(o) return { status = { seen = o.spec.v } } end");
    put_thing(&s, "t", "},\"spec\":{\"v\":\"1\"}");
    for (int i = 2; i < 40; i++) { // passes, their writes and these changes in all orders
        char body[64];
        snprintf(body, sizeof body, "{\"spec\":{\"v\":\"%d\"}}", i);
        patch(&s, "alice", THING, body);
        sim_run(&s, (uint64_t)i % 7 * 3);
    }
    sim_run(&s, SETTLE_MS);
    assert_true(has_seen(&s, "39"));
    sim_fini(&s);
}

static void turns_always_run(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "when = function() return false end, reconcile = function() return {} end");
    put_thing(&s, "t", "},\"spec\":{\"v\":\"1\"}");
    sim_run(&s, SETTLE_MS);
    assert_int_equal(passes(&s), 1);
    EXPECT_PASSES(&s, 0, "alice", THING, "{\"spec\":{\"v\":\"2\"}}");
    unsigned before = passes(&s);
    sim_request(&s, "alice", "DELETE", THING, NULL, NULL); // and made anew at once
    put_thing(&s, "t", "},\"spec\":{\"v\":\"2\"}");
    assert_int_equal(passes_after(&s, before), 1);
    before = passes(&s);
    sim_put_script_text(&s, "things", "things.lua",
                        "return { name = 'things', subject = 'x.test/v1/Thing', "
                        "when = function() return false end, reconcile = function() return nil end }");
    assert_int_equal(passes_after(&s, before), 1);
    sim_fini(&s);
}

// ---- what runs whatever a predicate says

// A style of predicate, and a change that it has no pass for.
static const struct style {
    const char *head, *path, *unheeded;
} styles[] = {
    {"", THING, "{\"spec\":{\"v\":\"1\"}}"}, // everything: but that is as it was
    {"selector = { tier = 'a' }, ", THINGS "/u", "{\"spec\":{\"v\":\"2\"}}"},
    {"fields = 'metadata.name=t', ", THINGS "/u", "{\"spec\":{\"v\":\"2\"}}"},
    {"namespaces = { 'default' }, ", "/apis/x.test/v1/namespaces/other/things/t", "{\"spec\":{\"v\":\"2\"}}"},
    {"changed = { 'spec.v' }, ", THING, "{\"spec\":{\"w\":\"2\"}}"},
    {"when = function() return false end, ", THING, "{\"spec\":{\"v\":\"2\"}}"},
};

enum { EVERY_MS = 20 * 1000 };

// One pass of t was made, and such a change has led to none. `body` is that of reconcile(o, world).
static void start_style(struct sim *s, const struct style *style, const char *rest, const char *body)
{
    char *head = xasprintf("%s%s reconcile = function(o, world) if o.metadata.name == 't' and "
                           "o.metadata.namespace == 'default' then %s end end",
                           style->head, rest, body);
    start(s, head);
    free(head);
    sim_apply(s, "kubectl",
              "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"other\"}}");
    put_thing(s, "t", ",\"labels\":{\"tier\":\"a\"}},\"spec\":{\"v\":\"1\"}");
    if (str_eq(style->path, THINGS "/u"))
        put_thing(s, "u", "},\"spec\":{\"v\":\"1\"}");
    if (strstr(style->path, "/other/") != NULL)
        sim_apply(
            s, "kubectl",
            "{\"apiVersion\":\"x.test/v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"t\",\"namespace\":"
            "\"other\"},\"spec\":{\"v\":\"1\"}}");
    sim_run(s, SETTLE_MS);
    assert_int_equal(passes(s), 1);
    EXPECT_PASSES(s, 0, "alice", style->path, style->unheeded);
}

// Three turns of a timer, one with such a change in it.
static void expect_turns(struct sim *s, const struct style *style)
{
    unsigned before = passes(s);
    sim_run(s, EVERY_MS / 2);
    bool everything = style->head[0] == '\0';
    patch(s, "alice", style->path, everything ? style->unheeded : "{\"spec\":{\"x\":\"1\"}}");
    sim_run(s, EVERY_MS * 5 / 2);
    assert_int_equal(passes(s) - before, 3);
}

static void drift_is_put_right(const struct style *style)
{
    struct sim s;
    start_style(&s, style, "",
                "return { apply = { { apiVersion = 'v1', kind = 'ConfigMap', metadata = { name = 'c' }, "
                "data = { v = '1' } } } }");
    EXPECT_PASSES(&s, 1, "alice", THINGS_CONFIG_MAPS "/c", "{\"data\":{\"v\":\"hers\"}}");
    assert_string_equal(things_value(&s, "default", "c"), "1");
    sim_request(&s, "alice", "DELETE", THINGS_CONFIG_MAPS "/c", NULL, NULL);
    sim_run(&s, SETTLE_MS);
    assert_string_equal(things_value(&s, "default", "c"), "1");
    sim_fini(&s);
}

static void failures_are_tried_again(const struct style *style)
{
    struct sim s;
    start_style(&s, style, "retry = { kind = 'fixed', base = '20s' },",
                "if world.get('v1/ConfigMap', 'bad') then error('bad', 0) end return {}");
    sim_request(&s, "alice", "POST", THINGS_CONFIG_MAPS, "application/json",
                "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"bad\"}}");
    assert_int_equal(passes_after(&s, 1), 1); // an input has changed
    expect_turns(&s, style);
    sim_fini(&s);
}

static void timers_and_resync_go_on(const struct style *style)
{
    struct sim s;
    start_style(&s, style, "", "return { requeue_after = '20s' }");
    expect_turns(&s, style);
    sim_fini(&s);
    start_style(&s, style, "resync = '20s',", "return {}");
    expect_turns(&s, style);
    sim_fini(&s);
}

static void whatever_a_predicate_says(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < sizeof styles / sizeof styles[0]; i++) {
        print_message("%s\n", styles[i].head);
        drift_is_put_right(&styles[i]);
        failures_are_tried_again(&styles[i]);
        timers_and_resync_go_on(&styles[i]);
    }
}

static void selected_by_labels_namespaces_and_fields(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "selector = { tier = 'a' }, fields = { ['metadata.name'] = 't' }, namespaces = { 'default' }, "
              "reconcile = function(o) return { status = { seen = (o.spec or {}).v } } end");
    put_thing(&s, "t", ",\"labels\":{\"tier\":\"a\"}}");
    put_thing(&s, "u", ",\"labels\":{\"tier\":\"a\"}}");
    sim_run(&s, SETTLE_MS);
    assert_int_equal(passes(&s), 1);
    assert_non_null(strstr(s.trace.data, "fieldSelector=metadata.name%3Dt"));
    assert_non_null(strstr(s.trace.data, "labelSelector=tier%3Da"));
    EXPECT_PASSES(&s, 0, "alice", THINGS "/u", "{\"spec\":{\"v\":\"2\"}}");
    EXPECT_PASSES(&s, 1, "alice", THING, "{\"spec\":{\"v\":\"2\"}}");
    patch(&s, "alice", THING, "{\"metadata\":{\"labels\":{\"tier\":\"b\"}}}"); // it leaves
    sim_run(&s, SETTLE_MS);
    patch(&s, "alice", THING, "{\"spec\":{\"v\":\"3\"}}");
    sim_run(&s, SETTLE_MS);
    assert_false(has_seen(&s, "3"));
    patch(&s, "alice", THING, "{\"metadata\":{\"labels\":{\"tier\":\"a\"}}}"); // and comes back
    sim_run(&s, SETTLE_MS);
    assert_true(has_seen(&s, "3"));
    sim_fini(&s);
}

// The server knows few fields of a kind: then the host selects.
static void fields_that_the_server_does_not_know(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "fields = 'spec.class=ours', reconcile = function(o) return { status = { seen = 'yes' } } end");
    put_thing(&s, "t", "},\"spec\":{\"class\":\"ours\"}");
    put_thing(&s, "u", "},\"spec\":{\"class\":\"theirs\"}");
    sim_run(&s, SETTLE_MS);
    assert_int_equal(passes(&s), 1);
    EXPECT_PASSES(&s, 0, "alice", THINGS "/u", "{\"spec\":{\"v\":\"2\"}}");
    EXPECT_PASSES(&s, 1, "alice", THINGS "/u", "{\"spec\":{\"class\":\"ours\"}}");
    struct json_doc *doc = sim_get(&s, "x.test/v1", "things", "u");
    assert_string_equal(json_str(json_path(json_root(doc), "status", "seen", NULL)), "yes");
    json_doc_free(doc);
    sim_fini(&s);
}

// A store that serves another script, too, holds more than is selected.
static void a_wider_store_is_selected_from(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "selector = 'tier=a', reconcile = function(o, world) "
              "local all = world.list('x.test/v1/Thing', { namespace = '*' }) "
              "return { status = { seen = tostring(#all) } } end");
    put_thing(&s, "t", ",\"labels\":{\"tier\":\"a\"}}");
    put_thing(&s, "u", ",\"labels\":{\"tier\":\"b\"}}");
    sim_run(&s, SETTLE_MS);
    struct json_doc *doc = sim_get(&s, "x.test/v1", "things", "t"),
                    *other = sim_get(&s, "x.test/v1", "things", "u");
    assert_string_equal(json_str(json_path(json_root(doc), "status", "seen", NULL)), "2");
    assert_null(json_get(json_root(other), "status"));
    json_doc_free(doc);
    json_doc_free(other);
    patch(&s, "alice", THINGS "/u", "{\"spec\":{\"v\":\"2\"}}");
    sim_run(&s, SETTLE_MS);
    other = sim_get(&s, "x.test/v1", "things", "u");
    assert_null(json_get(json_root(other), "status"));
    json_doc_free(other);
    sim_fini(&s);
}

static void pausing_of_a_whole_bundle(void **unused)
{
    struct sim s;
    static const char bundle[] = "/api/v1/namespaces/tidelock-system/configmaps/things";
    (void)unused;
    start(&s, "reconcile = function(o) return { status = { seen = o.spec.v } } end");
    put_thing(&s, "t", "},\"spec\":{\"v\":\"1\"}");
    sim_run(&s, SETTLE_MS);
    patch(&s, "alice", bundle, "{\"metadata\":{\"annotations\":{\"tidelock.dev/paused\":\"true\"}}}");
    sim_run(&s, SETTLE_MS);
    EXPECT_PASSES(&s, 1, "alice", THING, "{\"spec\":{\"v\":\"2\"}}"); // a look only
    sim_restart_host(&s);                                             // it begins paused, too
    sim_run(&s, SETTLE_MS);
    assert_true(has_seen(&s, "1"));
    patch(&s, "alice", bundle, "{\"metadata\":{\"annotations\":{\"tidelock.dev/paused\":null}}}");
    sim_run(&s, SETTLE_MS);
    assert_true(has_seen(&s, "2"));
    sim_fini(&s);
}

// The texts beside the scripts.
static void data_of_the_bundle(void **unused)
{
    struct sim s;
    static const char bundle[] = "/api/v1/namespaces/tidelock-system/configmaps/things";
    (void)unused;
    start(&s, "reconcile = function(o, world) return { status = { seen = world.data('motd.txt') or 'none', "
              "lua = tostring(world.data('things.lua')) } } end");
    put_thing(&s, "t", "}");
    sim_run(&s, SETTLE_MS);
    struct json_doc *doc = sim_get(&s, "x.test/v1", "things", "t");
    assert_string_equal(json_str(json_path(json_root(doc), "status", "seen", NULL)), "none");
    assert_string_equal(json_str(json_path(json_root(doc), "status", "lua", NULL)), "nil");
    json_doc_free(doc);
    patch(&s, "kubectl", bundle, "{\"data\":{\"motd.txt\":\"hello\"}}"); // a new version of the script
    sim_run(&s, SETTLE_MS);
    assert_true(has_seen(&s, "hello"));
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_content_but_our_own_status),
        cmocka_unit_test(another_scripts_status),
        cmocka_unit_test(changed_paths_only),
        cmocka_unit_test(when_is_asked_with_the_last_completed_version),
        cmocka_unit_test(when_sees_what_came_during_a_pass),
        cmocka_unit_test(turns_always_run),
        cmocka_unit_test(whatever_a_predicate_says),
        cmocka_unit_test(selected_by_labels_namespaces_and_fields),
        cmocka_unit_test(fields_that_the_server_does_not_know),
        cmocka_unit_test(a_wider_store_is_selected_from),
        cmocka_unit_test(pausing_of_a_whole_bundle),
        cmocka_unit_test(data_of_the_bundle),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
