#include "io/h2_conn.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "io/curl_link.h"
#include "io/h2_call.h"
#include "io/h2_session.h"

enum {
    PIECE = 16 << 10,   // a TLS record
    PIECES_A_TURN = 64, // the rest is read in the next one
};

struct h2_conn {
    LIST_ENTRY(h2_conn) entry;
    struct curl_transport *t;
    struct curl_link *link;
    struct h2_session session;
    struct loop_timer *later; // what is left to read and to write
    struct buf out;
    size_t out_sent;
    struct err over; // why it ended
    uint64_t last_byte_ms;
    bool up;
    bool answered; // it has brought an answer once
    bool retired;
    bool unread; // there may be more than was read
    int held;    // in use further up the stack
};

static void retire(struct h2_conn *c)
{
    c->retired = true;
    if (c->t->h2 == c)
        c->t->h2 = NULL;
}

static void conn_free(struct h2_conn *c)
{
    ASSERT(c->held == 0);
    retire(c);
    LIST_REMOVE(c, entry);
    h2_session_fini(&c->session);
    curl_link_free(c->link);
    loop_timer_free(c->later);
    buf_fini(&c->out);
    free(c);
}

static void hold(struct h2_conn *c)
{
    c->held++;
    c->t->held++;
}

// May free c, and the transport.
static void release(struct h2_conn *c)
{
    struct curl_transport *t = c->t;
    c->held--;
    t->held--;
    bool wanted = !c->retired && !t->closing;
    if (c->held == 0 && !wanted && h2_session_is_idle(&c->session))
        conn_free(c);
    transport_curl_drop_if_closing(t);
}

static void write_later(struct h2_conn *c)
{
    if (!loop_timer_active(c->later))
        loop_timer_start(c->later, 0);
}

static struct h2_conn *conn_new(struct curl_transport *t);

static void send_on_current(struct curl_transport *t, struct call *x)
{
    if (t->h2 != NULL && !h2_session_takes_more(&t->h2->session)) // GOAWAY, or its stream numbers are used up
        h2_conn_retire_current(t);
    struct h2_conn *c = t->h2 != NULL ? t->h2 : conn_new(t);
    x->h2.conn = c;
    x->h2.tries++;
    h2_session_add(&c->session, x);
    if (c->up)
        write_later(c);
}

// The server has not begun with it, or may well do it twice. The tries are counted too: a server may say
// GOAWAY to each connection before anything goes out.
static bool may_repeat(const struct h2_conn *c, const struct call *x)
{
    bool unanswered = x->h2.refused || (c->over.code != 0 && c->answered && !x->h2.closed && x->status == 0);
    return unanswered && x->stop == 0 && !x->h2.ended && !c->t->closing && x->h2.tries < MAX_ATTEMPTS &&
           x->attempts < (x->method == METHOD_POST ? 1 : MAX_ATTEMPTS);
}

static void report(struct h2_conn *c, struct call *x)
{
    struct transport_response r = {0};
    bool closed = x->h2.ended || x->h2.closed || x->h2.refused || x->stop != 0;
    if (may_repeat(c, x)) {
        h2_call_reset(x);
        send_on_current(c->t, x);
        return;
    }
    if (!closed && c->over.code != 0)
        r.err = c->over;
    else
        h2_call_judge(x, &r.err);
    if (r.err.code == 0) {
        r.status = x->status;
        c->answered = true;
    }
    loop_timer_stop(x->h2.timer);
    x->h2.conn = NULL;
    curl_call_report(x, &r);
}

static void report_done(struct h2_conn *c)
{
    for (struct call *x; !c->t->closing && (x = h2_session_take_done(&c->session)) != NULL;)
        report(c, x);
}

static void read_in(struct h2_conn *c)
{
    uint8_t piece[PIECE];
    c->unread = false;
    for (int i = 0; c->over.code == 0; i++) {
        size_t n;
        if (i == PIECES_A_TURN) {
            c->unread = true;
            write_later(c);
            return;
        }
        if (curl_link_recv(c->link, piece, sizeof(piece), &n, &c->over) != 0 || n == 0)
            return;
        c->last_byte_ms = loop_now_ms(c->t->loop);
        h2_session_read(&c->session, piece, n, &c->over);
    }
}

// The reason why it can not be written may have come before: an answer, an alert of TLS.
static void read_the_rest(struct h2_conn *c, const struct err *why)
{
    do {
        read_in(c);
    } while (c->unread && c->over.code == 0);
    if (c->over.code == 0)
        c->over = *why;
}

