#include "kube/gvk.h"

#include <pthread.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

static void test_parts(void **state)
{
    (void)state;
    const struct gvk *d = gvk_parse("apps/v1/Deployment", NULL);
    assert_non_null(d);
    assert_string_equal(d->group, "apps");
    assert_string_equal(d->version, "v1");
    assert_string_equal(d->kind, "Deployment");
    assert_string_equal(d->api_version, "apps/v1");
    assert_string_equal(d->text, "apps/v1/Deployment");
    const struct gvk *p = gvk_parse("v1/Pod", NULL);
    assert_non_null(p);
    assert_string_equal(p->group, "");
    assert_string_equal(p->api_version, "v1");
    assert_string_equal(p->text, "v1/Pod");
}

static void test_equal_kinds_are_one_pointer(void **state)
{
    (void)state;
    char text[] = "cache.example.com/v1alpha1/Memcached";
    const struct gvk *a = gvk_parse(text, NULL);
    assert_ptr_equal(a, gvk_of("cache.example.com/v1alpha1", "Memcached", NULL));
    memset(text, 'x', sizeof(text) - 1);
    assert_string_equal(a->text, "cache.example.com/v1alpha1/Memcached");
    const struct gvk *b = gvk_parse("cache.example.com/v1/Memcached", NULL);
    assert_ptr_not_equal(a, b);
    assert_true(gvk_same_group_kind(a, b));
    assert_false(gvk_same_group_kind(a, gvk_parse("other.example.com/v1/Memcached", NULL)));
}

static void test_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "",
        "Pod",
        "/v1",
        "/v1/Pod",
        "v1/",
        "v1/pod",
        "v1/pods",
        "apps",
        "apps/Deployment",
        "apps/v1/",
        "apps//Deployment",
        "x.test/v1/extra/Widget",
        "a/v1/Wid get",
        "Apps/v1/Deployment",
        "apps/V1/Deployment",
        "-a/v1/W",
        "a./v1/W",
        "a..b/v1/W",
        "a/v1/W%2F",
        "v1/W\xc3\xa9",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct err e = {0};
        assert_null(gvk_parse(bad[i], &e));
        assert_int_equal(e.code, -ERR_INVALID);
        assert_true(strlen(e.text) > 0);
    }
    struct err e = {0};
    assert_null(gvk_parse("apps/Deployment", &e));
    assert_non_null(strstr(e.text, "apps"));
    assert_null(gvk_of("x.test/v1/extra", "Widget", &e));
    assert_null(gvk_of("apps", "Deployment", &e));
    assert_null(gvk_of("/v1", "Pod", &e));
    assert_null(gvk_of(NULL, "Pod", &e));
    assert_null(gvk_of("v1", NULL, &e));
    assert_null(gvk_of("v1", "a/Pod", &e));
    assert_null(gvk_parse(NULL, &e));
    char longtext[5000];
    memset(longtext, 'a', sizeof(longtext));
    longtext[sizeof(longtext) - 1] = '\0';
    assert_null(gvk_of(longtext, "Pod", &e));
    assert_null(gvk_parse(longtext, &e));
}

static void *intern_many(void *arg)
{
    const struct gvk **ret = arg;
    for (int i = 0; i < 200; i++) {
        char text[64];
        snprintf(text, sizeof(text), "t%d.example.com/v1/Thing", i);
        ret[i] = gvk_parse(text, NULL);
    }
    return NULL;
}

static void test_threads_agree(void **state)
{
    (void)state;
    static const struct gvk *seen[4][200];
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&t[i], NULL, intern_many, seen[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    for (int i = 1; i < 4; i++)
        assert_memory_equal(seen[0], seen[i], sizeof(seen[0]));
    assert_non_null(seen[0][199]);
}

static void test_cap(void **state)
{
    (void)state;
    struct err e = {0};
    const struct gvk *last = gvk_parse("v1/Pod", NULL);
    int made = 0;
    // What scripts make up leaves room for what servers name.
    for (int i = 0; i < 12000; i++) {
        char text[64];
        snprintf(text, sizeof(text), "a%d.example.com/v1/Thing", i);
        made += gvk_parse_asked(text, &e) != NULL;
    }
    assert_true(made > 9000 && made <= 10000);
    assert_null(gvk_parse_asked("one.example.com/v1/More", &e));
    assert_int_equal(e.code, -ERR_LIMIT);
    assert_null(gvk_of_asked("one.example.com/v1", "More", &e));
    assert_non_null(gvk_parse_asked("v1/Pod", NULL));
    assert_non_null(gvk_parse("one.example.com/v1/More", NULL));
    assert_non_null(gvk_parse_asked("one.example.com/v1/More", NULL)); // now it is known
    made = 0;
    last = gvk_parse("v1/Pod", NULL);
    for (int i = 0; i < 25000 && last != NULL; i++) {
        char text[64];
        snprintf(text, sizeof(text), "c%d.example.com/v1/Thing", i);
        last = gvk_parse(text, &e);
        made++;
    }
    assert_null(last);
    assert_true(made > 9000 && made <= 11000);
    assert_int_equal(e.code, -ERR_LIMIT);
    assert_non_null(gvk_parse("v1/Pod", NULL)); // what is known stays known
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_parts),   cmocka_unit_test(test_equal_kinds_are_one_pointer),
        cmocka_unit_test(test_refused), cmocka_unit_test(test_threads_agree),
        cmocka_unit_test(test_cap),
    };
    return cmocka_run_group_tests_name("gvk", tests, NULL, NULL);
}
