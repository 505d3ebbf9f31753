// ctest-labels: thread
// Connections with HTTP/2 of our own: their ends, their limits, and what becomes of the calls on them.
#include <nghttp2/nghttp2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "support/h2_rig.h"

static struct transport_request with_timeout(struct transport_request q, uint32_t ms)
{
    q.timeout_ms = ms;
    return q;
}

static void send_all(struct h2_rig *f, struct rig_result *x, int count, struct transport_request q)
{
    for (int i = 0; i < count; i++) {
        rig_result_init(&x[i], &f->rig);
        rig_send(&f->rig, &x[i], q);
    }
}

static void assert_all_answered(struct rig_result *x, int count, const char *body)
{
    for (int i = 0; i < count; i++) {
        if (x[i].response.err.code != 0)
            fail_msg("%s", x[i].response.err.text);
        assert_int_equal(x[i].dones, 1);
        assert_int_equal(x[i].response.status, 200);
        assert_string_equal(x[i].body.data, body);
        rig_result_fini(&x[i]);
    }
}

static void wait_for_open(struct h2_rig *f, int count)
{
    while (h2_peer_open(&f->peer) != count)
        rig_run(&f->rig, 1);
}

// ---- what is no HTTP/2

static const struct {
    const char *bytes;
    size_t n;
} garbage[] = {
#define BYTES(text)                                                                                          \
    {                                                                                                        \
        text, sizeof(text) - 1                                                                               \
    }
    BYTES("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"),
    BYTES("SSH-2.0-OpenSSH_9.2\r\n"),
    BYTES("\x7f\xff\xff\x04\x00\x00\x00\x00\x00"),                                     // settings of 8 MiB
    BYTES("\x00\x00\x05\x04\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"),                 // settings of 5 bytes
    BYTES("\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00"), // data on stream 0
    BYTES("\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x03\x01\x04\x00\x00\x00\x01\xff\xff\xff"), // no HPACK
    BYTES(
        "\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x04\x08\x00\x00\x00\x00\x00\x7f\xff\xff\xff"), // window
    BYTES(
        "\x00\x00\x00\x04\x00\x00\x00\x00\x00\x00\x00\x00\x01\x05\x00\x00\x00\x63"), // headers not asked for
};

static size_t garbage_at;

static void send_garbage(struct h2_peer *p, struct h2_connection *c)
{
    (void)p;
    h2_raw(c, garbage[garbage_at].bytes, garbage[garbage_at].n);
}

static void test_garbage(void **state)
{
    (void)state;
    enum { CALLS = 3 };
    for (garbage_at = 0; garbage_at < sizeof(garbage) / sizeof(garbage[0]); garbage_at++) {
        struct rig_result x[CALLS];
        struct h2_rig f;
        h2_rig_open(&f, NULL);
        f.peer.on_open = send_garbage;
        send_all(&f, x, CALLS, H2_WITH_BODY(METHOD_POST));
        rig_wait(&f.rig, CALLS); // long before their time is over
        for (int i = 0; i < CALLS; i++) {
            h2_rig_assert_error(&x[i], -ERR_NETWORK, false, "is no HTTP/2");
            rig_result_fini(&x[i]);
        }
        f.peer.on_open = NULL;
        h2_rig_assert_works(&f);
        assert_int_equal(f.peer.connections, 2);
        h2_rig_fini(&f);
    }
}

// ---- connections that end

static int ends_left;
static void (*end_connection)(struct h2_connection *c);

static void handle_end(struct h2_peer *p, struct h2_stream *s)
{
    if (ends_left > 0) {
        ends_left--;
        end_connection(s->connection);
    } else {
        h2_rig_echo(p, s);
    }
}

