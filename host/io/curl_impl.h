// The parts of the libcurl transport; for io/curl_*.c, io/h2_*.c and io/transport_curl.c only. Loop thread.
//
// A request goes over a connection with HTTP/2 of our own (io/h2_conn.h) where the server speaks it; streams,
// and requests where it does not, go over libcurl's handles in pools.
//
// A pool is one multi handle with the connections it opened. Requests share one pool. Streams live in pools
// of their own, at most STREAMS_A_POOL in each: over HTTP/2 that is one connection, since servers allow about
// 100 streams on one; over HTTP/1.1 each stream has a connection anyway. A pool is retired (takes nothing
// new, goes with its last call) when its connection proved bad or the certificates changed.
//
// libcurl forbids changes to a multi handle from inside its callbacks, where on_start and on_data run. So
// while a pool is busy, calls are only marked, and pool_settle adds and removes them afterwards.
#ifndef IO_CURL_IMPL_H
#define IO_CURL_IMPL_H

#include <curl/curl.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>

#include "base/buf.h"
#include "io/transport.h"

enum {
    STREAMS_A_POOL = 90,
    CONCURRENT_STREAMS = 1000, // what libcurl assumes before the server says its own number
    CONNECT_TIMEOUT_MS = 10000,
    REQUEST_TIMEOUT_MS = 30000,
    PROBE_EVERY_MS = 30000,
    PROBE_TIMEOUT_MS = 15000,
    KEEPALIVE_IDLE_S = 15,
    KEEPALIVE_INTERVAL_S = 5,
    KEEPALIVE_COUNT = 3,
    UNACKED_MS = 30000,
    MAX_ATTEMPTS = 3, // when a kept connection turned out dead or the stream was refused; POST: 1
    MAX_BODY = 64 << 20,
    MAX_RESPONSE = 64 << 20,
    MAX_STREAM_ERROR = 1 << 20, // body of a stream that was not accepted
    KEEP_BUFFER = 64 << 10,     // larger ones are given back after a call
    KEEP_CALLS = 128,           // unused ones, each for requests and streams
    HEADERS_MAX = 8,
    HEADERS_BYTES = 64 << 10,
};

// Replaced as a whole; each easy handle keeps the one it points into.
struct material {
    int refs;
    char *ca, *cert, *key; // PEM or NULL
};

// The part of a call that HTTP/2 knows.
struct call_h2 {
    struct h2_conn *conn;    // NULL: it is not there
    TAILQ_ENTRY(call) entry; // of its connection
    int32_t stream;          // 0: not submitted
    int tries;               // connections that it was put on
    bool over;               // waits for its report
    bool sent;               // its header has gone out
    bool headed;             // the answer's header is complete
    bool ended;              // the whole answer is
    bool closed;             // the stream is, with
    uint32_t reset;          // this code of HTTP/2
    bool broken;             // it was our side that closed it so: the answer breaks the rules
    bool refused;            // the server has not begun with it
    size_t body_sent;
    uint64_t sent_ms;
    struct loop_timer *timer; // its time
    // of the answer:
    char *content_type, *retry_after, *warning; // or NULL
    struct gunzip *gunzip;
    char *encoding; // one that we can not undo, or NULL
};
TAILQ_HEAD(h2_calls, call);

enum call_state { CALL_WAITING, CALL_RUNNING, CALL_FAILED };

struct call {
    struct transfer transfer;
    struct pool *pool;      // NULL: in none
    LIST_ENTRY(call) entry; // in the pool, in `failed` or in a list of unused ones
    CURL *easy;             // NULL before it first goes over libcurl
    struct call_h2 h2;
    struct material *material;
    struct transport_callbacks cb;
    enum call_state state;
    enum transport_method method;
    bool stream;
    bool probe;
    bool started;  // the answer's header is complete
    bool canceled; // waits for pool_settle; no callback any more
    int status;
    int attempts; // how often the request went out
    int stop;     // why our own callback ended it: 0 or -ERR_...
    uint32_t timeout_ms;
    struct err *early; // found out in transport_send
    struct buf target; // the path and query that the server sees
    struct buf body;
    struct buf answer;
    struct buf header_text;                 // NUL-terminated lines, one behind the other
    struct curl_slist headers[HEADERS_MAX]; // a list for libcurl without an allocation for each
    size_t header_at[HEADERS_MAX];          // where each starts in header_text
    int header_count;
    struct loop_timer *idle_timer; // streams
    uint32_t idle_ms;
    uint64_t last_byte_ms;
    uint64_t sent_ms;
    char detail[CURL_ERROR_SIZE];
};
LIST_HEAD(calls, call);

