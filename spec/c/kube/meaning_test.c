#include "kube/meaning.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "kube/fields.h"
#include "openapi.h"

static struct schema *core, *custom;

static const struct schema_node *pod_spec(void)
{
    return schema_member(schema_kind(core, "Pod"), "spec", 4, NULL);
}

static const struct schema_node *widget_spec(void)
{
    return schema_member(schema_kind(custom, "Widget"), "spec", 4, NULL);
}

// Members of a spec that is owned as a whole. Texts with ' for ".
static void expect_spec(const struct schema_node *type, const char *desired, const char *live, bool want,
                        const char *want_path)
{
    struct json_doc *d = parse(desired), *l = parse(live);
    struct buf path;
    struct step root = {0};
    buf_init(&path, 1000);
    bool same = meaning_same(type, NULL, json_root(d), json_root(l), &root, &path);
    if (same != want)
        print_error("desired %s live %s\n", desired, live);
    assert_int_equal(same, want);
    assert_string_equal(path.data == NULL ? "" : path.data, want_path);
    buf_fini(&path);
    json_doc_free(d);
    json_doc_free(l);
}

static void same(const char *desired, const char *live)
{
    expect_spec(pod_spec(), desired, live, true, "");
}

static void differ(const char *desired, const char *live, const char *path)
{
    expect_spec(pod_spec(), desired, live, false, path);
}

static void custom_same(const char *desired, const char *live)
{
    expect_spec(widget_spec(), desired, live, true, "");
}

static void custom_differ(const char *desired, const char *live, const char *path)
{
    expect_spec(widget_spec(), desired, live, false, path);
}

// given, stored: as a server does it
static const char *const spellings[][2] = {
    {"'1000m'", "'1'"},      {"1", "'1'"},
    {"'1.0'", "'1'"},        {"' 1'", "'1'"},
    {"0.5", "'500m'"},       {"'0.5'", "'500m'"},
    {"'.5'", "'500m'"},      {"'0.1m'", "'1m'"},
    {"'100u'", "'1m'"},      {"'5.'", "'5.'"},
    {"'+1'", "'+1'"},        {"'1e-3'", "'1e-3'"},
    {"'2048Mi'", "'2Gi'"},   {"'1024Ki'", "'1Mi'"},
    {"'1.5Gi'", "'1536Mi'"}, {"'1000'", "'1k'"},
    {"'1500'", "'1500'"},    {"'1e3'", "'1e3'"},
    {"'12E'", "'12E'"},      {"'9223372036854775808'", "'9223372036854775808'"},
};

static void test_quantities(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof(spellings) / sizeof(*spellings); i++) {
        char desired[200], live[200];
        snprintf(desired, sizeof(desired), "{'requests':{'x':%s}}", spellings[i][0]);
        snprintf(live, sizeof(live), "{'requests':{'x':%s}}", spellings[i][1]);
        same(desired, live);
        bool letters = strcmp(spellings[i][0], spellings[i][1]) == 0;
        expect_spec(NULL, desired, live, letters, letters ? "" : "requests.x");
    }
    differ("{'requests':{'x':'1001m'}}", "{'requests':{'x':'1'}}", "requests.x");
    differ("{'requests':{'x':'1gi'}}", "{'requests':{'x':'1Gi'}}", "requests.x");
    same("{'requests':{'x':'1gi'}}", "{'requests':{'x':'1gi'}}");
    differ("{'requests':{'x':'1'}}", "{'requests':{'x':'1','y':'2'}}",
           "requests.y"); // others' entries are none of a default
    same("{'limit':'1000m'}", "{'limit':'1'}");
    differ("{'limit':'0.1m'}", "{'limit':'1m'}", "limit"); // rounded in lists of resources only
    // only text
    differ("{'text':'1000m'}", "{'text':'1'}", "text");
    differ("{'nodeSelector':{'x':'1000m'}}", "{'nodeSelector':{'x':'1'}}", "nodeSelector.x");
    custom_differ("{'text':'1000m'}", "{'text':'1'}", "text");
    custom_differ("{'ios':80}", "{'ios':'80'}", "ios");
    custom_same("{'qty':'1000m'}", "{'qty':1}");
}

