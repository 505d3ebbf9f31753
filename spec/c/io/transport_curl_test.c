// ctest-labels: thread
#include "io/transport.h"

#include <errno.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "support/http_rig.h"

#define GET(p) ((struct transport_request){.method = METHOD_GET, .path = (p)})
#define WATCH(p) ((struct transport_request){.method = METHOD_GET, .path = (p), .stream = true})

static const char *token_text(void *ud)
{
    return ud;
}

static void connect_rig(struct rig *r, struct transport_curl_options o)
{
    struct err e = {0};
    if (rig_connect(r, o, &e) != 0)
        fail_msg("%s", e.text);
}

static void setup(struct rig *r, void (*handle)(struct rig *r, struct evhttp_request *req))
{
    rig_init(r, NULL, NULL);
    r->handle = handle;
    connect_rig(r, (struct transport_curl_options){0});
}

static void setup_raw(struct rig *r, const struct rig_script *scripts, size_t count)
{
    rig_init_raw(r);
    rig_raw_scripts(r, scripts, count);
    connect_rig(r, (struct transport_curl_options){0});
}

static const char *method_of(struct evhttp_request *req)
{
    switch (evhttp_request_get_command(req)) {
    case EVHTTP_REQ_GET:
        return "GET";
    case EVHTTP_REQ_POST:
        return "POST";
    case EVHTTP_REQ_PUT:
        return "PUT";
    case EVHTTP_REQ_PATCH:
        return "PATCH";
    case EVHTTP_REQ_DELETE:
        return "DELETE";
    default:
        return "?";
    }
}

// Answers with what the server saw.
static void handle_echo(struct rig *r, struct evhttp_request *req)
{
    struct evbuffer *in = evhttp_request_get_input_buffer(req);
    (void)r;
    struct buf b;
    buf_init(&b, 16 << 20);
    buf_addf(&b, "%s %s\n", method_of(req), evhttp_request_get_uri(req));
    static const char *const names[] = {"Accept",          "Content-Type",     "User-Agent",
                                        "Authorization",   "Impersonate-User", "Expect",
                                        "Accept-Encoding", "Content-Length"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        buf_addf(&b, "%s: %s\n", names[i], rig_header(req, names[i]));
    buf_add_char(&b, '\n');
    buf_add(&b, evbuffer_pullup(in, -1), evbuffer_get_length(in));
    rig_reply(req, 200, "application/json; charset=utf-8", b.data);
    buf_fini(&b);
}

static void test_get_and_its_headers(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, NULL, NULL);
    r.handle = handle_echo;
    char *server = xasprintf("http://127.0.0.1:%d/k8s/c-1/", r.port);
    connect_rig(
        &r, (struct transport_curl_options){
                .server = server, .user_agent = "tidelock/1", .token = token_text, .ud = (char *)"secret"});
    struct rig_result x;
    rig_do(
        &r, &x,
        (struct transport_request){.method = METHOD_GET, .path = "/api/v1/pods?limit=5", .as_user = "jane"});
    assert_int_equal(x.response.err.code, 0);
    assert_int_equal(x.response.status, 200);
    assert_int_equal(x.response.retry_after_ms, -1);
    assert_int_equal(x.starts, 0);
    assert_string_equal(x.content_type, "application/json; charset=utf-8");
    assert_string_equal(x.body.data,
                        "GET /k8s/c-1/api/v1/pods?limit=5\nAccept: application/json\nContent-Type: \n"
                        "User-Agent: tidelock/1\nAuthorization: Bearer secret\nImpersonate-User: jane\n"
                        "Expect: \nAccept-Encoding: gzip\nContent-Length: \n\n");
    rig_result_fini(&x);
    // A stream asks for no compression.
    rig_do(&r, &x, WATCH("/w"));
    assert_non_null(strstr(x.body.data, "Accept-Encoding: identity\n"));
    rig_result_fini(&x);
    free(server);
    rig_fini(&r);
}

