#include "io/server.h"

#include <errno.h>
#include <event2/buffer.h>
#include <event2/http.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "io/loop_impl.h"

enum {
    HEADERS_MAX = 64 << 10,
    BODY_MAX = 3 << 20,
    RESPONSE_MAX = 64 << 20,
    IDLE_S = 60, // also the longest time between two reads of one request
    BACKLOG = 128,
};

struct server {
    struct evhttp *http;
    const struct server_route *routes;
    size_t route_count;
    void *ud;
    uint16_t port;
};

static const struct method_name {
    enum evhttp_cmd_type type;
    const char *name;
} method_names[] = {
    {EVHTTP_REQ_GET, "GET"},         {EVHTTP_REQ_HEAD, "HEAD"},   {EVHTTP_REQ_POST, "POST"},
    {EVHTTP_REQ_PUT, "PUT"},         {EVHTTP_REQ_PATCH, "PATCH"}, {EVHTTP_REQ_DELETE, "DELETE"},
    {EVHTTP_REQ_OPTIONS, "OPTIONS"},
};

static const char *method_name(enum evhttp_cmd_type type)
{
    for (size_t i = 0; i < sizeof(method_names) / sizeof(method_names[0]); i++) {
        if (method_names[i].type == type)
            return method_names[i].name;
    }
    return "";
}

// The route of a request, or NULL and the status that says why.
static const struct server_route *find_route(struct server *s, const char *method, const char *path,
                                             int *ret_status)
{
    int status = 404;
    // HEAD is answered as GET is; evhttp leaves out the body.
    const char *wanted = strcmp(method, "HEAD") == 0 ? "GET" : method;
    for (size_t i = 0; i < s->route_count; i++) {
        const struct server_route *r = &s->routes[i];
        if (strcmp(r->path, path) != 0)
            continue;
        if (strcmp(r->method, wanted) == 0)
            return r;
        status = 405;
    }
    *ret_status = status;
    return NULL;
}

static void free_body(const void *data, size_t n, void *ud)
{
    (void)data, (void)n;
    free(ud);
}

static void reply(struct evhttp_request *req, struct server_response *res)
{
    struct evbuffer *out = evhttp_request_get_output_buffer(req);
    if (res->body.failed) {
        res->status = 500;
        buf_reset(&res->body);
        buf_add_str(&res->body, "the answer is larger than 64 MiB\n");
    }
    size_t n;
    char *body = buf_take(&res->body, &n);
    evhttp_add_header(evhttp_request_get_output_headers(req), "Content-Type", res->content_type);
    if (evbuffer_add_reference(out, body, n, free_body, body) != 0)
        free(body);
    evhttp_send_reply(req, res->status, NULL, NULL);
}

static void handle(struct server *s, struct evhttp_request *req, const char *path, const char *query)
{
    struct evbuffer *in = evhttp_request_get_input_buffer(req);
    struct server_request request = {
        .method = method_name(evhttp_request_get_command(req)),
        .path = path,
        .query = query != NULL ? query : "",
        .body = (const char *)evbuffer_pullup(in, -1),
        .body_len = evbuffer_get_length(in),
    };
    if (request.body == NULL)
        request.body = "";
    struct server_response response = {.status = 200, .content_type = "text/plain; charset=utf-8"};
    buf_init(&response.body, RESPONSE_MAX);
    const struct server_route *r = find_route(s, request.method, path, &response.status);
    if (r != NULL)
        r->handle(s->ud, &request, &response);
    else
        buf_add_str(&response.body, response.status == 404 ? "not found\n" : "method not allowed\n");
    reply(req, &response);
    buf_fini(&response.body);
}

static void on_request(struct evhttp_request *req, void *ud)
{
    const struct evhttp_uri *uri = evhttp_request_get_evhttp_uri(req);
    const char *raw = uri != NULL ? evhttp_uri_get_path(uri) : NULL;
    size_t n = 0;
    char *path = raw != NULL ? evhttp_uridecode(raw, 0, &n) : NULL;
    if (path == NULL || strlen(path) != n) // a NUL that was encoded
        evhttp_send_error(req, HTTP_BADREQUEST, NULL);
    else
        handle(ud, req, path, evhttp_uri_get_query(uri));
    free(path);
}

