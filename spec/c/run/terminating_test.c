// A namespace that is being deleted does not get stuck on subjects whose scripts can not or will not finish.

#include "base/log.h"
#include "run/things.h"

#define OTHER_THINGS "/apis/x.test/v1/namespaces/other/things"
#define FINALIZE(body) "finalize = function(o, world)\n" body "\nend"
#define NEVER_DONE FINALIZE("return { done = false }")
#define ROOM "{ apiVersion = 'x.test/v1', kind = 'Room', metadata = { name = 'room' } }"
#define WITH_ROOM "return { apply = { " ROOM " } }"

static void put_other(struct sim *s, const char *name)
{
    char *text = xasprintf("{\"apiVersion\":\"x.test/v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"%s\","
                           "\"namespace\":\"other\"},\"spec\":{}}",
                           name);
    sim_apply(s, "kubectl", text);
    free(text);
}

static bool is_there(struct sim *s, const char *name)
{
    struct json_doc *doc = apiserver_get_json(s->server, "x.test/v1", "things", "other", name);
    bool there = doc != NULL;
    json_doc_free(doc);
    return there;
}

static bool room_is_there(struct sim *s)
{
    struct json_doc *doc = apiserver_get_json(s->server, "x.test/v1", "rooms", NULL, "room");
    bool there = doc != NULL;
    json_doc_free(doc);
    return there;
}

// Its subject stands in the namespace `other`.
static void start(struct sim *s, const char *body, const char *rest)
{
    things_start(s, body, rest);
    put_other(s, "t");
    things_settle(s);
    assert_true(is_there(s, "t"));
}

static void delete_namespace(struct sim *s)
{
    sim_request(s, "kubectl", "DELETE", "/api/v1/namespaces/other", NULL, NULL);
}

// There for `stays_ms` after the namespace was deleted, gone not long after, with an Event that says why.
static void expect_let_go(struct sim *s, uint64_t stays_ms, const char *why)
{
    delete_namespace(s);
    sim_run(s, stays_ms);
    assert_true(is_there(s, "t"));
    sim_run(s, 10 * 1000);
    assert_false(is_there(s, "t"));
    sim_run(s, 1000);
    if (things_events(s, "default", "FinalizeAbandoned", why) != 1)
        fail_msg("no Event says '%s'", why);
    assert_true(things_metric(s, "tidelock_deletions_given_up_total{script=\"things\"}") == 1);
    assert_int_equal(things_events(s, "default", "ChildrenLeft", NULL), 0);
}

static void expect_hook_let_go(const char *rest, uint64_t stays_ms, const char *why)
{
    struct sim s;
    start(&s, WITH_ROOM, rest);
    assert_true(room_is_there(&s));
    expect_let_go(&s, stays_ms, why);
    assert_false(room_is_there(&s)); // what could be done was done
    sim_fini(&s);
}

static void whose_hook_is_never_done(void **unused)
{
    (void)unused;
    expect_hook_let_go(NEVER_DONE, 30 * 1000,
                       "Thing other/t: the namespace is being deleted, so script "
                       "tidelock-system/things is waited for no longer, and its finalizer "
                       "is taken off: finalize does not return done = true");
    expect_hook_let_go(FINALIZE("return nil"), 30 * 1000, "finalize returned nil");
    expect_hook_let_go(FINALIZE("return { done = false, requeue_after = '1s' }"), 30 * 1000, "done = true");
}

static void whose_hook_fails(void **unused)
{
    (void)unused;
    expect_hook_let_go(FINALIZE("error('no way', 0)"), 10 * 1000, "no way");
    expect_hook_let_go(FINALIZE("local k8s = require 'tidelock' k8s.retry('NotYet', 'later', '1s')"),
                       30 * 1000, "later");
    expect_hook_let_go(FINALIZE("local k8s = require 'tidelock' k8s.invalid('Never', 'it is wrong')"),
                       10 * 1000, "it is wrong");
}

static void whose_hook_overruns(void **unused)
{
    (void)unused;
    expect_hook_let_go(FINALIZE("local t = {} while true do t[#t + 1] = ('x'):rep(100000) .. #t end"),
                       10 * 1000, "memory");
}

static enum apiserver_fault rooms_hang(struct sim *s, const struct apiserver_passage *p,
                                       struct apiserver_answer *ret_answer)
{
    (void)s;
    (void)ret_answer;
    return strstr(p->path, "/rooms") != NULL ? APISERVER_HANG : APISERVER_PASS;
}

