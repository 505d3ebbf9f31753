#include "support/h2_peer.h"

#include <arpa/inet.h>
#include <event2/bufferevent_ssl.h>
#include <event2/event.h>
#include <event2/listener.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "io/loop_impl.h"

struct h2_connection {
    LIST_ENTRY(h2_connection) entry;
    struct h2_peer *peer;
    struct bufferevent *bev;
    nghttp2_session *session;
    LIST_HEAD(, h2_stream) streams;
    bool frozen;
    bool busy; // in nghttp2, which then must not be asked to send
    bool doomed;
    bool cut; // when all is written
};

struct h2_impl {
    struct evconnlistener *listener;
    SSL_CTX *ctx;
    nghttp2_session_callbacks *callbacks;
    LIST_HEAD(, h2_connection) connections;
};

static void flush(struct h2_connection *c)
{
    const uint8_t *data;
    ssize_t n;
    if (c->frozen || c->busy)
        return;
    while ((n = nghttp2_session_mem_send(c->session, &data)) > 0)
        bufferevent_write(c->bev, data, (size_t)n);
}

static void stream_free(struct h2_stream *s)
{
    LIST_REMOVE(s, entry);
    evbuffer_free(s->body);
    evbuffer_free(s->out);
    evbuffer_free(s->head);
    free(s);
}

static void connection_free(struct h2_connection *c)
{
    LIST_REMOVE(c, entry);
    nghttp2_session_del(c->session);
    while (!LIST_EMPTY(&c->streams))
        stream_free(LIST_FIRST(&c->streams));
    bufferevent_free(c->bev);
    free(c);
}

// ---- what nghttp2 reports

static int on_begin_headers(nghttp2_session *session, const nghttp2_frame *frame, void *ud)
{
    struct h2_connection *c = ud;
    struct h2_stream *s = xcalloc(1, sizeof(*s));
    s->connection = c;
    s->id = frame->hd.stream_id;
    s->body = evbuffer_new();
    s->out = evbuffer_new();
    s->head = evbuffer_new();
    LIST_INSERT_HEAD(&c->streams, s, entry);
    nghttp2_session_set_stream_user_data(session, s->id, s);
    c->peer->requests++;
    return 0;
}

static void keep(char *out, size_t size, const uint8_t *value, size_t n)
{
    if (n >= size)
        n = size - 1;
    memcpy(out, value, n);
    out[n] = '\0';
}

static int on_header(nghttp2_session *session, const nghttp2_frame *frame, const uint8_t *name,
                     size_t name_len, const uint8_t *value, size_t n, uint8_t flags, void *ud)
{
    struct h2_stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    (void)flags, (void)ud;
    if (name_len == 7 && memcmp(name, ":method", 7) == 0)
        keep(s->method, sizeof(s->method), value, n);
    if (name_len == 5 && memcmp(name, ":path", 5) == 0)
        keep(s->path, sizeof(s->path), value, n);
    evbuffer_add_printf(s->head, "%.*s: %.*s\n", (int)name_len, (const char *)name, (int)n,
                        (const char *)value);
    return 0;
}

static int on_chunk(nghttp2_session *session, uint8_t flags, int32_t id, const uint8_t *data, size_t n,
                    void *ud)
{
    struct h2_stream *s = nghttp2_session_get_stream_user_data(session, id);
    (void)flags, (void)ud;
    return evbuffer_add(s->body, data, n);
}

static int on_frame(nghttp2_session *session, const nghttp2_frame *frame, void *ud)
{
    struct h2_connection *c = ud;
    bool of_stream = frame->hd.type == NGHTTP2_HEADERS || frame->hd.type == NGHTTP2_DATA;
    struct h2_stream *s = nghttp2_session_get_stream_user_data(session, frame->hd.stream_id);
    if (!of_stream || s == NULL)
        return 0;
    if (frame->hd.type == NGHTTP2_HEADERS && c->peer->on_head != NULL)
        c->peer->on_head(c->peer, s);
    if (frame->hd.flags & NGHTTP2_FLAG_END_STREAM)
        c->peer->handle(c->peer, s);
    return 0;
}

static int on_close(nghttp2_session *session, int32_t id, uint32_t error_code, void *ud)
{
    struct h2_stream *s = nghttp2_session_get_stream_user_data(session, id);
    (void)error_code, (void)ud;
    if (s != NULL)
        stream_free(s);
    return 0;
}

