// What is served: the aggregated discovery documents, the older ones, and the addresses that are no
// resources.
#include <string.h>

#include "apiserver/impl.h"
#include "base/strset.h"
#include "data/json_write.h"

#define AGGREGATED_TYPE "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

static void write_words(struct json_writer *w, const char *key, const char *const *words)
{
    if (words[0] == NULL)
        return;
    jw_key(w, key);
    jw_array(w);
    for (size_t i = 0; i < KIND_WORDS_MAX && words[i] != NULL; i++)
        jw_str(w, words[i]);
    jw_array_end(w);
}

static const char *const all_verbs[] = {"create", "delete", "get", "list", "patch", "update", "watch", NULL};
static const char *const sub_verbs[] = {"get", "patch", "update", NULL};

static void write_response_kind(struct json_writer *w, const struct kind *k, const struct kind_version *v)
{
    jw_key(w, "responseKind");
    jw_object(w);
    jw_member_str(w, "group", k->custom ? k->group : "");
    jw_member_str(w, "version", k->custom ? v->name : "");
    jw_member_str(w, "kind", k->kind);
    jw_object_end(w);
}

static void write_scale_kind(struct json_writer *w)
{
    jw_member_str(w, "group", "autoscaling");
    jw_member_str(w, "version", "v1");
    jw_member_str(w, "kind", "Scale");
}

