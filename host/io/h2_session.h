// The HTTP/2 of one connection: nghttp2's session, and the calls that are streams of it. Knows nothing of the
// socket: bytes come and go by h2_session_read and h2_session_write. No callback of a call runs in here: what
// has happened is noted, and calls that are over wait for h2_session_take_done. For io/h2_conn.c, which
// embeds it. Loop thread.
#ifndef IO_H2_SESSION_H
#define IO_H2_SESSION_H

#include <nghttp2/nghttp2.h>

#include "io/curl_impl.h"

struct h2_session {
    const struct curl_transport *t;
    nghttp2_session *ng;   // NULL before the start
    struct h2_calls calls; // wait, or are under way
    struct h2_calls done;  // are over
    uint32_t fault;        // the code of HTTP/2 with which we gave it up, or
    uint32_t goaway_code;  // the server did
    bool goaway;           // it has said so
    bool settled;          // it has said its settings, so how many requests it takes at a time:
    bool open;             // then they may go
};

void h2_session_init(struct h2_session *h, const struct curl_transport *t);
void h2_session_fini(struct h2_session *h);             // an idle one
void h2_session_start(struct h2_session *h);            // the connection stands
bool h2_session_is_idle(const struct h2_session *h);    // has no calls
bool h2_session_takes_more(const struct h2_session *h); // requests, now or later
void h2_session_add(struct h2_session *h, struct call *x);
void h2_session_remove(struct h2_session *h, struct call *x); // a call of any state; its stream is reset
struct call *h2_session_take_done(struct h2_session *h);      // one that is over, or NULL
void h2_session_lose(struct h2_session *h);                   // the connection is gone: all are over
// 0 or -ERR_NETWORK: this is the end.
int h2_session_read(struct h2_session *h, const void *data, size_t n, struct err *e);
int h2_session_write(struct h2_session *h, struct buf *out, size_t enough,
                     struct err *e); // adds what is to be sent
// Sets *over when the session has come to its end, or says better why it did.
void h2_session_check_end(const struct h2_session *h, struct err *over);

#endif
