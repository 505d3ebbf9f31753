// Events: where they live, how long they are, how many there are, and what the server's refusals lead to.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/strset.h"
#include "run/report/recorder.h"
#include "support/fake_transport.h"
#include "unit.h"

#define WALL_START_MS 1767225600000LL // 2026-01-01T00:00:00Z
#define EVENTS "/events"

enum { MINUTE = 60 * 1000 };

struct fixture {
    struct clock *clock;
    struct loop *loop;
    struct fake_transport *fake;
    struct client *client;
    struct discovery *discovery;
    struct metrics *metrics;
    struct recorder *recorder;
    struct buf answer;
    bool core_only;   // the server has no events.k8s.io
    int status;       // of writes; 0: as they come
    const char *body; // of a refusal
    int64_t retry_after_ms;
};

#define RESOURCE(group_version)                                                                              \
    "{\"metadata\":{\"name\":\"" group_version "\"},\"versions\":[{\"version\":\"v1\",\"freshness\":"        \
    "\"Current\",\"resources\":[{\"resource\":\"events\",\"responseKind\":{\"group\":\"\",\"version\":"      \
    "\"\",\"kind\":\"Event\"},\"scope\":\"Namespaced\",\"verbs\":[\"create\",\"patch\"]}]}]}"

static bool serve(void *ud, const struct fake_request *r, struct fake_reply *ret)
{
    struct fixture *f = ud;
    buf_reset(&f->answer);
    *ret = (struct fake_reply){.status = 200};
    if (strcmp(r->path, "/api") == 0)
        buf_addf(&f->answer, "{\"kind\":\"APIGroupDiscoveryList\",\"items\":[%s]}", RESOURCE(""));
    else if (strcmp(r->path, "/apis") == 0)
        buf_addf(&f->answer, "{\"kind\":\"APIGroupDiscoveryList\",\"items\":[%s]}",
                 f->core_only ? "" : RESOURCE("events.k8s.io"));
    else if (f->status != 0) {
        ret->status = f->status;
        ret->retry_after_ms = f->retry_after_ms;
        buf_add_str(&f->answer, f->body == NULL ? "{}" : f->body);
    } else {
        ret->status = r->method == METHOD_POST ? 201 : 200;
        buf_add_str(&f->answer, "{\"metadata\":{\"name\":\"x\"}}");
    }
    ret->body = f->answer.data;
    return true;
}

static void open(struct fixture *f, bool core_only)
{
    *f = (struct fixture){.core_only = core_only};
    buf_init(&f->answer, 1 << 20);
    f->clock = clock_virtual_new(WALL_START_MS);
    f->loop = loop_new(f->clock);
    f->fake = fake_transport_new(f->loop);
    fake_on_request(f->fake, serve, f);
    f->client = client_new_with(f->loop, fake_transport_get(f->fake), NULL);
    f->discovery = discovery_new(f->client);
    f->metrics = metrics_new();
    f->recorder = recorder_new(&(struct recorder_options){.loop = f->loop,
                                                          .client = f->client,
                                                          .discovery = f->discovery,
                                                          .metrics = f->metrics,
                                                          .instance = "unit",
                                                          .seed = 7});
    discovery_refresh(f->discovery);
    loop_run_until(f->loop, 10);
}

static void run(struct fixture *f, uint64_t ms)
{
    loop_run_until(f->loop, loop_now_ms(f->loop) + ms);
}

static void shut(struct fixture *f)
{
    recorder_free(f->recorder);
    discovery_free(f->discovery);
    client_free(f->client);
    fake_transport_free(f->fake);
    metrics_free(f->metrics);
    loop_free(f->loop);
    clock_free(f->clock);
    buf_fini(&f->answer);
}

static struct object *thing(const char *ns, const char *name)
{
    char *text = xasprintf("{\"metadata\":{\"name\":\"%s\",%s%s%s\"uid\":\"uid-%s-%s\"}}", name,
                           ns == NULL ? "" : "\"namespace\":\"", ns == NULL ? "" : ns,
                           ns == NULL ? "" : "\",", ns == NULL ? "" : ns, name);
    struct json_doc *doc;
    struct object *o;
    assert_int_equal(json_parse(text, strlen(text), &doc, NULL), 0);
    assert_int_equal(object_new(gvk_parse("x.test/v1/Thing", NULL), json_root(doc), &o, NULL), 0);
    json_doc_free(doc);
    free(text);
    return o;
}

static size_t writes(const struct fixture *f, enum transport_method m)
{
    return fake_request_count_of(f->fake, m, EVENTS);
}

// The body of the i-th write from the end.
static struct json_doc *sent(const struct fixture *f, size_t from_end)
{
    const struct fake_request *r = fake_request(f->fake, fake_request_count(f->fake) - 1 - from_end);
    struct json_doc *doc;
    assert_int_equal(json_parse(r->body, r->body_len, &doc, NULL), 0);
    return doc;
}

