// How many keys of a script are in process at once: plans wait in memory for their turn to write, so passes
// do not run far ahead of the writes.

#include "things.h"

enum { SECOND = 1000, THINGS = 400, AT_ONCE = 256, WRITES_AT_ONCE = 64 };

static bool writes_hang;
static size_t hanging;

static enum apiserver_fault hang_writes(struct sim *s, const struct apiserver_passage *p,
                                        struct apiserver_answer *ret_answer)
{
    (void)s, (void)ret_answer;
    bool is_write = strcmp(p->method, "PATCH") == 0 && strstr(p->path, "/configmaps/of-") != NULL;
    if (!writes_hang || !is_write)
        return APISERVER_PASS;
    hanging++;
    return APISERVER_HANG;
}

static void start(struct sim *s, const char *rest)
{
    things_start(s, "return { apply = { cm('of-' .. o.metadata.name, 'x') } }", rest);
    things_put(s, "first", "{}");
    things_settle(s); // the schema of its children is known
    assert_string_equal(things_value(s, "default", "of-first"), "x");
    writes_hang = true;
    hanging = 0;
    s->fault = hang_writes;
    for (int i = 0; i < THINGS; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%03d", i);
        things_put(s, name, "{}");
    }
    sim_run(s, 5 * SECOND);
}

static double waiting(struct sim *s)
{
    return things_metric(s, "workqueue_depth{name=\"things\",controller=\"things\"}");
}

static size_t children(struct sim *s)
{
    size_t n = 0;
    for (int i = 0; i < THINGS; i++) {
        char name[16];
        snprintf(name, sizeof name, "of-t%03d", i);
        n += strcmp(things_value(s, "default", name), "x") == 0;
    }
    return n;
}

static void passes_wait_for_writes(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "");
    assert_int_equal(hanging, WRITES_AT_ONCE);
    assert_int_equal((int)waiting(&s), THINGS - AT_ONCE);
    assert_int_equal(children(&s), 0);
    writes_hang = false;
    sim_run(&s, 120 * SECOND); // those that hang run out of time and are tried again
    assert_int_equal((int)waiting(&s), 0);
    assert_int_equal(children(&s), THINGS);
    sim_fini(&s);
}

static void a_script_may_want_fewer(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "workers = 3");
    assert_int_equal(hanging, 3);
    assert_int_equal((int)waiting(&s), THINGS - 3);
    writes_hang = false;
    sim_run(&s, 120 * SECOND);
    assert_int_equal(children(&s), THINGS);
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(passes_wait_for_writes),
        cmocka_unit_test(a_script_may_want_fewer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
