// Order by readiness, options of entries, children that garbage collection does not reach, finalization.

#include "run/things.h"

// a, then b (a ready), then c (b ready). Ready is what the ConfigMap's data say.
#define CHAIN                                                                                                \
    "local function ready(live) return live.data.ready == 'yes' end\n"                                       \
    "if o.spec.none then return { apply = {} } end\n"                                                        \
    "local a, b, c = cm('a', '1'), cm('b', '1'), cm('c', '1')\n"                                             \
    "return { apply = { { object = c, after = { b } }, { object = b, after = { a }, ready = ready },\n"      \
    "  { object = a, ready = ready } } }"

static void mark_ready(struct sim *s, const char *name, const char *ready)
{
    char *path = xasprintf(THINGS_CONFIG_MAPS "/%s", name);
    char *body = xasprintf("{\"data\":{\"ready\":\"%s\"}}", ready);
    sim_request(s, "alice", "PATCH", path, THINGS_MERGE, body);
    free(path);
    free(body);
    things_settle(s);
}

static void expect_chain(struct sim *s, const char *a, const char *b, const char *c)
{
    assert_string_equal(things_value(s, "default", "a"), a);
    assert_string_equal(things_value(s, "default", "b"), b);
    assert_string_equal(things_value(s, "default", "c"), c);
}

static void start_chain(struct sim *s)
{
    things_start(s, CHAIN, "");
    things_put(s, "t", "{}");
    things_settle(s);
    expect_chain(s, "1", "absent", "absent");
    mark_ready(s, "a", "yes");
    expect_chain(s, "1", "1", "absent");
    mark_ready(s, "b", "yes");
    expect_chain(s, "1", "1", "1");
}

static void created_one_after_the_other(void **unused)
{
    struct sim s;
    (void)unused;
    start_chain(&s);
    size_t writes = things_writes(&s);
    mark_ready(&s, "a", "no"); // a dependency flickers: nothing is taken away, nothing held back
    expect_chain(&s, "1", "1", "1");
    things_set(&s, "alice", "c", "drift");
    things_settle(&s);
    expect_chain(&s, "1", "1", "1");
    assert_int_equal(things_writes(&s), writes + 1);
    sim_fini(&s);
}

// The order in which the host deleted ConfigMaps: "c b a ".
static void deletion_order(struct sim *s, char out[64])
{
    size_t n = 0;
    out[0] = '\0';
    static const char what[] = "tidelock DELETE " THINGS_CONFIG_MAPS "/";
    for (const char *at = s->trace.data; (at = strstr(at, what)) != NULL; at += sizeof what)
        n += (size_t)snprintf(out + n, 64 - n, "%c ", at[sizeof what - 1]);
}

static void deleted_in_reverse(void **unused)
{
    struct sim s;
    char order[64];
    (void)unused;
    start_chain(&s);
    things_put(&s, "t", "{\"none\":true}");
    things_settle(&s);
    expect_chain(&s, "absent", "absent", "absent");
    deletion_order(&s, order);
    assert_string_equal(order, "c b a ");
    assert_int_equal(things_finalizers(&s, "t"), 0); // no longer needed
    sim_fini(&s);
}

static void deleted_in_reverse_with_the_subject(void **unused)
{
    struct sim s;
    char order[64];
    (void)unused;
    start_chain(&s);
    assert_int_equal(things_finalizers(&s, "t"), 1);
    // c stays for a while: what it needed stays too
    sim_request(&s, "alice", "PATCH", THINGS_CONFIG_MAPS "/c", THINGS_MERGE,
                "{\"metadata\":{\"finalizers\":[\"alice.example.com/x\"]}}");
    things_delete(&s, "t");
    things_settle(&s);
    expect_chain(&s, "1", "1", "1");
    sim_request(&s, "alice", "PATCH", THINGS_CONFIG_MAPS "/c", THINGS_MERGE,
                "{\"metadata\":{\"finalizers\":null}}");
    things_settle(&s);
    expect_chain(&s, "absent", "absent", "absent");
    assert_false(things_exists(&s, "t"));
    deletion_order(&s, order);
    assert_string_equal(order, "c b "); // a needs nobody: it is left to the collector
    sim_fini(&s);
}

