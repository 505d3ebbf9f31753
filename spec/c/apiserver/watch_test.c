// Watches and the transport they come through.
#include "apiserver/kit.h"
#include "base/strset.h"

struct reader {
    struct transport *transport;
    struct transfer *transfer;
    struct buf bytes;
    int started, done, code, status, stop;
    bool cancel_in_data;
    char *body;
};

static void on_start(void *ud, int status, const char *content_type)
{
    struct reader *r = ud;
    (void)content_type;
    r->started++;
    r->status = status;
}

static int on_data(void *ud, const char *data, size_t n)
{
    struct reader *r = ud;
    assert_int_equal(r->done, 0);
    buf_add(&r->bytes, data, n);
    if (r->cancel_in_data)
        transport_cancel(r->transfer);
    return r->stop;
}

static void on_done(void *ud, const struct transport_response *resp)
{
    struct reader *r = ud;
    r->done++;
    r->code = resp->err.code;
    r->status = resp->status;
    free(r->body);
    r->body = xstrdup(resp->body);
}

static void open_watch(struct kit *k, struct reader *r, const char *path)
{
    *r = (struct reader){0};
    buf_init(&r->bytes, 1 << 24);
    r->transport = apiserver_transport(k->server, "watcher");
    struct transport_request q = {.method = METHOD_GET, .path = path, .stream = true};
    struct transport_callbacks cb = {on_start, on_data, on_done, r};
    r->transfer = transport_send(r->transport, &q, &cb);
    assert_int_equal(r->started + r->done, 0); // never from inside
}

static void close_watch(struct reader *r)
{
    transport_free(r->transport);
    buf_fini(&r->bytes);
    free(r->body);
}

static void run(struct kit *k, uint64_t ms)
{
    loop_run_until(k->loop, loop_now_ms(k->loop) + ms);
}

// What came since the last call, as "TYPE name" a line, BOOKMARK with its resource version left out.
static void expect_frames(struct reader *r, const char *wanted)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    char *save = NULL;
    char *all = xstrdup(r->bytes.data == NULL ? "" : r->bytes.data);
    for (char *line = strtok_r(all, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
        struct json_doc *doc;
        assert_int_equal(json_parse(line, strlen(line), &doc, NULL), 0);
        const json *object = json_get(json_root(doc), "object");
        const char *name = json_str(json_path(object, "metadata", "name", NULL));
        bool end = json_path(object, "metadata", "annotations", "k8s.io/initial-events-end", NULL) != NULL;
        buf_addf(&text, "%s %s\n", json_get_str(json_root(doc), "type"),
                 name != NULL ? name
                 : end        ? "end"
                              : "-");
        json_doc_free(doc);
    }
    free(all);
    assert_string_equal(text.data == NULL ? "" : text.data, wanted);
    buf_fini(&text);
    buf_reset(&r->bytes);
}

static void put_cm(struct kit *k, const char *name, const char *labels, const char *value)
{
    char *body = xasprintf("{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"%s\","
                           "\"labels\":{%s}},\"data\":"
                           "{\"k\":\"%s\"}}",
                           name, labels, value);
    char *path = xasprintf(CM "/%s?fieldManager=m&force=true", name);
    kit_request(k, "m", "PATCH", path, APPLY, body);
    assert_true(k->status == 200 || k->status == 201);
    free(path);
    free(body);
}

static void test_watch_list(void **state)
{
    struct kit *k = *state;
    struct reader r;
    put_cm(k, "b", "", "1");
    put_cm(k, "a", "", "1");
    open_watch(k, &r,
               CM
               "?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true");
    run(k, 10);
    assert_int_equal(r.started, 1);
    expect_frames(&r, "ADDED a\nADDED b\nBOOKMARK end\n");
    put_cm(k, "a", "", "2");
    put_cm(k, "a", "", "2"); // nothing changes
    kit_expect(k, 200, "DELETE", CM "/b", NULL, NULL);
    run(k, 10);
    expect_frames(&r, "MODIFIED a\nDELETED b\n");
    run(k, 60000);
    expect_frames(&r, "BOOKMARK -\n");
    assert_int_equal(r.done, 0);
    close_watch(&r);
}