static void test_end_of_a_kept_connection(void **state)
{
    (void)state;
    static void (*const ends[])(struct h2_connection *) = {h2_close, h2_cut};
    for (size_t i = 0; i < 2; i++) {
        struct rig_result x;
        struct h2_rig f;
        end_connection = ends[i];
        ends_left = 0;
        h2_rig_open(&f, handle_end);
        h2_rig_assert_works(&f);
        ends_left = 1;
        rig_do(&f.rig, &x, H2_WITH_BODY(METHOD_PATCH)); // is repeated
        assert_all_answered(&x, 1, "PATCH /x {\"a\":1}");
        assert_int_equal(f.peer.connections, 2);
        assert_int_equal(f.peer.requests, 3);
        ends_left = 1;
        h2_rig_assert_fails(&f, H2_WITH_BODY(METHOD_POST), -ERR_NETWORK, true, ""); // it may have been done
        assert_int_equal(f.peer.requests, 4);
        h2_rig_assert_works(&f);
        ends_left = 100;
        h2_rig_assert_fails(&f, H2_GET("/x"), -ERR_NETWORK, true, ""); // not for ever
        assert_true(ends_left >= 97);
        ends_left = 0;
        h2_rig_assert_works(&f);
        h2_rig_fini(&f);
    }
}

// A connection that has never brought an answer tells something: the same again would not help.
static void test_end_before_any_answer(void **state)
{
    (void)state;
    struct h2_rig f;
    ends_left = 1;
    end_connection = h2_close;
    h2_rig_open(&f, handle_end);
    h2_rig_assert_fails(&f, H2_GET("/x"), -ERR_NETWORK, true, "closed the connection");
    assert_int_equal(f.peer.requests, 1);
    ends_left = 1;
    end_connection = h2_cut;
    h2_rig_assert_fails(&f, H2_GET("/x"), -ERR_NETWORK, true, "closed the connection");
    h2_rig_fini(&f);
}

static void end_at_once(struct h2_peer *p, struct h2_connection *c)
{
    (void)p;
    h2_goaway(c, 0);
}

static void test_goaway_at_once(void **state)
{
    (void)state;
    for (int tls12 = 0; tls12 < 2;
         tls12++) { // there it comes with the end of the handshake, before the requests
        struct h2_rig f;
        h2_rig_init(&f, NULL);
        f.peer.on_open = end_at_once;
        if (tls12 == 1)
            h2_peer_limit_tls(&f.peer);
        h2_rig_connect(&f, (struct transport_curl_options){0});
        h2_rig_assert_fails(&f, H2_GET("/x"), -ERR_NETWORK, false, "GOAWAY");
        assert_int_equal(f.peer.connections, 3);
        h2_rig_assert_fails(&f, H2_WITH_BODY(METHOD_POST), -ERR_NETWORK, false, "GOAWAY");
        assert_int_equal(f.peer.connections, 6); // what has not gone out may be sent
        assert_int_equal(f.handled, 0);
        f.peer.on_open = NULL;
        h2_rig_assert_works(&f);
        h2_rig_fini(&f);
    }
}

static struct h2_stream *held;

static void handle_hang(struct h2_peer *p, struct h2_stream *s)
{
    if (strcmp(s->path, "/hang") == 0) {
        held = s;
        if (p->max_streams == 1)
            h2_goaway(s->connection, s->id);
    } else {
        h2_rig_echo(p, s);
    }
}

// One request holds the only place; the others wait for it when the server says GOAWAY.
static void test_goaway_while_requests_wait(void **state)
{
    (void)state;
    enum { CALLS = 5 };
    struct rig_result hanging, x[CALLS];
    struct h2_rig f;
    h2_rig_init(&f, handle_hang);
    f.peer.max_streams = 1;
    h2_rig_connect(&f, (struct transport_curl_options){0});
    h2_rig_assert_works(&f);
    send_all(&f, &hanging, 1, H2_GET("/hang"));
    send_all(&f, x, CALLS, H2_WITH_BODY(METHOD_POST));
    rig_wait(&f.rig, CALLS);
    assert_all_answered(x, CALLS, "POST /x {\"a\":1}");
    assert_int_equal(f.peer.connections, 2);
    assert_int_equal(f.peer.requests, 2 + CALLS); // each once
    assert_int_equal(hanging.dones, 0);
    h2_answer(held, "200", NULL, "late", 4, NULL);
    rig_wait(&f.rig, 1);
    assert_all_answered(&hanging, 1, "late");
    wait_for_open(&f, 1);
    h2_rig_fini(&f);
}

