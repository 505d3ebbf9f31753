#include "kube/schema_check.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nearest.h"
#include "data/json_write.h"

enum { GOT_MAX = 60 };

static const char *const type_names[] = {
    [SCHEMA_OBJECT] = "object",   [SCHEMA_ARRAY] = "array",   [SCHEMA_STRING] = "string",
    [SCHEMA_INTEGER] = "integer", [SCHEMA_NUMBER] = "number", [SCHEMA_BOOLEAN] = "boolean",
};

static bool is_whole(const json *v)
{
    int64_t n;
    double d = json_double(v);
    return json_is_number(v) && (json_int(v, &n) == 0 || d == floor(d));
}

static bool fits(const struct schema_node *type, const json *v)
{
    switch (type->type) {
    case SCHEMA_OBJECT: // one of which nothing is known may stand for anything (runtime.RawExtension)
        return json_is_object(v) || (type->field_count == 0 && type->items == NULL) ||
               (json_is_array(v) && json_count(v) == 0); // that has a message of its own
    case SCHEMA_ARRAY:
        return json_is_array(v) || (json_is_object(v) && json_count(v) == 0);
    case SCHEMA_STRING:
        return json_is_string(v);
    case SCHEMA_INTEGER:
        return is_whole(v);
    case SCHEMA_NUMBER:
        return json_is_number(v);
    case SCHEMA_BOOLEAN:
        return json_is_bool(v);
    default:
        return true;
    }
}

static char *path_of(const struct step *at)
{
    struct buf path;
    buf_init(&path, ERR_TEXT_MAX / 2);
    step_path(at, &path);
    char *text = path.data == NULL ? xstrdup("the object") : xstrdup(path.data);
    buf_fini(&path);
    return text;
}

static bool is_secret(const struct schema_node *type)
{
    return type != NULL && (type->meaning == SCHEMA_BYTES || type->meaning == SCHEMA_SECRET_TEXT);
}

// What stands there instead; values of Secrets are told by their type alone.
static void say_got(const struct schema_node *type, const json *v, char out[GOT_MAX])
{
    char *text = NULL;
    bool secret = is_secret(type) || is_secret(type->items); // the map of them, too
    if (json_is_object(v) || json_is_array(v))
        snprintf(out, GOT_MAX, "%s", json_is_object(v) ? "an object" : "an array");
    else if (secret)
        snprintf(out, GOT_MAX, "%s",
                 json_is_string(v) ? "a text"
                 : json_is_bool(v) ? "a boolean"
                                   : "a number");
    else if (json_print(v, GOT_MAX - 1, &text, NULL, NULL) == 0)
        snprintf(out, GOT_MAX, "%s", text);
    else
        snprintf(out, GOT_MAX, "a text of %zu bytes", json_str_len(v));
    free(text);
}

static int refuse_type(const struct schema_node *type, const json *v, const struct step *at, struct err *e)
{
    char got[GOT_MAX];
    char *path = path_of(at);
    say_got(type, v, got);
    int r = err_set(e, ERR_INVALID, "%s: expected %s, got %s", path, type_names[type->type], got);
    free(path);
    return r;
}

static const char *nearest_field(const struct schema_node *type, const char *name)
{
    const char **names = xcalloc((size_t)type->field_count + 1, sizeof names[0]);
    for (size_t i = 0; i < type->field_count; i++)
        names[i] = type->fields[i].name;
    const char *found = nearest_name(name, names);
    free(names);
    return found;
}

static int refuse_member(const struct schema_node *type, const struct step *at, struct err *e)
{
    char *path = path_of(at);
    const char *near = nearest_field(type, at->name);
    int r = near == NULL
                ? err_set(e, ERR_INVALID, "%s: field not declared in schema", path)
                : err_set(e, ERR_INVALID, "%s: field not declared in schema, did you mean %s?", path, near);
    free(path);
    return r;
}

// What every object has, also one that stands within another, whether its schema says so or not.
static bool is_of_any_object(const char *name)
{
    return strcmp(name, "apiVersion") == 0 || strcmp(name, "kind") == 0 || strcmp(name, "metadata") == 0;
}

int schema_check(const struct schema_node *type, const json *v, const struct step *at, struct err *e)
{
    if (type == NULL || json_is_null(v))
        return 0;
    if (!fits(type, v))
        return refuse_type(type, v, at, e);
    int r = 0;
    for (struct json_iter i = json_iter(v); r == 0 && json_next(&i);) {
        struct step below = {.up = at, .name = i.key, .index = i.index + 1};
        const struct schema_node *t =
            i.key == NULL ? schema_element(type) : schema_member(type, i.key, i.key_len, NULL);
        if (t == NULL && i.key != NULL && type->closed && !schema_has_member(type, i.key, i.key_len) &&
            !is_of_any_object(i.key))
            return refuse_member(type, &below, e);
        r = schema_check(t, i.value, &below, e);
    }
    return r;
}
