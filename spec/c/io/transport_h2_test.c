// ctest-labels: thread
#include <nghttp2/nghttp2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "io/curl_impl.h"
#include "support/h2_peer.h"
#include "support/http_rig.h"

#define GET(p) ((struct transport_request){.method = METHOD_GET, .path = (p)})
#define WATCH(p) ((struct transport_request){.method = METHOD_GET, .path = (p), .stream = true})
#define WITH_BODY(m)                                                                                         \
    ((struct transport_request){.method = (m), .path = "/x", .body = "{\"a\":1}", .body_len = 7})

static struct pki ca, server;

static int make_all(void **state)
{
    (void)state;
    ca = pki_make(PKI_CA, NULL, "ca", NULL, 1);
    server = pki_make(PKI_SERVER, &ca, "server", "IP:127.0.0.1", 1);
    return 0;
}

static int free_all(void **state)
{
    (void)state;
    pki_fini(&ca);
    pki_fini(&server);
    return 0;
}

struct fixture {
    struct rig rig; // its loop and client; its own server is idle
    struct h2_peer peer;
    int refuse; // so many requests
    int answered;
    int held_back;
};

// Watches stay open, what is to be refused is; all else is answered with its method, path and body.
static void handle(struct h2_peer *p, struct h2_stream *s)
{
    struct fixture *f = p->ud;
    if (f->refuse > 0) {
        f->refuse--;
        h2_reset(s, NGHTTP2_REFUSED_STREAM);
    } else if (strcmp(s->path, "/hang") == 0) {
        // no answer
    } else if (strncmp(s->path, "/watch", 6) == 0) {
        h2_start(s, "200");
        evbuffer_add(s->out, "first\n", 6);
    } else {
        struct buf b;
        buf_init(&b, 4096);
        buf_addf(&b, "%s %s ", s->method, s->path);
        buf_add(&b, evbuffer_pullup(s->body, -1), evbuffer_get_length(s->body));
        f->answered++;
        h2_reply(s, "200", b.data);
        buf_fini(&b);
    }
}

static void setup(struct fixture *f, uint32_t max_streams)
{
    *f = (struct fixture){0};
    rig_init_raw(&f->rig);
    h2_peer_init(&f->peer, f->rig.loop, &server);
    f->peer.max_streams = max_streams;
    f->peer.handle = handle;
    f->peer.ud = f;
    char *url = xasprintf("https://127.0.0.1:%d", f->peer.port);
    struct err e = {0};
    if (rig_connect(&f->rig, (struct transport_curl_options){.server = url, .ca_pem = ca.cert}, &e) != 0)
        fail_msg("%s", e.text);
    free(url);
}

static void teardown(struct fixture *f)
{
    transport_free(f->rig.transport);
    f->rig.transport = NULL;
    h2_peer_fini(&f->peer);
    rig_fini(&f->rig);
}

static int left_to_start;

static void on_first_chunk(struct rig_result *x)
{
    if (x->chunks == 1 && --left_to_start == 0)
        loop_stop(x->rig->loop);
}

// Opens watches and waits until each has its first bytes.
static void open_watches(struct fixture *f, struct rig_result *x, int count)
{
    left_to_start = count;
    for (int i = 0; i < count; i++) {
        rig_result_init(&x[i], &f->rig);
        x[i].on_chunk = on_first_chunk;
        rig_send(&f->rig, &x[i], WATCH("/watch"));
    }
    rig_wait(&f->rig, count + 1); // ends by on_first_chunk
    for (int i = 0; i < count; i++) {
        assert_int_equal(x[i].dones, 0);
        assert_string_equal(x[i].body.data, "first\n");
    }
}

static void assert_get(struct fixture *f)
{
    struct rig_result x;
    rig_do(&f->rig, &x, GET("/x"));
    assert_int_equal(x.response.err.code, 0);
    assert_string_equal(x.body.data, "GET /x ");
    rig_result_fini(&x);
}

static void test_requests_share_a_connection(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    static struct rig_result x[COUNT];
    struct fixture f;
    setup(&f, 250);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) {
            rig_result_init(&x[i], &f.rig);
            rig_send(&f.rig, &x[i], WITH_BODY(METHOD_PATCH));
        }
        rig_wait(&f.rig, COUNT);
        for (int i = 0; i < COUNT; i++) {
            assert_int_equal(x[i].response.status, 200);
            assert_string_equal(x[i].body.data, "PATCH /x {\"a\":1}");
            rig_result_fini(&x[i]);
        }
    }
    assert_int_equal(f.peer.connections, 1);
    teardown(&f);
}

