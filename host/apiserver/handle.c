// From a request to the handler of its verb.
#include <string.h>

#include "apiserver/impl.h"
#include "apiserver/watch_hub.h"
#include "base/clock.h"
#include "base/strset.h"

enum { BODY_MAX = 3 * 1024 * 1024 };

char *handle_time(struct request *q)
{
    char text[CLOCK_TEXT_MAX];
    clock_format_time(text, clock_wall_us(q->server->options.clock));
    return arena_strdup(&q->arena, text);
}

char *handle_key(struct arena *a, const char *ns, const char *name)
{
    return arena_printf(a, "%s/%s", ns, name);
}

void handle_write_object(struct buf *out, const struct kind *k, const struct kind_version *as,
                         const struct storage_version *v)
{
    buf_addf(out, "{\"kind\":\"%s\",\"apiVersion\":\"%s\",", k->kind, as->api_version);
    buf_add(out, v->json + 1, v->len - 1);
}

// An address below a group that is not served, or with a scope the kind does not have.
static int no_such_resource(struct request *q, struct response *r)
{
    bool custom = q->kind == NULL ? q->at.group[0] != '\0' : q->kind->custom;
    if (custom)
        return failure_page_not_found(r);
    return failure_write(r, &(struct failure){.code = 404,
                                              .reason = "NotFound",
                                              .message = "the server could not find the requested resource",
                                              .has_details = true});
}

static int find_kind(struct request *q, struct response *r)
{
    q->kind = kinds_find(q->server->kinds, q->at.group, q->at.resource);
    q->version = q->kind == NULL ? NULL : kind_find_version(q->kind, q->at.version);
    if (q->version == NULL || q->at.too_long) {
        if (q->version == NULL)
            q->kind = NULL;
        return no_such_resource(q, r);
    }
    bool in_namespace = q->at.ns[0] != '\0';
    bool needs_namespace = q->kind->namespaced && q->at.name != NULL;
    if ((in_namespace && !q->kind->namespaced) || (needs_namespace && !in_namespace))
        return no_such_resource(q, r);
    return 0;
}

// 0: a subresource that is served (or none).
static int check_subresource(struct request *q, struct response *r)
{
    const char *sub = q->at.subresource;
    if (sub == NULL || (strcmp(sub, "status") == 0 && q->version->has_status))
        return 0;
    if (strcmp(sub, "status") != 0 &&
        (!q->kind->custom || (strcmp(sub, "scale") == 0 && q->version->has_scale)))
        return failure_not_implemented(r, arena_printf(&q->arena, "%s/%s", q->kind->resource, sub));
    // A custom kind without the subresource: as if the object were missing.
    if (q->kind->custom)
        return failure_not_found(r, q->kind, q->at.name);
    q->kind = NULL;
    return no_such_resource(q, r);
}

static bool asks_dry_run(const struct request *q)
{
    return strcmp(q->method, "GET") != 0 && route_param(&q->route, "dryRun") != NULL;
}

static void handle_collection(struct request *q, struct response *r)
{
    if (strcmp(q->method, "GET") == 0) {
        if (route_flag(&q->route, "watch"))
            watch_hub_open(q->server->hub, q, r);
        else
            verb_list(q, r);
    } else if (strcmp(q->method, "POST") == 0) {
        if (q->kind->namespaced && q->at.ns[0] == '\0') {
            if (q->kind->custom)
                failure_page_not_found(r);
            else
                failure_method(r, NULL, "create");
        } else {
            verb_create(q, r);
        }
    } else if (strcmp(q->method, "DELETE") == 0) {
        failure_not_implemented(r, "deletecollection");
    } else {
        failure_method(r, NULL, q->method);
    }
}

static void handle_object(struct request *q, struct response *r)
{
    if (strcmp(q->method, "GET") == 0)
        verb_get(q, r);
    else if (strcmp(q->method, "PUT") == 0)
        verb_update(q, r);
    else if (strcmp(q->method, "PATCH") == 0)
        verb_patch(q, r);
    else if (strcmp(q->method, "DELETE") == 0 && q->at.subresource == NULL)
        verb_delete(q, r);
    else if (strcmp(q->method, "POST") == 0 && q->kind->custom && q->at.subresource == NULL)
        verb_create(q, r);
    else
        failure_method(r, strcmp(q->method, "POST") == 0 ? NULL : q->kind, "delete");
}

static void dispatch(struct request *q, struct response *r)
{
    if (!route_parse(&q->arena, q->target, &q->route)) {
        failure_bad_request(r, "the address can not be read");
        return;
    }
    if (q->body_len > BODY_MAX) {
        failure_plain(r, 413, "RequestEntityTooLarge", "Request entity too large: limit is 3145728");
        return;
    }
    if (!route_resource(&q->route, &q->at) || q->at.resource == NULL) {
        discovery_doc_handle(q, r);
        return;
    }
    if (find_kind(q, r) < 0 || check_subresource(q, r) < 0)
        return;
    if (asks_dry_run(q))
        failure_not_implemented(r, "dry run");
    else if (q->at.name == NULL)
        handle_collection(q, r);
    else
        handle_object(q, r);
}

void handle_request(struct request *q, struct response *r)
{
    arena_init(&q->arena);
    dispatch(q, r);
    struct apiserver *s = q->server;
    if (s->options.on_request != NULL) {
        struct apiserver_trace t = {q->method,   q->target, q->user, q->body_len == 0 ? "" : q->body,
                                    q->body_len, r->status};
        s->options.on_request(s->options.ud, &t);
    }
    arena_fini(&q->arena);
}