static void write_aggregated_subresources(struct json_writer *w, const struct kind *k,
                                          const struct kind_version *v)
{
    jw_key(w, "subresources");
    jw_array(w);
    if (v->has_status) {
        jw_object(w);
        jw_member_str(w, "subresource", "status");
        write_response_kind(w, k, v);
        write_words(w, "verbs", sub_verbs);
        jw_object_end(w);
    }
    if (v->has_scale) {
        jw_object(w);
        jw_member_str(w, "subresource", "scale");
        jw_key(w, "responseKind");
        jw_object(w);
        write_scale_kind(w);
        jw_object_end(w);
        write_words(w, "verbs", sub_verbs);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void write_aggregated_resource(struct json_writer *w, const struct kind *k,
                                      const struct kind_version *v)
{
    jw_object(w);
    jw_member_str(w, "resource", k->plural);
    write_response_kind(w, k, v);
    jw_member_str(w, "scope", k->namespaced ? "Namespaced" : "Cluster");
    jw_member_str(w, "singularResource", k->singular);
    write_words(w, "verbs", all_verbs);
    write_words(w, "shortNames", k->short_names);
    write_words(w, "categories", k->categories);
    if (v->has_status || v->has_scale)
        write_aggregated_subresources(w, k, v);
    jw_object_end(w);
}

// Versions of a group, in the order in which Kubernetes prefers them: v2, v1, v1beta1, v1alpha1, others by
// name.
struct versions {
    const char *names[64];
    size_t count;
};

static void version_rank(const char *v, int *ret_stability, int *ret_major, int *ret_minor)
{
    char word[16] = "";
    int major = 0, minor = 0;
    int n = sscanf(v, "v%d%15[a-z]%d", &major, word, &minor);
    *ret_stability = n == 1                                 ? 3
                     : n == 3 && strcmp(word, "beta") == 0  ? 2
                     : n == 3 && strcmp(word, "alpha") == 0 ? 1
                                                            : 0;
    *ret_major = major;
    *ret_minor = minor;
}

static bool is_preferred(const char *x, const char *y)
{
    int xs, xm, xn, ys, ym, yn;
    version_rank(x, &xs, &xm, &xn);
    version_rank(y, &ys, &ym, &yn);
    if (xs != ys)
        return xs > ys;
    if (xs == 0)
        return strcmp(x, y) < 0;
    return xm != ym ? xm > ym : xn > yn;
}

static void add_version(struct versions *vs, const char *name)
{
    for (size_t i = 0; i < vs->count; i++) {
        if (strcmp(vs->names[i], name) == 0)
            return;
    }
    if (vs->count == sizeof(vs->names) / sizeof(vs->names[0]))
        return;
    size_t at = vs->count++;
    for (; at > 0 && is_preferred(name, vs->names[at - 1]); at--)
        vs->names[at] = vs->names[at - 1];
    vs->names[at] = name;
}

static struct versions versions_of(struct kinds *ks, const char *group)
{
    struct versions vs = {.count = 0};
    for (struct kind *k = kinds_first(ks); k != NULL; k = k->next) {
        for (size_t i = 0; strcmp(k->group, group) == 0 && i < k->version_count; i++) {
            if (k->versions[i].served)
                add_version(&vs, k->versions[i].name);
        }
    }
    return vs;
}

static void write_aggregated_group(struct json_writer *w, struct kinds *ks, const char *group)
{
    struct versions vs = versions_of(ks, group);
    jw_object(w);
    jw_key(w, "metadata");
    jw_object(w);
    if (group[0] != '\0')
        jw_member_str(w, "name", group);
    jw_object_end(w);
    jw_key(w, "versions");
    jw_array(w);
    for (size_t i = 0; i < vs.count; i++) {
        jw_object(w);
        jw_member_str(w, "version", vs.names[i]);
        jw_key(w, "resources");
        jw_array(w);
        for (struct kind *k = kinds_first(ks); k != NULL; k = k->next) {
            const struct kind_version *v =
                strcmp(k->group, group) == 0 ? kind_find_version(k, vs.names[i]) : NULL;
            if (v != NULL)
                write_aggregated_resource(w, k, v);
        }
        jw_array_end(w);
        jw_member_str(w, "freshness", "Current");
        jw_object_end(w);
    }
    jw_array_end(w);
    jw_object_end(w);
}

// Each named group once, in order of appearance.
static bool is_first_of_group(struct kinds *ks, const struct kind *k)
{
    if (k->group[0] == '\0')
        return false;
    for (struct kind *i = kinds_first(ks); i != k; i = i->next) {
        if (strcmp(i->group, k->group) == 0)
            return false;
    }
    return versions_of(ks, k->group).count > 0;
}

static void write_aggregated(struct request *q, bool core, struct response *r)
{
    struct kinds *ks = q->server->kinds;
    struct json_writer w;
    jw_init(&w, &r->body);
    r->content_type = AGGREGATED_TYPE;
    jw_object(&w);
    jw_member_str(&w, "kind", "APIGroupDiscoveryList");
    jw_member_str(&w, "apiVersion", "apidiscovery.k8s.io/v2");
    jw_key(&w, "metadata");
    jw_object(&w);
    jw_object_end(&w);
    jw_key(&w, "items");
    jw_array(&w);
    if (core)
        write_aggregated_group(&w, ks, "");
    for (struct kind *k = kinds_first(ks); !core && k != NULL; k = k->next) {
        if (is_first_of_group(ks, k))
            write_aggregated_group(&w, ks, k->group);
    }
    jw_array_end(&w);
    jw_object_end(&w);
}

// ---- the older documents

static void write_group_version(struct json_writer *w, struct arena *a, const char *group,
                                const char *version)
{
    jw_object(w);
    jw_member_str(w, "groupVersion", arena_printf(a, "%s/%s", group, version));
    jw_member_str(w, "version", version);
    jw_object_end(w);
}

static void write_group(struct json_writer *w, struct request *q, const char *group, bool alone)
{
    struct versions vs = versions_of(q->server->kinds, group);
    jw_object(w);
    if (alone) {
        jw_member_str(w, "kind", "APIGroup");
        jw_member_str(w, "apiVersion", "v1");
    }
    jw_member_str(w, "name", group);
    jw_key(w, "versions");
    jw_array(w);
    for (size_t i = 0; i < vs.count; i++)
        write_group_version(w, &q->arena, group, vs.names[i]);
    jw_array_end(w);
    jw_key(w, "preferredVersion");
    write_group_version(w, &q->arena, group, vs.names[0]);
    jw_object_end(w);
}

static void write_groups(struct request *q, struct response *r)
{
    struct kinds *ks = q->server->kinds;
    struct json_writer w;
    jw_init(&w, &r->body);
    jw_object(&w);
    jw_member_str(&w, "kind", "APIGroupList");
    jw_member_str(&w, "apiVersion", "v1");
    jw_key(&w, "groups");
    jw_array(&w);
    for (struct kind *k = kinds_first(ks); k != NULL; k = k->next) {
        if (is_first_of_group(ks, k))
            write_group(&w, q, k->group, false);
    }
    jw_array_end(&w);
    jw_object_end(&w);
}

static void write_core_versions(struct response *r)
{
    struct json_writer w;
    jw_init(&w, &r->body);
    jw_object(&w);
    jw_member_str(&w, "kind", "APIVersions");
    jw_key(&w, "versions");
    jw_array(&w);
    jw_str(&w, "v1");
    jw_array_end(&w);
    jw_key(&w, "serverAddressByClientCIDRs");
    jw_array(&w);
    jw_array_end(&w);
    jw_object_end(&w);
}

static void write_resource(struct json_writer *w, const struct kind *k, const char *name,
                           const char *singular, const char *const *verbs, bool words)
{
    jw_object(w);
    jw_member_str(w, "name", name);
    jw_member_str(w, "singularName", singular);
    jw_member_bool(w, "namespaced", k->namespaced);
    jw_member_str(w, "kind", k->kind);
    write_words(w, "verbs", verbs);
    if (words) {
        write_words(w, "shortNames", k->short_names);
        write_words(w, "categories", k->categories);
    }
    jw_object_end(w);
}

static void write_legacy_scale(struct json_writer *w, struct request *q, const struct kind *k)
{
    jw_object(w);
    jw_member_str(w, "name", arena_printf(&q->arena, "%s/scale", k->plural));
    jw_member_str(w, "singularName", "");
    jw_member_bool(w, "namespaced", k->namespaced);
    write_scale_kind(w);
    write_words(w, "verbs", sub_verbs);
    jw_object_end(w);
}

static void write_resources(struct request *q, const char *group, const char *version, struct response *r)
{
    struct json_writer w;
    bool any = false;
    jw_init(&w, &r->body);
    jw_object(&w);
    jw_member_str(&w, "kind", "APIResourceList");
    if (group[0] != '\0')
        jw_member_str(&w, "apiVersion", "v1");
    jw_member_str(&w, "groupVersion",
                  group[0] == '\0' ? version : arena_printf(&q->arena, "%s/%s", group, version));
    jw_key(&w, "resources");
    jw_array(&w);
    for (struct kind *k = kinds_first(q->server->kinds); k != NULL; k = k->next) {
        const struct kind_version *v = strcmp(k->group, group) == 0 ? kind_find_version(k, version) : NULL;
        if (v == NULL)
            continue;
        any = true;
        write_resource(&w, k, k->plural, k->singular, all_verbs, true);
        if (v->has_status)
            write_resource(&w, k, arena_printf(&q->arena, "%s/status", k->plural), "", sub_verbs, false);
        if (v->has_scale)
            write_legacy_scale(&w, q, k);
    }
    jw_array_end(&w);
    jw_object_end(&w);
    if (any)
        return;
    const struct kind *k = kinds_first(q->server->kinds);
    while (k != NULL && (k->custom || strcmp(k->group, group) != 0))
        k = k->next;
    if (k == NULL)
        failure_page_not_found(r);
    else // a built-in group without this version
        failure_write(r, &(struct failure){.code = 404,
                                           .reason = "NotFound",
                                           .message = "the server could not find the requested resource",
                                           .has_details = true});
}

static void write_version(struct response *r)
{
    struct json_writer w;
    jw_init(&w, &r->body);
    jw_object(&w);
    jw_member_str(&w, "major", "1");
    jw_member_str(&w, "minor", "36");
    jw_member_str(&w, "gitVersion", "v1.36.0+tidelock");
    jw_member_str(&w, "gitTreeState", "clean");
    jw_member_str(&w, "platform", "linux/amd64");
    jw_object_end(&w);
}

static bool wants_aggregated(const struct request *q)
{
    return q->accept != NULL && strstr(q->accept, "as=APIGroupDiscoveryList") != NULL &&
           strstr(q->accept, "v=v2") != NULL && strstr(q->accept, "v=v2beta1") == NULL;
}

static void handle_api(struct request *q, struct response *r)
{
    const struct route_resource *at = &q->at;
    bool core = strcmp(q->route.segments[0], "api") == 0;
    if (q->route.segment_count == 1 && wants_aggregated(q)) {
        write_aggregated(q, core, r);
    } else if (q->route.segment_count == 1) {
        if (core)
            write_core_versions(r);
        else
            write_groups(q, r);
    } else if (core || at->version != NULL) {
        write_resources(q, at->group, at->version, r);
    } else if (kinds_has_group(q->server->kinds, at->group) &&
               versions_of(q->server->kinds, at->group).count > 0) {
        struct json_writer w;
        jw_init(&w, &r->body);
        write_group(&w, q, at->group, true);
    } else {
        failure_page_not_found(r);
    }
}

void discovery_doc_handle(struct request *q, struct response *r)
{
    static const char *const health[] = {"readyz", "healthz", "livez"}, *const later[] = {"metrics", "logs"};
    const char *first = q->route.segment_count == 0 ? "" : q->route.segments[0];
    for (size_t i = 0; i < 3; i++) {
        if (strcmp(first, health[i]) == 0) {
            r->content_type = "text/plain; charset=utf-8";
            buf_add_str(&r->body, "ok");
            return;
        }
        if (i < 2 && strcmp(first, later[i]) == 0) {
            failure_not_implemented(r, q->target);
            return;
        }
    }
    if (strcmp(first, "version") == 0)
        write_version(r);
    else if (strcmp(first, "openapi") == 0)
        openapi_doc_handle(q, r);
    else if (strcmp(first, "api") == 0 || strcmp(first, "apis") == 0)
        handle_api(q, r);
    else
        failure_page_not_found(r);
}