static void say(struct fixture *f, const struct object *o, const char *reason, const char *note)
{
    recorder_event(f->recorder, o, "Warning", reason, "Reconcile", note);
}

static double counted(struct fixture *f, const char *result)
{
    char *line = xasprintf("tidelock_events_total{result=\"%s\"}", result);
    struct buf out;
    buf_init(&out, 1 << 20);
    metrics_render(f->metrics, &out);
    const char *at = strstr(out.data, line);
    double n = at == NULL ? 0 : strtod(at + strlen(line), NULL);
    buf_fini(&out);
    free(line);
    return n;
}

static void equal_ones_are_one_series(void **unused)
{
    struct fixture f;
    (void)unused;
    open(&f, false);
    struct object *o = thing("n", "t");
    for (int i = 0; i < 1000; i++) {
        say(&f, o, "Broken", "the same");
        run(&f, 10); // 10 s in all
    }
    run(&f, MINUTE);
    assert_int_equal(writes(&f, METHOD_POST), 1);
    assert_in_range(writes(&f, METHOD_PATCH), 1, 3);
    struct json_doc *doc = sent(&f, 0);
    assert_int_equal(json_get_int(json_get(json_root(doc), "series"), "count", 0), 1000);
    assert_string_equal(json_str(json_path(json_root(doc), "series", "lastObservedTime", NULL)),
                        "2026-01-01T00:00:10.000000Z");
    json_doc_free(doc);
    size_t before = writes(&f, METHOD_PATCH);
    run(&f, 30 * MINUTE);
    assert_int_equal(writes(&f, METHOD_PATCH), before); // nothing new, nothing written
    object_unref(o);
    shut(&f);
}

static void texts_that_vary_are_combined(void **unused)
{
    struct fixture f;
    char note[64];
    (void)unused;
    open(&f, false);
    struct object *o = thing("n", "t");
    for (int i = 0; i < 1000; i++) {
        snprintf(note, sizeof note, "attempt %d", i);
        say(&f, o, "Broken", note);
        run(&f, 10);
    }
    run(&f, MINUTE);
    assert_int_equal(writes(&f, METHOD_POST), 11); // ten, and the combined one
    assert_in_range(writes(&f, METHOD_PATCH), 1, 3);
    struct json_doc *doc = sent(&f, 0);
    assert_int_equal(json_get_int(json_get(json_root(doc), "series"), "count", 0), 990);
    json_doc_free(doc);
    for (int i = 0; i < 30; i++) { // another reason is not held back by that one
        snprintf(note, sizeof note, "Reason%d", i);
        say(&f, o, note, "text");
    }
    run(&f, MINUTE);
    assert_int_equal(writes(&f, METHOD_POST), 11 + 30);
    object_unref(o);
    shut(&f);
}

static void notes_and_reasons_have_limits(void **unused)
{
    struct fixture f;
    char note[5001], reason[201];
    (void)unused;
    open(&f, false);
    struct object *o = thing("n", "t");
    for (size_t i = 0; i < 5000; i += 2) // two bytes a character, after one of one byte
        memcpy(note + i, "\xc3\xa4", 2);
    note[0] = 'a';
    note[1] = 'b';
    note[2] = 'c';
    memmove(note + 3, note + 4, 4996);
    note[4999] = '\0';
    memset(reason, 'R', 200);
    reason[200] = '\0';
    say(&f, o, reason, note);
    run(&f, 1000);
    struct json_doc *doc = sent(&f, 0);
    const char *n = json_get_str(json_root(doc), "note"), *r = json_get_str(json_root(doc), "reason");
    assert_int_equal(strlen(n), 1023); // a character of two bytes is not cut in half
    assert_int_equal(strlen(r), 128);
    json_doc_free(doc);
    say(&f, o, "", "");
    run(&f, 1000);
    doc = sent(&f, 0);
    assert_string_equal(json_get_str(json_root(doc), "reason"), "Unknown");
    assert_string_equal(json_get_str(json_root(doc), "note"), "Unknown");
    json_doc_free(doc);
    object_unref(o);
    shut(&f);
}

static void cluster_scoped_ones_go_to_default(void **unused)
{
    struct fixture f;
    (void)unused;
    open(&f, false);
    struct object *o = thing(NULL, "planet");
    say(&f, o, "Broken", "text");
    run(&f, 1000);
    assert_string_equal(fake_request_last(f.fake)->path, "/apis/events.k8s.io/v1/namespaces/default/events");
    struct json_doc *doc = sent(&f, 0);
    assert_string_equal(json_str(json_path(json_root(doc), "metadata", "namespace", NULL)), "default");
    assert_null(json_path(json_root(doc), "regarding", "namespace", NULL));
    assert_string_equal(json_get_str(json_root(doc), "eventTime"), "2026-01-01T00:00:00.010000Z");
    assert_string_equal(json_get_str(json_root(doc), "action"), "Reconcile");
    json_doc_free(doc);
    object_unref(o);
    shut(&f);
}

