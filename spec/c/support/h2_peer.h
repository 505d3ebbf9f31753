// An HTTP/2 server over TLS for tests, on the test's loop. It answers as the test's handler says.
#ifndef SPEC_SUPPORT_H2_PEER_H
#define SPEC_SUPPORT_H2_PEER_H

#include <event2/buffer.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "io/loop.h"
#include "support/pki.h"

struct h2_connection;

struct h2_stream {
    LIST_ENTRY(h2_stream) entry;
    struct h2_connection *connection;
    int32_t id;
    char method[16];
    char path[128];
    struct evbuffer *head; // all of its fields: "name: value\n"
    struct evbuffer *body; // of the request
    struct evbuffer *out;
    const struct h2_field *trailers;
    bool ended;
};

struct h2_field { // a list ends with one without a name
    const char *name;
    const char *value;
};

struct h2_peer {
    struct loop *loop;
    uint16_t port;
    int connections; // accepted so far
    int requests;    // headers seen so far
    uint32_t max_streams;
    bool http1_only;    // does not choose HTTP/2, and closes the connection at each request
    int http1_requests; // seen so far
    int32_t window;     // bytes of a request's body that may come at once; 0: 65535
    void (*handle)(struct h2_peer *p, struct h2_stream *s);      // when the request is complete
    void (*on_head)(struct h2_peer *p, struct h2_stream *s);     // or NULL: when its header is
    void (*on_open)(struct h2_peer *p, struct h2_connection *c); // or NULL: a new connection
    void *ud;
    struct h2_impl *impl;
};

void h2_peer_init(struct h2_peer *p, struct loop *l, const struct pki *server);
void h2_peer_fini(struct h2_peer *p);
void h2_peer_limit_tls(struct h2_peer *p);                     // to 1.2, where the server ends the handshake
void h2_peer_demand_client(struct h2_peer *p, const char *ca); // a certificate issued by this CA, in PEM
// The newest connection that is open, or NULL.
struct h2_connection *h2_peer_last(struct h2_peer *p);
int h2_peer_open(const struct h2_peer *p); // connections that are open

void h2_start(struct h2_stream *s, const char *status); // the answer's header; the body follows
void h2_send(struct h2_stream *s, const char *text);
void h2_end(struct h2_stream *s);
void h2_reply(struct h2_stream *s, const char *status, const char *text);
// An answer of a header, a body (NULL: none) and trailers (NULL: none). The lists must outlive the stream.
void h2_answer(struct h2_stream *s, const char *status, const struct h2_field *fields, const void *body,
               size_t n, const struct h2_field *trailers);
void h2_inform(struct h2_stream *s, const char *status, const struct h2_field *fields); // 1xx
void h2_allow(struct h2_connection *c, uint32_t max_streams);
void h2_raw(struct h2_connection *c, const void *bytes, size_t n); // past nghttp2
void h2_close(struct h2_connection *c);                            // with TLS's close_notify
void h2_cut(struct h2_connection *c);                              // without, when all is written
void h2_reset(struct h2_stream *s, uint32_t error_code);
void h2_goaway(struct h2_connection *c, int32_t last_stream_id);
void h2_freeze(struct h2_connection *c); // reads and writes nothing any more
void h2_deafen(struct h2_connection *c); // reads nothing, but writes
void h2_thaw(struct h2_connection *c);
int h2_streams(const struct h2_connection *c);

#endif