static enum apiserver_fault rooms_are_forbidden(struct sim *s, const struct apiserver_passage *p,
                                                struct apiserver_answer *ret_answer)
{
    (void)s;
    if (strstr(p->path, "/rooms") == NULL || p->answered)
        return APISERVER_PASS;
    *ret_answer = (struct apiserver_answer){
        .status = 403,
        .body = "{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"Forbidden\",\"code\":403,"
                "\"message\":\"rooms are not for you\"}"};
    return APISERVER_ANSWER;
}

static void expect_parked_let_go(enum apiserver_fault (*fault)(struct sim *, const struct apiserver_passage *,
                                                               struct apiserver_answer *),
                                 const char *why)
{
    struct sim s;
    start(&s, "return { apply = { cm('a', '1') } }",
          "finalize_timeout = '1h',\n" FINALIZE("world.list('x.test/v1/Room') return { done = true }"));
    s.fault = fault;
    expect_let_go(&s, 10 * 1000, why);
    sim_fini(&s);
}

static void whose_hook_waits_for_a_kind(void **unused)
{
    (void)unused;
    expect_parked_let_go(rooms_hang, "x.test/v1/Room");
}

static void that_is_paused(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, WITH_ROOM, NEVER_DONE);
    sim_request(&s, "alice", "PATCH", OTHER_THINGS "/t", THINGS_MERGE,
                "{\"metadata\":{\"annotations\":{\"tidelock.dev/paused\":\"true\"}}}");
    things_settle(&s);
    expect_let_go(&s, 10 * 1000, "annotation tidelock.dev/paused");
    assert_false(room_is_there(&s));
    sim_fini(&s);
}

static void whose_script_is_paused(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, WITH_ROOM, NEVER_DONE);
    sim_request(&s, "alice", "PATCH", "/api/v1/namespaces/tidelock-system/configmaps/things", THINGS_MERGE,
                "{\"metadata\":{\"annotations\":{\"tidelock.dev/paused\":\"true\"}}}");
    things_settle(&s);
    expect_let_go(&s, 10 * 1000, "the script is paused");
    assert_false(room_is_there(&s));
    sim_fini(&s);
}

// Many at once: none of the script's code is run for them, so the quarantine lets them through.
static void whose_script_is_in_quarantine(void **unused)
{
    struct sim s;
    char name[16];
    (void)unused;
    start(&s,
          "if o.spec.bad then local t = {} while true do t[#t + 1] = ('x'):rep(100000) .. #t end end\n"
          "local room = " ROOM " room.metadata.name = 'room-' .. o.metadata.name\n"
          "return { apply = { room } }",
          NEVER_DONE);
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "t%d", i);
        put_other(&s, name);
    }
    things_settle(&s);
    things_put(&s, "bad", "{\"bad\":true}");
    sim_run(&s, 60 * 1000); // the pause is longer by now than what follows
    assert_true(things_metric(&s, "tidelock_script_quarantined{script=\"things\"}") == 1);
    delete_namespace(&s);
    sim_run(&s, 19 * 1000);
    assert_true(things_metric(&s, "tidelock_script_quarantined{script=\"things\"}") == 1);
    for (int i = 0; i < 20; i++) {
        snprintf(name, sizeof name, "t%d", i);
        assert_false(is_there(&s, name));
    }
    assert_int_equal(things_requests(&s, "DELETE", "/rooms/room-"), 21);
    assert_true(things_events(&s, "default", "FinalizeAbandoned", "in quarantine") > 0);
    sim_fini(&s);
}

static void remove_script(struct sim *s)
{
    sim_request(s, "alice", "DELETE", "/api/v1/namespaces/tidelock-system/configmaps/things", NULL, NULL);
}

static void expect_taken_off(struct sim *s)
{
    delete_namespace(s);
    sim_run(s, 10 * 1000);
    assert_true(is_there(s, "t"));
    sim_run(s, 25 * 1000);
    assert_false(is_there(s, "t"));
    assert_int_equal(
        things_events(s, "default", "FinalizerTakenOff",
                      "Thing other/t: the namespace is being deleted, so the finalizer of script "
                      "tidelock-system/things, which does not look after it, was taken off"),
        1);
    assert_true(things_metric(s, "tidelock_deletions_given_up_total{script=\"things\"}") == 1);
}

