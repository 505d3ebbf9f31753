// ctest-labels: thread
// Connections as libcurl opens them, for HTTP/2 of our own: through a proxy, and where there is none to be
// had.
#include <arpa/inet.h>
#include <event2/bufferevent.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "io/loop_impl.h"
#include "support/h2_rig.h"

// A proxy for one connection at a time: CONNECT, then bytes both ways.
struct proxy {
    struct loop *loop;
    struct evconnlistener *listener;
    uint16_t port, to_port;
    struct bufferevent *client, *server;
    char request[256];
    int connections;
};

static void relay(struct bufferevent *from, void *ud)
{
    struct proxy *p = ud;
    struct bufferevent *to = from == p->client ? p->server : p->client;
    struct evbuffer *in = bufferevent_get_input(from);
    if (p->server == NULL) {
        struct evbuffer_ptr end = evbuffer_search(in, "\r\n\r\n", 4, NULL);
        if (end.pos < 0)
            return;
        int n = evbuffer_remove(in, p->request, sizeof(p->request) - 1);
        p->request[n] = '\0';
        struct sockaddr_in a = {
            .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK), .sin_port = htons(p->to_port)};
        p->server = bufferevent_socket_new(loop_event_base(p->loop), -1, BEV_OPT_CLOSE_ON_FREE);
        bufferevent_setcb(p->server, relay, NULL, NULL, p);
        bufferevent_enable(p->server, EV_READ | EV_WRITE);
        assert_int_equal(bufferevent_socket_connect(p->server, (struct sockaddr *)&a, sizeof(a)), 0);
        bufferevent_write(p->client, "HTTP/1.1 200 OK\r\n\r\n", 19);
        return;
    }
    bufferevent_write_buffer(to, in);
}

static void proxy_drop(struct proxy *p)
{
    if (p->client != NULL)
        bufferevent_free(p->client);
    if (p->server != NULL)
        bufferevent_free(p->server);
    p->client = p->server = NULL;
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *a, int n, void *ud)
{
    struct proxy *p = ud;
    (void)l, (void)a, (void)n;
    proxy_drop(p);
    p->connections++;
    p->client = bufferevent_socket_new(loop_event_base(p->loop), fd, BEV_OPT_CLOSE_ON_FREE);
    bufferevent_setcb(p->client, relay, NULL, NULL, p);
    bufferevent_enable(p->client, EV_READ | EV_WRITE);
}

static void proxy_init(struct proxy *p, struct h2_rig *f)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);
    *p = (struct proxy){.loop = f->rig.loop, .to_port = f->peer.port};
    p->listener = evconnlistener_new_bind(loop_event_base(p->loop), on_accept, p, LEV_OPT_CLOSE_ON_FREE, 10,
                                          (struct sockaddr *)&a, sizeof(a));
    assert_non_null(p->listener);
    assert_int_equal(getsockname(evconnlistener_get_fd(p->listener), (struct sockaddr *)&a, &n), 0);
    p->port = ntohs(a.sin_port);
}

static void proxy_fini(struct proxy *p)
{
    proxy_drop(p);
    evconnlistener_free(p->listener);
}

static void handle_head(struct h2_peer *p, struct h2_stream *s)
{
    (void)p;
    evbuffer_add(s->head, "", 1);
    h2_reply(s, "200", (const char *)evbuffer_pullup(s->head, -1));
}

static void test_through_a_proxy(void **state)
{
    (void)state;
    struct rig_result x;
    struct proxy proxy;
    struct h2_rig f;
    h2_rig_init(&f, handle_head);
    proxy_init(&proxy, &f);
    char *url = xasprintf("http://127.0.0.1:%d", proxy.port);
    // The proxy alone knows the server's address; its certificate is for another name still.
    h2_rig_connect(&f, (struct transport_curl_options){.server = "https://no.such.host.invalid:7443/p",
                                                       .tls_server_name = "kubernetes",
                                                       .proxy_url = url});
    for (int i = 0; i < 2; i++) {
        rig_do(&f.rig, &x, H2_GET("/x"));
        assert_int_equal(x.response.err.code, 0);
        assert_non_null(strstr(x.body.data, ":authority: no.such.host.invalid:7443\n:path: /p/x\n"));
        rig_result_fini(&x);
    }
    assert_memory_equal(proxy.request, "CONNECT no.such.host.invalid:7443 HTTP/1.1\r\n", 44);
    assert_int_equal(proxy.connections, 1);
    proxy_drop(&proxy); // and it is gone
    rig_do(&f.rig, &x, H2_GET("/x"));
    assert_int_equal(x.response.err.code, 0);
    assert_int_equal(proxy.connections, 2);
    rig_result_fini(&x);
    transport_free(f.rig.transport);
    f.rig.transport = NULL;
    free(url);
    proxy_fini(&proxy);
    h2_rig_fini(&f);
}

static void test_no_connection(void **state)
{
    (void)state;
    static const struct {
        const char *server;
        const char *part;
    } cases[] = {
        {"https://no.such.host.invalid", "can not be resolved"},
        {"https://127.0.0.1:1", "no connection"},
    };
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct rig_result x[3];
        struct h2_rig f;
        h2_rig_init(&f, NULL);
        h2_rig_connect(&f, (struct transport_curl_options){.server = cases[i].server, .proxy_url = ""});
        for (int k = 0; k < 3; k++) {
            rig_result_init(&x[k], &f.rig);
            rig_send(&f.rig, &x[k], H2_WITH_BODY(METHOD_POST));
        }
        rig_wait(&f.rig, 3);
        for (int k = 0; k < 3; k++) {
            h2_rig_assert_error(&x[k], -ERR_NETWORK, false, cases[i].part);
            assert_non_null(strstr(x[k].response.err.text, cases[i].server));
            rig_result_fini(&x[k]);
        }
        h2_rig_fini(&f);
    }
}

// A server that knows HTTP/1.1 alone is found out by one connection; all that wait for it go over libcurl.
static void test_server_without_http2(void **state)
{
    (void)state;
    enum { CALLS = 5 };
    struct rig_result x[CALLS];
    struct h2_rig f;
    h2_rig_init(&f, NULL);
    f.peer.http1_only = true;
    h2_rig_connect(&f, (struct transport_curl_options){0});
    for (int i = 0; i < CALLS; i++) {
        rig_result_init(&x[i], &f.rig);
        rig_send(&f.rig, &x[i], H2_WITH_BODY(METHOD_POST));
    }
    transport_cancel(x[CALLS - 1].transfer);
    rig_wait(&f.rig, CALLS - 1);
    for (int i = 0; i < CALLS; i++) {
        if (i < CALLS - 1) // the peer can not answer it, but has got it
            h2_rig_assert_error(&x[i], -ERR_NETWORK, true, "");
        rig_result_fini(&x[i]);
    }
    assert_int_equal(f.peer.http1_requests, CALLS - 1); // each once
    assert_int_equal(f.peer.connections, 1 + CALLS - 1);
    h2_rig_fini(&f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_through_a_proxy),
        cmocka_unit_test(test_no_connection),
        cmocka_unit_test(test_server_without_http2),
    };
    return cmocka_run_group_tests(tests, h2_rig_set_up, h2_rig_tear_down);
}