enum { FIELDS_MAX = 8 };

static size_t put_fields(nghttp2_nv *nv, const struct h2_field *f)
{
    size_t n = 0;
    for (; f != NULL && f->name != NULL; f++) {
        ASSERT(n < FIELDS_MAX);
        nv[n++] = (nghttp2_nv){(uint8_t *)f->name, (uint8_t *)f->value, strlen(f->name), strlen(f->value),
                               NGHTTP2_NV_FLAG_NONE};
    }
    return n;
}

static ssize_t read_out(nghttp2_session *session, int32_t id, uint8_t *buf, size_t n, uint32_t *flags,
                        nghttp2_data_source *source, void *ud)
{
    struct h2_stream *s = source->ptr;
    (void)ud;
    int got = evbuffer_remove(s->out, buf, n);
    if (s->ended && evbuffer_get_length(s->out) == 0) {
        *flags |= NGHTTP2_DATA_FLAG_EOF;
        if (s->trailers != NULL) {
            nghttp2_nv nv[FIELDS_MAX];
            *flags |= NGHTTP2_DATA_FLAG_NO_END_STREAM;
            nghttp2_submit_trailer(session, id, nv, put_fields(nv, s->trailers));
        }
    } else if (got <= 0)
        return NGHTTP2_ERR_DEFERRED;
    return got;
}

// ---- connections

static void on_read(struct bufferevent *bev, void *ud)
{
    struct h2_connection *c = ud;
    struct evbuffer *in = bufferevent_get_input(bev);
    size_t n = evbuffer_get_length(in);
    if (c->peer->http1_only) {
        c->peer->http1_requests += memcmp(evbuffer_pullup(in, -1), "POST /", 6) == 0;
        connection_free(c);
        return;
    }
    c->busy = true;
    ssize_t used = nghttp2_session_mem_recv(c->session, evbuffer_pullup(in, -1), n);
    c->busy = false;
    ASSERT(used >= 0);
    evbuffer_drain(in, n);
    flush(c);
    if (c->doomed)
        connection_free(c);
}

static void on_written(struct bufferevent *bev, void *ud)
{
    struct h2_connection *c = ud;
    if (c->cut && evbuffer_get_length(bufferevent_get_output(bev)) == 0)
        shutdown(bufferevent_getfd(bev), SHUT_RDWR);
}

static void on_event(struct bufferevent *bev, short what, void *ud)
{
    (void)bev;
    if (what & (BEV_EVENT_EOF | BEV_EVENT_ERROR))
        connection_free(ud);
}

static void on_accept(struct evconnlistener *l, evutil_socket_t fd, struct sockaddr *a, int n, void *ud)
{
    struct h2_peer *p = ud;
    struct h2_connection *c = xcalloc(1, sizeof(*c));
    (void)l, (void)a, (void)n;
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    p->connections++;
    c->peer = p;
    LIST_INIT(&c->streams);
    c->bev = bufferevent_openssl_socket_new(loop_event_base(p->loop), fd, SSL_new(p->impl->ctx),
                                            BUFFEREVENT_SSL_ACCEPTING, BEV_OPT_CLOSE_ON_FREE);
    ASSERT(nghttp2_session_server_new(&c->session, p->impl->callbacks, c) == 0);
    nghttp2_settings_entry settings[] = {
        {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, p->max_streams},
        {NGHTTP2_SETTINGS_INITIAL_WINDOW_SIZE, (uint32_t)p->window},
    };
    nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, settings, p->window != 0 ? 2 : 1);
    if (p->window != 0)
        nghttp2_session_set_local_window_size(c->session, NGHTTP2_FLAG_NONE, 0, p->window);
    bufferevent_setcb(c->bev, on_read, on_written, on_event, c);
    bufferevent_enable(c->bev, EV_READ | EV_WRITE);
    LIST_INSERT_HEAD(&p->impl->connections, c, entry);
    if (p->on_open != NULL)
        p->on_open(p, c);
    if (!p->http1_only)
        flush(c);
}

