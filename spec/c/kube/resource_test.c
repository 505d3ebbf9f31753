#include "kube/resource.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static void expect_path(const char *gvk, bool namespaced, const char *ns, const char *name, const char *sub,
                        const char *query, const char *want)
{
    struct resource r = {.gvk = gvk_parse(gvk, NULL), .plural = "things", .namespaced = namespaced};
    struct buf b;
    buf_init(&b, 10000);
    resource_path(&r, ns, name, sub, query, &b);
    assert_false(b.failed);
    assert_string_equal(b.data, want);
    buf_fini(&b);
}

static void test_paths(void **state)
{
    (void)state;
    expect_path("v1/Pod", true, "d", "a.b.c", NULL, NULL, "/api/v1/namespaces/d/things/a.b.c");
    expect_path("v1/Pod", true, NULL, NULL, NULL, NULL, "/api/v1/things");
    expect_path("v1/Pod", true, "", "", "", "", "/api/v1/things");
    expect_path("apps/v1/Deployment", true, "d", "x", "status", "fieldManager=m",
                "/apis/apps/v1/namespaces/d/things/x/status?fieldManager=m");
    expect_path("v1/Node", false, "ignored", "n", NULL, NULL, "/api/v1/things/n");
}

static void test_segments_are_encoded(void **state)
{
    (void)state;
    expect_path("r.io/v1/Role", true, "d", "system:x:y", NULL, NULL,
                "/apis/r.io/v1/namespaces/d/things/system:x:y");
    expect_path("r.io/v1/Role", true, "d", "a b%2F..", NULL, NULL,
                "/apis/r.io/v1/namespaces/d/things/a%20b%252F..");
    expect_path("r.io/v1/Role", true, "d", "a/../b?c#d", NULL, NULL,
                "/apis/r.io/v1/namespaces/d/things/a%2F..%2Fb%3Fc%23d");
    expect_path("r.io/v1/Role", true, "d", "\xc3\xa9", NULL, NULL,
                "/apis/r.io/v1/namespaces/d/things/%C3%A9");
}

static void test_query(void **state)
{
    (void)state;
    struct buf q;
    buf_init(&q, 1000);
    resource_query_add(&q, "watch", "1");
    resource_query_add(&q, "labelSelector", "a in (b,c),!d&x=y");
    assert_string_equal(q.data, "watch=1&labelSelector=a%20in%20%28b%2Cc%29%2C%21d%26x%3Dy");
    buf_fini(&q);
}

static void test_names(void **state)
{
    (void)state;
    assert_true(resource_name_ok("a.b.c"));
    assert_true(resource_name_ok("system:x:y"));
    assert_true(resource_name_ok("a b"));
    assert_true(resource_name_ok("..."));
    static const char *const bad[] = {"", ".", "..", "a/b", "/", "a%2F"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        assert_false(resource_name_ok(bad[i]));
    assert_false(resource_name_ok(NULL));
}

static void test_intern(void **state)
{
    (void)state;
    char text[] = "widgets";
    const char *a = resource_intern(text);
    text[0] = 'x';
    assert_string_equal(a, "widgets");
    assert_ptr_equal(a, resource_intern("widgets"));
    assert_ptr_not_equal(a, resource_intern("widget"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),  cmocka_unit_test(test_segments_are_encoded),
        cmocka_unit_test(test_query),  cmocka_unit_test(test_names),
        cmocka_unit_test(test_intern),
    };
    return cmocka_run_group_tests_name("resource", tests, NULL, NULL);
}
