#include "support/http_rig.h"

#include <arpa/inet.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/socket.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "io/loop_impl.h"

enum { GUARD_MS = 20000 };

// ---- servers

static X509 *read_certificate(const char *pem)
{
    BIO *b = BIO_new_mem_buf(pem, -1);
    X509 *x = PEM_read_bio_X509(b, NULL, NULL, NULL);
    BIO_free(b);
    assert_non_null(x);
    return x;
}

static SSL_CTX *ssl_ctx_new(const struct pki *server_pki, const char *client_ca)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    X509 *cert = read_certificate(server_pki->cert);
    BIO *b = BIO_new_mem_buf(server_pki->key, -1);
    EVP_PKEY *key = PEM_read_bio_PrivateKey(b, NULL, NULL, NULL);
    BIO_free(b);
    assert_int_equal(SSL_CTX_use_certificate(ctx, cert), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(ctx, key), 1);
    X509_free(cert);
    EVP_PKEY_free(key);
    if (client_ca != NULL) {
        X509 *ca = read_certificate(client_ca);
        X509_STORE_add_cert(SSL_CTX_get_cert_store(ctx), ca);
        X509_free(ca);
        SSL_CTX_set_verify(ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
    }
    return ctx;
}

static struct bufferevent *on_connection(struct event_base *base, void *ud)
{
    struct rig *r = ud;
    if (r->ssl_ctx == NULL)
        return bufferevent_socket_new(base, -1, BEV_OPT_CLOSE_ON_FREE);
    return bufferevent_openssl_socket_new(base, -1, SSL_new(r->ssl_ctx), BUFFEREVENT_SSL_ACCEPTING,
                                          BEV_OPT_CLOSE_ON_FREE);
}

static void on_http(struct evhttp_request *req, void *ud)
{
    struct rig *r = ud;
    r->requests++;
    r->handle(r, req);
}

static void on_guard(void *ud)
{
    (void)ud;
    fail_msg("a transfer did not end in time");
}

static void init_loop(struct rig *r)
{
    *r = (struct rig){.loop = loop_new(clock_real())};
    r->guard = loop_timer_new(r->loop, on_guard, r);
}