static void test_methods_with_bodies(void **state)
{
    (void)state;
    struct rig r;
    setup(&r, handle_echo);
    const enum transport_method methods[] = {METHOD_POST, METHOD_PUT, METHOD_PATCH, METHOD_DELETE,
                                             METHOD_GET};
    for (int round = 0; round < 2; round++) { // the second over handles that were used for others
        for (size_t i = 0; i < 4; i++) {
            struct rig_result x;
            struct transport_request q = {.method = methods[(i + (size_t)round) % 4],
                                          .path = "/x",
                                          .content_type = "a/b",
                                          .accept = "c/d",
                                          .body = "{\"a\":1}",
                                          .body_len = 7};
            char *wanted =
                xasprintf("%s /x\nAccept: c/d\nContent-Type: a/b\nUser-Agent: rig\nAuthorization: \n"
                          "Impersonate-User: \nExpect: \nAccept-Encoding: \nContent-Length: 7\n\n{\"a\":1}",
                          transport_method_name(q.method));
            rig_do(&r, &x, q);
            assert_string_equal(x.body.data, wanted);
            rig_result_fini(&x);
            free(wanted);
        }
    }
    struct rig_result x;
    rig_do(&r, &x, (struct transport_request){.method = METHOD_DELETE, .path = "/gone"});
    assert_memory_equal(x.body.data, "DELETE /gone\n", 13);
    rig_result_fini(&x);
    rig_do(&r, &x,
           (struct transport_request){.method = METHOD_POST, .path = "/empty", .content_type = "a/b"});
    assert_non_null(strstr(x.body.data, "Content-Length: 0\n"));
    rig_result_fini(&x);
    rig_fini(&r);
}

static void test_large_body_without_expect(void **state)
{
    (void)state;
    enum { SIZE = 3 << 20 };
    struct rig r;
    setup(&r, handle_echo);
    char *body = xmalloc(SIZE + 1);
    memset(body, 'x', SIZE);
    body[SIZE] = '\0';
    struct rig_result x;
    rig_do(&r, &x,
           (struct transport_request){.method = METHOD_PATCH, .path = "/x", .body = body, .body_len = SIZE});
    assert_non_null(strstr(x.body.data, "Expect: \n"));
    assert_string_equal(strstr(x.body.data, "\n\n") + 2, body);
    rig_result_fini(&x);
    free(body);
    rig_fini(&r);
}

static void test_parallel(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    struct rig r;
    setup(&r, handle_echo);
    static struct rig_result x[COUNT];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < COUNT; i++) {
            char path[32];
            snprintf(path, sizeof(path), "/item/%d", i);
            rig_result_init(&x[i], &r);
            rig_send(&r, &x[i], GET(path));
        }
        rig_wait(&r, COUNT);
        for (int i = 0; i < COUNT; i++) {
            char wanted[64];
            snprintf(wanted, sizeof(wanted), "GET /item/%d\n", i);
            assert_int_equal(x[i].response.status, 200);
            assert_memory_equal(x[i].body.data, wanted, strlen(wanted));
            rig_result_fini(&x[i]);
        }
    }
    assert_int_equal(r.requests, 3 * COUNT);
    rig_fini(&r);
}

// ---- errors that the server says

static const char *overload_header;

static void handle_overload(struct rig *r, struct evhttp_request *req)
{
    (void)r;
    if (overload_header != NULL)
        rig_add_header(req, "Retry-After", overload_header);
    rig_add_header(req, "Warning", "299 - \"one\"");
    rig_add_header(req, "Warning", "299 - \"say \\\"two\\\"\"");
    rig_reply(req, 429, "text/plain", "Too many requests, please try again later.");
}

static void test_overload_in_plain_text(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        int64_t ms;
    } cases[] = {{"7", 7000},
                 {NULL, -1},
                 {"-5", -1},
                 {"0", 0},
                 {"99999999999", 3600000},
                 {"1.5", -1},
                 {"abc", -1},
                 {"Wed, 21 Oct 2015 07:28:00 GMT", 0}};
    struct rig r;
    setup(&r, handle_overload);
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig_result x;
        overload_header = cases[i].header;
        rig_do(&r, &x, i % 2 != 0 ? WATCH("/w") : GET("/x"));
        assert_int_equal(x.response.err.code, 0);
        assert_int_equal(x.response.status, 429);
        assert_int_equal(x.response.retry_after_ms, cases[i].ms);
        assert_string_equal(x.warning, "say \"two\"");
        assert_string_equal(x.content_type, "text/plain");
        assert_string_equal(x.body.data, "Too many requests, please try again later.");
        rig_result_fini(&x);
    }
    rig_fini(&r);
}