// A Deployment is ready when its pods are, by the default rule.
static void waits_for_a_deployment(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(
        &s,
        "local d = { apiVersion = 'apps/v1', kind = 'Deployment', metadata = { name = 'd' }, spec = {\n"
        "  replicas = 1, selector = { matchLabels = { app = 'd' } }, template = {\n"
        "  metadata = { labels = { app = 'd' } },\n"
        "  spec = { containers = { { name = 'c', image = 'i' } } } } } }\n"
        "return { apply = { d, { object = cm('b', '1'), after = { d } } } }",
        "");
    things_put(&s, "t", "{}");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "b"), "absent");
    sim_request(&s, "player", "PATCH", "/apis/apps/v1/namespaces/default/deployments/d/status", THINGS_MERGE,
                "{\"status\":{\"updatedReplicas\":1,\"availableReplicas\":1,\"observedGeneration\":1}}");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "b"), "1");
    sim_fini(&s);
}

static void expect_error(const char *body, const char *text)
{
    struct sim s;
    things_start(&s, body, "");
    things_put(&s, "t", "{}");
    things_settle(&s);
    if (things_events(&s, "default", "ApplyFailed", text) +
            things_events(&s, "default", "ScriptError", text) +
            things_events(&s, "default", "InvalidResult", text) ==
        0)
        fail_msg("no Event says '%s'", text);
    assert_string_equal(things_value(&s, "default", "free"), "1"); // what waits for nothing is there
    sim_fini(&s);
}

static void wrong_orders_are_errors(void **unused)
{
    (void)unused;
    expect_error("local a, b = cm('a', '1'), cm('b', '1')\n"
                 "return { apply = { cm('free', '1'), { object = a, after = { b } }, { object = b, after = { "
                 "a } } } }",
                 "wait for each other in a circle");
    expect_error(
        "return { apply = { cm('free', '1'), { object = cm('a', '1'), after = { cm('z', '1') } } } }",
        "after[1]: no entry of apply is this object");
}

// Layers of pairs that wait for both of the layer before: many ways through, and no time is lost.
static void many_ways_through_the_order(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s,
                 "local apply, before = {}, {}\n"
                 "for i = 1, 50 do\n"
                 "  local a, b = cm('a' .. i, '1'), cm('b' .. i, '1')\n"
                 "  apply[#apply + 1] = { object = a, after = before }\n"
                 "  apply[#apply + 1] = { object = b, after = before }\n"
                 "  before = { a, b }\n"
                 "end\n"
                 "return { apply = apply }",
                 "");
    things_put(&s, "t", "{}");
    sim_run(&s, 60 * 1000);
    assert_string_equal(things_value(&s, "default", "a50"), "1");
    things_delete(&s, "t");
    sim_run(&s, 60 * 1000);
    assert_string_equal(things_value(&s, "default", "a1"), "absent");
    sim_fini(&s);
}

static void errors_of_ready_leave_children_alone(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s,
                 "if o.spec.v == '1' then return { apply = { cm('a', '1') } } end\n"
                 "return { apply = { { object = cm('a', '2'), ready = function(live) error('oh') end } } }",
                 "");
    things_put(&s, "t", "{\"v\":\"1\"}");
    things_settle(&s);
    things_put(&s, "t", "{\"v\":\"2\"}");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "a"), "1");
    assert_int_equal(things_events(&s, "default", "ScriptError", "apply[1].ready: things.lua:"), 1);
    sim_fini(&s);
}

// ---- options

