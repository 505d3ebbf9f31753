#include "io/curl_impl.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

static void pool_drive(struct pool *p, curl_socket_t fd, int events);

static void on_pool_timer(void *ud)
{
    pool_drive(ud, CURL_SOCKET_TIMEOUT, 0);
}

static int on_multi_timer(CURLM *multi, long ms, void *ud)
{
    struct pool *p = ud;
    (void)multi;
    if (ms < 0)
        loop_timer_stop(p->timer);
    else
        loop_timer_start(p->timer, (uint64_t)ms);
    return 0;
}

struct pool_fd {
    struct pool *pool;
    curl_socket_t fd;
    struct loop_fd *watcher;
};

static void on_pool_fd(void *ud, int what)
{
    struct pool_fd *f = ud;
    pool_drive(f->pool, f->fd, what == LOOP_READ ? CURL_CSELECT_IN : CURL_CSELECT_OUT);
}

static int on_multi_socket(CURL *easy, curl_socket_t fd, int what, void *ud, void *socket_ud)
{
    struct pool *p = ud;
    struct pool_fd *f = socket_ud;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (f != NULL)
            loop_fd_free(f->watcher);
        free(f);
        return 0;
    }
    if (f == NULL) {
        f = xmalloc(sizeof(*f));
        *f = (struct pool_fd){p, fd, loop_fd_new(p->t->loop, fd, on_pool_fd, f)};
        curl_multi_assign(p->multi, fd, f);
    }
    loop_fd_want(f->watcher, (what & CURL_POLL_IN ? LOOP_READ : 0) | (what & CURL_POLL_OUT ? LOOP_WRITE : 0));
    return 0;
}

static struct pool *pool_new(struct curl_transport *t, bool streams)
{
    struct pool *p = xcalloc(1, sizeof(*p));
    p->t = t;
    p->streams = streams;
    LIST_INIT(&p->calls);
    p->timer = loop_timer_new(t->loop, on_pool_timer, p);
    p->multi = curl_multi_init();
    ASSERT(p->multi != NULL);
    curl_multi_setopt(p->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX);
    curl_multi_setopt(p->multi, CURLMOPT_MAX_CONCURRENT_STREAMS, (long)CONCURRENT_STREAMS);
    curl_multi_setopt(p->multi, CURLMOPT_SOCKETFUNCTION, on_multi_socket);
    curl_multi_setopt(p->multi, CURLMOPT_SOCKETDATA, p);
    curl_multi_setopt(p->multi, CURLMOPT_TIMERFUNCTION, on_multi_timer);
    curl_multi_setopt(p->multi, CURLMOPT_TIMERDATA, p);
    LIST_INSERT_HEAD(&t->pools, p, entry);
    if (streams)
        curl_live_start_probes(p);
    return p;
}

void curl_pool_free(struct pool *p)
{
    ASSERT(LIST_EMPTY(&p->calls) && !p->busy && p->held == 0);
    LIST_REMOVE(p, entry);
    curl_multi_cleanup(p->multi); // closes the connections: curl_live_on_close still finds p
    loop_timer_free(p->timer);
    loop_timer_free(p->probe_timer);
    free(p->sockets);
    free(p);
}

void curl_pool_retire(struct pool *p)
{
    p->retired = true;
    if (p->t->requests == p)
        p->t->requests = NULL;
}

static bool has_other_stream_pool(const struct pool *p)
{
    const struct pool *other;
    LIST_FOREACH (other, &p->t->pools, entry) {
        if (other != p && other->streams && !other->retired && other->count < STREAMS_A_POOL)
            return true;
    }
    return false;
}

void curl_pool_drop_if_idle(struct pool *p)
{
    if (p->held > 0 || p->busy || p->count > 0)
        return;
    if (!p->retired && !p->t->closing && !(p->streams && has_other_stream_pool(p)))
        return;
    curl_pool_retire(p);
    if (p->probe != NULL)
        curl_pool_cancel(p->probe); // comes back here
    else
        curl_pool_free(p);
}

struct pool *curl_pool_get(struct curl_transport *t, bool stream)
{
    if (!stream) {
        if (t->requests == NULL)
            t->requests = pool_new(t, false);
        return t->requests;
    }
    // The fullest one that has room: the others may then become empty.
    struct pool *p, *best = NULL;
    LIST_FOREACH (p, &t->pools, entry) {
        if (p->streams && !p->retired && p->count < STREAMS_A_POOL &&
            (best == NULL || p->count > best->count))
            best = p;
    }
    return best != NULL ? best : pool_new(t, true);
}

static void pool_start(struct pool *p, struct call *x)
{
    x->state = CALL_RUNNING;
    CURLMcode r = curl_multi_add_handle(p->multi, x->easy);
    ASSERT(r == CURLM_OK); // other codes mean that we mixed up the states of handles
}

