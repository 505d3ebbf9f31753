// Creations that others are faster with: whoever comes second is refused, and has touched nothing.

#include "run/things.h"

#define ONE "return { apply = { cm('a', '1') } }"
#define HERS                                                                                                 \
    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"},\"data\":{\"%s\":\"hers\"}" \
    "}"

static struct {
    const char *member;   // of alice's object
    int get_fails;        // so many of the host's questions about it are answered with 500
    bool removes;         // she takes it away again when the host asks about it
    bool kills;           // the host dies before the answer comes
    size_t made, refused; // by alice, and answers 409 to the host
} race;

static void alice_makes_it(struct sim *s)
{
    char *text = xasprintf(HERS, race.member);
    race.made++;
    sim_request(s, "alice", "POST", THINGS_CONFIG_MAPS, "application/json", text);
    free(text);
}

static enum apiserver_fault alice_is_faster(struct sim *s, const struct apiserver_passage *p,
                                            struct apiserver_answer *ret_answer)
{
    if (strstr(p->path, "/namespaces/default/configmaps/a") == NULL)
        return APISERVER_PASS;
    bool asks = strcmp(p->method, "GET") == 0;
    race.refused += p->answered && !asks && p->status == 409;
    if (p->answered)
        return APISERVER_PASS;
    if (!asks && race.made == 0) {
        alice_makes_it(s);
        s->dies_in = race.kills ? 1 : 0;
    }
    if (asks && race.refused > 0 && race.removes) {
        race.removes = false;
        sim_request(s, "alice", "DELETE", THINGS_CONFIG_MAPS "/a", NULL, NULL);
    }
    if (asks && race.refused > 0 && race.get_fails > 0) {
        race.get_fails--;
        *ret_answer = (struct apiserver_answer){.status = 500, .body = "{}"};
        return APISERVER_ANSWER;
    }
    return APISERVER_PASS;
}

static void start(struct sim *s, const char *member, const char *body)
{
    things_start(s, body, "");
    things_settle(s);
    memset(&race, 0, sizeof race);
    race.member = member;
    s->fault = alice_is_faster;
    things_put(s, "t", "{}");
}

static char *object_a(struct sim *s)
{
    char *body = NULL;
    assert_int_equal(
        apiserver_request(s->server, "player", "GET", THINGS_CONFIG_MAPS "/a", NULL, NULL, &body), 200);
    return body;
}

// It is as she made it, whatever becomes of the host and of the subject.
static void assert_hers_for_ever(struct sim *s)
{
    char *before = object_a(s);
    assert_null(strstr(before, "tidelock"));
    assert_non_null(strstr(before, "hers"));
    sim_restart_host(s);
    things_settle(s);
    things_delete(s, "t");
    sim_run(s, 60 * 1000);
    assert_false(things_exists(s, "t"));
    char *after = object_a(s);
    assert_string_equal(after, before); // its resourceVersion, too
    free(before);
    free(after);
}

// Whether the two want different values of one field (the server knows a conflict), or nothing that
// conflicts.
static void the_second_is_refused(void **unused)
{
    static const char *const members[] = {"v", "other"};
    (void)unused;
    for (size_t i = 0; i < 2; i++) {
        struct sim s;
        start(&s, members[i], ONE);
        things_settle(&s);
        assert_int_equal(race.made, 1);
        assert_int_equal(race.refused, 1); // afterwards the GET tells
        assert_int_equal(things_events(&s, "default", "ApplyFailed",
                                       "create v1/ConfigMap default/a: it is there already and not this "
                                       "subject's (managers: alice)"),
                         1);
        assert_hers_for_ever(&s);
        sim_fini(&s);
    }
}

static void refused_although_the_server_can_not_tell_at_once(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "other", ONE);
    race.get_fails = 2;
    things_settle(&s);
    assert_int_equal(race.get_fails, 0);
    assert_true(things_events(&s, "default", "ApplyFailed", "(managers: alice)") > 0);
    assert_hers_for_ever(&s);
    sim_fini(&s);
}