static void core_where_only_that_exists(void **unused)
{
    struct fixture f;
    (void)unused;
    open(&f, true);
    struct object *o = thing("n", "t");
    say(&f, o, "Broken", "text");
    run(&f, 1000);
    assert_string_equal(fake_request_last(f.fake)->path, "/api/v1/namespaces/n/events");
    struct json_doc *doc = sent(&f, 0);
    assert_string_equal(json_get_str(json_root(doc), "apiVersion"), "v1");
    assert_string_equal(json_get_str(json_root(doc), "message"), "text");
    assert_string_equal(json_str(json_path(json_root(doc), "involvedObject", "namespace", NULL)), "n");
    assert_string_equal(json_get_str(json_root(doc), "firstTimestamp"), "2026-01-01T00:00:00Z");
    json_doc_free(doc);
    say(&f, o, "Broken", "text");
    run(&f, MINUTE);
    doc = sent(&f, 0);
    assert_int_equal(fake_request_last(f.fake)->method, METHOD_PATCH);
    assert_int_equal(json_get_int(json_root(doc), "count", 0), 2);
    json_doc_free(doc);
    object_unref(o);
    shut(&f);
}

static void nothing_more_in_a_namespace_that_goes(void **unused)
{
    struct fixture f;
    (void)unused;
    open(&f, false);
    struct object *o = thing("n", "t"), *other = thing("m", "t");
    f.status = 403;
    f.body =
        "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"code\":403,\"details\":{\"causes\":[{\"reason\":"
        "\"NamespaceTerminating\"}]}}";
    say(&f, o, "Broken", "one");
    say(&f, o, "Broken", "two"); // waits behind it
    run(&f, 1000);
    assert_int_equal(writes(&f, METHOD_POST), 1);
    for (int i = 0; i < 20; i++) {
        say(&f, o, "Broken", i % 2 == 0 ? "three" : "four");
        run(&f, 10 * 1000);
    }
    assert_int_equal(writes(&f, METHOD_POST), 1);
    assert_int_equal(writes(&f, METHOD_PATCH), 0);
    f.status = 0;
    say(&f, other, "Broken", "one"); // elsewhere it goes on
    run(&f, 1000);
    assert_int_equal(writes(&f, METHOD_POST), 2);
    object_unref(o);
    object_unref(other);
    shut(&f);
}

static void refused_ones_are_not_repeated(void **unused)
{
    struct fixture f;
    (void)unused;
    open(&f, false);
    struct object *o = thing("n", "t");
    f.status = 403; // no right to write Events
    for (int i = 0; i < 20; i++) {
        say(&f, o, "Broken", "text");
        run(&f, 10 * 1000);
    }
    assert_int_equal(fake_request_count_of(f.fake, METHOD_POST, EVENTS), 1);
    assert_int_equal(writes(&f, METHOD_PATCH), 0);
    assert_int_equal((int)counted(&f, "failed"), 1);
    object_unref(o);
    shut(&f);
}

static void lost_ones_are_tried_again(void **unused)
{
    struct fixture f;
    (void)unused;
    open(&f, false);
    struct object *o = thing("n", "t");
    f.status = 429;
    f.retry_after_ms = 20 * 1000;
    say(&f, o, "Broken", "one");
    say(&f, o, "Broken", "two");
    run(&f, 1000);
    assert_int_equal(writes(&f, METHOD_POST), 1); // the second waits as well
    f.status = 0;
    run(&f, 15 * 1000);
    assert_int_equal(writes(&f, METHOD_POST), 1);
    run(&f, 10 * 1000);
    assert_int_equal(writes(&f, METHOD_POST), 3);
    assert_int_equal((int)counted(&f, "sent"), 2);
    f.status = 503;
    f.retry_after_ms = 0;
    say(&f, o, "Broken", "three");
    run(&f, 10 * MINUTE);
    assert_int_equal(writes(&f, METHOD_POST), 3 + 5); // then it is given up
    object_unref(o);
    shut(&f);
}

static void memory_is_bounded(void **unused)
{
    struct fixture f;
    char name[32];
    (void)unused;
    open(&f, false);
    for (int i = 0; i < 3000; i++) {
        snprintf(name, sizeof name, "t%d", i);
        struct object *o = thing("n", name);
        say(&f, o, "Broken", "text");
        object_unref(o);
    }
    run(&f, MINUTE);
    assert_in_range(writes(&f, METHOD_POST), 1000, 1001);
    assert_in_range((int)counted(&f, "dropped"), 1999, 2000);
    shut(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_ones_are_one_series),
        cmocka_unit_test(texts_that_vary_are_combined),
        cmocka_unit_test(notes_and_reasons_have_limits),
        cmocka_unit_test(cluster_scoped_ones_go_to_default),
        cmocka_unit_test(core_where_only_that_exists),
        cmocka_unit_test(nothing_more_in_a_namespace_that_goes),
        cmocka_unit_test(refused_ones_are_not_repeated),
        cmocka_unit_test(lost_ones_are_tried_again),
        cmocka_unit_test(memory_is_bounded),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