static void test_resume_and_gone(void **state)
{
    struct kit *k = *state;
    struct reader r;
    put_cm(k, "a", "", "1");
    kit_expect(k, 200, "GET", CM, NULL, NULL);
    char *rv = kit_rv(k), *path = xasprintf(CM "?watch=1&resourceVersion=%s", rv);
    put_cm(k, "a", "", "2");
    put_cm(k, "c", "", "2");
    open_watch(k, &r, path);
    run(k, 10);
    expect_frames(&r, "MODIFIED a\nADDED c\n");
    close_watch(&r);
    apiserver_compact(k->server);
    open_watch(k, &r, path);
    run(k, 10);
    assert_int_equal(r.status, 200); // told inside the stream
    assert_int_equal(r.done, 1);
    assert_int_equal(r.code, 0);
    assert_non_null(strstr(r.bytes.data, "\"type\":\"ERROR\""));
    assert_non_null(strstr(r.bytes.data, "\"reason\":\"Expired\",\"code\":410"));
    close_watch(&r);
    free(path);
    free(rv);
}

static void test_selectors(void **state)
{
    struct kit *k = *state;
    struct reader labels, fields;
    put_cm(k, "a", "\"app\":\"x\"", "1");
    put_cm(k, "b", "", "1");
    open_watch(k, &labels, CM "?watch=1&labelSelector=app%3Dx");
    open_watch(k, &fields, CM "?watch=1&fieldSelector=metadata.name%3Db");
    run(k, 10);
    expect_frames(&labels, "ADDED a\n");
    expect_frames(&fields, "ADDED b\n");
    put_cm(k, "a", "\"app\":\"y\"", "1"); // leaves
    put_cm(k, "b", "\"app\":\"x\"", "1"); // enters
    put_cm(k, "b", "\"app\":\"x\"", "2");
    put_cm(k, "a", "\"app\":\"y\"", "2");
    kit_expect(k, 200, "DELETE", CM "/a", NULL, NULL);
    kit_expect(k, 200, "DELETE", CM "/b", NULL, NULL);
    run(k, 10);
    expect_frames(&labels, "DELETED a\nADDED b\nMODIFIED b\nDELETED b\n");
    expect_frames(&fields, "MODIFIED b\nMODIFIED b\nDELETED b\n");
    close_watch(&labels);
    close_watch(&fields);
}

static void test_ends(void **state)
{
    struct kit *k = *state;
    struct reader r;
    open_watch(k, &r, CM "?watch=1&timeoutSeconds=5");
    run(k, 4000);
    assert_int_equal(r.done, 0);
    run(k, 2000);
    assert_int_equal(r.done, 1);
    assert_int_equal(r.code, 0);
    close_watch(&r);
    open_watch(k, &r, CM "?watch=1");
    run(k, 10);
    apiserver_close_watches(k->server);
    run(k, 10);
    assert_int_equal(r.done, 1);
    close_watch(&r);
    open_watch(k, &r, CM "?watch=1");
    r.stop = 1;
    put_cm(k, "a", "", "1");
    run(k, 10);
    assert_int_equal(r.code, -ERR_CANCELED);
    assert_int_equal(r.done, 1);
    close_watch(&r);
    open_watch(k, &r, CM "?watch=1");
    r.cancel_in_data = true;
    run(k, 10);
    expect_frames(&r, "ADDED a\n");
    put_cm(k, "a", "", "2");
    run(k, 10);
    assert_int_equal(r.done, 0);
    close_watch(&r);
}

static void test_crd_goes(void **state)
{
    struct kit *k = *state;
    struct reader r;
    kit_expect(k, 201, "POST", WIDGETS, NULL,
               "{\"apiVersion\":\"x.test/v1\",\"kind\":\"Widget\",\"metadata\":{\"name\":\"w\"}}");
    open_watch(k, &r, "/apis/x.test/v1/widgets?watch=1");
    run(k, 10);
    kit_expect(k, 200, "DELETE", CRDS "/widgets.x.test", NULL, NULL);
    run(k, 10);
    expect_frames(&r, "ADDED w\nDELETED w\n");
    assert_int_equal(r.done, 1);
    close_watch(&r);
    kit_expect(k, 404, "GET", WIDGETS, NULL, NULL);
}

