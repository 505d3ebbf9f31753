// Dead connections: a stream's idle time, and the probe of a server that is frozen behind a living
// connection.
#include <sys/socket.h>

#include "io/curl_impl.h"

static void on_idle(void *ud)
{
    struct call *x = ud;
    uint64_t quiet = loop_now_ms(curl_impl_transport(x)->loop) - x->last_byte_ms;
    if (quiet < x->idle_ms) {
        loop_timer_start(x->idle_timer, x->idle_ms - quiet);
        return;
    }
    x->stop = -ERR_TIMEOUT;
    curl_pool_finish(x, CURLE_OPERATION_TIMEDOUT);
}

void curl_live_start_idle_timer(struct call *x)
{
    if (!x->stream || x->idle_ms == 0)
        return;
    if (x->idle_timer == NULL)
        x->idle_timer = loop_timer_new(curl_impl_transport(x)->loop, on_idle, x);
    loop_timer_start(x->idle_timer, x->idle_ms);
}

static curl_socket_t refuse_socket(void *ud, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)ud, (void)purpose, (void)address;
    return CURL_SOCKET_BAD;
}

// A frozen server keeps its connections: only an answer proves life. All streams of the connection end then.
static void on_probe_done(void *ud, const struct transport_response *r)
{
    struct pool *p = ud;
    if (r->err.code == -ERR_TIMEOUT && p->last_byte_ms + PROBE_TIMEOUT_MS <= loop_now_ms(p->t->loop)) {
        curl_pool_retire(p);
        if (p->socket >= 0)
            shutdown(p->socket, SHUT_RDWR);
    }
    loop_timer_start(p->probe_timer, PROBE_EVERY_MS);
}

static void on_probe_timer(void *ud)
{
    struct pool *p = ud;
    if (!p->http2 || p->socket < 0 || p->count == 0 || p->probe != NULL) {
        loop_timer_start(p->probe_timer, PROBE_EVERY_MS);
        return;
    }
    struct transport_request r = {
        .method = METHOD_GET, .path = "/readyz", .accept = "*/*", .timeout_ms = PROBE_TIMEOUT_MS};
    struct transport_callbacks cb = {.on_done = on_probe_done, .ud = p};
    struct call *x = curl_call_take(p->t, false);
    x->probe = true;
    curl_call_prepare(x, &r, &cb);
    if (x->early != NULL) { // the token is unusable; the streams' own requests say so
        curl_call_give_back(x);
        loop_timer_start(p->probe_timer, PROBE_EVERY_MS);
        return;
    }
    // On the streams' connection or not at all.
    curl_easy_setopt(x->easy, CURLOPT_OPENSOCKETFUNCTION, refuse_socket);
    curl_pool_add(p, x);
}

void curl_live_start_probes(struct pool *p)
{
    p->probe_timer = loop_timer_new(p->t->loop, on_probe_timer, p);
    loop_timer_start(p->probe_timer, PROBE_EVERY_MS);
}