// "host:port" with an IPv6 address in brackets; no host: all addresses.
static int split_address(const char *address, char **ret_host, const char **ret_port, struct err *e)
{
    const char *colon = strrchr(address, ':');
    const char *bracket = strrchr(address, ']');
    char *end = NULL;
    unsigned long port = colon != NULL ? strtoul(colon + 1, &end, 10) : 0;
    if (colon == NULL || (bracket != NULL && colon != bracket + 1) || end == colon + 1 || *end != '\0' ||
        port > 65535)
        return err_set(e, ERR_IO,
                       "can not listen on \"%s\": HOST:PORT is expected, as in 127.0.0.1:8080 or [::1]:8080",
                       address);
    *ret_host = bracket != NULL ? xstrndup(address + 1, (size_t)(bracket - address) - 1)
                                : xstrndup(address, (size_t)(colon - address));
    *ret_port = colon + 1;
    return 0;
}

// A listening socket, or -1 with errno.
static int open_socket(const struct addrinfo *a)
{
    int one = 1;
    int fd = socket(a->ai_family, a->ai_socktype | SOCK_NONBLOCK | SOCK_CLOEXEC, a->ai_protocol);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)); // connections inherit it
    if (bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, BACKLOG) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

static int listen_on(const char *address, int *ret_fd, struct err *e)
{
    char *host = NULL;
    const char *port = NULL;
    int r = split_address(address, &host, &port, e);
    if (r != 0)
        return r;
    struct addrinfo hints = {.ai_flags = AI_PASSIVE | AI_NUMERICSERV, .ai_socktype = SOCK_STREAM};
    struct addrinfo *found = NULL;
    int why = getaddrinfo(*host != '\0' ? host : NULL, port, &hints, &found);
    int fd = -1;
    for (const struct addrinfo *a = found; a != NULL && fd < 0; a = a->ai_next)
        fd = open_socket(a);
    if (why != 0)
        r = err_set(e, ERR_IO, "can not listen on \"%s\": %s", address, gai_strerror(why));
    else if (fd < 0)
        r = err_set(e, ERR_IO, "can not listen on \"%s\": %s", address, strerror(errno));
    else
        *ret_fd = fd;
    if (found != NULL)
        freeaddrinfo(found);
    free(host);
    return r;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_storage a;
    socklen_t n = sizeof(a);
    if (getsockname(fd, (struct sockaddr *)&a, &n) != 0)
        return 0;
    return ntohs(a.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&a)->sin6_port
                                         : ((struct sockaddr_in *)&a)->sin_port);
}

int server_new(struct loop *l, const char *address, const struct server_route *routes, size_t route_count,
               void *ud, struct server **ret, struct err *e)
{
    int fd = -1;
    int r = listen_on(address, &fd, e);
    if (r != 0)
        return r;
    struct server *s = xcalloc(1, sizeof(*s));
    s->routes = routes;
    s->route_count = route_count;
    s->ud = ud;
    s->port = port_of(fd);
    s->http = evhttp_new(loop_event_base(l));
    ASSERT(s->http != NULL);
    evhttp_set_max_headers_size(s->http, HEADERS_MAX);
    evhttp_set_max_body_size(s->http, BODY_MAX);
    evhttp_set_timeout(s->http, IDLE_S);
    evhttp_set_allowed_methods(s->http, EVHTTP_REQ_GET | EVHTTP_REQ_HEAD | EVHTTP_REQ_POST | EVHTTP_REQ_PUT |
                                            EVHTTP_REQ_PATCH | EVHTTP_REQ_DELETE | EVHTTP_REQ_OPTIONS);
    evhttp_set_gencb(s->http, on_request, s);
    if (evhttp_accept_socket(s->http, fd) != 0) {
        close(fd);
        server_free(s);
        return err_set(e, ERR_IO, "can not listen on \"%s\"", address);
    }
    *ret = s;
    return 0;
}

uint16_t server_port(const struct server *s)
{
    return s->port;
}

void server_free(struct server *s)
{
    if (s == NULL)
        return;
    evhttp_free(s->http); // closes the listener and all connections
    free(s);
}
