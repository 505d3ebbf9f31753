#include "apiserver/apiserver.h"

#include <stdlib.h>
#include <string.h>

#include "apiserver/impl.h"
#include "apiserver/transport_local.h"
#include "apiserver/watch_hub.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/strset.h"

static void add_namespaces(struct apiserver *s)
{
    static const char *const names[] = {"default", "kube-system", "tidelock-system"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        char *body = xasprintf(
            "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"%s\"}}", names[i]);
        int status = apiserver_request(s, "kube-apiserver", "POST", "/api/v1/namespaces", "application/json",
                                       body, NULL);
        ASSERT(status == 201);
        free(body);
    }
}

struct apiserver *apiserver_new(const struct apiserver_options *o)
{
    struct apiserver *s = xcalloc(1, sizeof(*s));
    s->options = *o;
    if (s->options.clock == NULL)
        s->options.clock = loop_clock(o->loop);
    s->options.on_request = NULL; // what it does to itself is no request
    LIST_INIT(&s->transports);
    s->kinds = kinds_new();
    s->hub = watch_hub_new(s);
    add_namespaces(s);
    s->options.on_request = o->on_request;
    return s;
}

void apiserver_free(struct apiserver *s)
{
    if (s == NULL)
        return;
    while (!LIST_EMPTY(&s->transports))
        transport_local_detach(LIST_FIRST(&s->transports));
    watch_hub_free(s->hub);
    kinds_free(s->kinds);
    free(s);
}

struct transport *apiserver_transport(struct apiserver *s, const char *user)
{
    return transport_local_new(s, user);
}

void apiserver_set_latency(struct apiserver *s, uint64_t (*fn)(void *ud, const struct transport_request *r),
                           void *ud)
{
    s->latency = fn;
    s->latency_ud = ud;
}

void apiserver_set_fault(struct apiserver *s,
                         enum apiserver_fault (*fn)(void *ud, const struct apiserver_passage *p,
                                                    struct apiserver_answer *ret_answer),
                         void *ud)
{
    s->fault = fn;
    s->fault_ud = ud;
}

void apiserver_compact(struct apiserver *s)
{
    for (struct kind *k = kinds_first(s->kinds); k != NULL; k = k->next)
        storage_compact(k->storage, s->resource_version);
}

void apiserver_close_watches(struct apiserver *s)
{
    watch_hub_end_kind(s->hub, NULL);
}

uint64_t apiserver_resource_version(const struct apiserver *s)
{
    return s->resource_version;
}

// "apps/v1" -> kind and version; "v1" is core.
static struct kind *find_kind(struct apiserver *s, const char *api_version, const char *plural,
                              const char *kind, const struct kind_version **ret)
{
    for (struct kind *k = kinds_first(s->kinds); k != NULL; k = k->next) {
        if (plural != NULL ? !str_eq(k->plural, plural) : !str_eq(k->kind, kind))
            continue;
        for (size_t i = 0; i < k->version_count; i++) {
            if (k->versions[i].served && str_eq(k->versions[i].api_version, api_version)) {
                *ret = &k->versions[i];
                return k;
            }
        }
    }
    return NULL;
}

struct json_doc *apiserver_get_json(struct apiserver *s, const char *api_version, const char *plural,
                                    const char *ns, const char *name)
{
    const struct kind_version *as;
    struct kind *k = find_kind(s, api_version, plural, NULL, &as);
    struct arena a;
    struct buf text;
    struct json_doc *doc = NULL;
    if (k == NULL)
        return NULL;
    arena_init(&a);
    buf_init(&text, RESPONSE_BODY_MAX);
    const struct storage_version *v = storage_get(k->storage, handle_key(&a, ns == NULL ? "" : ns, name));
    if (v != NULL) {
        handle_write_object(&text, k, as, v);
        int failed = json_parse(text.data, text.len, &doc, NULL);
        ASSERT(failed == 0);
    }
    buf_fini(&text);
    arena_fini(&a);
    return doc;
}

int apiserver_request(struct apiserver *s, const char *user, const char *method, const char *target,
                      const char *content_type, const char *body, char **ret_body)
{
    struct request q = {
        .server = s,
        .method = method,
        .target = target,
        .user = user,
        .content_type = content_type == NULL ? "application/json" : content_type,
        .accept = "application/json",
        .body = body == NULL ? "" : body,
        .body_len = body == NULL ? 0 : strlen(body),
    };
    struct response r;
    response_init(&r);
    handle_request(&q, &r);
    watch_hub_close(r.watcher);
    int status = r.status;
    if (ret_body != NULL)
        *ret_body = buf_take(&r.body, NULL);
    response_fini(&r);
    return status;
}

int apiserver_apply_json(struct apiserver *s, const char *user, const char *text, char **ret_body)
{
    struct json_doc *doc;
    const struct kind_version *as = NULL;
    int status = 400;
    if (ret_body != NULL)
        *ret_body = xstrdup("");
    if (json_parse(text, strlen(text), &doc, NULL) < 0)
        return status;
    const json *root = json_root(doc);
    const char *name = json_str(json_path(root, "metadata", "name", NULL)),
               *ns = json_str(json_path(root, "metadata", "namespace", NULL));
    struct kind *k = find_kind(s, json_get_str(root, "apiVersion"), NULL, json_get_str(root, "kind"), &as);
    if (k == NULL) {
        status = 404;
    } else if (name != NULL) {
        char *scope = k->namespaced ? xasprintf("/namespaces/%s", ns == NULL ? "default" : ns) : xstrdup("");
        char *target =
            xasprintf("/%s/%s%s/%s/%s?fieldManager=%s&force=true", k->group[0] == '\0' ? "api" : "apis",
                      as->api_version, scope, k->plural, name, user);
        if (ret_body != NULL)
            free(*ret_body);
        status = apiserver_request(s, user, "PATCH", target, "application/apply-patch+yaml", text, ret_body);
        free(target);
        free(scope);
    }
    json_doc_free(doc);
    return status;
}