static void calm_down(struct h2_peer *p, struct h2_stream *s)
{
    static const char goaway[] = "\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x0b";
    (void)p;
    h2_raw(s->connection, goaway, sizeof(goaway) - 1);
    h2_cut(s->connection);
}

static void test_goaway_with_a_reason(void **state)
{
    (void)state;
    struct h2_rig f;
    h2_rig_open(&f, calm_down);
    h2_rig_assert_fails(&f, H2_GET("/x"), -ERR_NETWORK, true, "ENHANCE_YOUR_CALM");
    h2_rig_fini(&f);
}

static void cut_later(void *ud)
{
    h2_cut(ud);
}

static void handle_reset_and_end(struct h2_peer *p, struct h2_stream *s)
{
    if (strcmp(s->path, "/works") == 0) {
        h2_rig_echo(p, s);
        return;
    }
    loop_defer(p->loop, cut_later, s->connection);
    h2_reset(s, NGHTTP2_INTERNAL_ERROR);
}

// The server has said what became of the request before the connection ended: it is not repeated for that.
static void test_reset_before_the_end(void **state)
{
    (void)state;
    struct h2_rig f;
    h2_rig_open(&f, handle_reset_and_end);
    h2_rig_assert_works(&f);
    h2_rig_assert_fails(&f, H2_GET("/x"), -ERR_NETWORK, true, "INTERNAL_ERROR");
    assert_int_equal(f.peer.requests, 2);
    h2_rig_fini(&f);
}

// ---- settings

static void deafen(struct h2_peer *p, struct h2_connection *c)
{
    (void)p;
    h2_deafen(c);
}

// With TLS 1.2 they are read from the socket together with the end of the handshake.
static void test_settings_with_the_handshake(void **state)
{
    (void)state;
    struct h2_rig f;
    h2_rig_init(&f, NULL);
    h2_peer_limit_tls(&f.peer);
    f.peer.on_open = deafen;
    h2_rig_connect(&f, (struct transport_curl_options){0});
    h2_rig_assert_fails(&f, with_timeout(H2_GET("/x"), 300), -ERR_TIMEOUT, true, "no answer in time: 300 ms");
    f.peer.on_open = NULL;
    h2_rig_assert_works(&f); // nothing has come since the request: over another connection
    assert_int_equal(f.peer.connections, 2);
    h2_rig_fini(&f);
}

static void begin_long_settings(struct h2_peer *p, struct h2_connection *c)
{
    (void)p;
    h2_raw(c, "\x00\x00\xc0\x04\x00\x00\x00\x00\x00", 9); // what comes then is part of them
}

static void test_settings_that_do_not_end(void **state)
{
    (void)state;
    struct h2_rig f;
    h2_rig_open(&f, NULL);
    f.peer.on_open = begin_long_settings;
    h2_rig_assert_fails(&f, with_timeout(H2_GET("/x"), 300), -ERR_TIMEOUT, false,
                        "no connection in time: 300 ms");
    f.peer.on_open = NULL;
    h2_rig_assert_works(&f);
    assert_int_equal(f.peer.connections, 2);
    h2_rig_fini(&f);
}

// ---- how many at a time

static void handle_allow(struct h2_peer *p, struct h2_stream *s)
{
    if (strcmp(s->path, "/allow-none") == 0)
        h2_allow(s->connection, 0); // goes out before the answer
    h2_rig_echo(p, s);
}

static void allow_again(void *ud)
{
    h2_allow(h2_peer_last(ud), 2);
}

