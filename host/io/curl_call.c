#include "io/curl_impl.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "io/h2_call.h"
#include "io/http_text.h"

// libcurl's callbacks; the pool is busy in them.

static size_t on_write(char *data, size_t size, size_t n, void *ud)
{
    struct call *x = ud;
    n *= size;
    if (x->canceled)
        return CURL_WRITEFUNC_ERROR;
    x->last_byte_ms = x->pool->last_byte_ms = loop_now_ms(curl_impl_transport(x)->loop);
    if (x->stream && x->status == 200) {
        loop_did(curl_impl_transport(x)->loop);
        if (x->cb.on_data != NULL && x->cb.on_data(x->cb.ud, data, n) != 0)
            x->stop = -ERR_CANCELED;
        return x->stop != 0 || x->canceled ? CURL_WRITEFUNC_ERROR : n;
    }
    if (buf_add(&x->answer, data, n) == 0)
        return n;
    x->stop = -ERR_LIMIT;
    return CURL_WRITEFUNC_ERROR;
}

static void on_header_end(struct call *x, long status)
{
    long version = 0;
    char *type = NULL;
    x->started = true;
    x->status = (int)status;
    curl_easy_getinfo(x->easy, CURLINFO_HTTP_VERSION, &version);
    curl_easy_getinfo(x->easy, CURLINFO_CONTENT_TYPE, &type);
    x->pool->http2 = version == CURL_HTTP_VERSION_2_0;
    if (x->cb.on_start != NULL)
        x->cb.on_start(x->cb.ud, x->status, type != NULL ? type : "");
}

// Streams only: an answer's header may be all there is for a long time.
static size_t on_header(char *data, size_t size, size_t n, void *ud)
{
    struct call *x = ud;
    long status = 0;
    n *= size;
    if (x->canceled)
        return CURL_WRITEFUNC_ERROR;
    x->last_byte_ms = x->pool->last_byte_ms = loop_now_ms(curl_impl_transport(x)->loop);
    if (x->started || n > 2 || (data[0] != '\r' && data[0] != '\n'))
        return n;
    curl_easy_getinfo(x->easy, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 200)
        on_header_end(x, status);
    return x->canceled ? CURL_WRITEFUNC_ERROR : n;
}

// Runs each time the request is about to go out; libcurl repeats it by itself when a kept connection turns
// out dead or the stream was refused. A POST may have been done by then.
static int on_request(void *ud, char *to_ip, char *from_ip, int to_port, int from_port)
{
    struct call *x = ud;
    (void)to_ip, (void)from_ip, (void)to_port, (void)from_port;
    if (x->canceled)
        return CURL_PREREQFUNC_ABORT;
    if (x->attempts >= (x->method == METHOD_POST ? 1 : MAX_ATTEMPTS)) {
        x->stop = -ERR_NETWORK;
        return CURL_PREREQFUNC_ABORT;
    }
    x->attempts++;
    return CURL_PREREQFUNC_OK;
}

// What is the same for all requests of a transport.
static void call_configure(struct call *x, struct curl_transport *t)
{
    CURL *h = x->easy;
    curl_setup_connection(h, t);
    curl_easy_setopt(h, CURLOPT_PRIVATE, x);
    curl_easy_setopt(h, CURLOPT_ERRORBUFFER, x->detail);
    curl_easy_setopt(h, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(h, CURLOPT_USERAGENT, t->options.user_agent);
    curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_write);
    curl_easy_setopt(h, CURLOPT_WRITEDATA, x);
    if (x->stream) {
        curl_easy_setopt(h, CURLOPT_HEADERFUNCTION, on_header);
        curl_easy_setopt(h, CURLOPT_HEADERDATA, x);
        curl_easy_setopt(h, CURLOPT_ACCEPT_ENCODING, "identity"); // and undo what comes nevertheless
    }
    curl_easy_setopt(h, CURLOPT_PREREQFUNCTION, on_request);
    curl_easy_setopt(h, CURLOPT_PREREQDATA, x);
    curl_easy_setopt(h, CURLOPT_SOCKOPTFUNCTION, curl_live_on_socket);
    curl_easy_setopt(h, CURLOPT_CLOSESOCKETFUNCTION, curl_live_on_close);
}

static struct call *call_new(struct curl_transport *t, bool stream)
{
    struct call *x = xcalloc(1, sizeof(*x));
    x->transfer.transport = &t->transport;
    x->stream = stream;
    buf_init(&x->target, HEADERS_BYTES);
    buf_init(&x->body, MAX_BODY);
    buf_init(&x->answer, MAX_RESPONSE);
    buf_init(&x->header_text, HEADERS_BYTES);
    return x;
}

void curl_call_free(struct call *x)
{
    curl_easy_cleanup(x->easy);
    loop_timer_free(x->idle_timer);
    loop_timer_free(x->h2.timer);
    h2_call_reset(x);
    buf_fini(&x->target);
    buf_fini(&x->body);
    buf_fini(&x->answer);
    buf_fini(&x->header_text);
    curl_setup_material_unref(x->material);
    free(x->early);
    free(x);
}

