#include "kube/client.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/strset.h"
#include "support/fake_transport.h"

struct world {
    struct clock *clock;
    struct loop *loop;
    struct fake_transport *fake;
    struct client *client;
    struct metrics *metrics;
};

static struct world *world_new(const struct kube_config *cfg)
{
    struct world *w = xcalloc(1, sizeof(*w));
    w->clock = clock_virtual_new(0);
    w->loop = loop_new(w->clock);
    w->fake = fake_transport_new(w->loop);
    w->metrics = metrics_new();
    w->client = cfg == NULL
                    ? client_new_with(w->loop, fake_transport_get(w->fake), w->metrics)
                    : client_new_with_credentials(w->loop, fake_transport_get(w->fake), cfg, w->metrics);
    return w;
}

static void world_free(struct world *w)
{
    client_free(w->client);
    fake_transport_free(w->fake);
    loop_free(w->loop);
    metrics_free(w->metrics);
    clock_free(w->clock);
    free(w);
}

static void run(struct world *w, uint64_t ms)
{
    loop_run_until(w->loop, loop_now_ms(w->loop) + ms);
}

// What a callback saw.
struct seen {
    int calls;
    int status;
    int code;
    bool doc;
    char name[100];
    char body[200];
    char text[ERR_TEXT_MAX];
    struct json_doc *taken;
};

static void on_done(void *ud, struct client_result *res)
{
    struct seen *s = ud;
    s->calls++;
    s->status = res->status;
    s->code = res->failure == NULL ? 0 : res->failure->code;
    s->doc = res->doc != NULL;
    snprintf(s->body, sizeof(s->body), "%s", res->body);
    snprintf(s->text, sizeof(s->text), "%s", res->failure == NULL ? "" : res->failure->err.text);
    if (res->doc != NULL) {
        const char *name = json_str(json_path(json_root(res->doc), "metadata", "name", NULL));
        snprintf(s->name, sizeof(s->name), "%s", name == NULL ? "" : name);
        s->taken = client_result_take_doc(res);
    }
}

static struct call *get(struct world *w, const char *path, struct seen *s)
{
    struct client_request r = {.method = METHOD_GET, .path = path, .as = &identity_host};
    return client_send(w->client, &r, on_done, s);
}

static void test_get(void **state)
{
    (void)state;
    struct world *w = world_new(NULL);
    struct seen s = {0};
    fake_answer(w->fake, METHOD_GET, "/pods/p", 200, "{\"metadata\":{\"name\":\"p\"}}");
    assert_false(client_was_accepted(w->client));
    get(w, "/api/v1/namespaces/d/pods/p", &s);
    assert_int_equal(s.calls, 0); // never from inside client_send
    run(w, 1);
    assert_int_equal(s.calls, 1);
    assert_int_equal(s.status, 200);
    assert_int_equal(s.code, 0);
    assert_string_equal(s.name, "p");
    json_doc_free(s.taken);
    assert_true(client_was_accepted(w->client));
    const struct fake_request *q = fake_request_last(w->fake);
    assert_string_equal(q->accept, "application/json");
    assert_null(q->content_type);
    assert_null(q->as_user);
    struct buf text;
    buf_init(&text, 100000);
    metrics_render(w->metrics, &text);
    assert_non_null(
        strstr(text.data, "rest_client_requests_total{code=\"200\",method=\"GET\",host=\"in-process\"} 1"));
    buf_fini(&text);
    world_free(w);
}

static void test_request_is_copied_and_complete(void **state)
{
    (void)state;
    struct world *w = world_new(NULL);
    struct seen s = {0};
    char path[] = "/apis/apps/v1/x", body[] = "{\"a\":1}";
    struct identity who = {.user = "system:serviceaccount:ns:name"};
    struct client_request r = {.method = METHOD_PATCH,
                               .path = path,
                               .content_type = "application/apply-patch+yaml",
                               .body = body,
                               .body_len = strlen(body),
                               .as = &who,
                               .raw = true};
    fake_answer(w->fake, METHOD_PATCH, NULL, 201, "not json");
    client_send(w->client, &r, on_done, &s);
    memset(path, 'x', sizeof(path) - 1);
    memset(body, 'x', sizeof(body) - 1);
    run(w, 1);
    assert_int_equal(s.status, 201);
    assert_int_equal(s.code, 0);
    assert_false(s.doc);
    assert_string_equal(s.body, "not json");
    const struct fake_request *q = fake_request_last(w->fake);
    assert_string_equal(q->path, "/apis/apps/v1/x");
    assert_string_equal(q->body, "{\"a\":1}");
    assert_string_equal(q->content_type, "application/apply-patch+yaml");
    assert_string_equal(q->as_user, "system:serviceaccount:ns:name");
    world_free(w);
}

