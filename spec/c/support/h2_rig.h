// A client (support/http_rig.h) and an HTTP/2 server that it trusts (support/h2_peer.h), for tests of
// requests.
#ifndef SPEC_SUPPORT_H2_RIG_H
#define SPEC_SUPPORT_H2_RIG_H

#include "support/h2_peer.h"
#include "support/http_rig.h"

struct h2_rig {
    struct rig rig; // its own server is idle, and accepts only
    struct h2_peer peer;
    int handled; // by h2_rig_echo
};

// Of a group of tests: certificates.
int h2_rig_set_up(void **state);
int h2_rig_tear_down(void **state);
extern struct pki h2_rig_ca, h2_rig_server, h2_rig_client;

// The peer's `ud` is the rig; handle NULL: h2_rig_echo. Then h2_rig_connect, which fills in server and CA.
void h2_rig_init(struct h2_rig *f, void (*handle)(struct h2_peer *p, struct h2_stream *s));
void h2_rig_connect(struct h2_rig *f, struct transport_curl_options o);
void h2_rig_open(struct h2_rig *f, void (*handle)(struct h2_peer *p, struct h2_stream *s)); // both
void h2_rig_fini(struct h2_rig *f);
// Answers 200 with "METHOD PATH BODY".
void h2_rig_echo(struct h2_peer *p, struct h2_stream *s);
// A GET that is echoed, over a connection that lives.
void h2_rig_assert_works(struct h2_rig *f);
// One request; it fails with this code, status 0, and `part` in the text.
void h2_rig_assert_fails(struct h2_rig *f, struct transport_request q, int code, bool sent_maybe,
                         const char *part);
void h2_rig_assert_error(const struct rig_result *x, int code, bool sent_maybe, const char *part);

#define H2_GET(p) ((struct transport_request){.method = METHOD_GET, .path = (p)})
#define H2_WITH_BODY(m)                                                                                      \
    ((struct transport_request){.method = (m), .path = "/x", .body = "{\"a\":1}", .body_len = 7})

#endif
