#include "io/h2_conn.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "io/curl_link.h"
#include "io/h2_call.h"

enum {
    STREAM_WINDOW = 4 << 20, // bytes of one answer that may be on their way
    CONNECTION_WINDOW = 16 << 20,
    PIECE = 16 << 10,   // a TLS record
    PIECES_A_TURN = 64, // the rest is read in the next one
};

struct h2_conn {
    LIST_ENTRY(h2_conn) entry;
    struct curl_transport *t;
    struct curl_link *link;
    nghttp2_session *session; // once it is up
    struct h2_calls calls;    // wait for the connection, or are under way
    struct h2_calls done;     // are over, not reported yet
    struct loop_timer *later; // what is left to read and to write
    struct buf out;
    size_t out_sent;
    struct err over;      // why it ended
    uint32_t fault;       // the code of HTTP/2 with which we gave it up, or
    uint32_t goaway_code; // the server did
    bool goaway;          // it has said so
    bool settled;         // it has said its settings
    bool open;            // the server's settings are known, so how many requests it takes at a time
    uint64_t last_byte_ms;
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
    ASSERT(TAILQ_EMPTY(&c->calls) && TAILQ_EMPTY(&c->done) && c->held == 0);
    retire(c);
    LIST_REMOVE(c, entry);
    nghttp2_session_del(c->session);
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
    if (c->held == 0 && !wanted && TAILQ_EMPTY(&c->calls) && TAILQ_EMPTY(&c->done))
        conn_free(c);
    transport_curl_drop_if_closing(t);
}

static void call_is_over(struct h2_conn *c, struct call *x)
{
    if (x->h2.over)
        return;
    TAILQ_REMOVE(&c->calls, x, h2.entry);
    TAILQ_INSERT_TAIL(&c->done, x, h2.entry);
    x->h2.over = true;
}

// The connection is of no use any more, for none of its calls.
static void lose(struct h2_conn *c)
{
    retire(c);
    for (struct call *x; (x = TAILQ_FIRST(&c->calls)) != NULL;)
        call_is_over(c, x);
}

static void write_later(struct h2_conn *c)
{
    if (!loop_timer_active(c->later))
        loop_timer_start(c->later, 0);
}

static void submit(struct h2_conn *c, struct call *x)
{
    x->h2.refused = h2_call_submit(x, c->session) != 0;
    if (x->h2.refused) {
        retire(c);
        call_is_over(c, x);
    }
    write_later(c);
}

static struct h2_conn *conn_new(struct curl_transport *t);

static void send_on_current(struct curl_transport *t, struct call *x)
{
    if (t->h2 != NULL && t->h2->session != NULL &&
        !nghttp2_session_check_request_allowed(t->h2->session)) // all stream numbers are used up
        h2_conn_retire_current(t);
    struct h2_conn *c = t->h2 != NULL ? t->h2 : conn_new(t);
    x->h2.conn = c;
    x->h2.tries++;
    TAILQ_INSERT_TAIL(&c->calls, x, h2.entry);
    if (c->open)
        submit(c, x);
}

// The server has not begun with it, or may well do it twice. The tries are counted too: a server may say
// GOAWAY to each connection before anything goes out.
static bool may_repeat(const struct h2_conn *c, const struct call *x)
{
    bool unanswered = x->h2.refused || (c->over.code != 0 && c->answered && x->status == 0);
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
    for (struct call *x; !c->t->closing && (x = TAILQ_FIRST(&c->done)) != NULL;) {
        TAILQ_REMOVE(&c->done, x, h2.entry);
        x->h2.over = false;
        report(c, x);
    }
}