static void test_failures(void **state)
{
    (void)state;
    struct world *w = world_new(NULL);
    struct seen s = {0};
    fake_answer(w->fake, METHOD_GET, "/a", 500, "{\"kind\":\"Status\",\"message\":\"broken\"}");
    get(w, "/a", &s);
    run(w, 1);
    assert_int_equal(s.code, -ERR_INTERNAL);
    assert_string_equal(s.text, "broken");
    assert_false(client_was_accepted(w->client));
    fake_answer(w->fake, METHOD_GET, "/b", 200, "{\"half\":");
    get(w, "/b", &s);
    run(w, 1);
    assert_int_equal(s.status, 200);
    assert_int_equal(s.code, -ERR_PARSE);
    assert_non_null(strstr(s.text, "GET /b"));
    fake_error(w->fake, METHOD_GET, "/c", ERR_TLS);
    get(w, "/c", &s);
    run(w, 1);
    assert_int_equal(s.status, 0);
    assert_int_equal(s.code, -ERR_TLS);
    fake_answer(w->fake, METHOD_GET, "/d", 200, "");
    get(w, "/d", &s);
    run(w, 1);
    assert_int_equal(s.code, 0);
    assert_false(s.doc);
    assert_int_equal(s.calls, 4);
    world_free(w);
}

static void test_cancel(void **state)
{
    (void)state;
    struct world *w = world_new(NULL);
    struct seen s = {0};
    fake_answer(w->fake, METHOD_GET, NULL, 200, "{}");
    call_cancel(get(w, "/a", &s));
    run(w, 100);
    assert_int_equal(s.calls, 0);
    assert_int_equal(fake_under_way(w->fake), 0);
    fake_reply(w->fake, &(struct fake_reply){.status = 200, .delay_ms = 1000});
    get(w, "/b", &s);
    world_free(w); // with one under way
    assert_int_equal(s.calls, 0);
}

static void free_client(void *ud, struct client_result *res)
{
    (void)res;
    struct world *w = ud;
    client_free(w->client);
    w->client = NULL;
}

static void test_free_in_callback(void **state)
{
    (void)state;
    struct world *w = world_new(NULL);
    fake_reply(w->fake, &(struct fake_reply){.status = 200, .body = "{}", .times = -1});
    struct client_request r = {.method = METHOD_GET, .path = "/a", .as = &identity_host};
    client_send(w->client, &r, free_client, w);
    struct seen s = {0};
    get(w, "/b", &s);
    run(w, 10);
    assert_null(w->client);
    assert_int_equal(s.calls, 0);
    world_free(w);
}

// ---- credentials

static void put_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static void test_401_repeats_once_when_the_token_changed(void **state)
{
    (void)state;
    char path[] = "/tmp/client_test.XXXXXX";
    close(mkstemp(path));
    put_file(path, "t1\n");
    struct kube_config cfg = {.server = "https://h:6443/prefix", .token = "t1", .token_file = path};
    struct world *w = world_new(&cfg);
    struct seen s = {0};
    put_file(path, "t2\n");
    fake_answer(w->fake, METHOD_GET, "/a", 401, "Unauthorized");
    fake_answer(w->fake, METHOD_GET, "/a", 200, "{}");
    get(w, "/a", &s);
    run(w, 10);
    assert_int_equal(s.calls, 1);
    assert_int_equal(s.status, 200);
    json_doc_free(s.taken);
    assert_int_equal(fake_request_count(w->fake), 2);
    struct buf text;
    buf_init(&text, 100000);
    metrics_render(w->metrics, &text);
    assert_non_null(strstr(text.data, "{code=\"401\",method=\"GET\",host=\"h:6443\"} 1"));
    buf_fini(&text);
    world_free(w);
    unlink(path);
}

