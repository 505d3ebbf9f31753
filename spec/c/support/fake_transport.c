#include "support/fake_transport.h"

#include <stdlib.h>
#include <string.h>

#include <sys/queue.h>

#include "base/alloc.h"

struct reply {
    struct fake_reply r; // strings owned
    TAILQ_ENTRY(reply) link;
};
TAILQ_HEAD(reply_list, reply);

struct fake_transfer {
    struct transfer base; // first
    struct fake_transport *fake;
    size_t request; // index of its record
    struct transport_callbacks cb;
    struct reply *reply;      // owned
    struct loop_timer *timer; // the next step: answer, or the end after a refusal
    struct fake_stream *stream;
    bool canceled; // on_data returned non-zero
    bool busy;     // inside one of its callbacks
    bool gone;     // cancelled while busy
    LIST_ENTRY(fake_transfer) link;
};
LIST_HEAD(transfer_list, fake_transfer);

struct fake_stream {
    struct fake_transport *fake;
    struct fake_transfer *transfer; // NULL: not open any more
    size_t request;
};

struct fake_transport {
    struct transport base; // first
    struct loop *loop;
    struct reply_list replies;
    struct transfer_list transfers;
    struct fake_request **requests;
    size_t request_count;
    struct fake_stream **streams;
    size_t stream_count;
    size_t unmatched;
    bool (*on_request)(void *ud, const struct fake_request *r, struct fake_reply *ret);
    void *on_request_ud;
};

// ---- replies

static struct reply *reply_copy(const struct fake_reply *r)
{
    struct reply *x = xcalloc(1, sizeof(*x));
    x->r = *r;
    size_t n = r->body == NULL ? 0 : r->body_len > 0 ? r->body_len : strlen(r->body);
    x->r.body = r->body == NULL ? NULL : xmemdup(r->body, n);
    x->r.body_len = n;
    x->r.path_part = xstrdup(r->path_part);
    x->r.content_type = xstrdup(r->content_type != NULL ? r->content_type : "application/json");
    x->r.warning = xstrdup(r->warning);
    return x;
}

static void reply_free(struct reply *x)
{
    if (x == NULL)
        return;
    free((char *)x->r.body);
    free((char *)x->r.path_part);
    free((char *)x->r.content_type);
    free((char *)x->r.warning);
    free(x);
}

void fake_reply(struct fake_transport *f, const struct fake_reply *r)
{
    struct reply *x = reply_copy(r);
    TAILQ_INSERT_TAIL(&f->replies, x, link);
}

void fake_answer(struct fake_transport *f, enum transport_method method, const char *path_part, int status,
                 const char *body)
{
    fake_reply(
        f, &(struct fake_reply){.method = method, .path_part = path_part, .status = status, .body = body});
}

void fake_error(struct fake_transport *f, enum transport_method method, const char *path_part,
                enum err_code code)
{
    fake_reply(f, &(struct fake_reply){.method = method, .path_part = path_part, .error = code});
}

void fake_open_stream(struct fake_transport *f, const char *path_part)
{
    fake_answer(f, METHOD_GET, path_part, 200, NULL);
}

void fake_forget_replies(struct fake_transport *f)
{
    struct reply *x;
    while ((x = TAILQ_FIRST(&f->replies)) != NULL) {
        TAILQ_REMOVE(&f->replies, x, link);
        reply_free(x);
    }
}

void fake_on_request(struct fake_transport *f,
                     bool (*fn)(void *ud, const struct fake_request *r, struct fake_reply *ret), void *ud)
{
    f->on_request = fn;
    f->on_request_ud = ud;
}

static bool matches(const struct fake_request *q, enum transport_method method, const char *path_part)
{
    return q->method == method && (path_part == NULL || strstr(q->path, path_part) != NULL);
}

static struct reply *reply_for(struct fake_transport *f, const struct fake_request *q)
{
    struct fake_reply made = {0};
    if (f->on_request != NULL && f->on_request(f->on_request_ud, q, &made))
        return reply_copy(&made);
    struct reply *x;
    TAILQ_FOREACH (x, &f->replies, link) {
        if (!matches(q, x->r.method, x->r.path_part))
            continue;
        if (x->r.times < 0)
            return reply_copy(&x->r);
        if (x->r.times > 1) {
            x->r.times--;
            return reply_copy(&x->r);
        }
        TAILQ_REMOVE(&f->replies, x, link);
        return x;
    }
    f->unmatched++;
    return reply_copy(&made);
}

// ---- transfers

