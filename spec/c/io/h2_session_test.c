// The HTTP/2 of a connection without one: what a server would send is given by hand.
#include "io/h2_session.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#define BYTES(text) (text), sizeof(text) - 1
#define SETTINGS                                                                                             \
    BYTES("\x00\x00\x06\x04\x00\x00\x00\x00\x00\x00\x03\x00\x00\x00\x02") // two requests at a time
#define OK_TO(id) BYTES("\x00\x00\x01\x01\x05\x00\x00\x00" id "\x88")

struct fixture {
    struct loop *loop;
    struct transport *transport;
    struct h2_session session;
    struct buf out;
};

static void setup(struct fixture *f)
{
    struct err e;
    f->loop = loop_new(clock_real());
    struct transport_curl_options o = {.server = "https://h.example", .user_agent = "x"};
    assert_int_equal(transport_curl_new(f->loop, &o, &f->transport, &e), 0);
    h2_session_init(&f->session, (struct curl_transport *)f->transport);
    h2_session_start(&f->session);
    buf_init(&f->out, 1 << 20);
}

static void teardown(struct fixture *f)
{
    h2_session_fini(&f->session);
    buf_fini(&f->out);
    transport_free(f->transport);
    loop_free(f->loop);
}

static struct call *add_call(struct fixture *f)
{
    struct transport_request q = {.method = METHOD_POST, .path = "/x"};
    struct call *x = curl_call_take((struct curl_transport *)f->transport, false);
    curl_call_prepare(x, &q, &(struct transport_callbacks){NULL});
    h2_session_add(&f->session, x);
    return x;
}

static void give(struct fixture *f, const char *bytes, size_t n)
{
    struct err e = {0};
    assert_int_equal(h2_session_read(&f->session, bytes, n, &e), 0);
}

static void write_all(struct fixture *f)
{
    struct err e = {0};
    buf_reset(&f->out);
    assert_int_equal(h2_session_write(&f->session, &f->out, SIZE_MAX, &e), 0);
}

static void test_nothing_goes_before_the_settings(void **state)
{
    (void)state;
    struct fixture f;
    struct call *x[3];
    setup(&f);
    for (int i = 0; i < 3; i++)
        x[i] = add_call(&f);
    write_all(&f);
    assert_memory_equal(f.out.data, "PRI * HTTP/2.0", 14);
    assert_int_equal(x[0]->attempts, 0);
    give(&f, SETTINGS);
    write_all(&f);
    assert_int_equal(x[0]->attempts + x[1]->attempts, 2);
    assert_false(x[2]->h2.sent); // the limit
    give(&f, OK_TO("\x01"));
    assert_ptr_equal(h2_session_take_done(&f.session), x[0]);
    assert_int_equal(x[0]->status, 200);
    assert_true(x[0]->h2.ended);
    assert_null(h2_session_take_done(&f.session));
    write_all(&f);
    assert_true(x[2]->h2.sent);
    assert_int_equal(x[2]->h2.stream, 5);
    h2_session_remove(&f.session, x[1]);
    h2_session_remove(&f.session, x[2]);
    assert_true(h2_session_is_idle(&f.session));
    give(&f, OK_TO("\x03")); // for one that is gone
    for (int i = 0; i < 3; i++)
        curl_call_give_back(x[i]);
    teardown(&f);
}

static void test_stream_numbers_are_used_up(void **state)
{
    (void)state;
    struct fixture f;
    setup(&f);
    give(&f, SETTINGS);
    assert_int_equal(nghttp2_session_set_next_stream_id(f.session.ng, INT32_MAX), 0);
    assert_true(h2_session_takes_more(&f.session));
    struct call *last = add_call(&f);
    assert_int_equal(last->h2.stream, INT32_MAX);
    assert_false(h2_session_takes_more(&f.session));
    struct call *late = add_call(&f);
    assert_ptr_equal(h2_session_take_done(&f.session), late); // refused at once
    assert_true(late->h2.refused);
    write_all(&f);
    give(&f, BYTES("\x00\x00\x01\x01\x05\x7f\xff\xff\xff\x88"));
    assert_ptr_equal(h2_session_take_done(&f.session), last);
    assert_int_equal(last->status, 200);
    curl_call_give_back(last);
    curl_call_give_back(late);
    teardown(&f);
}

static void test_goaway_gives_back_what_has_not_gone(void **state)
{
    (void)state;
    struct fixture f;
    struct call *x[3];
    setup(&f);
    give(&f, SETTINGS);
    for (int i = 0; i < 3; i++)
        x[i] = add_call(&f);
    write_all(&f);
    give(
        &f,
        BYTES("\x00\x00\x08\x07\x00\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00")); // the first was taken
    assert_false(h2_session_takes_more(&f.session));
    struct call *a = h2_session_take_done(&f.session), *b = h2_session_take_done(&f.session);
    assert_true((a == x[1] && b == x[2]) || (a == x[2] && b == x[1]));
    assert_true(a->h2.refused && b->h2.refused);
    assert_int_equal(x[1]->attempts, 1);
    assert_int_equal(x[2]->attempts, 0);
    write_all(&f);
    assert_null(memmem(f.out.data, f.out.len, "\x00\x00\x00\x05", 4)); // nothing on the third's stream
    give(&f, OK_TO("\x01"));
    assert_ptr_equal(h2_session_take_done(&f.session), x[0]);
    for (int i = 0; i < 3; i++)
        curl_call_give_back(x[i]);
    teardown(&f);
}

static void test_broken_rules_end_it(void **state)
{
    (void)state;
    struct err over = {0};
    struct fixture f;
    setup(&f);
    give(&f, SETTINGS);
    struct call *x = add_call(&f);
    write_all(&f);
    h2_session_check_end(&f.session, &over);
    assert_int_equal(over.code, 0);
    give(&f, BYTES("\x00\x00\x01\x00\x01\x00\x00\x00\x00x")); // data on stream 0
    assert_false(h2_session_takes_more(&f.session));
    write_all(&f); // says why
    h2_session_check_end(&f.session, &over);
    assert_int_equal(over.code, -ERR_NETWORK);
    assert_non_null(strstr(over.text, "PROTOCOL_ERROR"));
    assert_null(h2_session_take_done(&f.session));
    h2_session_lose(&f.session);
    assert_ptr_equal(h2_session_take_done(&f.session), x);
    assert_false(x->h2.refused || x->h2.ended || x->h2.closed);
    curl_call_give_back(x);
    teardown(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_nothing_goes_before_the_settings),
        cmocka_unit_test(test_stream_numbers_are_used_up),
        cmocka_unit_test(test_goaway_gives_back_what_has_not_gone),
        cmocka_unit_test(test_broken_rules_end_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
