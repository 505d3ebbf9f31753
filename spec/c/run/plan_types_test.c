// Schemas in passes: what an empty table is, what is the same, and passes that wait for a schema.
#include "data/json_write.h"
#include "run/things.h"

static const char gear_crd[] =
    "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{"
    "\"name\":\"gears.x.test\"},\"spec\":{\"group\":\"x.test\",\"scope\":\"Namespaced\",\"names\":{"
    "\"plural\":"
    "\"gears\",\"singular\":\"gear\",\"kind\":\"Gear\"},\"versions\":[{\"name\":\"v1\",\"served\":true,"
    "\"storage\":true,\"subresources\":{\"status\":{}},\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\","
    "\"properties\":{\"spec\":{\"type\":\"object\",\"properties\":{\"list\":{\"type\":\"array\",\"items\":{"
    "\"type\":\"string\"}},\"map\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}},"
    "\"when\":{\"type\":\"string\",\"format\":\"date-time\"}}},\"status\":{\"type\":\"object\","
    "\"properties\":{"
    "\"items\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},\"byName\":{\"type\":\"object\","
    "\"additionalProperties\":{\"type\":\"string\"}}}}}}}}]}}";

#define GEARS "/apis/x.test/v1/namespaces/default/gears"

static const char script[] =
    "return { name = 'gears', subject = 'x.test/v1/Gear', reconcile = function(o, world)\n"
    "  if o.metadata.name ~= 'top' then return { apply = {} } end\n"
    "  return { status = { items = {}, byName = {} }, apply = { { apiVersion = 'x.test/v1', kind = 'Gear',\n"
    "    metadata = { name = 'child' }, spec = { list = {}, map = {}, when = '2024-01-01T01:00:00+01:00' } } "
    "} }\n"
    "end }\n";

static void start(struct sim *s)
{
    sim_init(s, 3);
    sim_apply(s, "kubectl", gear_crd);
    sim_put_script_text(s, "gears", "gears.lua", script);
    sim_apply(s, "kubectl",
              "{\"apiVersion\":\"x.test/v1\",\"kind\":\"Gear\",\"metadata\":{\"name\":\"top\",\"namespace\":"
              "\"default\"}}");
}

static void expect_json(struct sim *s, const char *name, const char *path, const char *want)
{
    struct json_doc *doc = sim_get(s, "x.test/v1", "gears", name), *wanted;
    assert_non_null(doc);
    assert_int_equal(json_parse(want, strlen(want), &wanted, NULL), 0);
    assert_true(json_equal(json_dotted(json_root(doc), path), json_root(wanted)));
    json_doc_free(wanted);
    json_doc_free(doc);
}

static const char *manager_of(const struct json_doc *doc)
{
    const json *entries = json_path(json_root(doc), "metadata", "managedFields", NULL);
    for (struct json_iter i = json_iter(entries); json_next(&i);)
        if (strncmp(json_get_str(i.value, "manager"), "tidelock-", 9) == 0)
            return json_get_str(i.value, "manager");
    fail();
    return NULL;
}

// Spells the child's time as another server would have stored it: in the host's name, so that the field stays
// its own.
static void spell(struct sim *s, const char *when)
{
    char *labels, *owners;
    struct json_doc *doc = sim_get(s, "x.test/v1", "gears", "child");
    const json *metadata = json_get(json_root(doc), "metadata");
    assert_int_equal(json_print(json_get(metadata, "labels"), 10000, &labels, NULL, NULL), 0);
    assert_int_equal(json_print(json_get(metadata, "ownerReferences"), 10000, &owners, NULL, NULL), 0);
    char *path = xasprintf(GEARS "/child?force=true&fieldManager=%s", manager_of(doc));
    char *body =
        xasprintf("{\"apiVersion\":\"x.test/v1\",\"kind\":\"Gear\",\"metadata\":{\"name\":\"child\","
                  "\"labels\":%s,\"ownerReferences\":%s},\"spec\":{\"list\":[],\"map\":{},\"when\":\"%s\"}}",
                  labels, owners, when);
    sim_request(s, "other", "PATCH", path, "application/apply-patch+yaml", body);
    free(labels);
    free(owners);
    free(path);
    free(body);
    json_doc_free(doc);
}