void rig_init(struct rig *r, const struct pki *server_pki, const char *client_ca)
{
    init_loop(r);
    if (server_pki != NULL)
        r->ssl_ctx = ssl_ctx_new(server_pki, client_ca);
    r->http = evhttp_new(loop_event_base(r->loop));
    evhttp_set_bevcb(r->http, on_connection, r);
    evhttp_set_gencb(r->http, on_http, r);
    evhttp_set_allowed_methods(r->http, EVHTTP_REQ_GET | EVHTTP_REQ_POST | EVHTTP_REQ_PUT | EVHTTP_REQ_PATCH |
                                            EVHTTP_REQ_DELETE);
    struct evhttp_bound_socket *s = evhttp_bind_socket_with_handle(r->http, "127.0.0.1", 0);
    assert_non_null(s);
    struct sockaddr_in a;
    socklen_t n = sizeof(a);
    int one = 1; // connections inherit it
    setsockopt(evhttp_bound_socket_get_fd(s), IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    assert_int_equal(getsockname(evhttp_bound_socket_get_fd(s), (struct sockaddr *)&a, &n), 0);
    r->port = ntohs(a.sin_port);
}

void rig_set_certificate(struct rig *r, const struct pki *server_pki)
{
    SSL_CTX_free(r->ssl_ctx);
    r->ssl_ctx = ssl_ctx_new(server_pki, NULL);
}

// ---- the raw server

struct raw_connection {
    LIST_ENTRY(raw_connection) entry;
    struct rig_raw *raw;
    struct bufferevent *bev;
    const struct rig_script *script;
    size_t sent;
    struct loop_timer *next_piece;
};

struct rig_raw {
    struct rig *rig;
    struct evconnlistener *listener;
    LIST_HEAD(, raw_connection) connections;
    const struct rig_script *scripts;
    size_t count;
    int connection_count;
};

static void raw_close(struct raw_connection *c)
{
    LIST_REMOVE(c, entry);
    loop_timer_free(c->next_piece);
    bufferevent_free(c->bev);
    free(c);
}

static void raw_end(struct raw_connection *c)
{
    if (c->script->end == RIG_RESET) {
        struct linger now = {1, 0};
        setsockopt(bufferevent_getfd(c->bev), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    }
    if (c->script->end != RIG_KEEP)
        raw_close(c);
    else
        c->script = NULL;
}

static void raw_write(void *ud)
{
    struct raw_connection *c = ud;
    size_t len = c->script->len != 0 ? c->script->len : strlen(c->script->bytes);
    size_t n = c->script->piece != 0 ? c->script->piece : len;
    if (c->sent == len) {
        raw_end(c);
        return;
    }
    if (n > len - c->sent)
        n = len - c->sent;
    bufferevent_write(c->bev, c->script->bytes + c->sent, n);
    c->sent += n;
    loop_timer_start(c->next_piece, 0);
}

static void raw_on_read(struct bufferevent *bev, void *ud)
{
    struct raw_connection *c = ud;
    struct rig *r = c->raw->rig;
    struct evbuffer *in = bufferevent_get_input(bev);
    struct evbuffer_ptr end = evbuffer_search(in, "\r\n\r\n", 4, NULL);
    if (end.pos < 0 || c->script != NULL)
        return;
    evbuffer_drain(in, evbuffer_get_length(in));
    size_t i = (size_t)r->requests++;
    c->script = &c->raw->scripts[i < c->raw->count ? i : c->raw->count - 1];
    c->sent = 0;
    loop_timer_start(c->next_piece, 0);
}

static void raw_on_event(struct bufferevent *bev, short what, void *ud)
{
    (void)bev;
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        raw_close(ud);
}

static void raw_on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *a, int n, void *ud)
{
    struct rig_raw *raw = ud;
    struct raw_connection *c = xcalloc(1, sizeof(*c));
    (void)l, (void)a, (void)n;
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    raw->connection_count++;
    c->raw = raw;
    c->bev = bufferevent_socket_new(loop_event_base(raw->rig->loop), fd, BEV_OPT_CLOSE_ON_FREE);
    c->next_piece = loop_timer_new(raw->rig->loop, raw_write, c);
    bufferevent_setcb(c->bev, raw_on_read, NULL, raw_on_event, c);
    bufferevent_enable(c->bev, EV_READ | EV_WRITE);
    LIST_INSERT_HEAD(&raw->connections, c, entry);
}

void rig_init_raw(struct rig *r)
{
    init_loop(r);
    struct rig_raw *raw = xcalloc(1, sizeof(*raw));
    r->raw = raw;
    raw->rig = r;
    LIST_INIT(&raw->connections);
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);
    raw->listener = evconnlistener_new_bind(loop_event_base(r->loop), raw_on_accept, raw,
                                            LEV_OPT_CLOSE_ON_FREE, 1024, (struct sockaddr *)&a, sizeof(a));
    assert_non_null(raw->listener);
    assert_int_equal(getsockname(evconnlistener_get_fd(raw->listener), (struct sockaddr *)&a, &n), 0);
    r->port = ntohs(a.sin_port);
}

void rig_raw_scripts(struct rig *r, const struct rig_script *scripts, size_t count)
{
    r->raw->scripts = scripts;
    r->raw->count = count;
    r->requests = 0;
}

int rig_raw_connections(const struct rig *r)
{
    return r->raw->connection_count;
}

static void raw_free(struct rig_raw *raw)
{
    if (raw == NULL)
        return;
    struct raw_connection *c;
    while ((c = LIST_FIRST(&raw->connections)) != NULL)
        raw_close(c);
    evconnlistener_free(raw->listener);
    free(raw);
}

void rig_fini(struct rig *r)
{
    transport_free(r->transport);
    if (r->http != NULL)
        evhttp_free(r->http);
    raw_free(r->raw);
    SSL_CTX_free(r->ssl_ctx);
    loop_timer_free(r->guard);
    loop_free(r->loop);
}

