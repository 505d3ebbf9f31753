// The reflector against a scripted server on a virtual clock: lists, watches, resumes, relists, and servers
// that misbehave.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/buf.h"
#include "base/clock.h"
#include "kube/watch.h"
#include "support/fake_transport.h"

struct fixture {
    struct clock *clock;
    struct loop *loop;
    struct fake_transport *fake;
    struct client *client;
    struct watch *watch;
    struct buf trace; // "INIT +a@1 DONE a@2 -a !403", what on_event was told
    struct buf answer;
    int mode; // of a simulated server
    int lists;
};

static void on_event(void *ud, const struct watch_event *ev)
{
    struct fixture *f = ud;
    static const char *const before[] = {"INIT", "+", "DONE", "", "-", "!"};
    buf_addf(&f->trace, "%s%s", f->trace.len > 0 ? " " : "", before[ev->kind]);
    if (ev->object != NULL)
        buf_addf(&f->trace, "%s@%s", object_name(ev->object), object_resource_version(ev->object));
    if (ev->error != NULL)
        buf_addf(&f->trace, "%d", ev->error->http);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->clock = clock_virtual_new(1767225600000);
    f->loop = loop_new(f->clock);
    f->fake = fake_transport_new(f->loop);
    f->client = client_new_with(f->loop, fake_transport_get(f->fake), NULL);
    buf_init(&f->trace, 1 << 20);
    buf_init(&f->answer, 64 << 20);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    watch_free(f->watch);
    client_free(f->client);
    fake_transport_free(f->fake);
    loop_free(f->loop);
    clock_free(f->clock);
    buf_fini(&f->trace);
    buf_fini(&f->answer);
    free(f);
    return 0;
}

static void run(struct fixture *f, uint64_t ms)
{
    loop_run_until(f->loop, loop_now_ms(f->loop) + ms);
}

static void start(struct fixture *f, bool watch_list)
{
    struct watch_options o = {
        .client = f->client,
        .resource = {.gvk = gvk_parse("x.test/v1/Widget", NULL), .plural = "widgets", .namespaced = true},
        .as = &identity_host,
        .seed = 7,
        .no_watch_list = !watch_list,
        .on_event = on_event,
        .ud = f,
    };
    f->watch = watch_new(&o);
    watch_start(f->watch);
}

static void check_trace(struct fixture *f, const char *expected)
{
    assert_string_equal(f->trace.data != NULL ? f->trace.data : "", expected);
    buf_reset(&f->trace);
}

static size_t count(struct fixture *f, const char *part)
{
    return fake_request_count_of(f->fake, METHOD_GET, part);
}

static const char *last_path(struct fixture *f)
{
    return fake_request_last(f->fake)->path;
}

static void check_last_path(struct fixture *f, const char *part)
{
    if (strstr(last_path(f), part) == NULL)
        fail_msg("%s lacks %s", last_path(f), part);
}

static void list(struct fixture *f, const char *rv, const char *items)
{
    char text[2048];
    snprintf(text, sizeof(text),
             "{\"kind\":\"WidgetList\",\"metadata\":{\"resourceVersion\":\"%s\"},\"items\":%s}", rv, items);
    fake_answer(f->fake, METHOD_GET, "limit=500", 200, text);
}

#define W1 "[{\"metadata\":{\"name\":\"w1\",\"namespace\":\"d\",\"resourceVersion\":\"90\"}}]"
#define W12                                                                                                  \
    "[{\"metadata\":{\"name\":\"w1\",\"namespace\":\"d\",\"resourceVersion\":\"700\"}},"                     \
    "{\"metadata\":{\"name\":\"w2\",\"namespace\":\"d\",\"resourceVersion\":\"800\"}}]"
#define FRAME(type, name, rv)                                                                                \
    "{\"type\":\"" type "\",\"object\":{\"metadata\":{\"name\":\"" name                                      \
    "\",\"namespace\":\"d\",\"resourceVersion\":\"" rv "\"}}}\n"
