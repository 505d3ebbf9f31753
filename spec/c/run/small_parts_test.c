// Grants, claims, the write gate, marks and what a controller remembers of a key.

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "run/apply/claims.h"
#include "run/apply/write_gate.h"
#include "run/controller/key_state.h"
#include "run/source/grants.h"
#include "run/source/marks.h"
#include "unit.h"

static void denied_kinds_need_a_grant(void **unused)
{
    struct err e;
    (void)unused;
    struct grants *g = grants_new();
    const struct gvk *secret = gvk_parse("v1/Secret", NULL), *pod = gvk_parse("v1/Pod", NULL);
    const struct gvk *role = gvk_parse("rbac.authorization.k8s.io/v1/Role", NULL);
    assert_int_equal(grants_check(g, "a", pod, &e), 0);
    assert_int_equal(grants_check(g, "a", secret, &e), -ERR_FORBIDDEN);
    assert_non_null(strstr(e.text, "--grant a=/Secret"));
    assert_int_equal(grants_check(g, "a", role, &e), -ERR_FORBIDDEN);
    assert_int_equal(grants_add(g, "a=Secret", &e), 0);
    assert_int_equal(grants_add(g, "*=rbac.authorization.k8s.io/Role", &e), 0);
    assert_int_equal(grants_check(g, "a", secret, &e), 0);
    assert_int_equal(grants_check(g, "b", secret, &e), -ERR_FORBIDDEN);
    assert_int_equal(grants_check(g, "b", role, &e), 0);
    assert_int_equal(grants_add(g, "nothing", &e), -ERR_INVALID);
    assert_int_equal(grants_add(g, "=x/Y", &e), -ERR_INVALID);
    grants_free(g);
}

static void one_child_one_claim(void **unused)
{
    (void)unused;
    struct claims *c = claims_new();
    const struct gvk *kind = gvk_parse("v1/ConfigMap", NULL);
    assert_null(claims_take(c, kind, "ns", "a", "u1", "one"));
    assert_null(claims_take(c, kind, "ns", "a", "u1", "one"));
    assert_string_equal(claims_take(c, kind, "ns", "a", "u2", "two"), "one");
    claims_release(c, kind, "ns", "a", "u2"); // not the owner's to release
    assert_string_equal(claims_take(c, kind, "ns", "a", "u2", "two"), "one");
    claims_release(c, kind, "ns", "a", "u1");
    assert_null(claims_take(c, kind, "ns", "a", "u2", "two"));
    claims_free(c);
}

struct writer {
    struct write_waiter waiter; // first: go is given a pointer to it
    char name;
};

static char order[16];

static void go(struct write_waiter *w)
{
    char name[2] = {((struct writer *)w)->name, 0};
    strcat(order, name);
}

static void scripts_take_turns_at_the_gate(void **unused)
{
    (void)unused;
    struct write_gate *g = write_gate_new(1);
    struct writer writers[] = {
        {{NULL, go}, '0'}, {{NULL, go}, 'a'}, {{NULL, go}, 'b'}, {{NULL, go}, 'c'}, {{NULL, go}, 'x'}};
    write_gate_enter(g, "one", &writers[0].waiter);
    write_gate_enter(g, "one", &writers[1].waiter);
    write_gate_enter(g, "one", &writers[2].waiter);
    write_gate_enter(g, "one", &writers[3].waiter);
    write_gate_enter(g, "two", &writers[4].waiter);
    for (int i = 0; i < 4; i++)
        write_gate_leave(g);
    assert_string_equal(order, "0axbc");
    assert_int_equal(write_gate_in_flight(g), 1);
    write_gate_leave(g);
    assert_int_equal(write_gate_in_flight(g), 0);
    write_gate_free(g);
}

static void marks_fit_and_differ(void **unused)
{
    char a[MARKS_HASH_MAX], b[MARKS_HASH_MAX], manager[MARKS_MANAGER_MAX], patch[MARKS_MANAGER_MAX];
    char name[64];
    (void)unused;
    marks_script_hash(a, "tidelock", "ns", "name");
    marks_script_hash(b, "tidelock", "-", "name");
    assert_string_not_equal(a, b);
    assert_int_equal(strlen(a), 16);
    memset(name, 'x', 63);
    name[63] = '\0';
    marks_manager(manager, name, a);
    marks_patch_manager(patch, manager, "8c4d0f5e-0000-0000-0000-000000000000");
    assert_true(strlen(manager) <= 128 && strlen(patch) <= 128);
    assert_true(strncmp(patch, manager, strlen(manager)) == 0);
}

static void count_event(void *ud, const struct plan_event *ev)
{
    (void)ev;
    ++*(int *)ud;
}

static void events_are_said_once(void **unused)
{
    struct plan_event events[] = {
        {"Normal", "Synced", "one"}, {"Normal", "Synced", "two"}, {"Normal", "Synced", "one"}};
    struct plan plan = {.events = events, .event_count = 3};
    int said = 0;
    (void)unused;
    struct key_states *s = key_states_new();
    struct key_state *k = key_states_get(s, "ns/a", "u1");
    key_state_events(k, &plan, false, count_event, &said);
    assert_int_equal(said, 2);
    key_state_events(k, &plan, false, count_event, &said);
    assert_int_equal(said, 2);
    plan.event_count = 1; // "two" is no longer there: later it is news again
    key_state_events(k, &plan, false, count_event, &said);
    plan.event_count = 3;
    key_state_events(k, &plan, false, count_event, &said);
    assert_int_equal(said, 3);
    k = key_states_get(s, "ns/a", "u2"); // another object of the name knows nothing
    key_state_events(k, &plan, true, count_event, &said);
    assert_int_equal(said, 3);
    assert_true(key_state_problem(k, "boom"));
    assert_false(key_state_problem(k, "boom"));
    assert_true(key_state_problem(k, "bang"));
    key_state_no_problem(k);
    assert_true(key_state_problem(k, "bang"));
    key_states_forget(s, "ns/a");
    assert_int_equal(key_states_count(s), 0);
    key_states_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(denied_kinds_need_a_grant),      cmocka_unit_test(one_child_one_claim),
        cmocka_unit_test(scripts_take_turns_at_the_gate), cmocka_unit_test(marks_fit_and_differ),
        cmocka_unit_test(events_are_said_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
