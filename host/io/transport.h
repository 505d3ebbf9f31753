// The edge to the API server: HTTP requests and streams, behind a table of functions so that the same client
// runs over the network or straight into the embedded API server. Loop thread only. A transport completes
// only from a later turn of the loop, never from inside transport_send.
#ifndef IO_TRANSPORT_H
#define IO_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "io/loop.h"

struct transport;
struct transfer; // one request under way

enum transport_method { METHOD_GET, METHOD_POST, METHOD_PUT, METHOD_PATCH, METHOD_DELETE };
const char *transport_method_name(enum transport_method m); // "GET"

struct transport_header {
    const char *name;
    const char *value;
};

// What to send; all of it is copied by transport_send, except `body`, whose bytes are copied too.
struct transport_request {
    enum transport_method method;
    const char *path;         // with query, percent-encoded, starts with '/'; the base URL's prefix is the
                              // transport's business
    const char *content_type; // of the body, or NULL
    const char *accept;       // NULL: application/json
    const char *body;         // or NULL
    size_t body_len;
    const char *as_user; // impersonation, or NULL: who the host itself is
    bool stream;         // a watch: no total time limit, its own connection pool, no compression asked for
    uint32_t timeout_ms; // whole request; 0: 30 s (streams: none)
    uint32_t idle_ms;    // streams: ends with ERR_TIMEOUT when no byte came for this long; 0: none
    size_t max_response; // bytes (decoded); 0: 64 MiB. Beyond: the transfer ends with ERR_LIMIT. Streams: no
                         // limit here
};

struct transport_response {
    int status;               // 0: no HTTP answer (see err)
    const char *content_type; // borrowed, may be ""
    int64_t retry_after_ms;   // from Retry-After, seconds or date; -1: none
    const char *warning;      // text of the last Warning header, or NULL
    const char *body;         // not for streams with status 200; NUL-terminated
    size_t body_len;
    struct err err;  // err.code: 0, or -ERR_NETWORK, -ERR_TLS, -ERR_TIMEOUT, -ERR_LIMIT, -ERR_CANCELED ...
    bool sent_maybe; // no answer, but the server may have got the request
};

// All are optional except on_done, which is called exactly once and last, unless the transfer is cancelled:
// then none is called.
struct transport_callbacks {
    void (*on_start)(void *ud, int status, const char *content_type); // streams: headers are there
    // Streams with status 200: bytes as they come. Return non-zero to end the stream (on_done follows with
    // ERR_CANCELED).
    int (*on_data)(void *ud, const char *data, size_t n);
    void (*on_done)(void *ud, const struct transport_response *r);
    void *ud;
};

struct transfer *transport_send(struct transport *t, const struct transport_request *r,
                                const struct transport_callbacks *cb);
void transport_cancel(struct transfer *x); // no callback after this; x is gone. Never call it after on_done.
void transport_free(struct transport *t);  // cancels what is under way

// For the makers of transports: embed first in your own struct.
struct transport_ops {
    struct transfer *(*send)(struct transport *t, const struct transport_request *r,
                             const struct transport_callbacks *cb);
    void (*cancel)(struct transfer *x);
    void (*free)(struct transport *t);
};
struct transport {
    const struct transport_ops *ops;
};
struct transfer {
    struct transport *transport;
};

// 0, -ERR_TLS (which PEM is wrong) or -ERR_INVALID (the server's URL, or a CA with `insecure`). A request
// goes out again, at most twice, when a kept connection turned out dead or the server refused it; a POST only
// when it has not gone out. Real loops only, TLS 1.2 or later. libcurl opens all connections; over those for
// requests we speak HTTP/2 ourselves where the server chooses it (io/h2_conn.h), all else is libcurl's.
struct transport_curl_options {
    const char *server;                           // https://host:port/prefix
    const char *ca_pem;                           // certificates as text, or NULL: the system's
    const char *client_cert_pem, *client_key_pem; // or NULL
    const char *tls_server_name;                  // or NULL
    bool insecure;
    const char *proxy_url; // or NULL: environment, NO_PROXY honoured
    const char *user_agent;
    // Called for each request: the bearer token now (borrowed until the next call), or NULL.
    const char *(*token)(void *ud);
    void *ud;
};
int transport_curl_new(struct loop *l, const struct transport_curl_options *o, struct transport **ret,
                       struct err *e);
// A new CA or client certificate for new connections (files that rotate); NULL: as it was. What is under way
// goes on.
int transport_curl_set_tls(struct transport *t, const char *ca_pem, const char *cert_pem, const char *key_pem,
                           struct err *e);

#endif