#define BOOKMARK(rv)                                                                                         \
    "{\"type\":\"BOOKMARK\",\"object\":{\"kind\":\"Widget\",\"metadata\":{\"resourceVersion\":\"" rv         \
    "\",\"creationTimestamp\":null}}}\n"
#define END_MARK(rv)                                                                                         \
    "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"" rv                             \
    "\",\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n"

// Synced with w1 at 100 by list and watch, the stream open.
static void sync(struct fixture *f)
{
    list(f, "100", W1);
    fake_open_stream(f->fake, "resourceVersion=100");
    start(f, false);
    run(f, 10);
    check_trace(f, "INIT +w1@90 DONE");
    assert_int_equal(watch_state(f->watch), WATCH_WATCHING);
}

static void send(struct fixture *f, const char *frames)
{
    fake_stream_send(fake_stream_last(f->fake), frames);
}

static void test_list_and_watch(void **state)
{
    struct fixture *f = *state;
    list(f, "1200",
         "[{\"metadata\":{\"name\":\"z\",\"resourceVersion\":\"900\"}},{\"metadata\":{\"name\":\"a\","
         "\"resourceVersion\":\"15\"}},"
         "{\"metadata\":{\"name\":\"m\"}}]");
    fake_open_stream(f->fake, "watch=1");
    start(f, false);
    run(f, 10);
    check_trace(f, "INIT +z@900 +a@15 +m@ DONE");
    check_last_path(f, "/apis/x.test/v1/widgets?");
    check_last_path(f, "resourceVersion=1200");
    check_last_path(f, "allowWatchBookmarks=true");
    send(f,
         FRAME("ADDED", "b", "18014398509481985") FRAME("MODIFIED", "b", "99") FRAME("DELETED", "z", "100"));
    send(f, FRAME("MODIFIED", "b", "abc/7 f"));
    check_trace(f, "b@18014398509481985 b@99 -z@100 b@abc/7 f");
    assert_string_equal(watch_resource_version(f->watch), "abc/7 f");
    // Resumed with that text, as it is.
    fake_open_stream(f->fake, "watch=1");
    fake_stream_end(fake_stream_last(f->fake));
    run(f, 3000);
    check_last_path(f, "resourceVersion=abc%2F7%20f");
    assert_int_equal(watch_relists(f->watch), 1);
    check_trace(f, "");
}

static void test_empty_and_bad_items(void **state)
{
    struct fixture *f = *state;
    fake_answer(f->fake, METHOD_GET, "limit", 200, "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":{}}");
    fake_answer(f->fake, METHOD_GET, "limit", 200, "[]");
    fake_answer(f->fake, METHOD_GET, "limit", 200, "");
    fake_answer(f->fake, METHOD_GET, "limit", 200,
                "{\"metadata\":{\"resourceVersion\":\"5\"},\"items\":null}");
    fake_open_stream(f->fake, "resourceVersion=5");
    start(f, false);
    run(f, 20000);
    check_trace(f, "INIT !200 INIT !200 INIT !200 INIT DONE");
    send(f, "{\"type\":\"ADDED\",\"object\":null}\n{\"type\":null,\"object\":{}}\n{}\n\n[]\n{\"type\":"
            "\"NEW\",\"object\":{}}\n"
            "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":7}}}\n" FRAME("ADDED", "ok", "6"));
    check_trace(f, "ok@6");
    assert_int_equal(watch_skipped(f->watch), 2);
    fake_open_stream(f->fake, "resourceVersion=6");
    send(f, "{\"type\":}\n" FRAME("ADDED", "never", "7"));
    run(f, 10000);
    check_trace(f, "!200");
    assert_int_equal(fake_stream_count(f->fake), 2);
}

