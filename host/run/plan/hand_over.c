#include "run/plan/hand_over.h"

#include "base/strset.h"
#include "data/json_write.h"
#include "kube/fields.h"

static bool owns_replicas(const json *fields)
{
    return json_path(fields, "f:spec", "f:replicas", NULL) != NULL;
}

bool hand_over_is_due(const struct resource *r, const struct object *live, const char *manager,
                      const json *desired)
{
    size_t n;
    struct json_doc *managed;
    if (!r->has_scale || json_path(desired, "spec", "replicas", NULL) != NULL)
        return false;
    const char *text = object_managed(live, &n);
    if (json_parse(text, n, &managed, NULL) < 0)
        return false;
    bool due = owns_replicas(fields_of_manager(json_root(managed), manager, NULL));
    json_doc_free(managed);
    return due;
}

bool hand_over_is_taken(const json *object, const char *manager)
{
    for (struct json_iter i = json_iter(json_path(object, "metadata", "managedFields", NULL));
         json_next(&i);) {
        bool ours = str_eq(json_get_str(i.value, "manager"), manager) &&
                    str_eq(json_get_str(i.value, "operation"), "Apply");
        if (!ours && owns_replicas(json_get(i.value, "fieldsV1")))
            return true;
    }
    return false;
}

static void write_with(struct json_writer *w, const json *map, const char *key, const json *value)
{
    jw_object(w);
    jw_members_without(w, map, key);
    jw_member(w, key, value);
    jw_object_end(w);
}

bool hand_over_write(const json *body, const json *replicas, const json *resource_version, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    for (struct json_iter i = json_iter(body); json_next(&i);) {
        if (str_eq(i.key, "spec"))
            continue;
        jw_keyn(&w, i.key, i.key_len);
        if (str_eq(i.key, "metadata"))
            write_with(&w, i.value, "resourceVersion", resource_version);
        else
            jw_value(&w, i.value);
    }
    const json *spec = json_get(body, "spec");
    if (replicas != NULL || spec != NULL) {
        jw_key(&w, "spec");
        write_with(&w, spec, "replicas", replicas);
    }
    jw_object_end(&w);
    return !w.failed && !out->failed;
}
