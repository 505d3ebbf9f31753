#include "apiserver/transport_local.h"

#include <stdlib.h>
#include <string.h>

#include "apiserver/watch_hub.h"
#include "base/alloc.h"

enum { STREAM_BACKLOG_MAX = 64 * 1024 * 1024, RESPONSE_MAX = 64 * 1024 * 1024, TIMEOUT_MS = 30 * 1000 };

struct local_transport {
    struct transport base;
    struct apiserver *server; // NULL: it is gone
    struct loop *loop;
    char *user;
    LIST_ENTRY(local_transport) link;
    TAILQ_HEAD(transfer_list, local_transfer) transfers;
};

// One request: it travels, is handled, and the answer travels back; each step is a turn of the loop by the
// transfer's own timer.
struct local_transfer {
    struct transfer base;
    struct local_transport *local;
    TAILQ_ENTRY(local_transfer) link;
    struct transport_callbacks cb;
    struct loop_timer *step, *silence;
    enum { TRAVELS, ANSWERED, STREAMS } state;
    uint64_t half_ms; // latency of one direction
    enum transport_method method;
    char *path, *content_type, *accept, *user, *body;
    size_t body_len, max_response;
    uint32_t idle_ms, timeout_ms;
    bool stream;
    bool lost; // the connection broke after the request was sent
    struct response response;
    struct buf pending;     // of a stream: bytes not given out yet
    bool ended;             // of a stream: the server closed it
    bool running, canceled; // in a callback; to be freed when it returns
};

static struct local_transfer *of(struct transfer *x)
{
    return (struct local_transfer *)x;
}

static void transfer_free(struct local_transfer *x)
{
    watch_hub_close(x->response.watcher);
    loop_timer_free(x->step);
    loop_timer_free(x->silence);
    response_fini(&x->response);
    buf_fini(&x->pending);
    free(x->path);
    free(x->content_type);
    free(x->accept);
    free(x->user);
    free(x->body);
    free(x);
}

static void unlink_transfer(struct local_transfer *x)
{
    if (x->local != NULL)
        TAILQ_REMOVE(&x->local->transfers, x, link);
    x->local = NULL;
}

static void cancel(struct transfer *base)
{
    struct local_transfer *x = of(base);
    unlink_transfer(x);
    if (x->running) {
        x->canceled = true;
        return;
    }
    transfer_free(x);
}

// The last callback. x is gone afterwards.
static void finish(struct local_transfer *x, int code, const char *text)
{
    struct transport_response r = {
        .status = x->response.status,
        .content_type = x->response.content_type,
        .retry_after_ms = x->response.retry_after_s > 0 ? x->response.retry_after_s * 1000 : -1,
        .body = "",
    };
    bool stream = x->state == STREAMS;
    if (!stream && code == 0) {
        r.body = x->response.body.data == NULL ? "" : x->response.body.data;
        r.body_len = x->response.body.len;
    }
    r.sent_maybe = r.status == 0 && (code == ERR_TIMEOUT || x->lost);
    if (code != 0)
        err_set(&r.err, (enum err_code)code, "%s", text);
    unlink_transfer(x);
    watch_hub_close(x->response.watcher);
    x->response.watcher = NULL;
    x->cb.on_done(x->cb.ud, &r);
    transfer_free(x);
}

// False: the transfer is over and gone.
static bool call_started(struct local_transfer *x)
{
    if (x->cb.on_start == NULL)
        return true;
    x->running = true;
    x->cb.on_start(x->cb.ud, x->response.status, x->response.content_type);
    x->running = false;
    bool goes_on = !x->canceled;
    if (!goes_on)
        transfer_free(x);
    return goes_on;
}