static void check_expired(struct fixture *f, const char *frame)
{
    uint64_t at = loop_now_ms(f->loop);
    list(f, "900", W12);
    fake_open_stream(f->fake, "resourceVersion=900");
    if (frame != NULL)
        send(f, frame);
    run(f, 5000);
    check_trace(f, "!410 INIT +w1@700 +w2@800 DONE");
    assert_int_equal(count(f, "limit="), 2);
    assert_int_equal(watch_relists(f->watch), 2);
    assert_string_equal(watch_resource_version(f->watch), "900");
    assert_true(fake_request(f->fake, 2)->at_ms >= at + 500);
    check_last_path(f, "resourceVersion=900");
}

#define GONE(status) "{\"type\":\"ERROR\",\"object\":{" status "}}\n"

static void test_expired_inside_200(void **state)
{
    static const char *const frames[] = {
        GONE("\"kind\":\"Status\",\"apiVersion\":\"v1\",\"metadata\":{},\"status\":\"Failure\",\"message\":"
             "\"too old resource version: 100 "
             "(900)\",\"reason\":\"Expired\",\"code\":410"),
        GONE("\"kind\":\"Status\",\"message\":\"too old\",\"reason\":\"Gone\",\"code\":410"),
        GONE("\"kind\":\"Status\",\"message\":\"too old\",\"code\":410"),
        GONE("\"message\":\"too old\",\"reason\":\"Expired\",\"code\":410"),
    };
    for (size_t i = 0; i < sizeof(frames) / sizeof(frames[0]); i++) {
        sync(*state);
        check_expired(*state, frames[i]);
        if (i + 1 < sizeof(frames) / sizeof(frames[0])) {
            teardown(state);
            setup(state);
        }
    }
}

static void test_expired_as_http_status(void **state)
{
    struct fixture *f = *state;
    list(f, "100", W1);
    fake_answer(f->fake, METHOD_GET, "watch=1", 410,
                "{\"kind\":\"Status\",\"reason\":\"Expired\",\"code\":410,\"message\":\"old\"}");
    list(f, "900", W12);
    fake_open_stream(f->fake, "resourceVersion=900");
    start(f, false);
    run(f, 5000);
    check_trace(f, "INIT +w1@90 DONE !410 INIT +w1@700 +w2@800 DONE");
    assert_int_equal(fake_request_count(f->fake), 4);
}

static void test_errors_that_do_not_ask_for_a_list(void **state)
{
    struct fixture *f = *state;
    sync(f);
    static const struct {
        const char *frame, *trace;
        uint64_t at_least;
    } cases[] = {
        {GONE("\"kind\":\"Status\",\"message\":\"x\",\"reason\":\"InternalError\",\"code\":500"), "!500",
         600},
        {GONE("\"kind\":\"Status\",\"message\":\"x\",\"reason\":\"TooManyRequests\",\"code\":429,\"details\":"
              "{\"retryAfterSeconds\":2}"),
         "!429", 2000},
        {"{\"type\":\"ERROR\",\"object\":null}\n", "!500", 600},
    };
    for (size_t i = 0; i < 3; i++) {
        uint64_t at = loop_now_ms(f->loop);
        fake_open_stream(f->fake, "resourceVersion=100");
        send(f, cases[i].frame);
        assert_int_equal(watch_state(f->watch), WATCH_BACKOFF);
        run(f, 10000);
        if (strcmp(cases[i].trace, "!500") != 0)
            check_trace(f, cases[i].trace);
        buf_reset(&f->trace);
        assert_true(fake_request_last(f->fake)->at_ms >= at + cases[i].at_least);
        assert_int_equal(watch_state(f->watch), WATCH_WATCHING);
    }
    assert_int_equal(count(f, "limit="), 1);
    assert_int_equal(count(f, "resourceVersion=100"), 4);
}