static void test_no_request_is_allowed(void **state)
{
    (void)state;
    enum { CALLS = 20 };
    struct rig_result x[CALLS];
    struct h2_rig f;
    h2_rig_open(&f, handle_allow);
    rig_do(&f.rig, x, H2_GET("/allow-none"));
    assert_all_answered(x, 1, "GET /allow-none ");
    h2_rig_assert_fails(&f, with_timeout(H2_GET("/x"), 30), -ERR_TIMEOUT, false, "takes no more requests");
    assert_int_equal(f.handled, 1);
    // That connection was given up; the next one, too, but its requests live to see the end of it.
    rig_do(&f.rig, x, H2_GET("/allow-none"));
    assert_all_answered(x, 1, "GET /allow-none ");
    assert_int_equal(f.peer.connections, 2);
    send_all(&f, x, CALLS, H2_WITH_BODY(METHOD_POST));
    struct loop_timer *t = loop_timer_new(f.rig.loop, allow_again, &f.peer);
    loop_timer_start(t, 20);
    rig_wait(&f.rig, CALLS);
    assert_all_answered(x, CALLS, "POST /x {\"a\":1}");
    assert_int_equal(f.peer.connections, 2);
    loop_timer_free(t);
    h2_rig_fini(&f);
}

// ---- time

static void test_no_time_to_connect(void **state)
{
    (void)state;
    struct h2_rig f;
    h2_rig_init(&f, NULL);
    char *silent = xasprintf("https://127.0.0.1:%d", f.rig.port); // takes connections and says nothing
    h2_rig_connect(&f, (struct transport_curl_options){.server = silent});
    h2_rig_assert_fails(&f, with_timeout(H2_GET("/x"), 30), -ERR_TIMEOUT, false,
                        "no connection in time: 30 ms");
    h2_rig_assert_fails(&f, with_timeout(H2_GET("/x"), 30), -ERR_TIMEOUT, false, "no connection in time");
    assert_int_equal(rig_raw_connections(&f.rig), 1);
    free(silent);
    h2_rig_fini(&f);
}

static void drip(void *ud)
{
    struct h2_rig *f = ud;
    if (held != NULL) {
        h2_send(held, "x");
        loop_defer(f->rig.loop, drip, f);
    }
}

static void handle_drip(struct h2_peer *p, struct h2_stream *s)
{
    if (strcmp(s->path, "/drip") != 0) {
        h2_rig_echo(p, s);
        return;
    }
    held = s;
    h2_start(s, "200");
    drip(p->ud);
}

static void stop_dripping(struct rig_result *x)
{
    (void)x;
    held = NULL;
}

static void test_answer_that_drips(void **state)
{
    (void)state;
    struct rig_result x;
    struct h2_rig f;
    h2_rig_open(&f, handle_drip);
    h2_rig_assert_works(&f);
    rig_result_init(&x, &f.rig);
    x.on_end = stop_dripping;
    rig_send(&f.rig, &x, with_timeout(H2_GET("/drip"), 60));
    rig_wait(&f.rig, 1);
    h2_rig_assert_error(&x, -ERR_TIMEOUT, true, "no answer in time: 60 ms");
    rig_result_fini(&x);
    h2_rig_assert_works(&f);
    assert_int_equal(f.peer.connections, 1); // it is alive
    h2_rig_fini(&f);
}

// ---- many

static char *big;
enum { BIG = 6 << 20, BIGS = 3, SMALLS = 40 };
static int bigs_done;

static void handle_sizes(struct h2_peer *p, struct h2_stream *s)
{
    if (strcmp(s->path, "/big") == 0)
        h2_answer(s, "200", NULL, big, BIG, NULL);
    else
        h2_rig_echo(p, s);
}

static void count_big(struct rig_result *x)
{
    (void)x;
    bigs_done++;
}

static void assert_before_big(struct rig_result *x)
{
    (void)x;
    assert_int_equal(bigs_done, 0);
}

