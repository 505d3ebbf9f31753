// OpenAPI v3 of custom kinds.
#include "apiserver/kit.h"

#include "base/strset.h"

static void test_documents(void **state)
{
    struct kit *k = *state;
    char path[200];
    kit_expect(k, 200, "GET", "/openapi/v3", NULL, NULL);
    const char *url =
        json_str(json_path(json_root(k->doc), "paths", "apis/x.test/v1", "serverRelativeURL", NULL));
    assert_non_null(url);
    assert_true(str_has_prefix(url, "/openapi/v3/apis/x.test/v1?hash="));
    assert_non_null(json_path(json_root(k->doc), "paths", "apis/x.test/v2", NULL));
    snprintf(path, sizeof path, "%s", url);
    kit_expect(k, 200, "GET", path, NULL, NULL);
    const json *widget = json_path(json_root(k->doc), "components", "schemas", "test.x.v1.Widget", NULL);
    assert_string_equal(json_get_str(json_at(json_get(widget, "x-kubernetes-group-version-kind"), 0), "kind"),
                        "Widget");
    assert_string_equal(
        json_str(json_path(widget, "properties", "status", "properties", "items", "type", NULL)), "array");
    assert_non_null(json_path(widget, "properties", "metadata", "$ref", NULL));

    // Another schema has another hash.
    kit_expect(
        k, 200, "PATCH", CRDS "/widgets.x.test", JSONPATCH,
        "[{\"op\":\"add\",\"path\":\"/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/"
        "new\",\"value\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}}}]");
    kit_expect(k, 200, "GET", "/openapi/v3", NULL, NULL);
    url = json_str(json_path(json_root(k->doc), "paths", "apis/x.test/v1", "serverRelativeURL", NULL));
    assert_string_not_equal(url, path);

    kit_expect(k, 404, "GET", "/openapi/v3/apis/none/v1", NULL, NULL);
    kit_expect(k, 404, "GET", "/openapi/v3/api/v1", NULL, NULL);
    kit_expect(k, 501, "GET", "/openapi/v2", NULL, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(test_documents),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