// ---- errors of the network

static uint16_t closed_port(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&a, &n), 0);
    close(fd);
    return ntohs(a.sin_port);
}

static void test_connection_refused(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, NULL, NULL);
    char *server = xasprintf("http://127.0.0.1:%d", closed_port());
    connect_rig(&r, (struct transport_curl_options){.server = server});
    for (int i = 0; i < 2; i++) {
        struct rig_result x;
        rig_do(&r, &x, i == 0 ? GET("/x") : WATCH("/w"));
        assert_int_equal(x.response.err.code, -ERR_NETWORK);
        assert_int_equal(x.response.status, 0);
        assert_false(x.response.sent_maybe);
        assert_non_null(strstr(x.response.err.text, server));
        rig_result_fini(&x);
    }
    free(server);
    rig_fini(&r);
}

static void test_timeout(void **state)
{
    (void)state;
    const struct rig_script scripts[] = {{"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nab", 0, 0, RIG_KEEP}};
    struct rig r;
    setup_raw(&r, scripts, 1);
    struct rig_result x;
    rig_do(&r, &x, (struct transport_request){.method = METHOD_POST, .path = "/x", .timeout_ms = 50});
    assert_int_equal(x.response.err.code, -ERR_TIMEOUT);
    assert_int_equal(x.response.status, 0);
    assert_true(x.response.sent_maybe);
    assert_string_equal(x.body.data != NULL ? x.body.data : "", "");
    rig_result_fini(&x);
    rig_fini(&r);
}

static void test_lost_connections(void **state)
{
    (void)state;
    static const struct rig_script half = {"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{\"a\"", 0, 0,
                                           RIG_CLOSE};
    static const struct rig_script half_reset = {"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n{\"a\"", 0, 0,
                                                 RIG_RESET};
    static const struct rig_script half_chunk = {
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\n{\"a\"", 0, 0, RIG_CLOSE};
    static const struct rig_script silent = {"", 0, 0, RIG_CLOSE};
    static const struct rig_script garbage = {"SSH-2.0-OpenSSH_9\r\n\r\n", 0, 0, RIG_CLOSE};
    const struct rig_script *const all[] = {&half, &half_reset, &half_chunk, &silent, &garbage};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        struct rig r;
        setup_raw(&r, all[i], 1);
        struct rig_result x;
        rig_do(&r, &x, GET("/x"));
        assert_int_equal(x.response.err.code, -ERR_NETWORK);
        assert_int_equal(x.response.status, 0);
        assert_true(x.response.sent_maybe);
        assert_int_equal(x.response.body_len, 0);
        rig_result_fini(&x);
        rig_fini(&r);
    }
}

// A kept connection that the server closes just as the next request is written.
static void test_kept_connection_is_dead(void **state)
{
    (void)state;
    static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    const struct rig_script scripts[] = {{ok, 0, 0, RIG_KEEP}, {"", 0, 0, RIG_CLOSE}, {ok, 0, 0, RIG_KEEP}};
    struct rig r;
    setup_raw(&r, scripts, 3);
    struct rig_result x;
    rig_do(&r, &x, GET("/first"));
    assert_int_equal(x.response.status, 200);
    rig_result_fini(&x);
    rig_do(&r, &x,
           (struct transport_request){.method = METHOD_PATCH, .path = "/p", .body = "{}", .body_len = 2});
    assert_int_equal(x.response.status, 200); // repeated on a new connection
    assert_int_equal(r.requests, 3);
    assert_int_equal(rig_raw_connections(&r), 2);
    rig_result_fini(&x);

    rig_raw_scripts(&r, scripts, 3);
    r.requests = 1;
    rig_do(&r, &x,
           (struct transport_request){.method = METHOD_POST, .path = "/p", .body = "{}", .body_len = 2});
    assert_int_equal(x.response.err.code, -ERR_NETWORK); // it may have been done
    assert_true(x.response.sent_maybe);
    assert_int_equal(r.requests, 2);
    rig_result_fini(&x);
    rig_fini(&r);
}