static void empty_tables(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    things_settle(&s);
    expect_json(&s, "child", "spec.list", "[]");
    expect_json(&s, "child", "spec.map", "{}");
    expect_json(&s, "top", "status.items", "[]");
    expect_json(&s, "top", "status.byName", "{}");
    size_t writes = things_writes(&s);
    sim_restart_host(&s);
    things_settle(&s);
    assert_int_equal(things_writes(&s), writes);
    sim_fini(&s);
}

static void other_words_after_a_restart(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    things_settle(&s);
    sim_stop_host(&s);
    spell(&s, "2024-01-01T00:00:00Z");
    size_t writes = things_writes(&s);
    sim_start_host(&s);
    things_settle(&s);
    assert_int_equal(things_writes(&s), writes);
    expect_json(&s, "child", "spec.when", "\"2024-01-01T00:00:00Z\"");
    // Another time is another time.
    spell(&s, "2024-01-01T00:00:01Z");
    things_settle(&s);
    assert_int_equal(things_writes(&s), writes + 1);
    expect_json(&s, "child", "spec.when", "\"2024-01-01T01:00:00+01:00\"");
    sim_fini(&s);
}

static enum apiserver_fault no_openapi(struct sim *s, const struct apiserver_passage *p,
                                       struct apiserver_answer *ret_answer)
{
    (void)s;
    if (p->answered || strstr(p->path, "/openapi/") == NULL)
        return APISERVER_PASS;
    *ret_answer = (struct apiserver_answer){.status = 503, .body = "{}"};
    return APISERVER_ANSWER;
}

// What waited goes on by the letter: the server says what is wrong with it, until the schemas come.
static void without_schemas(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    things_settle(&s);
    sim_stop_host(&s);
    spell(&s, "2024-01-01T00:00:00Z");
    size_t writes = things_writes(&s);
    s.fault = no_openapi;
    sim_start_host(&s);
    things_settle(&s);
    assert_true(things_writes(&s) > writes);
    s.fault = NULL;
    things_settle(&s);
    things_settle(&s);
    things_settle(&s);
    things_settle(&s); // they were asked for again
    writes = things_writes(&s);
    things_settle(&s);
    assert_int_equal(things_writes(&s), writes); // and all is well
    expect_json(&s, "child", "spec.list", "[]");
    expect_json(&s, "child", "spec.when", "\"2024-01-01T00:00:00Z\"");
    sim_fini(&s);
}

// What is wrong in a child, a patch or the status is told with its place in the result; the rest is written.
static void what_the_schema_refuses(void **unused)
{
    static const char bad[] =
        "return { name = 'gears', subject = 'x.test/v1/Gear', reconcile = function(o, world)\n"
        "  if o.metadata.name ~= 'top' then return end\n"
        "  local function gear(name, spec) return { apiVersion = 'x.test/v1', kind = 'Gear',\n"
        "    metadata = { name = name }, spec = spec } end\n"
        "  return { status = { items = { 'a', 7 } }, apply = { gear('good', { list = { 'x' } }),\n"
        "    gear('typed', { list = { 'x', true } }), gear('unknown', { lists = {} }) },\n"
        "    patch = { gear('top', { map = { a = 1 } }) } }\n"
        "end }\n";
    struct sim s;
    (void)unused;
    start(&s);
    sim_put_script_text(&s, "gears", "gears.lua", bad);
    things_settle(&s);
    expect_json(&s, "good", "spec.list", "[\"x\"]");
    assert_null(sim_get(&s, "x.test/v1", "gears", "typed"));
    assert_int_equal(things_requests(&s, "PATCH ", "/gears/typed"), 0);
    assert_int_equal(things_requests(&s, "PATCH ", "/gears/unknown"), 0);
    assert_int_equal(things_requests(&s, "PATCH ", "/gears/top/status"), 0);
    static const char *const told[] = {
        "apply[2].spec.list[2]: expected string, got true (Gear typed)",
        "apply[3].spec.lists: field not declared in schema, did you mean list? (Gear unknown)",
        "patch[1].spec.map.a: expected string, got 1 (Gear top)",
        "status.items[2]: expected string, got 7",
    };
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++)
        assert_true(things_events(&s, "default", "ApplyFailed", told[i]) > 0);
    sim_put_script_text(&s, "gears", "gears.lua", script);
    things_settle(&s);
    expect_json(&s, "top", "status.items", "[]");
    sim_fini(&s);
}

