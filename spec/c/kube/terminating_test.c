// Which namespaces are going away?

#include "kube/terminating.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/fake_transport.h"
#include "unit.h"

#define GOES "{\"metadata\":{\"name\":\"a\",\"uid\":\"u1\",\"deletionTimestamp\":\"2026-01-01T00:00:00Z\"}}"
#define STAYS "{\"metadata\":{\"name\":\"a\",\"uid\":\"u2\"}}"
#define FORBIDDEN                                                                                            \
    "{\"kind\":\"Status\",\"status\":\"Failure\",\"reason\":\"Forbidden\",\"code\":403,\"message\":\"no\"}"

enum { MINUTE_MS = 60 * 1000 };

struct world {
    struct clock *clock;
    struct loop *loop;
    struct fake_transport *fake;
    struct client *client;
    struct terminating *terminating;
    size_t answers, failures;
};

static void on_answer(void *ud, const char *ns, const struct api_status *failure)
{
    struct world *w = ud;
    assert_true(ns[0] != '\0');
    w->failures += failure != NULL;
    w->answers++;
}

static void begin(struct world *w)
{
    *w = (struct world){.clock = clock_virtual_new(0)};
    w->loop = loop_new(w->clock);
    w->fake = fake_transport_new(w->loop);
    w->client = client_new_with(w->loop, fake_transport_get(w->fake), NULL);
    w->terminating = terminating_new(w->client, on_answer, w);
}

static void end(struct world *w)
{
    terminating_free(w->terminating);
    client_free(w->client);
    fake_transport_free(w->fake);
    loop_free(w->loop);
    clock_free(w->clock);
}

static void run(struct world *w, uint64_t ms)
{
    loop_run_until(w->loop, loop_now_ms(w->loop) + ms);
}

// What is known after the question was answered like this.
static enum terminating_answer ask(struct world *w, int status, const char *body)
{
    run(w, 1);
    fake_answer(w->fake, METHOD_GET, "/api/v1/namespaces/a", status, body);
    assert_int_equal(terminating_is(w->terminating, "a", 0), TERMINATING_ASKED);
    run(w, 1);
    return terminating_is(w->terminating, "a", MINUTE_MS);
}

static void answers_are_kept_for_a_while(void **unused)
{
    struct world w;
    (void)unused;
    begin(&w);
    assert_null(terminating_object(w.terminating, "a"));
    assert_int_equal(ask(&w, 200, GOES), TERMINATING_YES);
    assert_int_equal(w.answers, 1);
    assert_string_equal(object_uid(terminating_object(w.terminating, "a")), "u1");
    run(&w, 1000);
    assert_int_equal(terminating_is(w.terminating, "a", 2000), TERMINATING_YES);
    assert_int_equal(fake_request_count(w.fake), 1);
    assert_int_equal(ask(&w, 200, STAYS), TERMINATING_NO); // one of the same name
    assert_int_equal(fake_request_count(w.fake), 2);
    end(&w);
}

static void what_is_not_known_is_no(void **unused)
{
    struct world w;
    (void)unused;
    begin(&w);
    assert_int_equal(ask(&w, 404, "{}"), TERMINATING_NO);
    assert_int_equal(ask(&w, 200, GOES), TERMINATING_YES);
    assert_int_equal(ask(&w, 500, "oops"), TERMINATING_NO);
    assert_int_equal(ask(&w, 200, "{}"), TERMINATING_NO);
    assert_int_equal(terminating_is(w.terminating, "", 0), TERMINATING_NO); // cluster-scoped
    assert_int_equal(w.answers, 4);
    assert_int_equal(w.failures, 2);
    end(&w);
}

static void a_refusal_counts_where_nothing_else_is_known(void **unused)
{
    struct world w;
    (void)unused;
    begin(&w);
    assert_int_equal(ask(&w, 403, FORBIDDEN), TERMINATING_NO);
    terminating_tell(w.terminating, "a");
    assert_int_equal(ask(&w, 403, FORBIDDEN), TERMINATING_YES);
    assert_string_equal(object_name(terminating_object(w.terminating, "a")), "a");
    assert_int_equal(ask(&w, 200, STAYS), TERMINATING_NO); // the server itself knows better
    run(&w, 2 * MINUTE_MS);
    assert_int_equal(ask(&w, 403, FORBIDDEN), TERMINATING_NO); // that was long ago
    end(&w);
}

static void few_are_asked_at_once(void **unused)
{
    struct world w;
    char ns[16];
    (void)unused;
    begin(&w);
    fake_reply(w.fake, &(struct fake_reply){
                           .method = METHOD_GET, .times = -1, .status = 200, .body = STAYS, .delay_ms = 10});
    for (int twice = 0; twice < 2; twice++)
        for (int i = 0; i < 10; i++) {
            snprintf(ns, sizeof ns, "n%d", i);
            assert_int_equal(terminating_is(w.terminating, ns, MINUTE_MS), TERMINATING_ASKED);
        }
    run(&w, 5);
    assert_int_equal(fake_request_count(w.fake), 4);
    run(&w, 50);
    assert_int_equal(fake_request_count(w.fake), 10);
    assert_int_equal(w.answers, 10);
    assert_int_equal(terminating_is(w.terminating, "n9", MINUTE_MS), TERMINATING_NO);
    end(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_kept_for_a_while),
        cmocka_unit_test(what_is_not_known_is_no),
        cmocka_unit_test(a_refusal_counts_where_nothing_else_is_known),
        cmocka_unit_test(few_are_asked_at_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
