#include "io/h2_session.h"

#include "base/assert.h"
#include "io/h2_call.h"

enum {
    STREAM_WINDOW = 4 << 20, // bytes of one answer that may be on their way
    CONNECTION_WINDOW = 16 << 20,
};

static void call_is_over(struct h2_session *h, struct call *x)
{
    if (x->h2.over)
        return;
    TAILQ_REMOVE(&h->calls, x, h2.entry);
    TAILQ_INSERT_TAIL(&h->done, x, h2.entry);
    x->h2.over = true;
}

// No more of its stream is wanted.
static void end_call(struct h2_session *h, struct call *x)
{
    h2_call_detach(x, h->ng);
    call_is_over(h, x);
}

// nghttp2's callbacks. They only note what happened: ours, which may cancel and send, come after it.

static int on_header(nghttp2_session *s, const nghttp2_frame *f, const uint8_t *name, size_t name_len,
                     const uint8_t *value, size_t value_len, uint8_t flags, void *ud)
{
    struct call *x = nghttp2_session_get_stream_user_data(s, f->hd.stream_id);
    (void)flags;
    if (x == NULL)
        return 0;
    h2_call_on_header(x, name, name_len, value, value_len);
    if (x->stop != 0)
        end_call(ud, x);
    return 0;
}

static int on_data(nghttp2_session *s, uint8_t flags, int32_t stream, const uint8_t *data, size_t n, void *ud)
{
    struct call *x = nghttp2_session_get_stream_user_data(s, stream);
    (void)flags;
    if (x == NULL)
        return 0;
    h2_call_on_data(x, data, n);
    if (x->stop != 0)
        end_call(ud, x);
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
    struct h2_session *h = ud;
    if (f->hd.type == NGHTTP2_GOAWAY) {
        h->goaway = true;
        h->goaway_code = f->goaway.error_code;
    }
    if (f->hd.type == NGHTTP2_SETTINGS && !(f->hd.flags & NGHTTP2_FLAG_ACK))
        h->settled = true;
    struct call *x = nghttp2_session_get_stream_user_data(s, f->hd.stream_id);
    if (x == NULL || (f->hd.type != NGHTTP2_HEADERS && f->hd.type != NGHTTP2_DATA))
        return 0;
    if (f->hd.type == NGHTTP2_HEADERS)
        h2_call_on_header_end(x);
    if (f->hd.flags & NGHTTP2_FLAG_END_STREAM) {
        x->h2.ended = true;
        // The server may need no more of the request to answer it (RFC 9113, 8.1).
        if (nghttp2_session_get_stream_local_close(s, f->hd.stream_id) == 0)
            h2_call_detach(x, s);
        call_is_over(h, x);
    }
    return 0;
}

// From here on the server may get it.
static int before_frame_send(nghttp2_session *s, const nghttp2_frame *f, void *ud)
{
    struct h2_session *h = ud;
    struct call *x;
    if (f->hd.type == NGHTTP2_HEADERS &&
        (x = nghttp2_session_get_stream_user_data(s, f->hd.stream_id)) != NULL) {
        x->attempts++;
        x->h2.sent = true;
        x->h2.sent_ms = loop_now_ms(h->t->loop);
    }
    return 0;
}

// nghttp2 itself resets a stream whose answer is wrong, and ends a connection.
static int on_frame_send(nghttp2_session *s, const nghttp2_frame *f, void *ud)
{
    struct h2_session *h = ud;
    struct call *x;
    if (f->hd.type == NGHTTP2_GOAWAY) {
        h->fault = f->goaway.error_code;
    } else if (f->hd.type == NGHTTP2_RST_STREAM &&
               (x = nghttp2_session_get_stream_user_data(s, f->hd.stream_id)) != NULL) {
        x->h2.broken = true;
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
        x->h2.refused = true;
        call_is_over(ud, x);
    }
    return 0;
}

void h2_session_init(struct h2_session *h, const struct curl_transport *t)
{
    *h = (struct h2_session){.t = t};
    TAILQ_INIT(&h->calls);
    TAILQ_INIT(&h->done);
}

void h2_session_fini(struct h2_session *h)
{
    ASSERT(h2_session_is_idle(h));
    nghttp2_session_del(h->ng);
}

