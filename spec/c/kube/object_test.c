// Records of objects: what is read, what is left out, nulls and wrong types, hashes, interned owned sets.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kube/object.h"

static const struct gvk *widget(void)
{
    return gvk_parse("x.test/v1/Widget", NULL);
}

static int try_make(const char *text, struct object **ret, struct err *e)
{
    struct json_doc *d;
    assert_int_equal(json_parse(text, strlen(text), &d, e), 0);
    int r = object_new(widget(), json_root(d), ret, e);
    json_doc_free(d);
    return r;
}

static struct object *make(const char *text)
{
    struct object *o = NULL;
    struct err e;
    assert_int_equal(try_make(text, &o, &e), 0);
    return o;
}

static void test_fields(void **state)
{
    (void)state;
    struct object *o =
        make("{\"metadata\":{\"name\":\"w\",\"namespace\":\"d\",\"uid\":\"u1\",\"resourceVersion\":\"42\","
             "\"generation\":7,"
             "\"deletionTimestamp\":\"2026-01-01T00:00:00Z\",\"labels\":{\"b\":\"2\",\"a\":\"1\",\"c\":\"\"},"
             "\"ownerReferences\":[{\"uid\":\"p1\",\"controller\":true},{\"name\":\"x\"},{\"uid\":\"p2\"}]},"
             "\"spec\":{\"n\":1}}");
    const struct object_label *labels;
    const struct object_owner *owners;
    assert_ptr_equal(object_gvk(o), widget());
    assert_string_equal(object_name(o), "w");
    assert_string_equal(object_namespace(o), "d");
    assert_string_equal(object_uid(o), "u1");
    assert_string_equal(object_resource_version(o), "42");
    assert_int_equal(object_generation(o), 7);
    assert_true(object_is_deleting(o));
    assert_int_equal(object_labels(o, &labels), 3);
    assert_string_equal(labels[0].key, "a");
    assert_string_equal(labels[2].key, "c");
    assert_string_equal(object_label(o, "b"), "2");
    assert_string_equal(object_label(o, "c"), "");
    assert_null(object_label(o, "d"));
    assert_int_equal(object_owners(o, &owners), 2);
    assert_string_equal(owners[0].uid, "p1");
    assert_true(owners[0].controller);
    assert_string_equal(owners[1].uid, "p2");
    assert_false(owners[1].controller);
    assert_true(object_bytes(o) > strlen(object_json(o, NULL)));
    object_unref(o);
    object_unref(NULL);
}

static void test_text(void **state)
{
    (void)state;
    size_t n;
    struct object *o = make("{\"spec\":{\"a\":[]},\"kind\":\"Other\",\"metadata\":{\"name\":\"w\","
                            "\"managedFields\":[{\"manager\":\"kubectl\","
                            "\"operation\":\"Update\",\"fieldsV1\":{\"f:spec\":{}}}]},\"status\":null}");
    assert_string_equal(
        object_json(o, &n),
        "{\"apiVersion\":\"x.test/"
        "v1\",\"kind\":\"Widget\",\"spec\":{\"a\":[]},\"metadata\":{\"name\":\"w\"},\"status\":null}");
    assert_int_equal(n, strlen(object_json(o, NULL)));
    struct json_doc *d = object_parse(o);
    assert_string_equal(json_str(json_path(json_root(d), "metadata", "name", NULL)), "w");
    json_doc_free(d);
    assert_string_equal(object_managed(o, &n), "[]");
    assert_int_equal(n, 2);
    assert_int_equal(object_managers(o, NULL), 0);
    object_unref(o);
}

