// ctest-labels: thread
// One request over HTTP/2: what the server sees of it, and what becomes of each kind of answer.
#include <nghttp2/nghttp2.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "io/curl_impl.h"
#include "support/h2_rig.h"

static void handle_head(struct h2_peer *p, struct h2_stream *s)
{
    (void)p;
    evbuffer_add(s->head, "", 1);
    h2_reply(s, "200", (const char *)evbuffer_pullup(s->head, -1));
}

static const char *token_text(void *ud)
{
    return ud;
}

static void test_what_the_server_sees(void **state)
{
    (void)state;
    struct h2_rig f;
    struct rig_result x;
    h2_rig_init(&f, handle_head);
    char *server = xasprintf("https://127.0.0.1:%d/k8s/c-1/", f.peer.port);
    h2_rig_connect(&f, (struct transport_curl_options){.server = server,
                                                       .user_agent = "tidelock/1",
                                                       .tls_server_name = "kubernetes",
                                                       .token = token_text,
                                                       .ud = (char *)"secret"});
    char *want = xasprintf(":method: GET\n:scheme: https\n:authority: 127.0.0.1:%d\n"
                           ":path: /k8s/c-1/api/v1/pods?limit=5\nuser-agent: tidelock/1\n"
                           "accept: application/json\nimpersonate-user: jane\nauthorization: Bearer secret\n"
                           "accept-encoding: gzip\n",
                           f.peer.port);
    rig_do(
        &f.rig, &x,
        (struct transport_request){.method = METHOD_GET, .path = "/api/v1/pods?limit=5", .as_user = "jane"});
    assert_string_equal(x.body.data, want);
    rig_result_fini(&x);
    free(want);
    want = xasprintf(":method: PATCH\n:scheme: https\n:authority: 127.0.0.1:%d\n:path: /k8s/c-1/x\n"
                     "user-agent: tidelock/1\naccept: c/d\ncontent-type: a/b\nauthorization: Bearer secret\n"
                     "content-length: 7\n",
                     f.peer.port);
    struct transport_request q = H2_WITH_BODY(METHOD_PATCH);
    q.content_type = "a/b";
    q.accept = "c/d";
    rig_do(&f.rig, &x, q);
    assert_string_equal(x.body.data, want);
    rig_result_fini(&x);
    free(want);
    free(server);
    assert_int_equal(f.peer.connections, 1);
    h2_rig_fini(&f);
}

static void test_authority(void **state)
{
    (void)state;
    static const struct {
        const char *server, *tls_name, *authority, *prefix;
    } cases[] = {
        {"https://[::1]:6443/p/", NULL, "[::1]:6443", "/p"},
        {"https://[fd00::1]", "kubernetes", "[fd00::1]", ""},
        {"https://h.example:443", NULL, "h.example", ""},
        {"https://h.example:443", "other.example", "h.example", ""},
        {"https://h.example:8443/a/b", "[::1]", "h.example:8443", "/a/b"},
    };
    struct loop *l = loop_new(clock_real());
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct transport *t = NULL;
        struct err e = {0};
        struct transport_curl_options o = {
            .server = cases[i].server, .tls_server_name = cases[i].tls_name, .user_agent = "x"};
        assert_int_equal(transport_curl_new(l, &o, &t, &e), 0);
        assert_string_equal(((struct curl_transport *)t)->authority, cases[i].authority);
        assert_string_equal(((struct curl_transport *)t)->prefix, cases[i].prefix);
        transport_free(t);
    }
    loop_free(l);
}

// ---- answers

// What the next request is answered with.
static struct answer {
    const struct h2_field *interim; // with status 103
    const char *status;
    const struct h2_field *fields;
    const char *body; // NULL: none
    size_t len;       // 0: strlen
    const struct h2_field *trailers;
} answer;

static void handle_answer(struct h2_peer *p, struct h2_stream *s)
{
    if (strcmp(s->path, "/works") == 0) {
        h2_rig_echo(p, s);
        return;
    }
    if (answer.interim != NULL)
        h2_inform(s, "103", answer.interim);
    h2_answer(s, answer.status, answer.fields, answer.body,
              answer.len != 0 || answer.body == NULL ? answer.len : strlen(answer.body), answer.trailers);
}

#define FIELDS(...) ((const struct h2_field[]){__VA_ARGS__, {NULL, NULL}})
#define NO_FIELDS ((const struct h2_field[]){{NULL, NULL}})

static void do_answer(struct h2_rig *f, struct rig_result *x, struct answer a)
{
    answer = a;
    rig_do(&f->rig, x, H2_GET("/x"));
    if (x->response.err.code != 0)
        fail_msg("%s", x->response.err.text);
    assert_int_equal(x->response.status, atoi(a.status));
}

