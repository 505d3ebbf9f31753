#include "io/curl_link.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "io/curl_drive.h"
#include "io/tls.h"

struct curl_link {
    struct curl_transport *t;
    struct curl_link_callbacks cb;
    struct curl_drive *drive;
    CURL *easy;
    struct material *material;
    bool http2;
    struct loop_fd *watcher; // once it is up
    char detail[CURL_ERROR_SIZE];
};

static void on_ready(void *ud, int what)
{
    struct curl_link *l = ud;
    l->cb.on_ready(l->cb.ud, what);
}

static void link_failed(struct curl_link *l, CURLcode result)
{
    struct err e;
    curl_problem_describe_connection(l->t, l->easy, l->detail, result, &e);
    l->cb.on_failed(l->cb.ud, &e);
}

static void link_is_up(struct curl_link *l)
{
    curl_socket_t fd = CURL_SOCKET_BAD;
    curl_easy_getinfo(l->easy, CURLINFO_ACTIVESOCKET, &fd);
    if (fd == CURL_SOCKET_BAD) { // libcurl has closed it again
        link_failed(l, CURLE_RECV_ERROR);
        return;
    }
    l->watcher = loop_fd_new(l->t->loop, fd, on_ready, l);
    loop_fd_want(l->watcher, LOOP_READ);
    l->cb.on_up(l->cb.ud, l->http2);
}

static void act(void *ud, curl_socket_t fd, int events)
{
    struct curl_link *l = ud;
    curl_drive_act(l->drive, fd, events);
    CURLcode result;
    if (curl_drive_next_done(l->drive, &result) == NULL)
        return;
    if (result == CURLE_OK)
        link_is_up(l);
    else
        link_failed(l, result);
}

static int on_socket(void *ud, curl_socket_t fd, curlsocktype purpose)
{
    (void)ud, (void)purpose;
    curl_live_set_keepalive(fd);
    return CURL_SOCKOPT_OK;
}

static CURLcode on_tls(CURL *easy, void *ctx, void *ud)
{
    struct curl_link *l = ud;
    (void)easy;
    tls_offer_http2(ctx, &l->http2);
    return CURLE_OK;
}

struct curl_link *curl_link_new(struct curl_transport *t, const struct curl_link_callbacks *cb)
{
    struct curl_link *l = xcalloc(1, sizeof(*l));
    l->t = t;
    l->cb = *cb;
    l->easy = curl_easy_init();
    ASSERT(l->easy != NULL);
    curl_setup_connection(l->easy, t);
    curl_setup_material(l->easy, &l->material, t->material);
    curl_easy_setopt(l->easy, CURLOPT_CONNECT_ONLY, 1L);
    // libcurl would speak HTTP/2 itself where it had offered it.
    curl_easy_setopt(l->easy, CURLOPT_SSL_ENABLE_ALPN, 0L);
    curl_easy_setopt(l->easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(l->easy, CURLOPT_ERRORBUFFER, l->detail);
    curl_easy_setopt(l->easy, CURLOPT_SOCKOPTFUNCTION, on_socket);
    curl_easy_setopt(l->easy, CURLOPT_SSL_CTX_FUNCTION, on_tls);
    curl_easy_setopt(l->easy, CURLOPT_SSL_CTX_DATA, l);
    l->drive = curl_drive_new(t->loop, act, l);
    curl_drive_add(l->drive, l->easy);
    return l;
}

void curl_link_free(struct curl_link *l)
{
    if (l == NULL)
        return;
    loop_fd_free(l->watcher);
    curl_multi_remove_handle(curl_drive_multi(l->drive), l->easy);
    curl_easy_cleanup(l->easy);
    curl_drive_free(l->drive);
    curl_setup_material_unref(l->material);
    free(l);
}

void curl_link_want(struct curl_link *l, int what)
{
    loop_fd_want(l->watcher, what);
}

// libcurl's results of moving bytes, in our words.
static int moved(struct curl_link *l, CURLcode result, bool at_end, struct err *e)
{
    if (result == CURLE_AGAIN || (result == CURLE_OK && !at_end))
        return 0;
    if (result == CURLE_OK)
        return err_set(e, ERR_NETWORK, "%s: it closed the connection", l->t->server);
    curl_problem_describe_connection(l->t, l->easy, l->detail, result, e);
    return e->code;
}

int curl_link_recv(struct curl_link *l, void *data, size_t size, size_t *ret, struct err *e)
{
    size_t n = 0;
    CURLcode result = curl_easy_recv(l->easy, data, size, &n);
    *ret = n;
    return moved(l, result, n == 0, e);
}

int curl_link_send(struct curl_link *l, const void *data, size_t size, size_t *ret, struct err *e)
{
    size_t n = 0;
    CURLcode result = curl_easy_send(l->easy, data, size, &n);
    *ret = result == CURLE_OK ? n : 0;
    return moved(l, result, false, e);
}