static void a_wrong_status_is_told_before_it_is_sent(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    sim_put_script_text(&s, "gears", "gears.lua",
                        "return { name = 'gears', subject = 'x.test/v1/Gear',\n"
                        "  reconcile = function() return { status = { items = 'text' } } end }");
    sim_restart_host(&s); // which knows no schema yet
    things_settle(&s);
    assert_int_equal(things_events(&s, "default", "ApplyFailed", "status.items"), 1);
    assert_int_equal(things_events(&s, "default", "ApplyFailed", NULL), 1);
    assert_int_equal(things_requests(&s, "PATCH ", "/top/status"), 0);
    sim_fini(&s);
}

// A field that came with an update of the CRD, and the script that gives it: no error in between.
static void a_kind_that_changes_with_its_script(void **unused)
{
    static const char tooth[] =
        "return { name = 'gears', subject = 'x.test/v1/Gear', reconcile = function(o, world)\n"
        "  if o.metadata.name ~= 'top' then return { apply = {} } end\n"
        "  return { status = { worn = true }, patch = { { force = true, object = { apiVersion = "
        "'x.test/v1',\n"
        "    kind = 'Gear', metadata = { name = 'other' }, spec = { teeth = 8 } } } }, apply = { {\n"
        "    apiVersion = 'x.test/v1', kind = 'Gear', metadata = { name = 'child' }, spec = { teeth = 7 } } "
        "} }\n"
        "end }\n";
    static const char spec_field[] = "\"spec\":{\"type\":\"object\",\"properties\":{",
                      status_field[] = "\"status\":{\"type\":\"object\",\"properties\":{";
    struct sim s;
    (void)unused;
    start(&s);
    sim_apply(
        &s, "kubectl",
        "{\"apiVersion\":\"x.test/v1\",\"kind\":\"Gear\",\"metadata\":{\"name\":\"other\",\"namespace\":"
        "\"default\"}}");
    things_settle(&s);
    const char *spec = strstr(gear_crd, spec_field) + strlen(spec_field),
               *status = strstr(gear_crd, status_field) + strlen(status_field);
    char *crd = xasprintf("%.*s\"teeth\":{\"type\":\"integer\"},%.*s\"worn\":{\"type\":\"boolean\"},%s",
                          (int)(spec - gear_crd), gear_crd, (int)(status - spec), spec, status);
    sim_apply(&s, "kubectl", crd);
    free(crd);
    sim_put_script_text(&s, "gears", "gears.lua", tooth);
    sim_run(&s, 1000); // it was only a look
    expect_json(&s, "child", "spec.teeth", "7");
    expect_json(&s, "other", "spec.teeth", "8");
    expect_json(&s, "top", "status.worn", "true");
    things_settle(&s);
    assert_int_equal(things_events(&s, "default", "ApplyFailed", NULL), 0);
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(empty_tables),
        cmocka_unit_test(other_words_after_a_restart),
        cmocka_unit_test(without_schemas),
        cmocka_unit_test(a_kind_that_changes_with_its_script),
        cmocka_unit_test(what_the_schema_refuses),
        cmocka_unit_test(a_wrong_status_is_told_before_it_is_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
