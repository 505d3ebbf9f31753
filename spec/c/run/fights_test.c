// Fields that others write too: the bookkeeping, what a conflict says, and a whole host in a fight.

#include "run/apply/conflict.h"
#include "run/apply/fights.h"
#include "run/things.h"

#define FIELD "spec.replicas"

// Asks, and writes what may be written.
static enum fights_move ask(struct fights *f, uint64_t now_ms)
{
    uint64_t wait;
    enum fights_move m = fights_ask(f, FIELD, now_ms, &wait);
    if (m != FIGHTS_WAIT)
        fights_written(f, FIELD, 7, now_ms);
    return m;
}

static void the_fifth_time_is_a_probe(void **unused)
{
    struct fights *f = fights_new();
    (void)unused;
    for (uint64_t t = 0; t < 4; t++)
        assert_int_equal(ask(f, t * 10000), FIGHTS_WRITE);
    assert_int_equal(ask(f, 50000), FIGHTS_PROBE);
    assert_true(fights_same_desire(f, FIELD));
    fights_calm(f, FIELD);
    assert_int_equal(ask(f, 51000), FIGHTS_WRITE);
    fights_free(f);
}

static void slow_changes_are_no_fight(void **unused)
{
    struct fights *f = fights_new();
    (void)unused;
    for (uint64_t t = 0; t < 50; t++)
        assert_int_equal(ask(f, t * 20000), FIGHTS_WRITE);
    fights_free(f);
}

static void writes_that_fail_are_no_fight(void **unused)
{
    struct fights *f = fights_new();
    uint64_t wait;
    (void)unused;
    for (uint64_t t = 0; t < 50; t++)
        assert_int_equal(fights_ask(f, FIELD, t * 100, &wait), FIGHTS_WRITE);
    fights_free(f);
}

// Finds a fight at `now`.
static void find(struct fights *f, uint64_t now)
{
    for (int i = 0; i < 4; i++)
        ask(f, now);
    assert_int_equal(ask(f, now), FIGHTS_PROBE);
    assert_true(fights_found(f, FIELD, "alice", now));
    fights_written(f, FIELD, 7, now);
}

static void set_again_at_growing_intervals(void **unused)
{
    struct fights *f = fights_new();
    uint64_t now = 0, last = 0, writes = 0;
    (void)unused;
    find(f, now);
    for (; now < 7200 * 1000; now += 1000) {
        enum fights_move m = ask(f, now);
        assert_int_not_equal(m, FIGHTS_PROBE);
        if (m != FIGHTS_WRITE)
            continue;
        assert_true(now - last >= 30000 && now - last <= 600000);
        last = now;
        writes++;
    }
    assert_in_range(writes, 14, 17); // 30 s, 60 s, ... 480 s, then every 10 min
    now += 11 * 60 * 1000;
    assert_int_equal(ask(f, now), FIGHTS_WRITE); // forgotten
    assert_int_equal(ask(f, now), FIGHTS_WRITE);
    fights_free(f);
}

// A change of our own after our value stood for a while is written at once, others' at the time that is due.
static void what_stands_is_no_fight(void **unused)
{
    struct fights *f = fights_new();
    uint64_t wait = 0;
    (void)unused;
    find(f, 0);
    assert_int_equal(fights_ask(f, FIELD, 1000, &wait), FIGHTS_WAIT);
    assert_int_equal(ask(f, 30000), FIGHTS_WRITE);
    assert_int_equal(fights_ask(f, FIELD, 85000, &wait), FIGHTS_WAIT); // it did not stand
    assert_int_equal(ask(f, 90000), FIGHTS_WRITE);
    assert_int_equal(fights_ask(f, FIELD, 151000, &wait), FIGHTS_WRITE);
    assert_null(fights_text(f, FIELD));
    fights_free(f);
}

// The interval grows with what was written, however often it was tried.
static void tries_do_not_slow(void **unused)
{
    struct fights *f = fights_new();
    uint64_t wait = 0;
    (void)unused;
    find(f, 0);
    for (uint64_t now = 30000; now < 60000; now += 1000)
        assert_int_equal(fights_ask(f, FIELD, now, &wait), FIGHTS_WRITE);
    fights_written(f, FIELD, 7, 60000);
    assert_int_equal(fights_ask(f, FIELD, 60000, &wait), FIGHTS_WAIT);
    assert_int_equal(wait, 60000);
    fights_free(f);
}

static const json *at(struct json_doc *doc, const char *path)
{
    return conflict_find(json_root(doc), path);
}