static void test_times(void **state)
{
    (void)state;
    same("{'wait':'90s'}", "{'wait':'1m30s'}");
    differ("{'wait':'91s'}", "{'wait':'1m30s'}", "wait");
    differ("{'text':'90s'}", "{'text':'1m30s'}", "text");
    same("{'since':'2024-01-01T02:00:00+02:00'}", "{'since':'2024-01-01T00:00:00Z'}");
    same("{'since':'2024-01-01T00:00:00.9Z'}", "{'since':'2024-01-01T00:00:00Z'}");
    differ("{'since':'2024-01-01T00:00:01Z'}", "{'since':'2024-01-01T00:00:00Z'}", "since");
    same("{'renew':'2024-01-01T00:00:00Z'}", "{'renew':'2024-01-01T00:00:00.000000Z'}");
    differ("{'renew':'2024-01-01T00:00:00.9Z'}", "{'renew':'2024-01-01T00:00:00.000000Z'}", "renew");
}

static void test_left_out(void **state)
{
    (void)state;
    same("{'text':'','on':false,'args':[],'nodeSelector':{},'limit':null}", "{}");
    same("{'text':null}", "{'text':''}");
    same("{}", "{'args':[],'nodeSelector':{},'text':null}");
    same("{'nodeSelector':{'a':null}}", "{'nodeSelector':{'a':''}}");
    // where empty and absent are two things
    differ("{'count':0}", "{}", "count");
    differ("{'emptyDir':{}}", "{}", "emptyDir");
    differ("{'tolerations':[{'key':'a','tolerationSeconds':0}]}", "{'tolerations':[{'key':'a'}]}",
           "tolerations[0].tolerationSeconds");
    // a map's entry is one, whatever it holds
    differ("{'nodeSelector':{'a':'x'}}", "{'nodeSelector':{'a':'x','b':'y'}}", "nodeSelector.b");
    differ("{'args':['a']}", "{'args':['a','b']}", "args");
    // what a new script no longer says
    differ("{'tolerations':[{'key':'a'}]}", "{'tolerations':[{'key':'a','operator':'Exists'}]}",
           "tolerations[0].operator");
    // a CRD keeps what it is given
    custom_differ("{'text':''}", "{}", "text");
    custom_differ("{'m':{}}", "{}", "m");
    custom_same("{'text':null}", "{}");
    // nothing known
    differ("{'new':''}", "{}", "new");
    expect_spec(NULL, "{'a':null,'b':[1,{'c':1.0}]}", "{'b':[1,{'c':1,'d':null}]}", true, "");
}

static void test_defaults(void **state)
{
    (void)state;
    same("{'ports':[{'port':80}]}", "{'ports':[{'port':80,'protocol':'TCP'}]}");
    differ("{'ports':[{'port':80}]}", "{'ports':[{'port':80,'protocol':'UDP'}]}", "ports[0].protocol");
    same("{'ports':[{'port':80,'protocol':null}]}", "{'ports':[{'port':80,'protocol':'TCP'}]}");
    same("{'ref':{'fieldPath':'a'}}", "{'ref':{'fieldPath':'a','apiVersion':'v1'}}");
    differ("{'ref':{'fieldPath':'a'}}", "{'ref':{'fieldPath':'a','apiVersion':'v2'}}", "ref.apiVersion");
    const char *live = "{'claims':[{'apiVersion':'v1','kind':'PersistentVolumeClaim','metadata':{'name':'d',"
                       "'creationTimestamp':null},'spec':{'volumeMode':'Filesystem','resources':{'requests':"
                       "{'storage':'1Gi'}}},'status':{'phase':'Pending'}}]}";
    same("{'claims':[{'metadata':{'name':'d'},'spec':{'resources':{'requests':{'storage':'1024Mi'}}}}]}",
         live);
    differ("{'claims':[{'metadata':{'name':'d'},'spec':{'storageClassName':'','resources':{'requests':"
           "{'storage':'1024Mi'}}}}]}",
           live, "claims[0].spec.storageClassName");
    differ("{'claims':[{'metadata':{'name':'d'}}]}", live, "claims[0].spec");
    custom_same("{'list':[{'a':'x'}]}", "{'list':[{'a':'x','b':7,'deep':{'x':1,'y':2}}]}");
    custom_differ("{'list':[{'a':'x'}]}", "{'list':[{'a':'x','b':8}]}", "list[0].b");
    custom_differ("{'list':[{'a':'x'}]}", "{'list':[{'a':'x','deep':{'x':1,'y':3}}]}", "list[0].deep");
    custom_same("{'num':null}", "{'num':5}");
    custom_differ("{'num':null}", "{'num':6}", "num");
}

