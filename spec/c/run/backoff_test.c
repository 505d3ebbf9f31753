// What the host asks for besides a pass's writes is asked again at growing intervals while the server refuses
// it, and done once it does not.

#include "run/things.h"

enum { TIMES_MAX = 4000, OUTAGE_MS = 15 * 60 * 1000, HEALED_MS = 11 * 60 * 1000 };

// Requests of the host that match are answered so; when they came.
static struct {
    const char *method, *piece, *no_piece;
    int status;
    uint64_t times[TIMES_MAX];
    size_t count;
} outage;

static enum apiserver_fault refuse(struct sim *s, const struct apiserver_passage *p,
                                   struct apiserver_answer *ret_answer)
{
    static char body[256];
    if (p->answered || strcmp(p->method, outage.method) != 0 || strstr(p->path, outage.piece) == NULL ||
        strstr(p->path, "watch=") != NULL ||
        (outage.no_piece != NULL && strstr(p->path, outage.no_piece) != NULL))
        return APISERVER_PASS;
    assert_true(outage.count < TIMES_MAX);
    outage.times[outage.count++] = loop_now_ms(s->loop);
    snprintf(body, sizeof body,
             "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"message\":\"not "
             "now\",\"reason\":"
             "\"%s\",\"code\":%d}",
             outage.status == 403 ? "Forbidden" : "InternalError", outage.status);
    *ret_answer = (struct apiserver_answer){.status = outage.status, .body = body};
    return APISERVER_ANSWER;
}

static void begin(struct sim *s, const char *method, const char *piece, const char *no_piece, int status)
{
    outage.method = method;
    outage.piece = piece;
    outage.no_piece = no_piece;
    outage.status = status;
    outage.count = 0;
    s->fault = refuse;
    loop_timer_stop(s->player); // nothing in here needs the other controllers, and they take time
}

// Over the whole outage between `least` and `most` requests, no more of them in its later thirds than before,
// and some to the end.
static void end(struct sim *s, size_t least, size_t most)
{
    size_t thirds[3] = {0};
    s->fault = NULL;
    assert_in_range(outage.count, least, most);
    for (size_t i = 0; i < outage.count; i++) {
        uint64_t third = (outage.times[i] - outage.times[0]) * 3 / OUTAGE_MS;
        thirds[third > 2 ? 2 : third]++;
    }
    assert_true(thirds[1] <= thirds[0] && thirds[2] <= thirds[1] + thirds[1] / 3 + 1 && thirds[2] > 0);
}

static const char filtered[] = "selector = 'ours=yes'";
#define PATCH                                                                                                \
    "patch = { { apiVersion = 'v1', kind = 'ConfigMap', metadata = { name = 'target', namespace = 'other', " \
    "labels = "                                                                                              \
    "{ [o.metadata.name] = 'here' } } } }"

static void put_thing(struct sim *s, const char *name, const char *ours)
{
    char *text = xasprintf("{\"apiVersion\":\"x.test/v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"%s\","
                           "\"namespace\":\"default\",\"labels\":{\"ours\":\"%s\"}},\"spec\":{}}",
                           name, ours);
    sim_apply(s, "kubectl", text);
    free(text);
}

static void start(struct sim *s, const char *body, const char *rest)
{
    things_start(s, body, rest);
    sim_request(s, "alice", "POST", "/api/v1/namespaces/other/configmaps", "application/json",
                "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"target\"}}");
    put_thing(s, "t", "yes");
    put_thing(s, "u", "yes");
    things_settle(s);
}

static size_t labels_of_target(struct sim *s)
{
    struct json_doc *doc = apiserver_get_json(s->server, "v1", "configmaps", "other", "target");
    size_t n = json_count(json_path(json_root(doc), "metadata", "labels", NULL));
    json_doc_free(doc);
    return n;
}

static const int statuses[] = {403, 500, 503};
enum { STATUSES = sizeof statuses / sizeof statuses[0] };

static void what_became_of_a_subject(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < STATUSES; i++) {
        struct sim s;
        start(&s, "return { apply = { cm(o.metadata.name, '1') }, " PATCH " }", filtered);
        assert_int_equal(labels_of_target(&s), 2);
        begin(&s, "GET", THINGS_PATH "/t", NULL, statuses[i]);
        put_thing(&s, "t", "no");
        sim_run(&s, OUTAGE_MS);
        assert_string_equal(things_value(&s, "default", "t"), "1"); // nothing is decided
        end(&s, 10, 20);
        sim_run(&s, HEALED_MS);
        assert_string_equal(things_value(&s, "default", "t"), "absent");
        assert_int_equal(labels_of_target(&s), 1);
        sim_fini(&s);
    }
}