static void test_watches_have_connections_of_90(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    static struct rig_result x[COUNT];
    struct fixture f;
    setup(&f, 100);
    open_watches(&f, x, COUNT);
    assert_int_equal(f.peer.connections, 3);
    assert_get(&f); // on a connection that is not a watch's
    assert_int_equal(f.peer.connections, 4);
    for (int i = 0; i < COUNT; i++)
        transport_cancel(x[i].transfer);
    assert_get(&f);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(x[i].dones, 0);
        rig_result_fini(&x[i]);
    }
    while (h2_peer_open(&f.peer) > 2) // the requests', and one that is kept for watches
        rig_run(&f.rig, 1);
    teardown(&f);
}

static void test_server_allows_one_stream(void **state)
{
    (void)state;
    static struct rig_result x[5];
    struct fixture f;
    setup(&f, 1);
    open_watches(&f, x, 5);
    assert_get(&f);
    assert_get(&f);
    for (int i = 0; i < 5; i++)
        rig_result_fini(&x[i]);
    teardown(&f);
}

static void test_refused_stream(void **state)
{
    (void)state;
    const enum transport_method methods[] = {METHOD_GET, METHOD_PUT, METHOD_PATCH, METHOD_DELETE};
    struct fixture f;
    setup(&f, 100);
    for (size_t n = 0; n < 12; n++) { // more often than libcurl allows for one handle
        size_t i = n % (sizeof(methods) / sizeof(methods[0]));
        struct rig_result x;
        f.refuse = 1;
        rig_do(&f.rig, &x, methods[i] == METHOD_GET ? GET("/x") : WITH_BODY(methods[i]));
        assert_int_equal(x.response.err.code, 0);
        assert_int_equal(x.response.status, 200);
        assert_memory_equal(x.body.data, transport_method_name(methods[i]),
                            strlen(transport_method_name(methods[i])));
        if (methods[i] != METHOD_GET)
            assert_non_null(strstr(x.body.data, "{\"a\":1}"));
        rig_result_fini(&x);
    }
    struct rig_result x;
    f.refuse = 1;
    f.answered = 0;
    rig_do(&f.rig, &x, WITH_BODY(METHOD_POST));
    assert_int_equal(x.response.err.code, -ERR_NETWORK);
    assert_true(x.response.sent_maybe);
    assert_int_equal(f.answered, 0);
    rig_result_fini(&x);
    f.refuse = 100;
    rig_do(&f.rig, &x, GET("/x")); // not for ever
    assert_int_equal(x.response.err.code, -ERR_NETWORK);
    assert_true(f.refuse >= 100 - 3);
    rig_result_fini(&x);
    f.refuse = 0;
    assert_get(&f);
    teardown(&f);
}

// Ten requests come on the first connection; it then says that it has taken only the first one of them.
static void handle_with_goaway(struct h2_peer *p, struct h2_stream *s)
{
    struct fixture *f = p->ud;
    if (p->connections > 1 || s->id == 1)
        handle(p, s);
    else if (++f->held_back == 9)
        h2_goaway(s->connection, 1);
}

static void test_goaway_with_requests_in_flight(void **state)
{
    (void)state;
    static struct rig_result x[10];
    struct fixture f;
    setup(&f, 100);
    f.peer.handle = handle_with_goaway;
    for (int i = 0; i < 10; i++) {
        rig_result_init(&x[i], &f.rig);
        rig_send(&f.rig, &x[i], WITH_BODY(METHOD_PATCH));
    }
    rig_wait(&f.rig, 10);
    for (int i = 0; i < 10; i++) {
        if (x[i].response.err.code != 0)
            fail_msg("%s", x[i].response.err.text);
        assert_string_equal(x[i].body.data, "PATCH /x {\"a\":1}");
        rig_result_fini(&x[i]);
    }
    assert_get(&f);
    while (h2_peer_open(&f.peer) > 1)
        rig_run(&f.rig, 1);
    teardown(&f);
}

