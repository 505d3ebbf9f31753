// GET of one object and of a collection.
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "apiserver/filter.h"
#include "apiserver/impl.h"
#include "base/strset.h"
#include "data/digest.h"
#include "data/json_write.h"

void verb_get(struct request *q, struct response *r)
{
    const struct storage_version *v =
        storage_get(q->kind->storage, handle_key(&q->arena, q->at.ns, q->at.name));
    if (v == NULL)
        failure_not_found(r, q->kind, q->at.name);
    else
        handle_write_object(&r->body, q->kind, q->version, v);
}

struct list_options {
    uint64_t resource_version; // 0: now
    bool exact;
    uint64_t limit;    // 0: all
    const char *after; // key after which to go on, or NULL
};

static int parse_rv(struct request *q, const char *text, uint64_t *ret, struct response *r)
{
    char *end;
    errno = 0;
    unsigned long long v = strtoull(text, &end, 10);
    if (*end != '\0' || text[0] < '0' || text[0] > '9' || errno != 0)
        return failure_bad_request(
            r,
            "invalid resource version: resourceVersion: Invalid value: \"%s\": strconv.ParseUint: "
            "parsing \"%s\": invalid syntax",
            text, text);
    (void)q;
    *ret = v;
    return 0;
}

// A continue token is base64 of {"v":"meta.k8s.io/v1","rv":R,"start":KEY}.
static int parse_continue(struct request *q, const char *token, struct list_options *o, struct response *r)
{
    struct buf text;
    struct json_doc *doc = NULL;
    buf_init(&text, 4096);
    int failed = base64_decode(token, strlen(token), &text, NULL) < 0 ||
                 json_parse(text.data == NULL ? "" : text.data, text.len, &doc, NULL) < 0;
    const json *root = failed ? NULL : json_root(doc);
    const char *start = json_get_str(root, "start");
    int64_t rv = json_get_int(root, "rv", -1);
    if (start == NULL || rv <= 0) {
        failed = 1;
    } else {
        o->after = arena_strdup(&q->arena, start);
        o->resource_version = (uint64_t)rv;
        o->exact = true;
    }
    json_doc_free(doc);
    buf_fini(&text);
    return failed ? failure_bad_request(r, "invalid continue token: continue key is not valid") : 0;
}

static int list_forbidden(struct response *r, const char *field, const char *why)
{
    return failure_invalid(r, "meta.k8s.io", "ListOptions", "", field, "FieldValueForbidden", why);
}

static int read_list_options(struct request *q, struct list_options *o, struct response *r)
{
    const char *rv = route_param(&q->route, "resourceVersion"),
               *match = route_param(&q->route, "resourceVersionMatch");
    const char *token = route_param(&q->route, "continue"), *limit = route_param(&q->route, "limit");
    bool has_rv = rv != NULL && rv[0] != '\0', has_match = match != NULL && match[0] != '\0',
         has_token = token != NULL && token[0] != '\0';
    *o = (struct list_options){0};
    o->limit = limit == NULL ? 0 : strtoull(limit, NULL, 10);
    if (route_param(&q->route, "sendInitialEvents") != NULL)
        return list_forbidden(r, "sendInitialEvents", "Forbidden: sendInitialEvents is forbidden for list");
    if (has_match && !has_rv)
        return list_forbidden(
            r, "resourceVersionMatch",
            "Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided");
    if (has_token && parse_continue(q, token, o, r) < 0)
        return -1;
    if (has_token && has_rv && strcmp(rv, "0") != 0)
        return failure_bad_request(r, "specifying resource version is not allowed when using continue");
    if (has_token)
        return 0;
    if (has_rv && parse_rv(q, rv, &o->resource_version, r) < 0)
        return -1;
    o->exact = str_eq(match, "Exact");
    return 0;
}

static void too_large(struct request *q, uint64_t asked, struct response *r)
{
    struct failure_cause cause = {"ResourceVersionTooLarge", "Too large resource version", NULL};
    failure_write(r, &(struct failure){
                         .code = 504,
                         .reason = "Timeout",
                         .message = arena_printf(
                             &q->arena, "Timeout: Too large resource version: %llu, current: %llu",
                             (unsigned long long)asked, (unsigned long long)q->server->resource_version),
                         .has_details = true,
                         .causes = &cause,
                         .cause_count = 1,
                         .retry_after_s = 1,
                     });
}