static void test_header_of_the_answer(void **state)
{
    (void)state;
    struct h2_rig f;
    struct rig_result x;
    h2_rig_open(&f, handle_answer);
    do_answer(
        &f, &x,
        (struct answer){.status = "429",
                        .fields = FIELDS({"content-type", "text/plain"}, {"retry-after", "7"},
                                         {"warning", "299 - \"one\""}, {"warning", "299 - \"t\xff\xc3\""}),
                        .body = "Too many"});
    assert_string_equal(x.content_type, "text/plain");
    assert_int_equal(x.response.retry_after_ms, 7000);
    assert_memory_equal(x.warning, "t", 1);
    assert_string_equal(x.body.data, "Too many");
    rig_result_fini(&x);
    do_answer(&f, &x, (struct answer){.status = "200"}); // nothing is left of the last one
    assert_string_equal(x.content_type, "");
    assert_int_equal(x.response.retry_after_ms, -1);
    assert_string_equal(x.warning, "");
    assert_int_equal(x.body.len, 0);
    rig_result_fini(&x);
    h2_rig_fini(&f);
}

static void test_interim_answers_and_trailers(void **state)
{
    (void)state;
    struct h2_rig f;
    struct rig_result x;
    h2_rig_open(&f, handle_answer);
    do_answer(&f, &x,
              (struct answer){.interim = FIELDS({"content-encoding", "br"}, {"warning", "299 - \"early\""}),
                              .status = "200",
                              .fields = FIELDS({"content-type", "a/b"}),
                              .body = "text",
                              .trailers = FIELDS({"content-type", "c/d"}, {"content-encoding", "gzip"},
                                                 {"warning", "299 - \"late\""})});
    assert_string_equal(x.content_type, "a/b");
    assert_string_equal(x.warning, "");
    assert_string_equal(x.body.data, "text");
    rig_result_fini(&x);
    h2_rig_fini(&f);
}

static void handle_interim_and_reset(struct h2_peer *p, struct h2_stream *s)
{
    (void)p;
    h2_inform(s, "103", NO_FIELDS);
    h2_reset(s, NGHTTP2_NO_ERROR);
}

static void test_interim_answer_alone(void **state)
{
    (void)state;
    struct h2_rig f;
    h2_rig_open(&f, handle_interim_and_reset);
    h2_rig_assert_fails(&f, H2_GET("/x"), -ERR_NETWORK, true, "without an answer");
    h2_rig_fini(&f);
}

static const char gzip_text[] = // "zip"
    "\x1f\x8b\x08\x00\x00\x00\x00\x00\x02\x03\xab\xca\x2c\x00\x00\x46\x95\x1d\x42\x03\x00\x00\x00";
enum { GZIP_LEN = sizeof(gzip_text) - 1 };

static void test_gzip(void **state)
{
    (void)state;
    static const char *const names[] = {"gzip", "GZip", "x-gzip"};
    struct h2_rig f;
    struct rig_result x;
    h2_rig_open(&f, handle_answer);
    for (size_t i = 0; i < 3; i++) {
        do_answer(&f, &x,
                  (struct answer){.status = "200",
                                  .fields = FIELDS({"content-encoding", names[i]}),
                                  .body = gzip_text,
                                  .len = GZIP_LEN});
        assert_string_equal(x.body.data, "zip");
        rig_result_fini(&x);
    }
    static const char *const empty[] = {"200", "204", "304"};
    for (size_t i = 0; i < 3; i++) {
        do_answer(&f, &x,
                  (struct answer){.status = empty[i], .fields = FIELDS({"content-encoding", "gzip"})});
        assert_int_equal(x.body.len, 0);
        rig_result_fini(&x);
    }
    do_answer(
        &f, &x,
        (struct answer){.status = "200", .fields = FIELDS({"content-encoding", "identity"}), .body = "abc"});
    assert_string_equal(x.body.data, "abc");
    rig_result_fini(&x);
    assert_int_equal(f.peer.connections, 1);
    h2_rig_fini(&f);
}