// The small answers come between the pieces of the big ones, which are longer than their windows.
static void test_big_and_small(void **state)
{
    (void)state;
    static struct rig_result bigs[BIGS], smalls[SMALLS];
    struct h2_rig f;
    big = xmalloc(BIG);
    for (size_t i = 0; i < BIG; i++)
        big[i] = (char)('a' + (i >> 3) * 7 % 26);
    bigs_done = 0;
    h2_rig_open(&f, handle_sizes);
    send_all(&f, bigs, BIGS, H2_GET("/big"));
    send_all(&f, smalls, SMALLS, H2_GET("/s"));
    for (int i = 0; i < BIGS; i++)
        bigs[i].on_end = count_big;
    for (int i = 0; i < SMALLS; i++)
        smalls[i].on_end = assert_before_big;
    rig_wait(&f.rig, BIGS + SMALLS);
    assert_all_answered(smalls, SMALLS, "GET /s ");
    for (int i = 0; i < BIGS; i++) {
        assert_int_equal(bigs[i].response.status, 200);
        assert_int_equal(bigs[i].body.len, BIG);
        assert_memory_equal(bigs[i].body.data, big, BIG);
        rig_result_fini(&bigs[i]);
    }
    assert_int_equal(f.peer.connections, 1);
    free(big);
    h2_rig_fini(&f);
}

static struct loop_timer *thaw_timer;

static void freeze_at_second(struct h2_peer *p, struct h2_stream *s)
{
    if (p->requests != 2)
        return;
    h2_freeze(s->connection);
    loop_timer_start(thaw_timer, 50);
}

static void thaw(void *ud)
{
    h2_thaw(h2_peer_last(ud));
}

static void handle_length(struct h2_peer *p, struct h2_stream *s)
{
    size_t n = evbuffer_get_length(s->body);
    const char *body = (const char *)evbuffer_pullup(s->body, -1);
    (void)p;
    for (size_t i = 0; i < n; i++) {
        if (body[i] != (char)('a' + (i >> 3) * 7 % 26)) {
            h2_reply(s, "500", "wrong");
            return;
        }
    }
    h2_reply(s, "200", n == BIG ? "all of it" : "not all of it");
}

// The server reads nothing for a while: the socket fills up, in the midst of what is to be written.
static void test_socket_that_is_full(void **state)
{
    (void)state;
    struct rig_result x[BIGS];
    struct h2_rig f;
    big = xmalloc(BIG);
    for (size_t i = 0; i < BIG; i++)
        big[i] = (char)('a' + (i >> 3) * 7 % 26);
    h2_rig_init(&f, handle_length);
    f.peer.window = 64 << 20;
    f.peer.on_head = freeze_at_second;
    h2_rig_connect(&f, (struct transport_curl_options){0});
    send_all(&f, x, BIGS,
             (struct transport_request){.method = METHOD_PUT, .path = "/x", .body = big, .body_len = BIG});
    thaw_timer = loop_timer_new(f.rig.loop, thaw, &f.peer);
    rig_wait(&f.rig, BIGS);
    assert_all_answered(x, BIGS, "all of it");
    loop_timer_free(thaw_timer);
    free(big);
    h2_rig_fini(&f);
}

static void refuse_and_deafen(struct h2_peer *p, struct h2_stream *s)
{
    (void)p;
    h2_deafen(s->connection);
    h2_answer(s, "413", NULL, "too large", 9, NULL);
}

// The answer is there before the body has gone, and the server reads no more: nothing can be said about it.
static void test_answer_while_the_socket_is_full(void **state)
{
    (void)state;
    struct rig_result x;
    struct h2_rig f;
    h2_rig_init(&f, NULL);
    f.peer.window = 64 << 20;
    f.peer.on_head = refuse_and_deafen;
    h2_rig_connect(&f, (struct transport_curl_options){0});
    big = xcalloc(1, 4 * BIG);
    rig_do(&f.rig, &x,
           (struct transport_request){.method = METHOD_PUT, .path = "/x", .body = big, .body_len = 4 * BIG});
    assert_int_equal(x.response.err.code, 0);
    assert_int_equal(x.response.status, 413);
    assert_string_equal(x.body.data, "too large");
    rig_result_fini(&x);
    free(big);
    h2_rig_fini(&f);
}

// ---- lives and deaths

static void cancel_all(struct rig_result *x, int count)
{
    for (int i = 0; i < count; i++) {
        transport_cancel(x[i].transfer);
        assert_int_equal(x[i].dones, 0);
        rig_result_fini(&x[i]);
    }
}

static int seen;

