// OpenAPI v3: the schemas of custom kinds as their definitions give them. Built-in kinds have none here: they
// are merged by a table.
#include <string.h>

#include "apiserver/impl.h"
#include "base/hash.h"
#include "base/strset.h"
#include "data/json_write.h"

#define META "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

static const char object_meta[] =
    "{\"type\":\"object\",\"properties\":{\"annotations\":{\"type\":\"object\",\"additionalProperties\":{"
    "\"type\":\"string\",\"default\":\"\"}},\"creationTimestamp\":{\"type\":\"string\",\"format\":\"date-"
    "time\"},"
    "\"deletionGracePeriodSeconds\":{\"type\":\"integer\",\"format\":\"int64\"},\"deletionTimestamp\":{"
    "\"type\":\"string\",\"format\":\"date-time\"},\"generateName\":{\"type\":\"string\"},\"generation\":{"
    "\"type\":\"integer\",\"format\":\"int64\"},\"managedFields\":{\"type\":\"array\",\"items\":{\"type\":"
    "\"object\"}},\"resourceVersion\":{\"type\":\"string\"},\"selfLink\":{\"type\":\"string\"},\"uid\":{"
    "\"type\":\"string\"},\"finalizers\":{\"type\":\"array\",\"items\":{\"type\":"
    "\"string\",\"default\":\"\"},\"x-kubernetes-list-type\":\"set\"},\"labels\":{\"type\":\"object\","
    "\"additionalProperties\":{\"type\":\"string\",\"default\":\"\"}},\"name\":{\"type\":\"string\"},"
    "\"namespace\":{\"type\":\"string\"},\"ownerReferences\":{\"type\":\"array\",\"items\":{\"type\":"
    "\"object\"},\"x-kubernetes-list-map-keys\":[\"uid\"],\"x-kubernetes-list-type\":\"map\"}}}";

static const char text_type[] = "{\"type\":\"string\"}";

// "test.x.v1.Widget"
static char *component_name(struct arena *a, const struct kind *k, const struct kind_version *v)
{
    char *name = arena_strdup(a, "");
    for (const char *at = k->group; *at != '\0';) {
        size_t n = strcspn(at, ".");
        name = arena_printf(a, "%.*s%s%s", (int)n, at, *name == '\0' ? "" : ".", name);
        at += n + (at[n] == '.');
    }
    return arena_printf(a, "%s.%s.%s", name, v->name, k->kind);
}

static const json *schema_of(const json *crd, const char *version)
{
    for (struct json_iter i = json_iter(json_path(crd, "spec", "versions", NULL)); json_next(&i);)
        if (str_eq(json_get_str(i.value, "name"), version))
            return json_path(i.value, "schema", "openAPIV3Schema", NULL);
    return NULL;
}

static void write_properties(struct json_writer *w, const json *properties)
{
    jw_key(w, "properties");
    jw_object(w);
    for (struct json_iter i = json_iter(properties); json_next(&i);)
        if (!str_eq(i.key, "metadata") && !str_eq(i.key, "apiVersion") && !str_eq(i.key, "kind"))
            jw_member(w, i.key, i.value);
    jw_key(w, "apiVersion");
    jw_raw(w, text_type, sizeof text_type - 1);
    jw_key(w, "kind");
    jw_raw(w, text_type, sizeof text_type - 1);
    jw_key(w, "metadata");
    jw_object(w);
    jw_member_str(w, "$ref", "#/components/schemas/" META);
    jw_object_end(w);
    jw_object_end(w);
}

static void write_kind(struct json_writer *w, const struct kind *k, const struct kind_version *v,
                       const json *schema)
{
    jw_object(w);
    for (struct json_iter i = json_iter(schema); json_next(&i);)
        if (!str_eq(i.key, "properties"))
            jw_member(w, i.key, i.value);
    write_properties(w, json_get(schema, "properties"));
    jw_key(w, "x-kubernetes-group-version-kind");
    jw_array(w);
    jw_object(w);
    jw_member_str(w, "group", k->group);
    jw_member_str(w, "kind", k->kind);
    jw_member_str(w, "version", v->name);
    jw_object_end(w);
    jw_array_end(w);
    jw_object_end(w);
}

