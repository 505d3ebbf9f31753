#include "run/plan/learned.h"
#include "unit.h"

static void facts_of_an_object(void **unused)
{
    (void)unused;
    struct learned *l = learned_new();
    assert_false(learned_same(l, "u1", 1, 2));
    learned_put(l, "u1", 1, 2);
    learned_put(l, "u1/manager", 3, 4);
    learned_put(l, "u2", 1, 2);
    assert_true(learned_same(l, "u1", 1, 2));
    assert_true(learned_same(l, "u1/manager", 3, 4));
    assert_false(learned_same(l, "u1/manager", 1, 2));
    learned_put(l, "u1", 5, 6); // the newest counts
    assert_false(learned_same(l, "u1", 1, 2));
    assert_true(learned_same(l, "u1", 5, 6));
    learned_forget(l, "u1");
    assert_false(learned_same(l, "u1", 5, 6));
    assert_false(learned_same(l, "u1/manager", 3, 4));
    assert_true(learned_same(l, "u2", 1, 2));
    learned_forget(l, "u1");
    learned_free(l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(facts_of_an_object)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