// What is in `out` stays where it is until all of it is written: TLS asks for that.
static void fill_out(struct h2_conn *c)
{
    const uint8_t *frame;
    ssize_t n = 0;
    buf_reset(&c->out);
    c->out_sent = 0;
    while (c->out.len < PIECE && (n = nghttp2_session_mem_send(c->session, &frame)) > 0)
        buf_add(&c->out, frame, (size_t)n);
    if (n < 0)
        err_set(&c->over, ERR_NETWORK, "%s: HTTP/2: %s", c->t->server, nghttp2_strerror((int)n));
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
        ssize_t r = nghttp2_session_mem_recv(c->session, piece, n);
        if (r < 0)
            err_set(&c->over, ERR_NETWORK, "%s: what it sent is no HTTP/2: %s", c->t->server,
                    nghttp2_strerror((int)r));
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

static void write_out(struct h2_conn *c)
{
    while (c->over.code == 0) {
        struct err lost;
        size_t n;
        if (c->out_sent == c->out.len)
            fill_out(c);
        if (c->out_sent == c->out.len) {
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

// After a GOAWAY: what has not gone out yet goes to another connection now, not when there is room on this.
static void take_back_unsent(struct h2_conn *c)
{
    struct call *x, *next;
    for (x = TAILQ_FIRST(&c->calls); x != NULL; x = next) {
        next = TAILQ_NEXT(x, h2.entry);
        if (!x->h2.sent) {
            h2_call_detach(x, c->session);
            x->h2.refused = true;
            call_is_over(c, x);
        }
    }
}

static void open_up(struct h2_conn *c)
{
    struct call *x, *next;
    if (!nghttp2_session_check_request_allowed(c->session)) // it is being given up
        return;
    c->open = true;
    for (x = TAILQ_FIRST(&c->calls); x != NULL; x = next) {
        next = TAILQ_NEXT(x, h2.entry);
        submit(c, x);
    }
}

// nghttp2 says nothing when it gives a connection up, but that it has nothing more to read and to write.
static void check_end(struct h2_conn *c)
{
    if (c->over.code == 0 && !nghttp2_session_want_read(c->session) &&
        !nghttp2_session_want_write(c->session))
        err_set(&c->over, ERR_NETWORK, "%s: what it sent is no HTTP/2 (%s)", c->t->server,
                nghttp2_http2_strerror(c->fault));
    else if (c->over.code != 0 && c->goaway_code != 0)
        err_set(&c->over, ERR_NETWORK, "%s: it ended the connection (HTTP/2 %s)", c->t->server,
                nghttp2_http2_strerror(c->goaway_code));
}

static void step(struct h2_conn *c, bool readable)
{
    hold(c);
    if (readable)
        read_in(c);
    if (c->goaway)
        take_back_unsent(c);
    else if (c->settled && !c->open)
        open_up(c);
    write_out(c);
    check_end(c);
    if (c->over.code != 0)
        lose(c);
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

// nghttp2's callbacks. They only note what happened: ours, which may cancel and send, come after it.

static void reset_if_stopped(nghttp2_session *s, const struct call *x)
{
    if (x->stop != 0)
        nghttp2_submit_rst_stream(s, NGHTTP2_FLAG_NONE, x->h2.stream, NGHTTP2_CANCEL);
}

static int on_header(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *ud)
{
    struct call *x = nghttp2_session_get_stream_user_data(s, f->hd.stream_id);
    (void)flags, (void)ud;
    if (x == NULL || x->stop != 0)
        return 0;
    h2_call_on_header(x, name, name_len, value, value_len);
    reset_if_stopped(s, x);
    return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t stream, const uint8_t *data, size_t n, void *ud)
{
    struct call *x = nghttp2_session_get_stream_user_data(s, stream);
    (void)flags, (void)ud;
    if (x == NULL || x->stop != 0)
        return 0;
    h2_call_on_data(x, data, n);
    reset_if_stopped(s, x);
    return 0;
}

static int on_stream_close(nghttp2_session *s, int32_t stream, uint32_t code, void *ud)
{
    struct call *x = nghttp2_session_get_stream_user_data(s, stream);
    if (x == NULL)
        return 0;
    x->h2.closed = true;
    x->h2.reset = code;
    if (code == NGHTTP2_REFUSED_STREAM && !x->h2.broken)
        x->h2.refused = true; // also when a GOAWAY leaves it out
    call_is_over(ud, x);
    return 0;
}

static int on_frame_recv(nghttp2_session *s, const nghttp2_frame *f, void *ud)
{
    struct h2_conn *c = ud;
    if (f->hd.type == NGHTTP2_GOAWAY) {
        c->goaway = true;
        c->goaway_code = f->goaway.error_code;
        retire(c);
    }
    if (f->hd.type == NGHTTP2_SETTINGS && !(f->hd.flags & NGHTTP2_FLAG_ACK))
        c->settled = true;
    struct call *x = nghttp2_session_get_stream_user_data(s, f->hd.stream_id);
    if (x == NULL || (f->hd.type != NGHTTP2_HEADERS && f->hd.type != NGHTTP2_DATA))
        return 0;
    if (f->hd.type == NGHTTP2_HEADERS)
        h2_call_on_header_end(x);
    if (x->stop == 0 && f->hd.flags & NGHTTP2_FLAG_END_STREAM) {
        x->h2.ended = true;
        // The server needs no more of the request to answer it (RFC 9113, 8.1).
        if (nghttp2_session_get_stream_local_close(s, f->hd.stream_id) == 0)
            nghttp2_submit_rst_stream(s, NGHTTP2_FLAG_NONE, f->hd.stream_id, NGHTTP2_CANCEL);
    }
    return 0;
}

// From here on the server may get it.
static int before_frame_send(nghttp2_session *s, const nghttp2_frame *f, void *ud)
{
    struct h2_conn *c = ud;
    struct call *x;
    if (f->hd.type == NGHTTP2_HEADERS &&
        (x = nghttp2_session_get_stream_user_data(s, f->hd.stream_id)) != NULL) {
        x->attempts++;
        x->h2.sent = true;
        x->h2.sent_ms = loop_now_ms(c->t->loop);
    }
    return 0;
}

// nghttp2 itself resets a stream whose answer is wrong, and ends a connection.
static int on_frame_send(nghttp2_session *s, const nghttp2_frame *f, void *ud)
{
    struct h2_conn *c = ud;
    struct call *x;
    if (f->hd.type == NGHTTP2_GOAWAY) {
        c->fault = f->goaway.error_code;
        retire(c);
    } else if (f->hd.type == NGHTTP2_RST_STREAM &&
               (x = nghttp2_session_get_stream_user_data(s, f->hd.stream_id)) != NULL) {
        x->h2.broken = x->stop == 0 && !x->h2.ended;
    }
    return 0;
}

// A request that may not go out any more.
static int on_frame_not_send(nghttp2_session *s, const nghttp2_frame *f, int code, void *ud)
{
    struct call *x;
    (void)code;
    if (f->hd.type == NGHTTP2_HEADERS &&
        (x = nghttp2_session_get_stream_user_data(s, f->hd.stream_id)) != NULL) {
        retire(ud);
        x->h2.refused = true;
        call_is_over(ud, x);
    }
    return 0;
}

static void start_session(struct h2_conn *c)
{
    const nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_ENABLE_PUSH, 0},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, STREAM_WINDOW},
    };
    nghttp2_session_callbacks *cb;
    int r = nghttp2_session_callbacks_new(&cb);
    ASSERT(r == 0);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_data);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_stream_close);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame_recv);
    nghttp2_session_callbacks_set_before_frame_send_callback(cb, before_frame_send);
    nghttp2_session_callbacks_set_on_frame_send_callback(cb, on_frame_send);
    nghttp2_session_callbacks_set_on_frame_not_send_callback(cb, on_frame_not_send);
    r = nghttp2_session_client_new(&c->session, cb, c);
    ASSERT(r == 0);
    nghttp2_session_callbacks_del(cb);
    r = nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings,
                                sizeof(settings) / sizeof(settings[0]));
    ASSERT(r == 0);
    r = nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW);
    ASSERT(r == 0);
}

