#include "kube/api_status.h"

#include <stdio.h>
#include <string.h>

#include "base/strset.h"

enum {
    RETRY_AFTER_MAX_MS = 60000,
    BODY_SHOWN_MAX = 240, // of an answer that is no Status: enough to recognise a proxy's page
};

static const struct {
    const char *reason;
    enum err_code code;
} reasons[] = {
    {"AlreadyExists", ERR_EXISTS},
    {"BadRequest", ERR_BAD_REQUEST},
    {"Conflict", ERR_CONFLICT},
    {"Expired", ERR_GONE},
    {"Forbidden", ERR_FORBIDDEN},
    {"Gone", ERR_GONE},
    {"InternalError", ERR_INTERNAL},
    {"Invalid", ERR_INVALID},
    {"MethodNotAllowed", ERR_UNSUPPORTED},
    {"NotAcceptable", ERR_UNSUPPORTED},
    {"NotFound", ERR_NOT_FOUND},
    {"RequestEntityTooLarge", ERR_TOO_LARGE},
    {"ServerTimeout", ERR_TIMEOUT},
    {"ServiceUnavailable", ERR_UNAVAILABLE},
    {"Timeout", ERR_TIMEOUT},
    {"TooManyRequests", ERR_TOO_MANY},
    {"Unauthorized", ERR_UNAUTHORIZED},
    {"UnsupportedMediaType", ERR_UNSUPPORTED},
};

static enum err_code code_of(int http, const char *reason)
{
    for (size_t i = 0; i < sizeof(reasons) / sizeof(reasons[0]); i++)
        if (strcmp(reasons[i].reason, reason) == 0)
            return reasons[i].code;
    if (http == 405 || http == 406 || http == 415)
        return ERR_UNSUPPORTED;
    if (http == 502) // a gateway whose server is away
        return ERR_UNAVAILABLE;
    return http >= 400 ? err_from_http(http) : ERR_INTERNAL;
}

static void copy_member(char *out, size_t max, const json *object, const char *key)
{
    const char *s = json_get_str(object, key);
    if (s == NULL)
        return;
    size_t n = str_utf8_cut(s, strlen(s), max - 1);
    memcpy(out, s, n);
    out[n] = '\0';
}

static int64_t cap_retry(int64_t ms)
{
    return ms > RETRY_AFTER_MAX_MS ? RETRY_AFTER_MAX_MS : ms;
}

static void take_retry_after(struct api_status *s, int64_t ms)
{
    if (ms >= 0 && cap_retry(ms) > s->retry_after_ms)
        s->retry_after_ms = cap_retry(ms);
}

static void read_details(struct api_status *s, const json *details)
{
    copy_member(s->details_kind, sizeof(s->details_kind), details, "kind");
    copy_member(s->cause, sizeof(s->cause), json_at(json_get(details, "causes"), 0), "reason");
    int64_t seconds = json_get_int(details, "retryAfterSeconds", 0);
    if (seconds > 0)
        take_retry_after(s, seconds > RETRY_AFTER_MAX_MS ? RETRY_AFTER_MAX_MS : seconds * 1000);
}

static bool is_status(const json *node)
{
    return str_eq(json_get_str(node, "kind"), "Status") || json_is_string(json_get(node, "message"));
}

// The server prints whole values into its messages, with what is wrong after them: of a long one the middle
// is left out.
static void set_message(struct api_status *s, enum err_code code, const char *message)
{
    enum { WHOLE = 600, HEAD = 280, TAIL = 280 };
    size_t n = strlen(message);
    if (n <= WHOLE) {
        s->code = err_set(&s->err, code, "%s", message);
        return;
    }
    const char *tail = message + n - TAIL;
    while (((unsigned char)*tail & 0xc0) == 0x80)
        tail++;
    s->code = err_set(&s->err, code, "%.*s ... %s", (int)str_utf8_cut(message, n, HEAD), message, tail);
}

// Takes what a Status says; false if the node is none. s->http stands already, 0: take the body's.
static bool read_status(struct api_status *s, const json *node)
{
    if (!json_is_object(node) || !is_status(node))
        return false;
    copy_member(s->reason, sizeof(s->reason), node, "reason");
    s->has_reason = s->reason[0] != '\0';
    read_details(s, json_get(node, "details"));
    int64_t code = json_get_int(node, "code", 0);
    if (s->http == 0)
        s->http = code >= 400 && code <= 599 ? (int)code : 500;
    enum err_code ec = code_of(s->http, s->reason);
    const char *message = json_get_str(node, "message");
    if (message != NULL && *message != '\0')
        set_message(s, ec, message);
    else
        s->code = err_set(&s->err, ec, "HTTP %d%s%s without a message", s->http, s->has_reason ? " " : "",
                          s->reason);
    return true;
}

// A line people can read from a body of unknown origin: no tags, no control characters, single blanks, cut.
static void clean_body(char *out, size_t max, const char *body, size_t n)
{
    size_t len = 0;
    bool tag = false, html = n > 0 && body[0] == '<';
    for (size_t i = 0; i < n && len + 1 < max; i++) {
        unsigned char c = (unsigned char)body[i];
        if (html && c == '<')
            tag = true;
        bool blank = tag || c <= ' ' || c == 0x7f;
        if (tag && c == '>')
            tag = false;
        if (!blank)
            out[len++] = (char)c;
        else if (len > 0 && out[len - 1] != ' ')
            out[len++] = ' ';
    }
    while (len > 0 && out[len - 1] == ' ')
        len--;
    out[str_utf8_cut(out, len, len)] = '\0';
}

static void from_text(struct api_status *s, const char *body, size_t n)
{
    char text[BODY_SHOWN_MAX + 1] = "";
    if (body != NULL)
        clean_body(text, sizeof(text), body, n);
    if (!str_is_utf8(text, strlen(text)))
        text[0] = '\0';
    enum err_code ec = code_of(s->http, "");
    if (text[0] == '\0')
        s->code = err_set(&s->err, ec, "HTTP %d without a readable body", s->http);
    else
        s->code = err_set(&s->err, ec, "HTTP %d: %s", s->http, text);
}

void api_status_from_response(const struct transport_response *r, struct api_status *ret)
{
    struct api_status s = {
        .http = r->status, .retry_after_ms = -1, .sent_maybe = r->status == 0 && r->sent_maybe};
    if (r->status == 0 || (r->status < 400 && r->err.code != 0)) { // none, or one that broke off
        s.err = r->err;
        if (s.err.code == 0)
            err_set(&s.err, ERR_NETWORK, "no answer");
        s.code = s.err.code;
        *ret = s;
        return;
    }
    take_retry_after(&s, r->retry_after_ms);
    struct json_doc *doc = NULL;
    bool told = r->body_len > 0 && json_parse(r->body, r->body_len, &doc, NULL) == 0 &&
                read_status(&s, json_root(doc));
    if (!told)
        from_text(&s, r->body, r->body_len);
    json_doc_free(doc);
    *ret = s;
}

void api_status_from_json(const json *status, struct api_status *ret)
{
    struct api_status s = {.retry_after_ms = -1};
    if (!read_status(&s, status)) {
        s.http = 500;
        s.code = err_set(&s.err, ERR_INTERNAL, "the server reported an error without a Status");
    }
    *ret = s;
}

bool api_status_is_conflict_with_manager(const struct api_status *s)
{
    return s->http == 409 && strcmp(s->cause, "FieldManagerConflict") == 0;
}