static void test_bookmarks(void **state)
{
    struct fixture *f = *state;
    sync(f);
    fake_open_stream(f->fake, "resourceVersion=777");
    send(f, BOOKMARK("777") "{\"type\":\"BOOKMARK\",\"object\":{}}\n" END_MARK("777"));
    fake_stream_end(fake_stream_last(f->fake));
    run(f, 2000);
    check_trace(f, "");
    check_last_path(f, "resourceVersion=777");
    assert_int_equal(fake_stream_count(f->fake), 2);
}

static void test_watch_list(void **state)
{
    struct fixture *f = *state;
    fake_open_stream(f->fake, "sendInitialEvents=true");
    start(f, true);
    run(f, 10);
    check_last_path(f, "resourceVersionMatch=NotOlderThan");
    assert_null(strstr(last_path(f), "resourceVersion="));
    assert_int_equal(watch_state(f->watch), WATCH_LISTING);
    send(f, FRAME("ADDED", "a", "5") FRAME("ADDED", "b", "3") BOOKMARK("4") FRAME("DELETED", "b", "6"));
    assert_string_equal(watch_resource_version(f->watch), "");
    send(f, END_MARK("10") END_MARK("11") FRAME("MODIFIED", "a", "12"));
    check_trace(f, "INIT +a@5 +b@3 -b@6 DONE a@12");
    assert_int_equal(watch_state(f->watch), WATCH_WATCHING);
    fake_open_stream(f->fake, "resourceVersion=12");
    run(f, 400000);
    fake_stream_end(fake_stream(f->fake, 0));
    run(f, 2000);
    assert_int_equal(fake_request_count(f->fake), 2);
    assert_null(strstr(last_path(f), "sendInitialEvents"));
    assert_false(watch_list_refused(f->watch));
}

static void check_falls_back(struct fixture *f, uint64_t within)
{
    list(f, "100", W1);
    fake_open_stream(f->fake, "resourceVersion=100");
    start(f, true);
    run(f, within);
    assert_int_equal(watch_state(f->watch), WATCH_WATCHING);
    assert_true(watch_list_refused(f->watch));
    // Remembered: the next list is a plain one.
    list(f, "200", W1);
    fake_open_stream(f->fake, "resourceVersion=200");
    watch_relist(f->watch);
    run(f, 100);
    assert_int_equal(count(f, "sendInitialEvents"), 1);
    assert_string_equal(watch_resource_version(f->watch), "200");
}

static void test_watch_list_refused(void **state)
{
    struct fixture *f = *state;
    fake_answer(f->fake, METHOD_GET, "sendInitialEvents", 422,
                "{\"kind\":\"Status\",\"reason\":\"Invalid\",\"code\":422,\"message\":\"sendInitialEvents is "
                "forbidden\"}");
    check_falls_back(f, 1000);
    check_trace(f, "INIT INIT +w1@90 DONE INIT +w1@90 DONE");
}

static void test_watch_list_answered_by_a_list(void **state)
{
    struct fixture *f = *state;
    fake_answer(f->fake, METHOD_GET, "sendInitialEvents", 200,
                "{\"kind\":\"WidgetList\",\"metadata\":{},\"items\":[]}");
    check_falls_back(f, 1000);
}

static void test_watch_list_without_end_mark(void **state)
{
    struct fixture *f = *state;
    fake_answer(f->fake, METHOD_GET, "sendInitialEvents", 200, FRAME("ADDED", "a", "5"));
    check_falls_back(f, 32000);
}

static void test_watch_list_that_breaks_is_retried(void **state)
{
    struct fixture *f = *state;
    fake_error(f->fake, METHOD_GET, "sendInitialEvents", ERR_NETWORK);
    fake_open_stream(f->fake, "sendInitialEvents");
    start(f, true);
    run(f, 2000);
    send(f, FRAME("ADDED", "a", "5"));
    fake_stream_fail(fake_stream_last(f->fake), ERR_NETWORK);
    fake_answer(f->fake, METHOD_GET, "sendInitialEvents", 200, FRAME("ADDED", "a", "5") END_MARK("6"));
    run(f, 5000);
    check_trace(f, "INIT !0 INIT +a@5 !200 INIT +a@5 DONE");
    assert_false(watch_list_refused(f->watch));
}

