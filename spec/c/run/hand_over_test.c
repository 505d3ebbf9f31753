// spec.replicas of a child goes from the script to an autoscaler and back, and never through the default.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/things.h"

#define FLEETS "/apis/x.test/v1/namespaces/default/fleets"
#define FLEET FLEETS "/f"

static const char fleet_crd[] =
    "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{"
    "\"name\":\"fleets.x.test\"},\"spec\":{\"group\":\"x.test\",\"scope\":\"Namespaced\",\"names\":{"
    "\"plural\":"
    "\"fleets\",\"singular\":\"fleet\",\"kind\":\"Fleet\"},\"versions\":[{\"name\":\"v1\",\"served\":true,"
    "\"storage\":true,\"subresources\":{\"scale\":{\"specReplicasPath\":\".spec.replicas\","
    "\"statusReplicasPath\":\".status.replicas\"}},\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\","
    "\"properties\":{\"spec\":{\"type\":\"object\",\"default\":{},\"properties\":{\"replicas\":{\"type\":"
    "\"integer\",\"default\":1},\"image\":{\"type\":\"string\"}}}}}}}]}}";

static const char body[] =
    "return { apply = { { apiVersion = 'x.test/v1', kind = 'Fleet', metadata = { name = 'f' },\n"
    "  spec = { replicas = o.spec.replicas, image = o.spec.image } } } }";

static void start(struct sim *s)
{
    sim_init(s, 3);
    sim_apply(s, "kubectl", THINGS_CRD("things", "thing", "Thing", "Namespaced"));
    sim_apply(s, "kubectl", fleet_crd);
    things_put_script(s, body, "");
    things_put(s, "t", "{\"replicas\":2,\"image\":\"a\"}");
    things_settle(s);
}

static int64_t replicas(struct sim *s)
{
    struct json_doc *doc = sim_get(s, "x.test/v1", "fleets", "f");
    int64_t n = json_get_int(json_get(json_root(doc), "spec"), "replicas", -1);
    json_doc_free(doc);
    return n;
}

static void assert_image(struct sim *s, const char *image)
{
    struct json_doc *doc = sim_get(s, "x.test/v1", "fleets", "f");
    assert_string_equal(json_str(json_path(json_root(doc), "spec", "image", NULL)), image);
    json_doc_free(doc);
}

static bool owns(struct sim *s, const char *manager)
{
    bool found = false;
    struct json_doc *doc = sim_get(s, "x.test/v1", "fleets", "f");
    for (struct json_iter i = json_iter(json_path(json_root(doc), "metadata", "managedFields", NULL));
         json_next(&i);)
        found |= strncmp(json_get_str(i.value, "manager"), manager, strlen(manager)) == 0 &&
                 json_path(i.value, "fieldsV1", "f:spec", "f:replicas", NULL) != NULL;
    json_doc_free(doc);
    return found;
}

static void scale(struct sim *s, int n)
{
    char *text = xasprintf("{\"spec\":{\"replicas\":%d}}", n);
    sim_request(s, "hpa", "PATCH", FLEET "?fieldManager=hpa", THINGS_MERGE, text);
    free(text);
}

static size_t applies(struct sim *s)
{
    return things_requests(s, "PATCH " FLEET, "");
}

static void stay_until_taken(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    assert_int_equal(replicas(&s), 2);
    size_t before = applies(&s);
    things_put(&s, "t", "{\"image\":\"a\"}");
    things_settle(&s);
    assert_int_equal(replicas(&s), 2); // nobody else has them yet
    assert_int_equal(applies(&s), before);
    things_put(&s, "t", "{\"image\":\"b\"}");
    things_settle(&s);
    assert_image(&s, "b");
    assert_int_equal(replicas(&s), 2);
    assert_true(owns(&s, "tidelock-"));
    before = applies(&s);
    sim_restart_host(&s);
    things_settle(&s);
    assert_int_equal(applies(&s), before);
    scale(&s, 7);
    things_settle(&s);
    things_put(&s, "t", "{\"image\":\"c\"}");
    things_settle(&s);
    assert_image(&s, "c");
    assert_int_equal(replicas(&s), 7);
    assert_false(owns(&s, "tidelock-"));
    things_put(&s, "t", "{\"image\":\"c\",\"replicas\":2}");
    things_settle(&s);
    assert_int_equal(replicas(&s), 2); // and back
    sim_fini(&s);
}