void h2_session_start(struct h2_session *h)
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
    r = nghttp2_session_client_new(&h->ng, cb, h);
    ASSERT(r == 0);
    nghttp2_session_callbacks_del(cb);
    r = nghttp2_submit_settings(h->ng, NGHTTP2_FLAG_NONE, settings, sizeof(settings) / sizeof(settings[0]));
    ASSERT(r == 0);
    r = nghttp2_session_set_local_window_size(h->ng, NGHTTP2_FLAG_NONE, 0, CONNECTION_WINDOW);
    ASSERT(r == 0);
}

bool h2_session_is_idle(const struct h2_session *h)
{
    return TAILQ_EMPTY(&h->calls) && TAILQ_EMPTY(&h->done);
}

bool h2_session_takes_more(const struct h2_session *h)
{
    return h->ng == NULL || nghttp2_session_check_request_allowed(h->ng);
}

static void submit(struct h2_session *h, struct call *x)
{
    if (h2_call_submit(x, h->ng) != 0) {
        x->h2.refused = true;
        call_is_over(h, x);
    }
}

void h2_session_add(struct h2_session *h, struct call *x)
{
    TAILQ_INSERT_TAIL(&h->calls, x, h2.entry);
    if (h->open)
        submit(h, x);
}

void h2_session_remove(struct h2_session *h, struct call *x)
{
    if (h->ng != NULL)
        h2_call_detach(x, h->ng);
    TAILQ_REMOVE(x->h2.over ? &h->done : &h->calls, x, h2.entry);
    x->h2.over = false;
}

struct call *h2_session_take_done(struct h2_session *h)
{
    struct call *x = TAILQ_FIRST(&h->done);
    if (x != NULL) {
        TAILQ_REMOVE(&h->done, x, h2.entry);
        x->h2.over = false;
    }
    return x;
}

void h2_session_lose(struct h2_session *h)
{
    for (struct call *x; (x = TAILQ_FIRST(&h->calls)) != NULL;)
        call_is_over(h, x);
}

// After a GOAWAY: what has not gone out yet goes to another connection now, not when there is room on this.
static void take_back_unsent(struct h2_session *h)
{
    struct call *x, *next;
    for (x = TAILQ_FIRST(&h->calls); x != NULL; x = next) {
        next = TAILQ_NEXT(x, h2.entry);
        if (!x->h2.sent) {
            h2_call_detach(x, h->ng);
            x->h2.refused = true;
            call_is_over(h, x);
        }
    }
}

static void open_up(struct h2_session *h)
{
    struct call *x, *next;
    if (!nghttp2_session_check_request_allowed(h->ng)) // it is being given up
        return;
    h->open = true;
    for (x = TAILQ_FIRST(&h->calls); x != NULL; x = next) {
        next = TAILQ_NEXT(x, h2.entry);
        submit(h, x);
    }
}

int h2_session_read(struct h2_session *h, const void *data, size_t n, struct err *e)
{
    ssize_t r = nghttp2_session_mem_recv(h->ng, data, n);
    if (r < 0)
        return err_set(e, ERR_NETWORK, "%s: what it sent is no HTTP/2: %s", h->t->server,
                       nghttp2_strerror((int)r));
    if (h->goaway)
        take_back_unsent(h);
    else if (h->settled && !h->open)
        open_up(h);
    return 0;
}

int h2_session_write(struct h2_session *h, struct buf *out, size_t enough, struct err *e)
{
    const uint8_t *frame;
    ssize_t n = 0;
    while (out->len < enough && (n = nghttp2_session_mem_send(h->ng, &frame)) > 0)
        buf_add(out, frame, (size_t)n);
    if (n < 0)
        return err_set(e, ERR_NETWORK, "%s: HTTP/2: %s", h->t->server, nghttp2_strerror((int)n));
    return 0;
}

// nghttp2 says nothing when it gives a connection up, but that it has nothing more to read and to write.
void h2_session_check_end(const struct h2_session *h, struct err *over)
{
    if (over->code == 0 && !nghttp2_session_want_read(h->ng) && !nghttp2_session_want_write(h->ng))
        err_set(over, ERR_NETWORK, "%s: what it sent is no HTTP/2 (%s)", h->t->server,
                nghttp2_http2_strerror(h->fault));
    else if (over->code != 0 && h->goaway_code != 0)
        err_set(over, ERR_NETWORK, "%s: it ended the connection (HTTP/2 %s)", h->t->server,
                nghttp2_http2_strerror(h->goaway_code));
}