static void test_short_empty_watches(void **state)
{
    struct fixture *f = *state;
    static const char *const bodies[] = {NULL, BOOKMARK("10")};
    for (int i = 0; i < 2; i++) {
        list(f, "10", W1);
        fake_reply(f->fake, &(struct fake_reply){.method = METHOD_GET,
                                                 .path_part = "resourceVersion=10&",
                                                 .times = -1,
                                                 .status = i == 0 ? 200 : 200,
                                                 .body = bodies[i],
                                                 .delay_ms = i == 0 ? 0 : 900,
                                                 .ends = true});
        start(f, false);
        // The path ends with the resourceVersion where no selector follows it.
        fake_reply(f->fake, &(struct fake_reply){.method = METHOD_GET,
                                                 .path_part = "resourceVersion=10",
                                                 .times = -1,
                                                 .status = 200,
                                                 .body = bodies[i],
                                                 .ends = true});
        list(f, "5000", W12);
        fake_open_stream(f->fake, "resourceVersion=5000");
        run(f, 60000);
        check_trace(f, "INIT +w1@90 DONE INIT +w1@700 +w2@800 DONE");
        assert_int_equal(watch_state(f->watch), WATCH_WATCHING);
        assert_true(fake_request_count(f->fake) < 40);
        if (i == 0) {
            teardown(state);
            setup(state);
            f = *state;
        }
    }
}

static void test_a_server_that_never_means_it(void **state)
{
    struct fixture *f = *state;
    fake_reply(f->fake, &(struct fake_reply){
                            .method = METHOD_GET, .path_part = "watch=1", .times = -1, .status = 204});
    fake_reply(f->fake, &(struct fake_reply){.method = METHOD_GET,
                                             .path_part = "limit",
                                             .times = -1,
                                             .status = 200,
                                             .body = "{\"metadata\":{\"resourceVersion\":\"10\"}}"});
    start(f, false);
    run(f, 60000);
    assert_true(fake_request_count(f->fake) < 40);
    run(f, 600000);
    assert_true(fake_request_count(f->fake) < 80);
}

static void test_honest_timeouts(void **state)
{
    struct fixture *f = *state;
    sync(f);
    for (int i = 0; i < 5; i++) {
        fake_open_stream(f->fake, "resourceVersion=100");
        run(f, 300000);
        fake_stream_end(fake_stream_last(f->fake));
        run(f, 1000);
        assert_int_equal(watch_state(f->watch), WATCH_WATCHING);
    }
    check_trace(f, "");
    assert_int_equal(count(f, "limit"), 1);
    assert_int_equal(count(f, "watch=1"), 6);
}

static void test_server_behind_us(void **state)
{
    struct fixture *f = *state;
    sync(f);
    send(f, BOOKMARK("5000"));
    fake_open_stream(f->fake, "resourceVersion=5000");
    fake_stream_fail(fake_stream_last(f->fake), ERR_NETWORK);
    list(f, "3003", W12);
    fake_open_stream(f->fake, "resourceVersion=3003");
    run(f, 120000);
    check_trace(f, "!200 INIT +w1@700 +w2@800 DONE");
    assert_string_equal(watch_resource_version(f->watch), "3003");
    // That list does not ask for "at least".
    assert_null(strstr(fake_request(f->fake, 3)->path, "resourceVersion"));
}

