#include "apiserver/route.h"

#include <string.h>

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// NULL: a broken escape or a NUL.
static char *decode(struct arena *a, const char *s, size_t n, bool plus)
{
    char *out = arena_zalloc(a, n + 1), *put = out;
    for (size_t i = 0; i < n; i++) {
        char c = s[i];
        if (c == '%') {
            int high = i + 2 < n ? hex(s[i + 1]) : -1;
            int low = high >= 0 ? hex(s[i + 2]) : -1;
            if (low < 0 || (high == 0 && low == 0))
                return NULL;
            c = (char)(high * 16 + low);
            i += 2;
        } else if (c == '+' && plus) {
            c = ' ';
        }
        *put++ = c;
    }
    return out;
}

static bool parse_path(struct arena *a, const char *path, size_t n, struct route *r)
{
    const char *end = path + n;
    for (const char *at = path; at < end;) {
        at++; // the slash
        size_t len = 0;
        while (at + len < end && at[len] != '/')
            len++;
        if (len > 0) {
            char *segment = decode(a, at, len, false);
            if (segment == NULL || r->segment_count == ROUTE_SEGMENTS_MAX)
                return false;
            r->segments[r->segment_count++] = segment;
        }
        at += len;
    }
    return true;
}

static bool parse_query(struct arena *a, const char *query, struct route *r)
{
    while (*query != '\0') {
        size_t n = strcspn(query, "&");
        const char *equals = memchr(query, '=', n);
        size_t name_len = equals == NULL ? n : (size_t)(equals - query);
        if (n > 0) {
            const char *value = equals == NULL ? "" : equals + 1;
            struct route_param p = {decode(a, query, name_len, true),
                                    decode(a, value, equals == NULL ? 0 : n - name_len - 1, true)};
            if (p.name == NULL || p.value == NULL || r->param_count == ROUTE_PARAMS_MAX)
                return false;
            r->params[r->param_count++] = p;
        }
        query += n;
        query += *query == '&';
    }
    return true;
}

bool route_parse(struct arena *a, const char *target, struct route *ret)
{
    *ret = (struct route){0};
    if (target[0] != '/')
        return false;
    size_t n = strcspn(target, "?");
    return parse_path(a, target, n, ret) && (target[n] == '\0' || parse_query(a, target + n + 1, ret));
}

const char *route_param(const struct route *r, const char *name)
{
    for (size_t i = 0; i < r->param_count; i++) {
        if (strcmp(r->params[i].name, name) == 0)
            return r->params[i].value;
    }
    return NULL;
}

bool route_flag(const struct route *r, const char *name)
{
    const char *v = route_param(r, name);
    return v != NULL && strcmp(v, "false") != 0 && strcmp(v, "0") != 0;
}

bool route_resource(const struct route *r, struct route_resource *ret)
{
    struct route_resource out = {.group = "", .version = NULL, .ns = ""};
    const char *const *s = r->segments;
    size_t n = r->segment_count, at = 1;
    if (n == 0 || (strcmp(s[0], "api") != 0 && strcmp(s[0], "apis") != 0))
        return false;
    if (strcmp(s[0], "apis") == 0)
        out.group = at < n ? s[at++] : NULL;
    out.version = at < n ? s[at++] : NULL;
    // namespaces/NAME[/status|finalize] is the namespace itself, anything longer is in it
    bool in_namespace = n - at >= 3 && strcmp(s[at], "namespaces") == 0 &&
                        !(out.group != NULL && out.group[0] == '\0' && n - at == 3 &&
                          (strcmp(s[at + 2], "status") == 0 || strcmp(s[at + 2], "finalize") == 0));
    if (at < n && in_namespace) {
        out.ns = s[at + 1];
        at += 2;
    }
    out.resource = at < n ? s[at++] : NULL;
    out.name = at < n ? s[at++] : NULL;
    out.subresource = at < n ? s[at++] : NULL;
    out.too_long = at < n;
    *ret = out;
    return true;
}