static bool flush(struct local_transfer *x)
{
    if (x->cb.on_data == NULL)
        buf_reset(&x->pending);
    if (x->pending.len == 0)
        return true;
    struct buf out = x->pending;
    buf_init(&x->pending, STREAM_BACKLOG_MAX);
    x->running = true;
    int stop = x->cb.on_data(x->cb.ud, out.data, out.len);
    x->running = false;
    buf_fini(&out);
    if (x->canceled) {
        transfer_free(x);
        return false;
    }
    if (stop != 0) {
        finish(x, ERR_CANCELED, "the reader ended the stream");
        return false;
    }
    if (x->idle_ms > 0)
        loop_timer_start(x->silence, x->idle_ms);
    return true;
}

static void on_frames(void *ud, const char *bytes, size_t n)
{
    struct local_transfer *x = ud;
    if (buf_add(&x->pending, bytes, n) < 0) {
        watch_hub_close(x->response.watcher); // a reader that is far behind is cut off, as by the real server
        x->response.watcher = NULL;
        x->ended = true;
    }
    if (!loop_timer_active(x->step))
        loop_timer_start(x->step, x->half_ms);
}

static void on_stream_end(void *ud)
{
    struct local_transfer *x = ud;
    x->response.watcher = NULL; // it is gone already
    x->ended = true;
    if (!loop_timer_active(x->step))
        loop_timer_start(x->step, x->half_ms);
}

static void on_silence(void *ud)
{
    struct local_transfer *x = ud;
    if (x->state == STREAMS) {
        finish(x, ERR_TIMEOUT, "no byte came for as long as the stream may be idle");
        return;
    }
    x->response.status = 0;
    finish(x, ERR_TIMEOUT, "no answer came in the time the request has");
}

// What the test wants on the way. False: x goes no further (it may be gone).
static bool pass_faults(struct local_transfer *x, bool answered)
{
    struct apiserver *s = x->local->server;
    struct apiserver_answer answer = {0};
    if (s->fault == NULL)
        return true;
    struct apiserver_passage p = {.method = transport_method_name(x->method),
                                  .path = x->path,
                                  .user = x->user,
                                  .body = x->body,
                                  .body_len = x->body_len,
                                  .answered = answered,
                                  .status = answered ? x->response.status : 0};
    enum apiserver_fault fault = s->fault(s->fault_ud, &p, &answer);
    if (fault == APISERVER_PASS)
        return true;
    if (fault == APISERVER_ANSWER && !answered) {
        x->response.status = answer.status;
        x->response.retry_after_s = (int)answer.retry_after_s;
        buf_add_str(&x->response.body, answer.body == NULL ? "" : answer.body);
        x->state = ANSWERED;
        loop_timer_start(x->step, x->half_ms);
        return false;
    }
    watch_hub_close(x->response.watcher);
    x->response.watcher = NULL;
    x->response.status = 0;
    x->state = ANSWERED;
    x->lost = true;
    if (fault == APISERVER_DROP)
        finish(x, ERR_NETWORK, "the connection broke before the answer came");
    else
        loop_timer_start(x->silence, x->timeout_ms);
    return false;
}

static void handle(struct local_transfer *x)
{
    if (!pass_faults(x, false))
        return;
    struct request q = {
        .server = x->local->server,
        .method = transport_method_name(x->method),
        .target = x->path,
        .user = x->user,
        .content_type = x->content_type,
        .accept = x->accept,
        .body = x->body,
        .body_len = x->body_len,
    };
    handle_request(&q, &x->response);
    if (!pass_faults(x, true))
        return;
    x->state = ANSWERED;
    if (x->response.watcher != NULL)
        watch_hub_attach(x->response.watcher, &(struct watch_sink){on_frames, on_stream_end, x});
    loop_timer_start(x->step, x->half_ms);
}

static void open_stream(struct local_transfer *x)
{
    x->state = STREAMS;
    loop_timer_stop(x->silence);
    x->ended = x->ended || x->response.watcher == NULL;
    // What was there at the opening comes before what happened since.
    struct buf first = x->response.body;
    buf_init(&x->response.body, RESPONSE_BODY_MAX);
    buf_add(&first, x->pending.data == NULL ? "" : x->pending.data, x->pending.len);
    buf_fini(&x->pending);
    x->pending = first;
    if (x->idle_ms > 0)
        loop_timer_start(x->silence, x->idle_ms);
}

