// Dead connections: a stream's idle time, and the probe of a server that is frozen behind a living
// connection.
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/curl_impl.h"

static void set_int(int fd, int level, int name, int value)
{
    setsockopt(fd, level, name, &value, sizeof(value)); // a socket without it still works
}

void curl_live_set_keepalive(curl_socket_t fd)
{
    set_int(fd, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_int(fd, IPPROTO_TCP, TCP_KEEPIDLE, KEEPALIVE_IDLE_S);
    set_int(fd, IPPROTO_TCP, TCP_KEEPINTVL, KEEPALIVE_INTERVAL_S);
    set_int(fd, IPPROTO_TCP, TCP_KEEPCNT, KEEPALIVE_COUNT);
    set_int(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, UNACKED_MS);
}

int curl_live_on_socket(void *ud, curl_socket_t fd, curlsocktype purpose)
{
    struct pool *p = ud;
    (void)purpose;
    curl_live_set_keepalive(fd);
    p->sockets = xreallocarray(p->sockets, p->socket_count + 1, sizeof(p->sockets[0]));
    p->sockets[p->socket_count++] = fd;
    return CURL_SOCKOPT_OK;
}

int curl_live_on_close(void *ud, curl_socket_t fd)
{
    struct pool *p = ud;
    for (size_t i = 0; i < p->socket_count; i++) {
        if (p->sockets[i] == fd) {
            p->sockets[i] = p->sockets[--p->socket_count];
            break;
        }
    }
    return close(fd);
}

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

// A frozen server keeps its connections: only an answer proves life. All streams of the pool end then.
static void on_probe_done(void *ud, const struct transport_response *r)
{
    struct pool *p = ud;
    if (r->err.code == -ERR_TIMEOUT && p->last_byte_ms + p->t->probe_timeout_ms <= loop_now_ms(p->t->loop)) {
        curl_pool_retire(p);
        for (size_t i = 0; i < p->socket_count; i++)
            shutdown(p->sockets[i], SHUT_RDWR);
    }
    loop_timer_start(p->probe_timer, p->t->probe_every_ms);
}

static void on_probe_timer(void *ud)
{
    struct pool *p = ud;
    if (!p->http2 || p->count == 0 || p->probe != NULL) {
        loop_timer_start(p->probe_timer, p->t->probe_every_ms);
        return;
    }
    struct transport_request r = {
        .method = METHOD_GET, .path = "/readyz", .accept = "*/*", .timeout_ms = p->t->probe_timeout_ms};
    struct transport_callbacks cb = {.on_done = on_probe_done, .ud = p};
    struct call *x = curl_call_take(p->t, false);
    x->probe = true;
    curl_call_prepare(x, &r, &cb);
    if (x->early != NULL) { // the token is unusable; the streams' own requests say so
        curl_call_give_back(x);
        loop_timer_start(p->probe_timer, p->t->probe_every_ms);
        return;
    }
    curl_call_load(x);
    // On the streams' connection or not at all.
    curl_easy_setopt(x->easy, CURLOPT_OPENSOCKETFUNCTION, refuse_socket);
    curl_pool_add(p, x);
}

void curl_live_start_probes(struct pool *p)
{
    p->probe_timer = loop_timer_new(p->t->loop, on_probe_timer, p);
    loop_timer_start(p->probe_timer, p->t->probe_every_ms);
}