static void refused_when_the_host_dies_between(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "other", ONE);
    race.kills = true;
    assert_true(sim_run_and_die(&s, 1000, 60 * 1000));
    assert_int_equal(race.made, 1);
    things_settle(&s);
    assert_true(things_events(&s, "default", "ApplyFailed", "(managers: alice)") > 0);
    assert_hers_for_ever(&s);
    sim_fini(&s);
}

static void made_when_the_first_goes_again(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "other", ONE);
    race.removes = true;
    things_settle(&s);
    assert_int_equal(race.refused, 1);
    assert_string_equal(things_value(&s, "default", "a"), "1");
    sim_fini(&s);
}

static void taken_over_where_that_is_asked_for(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "other", "return { apply = { { object = cm('a', '1'), adopt = { 'alice' } } } }");
    things_settle(&s);
    assert_int_equal(race.refused, 1);
    char *object = object_a(&s);
    assert_null(strstr(object, "hers"));
    assert_string_equal(things_value(&s, "default", "a"), "1");
    free(object);
    sim_fini(&s);
}

// ---- two subjects of one script

// The second waits with its creation (its finalizer comes first, and that takes its time) until the first's
// is long through.
static uint64_t slow_finalizer(void *ud, const struct transport_request *r)
{
    (void)ud;
    return r->method == METHOD_PATCH && strstr(r->path, "/things/t2?") != NULL ? 8000 : 2;
}

static void one_child_of_two_subjects(const char *reads, size_t lost)
{
    struct sim s;
    char *body = xasprintf("%s\nlocal far = cm('far', '1')\nfar.metadata.namespace = 'other'\n"
                           "return { apply = { cm('x', o.spec.v), o.metadata.name == 't2' and far or nil } }",
                           reads);
    things_start(&s, body, "");
    free(body);
    things_put(&s, "t0", "{\"v\":\"0\"}"); // the kinds are known, and watched
    things_settle(&s);
    things_delete(&s, "t0");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "x"), "absent");
    apiserver_set_latency(s.server, slow_finalizer, &s);
    things_put(&s, "t2", "{\"v\":\"2\"}");
    sim_run(&s, 500);
    things_put(&s, "t1", "{\"v\":\"1\"}");
    sim_run(&s, 2000);
    assert_string_equal(things_value(&s, "default", "x"), "1");
    struct json_doc *doc = sim_get(&s, "v1", "configmaps", "x");
    char *version = xstrdup(json_str(json_path(json_root(doc), "metadata", "resourceVersion", NULL)));
    json_doc_free(doc);
    sim_run(&s, 60 * 1000);
    doc = sim_get(&s, "v1", "configmaps", "x");
    assert_string_equal(json_str(json_path(json_root(doc), "metadata", "resourceVersion", NULL)), version);
    json_doc_free(doc);
    free(version);
    assert_string_equal(things_value(&s, "other", "far"), "1");
    assert_true(things_events(&s, "default", "ApplyFailed", "/ConfigMap default/x: subject t1 (UID ") > 0);
    assert_int_equal(things_requests(&s, "PATCH", " 409 "), lost);
    things_delete(&s, "t1"); // then it may have it
    sim_run(&s, 20 * 60 * 1000);
    assert_string_equal(things_value(&s, "default", "x"), "2");
    sim_fini(&s);
}

static void the_second_subject_is_refused(void **unused)
{
    (void)unused;
    one_child_of_two_subjects("", 0);
    one_child_of_two_subjects("world.list('v1/ConfigMap')", 1); // absence is known: no GET comes first
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_second_is_refused),
        cmocka_unit_test(refused_although_the_server_can_not_tell_at_once),
        cmocka_unit_test(refused_when_the_host_dies_between),
        cmocka_unit_test(made_when_the_first_goes_again),
        cmocka_unit_test(taken_over_where_that_is_asked_for),
        cmocka_unit_test(the_second_subject_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
