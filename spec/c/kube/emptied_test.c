// Which containers an apply would leave empty behind.

#include "kube/emptied.h"

#include <stdlib.h>
#include <string.h>

#include "unit.h"

#include "openapi.h"

// `ours` and `theirs` are field sets, `live` the object's spec. `want`: what follows the precondition.
static void expect(const char *ours, const char *theirs, const char *live, const char *desired,
                   const char *want)
{
    char text[2048];
    struct buf out;
    snprintf(text, sizeof text,
             "{'metadata':{'resourceVersion':'7','managedFields':[{'manager':'us','operation':'Apply',"
             "'fieldsV1':{'f:spec':%s}},{'manager':'alice','operation':'Update','fieldsV1':{'f:spec':%s}},"
             "{'manager':'us','operation':'Apply','subresource':'status','fieldsV1':{}}]},'spec':%s}",
             ours, theirs, live);
    struct json_doc *object = parse(text);
    snprintf(text, sizeof text, "{'spec':%s}", desired);
    struct json_doc *body = parse(text);
    buf_init(&out, 1 << 20);
    assert_int_equal(emptied_write_patch(json_root(object), "us", NULL, json_root(body), &out), want != NULL);
    if (want != NULL) {
        snprintf(text, sizeof text, "[{'op':'replace','path':'/metadata/resourceVersion','value':'7'}%s]",
                 want);
        struct json_doc *got = NULL, *wanted = parse(text);
        assert_int_equal(json_parse(out.data, out.len, &got, NULL), 0);
        if (!json_equal(json_root(got), json_root(wanted)))
            fail_msg("%s, not %s", out.data, text);
        json_doc_free(got);
        json_doc_free(wanted);
    }
    buf_fini(&out);
    json_doc_free(object);
    json_doc_free(body);
}

#define EMPTY_MAP(path) ",{'op':'replace','path':'" path "','value':{}}"
#define EMPTY_LIST(path) ",{'op':'replace','path':'" path "','value':[]}"

static void maps(void **unused)
{
    (void)unused;
    // it stays because it is wanted, or is somebody else's
    expect("{'f:m':{'f:a':{}}}", "{}", "{'m':{'a':'1'}}", "{'m':{}}", EMPTY_MAP("/spec/m"));
    expect("{'f:m':{'f:a':{}}}", "{'f:m':{}}", "{'m':{'a':'1'}}", "{'x':1}", EMPTY_MAP("/spec/m"));
    expect("{'f:m':{'f:a':{}}}", "{'f:m':{'.':{}}}", "{'m':{'a':'1'}}", "{'m':{}}", EMPTY_MAP("/spec/m"));
    // something stays in it
    expect("{'f:m':{'f:a':{}}}", "{'f:m':{'.':{},'f:b':{}}}", "{'m':{'a':'1','b':'1'}}", "{'m':{}}", NULL);
    expect("{'f:m':{'f:a':{}}}", "{'f:m':{'f:a':{}}}", "{'m':{'a':'1'}}", "{'m':{}}", NULL);
    expect("{'f:m':{'f:a':{}}}", "{}", "{'m':{'a':'1','nobodys':'1'}}", "{'m':{}}", NULL);
    expect("{'f:m':{'f:a':{}}}", "{'f:m':{}}", "{'m':{'a':'1'}}", "{'m':{'a':'2'}}", NULL);
    // it goes as a whole, or is owned as one
    expect("{'f:m':{'f:a':{}}}", "{'f:z':{}}", "{'m':{'a':'1'},'z':1}", "{'x':1}", NULL);
    expect("{'f:m':{}}", "{'f:m':{}}", "{'m':{'a':'1'}}", "{'x':1}", NULL);
    expect("{'f:m':{'f:a':{}}}", "{'f:m':{}}", "{'m':{}}", "{'m':{}}", NULL);
}

static void maps_in_maps(void **unused)
{
    (void)unused;
    expect("{'f:m':{'f:a':{'f:b':{}}}}", "{'f:m':{}}", "{'m':{'a':{'b':1}}}", "{'x':1}",
           EMPTY_MAP("/spec/m"));
    expect("{'f:m':{'f:a':{'f:b':{}}}}", "{'f:m':{'f:a':{}}}", "{'m':{'a':{'b':1}}}", "{'x':1}",
           EMPTY_MAP("/spec/m/a"));
    expect("{'f:m':{'f:a/b~c':{'f:d':{}}}}", "{}", "{'m':{'a/b~c':{'d':1}}}", "{'m':{'a/b~c':{}}}",
           EMPTY_MAP("/spec/m/a~1b~0c"));
    expect("{'f:m':{'f:a':{}},'f:n':{'f:a':{}}}", "{'f:m':{},'f:n':{}}", "{'m':{'a':1},'n':{'a':1}}",
           "{'x':1}", EMPTY_MAP("/spec/m") EMPTY_MAP("/spec/n"));
}

static void lists(void **unused)
{
    (void)unused;
    expect("{'f:s':{'v:\\'a\\'':{}}}", "{'f:s':{'.':{}}}", "{'s':['a']}", "{'s':[]}", EMPTY_LIST("/spec/s"));
    expect("{'f:s':{'v:\\'a\\'':{}}}", "{'f:s':{'.':{},'v:\\'a\\'':{}}}", "{'s':['a']}", "{'s':[]}", NULL);
    expect("{'f:s':{'v:\\'a\\'':{},'v:\\'b\\'':{}}}", "{'f:s':{}}", "{'s':['a','b']}", "{'s':['b']}", NULL);
    expect("{'f:l':{'k:{\\'n\\':\\'x\\'}':{'.':{},'f:n':{},'f:m':{'f:q':{}}}}}",
           "{'f:l':{'k:{\\'n\\':\\'x\\'}':{'.':{},'f:n':{},'f:m':{}},'k:{\\'n\\':\\'y\\'}':{'.':{}}}}",
           "{'l':[{'n':'y'},{'n':'x','m':{'q':1}}]}", "{'l':[{'n':'x'}]}", EMPTY_MAP("/spec/l/1/m"));
    expect("{'f:l':{'k:{\\'n\\':\\'x\\'}':{'.':{},'f:n':{},'f:m':{'f:q':{}}}}}", "{'f:l':{'.':{}}}",
           "{'l':[{'n':'x','m':{'q':1}}]}", "{'l':[]}", EMPTY_LIST("/spec/l"));
    // an item of ours goes with what the server added to it
    expect("{'f:l':{'k:{\\'n\\':\\'x\\'}':{'.':{},'f:n':{}}}}", "{'f:l':{'.':{}}}",
           "{'l':[{'n':'x','added':1}]}", "{'l':[]}", EMPTY_LIST("/spec/l"));
}

static void nothing_of_ours(void **unused)
{
    struct json_doc *object = parse("{'metadata':{},'spec':{'m':{}}}");
    struct buf out;
    (void)unused;
    buf_init(&out, 1 << 20);
    assert_false(emptied_write_patch(json_root(object), "us", NULL, json_root(object), &out));
    assert_false(emptied_write_patch(NULL, "us", NULL, NULL, &out));
    buf_fini(&out);
    json_doc_free(object);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(maps),
        cmocka_unit_test(maps_in_maps),
        cmocka_unit_test(lists),
        cmocka_unit_test(nothing_of_ours),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
