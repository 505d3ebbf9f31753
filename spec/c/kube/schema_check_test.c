// What a kind's schema says of a value before it is sent.
#include "kube/schema_check.h"

#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "openapi.h"

static const char document[] =
    "{'components':{'schemas':{"
    "'io.k8s.api.x.v1.Thing':{'type':'object','x-kubernetes-group-version-kind':[{'group':'x','kind':'Thing',"
    "'version':'v1'}],'properties':{'spec':{'allOf':[{'$ref':'#/components/schemas/"
    "io.k8s.api.x.v1.Spec'}]}}},"
    "'io.k8s.api.x.v1.Spec':{'type':'object','properties':{"
    "'replicas':{'type':'integer','format':'int32'},'ratio':{'type':'number'},'paused':{'type':'boolean'},"
    "'text':{'type':'string'},'port':{'$ref':'#/components/schemas/"
    "io.k8s.apimachinery.pkg.util.intstr.IntOrString'},"
    "'size':{'$ref':'#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity'},"
    "'bytes':{'type':'object','additionalProperties':{'type':'string','format':'byte'}},"
    "'list':{'type':'array','items':{'type':'object','properties':{'name':{'type':'string'}}}},"
    "'raw':{'type':'object'},'any':{},'either':{'x-kubernetes-int-or-string':true},"
    "'open':{'type':'object','x-kubernetes-preserve-unknown-fields':true,'properties':{'n':{'type':'integer'}"
    "}},"
    "'other':{'type':'object','additionalProperties':true,'properties':{'n':{'type':'integer'}}},"
    "'map':{'type':'object','additionalProperties':{'type':'integer'},'properties':{'s':{'type':'string'}}}}}"
    "}}}";

static struct schema *schema;

// The spec of the third object in a list; want NULL: it is taken.
static void expect(const char *spec, const char *want)
{
    static const struct step root, list = {.up = &root, .name = "apply"}, at = {.up = &list, .index = 3},
                                   member = {.up = &at, .name = "spec"};
    struct json_doc *d = parse(spec);
    struct err e = {0};
    const struct schema_node *type = schema_member(schema_kind(schema, "Thing"), "spec", 4, NULL);
    int r = schema_check(type, json_root(d), &member, &e);
    assert_string_equal(e.text, want == NULL ? "" : want);
    assert_int_equal(r, want == NULL ? 0 : -ERR_INVALID);
    json_doc_free(d);
}

static void wrong_types(void **unused)
{
    (void)unused;
    expect("{'replicas':'3'}", "apply[3].spec.replicas: expected integer, got \"3\"");
    expect("{'replicas':1.5}", "apply[3].spec.replicas: expected integer, got 1.5");
    expect("{'replicas':{}}", "apply[3].spec.replicas: expected integer, got an object");
    expect("{'ratio':'1'}", "apply[3].spec.ratio: expected number, got \"1\"");
    expect("{'paused':'true'}", "apply[3].spec.paused: expected boolean, got \"true\"");
    expect("{'text':7}", "apply[3].spec.text: expected string, got 7");
    expect("{'text':false}", "apply[3].spec.text: expected string, got false");
    expect("{'list':{'a':1}}", "apply[3].spec.list: expected array, got an object");
    expect("{'list':[{'name':'a'},{'name':2}]}", "apply[3].spec.list[2].name: expected string, got 2");
    expect("{'list':[[]]}", NULL); // an empty list in a map's place: kube/empties tells
    expect("{'list':['a']}", "apply[3].spec.list[1]: expected object, got \"a\"");
    expect("{'map':{'s':'x','other':1,'third':'1'}}", "apply[3].spec.map.third: expected integer, got \"1\"");
    expect("{'open':{'n':'1'}}", "apply[3].spec.open.n: expected integer, got \"1\"");
    expect("'a'", "apply[3].spec: expected object, got \"a\"");
}

static void long_and_secret_values(void **unused)
{
    (void)unused;
    expect("{'replicas':'012345678901234567890123456789012345678901234567890123456789'}",
           "apply[3].spec.replicas: expected integer, got a text of 60 bytes");
    expect("{'bytes':{'k':4711}}", "apply[3].spec.bytes.k: expected string, got a number");
    expect("{'bytes':{'k':true}}", "apply[3].spec.bytes.k: expected string, got a boolean");
    expect("{'bytes':'hunter2'}", "apply[3].spec.bytes: expected object, got a text");
}

static void unknown_members(void **unused)
{
    (void)unused;
    expect("{'replics':3}", "apply[3].spec.replics: field not declared in schema, did you mean replicas?");
    expect("{'zebra':null}", "apply[3].spec.zebra: field not declared in schema");
    expect("{'list':[{'nam':'a'}]}",
           "apply[3].spec.list[1].nam: field not declared in schema, did you mean name?");
    expect("{'open':{'m':1},'other':{'m':1},'raw':{'m':{'x':1}},'any':{'m':1},'map':{'m':1}}", NULL);
}

static void what_a_server_takes(void **unused)
{
    (void)unused;
    expect("{'replicas':3,'ratio':2,'paused':true,'text':'','port':80,'size':'1Gi','either':'a'}", NULL);
    expect("{'replicas':3.0,'ratio':2.5,'port':'http','size':1,'either':7}", NULL);
    expect("{'replicas':9223372036854775807}", NULL);
    expect("{'replicas':null,'text':null,'list':[null,{'name':null}]}", NULL);
    expect("{'list':{},'map':{},'bytes':{'k':'eA=='}}", NULL);
    expect("{'raw':'text','any':[1]}", NULL);
    expect("{'raw':7}", NULL);
    expect("{'apiVersion':'v1','kind':'Pod','metadata':{'name':'x'}}",
           NULL); // x-kubernetes-embedded-resource
}

static int open_schema(void **state)
{
    (void)state;
    schema = compile(document, "x/v1");
    return 0;
}

static int close_schema(void **state)
{
    (void)state;
    schema_unref(schema);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(wrong_types),
        cmocka_unit_test(long_and_secret_values),
        cmocka_unit_test(unknown_members),
        cmocka_unit_test(what_a_server_takes),
    };
    return cmocka_run_group_tests(tests, open_schema, close_schema);
}
