#include "kube/empties.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "openapi.h"

static void expect_empties(const char *text, bool want)
{
    struct json_doc *d = parse(text);
    assert_int_equal(empties_any(json_root(d)), want);
    json_doc_free(d);
}

static void test_any(void **state)
{
    (void)state;
    expect_empties("{'a':{}}", true);
    expect_empties("[1,{'b':[{}]}]", true);
    expect_empties("{}", true);
    expect_empties("{'a':[],'b':[1,''],'c':null}", false); // a list is one by its mark
    expect_empties("{'metadata':{'labels':{},'annotations':{}},'spec':{'x':1}}", false);
    expect_empties("7", false);
}

static int write(const struct schema_node *type, const char *text, struct buf *out, struct err *e)
{
    struct json_doc *d = parse(text);
    struct json_writer w;
    static const struct step root;
    buf_init(out, 10000);
    jw_init(&w, out);
    int r = empties_write(&w, type, json_root(d), &root, e);
    json_doc_free(d);
    return r;
}

static void expect_write(const struct schema_node *type, const char *text, const char *want)
{
    struct buf out;
    char *wanted = unquote(want);
    assert_int_equal(write(type, text, &out, NULL), 0);
    assert_string_equal(out.data, wanted);
    buf_fini(&out);
    free(wanted);
}

static void test_write(void **state)
{
    (void)state;
    struct schema *core = compile(openapi_core, "v1"), *custom = compile(openapi_custom, "x.test/v1");
    const struct schema_node *pod = schema_kind(core, "Pod"), *widget = schema_kind(custom, "Widget");
    expect_write(
        pod,
        "{'metadata':{'labels':{},'finalizers':{}},'spec':{'args':{},'nodeSelector':{},'emptyDir':{},"
        "'text':'x','ports':[{'port':1}],'more':{'tolerations':{}},'unknown':{}}}",
        "{'metadata':{'labels':{},'finalizers':[]},'spec':{'args':[],'nodeSelector':{},'emptyDir':{},"
        "'text':'x','ports':[{'port':1}],'more':{'tolerations':[]},'unknown':{}}}");
    expect_write(widget, "{'status':{'items':{},'byName':{}},'spec':{'any':{'l':[],'m':{}},'lm':{}}}",
                 "{'status':{'items':[],'byName':{}},'spec':{'any':{'l':[],'m':{}},'lm':[]}}");
    expect_write(NULL, "{'a':{},'b':[]}", "{'a':{},'b':[]}");
    expect_write(pod, "{'spec':7}", "{'spec':7}");
    schema_unref(core);
    schema_unref(custom);
}

static void expect_refused(const struct schema_node *type, const char *text, const char *where)
{
    struct buf out;
    struct err e;
    assert_int_equal(write(type, text, &out, &e), -ERR_INVALID);
    assert_non_null(strstr(e.text, where));
    buf_fini(&out);
}

static void test_refused(void **state)
{
    (void)state;
    struct schema *core = compile(openapi_core, "v1");
    const struct schema_node *pod = schema_kind(core, "Pod");
    expect_refused(pod, "{'spec':{'nodeSelector':[]}}", "spec.nodeSelector: an empty list");
    expect_refused(pod, "{'spec':{'emptyDir':[]}}", "spec.emptyDir: an empty list");
    expect_refused(pod, "{'spec':{'tolerations':[{'key':'a'},[]]}}", "spec.tolerations[2]");
    schema_unref(core);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_any),
        cmocka_unit_test(test_write),
        cmocka_unit_test(test_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