static void once_is_never_touched_again(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s,
                 "if o.spec.none then return { apply = {} } end\n"
                 "return { apply = { { object = cm('a', o.spec.v), once = true } } }",
                 "");
    things_put(&s, "t", "{\"v\":\"1\"}");
    things_settle(&s);
    things_put(&s, "t", "{\"v\":\"2\"}");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "a"), "1");
    things_set(&s, "alice", "a", "hers");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "a"), "hers");
    sim_request(&s, "alice", "DELETE", THINGS_CONFIG_MAPS "/a", NULL, NULL);
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "a"), "2");
    things_put(&s, "t", "{\"none\":true}"); // it is a child all the same
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "a"), "absent");
    sim_fini(&s);
}

static void keep_outlives_the_subject(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(
        &s,
        "return { apply = { { object = cm('a', o.spec.v or '1'), keep = true, adopt = o.spec.from }, "
        "cm('b', '1'),\n"
        "  not o.spec.less and { object = cm('c', '1'), keep = true } or nil } }",
        "");
    things_put(&s, "t", "{}");
    things_settle(&s);
    things_set(&s, "alice", "a", "drift"); // while it is wanted it is kept right
    things_put(&s, "t", "{\"less\":true}");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "a"), "1");
    assert_string_equal(things_value(&s, "default", "c"), "1"); // not pruned
    things_delete(&s, "t");
    things_settle(&s);
    assert_false(things_exists(&s, "t"));
    assert_string_equal(things_value(&s, "default", "a"), "1");
    assert_string_equal(things_value(&s, "default", "b"), "absent");
    // A subject made anew under the name is another owner: told, not taken over silently.
    things_put(&s, "t", "{}");
    things_settle(&s);
    assert_true(things_events(&s, "default", "ApplyFailed",
                              "if that subject is gone and left it by `keep`, take the object's labels") > 0);
    sim_request(&s, "alice", "PATCH", THINGS_CONFIG_MAPS "/a", THINGS_MERGE,
                "{\"metadata\":{\"labels\":{\"tidelock.dev/script\":null,\"tidelock.dev/owner-uid\":null}}}");
    things_put(&s, "t", "{\"v\":\"2\",\"from\":[\"tidelock\"]}");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "a"), "2");
    sim_fini(&s);
}

static void adopted_when_all_managers_are_named(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s, "return { apply = { { object = cm('a', '1'), adopt = o.spec.from } } }", "");
    sim_request(&s, "alice", "POST", THINGS_CONFIG_MAPS, "application/json",
                "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"},\"data\":{\"v\":"
                "\"hers\",\"w\":\"too\"}}");
    things_put(&s, "t", "{\"from\":[\"bob\"]}");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "a"), "hers");
    things_put(&s, "t", "{\"from\":[\"alice\"]}");
    things_settle(&s);
    struct json_doc *doc = sim_get(&s, "v1", "configmaps", "a");
    assert_string_equal(json_str(json_path(json_root(doc), "data", "v", NULL)), "1");
    assert_null(json_path(json_root(doc), "data", "w", NULL)); // it was taken over, and is not wanted
    json_doc_free(doc);
    sim_fini(&s);
}

// ---- children that the collector does not reach

#define FAR                                                                                                  \
    "if o.spec.none then return { apply = {} } end\n"                                                        \
    "local far = cm('far', '1') far.metadata.namespace = 'other'\n"                                          \
    "return { apply = { far, cm('near', '1'), { apiVersion = 'x.test/v1', kind = 'Room',\n"                  \
    "  metadata = { name = 'room' }, spec = { v = o.spec.v } } } }"

static bool room_is(struct sim *s, const char *v)
{
    struct json_doc *doc = apiserver_get_json(s->server, "x.test/v1", "rooms", NULL, "room");
    const char *have = json_str(json_path(json_root(doc), "spec", "v", NULL));
    bool same = doc == NULL ? v == NULL : v != NULL && have != NULL && strcmp(have, v) == 0;
    bool owned = json_path(json_root(doc), "metadata", "ownerReferences", NULL) != NULL;
    json_doc_free(doc);
    assert_false(owned);
    return same;
}