// Five that are refused, and one that is not.
static void one_does_not_hold_up_the_others(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s, "return { apply = { cm(o.metadata.name, '1') } }", filtered);
    for (char name[] = "ta"; name[1] < 'f'; name[1]++)
        put_thing(&s, name, "yes");
    things_settle(&s);
    begin(&s, "GET", THINGS_PATH "/t", NULL, 403);
    for (char name[] = "ta"; name[1] < 'f'; name[1]++)
        put_thing(&s, name, "no");
    put_thing(&s, "u", "no");
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "u"), "absent");
    assert_string_equal(things_value(&s, "default", "ta"), "1");
    sim_run(&s, OUTAGE_MS);
    end(&s, 5 * 10, 5 * 20);
    sim_run(&s, HEALED_MS);
    assert_string_equal(things_value(&s, "default", "te"), "absent");
    sim_fini(&s);
}

static void patches_of_gone_subjects(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < STATUSES; i++) {
        for (unsigned writing = 0; writing < 2; writing++) {
            struct sim s;
            start(&s, "return { " PATCH " }", "");
            assert_int_equal(labels_of_target(&s), 2);
            if (writing > 0)
                begin(&s, "PATCH", "/configmaps/target", NULL, statuses[i]);
            else
                begin(&s, "GET", "/api/v1/configmaps?", NULL, statuses[i]);
            things_delete(&s, "t");
            sim_run(&s, OUTAGE_MS);
            assert_int_equal(labels_of_target(&s), 2);
            end(&s, 6, 16);
            sim_run(&s, HEALED_MS);
            assert_int_equal(labels_of_target(&s), 1);
            sim_fini(&s);
        }
    }
}

static void those_that_left_while_nobody_looked(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < STATUSES; i++) {
        struct sim s;
        start(&s, "return { apply = { cm(o.metadata.name, '1') } }", filtered);
        sim_stop_host(&s);
        put_thing(&s, "t", "no");
        begin(&s, "GET", "/apis/x.test/v1/things?", "labelSelector", statuses[i]);
        sim_start_host(&s);
        sim_run(&s, OUTAGE_MS);
        assert_string_equal(things_value(&s, "default", "t"), "1");
        end(&s, 4, 9);
        sim_run(&s, HEALED_MS);
        assert_string_equal(things_value(&s, "default", "t"), "absent");
        sim_fini(&s);
    }
}

static void the_hosts_key(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < STATUSES; i++) {
        struct sim s;
        start(&s, "return { apply = { cm(o.metadata.name, '1') } }", "");
        begin(&s, i == 0 ? "POST" : "GET", "/secrets", NULL, statuses[i]);
        things_put_script(&s, "return { apply = { cm(o.metadata.name, world.secret_value('x')) } }", "");
        sim_run(&s, OUTAGE_MS);
        assert_string_equal(things_value(&s, "default", "t"), "1");
        end(&s, 14, 35);
        sim_run(&s, HEALED_MS);
        assert_int_equal(strlen(things_value(&s, "default", "t")), 32);
        sim_fini(&s);
    }
}

static void an_inventory_that_can_not_be_read(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < STATUSES; i++) {
        struct sim s;
        start(&s, "return { apply = { cm(o.metadata.name, '1') } }", "");
        begin(&s, "GET", "/configmaps/tidelock-inventory-", NULL, statuses[i]);
        sim_restart_host(&s);
        put_thing(&s, "v", "yes");
        sim_run(&s, OUTAGE_MS);
        assert_string_equal(things_value(&s, "default", "v"), "absent");
        end(&s, 25, 60);
        sim_run(&s, HEALED_MS);
        assert_string_equal(things_value(&s, "default", "v"), "1");
        sim_fini(&s);
    }
}

// Sixty keys want it, each with a back-off of its own.
static void an_inventory_that_can_not_be_written(void **unused)
{
    (void)unused;
    for (size_t i = 0; i < STATUSES; i++) {
        struct sim s;
        things_start(&s, "return { apply = { cm(o.metadata.name, '1') } }",
                     "retry = { kind = 'exponential', base = '1s', max = '20s', jitter = true }");
        begin(&s, "PATCH", "/configmaps/tidelock-inventory-", NULL, statuses[i]);
        for (unsigned k = 0; k < 60; k++) {
            char name[16];
            snprintf(name, sizeof name, "t%u", k);
            put_thing(&s, name, "yes");
            sim_run(&s, 200);
        }
        sim_run(&s, OUTAGE_MS);
        assert_string_equal(things_value(&s, "default", "t7"), "absent");
        end(&s, 12, 60);
        sim_run(&s, HEALED_MS);
        for (unsigned k = 0; k < 60; k++) {
            char name[16];
            snprintf(name, sizeof name, "t%u", k);
            assert_string_equal(things_value(&s, "default", name), "1");
        }
        sim_fini(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_became_of_a_subject),
        cmocka_unit_test(one_does_not_hold_up_the_others),
        cmocka_unit_test(patches_of_gone_subjects),
        cmocka_unit_test(those_that_left_while_nobody_looked),
        cmocka_unit_test(the_hosts_key),
        cmocka_unit_test(an_inventory_that_can_not_be_read),
        cmocka_unit_test(an_inventory_that_can_not_be_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
