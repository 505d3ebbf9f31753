// Label and field selectors: grammar, canonical text, matching as Kubernetes does.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "kube/selector.h"

static struct selector *parse(const char *text)
{
    struct selector *s = NULL;
    struct err e = {0};
    if (selector_parse(text, &s, &e) != 0)
        fail_msg("%s: %s", text, e.text);
    return s;
}

static void test_canonical_text(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"", ""},
        {"   ", ""},
        {"a=b", "a=b"},
        {" b == c ,\ta!=x", "a!=x,b=c"},
        {"a=", "a="},
        {"a=,b", "a=,b"},
        {"!f,e", "e,!f"},
        {"c in (e, d,d)", "c in (d,e)"},
        {"c in (d)", "c=d"},
        {"c notin (d)", "c!=d"},
        {"c notin (e,d)", "c notin (d,e)"},
        {"c in (x,)", "c in (,x)"},
        {"in in (in,notin)", "in in (in,notin)"},
        {"notin", "notin"},
        {"example.com/name-x_y.z in(a)", "example.com/name-x_y.z=a"},
        {"a=b,a=b,a==b", "a=b"},
        {"! a", "!a"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct selector *s = parse(cases[i][0]);
        assert_string_equal(selector_text(s), cases[i][1]);
        struct selector *again = parse(selector_text(s));
        assert_string_equal(selector_text(again), cases[i][1]);
        selector_free(again);
        selector_free(s);
    }
}

static void test_bad_text(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "a,",    ",a",       "a,,b",  "=b",         "a=b=c", "a in", "a in ()",    "a in (b", "a in b",
        "a (b)", "!a=b",     "a b",   "a>1",        "a<1",   "-a",   "a-",         "a=-b",    "a=b c",
        "/a",    "Ex.com/a", "x/y/z", "a in (b c)", "a!",    "()",   "a=\xc3\xa4", "!",       "a=(b)"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct selector *s = NULL;
        struct err e = {0};
        if (selector_parse(bad[i], &s, &e) != -ERR_INVALID)
            fail_msg("\"%s\" was accepted", bad[i]);
        assert_non_null(strstr(e.text, "label selector"));
        assert_null(s);
    }
    char text[80] = "a=";
    memset(text + 2, 'b', 64);
    struct selector *s = NULL;
    assert_int_equal(selector_parse(text, &s, NULL), -ERR_INVALID);
}

static void test_matching(void **state)
{
    (void)state;
    static const struct object_label labels[] = {{"app", "web"}, {"empty", ""}, {"tier", "front"}};
    static const struct {
        const char *text;
        bool matches;
    } cases[] = {
        {"", true},
        {"app=web", true},
        {"app=db", false},
        {"app!=db", true},
        {"app!=web", false},
        {"none!=x", true},
        {"none notin (x,y)", true},
        {"app notin (web,x)", false},
        {"app", true},
        {"!app", false},
        {"!none", true},
        {"none", false},
        {"empty=", true},
        {"none=", false},
        {"empty!=", false},
        {"app in (db,web)", true},
        {"none in (x)", false},
        {"app=web,tier=back", false},
        {"app=web,tier,!none", true},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct selector *s = parse(cases[i].text);
        if (selector_matches_labels(s, labels, 3) != cases[i].matches)
            fail_msg("%s", cases[i].text);
        selector_free(s);
    }
    assert_true(selector_matches_labels(NULL, NULL, 0));
}

static void test_equality(void **state)
{
    (void)state;
    const char *key, *value;
    struct selector *s = parse("z=1,a in (b,c),!x");
    assert_true(selector_equality(s, &key, &value));
    assert_string_equal(key, "z");
    assert_string_equal(value, "1");
    selector_free(s);
    s = parse("a in (b,c),d!=e,f");
    assert_false(selector_equality(s, &key, &value));
    selector_free(s);
    assert_false(selector_equality(NULL, &key, &value));
}

static void test_fields(void **state)
{
    (void)state;
    static const char text[] = "{\"metadata\":{\"name\":\"a,b=c\"},\"spec\":{\"nodeName\":\"n1\","
                               "\"unschedulable\":true},\"status\":{\"count\":3}}";
    static const struct {
        const char *text, *canonical;
        bool matches;
    } cases[] = {
        {"", "", true},
        {"spec.nodeName=n1", "spec.nodeName=n1", true},
        {"spec.nodeName==n2", "spec.nodeName=n2", false},
        {"spec.nodeName!=n2,status.phase!=Failed", "spec.nodeName!=n2,status.phase!=Failed", true},
        {"status.phase=", "status.phase=", true},
        {"status.phase!=", "status.phase!=", false},
        {"spec.unschedulable=true", "spec.unschedulable=true", true},
        {"spec.hostNetwork=false", "spec.hostNetwork=false", true},
        {"status.count=3,", "status.count=3", true},
        {"metadata.name=a\\,b\\=c", "metadata.name=a\\,b\\=c", true},
    };
    struct json_doc *d;
    assert_int_equal(json_parse(text, strlen(text), &d, NULL), 0);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct field_selector *s = NULL;
        assert_int_equal(field_selector_parse(cases[i].text, &s, NULL), 0);
        assert_string_equal(field_selector_text(s), cases[i].canonical);
        if (field_selector_matches(s, json_root(d)) != cases[i].matches)
            fail_msg("%s", cases[i].text);
        field_selector_free(s);
    }
    static const char *const bad[] = {"a", "=b", "a=b=c", "a=\\x", "!=b", "a in (b)"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct field_selector *s = NULL;
        struct err e = {0};
        if (field_selector_parse(bad[i], &s, &e) != -ERR_INVALID)
            fail_msg("\"%s\" was accepted", bad[i]);
    }
    json_doc_free(d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_canonical_text), cmocka_unit_test(test_bad_text),
        cmocka_unit_test(test_matching),       cmocka_unit_test(test_equality),
        cmocka_unit_test(test_fields),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
