// Watches that are frozen for long: no pass decides on a store that is older than the key's last write.

#include "run/things.h"

// What it read of its child, and which spec that was for, stands in the status.
#define SCRIPT                                                                                               \
    "local live = world.get('v1/ConfigMap', 'a')\n"                                                          \
    "return { apply = { cm('a', o.spec.v) },\n"                                                              \
    "  status = { v = o.spec.v, live = live and live.data.v or 'none',\n"                                    \
    "    note = live and live.data.note or '' } }"

static struct {
    const char *plural;    // its watches are frozen; NULL: none
    bool lists_fail;       // nor can it be listed
    size_t frozen, failed; // how often that happened
} ice;

// A list by watch is a list; what it goes on as is a watch that lives.
static enum apiserver_fault freeze(struct sim *s, const struct apiserver_passage *p,
                                   struct apiserver_answer *ret_answer)
{
    (void)s;
    const char *at = ice.plural == NULL ? NULL : strstr(p->path, ice.plural);
    if (p->answered || at == NULL || at[strlen(ice.plural)] != '?' || strcmp(p->method, "GET") != 0)
        return APISERVER_PASS;
    if (strstr(p->path, "watch=") != NULL && strstr(p->path, "sendInitialEvents") == NULL) {
        ice.frozen++;
        return APISERVER_HANG;
    }
    if (!ice.lists_fail)
        return APISERVER_PASS;
    ice.failed++;
    *ret_answer = (struct apiserver_answer){.status = 503, .body = "{}"};
    return APISERVER_ANSWER;
}

static void start(struct sim *s)
{
    memset(&ice, 0, sizeof ice);
    things_start(s, SCRIPT, "");
    s->fault = freeze;
    things_put(s, "t", "{\"v\":\"1\"}");
    things_settle(s);
    assert_string_equal(things_value(s, "default", "a"), "1");
}

static void freeze_watches_of(struct sim *s, const char *plural)
{
    ice.plural = plural;
    apiserver_close_watches(s->server);
    sim_run(s, 3000);
    assert_true(ice.frozen > 0);
}

// Did a pass for spec.v read that of its child?
static bool decided(struct sim *s, const char *v, const char *live)
{
    char *read = xasprintf("\"live\":\"%s\"", live), *spec = xasprintf("\"v\":\"%s\"}}", v);
    size_t n = things_requests(s, read, spec);
    free(read);
    free(spec);
    return n > 0;
}

static void the_next_pass_waits_for_a_list(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    freeze_watches_of(&s, "/configmaps");
    things_put(&s, "t", "{\"v\":\"2\"}");
    sim_run(&s, 1000);
    assert_string_equal(things_value(&s, "default", "a"), "2");
    things_put(&s, "t", "{\"v\":\"3\"}");
    sim_run(&s, 3500);
    assert_string_equal(things_value(&s, "default", "a"), "2"); // it is waited for
    sim_run(&s, 5000);
    assert_string_equal(things_value(&s, "default", "a"), "3");
    assert_true(decided(&s, "3", "2"));
    assert_false(decided(&s, "3", "1"));
    ice.plural = NULL;
    things_settle(&s);
    assert_true(decided(&s, "3", "3"));
    size_t writes = things_writes(&s);
    sim_run(&s, 60 * 60 * 1000);
    assert_int_equal(things_writes(&s), writes);
    sim_fini(&s);
}

static void as_long_as_lists_fail(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    ice.lists_fail = true;
    freeze_watches_of(&s, "/configmaps");
    things_put(&s, "t", "{\"v\":\"2\"}");
    sim_run(&s, 1000);
    things_put(&s, "t", "{\"v\":\"3\"}");
    sim_run(&s, 10 * 60 * 1000);
    assert_string_equal(things_value(&s, "default", "a"), "2");
    assert_true(ice.failed > 2);
    ice.lists_fail = false;
    sim_run(&s, 60 * 1000);
    assert_string_equal(things_value(&s, "default", "a"), "3");
    assert_false(decided(&s, "3", "1"));
    sim_fini(&s);
}

// Somebody changes the subject unseen, then we write its status: the list tells both in one.
static void a_change_that_the_list_tells_with_our_write(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    freeze_watches_of(&s, "/things");
    things_put(&s, "t", "{\"v\":\"2\"}");
    sim_run(&s, 1000);
    assert_string_equal(things_value(&s, "default", "a"), "1"); // it has gone unseen
    sim_request(&s, "alice", "PATCH", THINGS_CONFIG_MAPS "/a", THINGS_MERGE, "{\"data\":{\"note\":\"x\"}}");
    sim_run(&s, 1000);
    assert_int_equal(things_requests(&s, "/things/t/status", "\"note\":\"x\""), 1);
    assert_string_equal(things_value(&s, "default", "a"), "1");
    sim_run(&s, 10 * 1000);
    assert_string_equal(things_value(&s, "default", "a"), "2");
    sim_fini(&s);
}

// A host that is to stop does not wait.
static void not_when_the_host_stops(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    ice.lists_fail = true;
    freeze_watches_of(&s, "/configmaps");
    things_put(&s, "t", "{\"v\":\"2\"}");
    sim_run(&s, 8000);
    sim_stop_host(&s); // asserts that it does
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_next_pass_waits_for_a_list),
        cmocka_unit_test(as_long_as_lists_fail),
        cmocka_unit_test(a_change_that_the_list_tells_with_our_write),
        cmocka_unit_test(not_when_the_host_stops),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