static void test_goaway_lets_streams_go_on(void **state)
{
    (void)state;
    static struct rig_result x[3];
    struct fixture f;
    setup(&f, 100);
    assert_get(&f);
    struct h2_connection *requests = h2_peer_last(&f.peer);
    open_watches(&f, x, 2);
    struct h2_connection *watches = h2_peer_last(&f.peer);
    assert_int_equal(h2_streams(watches), 2);
    h2_goaway(requests, INT32_MAX);
    h2_goaway(watches, INT32_MAX);
    rig_run(&f.rig, 20); // lets the client read it
    assert_get(&f);
    open_watches(&f, &x[2], 1); // on a new connection
    assert_int_equal(x[0].dones + x[1].dones, 0);
    assert_int_equal(f.peer.connections, 4);
    for (int i = 0; i < 3; i++)
        rig_result_fini(&x[i]);
    teardown(&f);
}

static void set_probes(struct fixture *f, uint32_t every_ms, uint32_t timeout_ms)
{
    struct curl_transport *t = (struct curl_transport *)f->rig.transport;
    t->probe_every_ms = every_ms;
    t->probe_timeout_ms = timeout_ms;
}

static void test_probe_of_a_frozen_server(void **state)
{
    (void)state;
    static struct rig_result x[4];
    struct fixture f;
    setup(&f, 100);
    set_probes(&f, 10, 40);
    open_watches(&f, x, 3);
    h2_freeze(h2_peer_last(&f.peer));
    rig_wait(&f.rig, 3);
    for (int i = 0; i < 3; i++) {
        assert_int_equal(x[i].response.err.code, -ERR_NETWORK);
        assert_int_equal(x[i].response.status, 200);
        rig_result_fini(&x[i]);
    }
    open_watches(&f, &x[3], 1); // on a connection that lives
    assert_int_equal(f.peer.connections, 2);
    rig_result_fini(&x[3]);
    teardown(&f);
}

static void test_probe_of_a_good_server(void **state)
{
    (void)state;
    struct rig_result x;
    struct fixture f;
    setup(&f, 100);
    set_probes(&f, 5, 10000);
    open_watches(&f, &x, 1);
    while (f.answered < 3)
        rig_run(&f.rig, 5);
    assert_int_equal(x.dones, 0);
    assert_int_equal(f.peer.connections, 1);
    rig_result_fini(&x);
    teardown(&f);
}

static void test_timed_out_requests_leave_the_connection(void **state)
{
    (void)state;
    struct rig_result x;
    struct fixture f;
    setup(&f, 100);
    assert_get(&f);
    h2_freeze(h2_peer_last(&f.peer));
    rig_run(&f.rig, 5); // so that the last byte is older than the request
    struct transport_request q = GET("/x");
    q.timeout_ms = 40;
    rig_do(&f.rig, &x, q);
    assert_int_equal(x.response.err.code, -ERR_TIMEOUT);
    assert_true(x.response.sent_maybe);
    rig_result_fini(&x);
    assert_get(&f);
    assert_int_equal(f.peer.connections, 2);
    teardown(&f);
}

static void test_idle_stream_does_not_end_the_others(void **state)
{
    (void)state;
    struct rig_result x[2];
    struct fixture f;
    setup(&f, 100);
    set_probes(&f, 10, 10000); // libcurl holds the reset of a stream back until it sends something else
    open_watches(&f, x, 1);
    struct transport_request q = WATCH("/hang");
    q.idle_ms = 30;
    rig_do(&f.rig, &x[1], q);
    assert_int_equal(x[1].response.err.code, -ERR_TIMEOUT);
    assert_int_equal(x[0].dones, 0);
    while (h2_streams(h2_peer_last(&f.peer)) > 1)
        rig_run(&f.rig, 1);
    assert_int_equal(f.peer.connections, 1);
    assert_int_equal(x[0].dones, 0);
    rig_result_fini(&x[0]);
    rig_result_fini(&x[1]);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_requests_share_a_connection),
        cmocka_unit_test(test_watches_have_connections_of_90),
        cmocka_unit_test(test_server_allows_one_stream),
        cmocka_unit_test(test_refused_stream),
        cmocka_unit_test(test_goaway_with_requests_in_flight),
        cmocka_unit_test(test_goaway_lets_streams_go_on),
        cmocka_unit_test(test_probe_of_a_frozen_server),
        cmocka_unit_test(test_probe_of_a_good_server),
        cmocka_unit_test(test_timed_out_requests_leave_the_connection),
        cmocka_unit_test(test_idle_stream_does_not_end_the_others),
    };
    return cmocka_run_group_tests(tests, make_all, free_all);
}