// ---- the client

int rig_connect(struct rig *r, struct transport_curl_options o, struct err *e)
{
    char *url = xasprintf("%s://127.0.0.1:%d", r->ssl_ctx != NULL ? "https" : "http", r->port);
    if (o.server == NULL)
        o.server = url;
    if (o.user_agent == NULL)
        o.user_agent = "rig";
    int code = transport_curl_new(r->loop, &o, &r->transport, e);
    free(url);
    return code;
}

static void on_start(void *ud, int status, const char *content_type)
{
    struct rig_result *x = ud;
    assert_int_equal(x->starts, 0);
    assert_int_equal(x->dones, 0);
    x->starts++;
    x->start_status = status;
    assert_non_null(content_type);
}

static int on_data(void *ud, const char *data, size_t n)
{
    struct rig_result *x = ud;
    assert_int_equal(x->starts, 1);
    assert_int_equal(x->dones, 0);
    x->chunks++;
    buf_add(&x->body, data, n);
    if (x->on_chunk != NULL)
        x->on_chunk(x);
    return x->stop_after != 0 && x->chunks >= x->stop_after;
}

static void copy_text(char *out, size_t size, const char *text)
{
    size_t n = strnlen(text, size - 1);
    memcpy(out, text, n);
    out[n] = '\0';
}

static void on_done(void *ud, const struct transport_response *res)
{
    struct rig_result *x = ud;
    assert_int_equal(x->dones, 0);
    x->dones++;
    x->response = *res;
    copy_text(x->content_type, sizeof(x->content_type), res->content_type);
    copy_text(x->warning, sizeof(x->warning), res->warning != NULL ? res->warning : "");
    assert_int_equal(strlen(res->body) <= res->body_len, 1);
    buf_add(&x->body, res->body, res->body_len);
    x->transfer = NULL;
    if (--x->rig->awaited == 0)
        loop_stop(x->rig->loop);
    if (x->on_end != NULL)
        x->on_end(x);
}

void rig_result_init(struct rig_result *x, struct rig *r)
{
    *x = (struct rig_result){.rig = r};
    buf_init(&x->body, 64 << 20);
}

void rig_result_fini(struct rig_result *x)
{
    buf_fini(&x->body);
}

void rig_send(struct rig *r, struct rig_result *x, struct transport_request request)
{
    struct transport_callbacks cb = {on_start, on_data, on_done, x};
    x->rig = r;
    x->transfer = transport_send(r->transport, &request, &cb);
    assert_int_equal(x->dones, 0);
}

void rig_wait(struct rig *r, int count)
{
    r->awaited = count;
    loop_timer_start(r->guard, GUARD_MS);
    loop_run(r->loop);
    loop_timer_stop(r->guard);
}

static void on_time(void *ud)
{
    loop_stop(ud);
}

void rig_run(struct rig *r, uint64_t ms)
{
    struct loop_timer *t = loop_timer_new(r->loop, on_time, r->loop);
    loop_timer_start(t, ms);
    r->awaited = -1;
    loop_run(r->loop);
    loop_timer_free(t);
}

void rig_do(struct rig *r, struct rig_result *x, struct transport_request request)
{
    rig_result_init(x, r);
    rig_send(r, x, request);
    rig_wait(r, 1);
    assert_int_equal(x->dones, 1);
}

void rig_reply(struct evhttp_request *req, int status, const char *content_type, const char *body)
{
    struct evbuffer *out = evbuffer_new();
    evbuffer_add(out, body, strlen(body));
    evhttp_add_header(evhttp_request_get_output_headers(req), "Content-Type", content_type);
    evhttp_send_reply(req, status, "x", out);
    evbuffer_free(out);
}

void rig_add_header(struct evhttp_request *req, const char *name, const char *value)
{
    evhttp_add_header(evhttp_request_get_output_headers(req), name, value);
}

const char *rig_header(struct evhttp_request *req, const char *name)
{
    const char *value = evhttp_find_header(evhttp_request_get_input_headers(req), name);
    return value != NULL ? value : "";
}
