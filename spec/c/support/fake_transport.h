// A transport whose answers a test scripts: replies are matched with requests by method and a part of the
// path, streams are fed by calls. Runs on a virtual loop; answers come in a later turn. Every request is
// recorded.
//
//     struct fake_transport *f = fake_transport_new(loop);
//     struct client *c = client_new_with(loop, fake_transport_get(f), NULL);   // takes the transport, not f
//     fake_answer(f, METHOD_GET, "/api/v1/pods", 200, "{...}");
//     fake_open_stream(f, "watch=1");                          // the next matching stream gets 200 and stays
//     open
//     ...
//     loop_run_until(loop, 10);
//     fake_stream_send(fake_stream_last(f), "{\"type\":...}\n");
//     client_free(c);
//     fake_transport_free(f);
#ifndef SPEC_SUPPORT_FAKE_TRANSPORT_H
#define SPEC_SUPPORT_FAKE_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "io/transport.h"

struct fake_transport;
struct fake_stream;

struct fake_transport *fake_transport_new(struct loop *l);
struct transport *fake_transport_get(struct fake_transport *f);
void fake_transport_free(struct fake_transport *f); // after the client

// What was asked. Strings are NULL where the request had NULL.
struct fake_request {
    enum transport_method method;
    char *path, *content_type, *accept, *body, *as_user;
    size_t body_len;
    bool stream;
    uint32_t timeout_ms, idle_ms;
    uint64_t at_ms; // loop time
};

struct fake_reply {
    enum transport_method method; // of the requests it is for
    const char *path_part;        // their path holds this; NULL: any
    int times;                    // how many requests it serves; 0: one; -1: no end
    int status;                   // 0: no HTTP answer, `error` says why (0: ERR_NETWORK)
    enum err_code error;
    bool sent_maybe;
    const char *content_type; // NULL: application/json
    const char *body;         // NULL: empty. On a stream with status 200: sent as the first data
    size_t body_len;          // 0: strlen(body)
    int64_t retry_after_ms;   // 0: none
    const char *warning;
    uint64_t delay_ms;
    bool ends; // a stream with status 200 ends in an orderly way after `body` (else it stays open)
};

// Queues a reply (all of it is copied). The first one queued that matches serves a request; a request that
// none matches is answered with ERR_NETWORK and counted in fake_unmatched().
void fake_reply(struct fake_transport *f, const struct fake_reply *r);
void fake_answer(struct fake_transport *f, enum transport_method method, const char *path_part, int status,
                 const char *body);
void fake_error(struct fake_transport *f, enum transport_method method, const char *path_part,
                enum err_code code);
void fake_open_stream(struct fake_transport *f, const char *path_part);
void fake_forget_replies(struct fake_transport *f);
// Asked before the queue: fills *ret and returns true to answer a request itself (a simulated server). What
// *ret points to must live until fn is called again.
void fake_on_request(struct fake_transport *f,
                     bool (*fn)(void *ud, const struct fake_request *r, struct fake_reply *ret), void *ud);

size_t fake_request_count(const struct fake_transport *f);
size_t fake_request_count_of(const struct fake_transport *f, enum transport_method method,
                             const char *path_part);
const struct fake_request *fake_request(const struct fake_transport *f,
                                        size_t i); // in order; NULL beyond the end
const struct fake_request *fake_request_last(const struct fake_transport *f);
size_t fake_unmatched(const struct fake_transport *f);
size_t fake_under_way(const struct fake_transport *f); // neither done nor cancelled, streams included

// Streams that got their 200, in order; they stay readable until fake_transport_free.
size_t fake_stream_count(const struct fake_transport *f);
struct fake_stream *fake_stream(struct fake_transport *f, size_t i);
struct fake_stream *fake_stream_last(struct fake_transport *f); // NULL: none yet
const struct fake_request *fake_stream_request(const struct fake_stream *s);
bool fake_stream_is_open(const struct fake_stream *s); // false: ended, refused or cancelled by the other side
// Given to the other side before the call returns; ignored when the stream is not open.
void fake_stream_send(struct fake_stream *s, const char *text);
void fake_stream_sendn(struct fake_stream *s, const char *data, size_t n);
void fake_stream_end(struct fake_stream *s);                      // orderly
void fake_stream_fail(struct fake_stream *s, enum err_code code); // cut

#endif
