#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/alloc.h"
#include "io/gunzip.h"
#include "io/h2_call.h"

enum { PSEUDO_HEADERS = 4, OWN_HEADERS = 3 };

struct head {
    nghttp2_nv nv[PSEUDO_HEADERS + OWN_HEADERS + HEADERS_MAX];
    size_t count;
};

static void head_add(struct head *h, const char *name, size_t name_len, const char *value)
{
    // nghttp2 copies both, and names in lower case.
    h->nv[h->count++] = (nghttp2_nv){(uint8_t *)name, (uint8_t *)value, name_len, strlen(value), 0};
}

static void head_add_named(struct head *h, const char *name, const char *value)
{
    head_add(h, name, strlen(name), value);
}

// The lines that libcurl would get. One without a value speaks to libcurl alone; the host has a name of its
// own in HTTP/2 (RFC 9113, 8.3.1).
static void head_add_lines(struct head *h, const struct call *x)
{
    for (int i = 0; i < x->header_count; i++) {
        const char *line = x->header_text.data + x->header_at[i];
        size_t n = strcspn(line, ":");
        if (line[n + 1] == ' ' && strncasecmp(line, "host:", n + 1) != 0)
            head_add(h, line, n, line + n + 2);
    }
}

static ssize_t on_read_body(nghttp2_session *s, int32_t stream, uint8_t *to, size_t size, uint32_t *flags,
                            nghttp2_data_source *source, void *ud)
{
    struct call *x = nghttp2_session_get_stream_user_data(s, stream);
    (void)source, (void)ud;
    if (x == NULL) // canceled
        return NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE;
    size_t n = x->body.len - x->h2.body_sent;
    if (n > size)
        n = size;
    memcpy(to, x->body.data + x->h2.body_sent, n);
    x->h2.body_sent += n;
    if (x->h2.body_sent == x->body.len)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

int h2_call_submit(struct call *x, nghttp2_session *s)
{
    const struct curl_transport *t = curl_impl_transport(x);
    struct head h = {.count = 0};
    char length[24];
    head_add_named(&h, ":method", transport_method_name(x->method));
    head_add_named(&h, ":scheme", "https");
    head_add_named(&h, ":authority", t->authority);
    head_add_named(&h, ":path", x->target.data);
    if (t->options.user_agent != NULL)
        head_add_named(&h, "user-agent", t->options.user_agent);
    head_add_lines(&h, x);
    if (x->method == METHOD_GET)
        head_add_named(&h, "accept-encoding", "gzip");
    bool has_body = x->body.len > 0;
    if (has_body) {
        snprintf(length, sizeof(length), "%zu", x->body.len);
        head_add_named(&h, "content-length", length);
    }
    nghttp2_data_provider body = {.read_callback = on_read_body};
    int32_t stream = nghttp2_submit_request(s, NULL, h.nv, h.count, has_body ? &body : NULL, x);
    if (stream > 0)
        x->h2.stream = stream;
    return stream > 0 ? 0 : stream;
}

void h2_call_detach(struct call *x, nghttp2_session *s)
{
    if (x->h2.stream == 0 || x->h2.over)
        return;
    nghttp2_session_set_stream_user_data(s, x->h2.stream, NULL);
    nghttp2_submit_rst_stream(s, NGHTTP2_FLAG_NONE, x->h2.stream, NGHTTP2_CANCEL);
}

static void forget(char **text)
{
    free(*text);
    *text = NULL;
}

void h2_call_reset(struct call *x)
{
    x->h2.stream = 0;
    x->h2.body_sent = 0;
    x->h2.reset = 0;
    x->h2.sent = x->h2.headed = x->h2.ended = x->h2.closed = x->h2.broken = x->h2.refused = false;
    x->status = 0;
    buf_reset(&x->answer);
    forget(&x->h2.content_type);
    forget(&x->h2.retry_after);
    forget(&x->h2.warning);
    forget(&x->h2.encoding);
    gunzip_free(x->h2.gunzip);
    x->h2.gunzip = NULL;
}

static bool is_named(const uint8_t *name, size_t n, const char *text)
{
    return n == strlen(text) && memcmp(name, text, n) == 0;
}

static bool is_word(const uint8_t *value, size_t n, const char *text)
{
    return n == strlen(text) && strncasecmp((const char *)value, text, n) == 0;
}

static void keep(char **text, const uint8_t *value, size_t n)
{
    free(*text);
    *text = xstrndup((const char *)value, n);
}

// A second gzip over the first is none that we asked for.
static void on_encoding(struct call *x, const uint8_t *value, size_t n)
{
    if (is_word(value, n, "identity") || n == 0)
        return;
    if ((is_word(value, n, "gzip") || is_word(value, n, "x-gzip")) && x->h2.gunzip == NULL) {
        x->h2.gunzip = gunzip_new();
        return;
    }
    keep(&x->h2.encoding, value, n);
    x->stop = -ERR_PARSE;
}

void h2_call_on_header(struct call *x, const uint8_t *name, size_t name_len, const uint8_t *value,
                       size_t value_len)
{
    if (is_named(name, name_len, ":status")) { // nghttp2 has seen to it that these are three digits
        int status = (value[0] - '0') * 100 + (value[1] - '0') * 10 + (value[2] - '0');
        x->status = status >= 200 ? status : 0;
    } else if (x->status == 0 || x->h2.headed) {
        // of an interim answer (RFC 9110, 15.2), or a trailer
    } else if (is_named(name, name_len, "content-type")) {
        keep(&x->h2.content_type, value, value_len);
    } else if (is_named(name, name_len, "retry-after")) {
        keep(&x->h2.retry_after, value, value_len);
    } else if (is_named(name, name_len, "warning")) {
        keep(&x->h2.warning, value, value_len);
    } else if (is_named(name, name_len, "content-encoding")) {
        on_encoding(x, value, value_len);
    }
}

void h2_call_on_header_end(struct call *x)
{
    x->h2.headed = x->status != 0;
}

void h2_call_on_data(struct call *x, const uint8_t *data, size_t n)
{
    if (x->stop != 0)
        return;
    if (x->h2.gunzip != NULL)
        x->stop = gunzip_add(x->h2.gunzip, data, n, &x->answer);
    else if (buf_add(&x->answer, data, n) != 0)
        x->stop = -ERR_LIMIT;
}

static int judge_stop(struct call *x, const char *server, struct err *e)
{
    if (x->stop == -ERR_TIMEOUT && x->h2.stream == 0)
        return err_set(e, ERR_TIMEOUT, "%s: no connection in time: %u ms", server, x->timeout_ms);
    if (x->stop == -ERR_TIMEOUT && !x->h2.sent)
        return err_set(e, ERR_TIMEOUT, "%s: it takes no more requests at a time: waited %u ms for one to end",
                       server, x->timeout_ms);
    if (x->stop == -ERR_TIMEOUT)
        return err_set(e, ERR_TIMEOUT, "%s: no answer in time: %u ms", server, x->timeout_ms);
    if (x->h2.encoding != NULL)
        return err_set(e, ERR_NETWORK, "%s: the answer has an encoding that was not asked for: %.40s", server,
                       x->h2.encoding);
    if (x->stop == -ERR_PARSE)
        return err_set(e, ERR_NETWORK, "%s: the compressed answer is damaged", server);
    curl_problem_describe_stop(x, e);
    return e->code;
}

static int judge_reset(struct call *x, const char *server, struct err *e)
{
    const char *code = nghttp2_http2_strerror(x->h2.reset);
    if (x->h2.refused)
        return err_set(
            e, ERR_NETWORK, "%s: it refuses the request (HTTP/2 REFUSED_STREAM or GOAWAY), the %s %s", server,
            transport_method_name(x->method),
            x->method == METHOD_POST && x->attempts > 0 ? "is not repeated" : "was repeated in vain");
    if (x->h2.broken)
        return err_set(e, ERR_NETWORK, "%s: its answer breaks the rules of HTTP/2 (%s)", server, code);
    if (x->h2.reset != 0)
        return err_set(e, ERR_NETWORK, "%s: it ended the request (HTTP/2 %s)", server, code);
    return err_set(e, ERR_NETWORK, "%s: it ended the request %s", server,
                   x->status == 0 ? "without an answer" : "in the middle of the answer");
}

int h2_call_judge(struct call *x, struct err *e)
{
    const char *server = curl_impl_transport(x)->server;
    if (x->stop != 0)
        return judge_stop(x, server, e);
    if (!x->h2.ended)
        return judge_reset(x, server, e);
    if (x->h2.gunzip != NULL && !gunzip_is_complete(x->h2.gunzip))
        return err_set(e, ERR_NETWORK, "%s: the compressed answer is damaged: its end is missing", server);
    return 0;
}
