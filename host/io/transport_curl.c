// The transport over libcurl: options, life and death. How it works: io/curl_impl.h.
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/strset.h"
#include "io/curl_impl.h"
#include "io/h2_conn.h"
#include "io/tls.h"

static void call_put_failed(struct call *x)
{
    struct curl_transport *t = curl_impl_transport(x);
    x->state = CALL_FAILED;
    LIST_INSERT_HEAD(&t->failed, x, entry);
    loop_timer_start(t->failed_timer, 0);
}

static void on_failed(void *ud)
{
    struct curl_transport *t = ud;
    t->held++;
    for (struct call *x; !t->closing && (x = LIST_FIRST(&t->failed)) != NULL;) {
        LIST_REMOVE(x, entry);
        struct transport_response r = {.err = *x->early};
        curl_call_report(x, &r);
    }
    t->held--;
    transport_curl_drop_if_closing(t);
}

static struct transfer *op_send(struct transport *tr, const struct transport_request *r,
                                const struct transport_callbacks *cb)
{
    struct curl_transport *t = (struct curl_transport *)tr;
    DASSERT(loop_is_current(t->loop) && !t->closing);
    struct call *x = curl_call_take(t, r->stream);
    curl_call_prepare(x, r, cb);
    if (x->early != NULL) {
        call_put_failed(x);
    } else if (!r->stream && !t->by_libcurl) {
        h2_conn_send(t, x);
    } else {
        curl_pool_send(t, x);
        curl_live_start_idle_timer(x);
    }
    return &x->transfer;
}

static void op_cancel(struct transfer *tx)
{
    struct call *x = (struct call *)tx;
    DASSERT(loop_is_current(curl_impl_transport(x)->loop));
    if (x->canceled)
        return;
    if (x->state == CALL_FAILED) {
        LIST_REMOVE(x, entry);
        curl_call_give_back(x);
    } else if (x->h2.conn != NULL) {
        h2_conn_cancel(x);
    } else {
        curl_pool_cancel(x);
    }
}

static void free_calls(struct calls *calls)
{
    for (struct call *x; (x = LIST_FIRST(calls)) != NULL;) {
        LIST_REMOVE(x, entry);
        curl_call_free(x);
    }
}

static void transport_destroy(struct curl_transport *t)
{
    for (struct pool *p; (p = LIST_FIRST(&t->pools)) != NULL;)
        curl_pool_free(p);
    free_calls(&t->failed);
    free_calls(&t->unused[0]);
    free_calls(&t->unused[1]);
    loop_timer_free(t->failed_timer);
    curl_slist_free_all(t->connect_to);
    curl_setup_material_unref(t->material);
    buf_fini(&t->scratch);
    free((char *)t->options.user_agent);
    free(t->server);
    free(t->base);
    free(t->prefix);
    free(t->authority);
    free(t->host_header);
    free(t->proxy);
    free(t);
}

void transport_curl_drop_if_closing(struct curl_transport *t)
{
    if (t->closing && t->held == 0)
        transport_destroy(t);
}

static void op_free(struct transport *tr)
{
    struct curl_transport *t = (struct curl_transport *)tr;
    struct pool *p, *next;
    t->held++;
    t->closing = true;
    for (p = LIST_FIRST(&t->pools); p != NULL; p = next) {
        next = LIST_NEXT(p, entry);
        curl_pool_cancel_all(p); // frees p, unless it is in use further up
    }
    h2_conn_cancel_all(t);
    t->held--;
    transport_curl_drop_if_closing(t);
}

static const struct transport_ops curl_ops = {op_send, op_cancel, op_free};

// Copies what libcurl allocated; NULL for a part that is not there.
static char *url_part(CURLU *u, CURLUPart part)
{
    char *text = NULL;
    if (curl_url_get(u, part, &text, 0) != CURLUE_OK)
        return NULL;
    char *copy = xstrdup(text);
    curl_free(text);
    return copy;
}

static void trim_slashes(char *text)
{
    for (size_t n = strlen(text); n > 0 && text[n - 1] == '/'; n--)
        text[n - 1] = '\0';
}

static bool has_url_part(CURLU *u, CURLUPart part)
{
    char *text = url_part(u, part);
    bool has = text != NULL;
    free(text);
    return has;
}

// Host and port as HTTP names them: a port that is the scheme's own is left out.
static char *authority_of(CURLU *u, const char *host)
{
    char *port = NULL;
    curl_url_get(u, CURLUPART_PORT, &port, CURLU_NO_DEFAULT_PORT);
    char *authority = port != NULL ? xasprintf("%s:%s", host, port) : xstrdup(host);
    curl_free(port);
    return authority;
}

// Puts a TLS server name where the address stands, which is only connected to then.
static void use_server_name(struct curl_transport *t, CURLU *u, const char *name)
{
    char *host = url_part(u, CURLUPART_HOST);
    char *port = NULL;
    curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
    bool ipv6 = strchr(name, ':') != NULL && name[0] != '[';
    char *url_name = xasprintf(ipv6 ? "[%s]" : "%s", name);
    char *from_to = xasprintf("%s:%s:%s:%s", url_name, port, host, port);
    t->host_header = authority_of(u, host);
    t->connect_to = curl_slist_append(NULL, from_to);
    curl_url_set(u, CURLUPART_HOST, url_name, 0);
    curl_free(port);
    free(host);
    free(url_name);
    free(from_to);
}

static bool is_loopback(const char *host)
{
    return strcmp(host, "localhost") == 0 || str_has_prefix(host, "127.") || strcmp(host, "[::1]") == 0;
}

