#include "run/report/keyed_conditions.h"

#include <string.h>

#include "base/alloc.h"
#include "base/strset.h"

enum { REF_MAX = 8 }; // references in a row

// Follows $ref, and the single member of allOf that built-in kinds wrap it into.
static const json *resolve(const json *schemas, const json *node)
{
    static const char prefix[] = "#/components/schemas/";
    for (int i = 0; i < REF_MAX; i++) {
        const json *all = json_get(node, "allOf");
        const char *ref = json_get_str(json_count(all) == 1 ? json_at(all, 0) : node, "$ref");
        if (ref == NULL)
            return node;
        if (!str_has_prefix(ref, prefix))
            return NULL;
        node = json_get(schemas, ref + sizeof prefix - 1);
    }
    return NULL;
}

static bool is_kind(const json *schema, const struct gvk *gvk)
{
    for (struct json_iter i = json_iter(json_get(schema, "x-kubernetes-group-version-kind")); json_next(&i);)
        if (str_eq(json_get_str(i.value, "group"), gvk->group) &&
            str_eq(json_get_str(i.value, "version"), gvk->version) &&
            str_eq(json_get_str(i.value, "kind"), gvk->kind))
            return true;
    return false;
}

static const json *member(const json *schemas, const json *object, const char *name)
{
    return resolve(schemas, json_path(object, "properties", name, NULL));
}

enum keyed_answer keyed_by_schema(const json *openapi, const struct gvk *gvk)
{
    const json *schemas = json_path(openapi, "components", "schemas", NULL), *kind = NULL;
    for (struct json_iter i = json_iter(schemas); kind == NULL && json_next(&i);)
        if (is_kind(i.value, gvk))
            kind = i.value;
    if (kind == NULL)
        return KEYED_UNKNOWN;
    const json *status = member(schemas, kind, "status");
    const json *conditions = member(schemas, status, "conditions");
    if (conditions == NULL) // or no schema is kept for it
        return json_true(json_get(status, "x-kubernetes-preserve-unknown-fields")) ||
                       json_true(json_get(kind, "x-kubernetes-preserve-unknown-fields"))
                   ? KEYED_UNKNOWN
                   : KEYED_NO;
    const json *keys = json_get(conditions, "x-kubernetes-list-map-keys");
    bool keyed = str_eq(json_get_str(conditions, "x-kubernetes-list-type"), "map") && json_count(keys) == 1 &&
                 str_eq(json_str(json_at(keys, 0)), "type");
    return keyed ? KEYED_YES : KEYED_NO;
}

enum keyed_answer keyed_by_owners(const json *entries)
{
    for (struct json_iter i = json_iter(entries); json_next(&i);) {
        const json *conditions = json_path(i.value, "fieldsV1", "f:status", "f:conditions", NULL);
        if (json_is_object(conditions) && json_count(conditions) == 0)
            return KEYED_NO; // owned as a whole
        for (struct json_iter k = json_iter(conditions); json_next(&k);)
            if (str_has_prefix(k.key, "k:{\"type\":"))
                return KEYED_YES;
    }
    return KEYED_UNKNOWN;
}

char *keyed_schema_path(const struct gvk *gvk)
{
    return gvk->group[0] == '\0' ? xasprintf("/openapi/v3/api/%s", gvk->version)
                                 : xasprintf("/openapi/v3/apis/%s/%s", gvk->group, gvk->version);
}
