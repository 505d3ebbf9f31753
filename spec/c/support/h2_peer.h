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
    struct evbuffer *body; // of the request
    struct evbuffer *out;
    bool ended;
};

struct h2_peer {
    struct loop *loop;
    uint16_t port;
    int connections; // accepted so far
    int requests;    // headers seen so far
    uint32_t max_streams;
    void (*handle)(struct h2_peer *p, struct h2_stream *s); // when the request is complete
    void *ud;
    struct h2_impl *impl;
};

void h2_peer_init(struct h2_peer *p, struct loop *l, const struct pki *server);
void h2_peer_fini(struct h2_peer *p);
// The newest connection that is open, or NULL.
struct h2_connection *h2_peer_last(struct h2_peer *p);
int h2_peer_open(const struct h2_peer *p); // connections that are open

void h2_start(struct h2_stream *s, const char *status); // the answer's header; the body follows
void h2_send(struct h2_stream *s, const char *text);
void h2_end(struct h2_stream *s);
void h2_reply(struct h2_stream *s, const char *status, const char *text);
void h2_reset(struct h2_stream *s, uint32_t error_code);
void h2_goaway(struct h2_connection *c, int32_t last_stream_id);
void h2_freeze(struct h2_connection *c); // reads and writes nothing any more
int h2_streams(const struct h2_connection *c);

#endif