static void whose_script_was_removed(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, WITH_ROOM, NEVER_DONE);
    things_put(&s, "stays", "{}");
    things_settle(&s);
    remove_script(&s);
    sim_run(&s, 5 * 60 * 1000);
    expect_taken_off(&s);
    assert_int_equal(things_finalizers(&s, "stays"), 1); // that waits for `tidelock release`
    assert_true(room_is_there(&s));                      // and so does this
    sim_fini(&s);
}

static void whose_script_was_removed_while_no_host_ran(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, WITH_ROOM, NEVER_DONE);
    sim_stop_host(&s);
    remove_script(&s);
    sim_start_host(&s);
    expect_taken_off(&s);
    sim_fini(&s);
}

static void whose_script_came_back_in_time(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, WITH_ROOM, NEVER_DONE);
    remove_script(&s);
    sim_run(&s, 60 * 1000);
    delete_namespace(&s);
    sim_run(&s, 5 * 1000);
    things_put_script(&s, WITH_ROOM, FINALIZE("return { done = true }"));
    things_settle(&s);
    assert_false(is_there(&s, "t"));
    assert_false(room_is_there(&s));
    assert_int_equal(things_events(&s, "default", "FinalizerTakenOff", NULL), 0);
    sim_fini(&s);
}

static void whose_script_is_held_for_another_kind(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "return { apply = { cm('a', '1') } }", NEVER_DONE);
    sim_stop_host(&s);
    sim_put_script_text(&s, "things", "things.lua",
                        "return { name = 'things', subject = 'x.test/v1/Room', reconcile = function() end }");
    sim_start_host(&s);
    things_settle(&s);
    expect_taken_off(&s);
    sim_fini(&s);
}

// ---- what is given time

// It writes something every 25 s, takes more than a minute and a half, and is let finish.
static void a_hook_that_gets_on_finishes(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "return {}",
          FINALIZE("local passed = world.now() - 1767225600\n" // since the test's start
                   "local steps = cm('steps', tostring(math.floor(passed / 25)))\n"
                   "steps.metadata.namespace = 'default'\n"
                   "return { apply = { steps }, done = passed > 110, requeue_after = '5s' }"));
    delete_namespace(&s);
    sim_run(&s, 90 * 1000);
    assert_true(is_there(&s, "t"));
    assert_string_equal(things_value(&s, "default", "steps"), "3");
    sim_run(&s, 30 * 1000);
    assert_false(is_there(&s, "t"));
    assert_int_equal(things_events(&s, "default", "FinalizeAbandoned", NULL), 0);
    sim_fini(&s);
}

static void but_not_for_ever(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "return {}",
          FINALIZE("local far = cm('steps', tostring(world.now())) far.metadata.namespace = 'default'\n"
                   "return { apply = { far }, requeue_after = '10s' }"));
    expect_let_go(&s, 300 * 1000, "done = true");
    sim_fini(&s);
}

static void a_hook_has_the_time_that_its_script_says(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "return {}", "finalize_timeout = '2m',\n" NEVER_DONE);
    expect_let_go(&s, 119 * 1000, "done = true");
    sim_fini(&s);
}

static void a_child_elsewhere_is_waited_for(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, WITH_ROOM, "");
    sim_request(&s, "alice", "PATCH", "/apis/x.test/v1/rooms/room", THINGS_MERGE,
                "{\"metadata\":{\"finalizers\":[\"alice.example.com/x\"]}}");
    delete_namespace(&s);
    sim_run(&s, 20 * 1000);
    assert_true(is_there(&s, "t"));
    sim_request(&s, "alice", "PATCH", "/apis/x.test/v1/rooms/room", THINGS_MERGE,
                "{\"metadata\":{\"finalizers\":null}}");
    things_settle(&s);
    assert_false(is_there(&s, "t"));
    assert_int_equal(things_events(&s, "default", "FinalizeAbandoned", NULL), 0);
    sim_fini(&s);
}

static void but_not_longer_than_anything_else(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, WITH_ROOM, "");
    sim_request(&s, "alice", "PATCH", "/apis/x.test/v1/rooms/room", THINGS_MERGE,
                "{\"metadata\":{\"finalizers\":[\"alice.example.com/x\"]}}");
    expect_let_go(&s, 30 * 1000, "children of it are not gone yet");
    assert_true(room_is_there(&s)); // it is being deleted
    sim_fini(&s);
}

// ---- the last resort

static enum apiserver_fault rooms_are_not_deleted(struct sim *s, const struct apiserver_passage *p,
                                                  struct apiserver_answer *ret_answer)
{
    return strcmp(p->method, "DELETE") == 0 ? rooms_are_forbidden(s, p, ret_answer) : APISERVER_PASS;
}