// ---- limits

static void handle_kibibyte(struct rig *r, struct evhttp_request *req)
{
    char body[1025];
    (void)r;
    memset(body, 'x', 1024);
    body[1024] = '\0';
    rig_reply(req, 200, "text/plain", body);
}

static void test_response_cap(void **state)
{
    (void)state;
    struct rig r;
    setup(&r, handle_kibibyte);
    struct rig_result x;
    rig_do(&r, &x, (struct transport_request){.method = METHOD_GET, .path = "/x", .max_response = 1023});
    assert_int_equal(x.response.err.code, -ERR_LIMIT);
    assert_int_equal(x.response.status, 0);
    assert_non_null(strstr(x.response.err.text, "1023 bytes"));
    rig_result_fini(&x);
    rig_do(&r, &x, (struct transport_request){.method = METHOD_GET, .path = "/x", .max_response = 1024});
    assert_int_equal(x.response.status, 200);
    assert_int_equal(x.body.len, 1024);
    rig_result_fini(&x);
    rig_fini(&r);
}

static const unsigned char gzip_list[] = {
    31, 139, 8,  0,   0,  0,  0,   0,  2,  3,   171, 86,  202, 206, 204, 75,  81, 178, 82,  242, 201, 44, 46,
    81, 210, 81, 202, 44, 73, 205, 45, 86, 178, 138, 142, 173, 5,   0,   110, 35, 106, 253, 26,  0,   0,  0};
static const unsigned char gzip_bomb[] = {
    31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 237, 193, 49, 1,   0,  0,   0,  194, 160, 245, 79, 109, 6, 127, 160, 0,
    0,  0,   0, 0, 0, 0, 0, 0, 0, 0, 0,   0,   0,  0,   0,  0,   0,  0,   0,   0,   0,  0,   0, 0,   0,   0,
    0,  0,   0, 0, 0, 0, 0, 0, 0, 0, 0,   0,   0,  0,   0,  0,   0,  0,   0,   0,   0,  0,   0, 0,   0,   0,
    0,  0,   0, 0, 0, 0, 0, 0, 0, 0, 0,   0,   0,  0,   0,  0,   0,  0,   0,   0,   0,  0,   0, 0,   0,   0,
    0,  0,   0, 0, 0, 0, 0, 0, 0, 0, 0,   0,   0,  0,   0,  0,   0,  0,   0,   0,   0,  0,   0, 0,   0,   0,
    0,  0,   0, 0, 0, 0, 0, 0, 0, 0, 0,   0,   0,  0,   0,  0,   0,  0,   0,   0,   0,  0,   0, 0,   0,   0,
    0,  0,   0, 0, 0, 0, 0, 0, 0, 0, 0,   0,   0,  0,   0,  0,   0,  0,   0,   0,   0,  0,   0, 0,   0,   0,
    0,  0,   0, 0, 0, 0, 0, 0, 0, 0, 0,   0,   0,  0,   0,  0,   0,  0,   0,   0,   0,  0,   0, 0,   0,   0,
    0,  0,   0, 0, 0, 0, 0, 0, 0, 0, 128, 215, 0,  123, 88, 224, 92, 64,  13,  3,   0};

static void reply_gzip(struct evhttp_request *req, const void *data, size_t n)
{
    struct evbuffer *out = evbuffer_new();
    evbuffer_add(out, data, n);
    rig_add_header(req, "Content-Encoding", "gzip");
    rig_add_header(req, "Content-Type", "application/json");
    evhttp_send_reply(req, 200, "OK", out);
    evbuffer_free(out);
}