static void test_nulls_are_absent(void **state)
{
    (void)state;
    struct object *o =
        make("{\"metadata\":{\"name\":\"w\",\"namespace\":\"d\",\"uid\":\"u\",\"resourceVersion\":\"4\","
             "\"annotations\":null,"
             "\"labels\":null,\"ownerReferences\":null,\"finalizers\":null,\"deletionTimestamp\":null,"
             "\"creationTimestamp\":null,\"managedFields\":null,\"generation\":null}}");
    assert_false(object_is_deleting(o));
    assert_int_equal(object_labels(o, NULL), 0);
    assert_int_equal(object_owners(o, NULL), 0);
    assert_int_equal(object_generation(o), 0);
    object_unref(o);
    o = make("{\"metadata\":{\"name\":\"w\",\"namespace\":null,\"uid\":null,\"resourceVersion\":null,"
             "\"labels\":{\"a\":null}}}");
    assert_string_equal(object_namespace(o), "");
    assert_string_equal(object_uid(o), "");
    assert_string_equal(object_resource_version(o), "");
    assert_string_equal(object_label(o, "a"), "");
    object_unref(o);
}

static void test_wrong_types_are_named(void **state)
{
    (void)state;
    static const char *const bad[][2] = {
        {"null", "not an object"},
        {"[]", "not an object"},
        {"{}", "metadata"},
        {"{\"metadata\":null}", "metadata"},
        {"{\"metadata\":[]}", "metadata"},
        {"{\"metadata\":{}}", "metadata.name"},
        {"{\"metadata\":{\"name\":\"\"}}", "metadata.name"},
        {"{\"metadata\":{\"name\":7}}", "metadata.name"},
        {"{\"metadata\":{\"name\":\"a\\u0000b\"}}", "metadata.name"},
        {"{\"metadata\":{\"name\":\"w\",\"resourceVersion\":12}}", "metadata.resourceVersion"},
        {"{\"metadata\":{\"name\":\"w\",\"namespace\":{}}}", "metadata.namespace"},
        {"{\"metadata\":{\"name\":\"w\",\"uid\":[]}}", "metadata.uid"},
        {"{\"metadata\":{\"name\":\"w\",\"labels\":[]}}", "metadata.labels"},
        {"{\"metadata\":{\"name\":\"w\",\"labels\":{\"a\":1}}}", "metadata.labels"},
        {"{\"metadata\":{\"name\":\"w\",\"ownerReferences\":{}}}", "metadata.ownerReferences"},
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct object *o = NULL;
        struct err e;
        assert_int_equal(try_make(bad[i][0], &o, &e), -ERR_INVALID);
        assert_non_null(strstr(e.text, bad[i][1]));
        assert_null(o);
    }
    // A name no server would allow is refused, not cut.
    char text[1200] = "{\"metadata\":{\"name\":\"";
    size_t at = strlen(text);
    memset(text + at, 'a', 1100);
    strcpy(text + at + 1100, "\"}}");
    struct object *o = NULL;
    assert_int_equal(try_make(text, &o, NULL), -ERR_INVALID);
}

static void test_managed_of_ours_is_kept_and_shared(void **state)
{
    (void)state;
#define ENTRIES                                                                                              \
    "[{\"manager\":\"kubectl\",\"operation\":\"Apply\",\"fieldsV1\":{\"f:x\":{}}},"                          \
    "{\"manager\":\"tidelock-a\",\"operation\":\"Apply\",\"apiVersion\":\"v1\",\"time\":\"%s\","             \
    "\"fieldsV1\":{\"f:spec\":{\"f:n\":{}}}},"                                                               \
    "{\"manager\":\"tidelock-b\",\"operation\":\"Apply\",\"subresource\":\"status\",\"fieldsV1\":{\"f:"      \
    "status\":{}}},"                                                                                         \
    "{\"manager\":\"tidelock\",\"operation\":\"Update\",\"fieldsV1\":{}},"                                   \
    "{\"manager\":null},{\"manager\":7},null]"
    char text[2048];
    const char *const *names;
    size_t before = object_interned_bytes();
    snprintf(text, sizeof(text), "{\"metadata\":{\"name\":\"a\",\"managedFields\":" ENTRIES "}}",
             "2026-01-01T00:00:00Z");
    struct object *a = make(text);
    snprintf(text, sizeof(text), "{\"metadata\":{\"name\":\"b\",\"managedFields\":" ENTRIES "}}",
             "2026-02-02T00:00:00Z");
    size_t one = object_interned_bytes();
    struct object *b = make(text);
    assert_string_equal(
        object_managed(a, NULL),
        "[{\"manager\":\"tidelock-a\",\"operation\":\"Apply\",\"fieldsV1\":{\"f:spec\":{\"f:n\":{}}}},"
        "{\"manager\":\"tidelock-b\",\"operation\":\"Apply\",\"subresource\":\"status\",\"fieldsV1\":{\"f:"
        "status\":{}}},"
        "{\"manager\":\"tidelock\",\"operation\":\"Update\",\"fieldsV1\":{}}]");
    assert_ptr_equal(object_managed(a, NULL), object_managed(b, NULL));
    assert_true(one > before);
    assert_int_equal(object_interned_bytes(), one);
    assert_int_equal(object_managers(a, &names), 1);
    assert_string_equal(names[0], "tidelock-a");
    assert_null(strstr(object_json(a, NULL), "managedFields"));
    object_unref(a);
    object_unref(b);
    assert_int_equal(object_interned_bytes(), before);
}