static void paths_are_followed(void **unused)
{
    static const char text[] =
        "{\"metadata\":{\"labels\":{\"app\":\"x\",\"app.kubernetes.io/"
        "name\":\"n\"}},\"spec\":{\"replicas\":3,"
        "\"ports\":[{\"port\":80,\"protocol\":\"UDP\",\"name\":\"u\"},{\"port\":80,\"protocol\":\"TCP\","
        "\"name\":\"t\"}],\"set\":[\"a\",\"b]\"]}}";
    struct json_doc *doc;
    int64_t n = 0;
    (void)unused;
    assert_int_equal(json_parse(text, strlen(text), &doc, NULL), 0);
    assert_int_equal(json_int(at(doc, ".spec.replicas"), &n), 0);
    assert_int_equal(n, 3);
    assert_string_equal(json_str(at(doc, ".metadata.labels.app.kubernetes.io/name")), "n");
    assert_string_equal(json_str(at(doc, ".metadata.labels.app")), "x");
    assert_string_equal(json_str(at(doc, ".spec.ports[port=80,protocol=\"TCP\"].name")), "t");
    assert_string_equal(json_str(at(doc, ".spec.set[=\"b]\"]")), "b]");
    assert_string_equal(json_str(at(doc, ".spec.set[0]")), "a");
    assert_null(at(doc, ".spec.set[7]"));
    assert_null(at(doc, ".spec.ports[port=81].name"));
    assert_null(at(doc, ".spec.ports[port"));
    assert_null(at(doc, ".spec.nope.x"));
    json_doc_free(doc);
}

// Alice sets the value again once a second, for so long.
static void fight(struct sim *s, const char *v, unsigned seconds)
{
    for (unsigned i = 0; i < seconds; i++) {
        if (strcmp(things_value(s, "default", "a"), v) != 0)
            things_set(s, "alice", "a", v);
        sim_run(s, 1000);
    }
}

static void a_child_that_is_fought_over(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s, "return { apply = { cm('a', o.spec.v), cm('b', o.spec.v) } }", "");
    things_put(&s, "t", "{\"v\":\"1\"}");
    things_settle(&s);
    size_t before = things_requests(&s, "PATCH", "/configmaps/a");
    fight(&s, "hers", 600);
    assert_in_range(things_requests(&s, "PATCH", "/configmaps/a") - before, 6, 14);
    assert_int_equal(things_events(&s, "default", "FieldConflict", "manager \"alice\" sets it to \"hers\""),
                     1);
    assert_int_equal(things_events(&s, "default", "FieldConflict", "to \"1\""), 1);
    assert_int_equal(things_events(&s, "default", "FieldConflict", "field .data.v flips"), 1);
    things_put(&s, "t", "{\"v\":\"2\"}"); // its sibling is not slowed
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "b"), "2");
    sim_run(&s, 11 * 60 * 1000); // she gave up: it is set again, though nothing happens
    assert_string_equal(things_value(&s, "default", "a"), "2");
    sim_run(&s, 11 * 60 * 1000);
    things_set(&s, "alice", "a", "drift"); // and the quarrel is forgotten
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "a"), "2");
    sim_fini(&s);
}

static void a_field_that_is_taken_away(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s, "return { apply = { cm('a', '1') } }", "");
    things_put(&s, "t", "{}");
    things_settle(&s);
    size_t before = things_requests(&s, "PATCH", "/configmaps/a");
    for (unsigned i = 0; i < 300; i++) {
        sim_request(&s, "alice", "PATCH", THINGS_CONFIG_MAPS "/a", THINGS_MERGE, "{\"data\":{\"v\":null}}");
        sim_run(&s, 1000);
    }
    assert_in_range(things_requests(&s, "PATCH", "/configmaps/a") - before, 5, 12);
    assert_int_equal(
        things_events(&s, "default", "FieldConflict", "field .data.v flips: somebody sets it to nothing"), 1);
    assert_int_equal(things_events(&s, "default", "FieldConflict", "to \"1\""), 1);
    sim_fini(&s);
}

static void a_status_that_is_fought_over(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s, "return { status = { seen = '1' } }", "");
    things_put(&s, "t", "{}");
    things_settle(&s);
    size_t before = things_requests(&s, "PATCH", "/things/t/status");
    for (unsigned i = 0; i < 300; i++) {
        sim_request(&s, "alice", "PATCH", THINGS_PATH "/t/status", THINGS_MERGE,
                    "{\"status\":{\"seen\":\"hers\"}}");
        sim_run(&s, 1000);
    }
    assert_in_range(things_requests(&s, "PATCH", "/things/t/status") - before, 5, 12);
    assert_int_equal(things_events(&s, "default", "FieldConflict", "manager \"alice\" sets it to \"hers\""),
                     1);
    sim_fini(&s);
}

