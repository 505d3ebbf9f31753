// A real loop with a transport over libcurl and HTTP servers behind it, all in one thread.
// Transfers are recorded in struct rig_result.
#ifndef SPEC_SUPPORT_HTTP_RIG_H
#define SPEC_SUPPORT_HTTP_RIG_H

#include <event2/buffer.h>
#include <event2/http.h>
#include <stdbool.h>

#include "base/buf.h"
#include "io/loop.h"
#include "io/transport.h"
#include "support/pki.h"

struct rig_raw;

struct rig {
    struct loop *loop;
    struct transport *transport;
    struct evhttp *http; // NULL: none
    void *ssl_ctx;
    uint16_t port;
    void (*handle)(struct rig *r, struct evhttp_request *req); // set by the test
    int requests;                                              // that the server saw
    int awaited;                                               // transfers to end until rig_wait returns
    struct loop_timer *guard;
    struct rig_raw *raw;
};

struct rig_result {
    struct rig *rig;
    int starts, dones;
    struct transport_response response; // copies; body is in `body`
    char content_type[128];
    char warning[256];
    int start_status;
    struct buf body; // of the response, or what came on the stream
    size_t chunks;
    size_t stop_after;                      // on_data returns non-zero from this chunk on; 0: never
    void (*on_chunk)(struct rig_result *x); // extra work in on_data
    void (*on_end)(struct rig_result *x);   // extra work in on_done
    struct transfer *transfer;
    void *ud;
};

// TLS when server_pki is there; client certificates issued by client_ca are demanded when that is there.
void rig_init(struct rig *r, const struct pki *server_pki, const char *client_ca);
void rig_set_certificate(struct rig *r, const struct pki *server_pki); // for new connections
// A server that answers each connection from raw bytes: see rig_raw_*.
void rig_init_raw(struct rig *r);
void rig_fini(struct rig *r);
// Makes the transport. `o->server` NULL: http(s)://127.0.0.1:PORT. 0 or the error.
int rig_connect(struct rig *r, struct transport_curl_options o, struct err *e);

void rig_send(struct rig *r, struct rig_result *x, struct transport_request request);
void rig_wait(struct rig *r, int count); // until so many more transfers ended; fails the test after 20 s
void rig_run(struct rig *r, uint64_t ms);
// Sends one request, waits for its end.
void rig_do(struct rig *r, struct rig_result *x, struct transport_request request);
void rig_result_init(struct rig_result *x, struct rig *r);
void rig_result_fini(struct rig_result *x);

// The server's side.
void rig_reply(struct evhttp_request *req, int status, const char *content_type, const char *body);
void rig_add_header(struct evhttp_request *req, const char *name, const char *value);
const char *rig_header(struct evhttp_request *req, const char *name); // "" when absent

// Raw: what a connection does when a request's header has come (its body is not looked at).
enum rig_end { RIG_KEEP, RIG_CLOSE, RIG_RESET };
struct rig_script {
    const char *bytes;
    size_t len;   // 0: strlen
    size_t piece; // bytes a write; 0: all at once
    enum rig_end end;
};
// The n-th request (over all connections) is answered by the n-th script, later ones by the last.
void rig_raw_scripts(struct rig *r, const struct rig_script *scripts, size_t count);
int rig_raw_connections(const struct rig *r);

#endif