struct pool {
    LIST_ENTRY(pool) entry;
    struct curl_transport *t;
    struct curl_drive *drive;
    struct calls calls;
    int count; // of calls, without the probe
    bool streams;
    bool retired;
    bool busy;  // inside libcurl
    bool dirty; // there are marked calls
    int held;   // in use further up the stack
    uint64_t last_byte_ms;
    bool http2;
    int *sockets; // all that are open
    size_t socket_count;
    struct call *probe;
    struct loop_timer *probe_timer;
};
LIST_HEAD(pools, pool);

struct curl_transport {
    struct transport transport;
    struct loop *loop;
    struct transport_curl_options options; // strings: see new; the PEM ones are in `material`
    char *server;                          // as people know it
    char *base;                            // what a path is put behind
    char *prefix;                          // the path in it, "" when none
    char *authority;                       // host and port as HTTP names them
    char *host_header;                     // or NULL: from the URL
    char *proxy;                           // "": none; NULL: the environment's
    struct curl_slist *connect_to;
    bool https;
    struct material *material;
    struct buf scratch;
    struct pools pools;
    struct pool *requests; // where the next request goes, or NULL
    LIST_HEAD(, h2_conn) h2_conns;
    struct h2_conn *h2; // where the next request goes, or NULL
    bool by_libcurl;    // requests are: the server speaks no HTTP/2, or a proxy would be offered it too
    uint32_t probe_every_ms;
    uint32_t probe_timeout_ms;
    struct calls failed;
    struct loop_timer *failed_timer;
    struct calls unused[2]; // [stream]
    int unused_count[2];
    int held;
    bool closing;
};

static inline struct curl_transport *curl_impl_transport(const struct call *x)
{
    return (struct curl_transport *)x->transfer.transport;
}

// curl_setup.c: what all handles have in common.
struct material *curl_setup_material_new(const char *ca, const char *cert, const char *key);
void curl_setup_material_unref(struct material *m);
void curl_setup_connection(CURL *easy, const struct curl_transport *t);
void curl_setup_material(CURL *easy, struct material **kept,
                         struct material *m); // *kept: NULL or what it has

// curl_call.c: one request. Unused ones are kept, configured, for the next request.
struct call *curl_call_take(struct curl_transport *t, bool stream);
void curl_call_give_back(struct call *x); // in no pool and no list
void curl_call_free(struct call *x);
// Fills a call from a request; what is wrong with that is kept in `early`.
void curl_call_prepare(struct call *x, const struct transport_request *r,
                       const struct transport_callbacks *cb);
// Puts it into its easy handle: for one that goes over libcurl.
void curl_call_load(struct call *x);
// Calls on_done with r, whose status and err are set; gives x back.
void curl_call_report(struct call *x, struct transport_response *r);

// curl_problem.c: results of libcurl in our words.
void curl_problem_describe(struct call *x, CURLcode result, struct err *e);
void curl_problem_describe_connection(const struct curl_transport *t, CURL *easy, const char *detail,
                                      CURLcode result, struct err *e);
void curl_problem_describe_stop(const struct call *x, struct err *e); // by x->stop
// Is the connection to blame, so that others on it will fare no better?
bool curl_problem_is_of_connection(const struct call *x, CURLcode result);

// curl_pool.c: a multi handle on the loop.
struct pool *curl_pool_get(struct curl_transport *t, bool stream); // for one more call
void curl_pool_add(struct pool *p, struct call *x);                // a loaded one
void curl_pool_send(struct curl_transport *t, struct call *x);     // loads it and adds it to one
void curl_pool_finish(struct call *x, CURLcode result);            // takes it out and reports; not while busy
void curl_pool_cancel(struct call *x);
void curl_pool_cancel_all(struct pool *p);
void curl_pool_retire(struct pool *p);       // no new calls; it goes with the last one
void curl_pool_drop_if_idle(struct pool *p); // frees it when it has no calls and is not wanted any more
void curl_pool_free(struct pool *p);

// curl_live.c: keepalive, idle time and probes. The first two are libcurl's callbacks; ud is the pool.
int curl_live_on_socket(void *ud, curl_socket_t fd, curlsocktype purpose);
int curl_live_on_close(void *ud, curl_socket_t fd);
void curl_live_set_keepalive(curl_socket_t fd);
void curl_live_start_idle_timer(struct call *x);
void curl_live_start_probes(struct pool *p);

// transport_curl.c: frees it when it is closing and nothing further up the stack uses it.
void transport_curl_drop_if_closing(struct curl_transport *t);

#endif