static void test_server_that_only_lags(void **state)
{
    struct fixture *f = *state;
    sync(f);
    send(f, BOOKMARK("5000"));
    fake_open_stream(f->fake, "resourceVersion=5000");
    fake_stream_fail(fake_stream_last(f->fake), ERR_NETWORK);
    run(f, 20000);
    send(f, FRAME("MODIFIED", "w1", "5001"));
    run(f, 400000);
    check_trace(f, "!200 w1@5001");
    assert_int_equal(watch_relists(f->watch), 1);
    // Told by an error for a while: resumed, no list.
    fake_stream_end(fake_stream_last(f->fake));
    for (int i = 0; i < 2; i++)
        fake_reply(
            f->fake,
            &(struct fake_reply){
                .method = METHOD_GET,
                .path_part = "resourceVersion=5001",
                .status = 504,
                .body =
                    "{\"kind\":\"Status\",\"message\":\"Too large resource version\",\"reason\":\"Timeout\","
                    "\"code\":504,\"details\":{\"retryAfterSeconds\":1,\"causes\":[{\"reason\":"
                    "\"ResourceVersionTooLarge\"}]}}"});
    fake_open_stream(f->fake, "resourceVersion=5001");
    run(f, 20000);
    check_trace(f, "!504 !504");
    assert_int_equal(watch_relists(f->watch), 1);
    assert_int_equal(watch_state(f->watch), WATCH_WATCHING);
}

static void test_too_large_for_long(void **state)
{
    struct fixture *f = *state;
    sync(f);
    fake_reply(f->fake, &(struct fake_reply){
                            .method = METHOD_GET,
                            .path_part = "resourceVersion=100",
                            .times = -1,
                            .status = 504,
                            .body = "{\"kind\":\"Status\",\"message\":\"Too large resource "
                                    "version\",\"reason\":\"Timeout\",\"code\":504,"
                                    "\"details\":{\"causes\":[{\"reason\":\"ResourceVersionTooLarge\"}]}}"});
    list(f, "50", W1);
    fake_open_stream(f->fake, "resourceVersion=50");
    fake_stream_end(fake_stream_last(f->fake));
    run(f, 120000);
    assert_string_equal(watch_resource_version(f->watch), "50");
    assert_int_equal(count(f, "limit"), 2);
}

static void page(struct fixture *f, const char *part, const char *rv, const char *token, const char *items)
{
    char text[2048];
    snprintf(text, sizeof(text),
             "{\"metadata\":{\"resourceVersion\":\"%s\",\"continue\":\"%s\",\"remainingItemCount\":99},"
             "\"items\":%s}",
             rv, token, items);
    fake_answer(f->fake, METHOD_GET, part, 200, text);
}

static void test_pages(void **state)
{
    struct fixture *f = *state;
    page(f, "continue=t%2F2", "101", "", W12);
    page(f, "continue=t1", "100", "t/2", "[]");
    page(f, "limit=500", "100", "t1", W1);
    fake_open_stream(f->fake, "resourceVersion=100");
    start(f, false);
    run(f, 100);
    check_trace(f, "INIT +w1@90 +w1@700 +w2@800 DONE");
    assert_int_equal(fake_request_count(f->fake), 4);
    for (size_t i = 0; i < 3; i++)
        assert_null(strstr(fake_request(f->fake, i)->path, "resourceVersion"));
}

static const char expired_token[] = "{\"kind\":\"Status\",\"reason\":\"Expired\",\"code\":410,\"message\":"
                                    "\"token expired\",\"metadata\":{\"continue\":\"fresh\"}}";

static void test_page_two_expires_once(void **state)
{
    struct fixture *f = *state;
    fake_answer(f->fake, METHOD_GET, "continue=t1", 410, expired_token);
    page(f, "limit=500", "100", "t1", W1);
    page(f, "limit=500", "110", "t2", W1);
    page(f, "continue=t2", "110", "", W12);
    // Replies are matched in their order: the second first page comes before the page of t2 is asked for.
    fake_open_stream(f->fake, "resourceVersion=110");
    start(f, false);
    run(f, 5000);
    check_trace(f, "INIT +w1@90 !410 INIT +w1@90 +w1@700 +w2@800 DONE");
    assert_string_equal(watch_resource_version(f->watch), "110");
}