static void set_proxy(struct curl_transport *t, const char *proxy_url, const char *host)
{
    static const char socks5[] = "socks5://";
    if (proxy_url != NULL && strncasecmp(proxy_url, socks5, sizeof(socks5) - 1) == 0)
        t->proxy = xasprintf("socks5h://%s",
                             proxy_url + sizeof(socks5) - 1); // the proxy resolves names, as for kubectl
    else if (proxy_url != NULL)
        t->proxy = xstrdup(proxy_url);
    else if (is_loopback(host))
        t->proxy = xstrdup(""); // the environment's proxies are for other machines
}

// What is offered to the server by ALPN would be offered to such a proxy too.
static bool has_tls_proxy(const struct curl_transport *t)
{
    static const char *const names[] = {"https_proxy", "HTTPS_PROXY", "all_proxy", "ALL_PROXY"};
    if (t->proxy != NULL)
        return strncasecmp(t->proxy, "https:", 6) == 0;
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *proxy = getenv(names[i]);
        if (proxy != NULL && strncasecmp(proxy, "https:", 6) == 0)
            return true;
    }
    return false;
}

static int check_url(CURLU *u, const char *server, struct err *e)
{
    CURLUcode r = curl_url_set(u, CURLUPART_URL, server, 0);
    if (r == CURLUE_BAD_SCHEME)
        return err_set(e, ERR_INVALID, "server \"%s\": it must start with https:// or http://", server);
    if (r != CURLUE_OK)
        return err_set(e, ERR_INVALID, "server \"%s\": %s", server, curl_url_strerror(r));
    if (has_url_part(u, CURLUPART_USER) || has_url_part(u, CURLUPART_QUERY) ||
        has_url_part(u, CURLUPART_FRAGMENT))
        return err_set(e, ERR_INVALID, "server: a URL without user, query and fragment is expected");
    return 0;
}

static int set_server(struct curl_transport *t, const struct transport_curl_options *o, struct err *e)
{
    CURLU *u = curl_url();
    ASSERT(u != NULL);
    int r = check_url(u, o->server, e);
    char *scheme = r == 0 ? url_part(u, CURLUPART_SCHEME) : NULL;
    char *host = r == 0 ? url_part(u, CURLUPART_HOST) : NULL;
    if (r == 0 && strcmp(scheme, "https") != 0 && strcmp(scheme, "http") != 0)
        r = err_set(e, ERR_INVALID, "server \"%s\": it must start with https:// or http://", o->server);
    if (r == 0) {
        t->https = strcmp(scheme, "https") == 0;
        set_proxy(t, o->proxy_url, host);
        t->by_libcurl = !t->https || has_tls_proxy(t);
        t->server = url_part(u, CURLUPART_URL);
        if (t->https && o->tls_server_name != NULL && *o->tls_server_name != '\0')
            use_server_name(t, u, o->tls_server_name);
        t->base = url_part(u, CURLUPART_URL);
        t->authority = t->host_header != NULL ? xstrdup(t->host_header) : authority_of(u, host);
        trim_slashes(t->server);
        t->prefix = url_part(u, CURLUPART_PATH);
        trim_slashes(t->base);
        trim_slashes(t->prefix);
    }
    free(scheme);
    free(host);
    curl_url_cleanup(u);
    return r;
}

static void init_library(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

int transport_curl_new(struct loop *l, const struct transport_curl_options *o, struct transport **ret,
                       struct err *e)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, init_library);
    ASSERT(!clock_is_virtual(loop_clock(l)));
    int r = tls_check_pem(o->ca_pem, o->client_cert_pem, o->client_key_pem, e);
    if (r == 0 && o->insecure && o->ca_pem != NULL)
        r = err_set(e, ERR_INVALID, "a CA and the insecure option exclude each other: leave out one of them");
    if (r != 0)
        return r;
    struct curl_transport *t = xcalloc(1, sizeof(*t));
    t->transport.ops = &curl_ops;
    t->loop = l;
    t->options = *o;
    t->options.user_agent = xstrdup(o->user_agent);
    t->material = curl_setup_material_new(o->ca_pem, o->client_cert_pem, o->client_key_pem);
    t->probe_every_ms = PROBE_EVERY_MS;
    t->probe_timeout_ms = PROBE_TIMEOUT_MS;
    t->failed_timer = loop_timer_new(l, on_failed, t);
    buf_init(&t->scratch, 2 * HEADERS_BYTES); // a server's URL and what a request puts behind it
    r = set_server(t, o, e);
    if (r != 0) {
        transport_destroy(t);
        return r;
    }
    *ret = &t->transport;
    return 0;
}

int transport_curl_set_tls(struct transport *tr, const char *ca_pem, const char *cert_pem,
                           const char *key_pem, struct err *e)
{
    struct curl_transport *t = (struct curl_transport *)tr;
    ASSERT(tr->ops == &curl_ops);
    int r = tls_check_pem(ca_pem, cert_pem, key_pem, e);
    if (r != 0)
        return r;
    const struct material *old = t->material;
    t->material =
        curl_setup_material_new(ca_pem != NULL ? ca_pem : old->ca, cert_pem != NULL ? cert_pem : old->cert,
                                key_pem != NULL ? key_pem : old->key);
    curl_setup_material_unref((struct material *)old);
    h2_conn_retire_current(t);
    struct pool *p, *next;
    for (p = LIST_FIRST(&t->pools); p != NULL; p = next) {
        next = LIST_NEXT(p, entry);
        curl_pool_retire(p);
        curl_pool_drop_if_idle(p);
    }
    return 0;
}
