#include "kube/schema.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "base/random.h"
#include "base/strset.h"
#include "openapi.h"

static const struct schema_node *at(const struct schema_node *n, const char *name)
{
    const struct schema_node *m = schema_member(n, name, strlen(name), NULL);
    assert_non_null(m);
    return m;
}

static const json *fallback(const struct schema_node *n, const char *name)
{
    const json *f;
    schema_member(n, name, strlen(name), &f);
    return f;
}

static void test_kinds(void **state)
{
    (void)state;
    struct schema *s = compile(openapi_core, "v1");
    assert_non_null(schema_kind(s, "Pod"));
    assert_non_null(schema_kind(s, "ConfigMap"));
    assert_null(schema_kind(s, "Po"));
    assert_null(schema_kind(s, "Pods"));
    assert_null(schema_kind(s, "PodList"));       // no object is one
    assert_null(schema_kind(s, "DeleteOptions")); // of all groups
    schema_unref(s);
    s = compile(openapi_core, "apps/v1");
    assert_null(schema_kind(s, "Pod"));
    schema_unref(s);
    s = compile(openapi_custom, "x.test/v1");
    assert_non_null(schema_kind(s, "Widget"));
    schema_unref(s);
    s = compile(openapi_custom, "x.test/v2");
    assert_null(schema_kind(s, "Widget"));
    schema_unref(s);
    schema_unref(NULL);
}

static void test_types(void **state)
{
    (void)state;
    struct schema *s = compile(openapi_core, "v1");
    const struct schema_node *pod = schema_kind(s, "Pod"), *spec = at(pod, "spec");
    assert_int_equal(spec->type, SCHEMA_OBJECT);
    assert_true(spec->builtin);
    assert_ptr_equal(at(spec, "more"), spec); // a structure that holds itself stands there once
    assert_int_equal(at(spec, "limit")->meaning, SCHEMA_QUANTITY);
    assert_int_equal(at(at(spec, "requests"), "cpu")->meaning, SCHEMA_RESOURCE);
    assert_int_equal(at(spec, "wait")->meaning, SCHEMA_DURATION);
    assert_int_equal(at(spec, "since")->meaning, SCHEMA_TIME);
    assert_int_equal(at(spec, "renew")->meaning, SCHEMA_MICRO_TIME);
    assert_int_equal(at(spec, "text")->meaning, SCHEMA_PLAIN);
    assert_null(schema_member(spec, "unknown", 7, NULL));
    assert_null(schema_member(NULL, "x", 1, NULL));
    assert_null(schema_member(at(spec, "args"), "x", 1, NULL));
    assert_int_equal(schema_element(at(spec, "args"))->type, SCHEMA_STRING);
    assert_null(schema_element(spec));
    const struct schema_node *port = schema_element(at(spec, "ports"));
    assert_string_equal(json_str(fallback(port, "protocol")), "TCP");
    assert_null(fallback(port, "name"));
    assert_string_equal(json_str(fallback(at(spec, "ref"), "apiVersion")), "v1"); // not in the document
    const struct schema_node *secret = schema_kind(s, "Secret");
    assert_int_equal(at(at(secret, "data"), "x")->meaning, SCHEMA_BYTES);
    assert_int_equal(at(at(secret, "stringData"), "x")->meaning, SCHEMA_SECRET_TEXT);
    schema_unref(s);
}

static void test_custom(void **state)
{
    (void)state;
    struct schema *s = compile(openapi_custom, "x.test/v1");
    const struct schema_node *spec = at(schema_kind(s, "Widget"), "spec");
    assert_false(spec->builtin);
    assert_true(at(spec, "obj")->nullable);
    assert_false(at(spec, "num")->nullable);
    assert_int_equal(at(spec, "qty")->meaning, SCHEMA_QUANTITY); // by its pattern
    assert_int_equal(at(spec, "ios")->meaning, SCHEMA_PLAIN);
    assert_null(schema_member(at(spec, "any"), "x", 1, NULL));
    int64_t n;
    assert_int_equal(json_int(fallback(spec, "num"), &n), 0);
    assert_int_equal(n, 5);
    assert_in_range(schema_bytes(s), 1, 16384);
    schema_unref(s);
}

static void expect_refused(const char *text, int want)
{
    struct schema *s = NULL;
    struct err e;
    assert_int_equal(schema_compile(text, strlen(text), "v1", &s, &e), -want);
    assert_null(s);
}

static void test_refused(void **state)
{
    (void)state;
    expect_refused("", ERR_PARSE);
    expect_refused("{", ERR_PARSE);
    expect_refused("null", ERR_INVALID);
    expect_refused("{\"components\":{\"schemas\":[]}}", ERR_INVALID);
    expect_refused("{\"swagger\":\"2.0\"}", ERR_INVALID);
}

// What a server may get wrong does no harm, and says nothing.
static void test_odd(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{'components':{'schemas':{'a':null,'b':7,'c':{'properties':[]},'d':{" GVK("", "v1", "D") "}}}}",
        "{'components':{'schemas':{'d':{'type':'object','properties':{'x':{'$ref':'#/components/schemas/"
        "none'},"
        "'y':{'$ref':'elsewhere'},'z':7,'w':{'allOf':7},'v':{'allOf':[]},'u':{'type':7,'items':[]}}," GVK(
            "", "v1", "D") "}}}}",
        "{'components':{'schemas':{'d':{'$ref':'#/components/schemas/d'," GVK("", "v1", "D") "}}}}",
        "{'components':{'schemas':{'d':{'type':'array','items':" REF("d") "," GVK("", "v1", "D") "}}}}",
        "{'components':{'schemas':{'d':{'x-kubernetes-group-version-kind':[{'group':7,'version':'v1','kind':'"
        "D'}]}}}}",
    };
    for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++)
        schema_unref(compile(texts[i], "v1"));
}

static void test_cut_and_changed(void **state)
{
    (void)state;
    struct random r;
    random_init(&r, 7);
    char *text = unquote(openapi_core);
    size_t n = strlen(text);
    for (int i = 0; i < 3000; i++) {
        char *copy = strdup(text);
        for (int k = 0; k < 3; k++)
            copy[random_below(&r, n)] = "\"{}[]:,a0"[random_below(&r, 9)];
        struct schema *s = NULL;
        if (schema_compile(copy, n, "v1", &s, NULL) == 0)
            schema_unref(s);
        free(copy);
    }
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_kinds),   cmocka_unit_test(test_types), cmocka_unit_test(test_custom),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_odd),   cmocka_unit_test(test_cut_and_changed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