static int select_h2(SSL *ssl, const unsigned char **out, unsigned char *out_len, const unsigned char *in,
                     unsigned int in_len, void *ud)
{
    const struct h2_peer *p = ud;
    (void)ssl;
    if (p->http1_only)
        return SSL_TLSEXT_ERR_NOACK;
    return nghttp2_select_next_protocol((unsigned char **)out, out_len, in, in_len) == 1
               ? SSL_TLSEXT_ERR_OK
               : SSL_TLSEXT_ERR_NOACK;
}

static SSL_CTX *ctx_new(struct h2_peer *p, const struct pki *server)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    BIO *b = BIO_new_mem_buf(server->cert, -1);
    X509 *x = PEM_read_bio_X509(b, NULL, NULL, NULL);
    BIO_free(b);
    b = BIO_new_mem_buf(server->key, -1);
    EVP_PKEY *k = PEM_read_bio_PrivateKey(b, NULL, NULL, NULL);
    BIO_free(b);
    ASSERT(SSL_CTX_use_certificate(ctx, x) == 1 && SSL_CTX_use_PrivateKey(ctx, k) == 1);
    X509_free(x);
    EVP_PKEY_free(k);
    SSL_CTX_set_alpn_select_cb(ctx, select_h2, p);
    return ctx;
}

void h2_peer_init(struct h2_peer *p, struct loop *l, const struct pki *server)
{
    *p = (struct h2_peer){.loop = l, .max_streams = 100};
    p->impl = xcalloc(1, sizeof(*p->impl));
    p->impl->ctx = ctx_new(p, server);
    nghttp2_session_callbacks *cb;
    ASSERT(nghttp2_session_callbacks_new(&cb) == 0);
    nghttp2_session_callbacks_set_on_begin_headers_callback(cb, on_begin_headers);
    nghttp2_session_callbacks_set_on_header_callback(cb, on_header);
    nghttp2_session_callbacks_set_on_data_chunk_recv_callback(cb, on_chunk);
    nghttp2_session_callbacks_set_on_frame_recv_callback(cb, on_frame);
    nghttp2_session_callbacks_set_on_stream_close_callback(cb, on_close);
    p->impl->callbacks = cb;
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof(a);
    p->impl->listener = evconnlistener_new_bind(loop_event_base(l), on_accept, p, LEV_OPT_CLOSE_ON_FREE, 1024,
                                                (struct sockaddr *)&a, sizeof(a));
    ASSERT(p->impl->listener != NULL);
    ASSERT(getsockname(evconnlistener_get_fd(p->impl->listener), (struct sockaddr *)&a, &n) == 0);
    p->port = ntohs(a.sin_port);
}

void h2_peer_fini(struct h2_peer *p)
{
    while (!LIST_EMPTY(&p->impl->connections))
        connection_free(LIST_FIRST(&p->impl->connections));
    evconnlistener_free(p->impl->listener);
    nghttp2_session_callbacks_del(p->impl->callbacks);
    SSL_CTX_free(p->impl->ctx);
    free(p->impl);
}

void h2_peer_limit_tls(struct h2_peer *p)
{
    ASSERT(SSL_CTX_set_max_proto_version(p->impl->ctx, TLS1_2_VERSION) == 1);
}

