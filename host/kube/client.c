#include "kube/client.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <sys/queue.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "kube/credentials.h"
#include "kube/frames.h"

enum {
    BLIND_REPEAT_MS = 10000, // between two repeats of a 401 with credentials that did not change
    FRAME_MAX = 32 * 1024 * 1024,
};

// What calls and streams have in common: a request that may be sent twice.
struct attempt {
    struct client *client;
    struct transfer *transfer;        // NULL: waits for credentials, or is over
    struct transport_request request; // strings owned
    uint64_t version;                 // of the credentials it was sent with
    bool repeated;
    bool waiting;              // for a reread
    bool failing;              // reread was no help: chores() tells
    bool closed;               // by its owner, in a callback: chores() drops it
    struct api_status failure; // the 401
    void (*send)(struct attempt *a);
    void (*fail)(struct attempt *a); // tells `failure` and frees
    TAILQ_ENTRY(attempt) link;
};
TAILQ_HEAD(attempt_list, attempt);

struct client {
    struct loop *loop;
    struct transport *transport;
    struct credentials *credentials; // NULL: the transport needs none
    struct metric *requests;         // NULL: not counted
    char *host;
    bool accepted;
    bool was_blind;
    uint64_t last_blind_ms;
    struct attempt_list attempts;
    struct loop_timer *chores;
};

struct call {
    struct attempt attempt; // first
    bool raw;
    void (*on_done)(void *ud, struct client_result *res);
    void *ud;
};

struct client_stream {
    struct attempt attempt; // first
    struct frames frames;
    struct client_stream_callbacks cb;
    bool open;    // a 200 came
    bool in_call; // inside one of our owner's callbacks
    bool stopped; // `why` stands: the end that was asked for
    struct api_status why;
};

// ---- attempts

static void attempt_init(struct attempt *a, struct client *c, const struct transport_request *r)
{
    a->client = c;
    a->request = *r;
    a->request.path = xstrdup(r->path);
    a->request.content_type = xstrdup(r->content_type);
    a->request.accept = xstrdup(r->accept);
    a->request.as_user = xstrdup(r->as_user);
    a->request.body = r->body == NULL ? NULL : xmemdup(r->body, r->body_len);
    TAILQ_INSERT_TAIL(&c->attempts, a, link);
}

static void attempt_fini(struct attempt *a)
{
    TAILQ_REMOVE(&a->client->attempts, a, link);
    free((char *)a->request.path);
    free((char *)a->request.content_type);
    free((char *)a->request.accept);
    free((char *)a->request.as_user);
    free((char *)a->request.body);
}

static void attempt_send(struct attempt *a, const struct transport_callbacks *cb)
{
    struct client *c = a->client;
    a->version = c->credentials == NULL ? 0 : credentials_version(c->credentials);
    a->transfer = transport_send(c->transport, &a->request, cb);
}

static void count(struct client *c, enum transport_method method, int status)
{
    if (c->requests == NULL)
        return;
    char code[16] = "<error>";
    if (status > 0)
        snprintf(code, sizeof(code), "%d", status);
    series_inc(metric_series(c->requests, code, transport_method_name(method), c->host));
}

static void note_answer(struct client *c, enum transport_method method, int status)
{
    count(c, method, status);
    if ((status > 0 && status < 400) || status == 403 || status == 404)
        c->accepted = true;
}

static bool may_repeat_blindly(struct client *c)
{
    uint64_t now = loop_now_ms(c->loop);
    if (c->was_blind && now - c->last_blind_ms < BLIND_REPEAT_MS)
        return false;
    c->was_blind = true;
    c->last_blind_ms = now;
    return true;
}

// True: the 401 is dealt with, a repeat or its failure comes later.
static bool attempt_unauthorized(struct attempt *a, const struct transport_response *r)
{
    struct client *c = a->client;
    if (r->status != 401 || a->repeated || c->credentials == NULL)
        return false;
    a->repeated = true;
    a->transfer = NULL;
    if (credentials_version(c->credentials) != a->version) { // changed since it was sent
        a->send(a);
        return true;
    }
    api_status_from_response(r, &a->failure);
    a->waiting = true;
    credentials_refresh(c->credentials);
    return true;
}