static void stop_when_all_are_seen(struct h2_peer *p, struct h2_stream *s)
{
    (void)s;
    if (--seen == 0)
        loop_stop(p->loop);
}

static void test_cancel(void **state)
{
    (void)state;
    enum { CALLS = 30, BODY = 200 << 10 };
    static struct rig_result x[CALLS];
    struct h2_rig f;
    char *body = xcalloc(1, BODY);
    struct transport_request put = {.method = METHOD_PUT, .path = "/x", .body = body, .body_len = BODY};
    h2_rig_open(&f, NULL);
    send_all(&f, x, CALLS, put);
    cancel_all(x, CALLS); // not even connected
    h2_rig_assert_works(&f);
    send_all(&f, x, CALLS, put);
    cancel_all(x, CALLS); // not gone out
    h2_rig_assert_works(&f);
    assert_int_equal(f.peer.requests, 2);
    f.peer.on_head = stop_when_all_are_seen;
    seen = CALLS;
    send_all(&f, x, CALLS, put);
    rig_wait(&f.rig, CALLS + 1); // ends when the peer has seen them all
    f.peer.on_head = NULL;
    cancel_all(x, CALLS); // with their bodies on the way
    h2_rig_assert_works(&f);
    assert_int_equal(f.peer.connections, 1);
    while (h2_streams(h2_peer_last(&f.peer)) > 0)
        rig_run(&f.rig, 1);
    free(body);
    h2_rig_fini(&f);
}

static struct rig_result *others;

static void cancel_others(struct rig_result *x)
{
    for (int i = 0; i < 10; i++) {
        if (&others[i] != x && others[i].transfer != NULL) {
            transport_cancel(others[i].transfer);
            others[i].transfer = NULL;
        }
    }
    loop_stop(x->rig->loop);
}

static void send_another(struct rig_result *x)
{
    rig_result_init(x->ud, x->rig);
    rig_send(x->rig, x->ud, H2_GET("/again"));
}

static void test_changes_in_on_done(void **state)
{
    (void)state;
    struct rig_result x[10], again;
    struct h2_rig f;
    h2_rig_open(&f, NULL);
    h2_rig_assert_works(&f);
    for (int i = 0; i < 10; i++) {
        rig_result_init(&x[i], &f.rig);
        x[i].on_end = cancel_others;
        rig_send(&f.rig, &x[i], H2_GET("/x"));
    }
    others = x;
    rig_wait(&f.rig, 11);
    int dones = 0;
    for (int i = 0; i < 10; i++) {
        dones += x[i].dones;
        rig_result_fini(&x[i]);
    }
    assert_int_equal(dones, 1);
    rig_result_init(&x[0], &f.rig);
    x[0].on_end = send_another;
    x[0].ud = &again;
    rig_send(&f.rig, &x[0], H2_GET("/x"));
    rig_wait(&f.rig, 2);
    assert_all_answered(x, 1, "GET /x ");
    assert_all_answered(&again, 1, "GET /again ");
    h2_rig_fini(&f);
}

static void free_transport(struct rig_result *x)
{
    transport_free(x->rig->transport);
    x->rig->transport = NULL;
    loop_stop(x->rig->loop);
}

static void test_free_in_on_done(void **state)
{
    (void)state;
    enum { CALLS = 10 };
    for (int how = 0; how < 4; how++) { // an answer, a broken connection, a time-out, no connection
        struct rig_result x[CALLS];
        struct h2_rig f;
        h2_rig_init(&f, how == 2 ? handle_hang : handle_end);
        end_connection = h2_cut;
        ends_left = how == 1;
        h2_rig_connect(&f, (struct transport_curl_options){.ca_pem = how == 3 ? h2_rig_client.cert : NULL});
        for (int i = 0; i < CALLS; i++) {
            rig_result_init(&x[i], &f.rig);
            x[i].on_end = free_transport;
            rig_send(&f.rig, &x[i], how == 2 ? with_timeout(H2_GET("/hang"), 20) : H2_GET("/x"));
        }
        rig_wait(&f.rig, CALLS + 1);
        int dones = 0;
        for (int i = 0; i < CALLS; i++) {
            dones += x[i].dones;
            rig_result_fini(&x[i]);
        }
        assert_int_equal(dones, 1);
        h2_rig_fini(&f);
    }
}