static void start_far(struct sim *s)
{
    things_start(s, FAR, "");
    things_put(s, "t", "{\"v\":\"1\"}");
    things_settle(s);
    assert_string_equal(things_value(s, "other", "far"), "1");
    assert_string_equal(things_value(s, "default", "near"), "1");
    assert_true(room_is(s, "1"));
    assert_int_equal(things_finalizers(s, "t"), 1);
}

static void far_children_are_kept_and_pruned(void **unused)
{
    struct sim s;
    (void)unused;
    start_far(&s);
    things_put(&s, "t", "{\"v\":\"2\"}");
    sim_request(&s, "alice", "DELETE", "/api/v1/namespaces/other/configmaps/far", NULL, NULL);
    things_settle(&s);
    assert_true(room_is(&s, "2"));
    assert_string_equal(things_value(&s, "other", "far"), "1");
    size_t writes = things_writes(&s);
    sim_restart_host(&s);
    things_settle(&s);
    assert_int_equal(things_writes(&s), writes);
    things_put(&s, "t", "{\"none\":true}");
    things_settle(&s);
    assert_true(room_is(&s, NULL));
    assert_string_equal(things_value(&s, "other", "far"), "absent");
    assert_int_equal(things_finalizers(&s, "t"), 0);
    sim_fini(&s);
}

static void far_children_go_with_the_subject(void **unused)
{
    struct sim s;
    (void)unused;
    start_far(&s);
    sim_restart_host(&s);
    things_delete(&s, "t");
    things_settle(&s);
    assert_false(things_exists(&s, "t"));
    assert_true(room_is(&s, NULL));
    assert_string_equal(things_value(&s, "other", "far"), "absent");
    assert_string_equal(things_value(&s, "default", "near"), "absent");
    sim_fini(&s);
}

// Deleted while the host was down.
static void far_children_go_after_a_restart(void **unused)
{
    struct sim s;
    (void)unused;
    start_far(&s);
    s.dead = true;
    things_delete(&s, "t");
    sim_run_and_die(&s, 0, 1000);
    things_settle(&s);
    assert_false(things_exists(&s, "t"));
    assert_string_equal(things_value(&s, "other", "far"), "absent");
    sim_fini(&s);
}

// ---- finalize

#define FINALIZE_WHEN                                                                                        \
    "finalize = function(o, world)\n"                                                                        \
    "  local gate = world.get('v1/ConfigMap', 'gate')\n"                                                     \
    "  if not gate then return { done = false } end\n"                                                       \
    "  if gate.data.v == 'bad' then error('bad gate') end\n"                                                 \
    "  if gate.data.v == 'work' then return { done = false, apply = { cm('a', 'going') } } end\n"            \
    "  return { done = true }\n"                                                                             \
    "end"

static void put_gate(struct sim *s, const char *v)
{
    char *text = xasprintf("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"gate\","
                           "\"namespace\":\"default\"},\"data\":{\"v\":\"%s\"}}",
                           v);
    sim_apply(s, "kubectl", text);
    free(text);
    things_settle(s);
}

static void start_finalize(struct sim *s, const char *rest)
{
    things_start(s, "return { apply = { cm('a', '1') } }", rest);
    things_put(s, "t", "{}");
    things_settle(s);
    assert_int_equal(things_finalizers(s, "t"), 1);
    assert_string_equal(things_value(s, "default", "a"), "1");
    things_delete(s, "t");
    things_settle(s);
    assert_true(things_exists(s, "t"));
}

static void finalize_runs_until_it_is_done(void **unused)
{
    struct sim s;
    (void)unused;
    start_finalize(&s, FINALIZE_WHEN);
    put_gate(&s, "bad");
    assert_true(things_exists(&s, "t"));
    assert_int_equal(things_events(&s, "default", "ScriptError", "bad gate"), 1);
    put_gate(&s, "work");
    assert_true(things_exists(&s, "t"));
    assert_string_equal(things_value(&s, "default", "a"), "going");
    put_gate(&s, "open");
    assert_false(things_exists(&s, "t"));
    assert_string_equal(things_value(&s, "default", "a"), "absent"); // by the collector
    sim_fini(&s);
}