static void on_refreshed(void *ud)
{
    struct client *c = ud;
    struct attempt *a;
    TAILQ_FOREACH (a, &c->attempts, link) {
        if (!a->waiting)
            continue;
        a->waiting = false;
        if (credentials_version(c->credentials) != a->version || may_repeat_blindly(c)) {
            a->send(a);
        } else {
            a->failing = true;
            loop_timer_start(c->chores, 0);
        }
    }
}

static struct attempt *find_chore(struct client *c)
{
    struct attempt *a;
    TAILQ_FOREACH (a, &c->attempts, link) {
        if (a->closed || a->failing)
            return a;
    }
    return NULL;
}

static void stream_drop(struct client_stream *s);

// What must not be done inside a callback. One a turn: the callback may end anything, the client too.
static void chores(void *ud)
{
    struct client *c = ud;
    struct attempt *a = find_chore(c);
    if (a == NULL)
        return;
    loop_timer_start(c->chores, 0);
    if (a->closed)
        stream_drop((struct client_stream *)a);
    else
        a->fail(a);
}

// ---- calls

static void call_free(struct call *x)
{
    attempt_fini(&x->attempt);
    free(x);
}

static void call_finish(struct call *x, struct client_result *res)
{
    void (*on_done)(void *ud, struct client_result *res) = x->on_done;
    void *ud = x->ud;
    call_free(x);
    on_done(ud, res);
    json_doc_free(res->doc);
}

static void call_fail(struct attempt *a)
{
    struct api_status failure = a->failure;
    struct client_result res = {.status = failure.http, .body = "", .failure = &failure};
    call_finish((struct call *)a, &res);
}

static void parse_body(const struct call *x, struct client_result *res, struct api_status *failure)
{
    if (x->raw || res->body_len == 0)
        return;
    struct err e;
    if (json_parse(res->body, res->body_len, &res->doc, &e) == 0)
        return;
    *failure = (struct api_status){.http = res->status, .code = e.code, .retry_after_ms = -1, .err = e};
    err_prefix(&failure->err, "%s %.200s: the answer is not JSON",
               transport_method_name(x->attempt.request.method), x->attempt.request.path);
    res->failure = failure;
}

static void call_on_done(void *ud, const struct transport_response *r)
{
    struct call *x = ud;
    note_answer(x->attempt.client, x->attempt.request.method, r->status);
    if (attempt_unauthorized(&x->attempt, r))
        return;
    struct client_result res = {.status = r->status,
                                .body = r->body == NULL ? "" : r->body,
                                .body_len = r->body_len,
                                .warning = r->warning};
    struct api_status failure;
    if (r->status < 200 || r->status > 299 || r->err.code != 0) {
        api_status_from_response(r, &failure);
        res.failure = &failure;
    } else {
        parse_body(x, &res, &failure);
    }
    call_finish(x, &res);
}

static void call_send(struct attempt *a)
{
    attempt_send(a, &(struct transport_callbacks){.on_done = call_on_done, .ud = a});
}

struct call *client_send(struct client *c, const struct client_request *r,
                         void (*on_done)(void *ud, struct client_result *res), void *ud)
{
    ASSERT(r->as != NULL);
    DASSERT(loop_is_current(c->loop));
    struct call *x = xcalloc(1, sizeof(*x));
    x->raw = r->raw;
    x->on_done = on_done;
    x->ud = ud;
    const char *type = r->content_type != NULL ? r->content_type : "application/json";
    attempt_init(&x->attempt, c,
                 &(struct transport_request){
                     .method = r->method,
                     .path = r->path,
                     .content_type = r->body == NULL ? NULL : type,
                     .accept = r->accept != NULL ? r->accept : "application/json",
                     .body = r->body,
                     .body_len = r->body_len,
                     .as_user = r->as->user,
                     .timeout_ms = r->timeout_ms,
                 });
    x->attempt.send = call_send;
    x->attempt.fail = call_fail;
    call_send(&x->attempt);
    return x;
}