static void transfer_free(struct fake_transfer *x)
{
    if (x->stream != NULL)
        x->stream->transfer = NULL;
    LIST_REMOVE(x, link);
    loop_timer_free(x->timer);
    reply_free(x->reply);
    free(x);
}

static void finish(struct fake_transfer *x, const struct transport_response *r)
{
    struct transport_callbacks cb = x->cb;
    struct reply *kept = x->reply; // what r borrows
    x->reply = NULL;
    transfer_free(x);
    cb.on_done(cb.ud, r);
    reply_free(kept);
}

static void finish_stream(struct fake_transfer *x, enum err_code code)
{
    struct transport_response r = {.status = x->reply->r.status,
                                   .content_type = x->reply->r.content_type,
                                   .retry_after_ms = -1,
                                   .body = ""};
    if (code != ERR_NONE)
        err_set(&r.err, code, "fake stream: %s", err_name(code));
    finish(x, &r);
}

static void stream_data(struct fake_transfer *x, const char *data, size_t n)
{
    if (x->canceled || x->cb.on_data == NULL)
        return;
    x->busy = true;
    int rc = x->cb.on_data(x->cb.ud, data, n);
    x->busy = false;
    if (x->gone) {
        transfer_free(x);
    } else if (rc != 0) {
        x->canceled = true;
        loop_timer_start(x->timer, 0);
    }
}

// False: cancelled by the callback, x is gone.
static bool call_on_start(struct fake_transfer *x)
{
    if (x->cb.on_start == NULL)
        return true;
    x->busy = true;
    x->cb.on_start(x->cb.ud, x->reply->r.status, x->reply->r.content_type);
    x->busy = false;
    if (!x->gone)
        return true;
    transfer_free(x);
    return false;
}

static void stream_start(struct fake_transfer *x)
{
    struct fake_transport *f = x->fake;
    struct fake_stream *s = xcalloc(1, sizeof(*s));
    *s = (struct fake_stream){.fake = f, .transfer = x, .request = x->request};
    f->streams = xreallocarray(f->streams, f->stream_count + 1, sizeof(struct fake_stream *));
    f->streams[f->stream_count++] = s;
    x->stream = s;
    if (!call_on_start(x))
        return;
    bool ends = x->reply->r.ends;
    if (x->reply->r.body_len > 0)
        stream_data(x, x->reply->r.body, x->reply->r.body_len);
    if (ends && s->transfer != NULL && !s->transfer->canceled)
        finish_stream(s->transfer, ERR_NONE);
}

static void answer(void *ud)
{
    struct fake_transfer *x = ud;
    const struct fake_reply *p = &x->reply->r;
    if (x->canceled) {
        finish_stream(x, ERR_CANCELED);
        return;
    }
    if (x->fake->requests[x->request]->stream && p->status == 200) {
        stream_start(x);
        return;
    }
    struct transport_response r = {
        .status = p->status,
        .content_type = p->status == 0 ? "" : p->content_type,
        .retry_after_ms = p->retry_after_ms == 0 ? -1 : p->retry_after_ms,
        .warning = p->warning,
        .body = p->body == NULL ? "" : p->body,
        .body_len = p->body_len,
        .sent_maybe = p->sent_maybe,
    };
    if (p->status == 0 || p->error != ERR_NONE)
        err_set(&r.err, p->error == ERR_NONE ? ERR_NETWORK : p->error, "fake transport: no answer for %s",
                x->fake->requests[x->request]->path);
    if (p->status != 0 && x->fake->requests[x->request]->stream && !call_on_start(x))
        return;
    finish(x, &r);
}

static size_t record(struct fake_transport *f, const struct transport_request *r)
{
    struct fake_request *q = xcalloc(1, sizeof(*q));
    *q = (struct fake_request){
        .method = r->method,
        .path = xstrdup(r->path),
        .content_type = xstrdup(r->content_type),
        .accept = xstrdup(r->accept),
        .body = r->body == NULL ? NULL : xmemdup(r->body, r->body_len),
        .as_user = xstrdup(r->as_user),
        .body_len = r->body_len,
        .stream = r->stream,
        .timeout_ms = r->timeout_ms,
        .idle_ms = r->idle_ms,
        .at_ms = loop_now_ms(f->loop),
    };
    f->requests = xreallocarray(f->requests, f->request_count + 1, sizeof(struct fake_request *));
    f->requests[f->request_count] = q;
    return f->request_count++;
}