static void nothing_is_made_again_while_it_goes(void **unused)
{
    struct sim s;
    (void)unused;
    start_finalize(&s, FINALIZE_WHEN);
    sim_request(&s, "alice", "DELETE", THINGS_CONFIG_MAPS "/a", NULL, NULL);
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "a"), "absent");
    put_gate(&s, "open");
    assert_false(things_exists(&s, "t"));
    sim_fini(&s);
}

static void a_removed_hook_takes_its_finalizer_off(void **unused)
{
    struct sim s;
    (void)unused;
    start_finalize(&s, FINALIZE_WHEN);
    things_put(&s, "u", "{}");
    things_settle(&s);
    things_put_script(&s, "return { apply = {} }", "");
    things_settle(&s);
    assert_false(things_exists(&s, "t"));
    assert_true(things_exists(&s, "u"));
    assert_int_equal(things_finalizers(&s, "u"), 0);
    sim_fini(&s);
}

static void others_finalizers_stay(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s, "return { apply = {} }", "finalize = function() return { done = true } end");
    things_put(&s, "t", "{}");
    sim_request(&s, "alice", "PATCH", THINGS_PATH "/t", THINGS_MERGE,
                "{\"metadata\":{\"finalizers\":[\"alice.example.com/x\"]}}");
    things_settle(&s);
    assert_int_equal(things_finalizers(&s, "t"), 2);
    things_delete(&s, "t");
    things_settle(&s);
    assert_int_equal(things_finalizers(&s, "t"), 1);
    size_t writes = things_writes(&s);
    sim_request(&s, "alice", "PATCH", THINGS_PATH "/t", THINGS_MERGE, "{\"spec\":{\"v\":\"2\"}}");
    things_settle(&s);
    assert_int_equal(things_writes(&s), writes); // it is no longer ours
    sim_fini(&s);
}

static void held_when_its_time_is_over(void **unused)
{
    struct sim s;
    (void)unused;
    start_finalize(&s, "finalize_timeout = '30s',\n" FINALIZE_WHEN);
    sim_run(&s, 60 * 1000);
    assert_true(things_exists(&s, "t"));
    assert_int_equal(things_events(&s, "default", "FinalizeOverdue", NULL), 1);
    put_gate(&s, "open");
    assert_false(things_exists(&s, "t"));
    sim_fini(&s);
}

static void abandoned_when_its_time_is_over(void **unused)
{
    struct sim s;
    (void)unused;
    start_finalize(&s, "finalize_timeout = '30s', finalize_abandon = true,\n" FINALIZE_WHEN);
    sim_run(&s, 60 * 1000);
    assert_false(things_exists(&s, "t"));
    assert_int_equal(things_events(&s, "default", "FinalizeAbandoned", NULL), 1);
    sim_fini(&s);
}

static void expect_abandoned(const char *hook)
{
    struct sim s;
    char *rest = xasprintf(
        "finalize_timeout = '30s', finalize_abandon = true, finalize = function(o, world) %s end", hook);
    start_finalize(&s, rest);
    sim_run(&s, 15 * 1000);
    assert_true(things_exists(&s, "t"));
    sim_run(&s, 10 * 1000);
    assert_false(things_exists(&s, "t"));
    assert_int_equal(things_events(&s, "default", "FinalizeAbandoned", NULL), 1);
    free(rest);
    sim_fini(&s);
}

