// One connection to the server that libcurl opens (names, proxy, TLS) and then leaves to its owner, to write
// and read bytes: what HTTP/2 of our own runs over (io/h2_conn.h). For io/ only. Loop thread.
#ifndef IO_CURL_LINK_H
#define IO_CURL_LINK_H

#include "io/curl_impl.h"

struct curl_link;

struct curl_link_callbacks { // each may free the link
    // The connection stands; did the server choose HTTP/2 (ALPN, RFC 7301)?
    void (*on_up)(void *ud, bool http2);
    void (*on_failed)(void *ud, const struct err *e); // and it never will
    void (*on_ready)(void *ud, int what);             // LOOP_READ or LOOP_WRITE, see curl_link_want
    void *ud;
};

// Starts to connect; a callback comes from a later turn.
struct curl_link *curl_link_new(struct curl_transport *t, const struct curl_link_callbacks *cb);
void curl_link_free(struct curl_link *l); // closes it
// For one that is up:
void curl_link_want(struct curl_link *l, int what); // bit set of LOOP_READ, LOOP_WRITE; starts with LOOP_READ
// Bytes moved, in *ret (0: none now), and 0, or -ERR_NETWORK when the connection is over. What could not be
// sent must be offered again in the same place.
int curl_link_recv(struct curl_link *l, void *data, size_t size, size_t *ret, struct err *e);
int curl_link_send(struct curl_link *l, const void *data, size_t size, size_t *ret, struct err *e);

#endif