static void hand_to_libcurl(struct h2_conn *c)
{
    c->t->by_libcurl = true;
    retire(c);
    for (struct call *x; (x = TAILQ_FIRST(&c->calls)) != NULL;) {
        TAILQ_REMOVE(&c->calls, x, h2.entry);
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
        start_session(c);
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
    lose(c);
    report_done(c);
    release(c);
}

static struct h2_conn *conn_new(struct curl_transport *t)
{
    struct h2_conn *c = xcalloc(1, sizeof(*c));
    c->t = t;
    TAILQ_INIT(&c->calls);
    TAILQ_INIT(&c->done);
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
    if (c->session != NULL) {
        h2_call_detach(x, c->session);
        write_later(c);
    }
    TAILQ_REMOVE(x->h2.over ? &c->done : &c->calls, x, h2.entry);
    x->h2.over = false;
    return c;
}

// A connection on which nothing came since the request went out is taken for dead.
static void on_timeout(void *ud)
{
    struct call *x = ud;
    struct h2_conn *c = take_off(x);
    hold(c);
    if (c->session != NULL && (!c->open || c->last_byte_ms <= (x->h2.sent ? x->h2.sent_ms : x->sent_ms)))
        retire(c);
    if (!x->h2.ended)
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

void h2_conn_cancel(struct call *x)
{
    struct h2_conn *c = take_off(x);
    hold(c);
    x->h2.conn = NULL;
    curl_call_give_back(x);
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
        for (struct call *x; (x = TAILQ_FIRST(&c->calls)) != NULL || (x = TAILQ_FIRST(&c->done)) != NULL;)
            h2_conn_cancel(x);
        release(c);
    }
}