static void expect_children_left(struct sim *s)
{
    delete_namespace(s);
    sim_run(s, 40 * 1000);
    assert_true(is_there(s, "t"));
    sim_run(s, 30 * 1000);
    assert_false(is_there(s, "t"));
    assert_int_equal(things_events(s, "default", "FinalizeAbandoned", "Thing other/t"), 1);
    assert_int_equal(things_events(s, "default", "ChildrenLeft", "the label tidelock.dev/owner-uid="), 1);
    assert_true(room_is_there(s));
    sim_fini(s);
}

static void children_that_can_not_be_deleted(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, WITH_ROOM, NEVER_DONE);
    s.fault = rooms_are_not_deleted;
    expect_children_left(&s);
}

static void children_that_can_not_be_known(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, WITH_ROOM, NEVER_DONE);
    sim_stop_host(&s);
    s.fault = rooms_hang;
    sim_start_host(&s);
    expect_children_left(&s);
}

static void children_whose_kind_is_forbidden(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, WITH_ROOM, NEVER_DONE);
    sim_stop_host(&s);
    s.fault = rooms_are_forbidden;
    sim_start_host(&s);
    expect_children_left(&s);
}

// ---- what is known of namespaces

static enum apiserver_fault namespaces_are_secret(struct sim *s, const struct apiserver_passage *p,
                                                  struct apiserver_answer *ret_answer)
{
    (void)s;
    if (strcmp(p->path, "/api/v1/namespaces/other") != 0 || strcmp(p->method, "GET") != 0 || p->answered)
        return APISERVER_PASS;
    *ret_answer = (struct apiserver_answer){
        .status = 403,
        .body = "{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"Forbidden\",\"code\":403,"
                "\"message\":\"namespaces \\\"other\\\" is forbidden\"}"};
    return APISERVER_ANSWER;
}

static size_t warned;

static void count_warnings(void *ud, enum log_level level, const char *line)
{
    (void)ud;
    warned += level == LOG_WARN && strstr(line, "namespaces can not be read") != NULL &&
              strstr(line, "grant the host `get` on namespaces") != NULL;
}

static void without_the_right_to_know_it_is_said_once(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "return {}", NEVER_DONE);
    s.fault = namespaces_are_secret;
    warned = 0;
    log_set_sink(count_warnings, NULL);
    delete_namespace(&s);
    sim_run(&s, 10 * 60 * 1000);
    log_set_sink(NULL, NULL);
    assert_int_equal(warned, 1);
    assert_true(is_there(&s, "t"));
    sim_fini(&s);
}

// The server's refusal tells as well.
static void without_it_a_refusal_is_enough(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "return {}",
          FINALIZE("local late = cm('late', '1') return { apply = { late }, done = false }"));
    s.fault = namespaces_are_secret;
    delete_namespace(&s);
    sim_run(&s, 20 * 1000);
    assert_false(is_there(&s, "t"));
    assert_int_equal(things_events(&s, "default", "FinalizeAbandoned", "because it is being terminated"), 1);
    assert_in_range(things_requests(&s, "PATCH", "/configmaps/late"), 1, 20); // no storm
    sim_fini(&s);
}

// A namespace elsewhere that goes is no reason to give anything up.
static void another_namespace_that_goes_is_none_of_its_business(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s, "return {}",
                 FINALIZE("local late = cm('late', '1') late.metadata.namespace = 'other'\n"
                          "return { apply = { late }, done = false }"));
    put_other(&s, "holds"); // so that the namespace stays
    things_put(&s, "t", "{}");
    things_settle(&s);
    sim_request(&s, "alice", "PATCH", OTHER_THINGS "/holds", THINGS_MERGE,
                "{\"metadata\":{\"finalizers\":[\"alice.example.com/x\"]}}");
    delete_namespace(&s);
    things_delete(&s, "t");
    sim_run(&s, 10 * 60 * 1000);
    assert_true(things_exists(&s, "t"));
    sim_fini(&s);
}

static size_t questions(struct sim *s)
{
    return things_requests(s, "GET ", "GET /api/v1/namespaces/other ");
}