static char *make_continue(struct request *q, uint64_t rv, const char *last)
{
    struct buf token;
    struct tree *t = tree_map(&q->arena);
    tree_set_str(&q->arena, t, "v", "meta.k8s.io/v1");
    tree_set(&q->arena, t, "rv", tree_int(&q->arena, (int64_t)rv));
    tree_set_str(&q->arena, t, "start", last);
    const char *text = tree_print(&q->arena, t);
    buf_init(&token, 8192);
    base64_encode(text, strlen(text), &token);
    char *out = arena_strdup(&q->arena, token.data == NULL ? "" : token.data);
    buf_fini(&token);
    return out;
}

static void expired(struct request *q, const struct list_options *o, struct response *r)
{
    failure_write(
        r,
        &(struct failure){
            .code = 410,
            .reason = "Expired",
            .message =
                o->after != NULL
                    ? "The provided continue parameter is too old to display a consistent list result. You "
                      "can start a new list without the continue parameter, or use the continue token in "
                      "this response to retrieve the remainder of the results."
                    : "The resourceVersion for the provided list is too old.",
            .continue_ = o->after == NULL ? NULL : make_continue(q, q->server->resource_version, o->after),
        });
}

static void write_list_head(struct json_writer *w, const struct request *q, uint64_t rv, const char *token,
                            size_t left)
{
    char text[24];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)rv);
    jw_member_str(w, "kind", q->kind->list_kind);
    jw_member_str(w, "apiVersion", q->version->api_version);
    jw_key(w, "metadata");
    jw_object(w);
    jw_member_str(w, "resourceVersion", text);
    if (token != NULL || q->kind->custom) {
        jw_member_str(w, "continue", token == NULL ? "" : token);
        if (left > 0)
            jw_member_int(w, "remainingItemCount", (int64_t)left);
    }
    jw_object_end(w);
}

// Items of built-in kinds carry no apiVersion and kind.
static void write_item(struct buf *out, const struct request *q, const struct storage_version *v)
{
    if (q->kind->custom)
        handle_write_object(out, q->kind, q->version, v);
    else
        buf_add(out, v->json, v->len);
}

static void write_list(struct request *q, const struct list_options *o, const struct filter *f,
                       const struct storage_list *l, struct response *r)
{
    uint64_t rv = o->exact ? o->resource_version : q->server->resource_version;
    struct buf items;
    const char *last = NULL;
    size_t count = 0, i = 0;
    buf_init(&items, RESPONSE_BODY_MAX);
    for (; i < l->count && (o->limit == 0 || count < o->limit); i++) {
        const struct storage_entry *it = &l->items[i];
        if ((o->after != NULL && strcmp(it->key, o->after) <= 0) || !filter_matches(f, it->key, it->version))
            continue;
        if (count++ > 0)
            buf_add_char(&items, ',');
        write_item(&items, q, it->version);
        last = it->key;
    }
    size_t left = 0;
    for (size_t j = i; j < l->count; j++)
        left += filter_matches(f, l->items[j].key, l->items[j].version);
    const char *token = left > 0 && last != NULL ? make_continue(q, rv, last) : NULL;
    struct json_writer w;
    jw_init(&w, &r->body);
    jw_object(&w);
    write_list_head(&w, q, rv, token, filter_is_open(f) ? left : 0);
    jw_key(&w, "items");
    buf_add_char(&r->body, '[');
    buf_add(&r->body, items.data == NULL ? "" : items.data, items.len);
    buf_add_str(&r->body, "]}");
    buf_fini(&items);
    if (r->body.failed)
        failure_plain(r, 500, "InternalError",
                      "Internal error occurred: the list is too long for one answer");
}

void verb_list(struct request *q, struct response *r)
{
    struct list_options o;
    struct filter f;
    struct storage_list l;
    if (read_list_options(q, &o, r) < 0)
        return;
    if (o.resource_version > q->server->resource_version) {
        too_large(q, o.resource_version, r);
        return;
    }
    if (filter_init(&f, q, r) == 0) {
        if (!storage_list(q->kind->storage, f.prefix, o.exact ? o.resource_version : 0, &l)) {
            expired(q, &o, r);
        } else {
            write_list(q, &o, &f, &l, r);
            storage_list_fini(&l);
        }
    }
    filter_fini(&f);
}