static void test_hashes(void **state)
{
    (void)state;
    struct object *a = make("{\"metadata\":{\"name\":\"w\",\"resourceVersion\":\"1\",\"generation\":1},"
                            "\"spec\":{\"a\":1,\"b\":2},\"status\":{\"x\":1}}");
    struct object *same = make("{\"status\":{\"x\":1},\"spec\":{\"b\":2,\"a\":1.0},\"apiVersion\":\"x.test/"
                               "v1\",\"metadata\":{\"generation\":2,"
                               "\"resourceVersion\":\"9\",\"managedFields\":[{}],\"name\":\"w\"}}");
    struct object *status =
        make("{\"metadata\":{\"name\":\"w\"},\"spec\":{\"a\":1,\"b\":2},\"status\":{\"x\":2}}");
    struct object *swapped =
        make("{\"metadata\":{\"name\":\"w\"},\"spec\":{\"a\":2,\"b\":1},\"status\":{\"x\":1}}");
    struct object *label =
        make("{\"metadata\":{\"name\":\"w\",\"labels\":{}},\"spec\":{\"a\":1,\"b\":2},\"status\":{\"x\":1}}");
    assert_true(object_content_hash(a) == object_content_hash(same));
    assert_true(object_spec_hash(a) == object_spec_hash(same));
    assert_true(object_content_hash(a) != object_content_hash(status));
    assert_true(object_spec_hash(a) == object_spec_hash(status));
    assert_true(object_spec_hash(a) != object_spec_hash(swapped));
    assert_true(object_spec_hash(a) != object_spec_hash(label));
    object_unref(a);
    object_unref(same);
    object_unref(status);
    object_unref(swapped);
    object_unref(label);
}

static void test_resource_versions(void **state)
{
    (void)state;
    int c;
    assert_true(object_rv_compare("99", "100", &c));
    assert_int_equal(c, -1);
    assert_true(object_rv_compare("18014398509481985", "18014398509481984", &c));
    assert_int_equal(c, 1);
    assert_true(object_rv_compare("1234567890123456789012345678901234567890",
                                  "1234567890123456789012345678901234567891", &c));
    assert_int_equal(c, -1);
    assert_true(object_rv_compare("007", "7", &c));
    assert_int_equal(c, 0);
    assert_false(object_rv_compare("abc-7f", "abc-80", &c));
    assert_false(object_rv_compare("", "1", &c));
    assert_false(object_rv_compare("-1", "1", &c));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_fields),
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_nulls_are_absent),
        cmocka_unit_test(test_wrong_types_are_named),
        cmocka_unit_test(test_managed_of_ours_is_kept_and_shared),
        cmocka_unit_test(test_hashes),
        cmocka_unit_test(test_resource_versions),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