// Its own changes, however fast, are no fight.
static void a_busy_script_is_not_slowed(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s, "return { apply = { cm('a', o.spec.v) } }", "");
    for (unsigned i = 0; i < 60; i++) {
        char spec[32], v[16];
        snprintf(v, sizeof v, "%u", i);
        snprintf(spec, sizeof spec, "{\"v\":\"%s\"}", v);
        things_put(&s, "t", spec);
        sim_run(&s, 1000);
        assert_string_equal(things_value(&s, "default", "a"), v);
    }
    assert_int_equal(things_events(&s, "default", "FieldConflict", NULL), 0);
    sim_fini(&s);
}

static void delete_child(struct sim *s)
{
    if (strcmp(things_value(s, "default", "a"), "absent") != 0)
        sim_request(s, "alice", "DELETE", THINGS_CONFIG_MAPS "/a", "application/json", "{}");
}

static size_t creations(struct sim *s)
{
    return things_requests(s, "PATCH", "/configmaps/a?");
}

static void a_child_that_is_deleted(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s, "return { apply = { cm('a', '1'), cm('b', o.spec.v) } }", "");
    things_put(&s, "t", "{\"v\":\"1\"}");
    things_settle(&s);
    delete_child(&s); // once is no fight
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "a"), "1");
    for (unsigned i = 0; i < 600; i++) {
        delete_child(&s);
        sim_run(&s, 1000);
    }
    assert_in_range(creations(&s), 8, 14);
    assert_int_equal(
        things_events(&s, "default", "ChildDeleted", "ConfigMap default/a is deleted by somebody"), 1);
    assert_int_equal(things_events(&s, "default", "ChildDeleted", NULL), 1);
    things_put(&s, "t", "{\"v\":\"2\"}"); // its sibling is not slowed
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "b"), "2");
    sim_run(&s, 11 * 60 * 1000);
    assert_string_equal(things_value(&s, "default", "a"), "1");
    sim_run(&s, 11 * 60 * 1000);
    delete_child(&s); // the quarrel is forgotten
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "a"), "1");
    sim_fini(&s);
}

static void children_that_come_and_go(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s, "return { apply = o.spec.on and { cm('a', '1') } or {} }", "");
    for (unsigned i = 0; i < 20; i++) {
        bool on = i % 2 == 0;
        things_put(&s, "t", on ? "{\"on\":true}" : "{\"on\":false}");
        sim_run(&s, 1000);
        assert_string_equal(things_value(&s, "default", "a"), on ? "1" : "absent");
    }
    for (unsigned i = 0; i < 20; i++) { // with its subject
        things_put(&s, "t", "{\"on\":true}");
        sim_run(&s, 1000);
        assert_string_equal(things_value(&s, "default", "a"), "1");
        things_delete(&s, "t");
        sim_run(&s, 3000);
        assert_string_equal(things_value(&s, "default", "a"), "absent");
    }
    assert_int_equal(things_events(&s, "default", "ChildDeleted", NULL), 0);
    sim_fini(&s);
}

// What can not be made is no fight: its back-off is another.
static void a_child_that_is_refused(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s, "return { apply = { cm('a', '1') } }", "retry = { kind = 'fixed', base = '1s' }");
    sim_request(&s, "alice", "POST", THINGS_CONFIG_MAPS, "application/json",
                "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}}");
    things_put(&s, "t", "{}");
    sim_run(&s, 30 * 1000);
    delete_child(&s);
    sim_run(&s, 2000);
    assert_string_equal(things_value(&s, "default", "a"), "1");
    assert_int_equal(things_events(&s, "default", "ChildDeleted", NULL), 0);
    sim_fini(&s);
}

static size_t refusals;

static enum apiserver_fault over_quota(struct sim *s, const struct apiserver_passage *p,
                                       struct apiserver_answer *ret_answer)
{
    (void)s;
    if (p->answered || strcmp(p->method, "PATCH") != 0 || strstr(p->path, "/configmaps/a?") == NULL)
        return APISERVER_PASS;
    refusals++;
    *ret_answer = (struct apiserver_answer){
        .status = 403,
        .body = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"reason\":\"Forbidden\","
                "\"code\":403,\"message\":\"configmaps \\\"a\\\" is forbidden: exceeded quota\"}"};
    return APISERVER_ANSWER;
}