// After a restart the server is asked who has the replicas, and nothing is written: so no Event is new
// either.
static void a_question_is_no_write(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    things_put_script(
        &s,
        "local r = { events = { { type = 'Normal', reason = 'Seen', message = 'it is there' } },\n"
        "  apply = { { apiVersion = 'x.test/v1', kind = 'Fleet', metadata = { name = 'f' },\n"
        "  spec = { replicas = o.spec.replicas, image = o.spec.image } } } }\n"
        "return r",
        "");
    things_put(&s, "t", "{\"image\":\"a\"}");
    things_settle(&s);
    sim_run(&s, 120 * 1000);
    size_t events = things_requests(&s, "/namespaces/default/events", ""),
           asked = things_requests(&s, "GET " FLEET, "");
    assert_int_equal(events, 1);
    sim_restart_host(&s);
    things_settle(&s);
    sim_run(&s, 120 * 1000);
    assert_true(things_requests(&s, "GET " FLEET, "") > asked);
    assert_int_equal(things_requests(&s, "/namespaces/default/events", ""), events);
    sim_fini(&s);
}

static void are_given_up_when_shared(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    sim_request(&s, "hpa", "PATCH", FLEET "?fieldManager=hpa", "application/apply-patch+yaml",
                "{\"apiVersion\":\"x.test/v1\",\"kind\":\"Fleet\",\"metadata\":{\"name\":\"f\"},\"spec\":{"
                "\"replicas\":2}}");
    things_put(&s, "t", "{\"image\":\"a\"}");
    things_settle(&s);
    assert_int_equal(replicas(&s), 2);
    assert_true(owns(&s, "hpa"));
    assert_false(owns(&s, "tidelock-"));
    sim_fini(&s);
}

// The autoscaler writes between the host's question and its apply.
static enum apiserver_fault overtake(struct sim *s, const struct apiserver_passage *p,
                                     struct apiserver_answer *ret_answer)
{
    (void)ret_answer;
    if (strcmp(p->method, "PATCH") == 0 && strncmp(p->path, FLEET, strlen(FLEET)) == 0 &&
        strcmp(p->user, "tidelock") == 0) {
        s->fault = NULL;
        scale(s, 5);
    }
    return APISERVER_PASS;
}

static void are_not_taken_back_from_who_is_faster(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    s.fault = overtake;
    things_put(&s, "t", "{\"image\":\"b\"}");
    things_settle(&s);
    assert_image(&s, "b");
    assert_int_equal(replicas(&s), 5);
    sim_fini(&s);
}

// Somebody edits another field between the pass, which found all as it should be, and the host's question.
static enum apiserver_fault edit(struct sim *s, const struct apiserver_passage *p,
                                 struct apiserver_answer *ret_answer)
{
    (void)ret_answer;
    if (strcmp(p->method, "GET") == 0 && strcmp(p->path, FLEET) == 0 && strcmp(p->user, "tidelock") == 0) {
        s->fault = NULL;
        sim_request(s, "alice", "PATCH", FLEET "?fieldManager=edit", THINGS_MERGE,
                    "{\"spec\":{\"image\":\"z\"}}");
    }
    return APISERVER_PASS;
}

static void an_edit_in_between_is_corrected(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    s.fault = edit;
    things_put(&s, "t", "{\"image\":\"a\"}");
    things_settle(&s);
    assert_null(s.fault);
    assert_image(&s, "a");
    assert_int_equal(replicas(&s), 2);
    sim_fini(&s);
}

// A field that somebody flips is fought over as ever while the replicas are kept.
static void fights_are_found_meanwhile(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    things_put(&s, "t", "{\"image\":\"a\"}");
    things_settle(&s);
    for (int i = 0; i < 8; i++) {
        sim_request(&s, "alice", "PATCH", FLEET "?fieldManager=edit", THINGS_MERGE,
                    "{\"spec\":{\"image\":\"z\"}}");
        sim_run(&s, 500);
    }
    assert_int_equal(things_events(&s, "default", "FieldConflict", "spec.image"), 1);
    assert_int_equal(replicas(&s), 2);
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(stay_until_taken),
        cmocka_unit_test(a_question_is_no_write),
        cmocka_unit_test(are_given_up_when_shared),
        cmocka_unit_test(are_not_taken_back_from_who_is_faster),
        cmocka_unit_test(an_edit_in_between_is_corrected),
        cmocka_unit_test(fights_are_found_meanwhile),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