static void test_nulls_that_are_kept(void **state)
{
    (void)state;
    custom_same("{'obj':null}", "{'obj':null}");
    custom_differ("{'obj':null}", "{}", "obj");
    custom_differ("{'obj':null}", "{'obj':{'value':1}}", "obj");
    custom_differ("{'obj':{'value':1}}", "{'obj':null}", "obj");
    custom_same("{'any':{'n':null,'l':[],'m':{}}}", "{'any':{'n':null,'l':[],'m':{}}}");
    custom_differ("{'any':{'l':[]}}", "{'any':{'l':{}}}", "any.l");
}

// ---- with what is owned

static void expect_fields(const struct schema_node *type, const char *owned, const char *desired,
                          const char *live, enum fields_verdict want, const char *want_path)
{
    struct json_doc *o = parse(owned), *d = parse(desired), *l = parse(live);
    struct buf path;
    buf_init(&path, 1000);
    assert_int_equal(fields_compare(json_root(o), json_root(d), json_root(l), type, &path), want);
    assert_string_equal(path.data == NULL ? "" : path.data, want_path);
    buf_fini(&path);
    json_doc_free(o);
    json_doc_free(d);
    json_doc_free(l);
}

static void test_secret(void **state)
{
    (void)state;
    const struct schema_node *secret = schema_kind(core, "Secret");
    const char *owned = "{'f:data':{'f:b':{},'f:n':{}},'f:stringData':{'f:a':{}}}";
    const char *live = "{'data':{'a':'aGVsbG8=','b':'aGVsbG8=','n':''}}";
    expect_fields(secret, owned, "{'data':{'b':'aGVs\\nbG8=','n':null},'stringData':{'a':'hello'}}", live,
                  FIELDS_SAME, "");
    expect_fields(secret, owned, "{'data':{'b':'aGVsbG8=','n':null},'stringData':{'a':'hallo'}}", live,
                  FIELDS_DIFFER, "stringData.a");
    expect_fields(secret, owned, "{'data':{'b':'aGVsbG8=','n':null},'stringData':{'a':'aGVsbG8='}}", live,
                  FIELDS_DIFFER, "stringData.a");
    expect_fields(secret, owned, "{'data':{'b':'aGVsbG8h','n':null},'stringData':{'a':'hello'}}", live,
                  FIELDS_DIFFER, "data.b");
    // drift in what became of a text is seen without a schema too
    struct json_doc *o = parse(owned), *a = parse(live),
                    *b = parse("{'data':{'a':'eA==','b':'aGVsbG8=','n':''}}");
    assert_true(fields_hash_owned(json_root(o), json_root(a)) !=
                fields_hash_owned(json_root(o), json_root(b)));
    json_doc_free(o);
    json_doc_free(a);
    json_doc_free(b);
}