// Nor does it make a fight that is known any slower.
static void a_child_that_is_refused_in_a_fight(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s, "return { apply = { cm('a', '1') } }", "retry = { kind = 'fixed', base = '1s' }");
    things_put(&s, "t", "{}");
    things_settle(&s);
    while (things_events(&s, "default", "ChildDeleted", NULL) == 0) {
        delete_child(&s);
        sim_run(&s, 1000);
    }
    s.fault = over_quota;
    delete_child(&s);
    refusals = 0;
    sim_run(&s, 5 * 60 * 1000); // four minutes and a half of them with a try a second
    assert_in_range(refusals, 250, 280);
    s.fault = NULL;
    sim_run(&s, 2000);
    assert_string_equal(things_value(&s, "default", "a"), "1");
    delete_child(&s); // the second visit: a minute
    size_t before = creations(&s);
    sim_run(&s, 50 * 1000);
    assert_int_equal(creations(&s), before);
    sim_run(&s, 15 * 1000);
    assert_string_equal(things_value(&s, "default", "a"), "1");
    sim_fini(&s);
}

// A script whose `result` may hold `target`, a ConfigMap of that value.
static void put_fighter(struct sim *s, const char *name, const char *result, const char *v)
{
    char *target = xasprintf("{ apiVersion = 'v1', kind = 'ConfigMap', metadata = { name = 'target' }, "
                             "data = { v = '%s' } }",
                             v);
    char *text = xasprintf("return { name = '%s', subject = 'x.test/v1/Thing', reconcile = function(o)\n"
                           "  local target = %s\n  %s\nend }",
                           name, target, result);
    sim_put_script_text(s, name, "s.lua", text);
    free(text);
    free(target);
}

#define PATCHES "return { patch = { { force = true, object = target } } }"

// Both scripts, and both values, in what each tells; and it is slowed.
static void expect_fight(struct sim *s)
{
    things_put(s, "t", "{}");
    sim_run(s, 600 * 1000);
    assert_in_range(things_requests(s, "PATCH", "/configmaps/target"), 8, 40);
    static const char *const told[] = {"manager \"tidelock-one-", "manager \"tidelock-two-", "\"of one\"",
                                       "\"of two\"", "field .data.v flips"};
    for (size_t i = 0; i < sizeof told / sizeof told[0]; i++)
        assert_int_equal(things_events(s, "default", "FieldConflict", told[i]), 2);
    sim_fini(s);
}

static void two_patches(void **unused)
{
    struct sim s;
    (void)unused;
    sim_init(&s, 3);
    sim_apply(&s, "kubectl", THINGS_CRD("things", "thing", "Thing", "Namespaced"));
    sim_request(&s, "alice", "POST", THINGS_CONFIG_MAPS, "application/json",
                "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"target\"}}");
    put_fighter(&s, "one", PATCHES, "of one");
    put_fighter(&s, "two", PATCHES, "of two");
    expect_fight(&s);
}

static void a_child_and_a_patch(void **unused)
{
    struct sim s;
    (void)unused;
    sim_init(&s, 3);
    sim_apply(&s, "kubectl", THINGS_CRD("things", "thing", "Thing", "Namespaced"));
    put_fighter(&s, "one", "return { apply = { target } }", "of one");
    put_fighter(&s, "two", PATCHES, "of two");
    expect_fight(&s);
}

// One script: what a subject patches is another's child.
static void two_subjects(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s,
                 "if o.metadata.name == 't' then return { apply = { cm('a', 'of t') } } end\n"
                 "return { patch = { { force = true, object = cm('a', 'of u') } } }",
                 "");
    things_put(&s, "t", "{}");
    things_settle(&s);
    things_put(&s, "u", "{}");
    sim_run(&s, 600 * 1000);
    assert_in_range(things_requests(&s, "PATCH", "/configmaps/a"), 8, 40);
    assert_int_equal(things_events(&s, "default", "FieldConflict", "to \"of t\""), 2);
    assert_int_equal(things_events(&s, "default", "FieldConflict", "to \"of u\""), 2);
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_fifth_time_is_a_probe),
        cmocka_unit_test(slow_changes_are_no_fight),
        cmocka_unit_test(writes_that_fail_are_no_fight),
        cmocka_unit_test(set_again_at_growing_intervals),
        cmocka_unit_test(tries_do_not_slow),
        cmocka_unit_test(what_stands_is_no_fight),
        cmocka_unit_test(paths_are_followed),
        cmocka_unit_test(a_child_that_is_fought_over),
        cmocka_unit_test(a_field_that_is_taken_away),
        cmocka_unit_test(a_status_that_is_fought_over),
        cmocka_unit_test(a_busy_script_is_not_slowed),
        cmocka_unit_test(a_child_that_is_deleted),
        cmocka_unit_test(children_that_come_and_go),
        cmocka_unit_test(a_child_that_is_refused),
        cmocka_unit_test(a_child_that_is_refused_in_a_fight),
        cmocka_unit_test(two_patches),
        cmocka_unit_test(a_child_and_a_patch),
        cmocka_unit_test(two_subjects),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
