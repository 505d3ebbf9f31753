// A new version of a script whose subject is another kind.

#include "run/release/release.h"
#include "run/things.h"

// One child in reach of garbage collection, one that is not, and a patch.
static void put_script(struct sim *s, const char *subject)
{
    char *text =
        xasprintf("return { name = 'things', subject = '%s', reconcile = function(o)\n"
                  "  local function cm(ns) return { apiVersion = 'v1', kind = 'ConfigMap', metadata = { "
                  "namespace = ns,\n"
                  "    name = o.metadata.name .. '-' .. o.kind:lower() }, data = { v = o.kind } } end\n"
                  "  return { apply = { cm('default'), cm('other') }, patch = { { apiVersion = 'v1', kind = "
                  "'ConfigMap',\n"
                  "    metadata = { name = 'target', namespace = 'other', labels = { [o.metadata.name] = "
                  "'here' } } } } }\n"
                  "end, finalize = function() return { done = true } end }",
                  subject);
    sim_put_script_text(s, "things", "things.lua", text);
    free(text);
    things_settle(s);
}

static size_t finalizers(struct sim *s, const char *plural, const char *ns, const char *name)
{
    struct json_doc *doc = apiserver_get_json(s->server, "x.test/v1", plural, ns, name);
    assert_non_null(doc);
    size_t n = json_count(json_path(json_root(doc), "metadata", "finalizers", NULL));
    json_doc_free(doc);
    return n;
}

static const char *label_of_target(struct sim *s, const char *name)
{
    static char value[64];
    struct json_doc *doc = apiserver_get_json(s->server, "v1", "configmaps", "other", "target");
    const char *v = json_str(json_path(json_root(doc), "metadata", "labels", name, NULL));
    snprintf(value, sizeof value, "%s", v == NULL ? "none" : v);
    json_doc_free(doc);
    return value;
}

static void start(struct sim *s)
{
    sim_init(s, 3);
    sim_apply(s, "kubectl", THINGS_CRD("things", "thing", "Thing", "Namespaced"));
    sim_apply(s, "kubectl", THINGS_CRD("rooms", "room", "Room", "Cluster"));
    sim_apply(s, "kubectl",
              "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"other\"}}");
    sim_request(s, "alice", "POST", "/api/v1/namespaces/other/configmaps", "application/json",
                "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"target\"}}");
    sim_apply(s, "kubectl", "{\"apiVersion\":\"x.test/v1\",\"kind\":\"Room\",\"metadata\":{\"name\":\"r\"}}");
    things_put(s, "t", "{}");
    put_script(s, "x.test/v1/Thing");
}

static void all_is_as_the_first_version_left_it(struct sim *s)
{
    assert_int_equal(finalizers(s, "things", "default", "t"), 1);
    assert_string_equal(things_value(s, "default", "t-thing"), "Thing");
    assert_string_equal(things_value(s, "other", "t-thing"), "Thing");
    assert_string_equal(label_of_target(s, "t"), "here");
    assert_int_equal(finalizers(s, "rooms", "", "r"), 0);
    assert_string_equal(things_value(s, "other", "r-room"), "absent");
}

static size_t said(struct sim *s, const char *reason)
{
    return things_events(s, "tidelock-system", reason, "for its subjects of x.test/Thing");
}

static void the_running_version_goes_on(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    put_script(&s, "x.test/v1/Room");
    all_is_as_the_first_version_left_it(&s);
    assert_int_equal(said(&s, "ScriptInvalid"), 1);
    things_put(&s, "u", "{}");
    things_settle(&s);
    assert_string_equal(things_value(&s, "other", "u-thing"), "Thing");
    things_delete(&s, "u"); // finalize and all
    things_settle(&s);
    assert_false(things_exists(&s, "u"));
    assert_string_equal(things_value(&s, "other", "u-thing"), "absent");
    sim_fini(&s);
}

static void on_said(void *ud, const char *line)
{
    (void)ud;
    (void)line;
}

static void on_released(void *ud, int r, const struct err *e, size_t done)
{
    (void)e;
    (void)done;
    assert_int_equal(r, 0);
    *(bool *)ud = true;
}

static void release(struct sim *s)
{
    bool ended = false;
    struct client *c = client_new_with(s->loop, apiserver_transport(s->server, "admin"), NULL);
    struct release *r = release_start(&(struct release_options){.client = c,
                                                                .instance = "sim",
                                                                .namespace_ = "tidelock-system",
                                                                .script_ns = "tidelock-system",
                                                                .script = "things",
                                                                .say = on_said,
                                                                .on_done = on_released,
                                                                .ud = &ended});
    things_settle(s);
    assert_true(ended);
    release_free(r);
    client_free(c);
}

// A host that starts with the new version has no other: it waits, and begins when all is handed back.
static void held_until_released(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    sim_stop_host(&s);
    put_script(&s, "x.test/v1/Room");
    sim_start_host(&s);
    things_settle(&s);
    size_t before = things_writes(&s);
    sim_run(&s, 600 * 1000);
    assert_int_equal(things_writes(&s), before);
    all_is_as_the_first_version_left_it(&s);
    assert_int_equal(said(&s, "SubjectChanged"), 1);
    release(&s);
    sim_run(&s, 30 * 1000);
    assert_int_equal(finalizers(&s, "things", "default", "t"), 0);
    assert_string_equal(things_value(&s, "other", "t-thing"), "Thing"); // handed back, not deleted
    assert_string_equal(label_of_target(&s, "t"), "none");
    assert_int_equal(finalizers(&s, "rooms", "", "r"), 1);
    assert_string_equal(things_value(&s, "other", "r-room"), "Room");
    sim_fini(&s);
}

static void held_until_the_subject_is_back(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    sim_stop_host(&s);
    put_script(&s, "x.test/v1/Room");
    sim_start_host(&s);
    things_settle(&s);
    things_delete(&s, "t"); // nobody finalizes it
    things_settle(&s);
    assert_true(things_exists(&s, "t"));
    put_script(&s, "x.test/v1/Thing");
    assert_false(things_exists(&s, "t"));
    assert_string_equal(things_value(&s, "other", "t-thing"), "absent");
    assert_string_equal(label_of_target(&s, "t"), "none");
    sim_fini(&s);
}

// Nothing was left on or for any of its subjects, or they went with their kind.
static void nothing_stands_in_the_way(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s, "return { status = { seen = 'yes' } }", "");
    sim_apply(&s, "kubectl",
              "{\"apiVersion\":\"x.test/v1\",\"kind\":\"Room\",\"metadata\":{\"name\":\"r\"}}");
    things_put(&s, "t", "{}");
    things_settle(&s);
    put_script(&s, "x.test/v1/Room");
    assert_int_equal(finalizers(&s, "rooms", "", "r"), 1);
    sim_request(&s, "alice", "DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/rooms.x.test",
                "application/json", "{}");
    sim_run(&s, 120 * 1000);
    put_script(&s, "x.test/v1/Thing");
    assert_int_equal(finalizers(&s, "things", "default", "t"), 1);
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_running_version_goes_on),
        cmocka_unit_test(held_until_released),
        cmocka_unit_test(held_until_the_subject_is_back),
        cmocka_unit_test(nothing_stands_in_the_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