static void write_component(struct json_writer *w, struct request *q, const struct kind *k,
                            const struct kind_version *v)
{
    const struct kind *definitions =
        kinds_find(q->server->kinds, "apiextensions.k8s.io", "customresourcedefinitions");
    char *key = handle_key(&q->arena, "", arena_printf(&q->arena, "%s.%s", k->plural, k->group));
    const struct storage_version *stored = storage_get(definitions->storage, key);
    struct json_doc *crd;
    if (stored == NULL || json_parse(stored->json, stored->len, &crd, NULL) < 0)
        return;
    jw_key(w, component_name(&q->arena, k, v));
    write_kind(w, k, v, schema_of(json_root(crd), v->name));
    json_doc_free(crd);
}

// The document of a group and version; false: none of its kinds is custom.
static bool write_document(struct request *q, const char *group, const char *version, struct buf *out)
{
    struct json_writer w;
    bool any = false;
    jw_init(&w, out);
    jw_object(&w);
    jw_member_str(&w, "openapi", "3.0.0");
    jw_key(&w, "components");
    jw_object(&w);
    jw_key(&w, "schemas");
    jw_object(&w);
    jw_key(&w, META);
    jw_raw(&w, object_meta, sizeof object_meta - 1);
    for (struct kind *k = kinds_first(q->server->kinds); k != NULL; k = k->next) {
        const struct kind_version *v =
            k->custom && strcmp(k->group, group) == 0 ? kind_find_version(k, version) : NULL;
        if (v == NULL)
            continue;
        write_component(&w, q, k, v);
        any = true;
    }
    jw_object_end(&w);
    jw_object_end(&w);
    jw_object_end(&w);
    return any;
}

static void write_entry(struct json_writer *w, struct request *q, const struct kind *k, const char *version)
{
    struct buf text;
    buf_init(&text, RESPONSE_BODY_MAX);
    write_document(q, k->group, version, &text);
    char *path = arena_printf(&q->arena, "apis/%s/%s", k->group, version);
    jw_key(w, path);
    jw_object(w);
    jw_member_str(w, "serverRelativeURL",
                  arena_printf(&q->arena, "/openapi/v3/%s?hash=%016llX", path,
                               (unsigned long long)hash_fnv1a(HASH_FNV_START, text.data, text.len)));
    jw_object_end(w);
    buf_fini(&text);
}

static void write_index(struct request *q, struct buf *out)
{
    struct json_writer w;
    struct strset told;
    strset_init(&told);
    jw_init(&w, out);
    jw_object(&w);
    jw_key(&w, "paths");
    jw_object(&w);
    for (struct kind *k = kinds_first(q->server->kinds); k != NULL; k = k->next)
        for (size_t i = 0; k->custom && i < k->version_count; i++)
            if (k->versions[i].served && strset_add(&told, k->versions[i].api_version))
                write_entry(&w, q, k, k->versions[i].name);
    jw_object_end(&w);
    jw_object_end(&w);
    strset_fini(&told);
}

// "/openapi/v3", "/openapi/v3/apis/GROUP/VERSION"
void openapi_doc_handle(struct request *q, struct response *r)
{
    const struct route *at = &q->route;
    if (at->segment_count < 2 || strcmp(at->segments[1], "v3") != 0)
        failure_not_implemented(r, q->target);
    else if (at->segment_count == 2)
        write_index(q, &r->body);
    else if (at->segment_count != 5 || strcmp(at->segments[2], "apis") != 0 ||
             !write_document(q, at->segments[3], at->segments[4], &r->body)) {
        buf_reset(&r->body);
        failure_page_not_found(r);
    }
}