static void test_free_with_calls(void **state)
{
    (void)state;
    for (uint64_t ms = 0; ms < 6; ms++) { // while it connects, and later
        struct rig_result x[5];
        struct h2_rig f;
        h2_rig_open(&f, handle_hang);
        send_all(&f, x, 5, H2_GET("/hang"));
        if (ms > 0)
            rig_run(&f.rig, ms);
        transport_free(f.rig.transport);
        f.rig.transport = NULL;
        rig_run(&f.rig, 1);
        for (int i = 0; i < 5; i++) {
            assert_int_equal(x[i].dones, 0);
            rig_result_fini(&x[i]);
        }
        h2_rig_fini(&f);
    }
}

// ---- certificates

static void test_rotation(void **state)
{
    (void)state;
    struct rig_result x;
    struct err e;
    struct h2_rig f;
    h2_rig_open(&f, handle_hang);
    held = NULL;
    send_all(&f, &x, 1, H2_GET("/hang"));
    h2_rig_assert_works(&f);
    assert_non_null(held);
    assert_int_equal(transport_curl_set_tls(f.rig.transport, NULL, h2_rig_client.cert, h2_rig_client.key, &e),
                     0);
    h2_rig_assert_works(&f);
    assert_int_equal(f.peer.connections, 2);
    h2_answer(held, "200", NULL, "old", 3, NULL);
    rig_wait(&f.rig, 1);
    assert_all_answered(&x, 1, "old");
    wait_for_open(&f, 1);
    assert_int_equal(transport_curl_set_tls(f.rig.transport, NULL, h2_rig_client.cert, h2_rig_client.key, &e),
                     0);
    wait_for_open(&f, 0); // an idle one goes at once
    h2_rig_fini(&f);
}

// With TLS 1.3 the server says no when the client takes the connection for made.
static void test_client_certificate(void **state)
{
    (void)state;
    struct rig_result x[3];
    struct h2_rig f;
    struct err e;
    h2_rig_init(&f, NULL);
    h2_peer_demand_client(&f.peer, h2_rig_ca.cert);
    h2_rig_connect(&f, (struct transport_curl_options){0});
    send_all(&f, x, 3, H2_WITH_BODY(METHOD_POST));
    rig_wait(&f.rig, 3);
    for (int i = 0; i < 3; i++) {
        h2_rig_assert_error(&x[i], -ERR_TLS, false, "does not take the client-certificate");
        rig_result_fini(&x[i]);
    }
    assert_int_equal(transport_curl_set_tls(f.rig.transport, NULL, h2_rig_client.cert, h2_rig_client.key, &e),
                     0);
    h2_rig_assert_works(&f);
    h2_rig_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_garbage),
        cmocka_unit_test(test_end_of_a_kept_connection),
        cmocka_unit_test(test_end_before_any_answer),
        cmocka_unit_test(test_goaway_at_once),
        cmocka_unit_test(test_goaway_while_requests_wait),
        cmocka_unit_test(test_goaway_with_a_reason),
        cmocka_unit_test(test_reset_before_the_end),
        cmocka_unit_test(test_settings_with_the_handshake),
        cmocka_unit_test(test_settings_that_do_not_end),
        cmocka_unit_test(test_no_request_is_allowed),
        cmocka_unit_test(test_no_time_to_connect),
        cmocka_unit_test(test_answer_that_drips),
        cmocka_unit_test(test_big_and_small),
        cmocka_unit_test(test_socket_that_is_full),
        cmocka_unit_test(test_answer_while_the_socket_is_full),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_changes_in_on_done),
        cmocka_unit_test(test_free_in_on_done),
        cmocka_unit_test(test_free_with_calls),
        cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_client_certificate),
    };
    return cmocka_run_group_tests(tests, h2_rig_set_up, h2_rig_tear_down);
}