static void test_invalid_watch(void **state)
{
    struct kit *k = *state;
    struct reader r;
    open_watch(k, &r, CM "?watch=1&sendInitialEvents=true");
    run(k, 10);
    assert_int_equal(r.status, 422);
    assert_int_equal(r.done, 1);
    assert_non_null(
        strstr(r.body, "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"));
    close_watch(&r);
    open_watch(k, &r, CM "?watch=1&resourceVersion=99999999"); // ahead of the server: silence
    put_cm(k, "a", "", "1");
    run(k, 10);
    assert_int_equal(r.status, 200);
    close_watch(&r);
}

static uint64_t slow(void *ud, const struct transport_request *q)
{
    (void)q;
    return *(uint64_t *)ud;
}

static void test_latency_and_timeouts(void **state)
{
    struct kit *k = *state;
    struct reader r = {0};
    uint64_t ms = 100;
    apiserver_set_latency(k->server, slow, &ms);
    struct transport *t = apiserver_transport(k->server, "u");
    struct transport_request q = {.method = METHOD_GET, .path = "/readyz", .timeout_ms = 1000};
    transport_send(t, &q, &(struct transport_callbacks){NULL, NULL, on_done, &r});
    run(k, 99);
    assert_int_equal(r.done, 0);
    run(k, 1);
    assert_int_equal(r.done, 1);
    assert_string_equal(r.body, "ok");
    ms = 5000;
    transport_send(t, &q, &(struct transport_callbacks){NULL, NULL, on_done, &r});
    run(k, 1000);
    assert_int_equal(r.done, 2);
    assert_int_equal(r.code, -ERR_TIMEOUT);
    assert_int_equal(r.status, 0);
    transport_free(t);
    ms = 0;
    struct reader idle = {0};
    buf_init(&idle.bytes, 1 << 20);
    idle.transport = apiserver_transport(k->server, "u");
    struct transport_request w = {
        .method = METHOD_GET, .path = CM "?watch=1", .stream = true, .idle_ms = 1000};
    transport_send(idle.transport, &w, &(struct transport_callbacks){on_start, on_data, on_done, &idle});
    run(k, 900);
    put_cm(k, "a", "", "1");
    run(k, 900);
    assert_int_equal(idle.done, 0);
    run(k, 200);
    assert_int_equal(idle.code, -ERR_TIMEOUT);
    close_watch(&idle);
    free(r.body);
}

static void test_server_goes_first(void **state)
{
    struct kit *k = *state;
    struct reader r;
    open_watch(k, &r, CM "?watch=1");
    run(k, 10);
    apiserver_free(k->server);
    k->server = NULL;
    struct transport_request q = {.method = METHOD_GET, .path = "/readyz"};
    transport_send(r.transport, &q, &(struct transport_callbacks){NULL, NULL, on_done, &r});
    run(k, 10);
    assert_int_equal(r.done, 1);
    assert_int_equal(r.code, -ERR_NETWORK);
    close_watch(&r);
}

static void scenario(void **state, char **ret_trace, char **ret_frames)
{
    assert_int_equal(kit_setup(state), 0);
    struct kit *k = *state;
    struct reader r;
    open_watch(k, &r, "/api/v1/configmaps?watch=1&allowWatchBookmarks=true");
    for (int i = 0; i < 20; i++) {
        char value[16];
        snprintf(value, sizeof(value), "%d", i);
        kit_request(k, "m", "POST", CM, NULL,
                    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"generateName\":\"g-\"}}");
        put_cm(k, "a", "", value);
        run(k, 7000);
    }
    *ret_trace = xstrdup(k->trace.data);
    *ret_frames = xstrdup(r.bytes.data);
    close_watch(&r);
    kit_teardown(state);
}

static void test_deterministic(void **state)
{
    char *trace[2], *frames[2];
    scenario(state, &trace[0], &frames[0]);
    scenario(state, &trace[1], &frames[1]);
    assert_string_equal(trace[0], trace[1]);
    assert_string_equal(frames[0], frames[1]);
    for (int i = 0; i < 2; i++) {
        free(trace[i]);
        free(frames[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(test_watch_list),
        KIT_TEST(test_resume_and_gone),
        KIT_TEST(test_selectors),
        KIT_TEST(test_ends),
        KIT_TEST(test_crd_goes),
        KIT_TEST(test_invalid_watch),
        KIT_TEST(test_latency_and_timeouts),
        KIT_TEST(test_server_goes_first),
        cmocka_unit_test(test_deterministic),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