static bool pages_that_die(void *ud, const struct fake_request *r, struct fake_reply *ret)
{
    struct fixture *f = ud;
    *ret = (struct fake_reply){.status = 200};
    if (strstr(r->path, "watch=1") != NULL)
        return true;
    f->lists++;
    if (strstr(r->path, "continue=") != NULL) {
        ret->status = f->mode;
        ret->body = f->mode == 400   ? "{\"kind\":\"Status\",\"reason\":\"BadRequest\",\"code\":400,"
                                       "\"message\":\"invalid continue token\"}"
                    : f->mode == 410 ? expired_token
                                     : "oops";
    } else {
        ret->body = strstr(r->path, "limit=") != NULL
                        ? "{\"metadata\":{\"resourceVersion\":\"1\",\"continue\":\"t\"},\"items\":[]}"
                        : "{\"metadata\":{\"resourceVersion\":\"9\"},\"items\":" W1 "}";
    }
    return true;
}

static void test_pages_that_always_die(void **state)
{
    static const int modes[] = {410, 400};
    for (size_t i = 0; i < 2; i++) {
        struct fixture *f = *state;
        f->mode = modes[i];
        fake_on_request(f->fake, pages_that_die, f);
        start(f, false);
        run(f, 30000);
        assert_string_equal(watch_resource_version(f->watch), "9");
        assert_int_equal(f->lists, 5);
        teardown(state);
        setup(state);
    }
    // A server that fails on page two is asked again, at growing intervals; nothing is taken as complete.
    struct fixture *f = *state;
    f->mode = 500;
    fake_on_request(f->fake, pages_that_die, f);
    start(f, false);
    run(f, 120000);
    assert_null(strstr(f->trace.data, "DONE"));
    assert_true(f->lists < 30);
}

static void test_pages_without_end(void **state)
{
    struct fixture *f = *state;
    page(f, "continue=t1", "100", "t1", "[]");
    page(f, "limit=500", "100", "t1", W1);
    start(f, false);
    run(f, 100);
    check_trace(f, "INIT +w1@90 !200");
    assert_int_equal(watch_state(f->watch), WATCH_BACKOFF);
}

static void test_forbidden(void **state)
{
    struct fixture *f = *state;
    fake_reply(f->fake,
               &(struct fake_reply){
                   .method = METHOD_GET,
                   .times = -1,
                   .status = 403,
                   .body = "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"code\":403,\"message\":\"no\"}"});
    start(f, true);
    run(f, 600000);
    assert_non_null(strstr(f->trace.data, "INIT !403"));
    size_t n = fake_request_count(f->fake);
    assert_in_range(n, 18, 30); // 30 s apart in the end
    fake_forget_replies(f->fake);
    fake_answer(f->fake, METHOD_GET, "sendInitialEvents", 200, END_MARK("3"));
    run(f, 40000);
    assert_int_equal(watch_state(f->watch), WATCH_WATCHING);
    assert_false(watch_list_refused(f->watch));
    // Refused while it runs: what was missed is found by a list.
    buf_reset(&f->trace);
    fake_answer(f->fake, METHOD_GET, "resourceVersion=3", 403,
                "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"code\":403}");
    fake_answer(f->fake, METHOD_GET, "sendInitialEvents", 200, END_MARK("9"));
    fake_stream_end(fake_stream_last(f->fake));
    run(f, 60000);
    check_trace(f, "!403 INIT DONE");
}

static void test_no_server(void **state)
{
    struct fixture *f = *state;
    sync(f);
    fake_stream_fail(fake_stream_last(f->fake), ERR_NETWORK);
    run(f, 600000);
    size_t n = fake_request_count(f->fake);
    assert_in_range(n, 18, 32);
    fake_open_stream(f->fake, "resourceVersion=100");
    run(f, 40000);
    assert_int_equal(watch_state(f->watch), WATCH_WATCHING);
    assert_int_equal(watch_relists(f->watch), 1);
    // After two good minutes the back-off starts anew.
    send(f, FRAME("MODIFIED", "w1", "101"));
    run(f, 130000);
    fake_open_stream(f->fake, "resourceVersion=101");
    fake_stream_fail(fake_stream_last(f->fake), ERR_NETWORK);
    run(f, 1500);
    assert_int_equal(watch_state(f->watch), WATCH_WATCHING);
}