struct json_doc *client_result_take_doc(struct client_result *res)
{
    struct json_doc *d = res->doc;
    res->doc = NULL;
    return d;
}

void call_cancel(struct call *x)
{
    if (x->attempt.transfer != NULL)
        transport_cancel(x->attempt.transfer);
    call_free(x);
}

// ---- streams

static void stream_free(struct client_stream *s)
{
    attempt_fini(&s->attempt);
    frames_fini(&s->frames);
    free(s);
}

static void stream_drop(struct client_stream *s)
{
    if (s->attempt.transfer != NULL)
        transport_cancel(s->attempt.transfer);
    stream_free(s);
}

static void stream_finish(struct client_stream *s, const struct api_status *why)
{
    struct client_stream_callbacks cb = s->cb;
    struct api_status copy;
    if (why != NULL)
        copy = *why;
    stream_free(s);
    cb.on_end(cb.ud, why == NULL ? NULL : &copy);
}

static void stream_fail(struct attempt *a)
{
    stream_finish((struct client_stream *)a, &a->failure);
}

static void stream_stop(struct client_stream *s, enum err_code code, const char *text)
{
    s->stopped = true;
    s->why = (struct api_status){.http = 200, .retry_after_ms = -1};
    s->why.code = err_set(&s->why.err, code, "%s %.200s: %s", "watch", s->attempt.request.path, text);
}

static void stream_on_start(void *ud, int status, const char *content_type)
{
    (void)content_type;
    struct client_stream *s = ud;
    if (status != 200)
        return;
    s->open = true;
    note_answer(s->attempt.client, METHOD_GET, status);
    if (s->cb.on_start == NULL || s->attempt.closed)
        return;
    s->in_call = true;
    s->cb.on_start(s->cb.ud);
    s->in_call = false;
}

static int stream_on_frame(void *ud, const char *text, size_t n)
{
    struct client_stream *s = ud;
    int rc = s->cb.on_frame(s->cb.ud, text, n);
    if (rc != 0 && !s->attempt.closed)
        stream_stop(s, ERR_CANCELED, "stopped by its reader");
    return rc != 0 || s->attempt.closed ? 1 : 0;
}

static int stream_on_data(void *ud, const char *data, size_t n)
{
    struct client_stream *s = ud;
    if (s->attempt.closed || s->stopped)
        return 1;
    s->in_call = true;
    int rc = frames_feed(&s->frames, data, n, stream_on_frame, s);
    s->in_call = false;
    if (rc == -ERR_LIMIT && !s->attempt.closed)
        stream_stop(s, ERR_LIMIT, "a frame is larger than the limit");
    return rc != 0;
}

static void stream_on_done(void *ud, const struct transport_response *r)
{
    struct client_stream *s = ud;
    s->attempt.transfer = NULL;
    if (!s->open)
        note_answer(s->attempt.client, METHOD_GET, r->status);
    if (s->attempt.closed) {
        stream_free(s);
        return;
    }
    if (!s->stopped && attempt_unauthorized(&s->attempt, r))
        return;
    if (!s->stopped && r->status >= 200 && r->status <= 299 && r->err.code == 0) {
        stream_finish(s, NULL);
        return;
    }
    if (!s->stopped)
        api_status_from_response(r, &s->why);
    stream_finish(s, &s->why);
}

static void stream_send(struct attempt *a)
{
    attempt_send(
        a, &(struct transport_callbacks){
               .on_start = stream_on_start, .on_data = stream_on_data, .on_done = stream_on_done, .ud = a});
}

struct client_stream *client_watch(struct client *c, const char *path, const struct identity *as,
                                   uint32_t idle_ms, size_t max_frame,
                                   const struct client_stream_callbacks *cb)
{
    ASSERT(as != NULL);
    DASSERT(loop_is_current(c->loop));
    struct client_stream *s = xcalloc(1, sizeof(*s));
    s->cb = *cb;
    frames_init(&s->frames, max_frame == 0 ? FRAME_MAX : max_frame);
    attempt_init(&s->attempt, c,
                 &(struct transport_request){.method = METHOD_GET,
                                             .path = path,
                                             .accept = "application/json",
                                             .as_user = as->user,
                                             .stream = true,
                                             .idle_ms = idle_ms});
    s->attempt.send = stream_send;
    s->attempt.fail = stream_fail;
    stream_send(&s->attempt);
    return s;
}