// What is in `out` stays where it is until all of it is written: TLS asks for that.
static void write_out(struct h2_conn *c)
{
    while (c->over.code == 0) {
        struct err lost;
        size_t n;
        if (c->out_sent == c->out.len) {
            buf_reset(&c->out);
            c->out_sent = 0;
            if (h2_session_write(&c->session, &c->out, PIECE, &c->over) != 0)
                return;
        }
        if (c->out.len == 0) {
            curl_link_want(c->link, LOOP_READ);
            return;
        }
        if (curl_link_send(c->link, c->out.data + c->out_sent, c->out.len - c->out_sent, &n, &lost) != 0) {
            read_the_rest(c, &lost);
            return;
        }
        c->out_sent += n;
        if (n == 0) {
            curl_link_want(c->link, LOOP_READ | LOOP_WRITE);
            return;
        }
    }
}

static void step(struct h2_conn *c, bool readable)
{
    hold(c);
    if (readable)
        read_in(c);
    write_out(c);
    h2_session_check_end(&c->session, &c->over);
    if (c->over.code != 0) {
        retire(c);
        h2_session_lose(&c->session);
    }
    report_done(c);
    release(c);
}

static void on_later(void *ud)
{
    struct h2_conn *c = ud;
    step(c, c->unread);
}

static void on_link_ready(void *ud, int what)
{
    step(ud, what == LOOP_READ);
}

static void hand_to_libcurl(struct h2_conn *c)
{
    c->t->by_libcurl = true;
    retire(c);
    h2_session_lose(&c->session);
    for (struct call *x; (x = h2_session_take_done(&c->session)) != NULL;) {
        loop_timer_stop(x->h2.timer);
        x->h2.conn = NULL;
        curl_pool_send(c->t, x);
    }
}

static void on_link_up(void *ud, bool http2)
{
    struct h2_conn *c = ud;
    hold(c);
    if (http2) {
        h2_session_start(&c->session);
        c->up = true;
        c->unread = true; // TLS may have taken more from the socket than the handshake
        write_later(c);
    } else {
        hand_to_libcurl(c);
    }
    release(c);
}

static void on_link_failed(void *ud, const struct err *e)
{
    struct h2_conn *c = ud;
    hold(c);
    c->over = *e;
    retire(c);
    h2_session_lose(&c->session);
    report_done(c);
    release(c);
}

static struct h2_conn *conn_new(struct curl_transport *t)
{
    struct h2_conn *c = xcalloc(1, sizeof(*c));
    c->t = t;
    h2_session_init(&c->session, t);
    buf_init(&c->out, SIZE_MAX);
    c->later = loop_timer_new(t->loop, on_later, c);
    c->link = curl_link_new(t, &(struct curl_link_callbacks){on_link_up, on_link_failed, on_link_ready, c});
    LIST_INSERT_HEAD(&t->h2_conns, c, entry);
    t->h2 = c;
    return c;
}

// Takes a call off its stream and out of its list.
static struct h2_conn *take_off(struct call *x)
{
    struct h2_conn *c = x->h2.conn;
    h2_session_remove(&c->session, x);
    if (c->up)
        write_later(c);
    return c;
}

// A connection on which nothing came since the request went out is taken for dead.
static void on_timeout(void *ud)
{
    struct call *x = ud;
    struct h2_conn *c = take_off(x);
    hold(c);
    if (c->up && (!c->session.open || c->last_byte_ms <= (x->h2.sent ? x->h2.sent_ms : x->sent_ms)))
        retire(c);
    x->stop = -ERR_TIMEOUT;
    report(c, x);
    release(c);
}

void h2_conn_send(struct curl_transport *t, struct call *x)
{
    if (x->h2.timer == NULL)
        x->h2.timer = loop_timer_new(t->loop, on_timeout, x);
    loop_timer_start(x->h2.timer, x->timeout_ms);
    x->h2.tries = 0;
    send_on_current(t, x);
}

static void call_drop(struct call *x)
{
    x->h2.conn = NULL;
    curl_call_give_back(x);
}

void h2_conn_cancel(struct call *x)
{
    struct h2_conn *c = take_off(x);
    hold(c);
    call_drop(x);
    release(c);
}

void h2_conn_retire_current(struct curl_transport *t)
{
    struct h2_conn *c = t->h2;
    if (c == NULL)
        return;
    hold(c);
    retire(c);
    release(c);
}

void h2_conn_cancel_all(struct curl_transport *t)
{
    struct h2_conn *c, *next;
    for (c = LIST_FIRST(&t->h2_conns); c != NULL; c = next) {
        next = LIST_NEXT(c, entry);
        hold(c);
        h2_session_lose(&c->session);
        for (struct call *x; (x = h2_session_take_done(&c->session)) != NULL;)
            call_drop(x);
        release(c);
    }
}
