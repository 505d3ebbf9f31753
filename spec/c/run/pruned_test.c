// Many children that go at once are told in an Event: it may be a mistake.

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(many_at_once_are_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