static void namespaces_that_stay_are_asked_about_now_and_then(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "return {}", NEVER_DONE);
    sim_request(&s, "kubectl", "DELETE", OTHER_THINGS "/t", NULL, NULL);
    sim_run(&s, 60 * 60 * 1000);
    assert_true(is_there(&s, "t"));
    assert_in_range(questions(&s), 100, 140);
    delete_namespace(&s);
    sim_run(&s, 29 * 1000);
    assert_true(is_there(&s, "t"));
    sim_run(&s, 33 * 1000);
    assert_false(is_there(&s, "t"));
    sim_fini(&s);
}

static void nobody_asks_while_all_goes_well(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, WITH_ROOM, FINALIZE("return { done = true }"));
    delete_namespace(&s);
    things_settle(&s);
    assert_false(is_there(&s, "t"));
    assert_false(room_is_there(&s));
    assert_int_equal(questions(&s), 0);
    sim_fini(&s);
}

static void a_namespace_that_came_back_is_another_one(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "return {}", NEVER_DONE);
    expect_let_go(&s, 30 * 1000, "done = true");
    sim_apply(&s, "kubectl",
              "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"other\"}}");
    put_other(&s, "t");
    things_settle(&s);
    sim_request(&s, "kubectl", "DELETE", OTHER_THINGS "/t", NULL, NULL);
    sim_run(&s, 10 * 60 * 1000);
    assert_true(is_there(&s, "t"));
    sim_fini(&s);
}

static void one_that_left_the_selector(void **unused)
{
    struct sim s;
    (void)unused;
    things_start(&s, WITH_ROOM, "selector = 'app=x',\n" NEVER_DONE);
    sim_apply(&s, "kubectl",
              "{\"apiVersion\":\"x.test/v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"t\",\"namespace\":"
              "\"other\",\"labels\":{\"app\":\"x\"}},\"spec\":{}}");
    things_settle(&s);
    assert_true(room_is_there(&s));
    sim_request(&s, "alice", "PATCH", OTHER_THINGS "/t", THINGS_MERGE, "{\"metadata\":{\"labels\":null}}");
    sim_run(&s, 5 * 60 * 1000);
    assert_true(room_is_there(&s));
    delete_namespace(&s);
    sim_run(&s, 2 * 60 * 1000);
    assert_false(is_there(&s, "t"));
    assert_false(room_is_there(&s));
    sim_fini(&s);
}

// It insists on a child that its namespace does not take.
static void one_that_wants_something_new(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "return { apply = { cm('a', '1') } }",
          "finalize = function(o) return { apply = { cm('late', '1') }, done = true } end");
    assert_string_equal(things_value(&s, "other", "a"), "1");
    delete_namespace(&s);
    things_settle(&s);
    assert_false(is_there(&s, "t"));
    assert_string_equal(things_value(&s, "other", "late"), "absent");
    assert_in_range(things_requests(&s, "PATCH", "/configmaps/late"), 1, 8); // no storm
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whose_hook_is_never_done),
        cmocka_unit_test(whose_hook_fails),
        cmocka_unit_test(whose_hook_overruns),
        cmocka_unit_test(whose_hook_waits_for_a_kind),
        cmocka_unit_test(that_is_paused),
        cmocka_unit_test(whose_script_is_paused),
        cmocka_unit_test(whose_script_is_in_quarantine),
        cmocka_unit_test(whose_script_was_removed),
        cmocka_unit_test(whose_script_was_removed_while_no_host_ran),
        cmocka_unit_test(whose_script_came_back_in_time),
        cmocka_unit_test(whose_script_is_held_for_another_kind),
        cmocka_unit_test(a_hook_that_gets_on_finishes),
        cmocka_unit_test(but_not_for_ever),
        cmocka_unit_test(a_hook_has_the_time_that_its_script_says),
        cmocka_unit_test(a_child_elsewhere_is_waited_for),
        cmocka_unit_test(but_not_longer_than_anything_else),
        cmocka_unit_test(children_that_can_not_be_deleted),
        cmocka_unit_test(children_that_can_not_be_known),
        cmocka_unit_test(children_whose_kind_is_forbidden),
        cmocka_unit_test(without_the_right_to_know_it_is_said_once),
        cmocka_unit_test(without_it_a_refusal_is_enough),
        cmocka_unit_test(another_namespace_that_goes_is_none_of_its_business),
        cmocka_unit_test(namespaces_that_stay_are_asked_about_now_and_then),
        cmocka_unit_test(nobody_asks_while_all_goes_well),
        cmocka_unit_test(a_namespace_that_came_back_is_another_one),
        cmocka_unit_test(one_that_left_the_selector),
        cmocka_unit_test(one_that_wants_something_new),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