// Its time runs out whatever the hook does.
static void abandoned_whatever_the_hook_does(void **unused)
{
    (void)unused;
    expect_abandoned("return nil");
    expect_abandoned("return { done = false }");
    expect_abandoned("error('no')");
    expect_abandoned("require('tidelock').invalid('Never', 'no')");
    expect_abandoned("require('tidelock').retry('Later', 'no', '1h')");
    expect_abandoned("local t = {} while true do t[#t + 1] = ('x'):rep(100000) .. #t end");
    expect_abandoned("return 'nonsense'");
}

static enum apiserver_fault rooms_hang(struct sim *s, const struct apiserver_passage *p,
                                       struct apiserver_answer *ret_answer)
{
    (void)s;
    (void)ret_answer;
    return strstr(p->path, "/rooms") != NULL ? APISERVER_HANG : APISERVER_PASS;
}

static void expect_end_while_parked(const char *rest, const char *reason, bool gone)
{
    struct sim s;
    char *all = xasprintf("finalize_timeout = '30s', %s finalize = function(o, world)\n"
                          "  world.list('x.test/v1/Room') return { done = true } end",
                          rest);
    things_start(&s, "return { apply = { cm('a', '1') } }", all);
    things_put(&s, "t", "{}");
    things_settle(&s);
    s.fault = rooms_hang;
    things_delete(&s, "t");
    sim_run(&s, 25 * 1000);
    assert_true(things_exists(&s, "t"));
    sim_run(&s, 10 * 1000);
    assert_int_equal(things_exists(&s, "t"), !gone);
    assert_int_equal(things_events(&s, "default", reason, NULL), 1);
    free(all);
    s.fault = NULL;
    sim_fini(&s);
}

static void or_while_its_kinds_do_not_come(void **unused)
{
    (void)unused;
    expect_end_while_parked("finalize_abandon = true,", "FinalizeAbandoned", true);
    expect_end_while_parked("", "FinalizeOverdue", false);
}

// Its time was over while no host ran: the hook has its chance all the same.
static void abandoned_after_the_hook_ran(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s, "return {}",
                 "finalize_timeout = '30s', finalize_abandon = true,\n"
                 "finalize = function() return { apply = { cm('last', '1') }, done = true } end");
    things_put(&s, "t", "{}");
    things_settle(&s);
    sim_stop_host(&s);
    things_delete(&s, "t");
    sim_run(&s, 60 * 1000);
    sim_start_host(&s);
    sim_run(&s, 5 * 1000);
    assert_false(things_exists(&s, "t"));
    assert_true(things_requests(&s, "PATCH", "/configmaps/last") > 0);
    assert_int_equal(things_events(&s, "default", "FinalizeAbandoned", NULL), 0);
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(created_one_after_the_other),
        cmocka_unit_test(deleted_in_reverse),
        cmocka_unit_test(deleted_in_reverse_with_the_subject),
        cmocka_unit_test(waits_for_a_deployment),
        cmocka_unit_test(wrong_orders_are_errors),
        cmocka_unit_test(many_ways_through_the_order),
        cmocka_unit_test(errors_of_ready_leave_children_alone),
        cmocka_unit_test(once_is_never_touched_again),
        cmocka_unit_test(keep_outlives_the_subject),
        cmocka_unit_test(adopted_when_all_managers_are_named),
        cmocka_unit_test(far_children_are_kept_and_pruned),
        cmocka_unit_test(far_children_go_with_the_subject),
        cmocka_unit_test(far_children_go_after_a_restart),
        cmocka_unit_test(finalize_runs_until_it_is_done),
        cmocka_unit_test(nothing_is_made_again_while_it_goes),
        cmocka_unit_test(a_removed_hook_takes_its_finalizer_off),
        cmocka_unit_test(others_finalizers_stay),
        cmocka_unit_test(held_when_its_time_is_over),
        cmocka_unit_test(abandoned_when_its_time_is_over),
        cmocka_unit_test(abandoned_whatever_the_hook_does),
        cmocka_unit_test(or_while_its_kinds_do_not_come),
        cmocka_unit_test(abandoned_after_the_hook_ran),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