void h2_peer_demand_client(struct h2_peer *p, const char *ca)
{
    BIO *b = BIO_new_mem_buf(ca, -1);
    X509 *x = PEM_read_bio_X509(b, NULL, NULL, NULL);
    BIO_free(b);
    ASSERT(X509_STORE_add_cert(SSL_CTX_get_cert_store(p->impl->ctx), x) == 1);
    X509_free(x);
    SSL_CTX_set_verify(p->impl->ctx, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
}

struct h2_connection *h2_peer_last(struct h2_peer *p)
{
    return LIST_FIRST(&p->impl->connections);
}

int h2_peer_open(const struct h2_peer *p)
{
    int count = 0;
    const struct h2_connection *c;
    LIST_FOREACH (c, &p->impl->connections, entry)
        count++;
    return count;
}

int h2_streams(const struct h2_connection *c)
{
    int count = 0;
    const struct h2_stream *s;
    LIST_FOREACH (s, &c->streams, entry)
        count++;
    return count;
}

// ---- answers; inside of the handler they go out when it returns

static void start(struct h2_stream *s, const char *status, const char *length)
{
    nghttp2_nv fields[] = {
        {(uint8_t *)":status", (uint8_t *)status, 7, strlen(status), NGHTTP2_NV_FLAG_NONE},
        {(uint8_t *)"content-type", (uint8_t *)"application/json", 12, 16, NGHTTP2_NV_FLAG_NONE},
        {(uint8_t *)"content-length", (uint8_t *)length, 14, strlen(length), NGHTTP2_NV_FLAG_NONE},
    };
    nghttp2_data_provider provider = {{.ptr = s}, read_out};
    nghttp2_submit_response(s->connection->session, s->id, fields, *length != '\0' ? 3 : 2, &provider);
}

void h2_start(struct h2_stream *s, const char *status)
{
    start(s, status, "");
}

void h2_send(struct h2_stream *s, const char *text)
{
    evbuffer_add(s->out, text, strlen(text));
    nghttp2_session_resume_data(s->connection->session, s->id);
    flush(s->connection);
}

void h2_end(struct h2_stream *s)
{
    s->ended = true;
    nghttp2_session_resume_data(s->connection->session, s->id);
    flush(s->connection); // may free s
}

void h2_reply(struct h2_stream *s, const char *status, const char *text)
{
    char length[24];
    evbuffer_add(s->out, text, strlen(text));
    s->ended = true;
    snprintf(length, sizeof(length), "%zu", strlen(text));
    start(s, status, length);
}

void h2_answer(struct h2_stream *s, const char *status, const struct h2_field *fields, const void *body,
               size_t n, const struct h2_field *trailers)
{
    nghttp2_nv nv[1 + FIELDS_MAX] = {
        {(uint8_t *)":status", (uint8_t *)status, 7, strlen(status), NGHTTP2_NV_FLAG_NONE}};
    nghttp2_data_provider provider = {{.ptr = s}, read_out};
    bool has_body = body != NULL || trailers != NULL;
    if (body != NULL)
        evbuffer_add(s->out, body, n);
    s->trailers = trailers;
    s->ended = true;
    nghttp2_submit_response(s->connection->session, s->id, nv, 1 + put_fields(nv + 1, fields),
                            has_body ? &provider : NULL);
    flush(s->connection); // may free s
}

void h2_inform(struct h2_stream *s, const char *status, const struct h2_field *fields)
{
    nghttp2_nv nv[1 + FIELDS_MAX] = {
        {(uint8_t *)":status", (uint8_t *)status, 7, strlen(status), NGHTTP2_NV_FLAG_NONE}};
    nghttp2_submit_headers(s->connection->session, NGHTTP2_FLAG_NONE, s->id, NULL, nv,
                           1 + put_fields(nv + 1, fields), NULL);
}

void h2_allow(struct h2_connection *c, uint32_t max_streams)
{
    nghttp2_settings_entry most = {NGHTTP2_SETTINGS_MAX_CONCURRENT_STREAMS, max_streams};
    nghttp2_submit_settings(c->session, NGHTTP2_FLAG_NONE, &most, 1);
    flush(c);
}

void h2_raw(struct h2_connection *c, const void *bytes, size_t n)
{
    bufferevent_write(c->bev, bytes, n);
}

void h2_close(struct h2_connection *c)
{
    if (c->busy)
        c->doomed = true;
    else
        connection_free(c);
}

void h2_cut(struct h2_connection *c)
{
    c->cut = true;
    on_written(c->bev, c);
}

void h2_reset(struct h2_stream *s, uint32_t error_code)
{
    nghttp2_submit_rst_stream(s->connection->session, NGHTTP2_FLAG_NONE, s->id, error_code);
    flush(s->connection); // may free s
}

void h2_goaway(struct h2_connection *c, int32_t last_stream_id)
{
    nghttp2_submit_goaway(c->session, NGHTTP2_FLAG_NONE, last_stream_id, NGHTTP2_NO_ERROR, NULL, 0);
    flush(c);
}

void h2_freeze(struct h2_connection *c)
{
    c->frozen = true;
    bufferevent_disable(c->bev, EV_READ | EV_WRITE);
}

void h2_thaw(struct h2_connection *c)
{
    c->frozen = false;
    bufferevent_enable(c->bev, EV_READ | EV_WRITE);
    flush(c);
}

void h2_deafen(struct h2_connection *c)
{
    bufferevent_disable(c->bev, EV_READ);
}