static void test_401_that_stays(void **state)
{
    (void)state;
    char path[] = "/tmp/client_test.XXXXXX";
    close(mkstemp(path));
    put_file(path, "t1");
    struct kube_config cfg = {.server = "https://h", .token = "t1", .token_file = path};
    struct world *w = world_new(&cfg);
    struct seen s = {0};
    fake_reply(w->fake, &(struct fake_reply){.status = 401, .times = -1, .body = "nope"});
    for (int i = 0; i < 20; i++)
        get(w, "/a", &s);
    run(w, 100);
    assert_int_equal(s.calls, 20);
    assert_int_equal(s.code, -ERR_UNAUTHORIZED);
    assert_int_equal(fake_request_count(w->fake), 21); // one was tried again: it might have been a flap
    assert_false(client_was_accepted(w->client));
    struct call *x = get(w, "/b", &s);
    loop_step(w->loop, UINT64_MAX); // the 401; it waits for the reread now
    call_cancel(x);
    run(w, 100);
    assert_int_equal(s.calls, 20);
    world_free(w);
    unlink(path);
}

static void test_401_flap(void **state)
{
    (void)state;
    struct kube_config cfg = {.server = "https://h", .token = "fixed"};
    struct world *w = world_new(&cfg);
    struct seen s = {0};
    for (int i = 0; i < 3; i++) {
        fake_answer(w->fake, METHOD_GET, "/a", 401, "");
        fake_answer(w->fake, METHOD_GET, "/a", 200, "");
        get(w, "/a", &s);
        run(w, 20000);
        assert_int_equal(s.status, 200);
    }
    world_free(w);
}

// ---- streams

struct watched {
    struct client_stream *stream;
    int starts, frames, ends, code, http;
    bool orderly;
    int stop_at;  // frame that makes on_frame return non-zero
    int close_at; // frame at which the stream is closed
    char text[4000];
};

static void on_start(void *ud)
{
    struct watched *x = ud;
    x->starts++;
}

static int on_frame(void *ud, const char *text, size_t n)
{
    struct watched *x = ud;
    x->frames++;
    strncat(x->text, text, n);
    strcat(x->text, "|");
    if (x->frames == x->close_at)
        client_stream_close(x->stream);
    return x->frames == x->stop_at;
}

static void on_end(void *ud, const struct api_status *why)
{
    struct watched *x = ud;
    x->ends++;
    x->orderly = why == NULL;
    x->code = why == NULL ? 0 : why->code;
    x->http = why == NULL ? 0 : why->http;
}

static void watch(struct world *w, struct watched *x, size_t max_frame)
{
    struct client_stream_callbacks cb = {on_start, on_frame, on_end, x};
    x->stream = client_watch(w->client, "/api/v1/pods?watch=1", &identity_host, 45000, max_frame, &cb);
}

static void test_stream(void **state)
{
    (void)state;
    struct world *w = world_new(NULL);
    struct watched x = {0};
    fake_open_stream(w->fake, "watch=1");
    watch(w, &x, 0);
    assert_int_equal(x.starts, 0);
    run(w, 1);
    assert_int_equal(x.starts, 1);
    assert_true(client_was_accepted(w->client));
    assert_true(fake_request_last(w->fake)->stream);
    assert_int_equal(fake_request_last(w->fake)->idle_ms, 45000);
    struct fake_stream *f = fake_stream_last(w->fake);
    fake_stream_send(f, "{\"a\":1}\n{\"b\"");
    fake_stream_send(f, ":\"\xe2\x9c");
    fake_stream_send(f, "\x93\"}{\"c\":3}{\"half\":");
    assert_string_equal(x.text, "{\"a\":1}|{\"b\":\"\xe2\x9c\x93\"}|{\"c\":3}|");
    fake_stream_end(f);
    assert_int_equal(x.ends, 1);
    assert_true(x.orderly);
    assert_int_equal(x.frames, 3);
    world_free(w);
}