static void handle_gzip(struct rig *r, struct evhttp_request *req)
{
    (void)r;
    if (strcmp(evhttp_request_get_uri(req), "/bomb") == 0)
        reply_gzip(req, gzip_bomb, sizeof(gzip_bomb));
    else if (strcmp(evhttp_request_get_uri(req), "/cut") == 0)
        reply_gzip(req, gzip_list, sizeof(gzip_list) - 12);
    else if (strcmp(evhttp_request_get_uri(req), "/plain") == 0)
        reply_gzip(req, "{\"kind\":\"List\"}", 15);
    else
        reply_gzip(req, gzip_list, sizeof(gzip_list));
}

static void test_gzip(void **state)
{
    (void)state;
    struct rig r;
    setup(&r, handle_gzip);
    struct rig_result x;
    rig_do(&r, &x, GET("/list"));
    assert_string_equal(x.body.data, "{\"kind\":\"List\",\"items\":[]}");
    rig_result_fini(&x);
    rig_do(&r, &x, WATCH("/list")); // not asked for, and comes nevertheless
    assert_string_equal(x.body.data, "{\"kind\":\"List\",\"items\":[]}");
    rig_result_fini(&x);
    rig_do(&r, &x, (struct transport_request){.method = METHOD_GET, .path = "/bomb", .max_response = 100000});
    assert_int_equal(x.response.err.code, -ERR_LIMIT);
    rig_result_fini(&x);
    rig_do(&r, &x, GET("/plain"));
    assert_int_equal(x.response.err.code, -ERR_NETWORK);
    assert_int_equal(x.response.body_len, 0);
    rig_result_fini(&x);
    // libcurl takes a cut one for complete: what is there is a true beginning, and no JSON.
    rig_do(&r, &x, GET("/cut"));
    assert_true(x.body.len < 26);
    assert_memory_equal("{\"kind\":\"List\",\"items\":[]}", x.body.data != NULL ? x.body.data : "",
                        x.body.len);
    rig_result_fini(&x);
    rig_fini(&r);
}

static void test_unusable_requests_fail_later(void **state)
{
    (void)state;
    struct rig r;
    setup(&r, handle_echo);
    const struct transport_request bad[] = {GET("no-slash"),
                                            GET("/with blank"),
                                            GET("/line\nbreak"),
                                            {.method = METHOD_GET, .path = "/x", .as_user = "a\r\nX: y"},
                                            {.method = METHOD_GET, .path = "/x", .accept = "a\nb"}};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct rig_result x;
        rig_do(&r, &x, bad[i]);
        assert_int_equal(x.response.err.code, -ERR_INVALID);
        assert_false(x.response.sent_maybe);
        rig_result_fini(&x);
    }
    struct rig_result x;
    rig_result_init(&x, &r);
    rig_send(&r, &x, bad[0]);
    transport_cancel(x.transfer);
    rig_run(&r, 5);
    assert_int_equal(x.dones, 0);
    assert_int_equal(r.requests, 0);
    rig_result_fini(&x);
    rig_fini(&r);
}

// ---- streams

#define CHUNKED "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n"
#define FRAMES "{\"type\":\"ADDED\",\"object\":{\"k\":\"提交 ✓ 𝄞 é\"}}\n{\"type\":\"DELETED\"}\r\n"

static void test_stream_in_pieces(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 4096);
    buf_addf(&b, CHUNKED "%zx\r\n" FRAMES "\r\n5;x=y\r\nabcde\r\n0\r\n\r\n", strlen(FRAMES));
    for (size_t piece = 1; piece < 40; piece = piece * 2 + 1) {
        const struct rig_script script = {b.data, b.len, piece, RIG_KEEP};
        struct rig r;
        setup_raw(&r, &script, 1);
        struct rig_result x;
        rig_do(&r, &x, WATCH("/w"));
        assert_int_equal(x.starts, 1);
        assert_int_equal(x.start_status, 200);
        assert_int_equal(x.response.err.code, 0);
        assert_int_equal(x.response.status, 200);
        assert_string_equal(x.body.data, FRAMES "abcde");
        rig_result_fini(&x);
        rig_fini(&r);
    }
    buf_fini(&b);
}