static void test_owned_values(void **state)
{
    (void)state;
    const struct schema_node *pod = schema_kind(core, "Pod");
    expect_fields(pod, "{'f:spec':{'f:requests':{'f:cpu':{}},'f:text':{}}}",
                  "{'spec':{'requests':{'cpu':'1000m'},'text':'1'}}",
                  "{'spec':{'requests':{'cpu':'1','memory':'1'},'text':'1'}}", FIELDS_SAME, "");
    expect_fields(pod, "{'f:spec':{'f:requests':{'f:cpu':{}},'f:text':{}}}",
                  "{'spec':{'requests':{'cpu':'1000m'},'text':'1000m'}}",
                  "{'spec':{'requests':{'cpu':'1'},'text':'1'}}", FIELDS_DIFFER, "spec.text");
    expect_fields(schema_kind(core, "ConfigMap"), "{'f:data':{'f:a':{},'f:b':{}}}",
                  "{'data':{'a':null,'b':''}}", "{'data':{'a':'','b':''}}", FIELDS_SAME, "");
    const struct schema_node *widget = schema_kind(custom, "Widget");
    expect_fields(widget, "{'f:spec':{'f:num':{},'f:obj':{}}}", "{'spec':{'num':null,'obj':null}}",
                  "{'spec':{'num':5,'obj':null}}", FIELDS_SAME, "");
    expect_fields(widget, "{'f:spec':{'f:num':{}}}", "{'spec':{'num':null}}", "{'spec':{'num':6}}",
                  FIELDS_DIFFER, "spec.num");
}

static char *with_keys(const char *text) // ^ for \"
{
    char *out = calloc(1, 2 * strlen(text) + 1), *to = out;
    for (; *text != '\0'; text++)
        if (*text == '^')
            to += sprintf(to, "\\'");
        else
            *to++ = *text;
    return out;
}

static void test_defaulted_keys(void **state)
{
    (void)state;
    const struct schema_node *pod = schema_kind(core, "Pod");
    char *tcp = with_keys("{'f:spec':{'f:ports':{'k:{^port^:53,^protocol^:^TCP^}':{'.':{},'f:port':{}}}}}");
    char *udp = with_keys("{'f:spec':{'f:ports':{'k:{^port^:53,^protocol^:^UDP^}':{'.':{},'f:port':{}}}}}");
    expect_fields(pod, tcp, "{'spec':{'ports':[{'port':53}]}}",
                  "{'spec':{'ports':[{'port':53,'protocol':'TCP'}]}}", FIELDS_SAME, "");
    // what lacks the protocol is not the one with another
    expect_fields(pod, udp, "{'spec':{'ports':[{'port':53}]}}",
                  "{'spec':{'ports':[{'port':53,'protocol':'UDP'}]}}", FIELDS_EXTRA,
                  "spec.ports[port=53,protocol=\"UDP\"]");
    free(tcp);
    free(udp);
}

static void expect_fault(const char *spec, const char *want)
{
    static const struct step root;
    struct json_doc *d = parse(spec);
    struct err e = {0};
    int r = meaning_check(pod_spec(), json_root(d), &root, &e);
    assert_int_equal(r, want == NULL ? 0 : -ERR_INVALID);
    if (want != NULL)
        assert_non_null(strstr(e.text, want));
    json_doc_free(d);
}

static void test_check(void **state)
{
    (void)state;
    static const char *const bad[] = {"'1gi'", "'1_000'", "'1 Gi'", "''", "'0x10'", "true", "{}"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
        char *text = xasprintf("{'claims':[{'spec':{'resources':{'requests':{'storage':%s}}}}]}", bad[i]);
        expect_fault(text, "claims[1].spec.resources.requests.storage: ");
        free(text);
    }
    for (size_t i = 0; i < sizeof(spellings) / sizeof(*spellings); i++) {
        char *text = xasprintf("{'requests':{'a':%s}}", spellings[i][0]);
        expect_fault(text, NULL);
        free(text);
    }
    expect_fault("{'since':'yesterday'}", "since: \"yesterday\" is not a time");
    expect_fault("{'wait':'1 day'}", "wait: ");
    expect_fault("{'text':'1gi','count':'x','unknown':{'a':'1gi'},'requests':{'a':null}}", NULL);
    expect_fault("7", NULL);
}

static int open_schemas(void **state)
{
    (void)state;
    core = compile(openapi_core, "v1");
    custom = compile(openapi_custom, "x.test/v1");
    return 0;
}

static int close_schemas(void **state)
{
    (void)state;
    schema_unref(core);
    schema_unref(custom);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_quantities),
        cmocka_unit_test(test_times),
        cmocka_unit_test(test_left_out),
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_nulls_that_are_kept),
        cmocka_unit_test(test_secret),
        cmocka_unit_test(test_owned_values),
        cmocka_unit_test(test_defaulted_keys),
        cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, open_schemas, close_schemas);
}
