#include "io/curl_impl.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "io/curl_drive.h"

static void pool_drive(void *ud, curl_socket_t fd, int events);

static struct pool *pool_new(struct curl_transport *t, bool streams)
{
    struct pool *p = xcalloc(1, sizeof(*p));
    p->t = t;
    p->streams = streams;
    LIST_INIT(&p->calls);
    p->drive = curl_drive_new(t->loop, pool_drive, p);
    CURLM *multi = curl_drive_multi(p->drive);
    curl_multi_setopt(multi, CURLMOPT_PIPELINING, (long)CURLPIPE_MULTIPLEX);
    curl_multi_setopt(multi, CURLMOPT_MAX_CONCURRENT_STREAMS, (long)CONCURRENT_STREAMS);
    LIST_INSERT_HEAD(&t->pools, p, entry);
    if (streams)
        curl_live_start_probes(p);
    return p;
}

void curl_pool_free(struct pool *p)
{
    ASSERT(LIST_EMPTY(&p->calls) && !p->busy && p->held == 0);
    LIST_REMOVE(p, entry);
    curl_drive_free(p->drive); // closes the connections: curl_live_on_close still finds p
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
    curl_drive_add(p->drive, x->easy);
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

void curl_pool_send(struct curl_transport *t, struct call *x)
{
    curl_call_load(x);
    curl_pool_add(curl_pool_get(t, x->stream), x);
}

// Takes a call out; not while the pool is busy.
static void pool_remove(struct pool *p, struct call *x)
{
    if (x->state == CALL_RUNNING)
        curl_multi_remove_handle(curl_drive_multi(p->drive), x->easy);
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

// A request's connection is its own and gone with it; those of others are not to blame.
static bool is_pool_bad(const struct call *x, CURLcode result)
{
    // libcurl repeats each refused stream on a connection of its own: a new pool has one again.
    if (result == CURLE_OK)
        return x->pool->http2 && x->attempts > 1;
    return (x->pool->streams || result == CURLE_OPERATION_TIMEDOUT) &&
           curl_problem_is_of_connection(x, result);
}

void curl_pool_finish(struct call *x, CURLcode result)
{
    struct pool *p = x->pool;
    struct transport_response r = {0};
    long status = 0;
    curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
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
    CURLcode result;
    for (CURL *easy; (easy = curl_drive_next_done(p->drive, &result)) != NULL;) {
        struct call *x = NULL;
        curl_easy_getinfo(easy, CURLINFO_PRIVATE, &x);
        curl_pool_finish(x, result);
    }
}

static void pool_drive(void *ud, curl_socket_t fd, int events)
{
    struct pool *p = ud;
    pool_hold(p);
    p->busy = true;
    curl_drive_act(p->drive, fd, events);
    p->busy = false;
    pool_settle(p);
    pool_finish_done(p);
    pool_release(p);
}