static void deliver(struct local_transfer *x)
{
    if (x->state == ANSWERED && x->response.stream)
        open_stream(x);
    else if (x->state == ANSWERED && x->response.body.len > x->max_response) {
        finish(x, ERR_LIMIT, "the answer is longer than the limit of the request");
        return;
    } else if (x->state == ANSWERED) {
        if (!x->stream || call_started(x))
            finish(x, 0, "");
        return;
    }
    if (x->cb.on_start != NULL && !call_started(x))
        return;
    x->cb.on_start = NULL; // told once
    if (flush(x) && x->ended && x->pending.len == 0)
        finish(x, 0, "");
}

static void on_step(void *ud)
{
    struct local_transfer *x = ud;
    if (x->state != TRAVELS)
        deliver(x);
    else if (x->local->server != NULL)
        handle(x);
    else {
        x->response.status = 0;
        finish(x, ERR_NETWORK, "the embedded API server is not there");
    }
}

static char *copy_text(const char *s, const char *absent)
{
    return xstrdup(s == NULL ? absent : s);
}

static struct transfer *send_request(struct transport *base, const struct transport_request *r,
                                     const struct transport_callbacks *cb)
{
    struct local_transport *t = (struct local_transport *)base;
    struct local_transfer *x = xcalloc(1, sizeof(*x));
    x->base.transport = base;
    x->local = t;
    x->cb = *cb;
    x->method = r->method;
    x->path = copy_text(r->path, "/");
    x->content_type = copy_text(r->content_type, "");
    x->accept = copy_text(r->accept, "application/json");
    x->user = copy_text(r->as_user, t->user);
    x->body = xmemdup(r->body == NULL ? "" : r->body, r->body == NULL ? 0 : r->body_len);
    x->body_len = r->body == NULL ? 0 : r->body_len;
    x->max_response = r->max_response == 0 ? RESPONSE_MAX : r->max_response;
    x->stream = r->stream;
    x->idle_ms = r->stream ? r->idle_ms : 0;
    x->timeout_ms = r->timeout_ms == 0 ? TIMEOUT_MS : r->timeout_ms;
    response_init(&x->response);
    buf_init(&x->pending, STREAM_BACKLOG_MAX);
    x->step = loop_timer_new(t->loop, on_step, x);
    x->silence = loop_timer_new(t->loop, on_silence, x);
    TAILQ_INSERT_TAIL(&t->transfers, x, link);
    if (t->server != NULL && t->server->latency != NULL)
        x->half_ms = t->server->latency(t->server->latency_ud, r) / 2;
    if (x->half_ms > 0 && (!r->stream || r->timeout_ms > 0)) // without latency every answer is in time
        loop_timer_start(x->silence, x->timeout_ms);
    loop_timer_start(x->step, x->half_ms);
    return &x->base;
}

static void cancel_all(struct local_transport *t)
{
    while (!TAILQ_EMPTY(&t->transfers))
        cancel(&TAILQ_FIRST(&t->transfers)->base);
}

static void free_transport(struct transport *base)
{
    struct local_transport *t = (struct local_transport *)base;
    cancel_all(t);
    if (t->server != NULL)
        LIST_REMOVE(t, link);
    free(t->user);
    free(t);
}

void transport_local_detach(struct local_transport *t)
{
    cancel_all(t);
    LIST_REMOVE(t, link);
    t->server = NULL;
}

struct transport *transport_local_new(struct apiserver *s, const char *user)
{
    static const struct transport_ops ops = {send_request, cancel, free_transport};
    struct local_transport *t = xcalloc(1, sizeof(*t));
    t->base.ops = &ops;
    t->server = s;
    t->loop = s->options.loop;
    t->user = copy_text(user, "unknown");
    TAILQ_INIT(&t->transfers);
    LIST_INSERT_HEAD(&s->transports, t, link);
    return &t->base;
}
