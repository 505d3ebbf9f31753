#include "kube/empties.h"

#include "base/strset.h"

bool empties_any(const json *v)
{
    if (!json_is_object(v) && !json_is_array(v))
        return false;
    if (json_count(v) == 0)
        return json_is_object(v);
    for (struct json_iter i = json_iter(v); json_next(&i);)
        if (empties_any(i.value) && !str_eq(i.key, "labels") && !str_eq(i.key, "annotations"))
            return true;
    return false;
}

static bool any_container_is_empty(const json *v)
{
    if (!json_is_object(v) && !json_is_array(v))
        return false;
    if (json_count(v) == 0)
        return true;
    for (struct json_iter i = json_iter(v); json_next(&i);)
        if (any_container_is_empty(i.value))
            return true;
    return false;
}

static int refuse(const struct schema_node *type, const struct step *at, struct err *e)
{
    struct buf path;
    buf_init(&path, ERR_TEXT_MAX / 2);
    step_path(at, &path);
    int r = err_set(e, ERR_INVALID,
                    "%s: an empty list stands where the API has %s: write {} without a mark, or leave it out",
                    path.data == NULL ? "the object" : path.data,
                    type->field_count > 0 ? "a structure" : "a map");
    buf_fini(&path);
    return r;
}

static int write_empty(struct json_writer *w, const struct schema_node *type, const json *v,
                       const struct step *at, struct err *e)
{
    if (type != NULL && type->type == SCHEMA_OBJECT && json_is_array(v))
        return refuse(type, at, e);
    if (type == NULL || type->type != SCHEMA_ARRAY) {
        jw_value(w, v);
        return 0;
    }
    jw_array(w);
    jw_array_end(w);
    return 0;
}

static int write_members(struct json_writer *w, const struct schema_node *type, const json *v,
                         const struct step *at, struct err *e)
{
    int r = 0;
    jw_object(w);
    for (struct json_iter i = json_iter(v); r == 0 && json_next(&i);) {
        struct step below = {.up = at, .name = i.key};
        jw_keyn(w, i.key, i.key_len);
        r = empties_write(w, schema_member(type, i.key, i.key_len, NULL), i.value, &below, e);
    }
    jw_object_end(w);
    return r;
}

static int write_elements(struct json_writer *w, const struct schema_node *type, const json *v,
                          const struct step *at, struct err *e)
{
    int r = 0;
    jw_array(w);
    for (struct json_iter i = json_iter(v); r == 0 && json_next(&i);) {
        struct step below = {.up = at, .index = i.index + 1};
        r = empties_write(w, schema_element(type), i.value, &below, e);
    }
    jw_array_end(w);
    return r;
}

int empties_write(struct json_writer *w, const struct schema_node *type, const json *v, const struct step *at,
                  struct err *e)
{
    bool container = json_is_object(v) || json_is_array(v);
    if (container && json_count(v) == 0)
        return write_empty(w, type, v, at, e);
    if (!container || type == NULL || !any_container_is_empty(v)) {
        jw_value(w, v);
        return 0;
    }
    return json_is_object(v) ? write_members(w, type, v, at, e) : write_elements(w, type, v, at, e);
}
