// Requests over HTTP/2: libcurl opens the connection (io/curl_link.h), nghttp2 makes and reads its frames
// (io/h2_session.h); here is what moves the bytes, and what repeats and reports the calls.
// With libcurl's own HTTP/2 each wake-up walks over all that is under way, and each request is printed as
// HTTP/1.1 and parsed again: that was half of what the host did (spec/bench/README.md).
//
// A transport has one connection that takes new requests; a retired one goes with its last call. Requests
// wait for the server's settings, so that none is refused for coming beyond its limit. A server that does not
// choose HTTP/2 is found out once, and its requests go to libcurl's pools from then on. What a turn of the
// loop adds is written in one go, and what has come is read in one go. Loop thread.
#ifndef IO_H2_CONN_H
#define IO_H2_CONN_H

#include "io/curl_impl.h"

void h2_conn_send(struct curl_transport *t, struct call *x); // a prepared call, no stream
void h2_conn_cancel(struct call *x);
void h2_conn_retire_current(struct curl_transport *t); // the next request opens another one
void h2_conn_cancel_all(struct curl_transport *t);     // for a transport that is closing

#endif
