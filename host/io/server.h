// A small HTTP server on the loop (libevent's evhttp), for the admin address and later webhooks. Loop thread.
#ifndef IO_SERVER_H
#define IO_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "io/loop.h"

struct server;

struct server_request {
    const char *method; // "GET"
    const char *path;   // without the query, decoded
    const char *query;  // raw, "" when none
    const char *body;
    size_t body_len;
};

struct server_response {
    int status;               // preset 200
    const char *content_type; // preset text/plain; charset=utf-8; borrowed
    struct buf body;          // preset empty, cap 64 MiB; the server frees it
};

// One entry a route; the table must outlive the server. A path no route has is 404, another method 405.
struct server_route {
    const char *method;
    const char *path;
    void (*handle)(void *ud, const struct server_request *req, struct server_response *ret);
};

// address: "127.0.0.1:8080", "[::1]:0" (0: any free port). 0, or -ERR_IO with the reason.
int server_new(struct loop *l, const char *address, const struct server_route *routes, size_t route_count,
               void *ud, struct server **ret, struct err *e);
uint16_t server_port(const struct server *s);
void server_free(struct server *s);

#endif