struct call *curl_call_take(struct curl_transport *t, bool stream)
{
    struct call *x = LIST_FIRST(&t->unused[stream]);
    if (x == NULL) {
        x = call_new(t, stream);
    } else {
        LIST_REMOVE(x, entry);
        t->unused_count[stream]--;
    }
    return x;
}

static void buf_recycle(struct buf *b)
{
    if (b->cap > KEEP_BUFFER) {
        size_t max = b->max;
        buf_fini(b);
        buf_init(b, max);
    }
    buf_reset(b);
}

// For a call that is in no pool and no list.
void curl_call_give_back(struct call *x)
{
    struct curl_transport *t = curl_impl_transport(x);
    // libcurl counts repeats over the whole life of a handle and gives up at the fifth.
    if (t->unused_count[x->stream] >= KEEP_CALLS || x->attempts > 1) {
        curl_call_free(x);
        return;
    }
    if (x->probe && x->easy != NULL)
        curl_easy_setopt(x->easy, CURLOPT_OPENSOCKETFUNCTION, NULL);
    if (x->idle_timer != NULL)
        loop_timer_stop(x->idle_timer);
    if (x->h2.timer != NULL)
        loop_timer_stop(x->h2.timer);
    h2_call_reset(x);
    buf_recycle(&x->target);
    buf_recycle(&x->body);
    buf_recycle(&x->answer);
    buf_recycle(&x->header_text);
    free(x->early);
    x->early = NULL;
    x->pool = NULL;
    x->probe = x->started = x->canceled = false;
    x->status = x->attempts = x->stop = x->header_count = 0;
    x->detail[0] = '\0';
    LIST_INSERT_HEAD(&t->unused[x->stream], x, entry);
    t->unused_count[x->stream]++;
}

static void call_fail(struct call *x, enum err_code code, const char *text)
{
    if (x->early == NULL) {
        x->early = xcalloc(1, sizeof(*x->early));
        err_set(x->early, code, "%s", text);
    }
}

static void add_line(struct call *x, const char *name, const char *value)
{
    ASSERT(x->header_count < HEADERS_MAX);
    x->header_at[x->header_count++] = x->header_text.len;
    buf_addf(&x->header_text, "%s:%s%s", name, *value != '\0' ? " " : "", value);
    buf_add_char(&x->header_text, '\0');
    if (x->header_text.failed)
        call_fail(x, ERR_LIMIT, "the headers of the request are longer than 64 KiB");
}

static void add_header(struct call *x, const char *name, const char *value)
{
    if (value == NULL || *value == '\0')
        return;
    if (!http_text_is_header_safe(value)) {
        call_fail(x, ERR_INVALID, "a header value of the request has a control character in it");
        return;
    }
    add_line(x, name, value);
}

static void set_headers(struct call *x, const struct transport_request *r)
{
    struct curl_transport *t = curl_impl_transport(x);
    const char *token = t->options.token != NULL ? t->options.token(t->options.ud) : NULL;
    add_header(x, "Accept", r->accept != NULL ? r->accept : "application/json");
    add_header(x, "Content-Type", r->content_type);
    add_header(x, "Impersonate-User", r->as_user);
    add_header(x, "Host", t->host_header);
    if (r->body_len > 0)
        add_line(x, "Expect", ""); // an empty one stops libcurl from asking for 100-continue
    if (token == NULL || *token == '\0')
        return;
    buf_reset(&t->scratch);
    buf_addf(&t->scratch, "Bearer %s", token);
    if (t->scratch.failed)
        call_fail(x, ERR_LIMIT, "the bearer token is longer than 64 KiB");
    else
        add_header(x, "Authorization", t->scratch.data);
}

static void set_target(struct call *x, const char *path)
{
    if (path[0] != '/' || !http_text_is_header_safe(path) || strchr(path, ' ') != NULL)
        call_fail(x, ERR_INVALID,
                  "the path of a request starts with / and has no blanks or control characters");
    buf_add_str(&x->target, curl_impl_transport(x)->prefix);
    buf_add_str(&x->target, path);
    if (x->target.failed)
        call_fail(x, ERR_LIMIT, "the URL of the request is longer than 64 KiB");
}

// Fills a call from a request; what is wrong with that is kept in `early`.
void curl_call_prepare(struct call *x, const struct transport_request *r,
                       const struct transport_callbacks *cb)
{
    x->cb = *cb;
    x->method = r->method;
    x->timeout_ms = r->timeout_ms != 0 || r->stream ? r->timeout_ms : REQUEST_TIMEOUT_MS;
    x->idle_ms = r->idle_ms;
    x->sent_ms = x->last_byte_ms = loop_now_ms(curl_impl_transport(x)->loop);
    x->answer.max = r->stream ? MAX_STREAM_ERROR : r->max_response != 0 ? r->max_response : MAX_RESPONSE;
    if (r->body_len > 0 && buf_add(&x->body, r->body, r->body_len) != 0)
        call_fail(x, ERR_LIMIT, "the body of the request is larger than 64 MiB");
    set_target(x, r->path);
    set_headers(x, r);
}