static struct transfer *fake_send(struct transport *t, const struct transport_request *r,
                                  const struct transport_callbacks *cb)
{
    struct fake_transport *f = (struct fake_transport *)t;
    struct fake_transfer *x = xcalloc(1, sizeof(*x));
    x->base.transport = t;
    x->fake = f;
    x->cb = *cb;
    x->request = record(f, r);
    x->reply = reply_for(f, f->requests[x->request]);
    x->timer = loop_timer_new(f->loop, answer, x);
    loop_timer_start(x->timer, x->reply->r.delay_ms);
    LIST_INSERT_HEAD(&f->transfers, x, link);
    return &x->base;
}

static void fake_cancel(struct transfer *t)
{
    struct fake_transfer *x = (struct fake_transfer *)t;
    if (x->busy) {
        x->gone = true;
        if (x->stream != NULL)
            x->stream->transfer = NULL;
        x->stream = NULL;
        return;
    }
    transfer_free(x);
}

static void fake_free(struct transport *t)
{
    struct fake_transport *f = (struct fake_transport *)t;
    struct fake_transfer *x, *next;
    for (x = LIST_FIRST(&f->transfers); x != NULL; x = next) {
        next = LIST_NEXT(x, link);
        fake_cancel(&x->base);
    }
}

static const struct transport_ops fake_ops = {fake_send, fake_cancel, fake_free};

struct fake_transport *fake_transport_new(struct loop *l)
{
    struct fake_transport *f = xcalloc(1, sizeof(*f));
    f->base.ops = &fake_ops;
    f->loop = l;
    TAILQ_INIT(&f->replies);
    LIST_INIT(&f->transfers);
    return f;
}

struct transport *fake_transport_get(struct fake_transport *f)
{
    return &f->base;
}

void fake_transport_free(struct fake_transport *f)
{
    if (f == NULL)
        return;
    fake_free(&f->base);
    fake_forget_replies(f);
    for (size_t i = 0; i < f->request_count; i++) {
        struct fake_request *q = f->requests[i];
        free(q->path);
        free(q->content_type);
        free(q->accept);
        free(q->body);
        free(q->as_user);
        free(q);
    }
    free(f->requests);
    for (size_t i = 0; i < f->stream_count; i++)
        free(f->streams[i]);
    free(f->streams);
    free(f);
}

// ---- what was asked

size_t fake_request_count(const struct fake_transport *f)
{
    return f->request_count;
}

size_t fake_request_count_of(const struct fake_transport *f, enum transport_method method,
                             const char *path_part)
{
    size_t n = 0;
    for (size_t i = 0; i < f->request_count; i++)
        n += matches(f->requests[i], method, path_part);
    return n;
}

const struct fake_request *fake_request(const struct fake_transport *f, size_t i)
{
    return i < f->request_count ? f->requests[i] : NULL;
}

const struct fake_request *fake_request_last(const struct fake_transport *f)
{
    return f->request_count == 0 ? NULL : f->requests[f->request_count - 1];
}

size_t fake_unmatched(const struct fake_transport *f)
{
    return f->unmatched;
}

size_t fake_under_way(const struct fake_transport *f)
{
    size_t n = 0;
    struct fake_transfer *x;
    LIST_FOREACH (x, &f->transfers, link)
        n++;
    return n;
}

// ---- streams

size_t fake_stream_count(const struct fake_transport *f)
{
    return f->stream_count;
}

struct fake_stream *fake_stream(struct fake_transport *f, size_t i)
{
    return i < f->stream_count ? f->streams[i] : NULL;
}

struct fake_stream *fake_stream_last(struct fake_transport *f)
{
    return f->stream_count == 0 ? NULL : f->streams[f->stream_count - 1];
}

const struct fake_request *fake_stream_request(const struct fake_stream *s)
{
    return s->fake->requests[s->request];
}

bool fake_stream_is_open(const struct fake_stream *s)
{
    return s->transfer != NULL && !s->transfer->canceled;
}

void fake_stream_sendn(struct fake_stream *s, const char *data, size_t n)
{
    if (fake_stream_is_open(s))
        stream_data(s->transfer, data, n);
}

void fake_stream_send(struct fake_stream *s, const char *text)
{
    fake_stream_sendn(s, text, strlen(text));
}

void fake_stream_end(struct fake_stream *s)
{
    if (fake_stream_is_open(s))
        finish_stream(s->transfer, ERR_NONE);
}

void fake_stream_fail(struct fake_stream *s, enum err_code code)
{
    if (fake_stream_is_open(s))
        finish_stream(s->transfer, code);
}