static void test_encodings_that_can_not_be_undone(void **state)
{
    (void)state;
    struct h2_rig f;
    h2_rig_open(&f, handle_answer);
    const struct {
        struct answer answer;
        const char *part;
    } cases[] = {
        {{.status = "200", .fields = FIELDS({"content-encoding", "gzip"}), .body = "not zipped"},
         "is damaged"},
        {{.status = "200",
          .fields = FIELDS({"content-encoding", "gzip"}),
          .body = gzip_text,
          .len = GZIP_LEN - 1},
         "its end is missing"},
        {{.status = "200", .fields = FIELDS({"content-encoding", "br"}), .body = "xyz"}, "not asked for: br"},
        {{.status = "200",
          .fields = FIELDS({"content-encoding", "gzip"}, {"content-encoding", "gzip"}),
          .body = gzip_text,
          .len = GZIP_LEN},
         "not asked for: gzip"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        answer = cases[i].answer;
        h2_rig_assert_fails(&f, H2_GET("/x"), -ERR_NETWORK, true, cases[i].part);
        h2_rig_assert_works(&f);
    }
    assert_int_equal(f.peer.connections, 1);
    h2_rig_fini(&f);
}

static void test_cap(void **state)
{
    (void)state;
    struct h2_rig f;
    struct rig_result x;
    h2_rig_open(&f, handle_answer);
    answer = (struct answer){.status = "200", .body = "0123456789"};
    struct transport_request q = H2_GET("/x");
    q.max_response = 9;
    h2_rig_assert_fails(&f, q, -ERR_LIMIT, true, "9 bytes");
    q.max_response = 10;
    rig_do(&f.rig, &x, q);
    assert_string_equal(x.body.data, "0123456789");
    rig_result_fini(&x);
    assert_int_equal(f.peer.connections, 1);
    h2_rig_fini(&f);
}

static void test_wrong_length(void **state)
{
    (void)state;
    static const char *const lengths[] = {"3", "5"};
    struct h2_rig f;
    h2_rig_open(&f, handle_answer);
    for (int i = 0; i < 2; i++) {
        answer = (struct answer){
            .status = "200", .fields = FIELDS({"content-length", lengths[i]}), .body = "abcd"};
        h2_rig_assert_fails(&f, H2_GET("/x"), -ERR_NETWORK, true, "breaks the rules");
        h2_rig_assert_works(&f); // over the same connection
    }
    assert_int_equal(f.peer.connections, 1);
    h2_rig_fini(&f);
}

// ---- answers that end otherwise

static uint32_t reset_code;

static void reset_later(void *ud)
{
    h2_reset(ud, reset_code);
}

static void handle_half(struct h2_peer *p, struct h2_stream *s)
{
    h2_start(s, "200");
    h2_send(s, "half");
    loop_defer(p->loop, reset_later, s);
}

static void test_reset_in_the_middle(void **state)
{
    (void)state;
    struct h2_rig f;
    h2_rig_open(&f, handle_half);
    reset_code = NGHTTP2_NO_ERROR;
    h2_rig_assert_fails(&f, H2_GET("/x"), -ERR_NETWORK, true, "in the middle of the answer");
    reset_code = NGHTTP2_INTERNAL_ERROR;
    h2_rig_assert_fails(&f, H2_GET("/x"), -ERR_NETWORK, true, "INTERNAL_ERROR");
    f.peer.handle = h2_rig_echo;
    h2_rig_assert_works(&f);
    assert_int_equal(f.peer.connections, 1);
    h2_rig_fini(&f);
}

static void refuse_early(struct h2_peer *p, struct h2_stream *s)
{
    (void)p;
    if (strcmp(s->method, "PUT") == 0)
        h2_answer(s, "413", FIELDS({"content-type", "text/plain"}), "too large", 9, NULL);
}

// The server answers before it has seen the body, of which it lets no more through.
static void test_answer_before_the_body(void **state)
{
    (void)state;
    enum { SIZE = 1 << 20 };
    struct h2_rig f;
    struct rig_result x;
    h2_rig_open(&f, NULL);
    f.peer.on_head = refuse_early;
    char *body = xcalloc(1, SIZE);
    rig_do(&f.rig, &x,
           (struct transport_request){.method = METHOD_PUT, .path = "/x", .body = body, .body_len = SIZE});
    assert_int_equal(x.response.err.code, 0);
    assert_int_equal(x.response.status, 413);
    assert_string_equal(x.body.data, "too large");
    rig_result_fini(&x);
    h2_rig_assert_works(&f);
    assert_int_equal(f.peer.connections, 1);
    assert_int_equal(f.handled, 1);
    free(body);
    h2_rig_fini(&f);
}

static void test_large_bodies_both_ways(void **state)
{
    (void)state;
    enum { COUNT = 8, SIZE = 1 << 20 };
    static struct rig_result x[COUNT];
    struct h2_rig f;
    h2_rig_open(&f, NULL);
    char *body = xmalloc(SIZE);
    for (size_t i = 0; i < SIZE; i++)
        body[i] = (char)('a' + i * 7 % 26);
    for (int i = 0; i < COUNT; i++) {
        rig_result_init(&x[i], &f.rig);
        rig_send(&f.rig, &x[i],
                 (struct transport_request){
                     .method = METHOD_POST, .path = "/x", .body = body, .body_len = SIZE - (size_t)i});
    }
    rig_wait(&f.rig, COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(x[i].response.status, 200);
        assert_int_equal(x[i].body.len, 8 + SIZE - i);
        assert_memory_equal(x[i].body.data + 8, body, SIZE - (size_t)i);
        rig_result_fini(&x[i]);
    }
    assert_int_equal(f.peer.connections, 1);
    free(body);
    h2_rig_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_the_server_sees),
        cmocka_unit_test(test_authority),
        cmocka_unit_test(test_header_of_the_answer),
        cmocka_unit_test(test_interim_answers_and_trailers),
        cmocka_unit_test(test_interim_answer_alone),
        cmocka_unit_test(test_gzip),
        cmocka_unit_test(test_encodings_that_can_not_be_undone),
        cmocka_unit_test(test_cap),
        cmocka_unit_test(test_wrong_length),
        cmocka_unit_test(test_reset_in_the_middle),
        cmocka_unit_test(test_answer_before_the_body),
        cmocka_unit_test(test_large_bodies_both_ways),
    };
    return cmocka_run_group_tests(tests, h2_rig_set_up, h2_rig_tear_down);
}