void client_stream_close(struct client_stream *s)
{
    if (!s->in_call) {
        stream_drop(s);
        return;
    }
    s->attempt.closed = true;
    loop_timer_start(s->attempt.client->chores, 0);
}

// ---- the client

static const struct metric_def requests_def = {
    .name = "rest_client_requests_total",
    .help = "Requests to the API server by status code, method and host.",
    .type = METRIC_COUNTER,
    .labels = "code,method,host",
};

// host:port of a URL
static char *host_of(const char *server)
{
    const char *start = strstr(server, "://");
    start = start == NULL ? server : start + 3;
    return xstrndup(start, strcspn(start, "/"));
}

static int on_tls(void *ud, const char *ca_pem, const char *cert_pem, const char *key_pem)
{
    struct client *c = ud;
    return transport_curl_set_tls(c->transport, ca_pem, cert_pem, key_pem, NULL);
}

static struct client *make(struct loop *l, struct metrics *m, const char *host)
{
    struct client *c = xcalloc(1, sizeof(*c));
    c->loop = l;
    c->requests = m == NULL ? NULL : metrics_add(m, &requests_def);
    c->host = host_of(host);
    c->chores = loop_timer_new(l, chores, c);
    TAILQ_INIT(&c->attempts);
    return c;
}

int client_new(struct loop *l, const struct kube_config *cfg, struct metrics *m, struct client **ret,
               struct err *e)
{
    struct client *c = make(l, m, cfg->server);
    c->credentials = credentials_new(
        l, cfg, &(struct credentials_callbacks){.on_refreshed = on_refreshed, .on_tls = on_tls, .ud = c});
    bool bearer = cfg->token != NULL || cfg->token_file != NULL;
    struct transport_curl_options o = {
        .server = cfg->server,
        .ca_pem = cfg->ca_pem,
        .client_cert_pem = cfg->client_cert_pem,
        .client_key_pem = cfg->client_key_pem,
        .tls_server_name = cfg->tls_server_name,
        .insecure = cfg->insecure,
        .proxy_url = cfg->proxy_url,
        .user_agent = "tidelock/" TIDELOCK_VERSION,
        .token = bearer ? credentials_token : NULL,
        .ud = c->credentials,
    };
    int rc = transport_curl_new(l, &o, &c->transport, e);
    if (rc < 0) {
        client_free(c);
        if (cfg->source != NULL)
            err_prefix(e, "%s", cfg->source);
        return rc;
    }
    *ret = c;
    return 0;
}

struct client *client_new_with(struct loop *l, struct transport *t, struct metrics *m)
{
    struct client *c = make(l, m, "in-process");
    c->transport = t;
    return c;
}

struct client *client_new_with_credentials(struct loop *l, struct transport *t, const struct kube_config *cfg,
                                           struct metrics *m)
{
    struct client *c = make(l, m, cfg->server != NULL ? cfg->server : "in-process");
    c->transport = t;
    c->credentials =
        credentials_new(l, cfg, &(struct credentials_callbacks){.on_refreshed = on_refreshed, .ud = c});
    return c;
}

void client_free(struct client *c)
{
    if (c == NULL)
        return;
    transport_free(c->transport);
    struct attempt *a, *next;
    for (a = TAILQ_FIRST(&c->attempts); a != NULL; a = next) {
        next = TAILQ_NEXT(a, link);
        if (a->request.stream)
            stream_free((struct client_stream *)a);
        else
            call_free((struct call *)a);
    }
    credentials_free(c->credentials);
    loop_timer_free(c->chores);
    free(c->host);
    free(c);
}

struct loop *client_loop(struct client *c)
{
    return c->loop;
}

bool client_was_accepted(const struct client *c)
{
    return c->accepted;
}