static void test_stream_is_cut(void **state)
{
    (void)state;
    static const char bytes[] = CHUNKED "5\r\nabcde\r\n20\r\nhalf";
    const enum rig_end ends[] = {RIG_CLOSE, RIG_RESET};
    for (size_t i = 0; i < 2; i++) {
        const struct rig_script script = {bytes, 0, 0, ends[i]};
        struct rig r;
        setup_raw(&r, &script, 1);
        struct rig_result x;
        rig_do(&r, &x, WATCH("/w"));
        assert_int_equal(x.response.err.code, -ERR_NETWORK);
        assert_int_equal(x.response.status, 200);
        assert_memory_equal(x.body.data, "abcde", 5);
        assert_int_equal(x.starts, 1);
        rig_result_fini(&x);
        rig_fini(&r);
    }
}

static void on_chunk_stop(struct rig_result *x)
{
    loop_stop(x->rig->loop);
}

static void test_stream_starts_before_data(void **state)
{
    (void)state;
    const struct rig_script script = {CHUNKED, 0, 0, RIG_KEEP};
    struct rig r;
    setup_raw(&r, &script, 1);
    struct rig_result x;
    rig_result_init(&x, &r);
    rig_send(&r, &x,
             (struct transport_request){.method = METHOD_GET, .path = "/w", .stream = true, .idle_ms = 60});
    uint64_t start = loop_now_ms(r.loop);
    rig_wait(&r, 1);
    assert_int_equal(x.starts, 1);
    assert_int_equal(x.response.err.code, -ERR_TIMEOUT);
    assert_int_equal(x.response.status, 200);
    assert_true(loop_now_ms(r.loop) - start >= 60);
    rig_result_fini(&x);
    rig_fini(&r);
}

static void test_stream_idle_before_headers(void **state)
{
    (void)state;
    const struct rig_script script = {"HTTP/1.1 200 OK\r\n", 0, 0, RIG_KEEP};
    struct rig r;
    setup_raw(&r, &script, 1);
    struct rig_result x;
    rig_do(&r, &x,
           (struct transport_request){.method = METHOD_GET, .path = "/w", .stream = true, .idle_ms = 30});
    assert_int_equal(x.starts, 0);
    assert_int_equal(x.response.err.code, -ERR_TIMEOUT);
    assert_int_equal(x.response.status, 0);
    rig_result_fini(&x);
    rig_fini(&r);
}

static void test_stream_stopped_by_reader(void **state)
{
    (void)state;
    const struct rig_script script = {CHUNKED "5\r\nabcde\r\n", 0, 0, RIG_KEEP};
    struct rig r;
    setup_raw(&r, &script, 1);
    struct rig_result x;
    rig_result_init(&x, &r);
    x.stop_after = 1;
    rig_send(&r, &x, WATCH("/w"));
    rig_wait(&r, 1);
    assert_int_equal(x.response.err.code, -ERR_CANCELED);
    assert_string_equal(x.body.data, "abcde");
    rig_result_fini(&x);
    rig_fini(&r);
}

static void test_stream_refused_with_text(void **state)
{
    (void)state;
    const struct rig_script script = {
        "HTTP/1.1 410 Gone\r\nContent-Type: text/html\r\nContent-Length: 7\r\n\r\n<h1>no\n", 0, 3, RIG_KEEP};
    struct rig r;
    setup_raw(&r, &script, 1);
    struct rig_result x;
    rig_do(&r, &x, WATCH("/w"));
    assert_int_equal(x.start_status, 410);
    assert_int_equal(x.response.status, 410);
    assert_int_equal(x.chunks, 0);
    assert_int_equal(x.response.body_len, 7);
    assert_string_equal(x.body.data, "<h1>no\n");
    rig_result_fini(&x);
    rig_fini(&r);
}

// ---- cancelling and changes from inside callbacks

static void cancel_other(struct rig_result *x)
{
    struct rig_result *other = x->ud;
    if (other->transfer != NULL)
        transport_cancel(other->transfer);
    other->transfer = NULL;
}

static void cancel_self(struct rig_result *x)
{
    transport_cancel(x->transfer);
    x->transfer = NULL;
    loop_stop(x->rig->loop);
}