static void test_relist(void **state)
{
    struct fixture *f = *state;
    sync(f);
    list(f, "200", W12);
    fake_open_stream(f->fake, "resourceVersion=200");
    watch_relist(f->watch);
    watch_relist(f->watch);
    run(f, 10);
    check_trace(f, "INIT +w1@700 +w2@800 DONE");
    assert_int_equal(fake_under_way(f->fake), 1);
    assert_int_equal(watch_relists(f->watch), 2);
    assert_int_equal(watch_last_activity_ms(f->watch), fake_request_last(f->fake)->at_ms);
}

static void test_frame_beyond_the_limit(void **state)
{
    struct fixture *f = *state;
    sync(f);
    size_t n = 17 << 20;
    char *line = malloc(n);
    memset(line, 'x', n);
    memcpy(line, "{\"type\":\"", 9);
    fake_stream_sendn(fake_stream_last(f->fake), line, n);
    free(line);
    fake_open_stream(f->fake, "resourceVersion=100");
    run(f, 3000);
    check_trace(f, "!200");
    assert_int_equal(watch_state(f->watch), WATCH_WATCHING);
    assert_int_equal(watch_relists(f->watch), 1);
}

static void test_scope(void **state)
{
    struct fixture *f = *state;
    struct watch_options o = {
        .client = f->client,
        .resource = {.gvk = gvk_parse("v1/Pod", NULL), .plural = "pods", .namespaced = true},
        .ns = "d",
        .label_selector = "a=b,c in (d,e)",
        .field_selector = "metadata.name=x",
        .as = &(struct identity){.user = "system:serviceaccount:d:s"},
        .page_size = 20,
        .no_watch_list = true,
        .on_event = on_event,
        .ud = f,
    };
    fake_answer(f->fake, METHOD_GET, "limit=20", 200, "{\"metadata\":{\"resourceVersion\":\"1\"}}");
    f->watch = watch_new(&o);
    watch_start(f->watch);
    run(f, 10);
    assert_int_equal(fake_request_count(f->fake), 2);
    for (size_t i = 0; i < 2; i++) {
        const struct fake_request *r = fake_request(f->fake, i);
        assert_non_null(strstr(r->path, "/api/v1/namespaces/d/pods?"));
        assert_non_null(strstr(r->path, "labelSelector=a%3Db%2Cc%20in%20%28d%2Ce%29"));
        assert_non_null(strstr(r->path, "fieldSelector=metadata.name%3Dx"));
        assert_string_equal(r->as_user, "system:serviceaccount:d:s");
    }
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_list_and_watch),
        TEST(test_empty_and_bad_items),
        TEST(test_expired_inside_200),
        TEST(test_expired_as_http_status),
        TEST(test_errors_that_do_not_ask_for_a_list),
        TEST(test_bookmarks),
        TEST(test_watch_list),
        TEST(test_watch_list_refused),
        TEST(test_watch_list_answered_by_a_list),
        TEST(test_watch_list_without_end_mark),
        TEST(test_watch_list_that_breaks_is_retried),
        TEST(test_short_empty_watches),
        TEST(test_a_server_that_never_means_it),
        TEST(test_honest_timeouts),
        TEST(test_server_behind_us),
        TEST(test_server_that_only_lags),
        TEST(test_too_large_for_long),
        TEST(test_pages),
        TEST(test_page_two_expires_once),
        TEST(test_pages_that_always_die),
        TEST(test_pages_without_end),
        TEST(test_forbidden),
        TEST(test_no_server),
        TEST(test_relist),
        TEST(test_frame_beyond_the_limit),
        TEST(test_scope),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
