// Children that are no longer returned: many that go at once are told in an Event, as it may be a mistake;
// and one that only moves to another group.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/things.h"

static void many_at_once_are_told(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s,
                 "local all = {}\n"
                 "for i = 1, o.spec.count do all[i] = cm('c' .. i, '1') end\n"
                 "return { apply = all }",
                 "");
    things_put(&s, "t", "{\"count\":40}");
    things_settle(&s);
    things_put(&s, "t", "{\"count\":25}");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "c26"), "absent");
    assert_int_equal(things_events(&s, "default", "Pruned", NULL), 0); // 15 are not many
    things_put(&s, "t", "{\"count\":5}");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "c6"), "absent");
    assert_int_equal(things_events(&s, "default", "Pruned", "20 children"), 1);
    assert_int_equal(things_events(&s, "default", "Pruned", NULL), 1);
    sim_fini(&s);
}

// The old one goes, though it has the name and Kind of the new one, as soon as that is there.
static void a_child_that_moves_to_another_group(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(
        &s,
        "return { apply = { { apiVersion = o.spec.api, kind = 'ConfigMap', metadata = { name = 'c' } } } }",
        "");
    sim_apply(&s, "kubectl", THINGS_CRD("configmaps", "configmap", "ConfigMap", "Namespaced"));
    things_put(&s, "t", "{\"api\":\"v1\"}");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "c"), "");
    things_put(&s, "t", "{\"api\":\"x.test/v1\"}");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "c"), "absent");
    struct json_doc *moved = sim_get(&s, "x.test/v1", "configmaps", "c");
    assert_non_null(moved);
    json_doc_free(moved);
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_at_once_are_told),
        cmocka_unit_test(a_child_that_moves_to_another_group),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
