// ctest-labels: thread
#include "io/server.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "support/http_rig.h"

// The server under test stands on the rig's loop; the rig's own server is not used.
struct fixture {
    struct rig rig;
    struct server *server;
    char *url;
};

static void handle_echo(void *ud, const struct server_request *q, struct server_response *ret)
{
    assert_non_null(ud);
    buf_addf(&ret->body, "%s %s ?%s %zu ", q->method, q->path, q->query, q->body_len);
    buf_add(&ret->body, q->body, q->body_len < 20 ? q->body_len : 20);
}

static void handle_status(void *ud, const struct server_request *q, struct server_response *ret)
{
    (void)ud, (void)q;
    ret->status = 503;
    ret->content_type = "application/json";
    buf_add_str(&ret->body, "{}");
}

static void handle_large(void *ud, const struct server_request *q, struct server_response *ret)
{
    (void)ud, (void)q;
    char *piece = xmalloc(1 << 20);
    memset(piece, 'x', 1 << 20);
    int count = strcmp(q->query, "too") == 0 ? 65 : 20;
    for (int i = 0; i < count; i++)
        buf_add(&ret->body, piece, 1 << 20);
    free(piece);
}

static const struct server_route routes[] = {
    {"GET", "/echo", handle_echo},   {"POST", "/echo", handle_echo}, {"GET", "/status", handle_status},
    {"GET", "/large", handle_large}, {"GET", "/a b", handle_echo},
};

static void setup(struct fixture *f, const char *address, const char *host)
{
    rig_init_raw(&f->rig);
    struct err e = {0};
    if (server_new(f->rig.loop, address, routes, sizeof(routes) / sizeof(routes[0]), f, &f->server, &e) != 0)
        fail_msg("%s", e.text);
    assert_true(server_port(f->server) != 0);
    f->url = xasprintf("http://%s:%d", host, server_port(f->server));
    assert_int_equal(rig_connect(&f->rig, (struct transport_curl_options){.server = f->url}, &e), 0);
}

static void teardown(struct fixture *f)
{
    server_free(f->server);
    free(f->url);
    rig_fini(&f->rig);
}

static void assert_answer(struct fixture *f, struct transport_request q, int status, const char *type,
                          const char *body)
{
    struct rig_result x;
    rig_do(&f->rig, &x, q);
    assert_int_equal(x.response.err.code, 0);
    assert_int_equal(x.response.status, status);
    assert_string_equal(x.content_type, type);
    if (body != NULL)
        assert_string_equal(x.body.data, body);
    rig_result_fini(&x);
}

#define GET(p) ((struct transport_request){.method = METHOD_GET, .path = (p)})
#define PLAIN "text/plain; charset=utf-8"

static void test_routes(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "127.0.0.1:0", "127.0.0.1");
    assert_answer(&f, GET("/echo"), 200, PLAIN, "GET /echo ? 0 ");
    assert_answer(&f, GET("/echo?a=%20b&c"), 200, PLAIN, "GET /echo ?a=%20b&c 0 ");
    assert_answer(&f, GET("/ec%68o"), 200, PLAIN, "GET /echo ? 0 ");
    assert_answer(&f, GET("/a%20b"), 200, PLAIN, "GET /a b ? 0 ");
    assert_answer(
        &f,
        (struct transport_request){.method = METHOD_POST, .path = "/echo", .body = "hello", .body_len = 5},
        200, PLAIN, "POST /echo ? 5 hello");
    assert_answer(&f, GET("/status"), 503, "application/json", "{}");
    assert_answer(&f, GET("/"), 404, PLAIN, "not found\n");
    assert_answer(&f, GET("/echo/"), 404, PLAIN, "not found\n");
    assert_answer(&f, GET("/echo%00x"), 400, "text/html", NULL);
    assert_answer(&f, (struct transport_request){.method = METHOD_DELETE, .path = "/status"}, 405, PLAIN,
                  "method not allowed\n");
    teardown(&f);
}

static void test_sizes(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "127.0.0.1:0", "127.0.0.1");
    char *body = xmalloc((3 << 20) + 1);
    memset(body, 'x', (3 << 20) + 1);
    struct transport_request q = {.method = METHOD_POST, .path = "/echo", .body = body, .body_len = 3 << 20};
    assert_answer(&f, q, 200, PLAIN, "POST /echo ? 3145728 xxxxxxxxxxxxxxxxxxxx");
    struct rig_result x;
    q.body_len++;
    rig_do(&f.rig, &x, q);
    assert_true(x.response.status == 413 ||
                x.response.err.code == -ERR_NETWORK); // it may close while we still write
    rig_result_fini(&x);
    char *path = xasprintf("/echo?%.*s", 70000, body);
    rig_do(&f.rig, &x, GET(path));
    assert_true(x.response.status >= 400 || x.response.err.code != 0);
    rig_result_fini(&x);
    rig_do(&f.rig, &x, GET("/large"));
    assert_int_equal(x.response.body_len, 20 << 20);
    rig_result_fini(&x);
    assert_answer(&f, GET("/large?too"), 500, PLAIN, "the answer is larger than 64 MiB\n");
    free(path);
    free(body);
    teardown(&f);
}

static void test_addresses(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, "[::1]:0", "[::1]");
    assert_answer(&f, GET("/echo"), 200, PLAIN, "GET /echo ? 0 ");
    // The same port once more.
    char *taken = xasprintf("[::1]:%d", server_port(f.server));
    const char *const bad[] = {
        taken,      "", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:70000", "no such host:1",
        "[::1]8080"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct server *s = NULL;
        struct err e = {0};
        assert_int_equal(server_new(f.rig.loop, bad[i], routes, 1, NULL, &s, &e), -ERR_IO);
        assert_null(s);
        assert_non_null(strstr(e.text, bad[i]));
    }
    free(taken);
    teardown(&f);
}

static void test_free_with_open_connections(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f, ":0", "127.0.0.1");
    assert_answer(&f, GET("/echo"), 200, PLAIN, "GET /echo ? 0 ");
    struct rig_result x;
    server_free(f.server);
    f.server = NULL;
    rig_do(&f.rig, &x, GET("/echo"));
    assert_int_equal(x.response.err.code, -ERR_NETWORK);
    rig_result_fini(&x);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_routes),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_free_with_open_connections),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