static void test_stream_ends(void **state)
{
    (void)state;
    struct world *w = world_new(NULL);
    struct watched x = {0}, y = {.stop_at = 2}, z = {0}, u = {0};
    fake_reply(w->fake,
               &(struct fake_reply){.status = 410, .body = "{\"kind\":\"Status\",\"reason\":\"Expired\"}"});
    watch(w, &x, 0);
    run(w, 1);
    assert_int_equal(x.starts, 0);
    assert_int_equal(x.code, -ERR_GONE);
    assert_int_equal(x.http, 410);

    fake_open_stream(w->fake, NULL);
    watch(w, &y, 0);
    run(w, 1);
    fake_stream_send(fake_stream_last(w->fake), "{}{}{}{}");
    run(w, 1);
    assert_int_equal(y.frames, 2);
    assert_int_equal(y.ends, 1);
    assert_int_equal(y.code, -ERR_CANCELED);

    fake_open_stream(w->fake, NULL);
    watch(w, &z, 100);
    run(w, 1);
    for (int i = 0; i < 20; i++)
        fake_stream_send(fake_stream_last(w->fake), "{\"aaaaaaaaaaaaaa");
    run(w, 1);
    assert_int_equal(z.ends, 1);
    assert_int_equal(z.code, -ERR_LIMIT);

    fake_open_stream(w->fake, NULL);
    watch(w, &u, 100);
    run(w, 1);
    fake_stream_fail(fake_stream_last(w->fake), ERR_TIMEOUT);
    assert_int_equal(u.code, -ERR_TIMEOUT);
    assert_int_equal(u.http, 200);
    world_free(w);
}

static void test_stream_close(void **state)
{
    (void)state;
    struct world *w = world_new(NULL);
    struct watched x = {.close_at = 1}, y = {0};
    fake_open_stream(w->fake, NULL);
    watch(w, &x, 0);
    run(w, 1);
    fake_stream_send(fake_stream_last(w->fake), "{}{}{}");
    assert_int_equal(x.frames, 1);
    run(w, 1);
    assert_int_equal(x.ends, 0);
    assert_false(fake_stream_is_open(fake_stream_last(w->fake)));
    assert_int_equal(fake_under_way(w->fake), 0);
    fake_open_stream(w->fake, NULL);
    watch(w, &y, 0);
    client_stream_close(y.stream);
    run(w, 1);
    assert_int_equal(y.starts + y.ends, 0);
    watch(w, &y, 0);
    run(w, 1);
    world_free(w); // an open one
}

static void test_stream_401(void **state)
{
    (void)state;
    struct kube_config cfg = {.server = "https://h", .token = "fixed"};
    struct world *w = world_new(&cfg);
    struct watched x = {0}, y = {0};
    fake_answer(w->fake, METHOD_GET, NULL, 401, "");
    fake_open_stream(w->fake, NULL);
    watch(w, &x, 0);
    run(w, 1);
    assert_int_equal(x.starts, 1);
    fake_stream_send(fake_stream_last(w->fake), "{}");
    assert_int_equal(x.frames, 1);
    client_stream_close(x.stream);
    fake_answer(w->fake, METHOD_GET, NULL, 401, "");
    watch(w, &y, 0);
    run(w, 1);
    assert_int_equal(y.ends, 1);
    assert_int_equal(y.code, -ERR_UNAUTHORIZED);
    assert_int_equal(fake_request_count(w->fake), 3);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_get),
        cmocka_unit_test(test_request_is_copied_and_complete),
        cmocka_unit_test(test_failures),
        cmocka_unit_test(test_cancel),
        cmocka_unit_test(test_free_in_callback),
        cmocka_unit_test(test_401_repeats_once_when_the_token_changed),
        cmocka_unit_test(test_401_that_stays),
        cmocka_unit_test(test_401_flap),
        cmocka_unit_test(test_stream),
        cmocka_unit_test(test_stream_ends),
        cmocka_unit_test(test_stream_close),
        cmocka_unit_test(test_stream_401),
    };
    return cmocka_run_group_tests_name("client", tests, NULL, NULL);
}