static void free_transport(struct rig_result *x)
{
    transport_free(x->rig->transport);
    x->rig->transport = NULL;
    loop_stop(x->rig->loop);
}

static void send_another(struct rig_result *x)
{
    struct rig_result *other = x->ud;
    if (other->transfer == NULL && other->dones == 0)
        rig_send(x->rig, other, WATCH("/second"));
}

static void test_cancel(void **state)
{
    (void)state;
    struct rig r;
    setup(&r, handle_echo);
    struct rig_result a, b;
    rig_result_init(&a, &r);
    rig_result_init(&b, &r);
    rig_send(&r, &a, GET("/a"));
    transport_cancel(a.transfer); // before it went out
    rig_send(&r, &a, GET("/a"));
    rig_send(&r, &b, GET("/b"));
    a.on_end = cancel_other;
    a.ud = &b;
    b.on_end = cancel_other;
    b.ud = &a;
    rig_wait(&r, 1);
    rig_run(&r, 20);
    assert_int_equal(a.dones + b.dones, 1);
    rig_result_fini(&a);
    rig_result_fini(&b);
    rig_fini(&r);
}

static void run_stream_pair(void (*in_data)(struct rig_result *x), int *ret_dones)
{
    const struct rig_script script = {CHUNKED "5\r\nabcde\r\n", 0, 0, RIG_KEEP};
    struct rig r;
    setup_raw(&r, &script, 1);
    struct rig_result a, b;
    rig_result_init(&a, &r);
    rig_result_init(&b, &r);
    a.on_chunk = in_data;
    a.ud = &b;
    if (in_data != send_another) {
        b.on_chunk = in_data;
        b.ud = &a;
        rig_send(&r, &b, WATCH("/b"));
    } else {
        b.on_chunk = on_chunk_stop;
    }
    rig_send(&r, &a, WATCH("/a"));
    if (in_data == cancel_other)
        rig_run(&r, 50);
    else
        rig_wait(&r, 1); // the callback stops the loop
    assert_true(a.chunks + b.chunks > 0);
    if (in_data == send_another)
        assert_string_equal(b.body.data, "abcde");
    *ret_dones = a.dones + b.dones;
    rig_fini(&r);
    assert_int_equal(a.dones + b.dones, *ret_dones); // transport_free calls nobody
    rig_result_fini(&a);
    rig_result_fini(&b);
}

static void test_changes_in_on_data(void **state)
{
    (void)state;
    void (*const all[])(struct rig_result * x) = {cancel_other, cancel_self, free_transport, send_another};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
        int dones = -1;
        run_stream_pair(all[i], &dones);
        assert_int_equal(dones, 0);
    }
}

static void test_free_in_on_done(void **state)
{
    (void)state;
    struct rig r;
    setup(&r, handle_echo);
    struct rig_result x[10];
    for (int i = 0; i < 10; i++) {
        rig_result_init(&x[i], &r);
        x[i].on_end = free_transport;
        rig_send(&r, &x[i], i == 3 ? WATCH("/w") : GET(i == 5 ? "bad" : "/x"));
    }
    rig_wait(&r, 1);
    rig_run(&r, 10);
    int dones = 0;
    for (int i = 0; i < 10; i++) {
        dones += x[i].dones;
        rig_result_fini(&x[i]);
    }
    assert_int_equal(dones, 1);
    rig_fini(&r);
}

static void test_many_streams(void **state)
{
    (void)state;
    enum { COUNT = 200 };
    const struct rig_script script = {CHUNKED "5\r\nabcde\r\n0\r\n\r\n", 0, 0, RIG_KEEP};
    struct rig r;
    setup_raw(&r, &script, 1);
    static struct rig_result x[COUNT];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < COUNT; i++) {
            rig_result_init(&x[i], &r);
            rig_send(&r, &x[i], WATCH("/w"));
        }
        rig_wait(&r, COUNT);
        for (int i = 0; i < COUNT; i++) {
            assert_int_equal(x[i].response.err.code, 0);
            assert_string_equal(x[i].body.data, "abcde");
            rig_result_fini(&x[i]);
        }
    }
    rig_fini(&r);
}