void curl_pool_add(struct pool *p, struct call *x)
{
    x->pool = p;
    LIST_INSERT_HEAD(&p->calls, x, entry);
    if (x->probe)
        p->probe = x;
    else
        p->count++;
    curl_easy_setopt(x->easy, CURLOPT_SOCKOPTDATA, p);
    curl_easy_setopt(x->easy, CURLOPT_CLOSESOCKETDATA, p);
    if (p->busy) {
        x->state = CALL_WAITING;
        p->dirty = true;
    } else {
        pool_start(p, x);
    }
}

// Takes a call out; not while the pool is busy.
static void pool_remove(struct pool *p, struct call *x)
{
    if (x->state == CALL_RUNNING)
        curl_multi_remove_handle(p->multi, x->easy);
    LIST_REMOVE(x, entry);
    if (x->probe)
        p->probe = NULL;
    else
        p->count--;
}

static void pool_settle(struct pool *p)
{
    if (!p->dirty)
        return;
    p->dirty = false;
    struct call *next;
    for (struct call *x = LIST_FIRST(&p->calls); x != NULL; x = next) {
        next = LIST_NEXT(x, entry);
        if (x->canceled) {
            pool_remove(p, x);
            curl_call_give_back(x);
        } else if (x->state == CALL_WAITING) {
            pool_start(p, x);
        }
    }
}

void curl_pool_cancel(struct call *x)
{
    struct pool *p = x->pool;
    if (x->idle_timer != NULL)
        loop_timer_stop(x->idle_timer);
    if (p->busy) {
        x->canceled = true;
        p->dirty = true;
        return;
    }
    pool_remove(p, x);
    curl_call_give_back(x);
    curl_pool_drop_if_idle(p);
}

static void pool_hold(struct pool *p)
{
    p->held++;
    p->t->held++;
}

// May free p, and the transport.
static void pool_release(struct pool *p)
{
    struct curl_transport *t = p->t;
    p->held--;
    t->held--;
    curl_pool_drop_if_idle(p);
    transport_curl_drop_if_closing(t);
}

void curl_pool_cancel_all(struct pool *p)
{
    struct call *x;
    pool_hold(p);
    LIST_FOREACH (x, &p->calls, entry)
        x->canceled = true;
    p->dirty = true;
    if (!p->busy)
        pool_settle(p);
    pool_release(p);
}

// Over HTTP/1.1 a request's connection is its own and gone with it; the others are not to blame.
static bool is_pool_bad(const struct call *x, CURLcode result)
{
    long version = 0;
    curl_easy_getinfo(x->easy, CURLINFO_HTTP_VERSION, &version);
    bool http2 = version == CURL_HTTP_VERSION_2_0;
    // libcurl repeats each refused stream on a connection of its own: a new pool has one again.
    if (result == CURLE_OK)
        return http2 && x->attempts > 1;
    return (http2 || x->pool->streams || result == CURLE_OPERATION_TIMEDOUT) &&
           curl_problem_is_of_connection(x, result);
}

// When a connection ends by GOAWAY, libcurl repeats what the server refused, except that the last ones may
// get CURLE_HTTP2 for the session that is over. These are repeated here, in a new pool, within the request's
// time.
static bool try_repeat(struct call *x, CURLcode result, long status)
{
    struct pool *p = x->pool;
    uint64_t spent = loop_now_ms(p->t->loop) - x->sent_ms;
    if (result != CURLE_HTTP2 || status != 0 || x->stop != 0 || x->stream || x->probe || p->t->closing ||
        x->method == METHOD_POST || x->attempts >= MAX_ATTEMPTS || spent >= x->timeout_ms)
        return false;
    pool_remove(p, x);
    curl_pool_retire(p);
    curl_easy_setopt(x->easy, CURLOPT_TIMEOUT_MS, (long)(x->timeout_ms - spent));
    buf_reset(&x->answer);
    x->detail[0] = '\0';
    curl_pool_add(curl_pool_get(p->t, false), x);
    return true;
}

void curl_pool_finish(struct call *x, CURLcode result)
{
    struct pool *p = x->pool;
    struct transport_response r = {0};
    long status = 0;
    curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
    if (try_repeat(x, result, status))
        return;
    pool_hold(p);
    if (result != CURLE_OK || x->stop != 0)
        curl_problem_describe(x, result, &r.err);
    else
        p->last_byte_ms = loop_now_ms(p->t->loop);
    if (r.err.code == 0 || x->started)
        r.status = (int)status;
    if (is_pool_bad(x, result))
        curl_pool_retire(p);
    pool_remove(p, x);
    curl_call_report(x, &r);
    pool_release(p);
}

static void pool_finish_done(struct pool *p)
{
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(p->multi, &left)) != NULL;) {
        struct call *x = NULL;
        curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &x);
        if (m->msg == CURLMSG_DONE)
            curl_pool_finish(x, m->data.result);
    }
}

static void pool_drive(struct pool *p, curl_socket_t fd, int events)
{
    int running;
    pool_hold(p);
    p->busy = true;
    curl_multi_socket_action(p->multi, fd, events, &running);
    p->busy = false;
    pool_settle(p);
    pool_finish_done(p);
    pool_release(p);
}