static void load_method(struct call *x)
{
    CURL *h = x->easy;
    if (x->method == METHOD_GET || (x->method == METHOD_DELETE && x->body.len == 0)) {
        curl_easy_setopt(h, CURLOPT_POSTFIELDS, NULL); // also makes it a POST: before HTTPGET
        curl_easy_setopt(h, CURLOPT_HTTPGET, 1L);
        curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, x->method == METHOD_GET ? NULL : "DELETE");
        return;
    }
    curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)x->body.len);
    curl_easy_setopt(h, CURLOPT_POSTFIELDS, x->body.data != NULL ? x->body.data : "");
    curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, transport_method_name(x->method));
}

// libcurl parses and prints a URL anew for each request, a byte at a time: over https that is the server's
// alone, and the path goes past it. Over http a proxy has to be told all of it.
static void load_url(struct call *x)
{
    struct curl_transport *t = curl_impl_transport(x);
    if (t->https) {
        curl_easy_setopt(x->easy, CURLOPT_REQUEST_TARGET, x->target.data);
        return;
    }
    buf_reset(&t->scratch);
    buf_add_str(&t->scratch, t->base);
    buf_add_str(&t->scratch, x->target.data + strlen(t->prefix));
    curl_easy_setopt(x->easy, CURLOPT_URL, t->scratch.failed ? "" : t->scratch.data);
}

static void load_headers(struct call *x)
{
    for (int i = 0; i < x->header_count; i++) {
        x->headers[i].data = x->header_text.data + x->header_at[i];
        x->headers[i].next = i + 1 < x->header_count ? &x->headers[i + 1] : NULL;
    }
    curl_easy_setopt(x->easy, CURLOPT_HTTPHEADER, x->header_count != 0 ? x->headers : NULL);
}

void curl_call_load(struct call *x)
{
    struct curl_transport *t = curl_impl_transport(x);
    if (x->easy == NULL) {
        x->easy = curl_easy_init();
        ASSERT(x->easy != NULL);
        call_configure(x, t);
    }
    curl_setup_material(x->easy, &x->material, t->material);
    // What is left to libcurl of the requests has a connection each. Streams share some, and the probe is
    // theirs.
    bool shared = t->https && (x->stream || x->probe);
    curl_easy_setopt(x->easy, CURLOPT_HTTP_VERSION,
                     shared ? (long)CURL_HTTP_VERSION_2TLS : (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(x->easy, CURLOPT_PIPEWAIT, (long)shared);
    uint64_t spent = loop_now_ms(t->loop) - x->sent_ms; // while it was not known how the server is spoken to
    uint32_t left = spent < x->timeout_ms ? x->timeout_ms - (uint32_t)spent : 1;
    curl_easy_setopt(x->easy, CURLOPT_TIMEOUT_MS, x->timeout_ms == 0 ? 0L : (long)left);
    load_method(x);
    load_url(x);
    load_headers(x);
    if (!x->stream)
        curl_easy_setopt(x->easy, CURLOPT_ACCEPT_ENCODING, x->method == METHOD_GET ? "gzip" : NULL);
}

static const char *libcurl_header(struct call *x, const char *name)
{
    struct curl_header *h;
    if (curl_easy_header(x->easy, name, 0, CURLH_HEADER, -1, &h) != CURLHE_OK)
        return NULL;
    if (h->amount > 1 && curl_easy_header(x->easy, name, h->amount - 1, CURLH_HEADER, -1, &h) != CURLHE_OK)
        return NULL;
    return h->value;
}

static void fill_response(struct call *x, struct transport_response *r, char **ret_warning)
{
    bool h2 = x->h2.stream != 0;
    const char *type = h2 ? x->h2.content_type : libcurl_header(x, "Content-Type");
    r->content_type = type != NULL ? type : "";
    if (r->status >= 300)
        r->retry_after_ms =
            http_text_retry_after_ms(h2 ? x->h2.retry_after : libcurl_header(x, "Retry-After"),
                                     clock_wall_us(loop_clock(curl_impl_transport(x)->loop)));
    r->warning = *ret_warning = http_text_take_warning(h2 ? x->h2.warning : libcurl_header(x, "Warning"));
    if (x->answer.data != NULL) {
        r->body = x->answer.data;
        r->body_len = x->answer.len;
    }
}

void curl_call_report(struct call *x, struct transport_response *r)
{
    loop_did(curl_impl_transport(x)->loop);
    r->sent_maybe = r->err.code != 0 && x->attempts > 0;
    r->body = "";
    r->content_type = "";
    r->retry_after_ms = -1;
    char *warning = NULL;
    if (r->err.code == 0)
        fill_response(x, r, &warning);
    if (x->cb.on_done != NULL)
        x->cb.on_done(x->cb.ud, r);
    free(warning);
    curl_call_give_back(x);
}