// ---- addresses

static void test_bad_options(void **state)
{
    (void)state;
    static const char *const servers[] = {
        "host:6443",    "ftp://h/", "https://h:99999", "https://u:p@h", "https://h/?a=b",
        "https://[::1", "",         "https://"};
    struct loop *l = loop_new(clock_real());
    for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++) {
        struct transport *t = NULL;
        struct err e = {0};
        struct transport_curl_options o = {.server = servers[i], .user_agent = "x"};
        assert_int_equal(transport_curl_new(l, &o, &t, &e), -ERR_INVALID);
        assert_null(t);
        assert_true(strstr(e.text, "server") != NULL);
        assert_null(strstr(e.text, "u:p"));
    }
    static const char *const good[] = {
        "HTTPS://Host:443/",     "https://[fe80::1%25eth0]:6443", "https://host.",
        "http://127.0.0.1:8080", "https://h/k8s/clusters/c-1",    "https://[::1]:6443"};
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        struct transport *t = NULL;
        struct err e = {0};
        struct transport_curl_options o = {
            .server = good[i], .user_agent = "x", .tls_server_name = "kubernetes"};
        assert_int_equal(transport_curl_new(l, &o, &t, &e), 0);
        transport_free(t);
    }
    loop_free(l);
}

// The test's own server plays the proxy: it sees the whole URL.
static void test_proxy(void **state)
{
    (void)state;
    struct rig r;
    rig_init(&r, NULL, NULL);
    r.handle = handle_echo;
    char *proxy = xasprintf("http://127.0.0.1:%d", r.port);
    connect_rig(&r, (struct transport_curl_options){.server = "http://no.such.host.invalid/prefix",
                                                    .proxy_url = proxy});
    struct rig_result x;
    rig_do(&r, &x, GET("/x"));
    assert_int_equal(x.response.status, 200);
    assert_non_null(strstr(x.body.data, "GET http://no.such.host.invalid/prefix/x\n"));
    rig_result_fini(&x);
    free(proxy);
    rig_fini(&r);
}

static void test_proxy_refuses(void **state)
{
    (void)state;
    const struct rig_script script = {
        "HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n", 0, 0, RIG_CLOSE};
    struct rig r;
    rig_init_raw(&r);
    rig_raw_scripts(&r, &script, 1);
    char *proxy = xasprintf("http://127.0.0.1:%d", r.port);
    connect_rig(
        &r, (struct transport_curl_options){.server = "https://no.such.host.invalid", .proxy_url = proxy});
    struct rig_result x;
    rig_do(&r, &x, GET("/x"));
    assert_int_equal(x.response.err.code, -ERR_NETWORK);
    assert_false(x.response.sent_maybe);
    assert_non_null(strstr(x.response.err.text, "407"));
    rig_result_fini(&x);
    free(proxy);
    rig_fini(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get_and_its_headers),
        cmocka_unit_test(test_methods_with_bodies),
        cmocka_unit_test(test_large_body_without_expect),
        cmocka_unit_test(test_parallel),
        cmocka_unit_test(test_overload_in_plain_text),
        cmocka_unit_test(test_connection_refused),
        cmocka_unit_test(test_timeout),
        cmocka_unit_test(test_lost_connections),
        cmocka_unit_test(test_kept_connection_is_dead),
        cmocka_unit_test(test_response_cap),
        cmocka_unit_test(test_gzip),
        cmocka_unit_test(test_unusable_requests_fail_later),
        cmocka_unit_test(test_stream_in_pieces),
        cmocka_unit_test(test_stream_is_cut),
        cmocka_unit_test(test_stream_starts_before_data),
        cmocka_unit_test(test_stream_idle_before_headers),
        cmocka_unit_test(test_stream_stopped_by_reader),
        cmocka_unit_test(test_stream_refused_with_text),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_changes_in_on_data),
        cmocka_unit_test(test_free_in_on_done),
        cmocka_unit_test(test_many_streams),
        cmocka_unit_test(test_bad_options),
        cmocka_unit_test(test_proxy),
        cmocka_unit_test(test_proxy_refuses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
