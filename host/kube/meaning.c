#include "kube/meaning.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/strset.h"
#include "data/digest.h"
#include "data/json_write.h"
#include "data/quantity.h"

enum { BYTES_MAX = 8 << 20 };

bool meaning_is_zero(const json *v)
{
    int64_t n;
    if (json_is_string(v))
        return json_str_len(v) == 0;
    if (json_is_object(v) || json_is_array(v))
        return json_count(v) == 0;
    if (json_is_number(v))
        return json_int(v, &n) == 0 && n == 0;
    return json_is_null(v) || (json_is_bool(v) && !json_true(v));
}

// ---- scalars

// A quantity's text; numbers are written as the request's body has them. False: it is none.
static bool quantity_text(const json *v, char out[QUANTITY_TEXT_MAX])
{
    const char *s = json_str(v);
    char *number = NULL;
    if (s == NULL && json_is_number(v) && json_print(v, QUANTITY_TEXT_MAX, &number, NULL, NULL) == 0)
        s = number;
    bool fits = s != NULL && strlen(s) < QUANTITY_TEXT_MAX && quantity_valid(s);
    if (fits)
        strcpy(out, s);
    free(number);
    return fits;
}

static bool same_quantity(const json *desired, const json *live, bool resource)
{
    char a[QUANTITY_TEXT_MAX], b[QUANTITY_TEXT_MAX], rounded[QUANTITY_TEXT_MAX];
    if (!quantity_text(desired, a) || !quantity_text(live, b))
        return false;
    if (quantity_compare(a, b) == 0)
        return true;
    return resource && quantity_canonical_milli(a, rounded, NULL) == 0 && quantity_compare(rounded, b) == 0;
}

static bool same_time(const char *a, const char *b, int64_t unit)
{
    int64_t x, y;
    return clock_parse_time(a, &x) == 0 && clock_parse_time(b, &y) == 0 &&
           (x == y || (unit > 1 && x - ((x % unit) + unit) % unit == y));
}

static bool same_duration(const char *a, const char *b)
{
    int64_t x, y;
    return duration_parse(a, &x) == 0 && duration_parse(b, &y) == 0 && x == y;
}

static bool decode(const json *v, struct buf *out)
{
    return base64_decode(json_str(v), json_str_len(v), out, NULL) == 0 && !out->failed;
}

static bool same_bytes(const json *desired, const json *live)
{
    struct buf a, b;
    buf_init(&a, BYTES_MAX);
    buf_init(&b, BYTES_MAX);
    bool same = decode(desired, &a) && decode(live, &b) && a.len == b.len &&
                (a.len == 0 || memcmp(a.data, b.data, a.len) == 0);
    buf_fini(&a);
    buf_fini(&b);
    return same;
}

static bool is_text_of(const json *text, const json *bytes)
{
    struct buf b;
    buf_init(&b, BYTES_MAX);
    bool same = decode(bytes, &b) && b.len == json_str_len(text) &&
                (b.len == 0 || memcmp(b.data, json_str(text), b.len) == 0);
    buf_fini(&b);
    return same;
}

static bool same_spelling(const struct schema_node *t, const json *desired, const json *live)
{
    if (t->meaning == SCHEMA_QUANTITY || t->meaning == SCHEMA_RESOURCE)
        return same_quantity(desired, live, t->meaning == SCHEMA_RESOURCE);
    const char *a = json_str(desired), *b = json_str(live);
    if (a == NULL || b == NULL)
        return false;
    switch (t->meaning) {
    case SCHEMA_DURATION:
        return same_duration(a, b);
    case SCHEMA_TIME:
        return same_time(a, b, 1000000);
    case SCHEMA_MICRO_TIME:
        return same_time(a, b, 1);
    case SCHEMA_BYTES:
        return same_bytes(desired, live);
    case SCHEMA_SECRET_TEXT:
        return is_text_of(desired, live);
    default:
        return false;
    }
}

// ---- absent, null and empty

// May a built-in type have left this empty value out? Where a pointer makes "empty" and "absent" two things,
// it was kept.
static bool is_left_out(const struct schema_node *t, const json *desired)
{
    if (!t->builtin || !meaning_is_zero(desired))
        return false;
    if (json_is_array(desired))
        return true;
    if (json_is_object(desired))
        return t->field_count == 0 && t->items != NULL; // a map; an empty structure says something
    return json_is_null(desired) || (json_is_string(desired) && t->type == SCHEMA_STRING) ||
           (json_is_bool(desired) && t->type == SCHEMA_BOOLEAN);
}

static bool all_defaults(const struct schema_node *t, const json *live);

// Is `live` what the server puts where nothing is desired?
static bool is_default(const struct schema_node *t, const json *fallback, const json *live)
{
    if (json_is_null(live))
        return true;
    if (fallback != NULL && json_is_object(fallback) && json_count(fallback) == 0 && json_is_object(live))
        return all_defaults(t, live); // an empty structure, whose own defaults are put in
    if (fallback != NULL && meaning_same(t, NULL, fallback, live, NULL, NULL))
        return true;
    return t->builtin && json_count(live) == 0 && (json_is_array(live) || json_is_object(live)) &&
           is_left_out(t, live);
}

static bool all_defaults(const struct schema_node *t, const json *live)
{
    for (struct json_iter i = json_iter(live); json_next(&i);) {
        const json *fallback;
        const struct schema_node *m = schema_member(t, i.key, i.key_len, &fallback);
        if (m == NULL ? !json_is_null(i.value) : !is_default(m, fallback, i.value))
            return false;
    }
    return true;
}

static bool same_absence(const struct schema_node *t, const json *fallback, const json *desired,
                         const json *live)
{
    if (json_is_null(live))
        return is_left_out(t, desired);
    if (desired != NULL && !t->builtin && t->nullable)
        return false;
    if (is_default(t, fallback, live))
        return true;
    // a null in a map of texts or bytes becomes an empty one
    return desired != NULL && t->builtin && meaning_is_zero(live) && !json_is_object(live);
}

// ---- structures

static bool same_objects(const struct schema_node *t, const json *desired, const json *live,
                         const struct step *at, struct buf *path)
{
    yyjson_obj_iter in_live = yyjson_obj_iter_with((json *)live),
                    in_desired = yyjson_obj_iter_with((json *)desired);
    const json *fallback;
    for (struct json_iter i = json_iter(desired); json_next(&i);) {
        struct step below = {.up = at, .name = i.key};
        const struct schema_node *m = schema_member(t, i.key, i.key_len, &fallback);
        if (!meaning_same(m, fallback, i.value, yyjson_obj_iter_getn(&in_live, i.key, i.key_len), &below,
                          path))
            return false;
    }
    for (struct json_iter i = json_iter(live); json_next(&i);) {
        if (yyjson_obj_iter_getn(&in_desired, i.key, i.key_len) != NULL)
            continue;
        struct step below = {.up = at, .name = i.key};
        const struct schema_node *m = schema_member(t, i.key, i.key_len, &fallback);
        if (!meaning_same(m, fallback, NULL, i.value, &below, path))
            return false;
    }
    return true;
}

static bool same_arrays(const struct schema_node *t, const json *desired, const json *live,
                        const struct step *at, struct buf *path)
{
    struct json_iter k = json_iter(live);
    for (struct json_iter i = json_iter(desired); json_next(&i) && json_next(&k);) {
        struct step below = {.up = at, .index = i.index};
        if (!meaning_same(schema_element(t), NULL, i.value, k.value, &below, path))
            return false;
    }
    return true;
}

// Nothing on either side; where null is a value of its own, absent is not the same.
static bool both_absent(const struct schema_node *type, const json *desired, const json *live)
{
    bool kept = type != NULL && type->nullable;
    return json_is_null(desired) && json_is_null(live) && (!kept || (desired == NULL) == (live == NULL));
}

static bool same_scalars(const struct schema_node *type, const json *fallback, const json *desired,
                         const json *live)
{
    bool encoded = type != NULL && type->meaning == SCHEMA_SECRET_TEXT; // the same letters differ
    if (desired != NULL && live != NULL && !encoded && json_equal(desired, live))
        return true;
    if (type == NULL)
        return false;
    return json_is_null(desired) || json_is_null(live) ? same_absence(type, fallback, desired, live)
                                                       : same_spelling(type, desired, live);
}

bool meaning_same(const struct schema_node *type, const json *fallback, const json *desired, const json *live,
                  const struct step *at, struct buf *path)
{
    if (both_absent(type, desired, live))
        return true;
    if (json_is_object(desired) && json_is_object(live))
        return same_objects(type, desired, live, at, path);
    if (json_is_array(desired) && json_is_array(live) && json_count(desired) == json_count(live))
        return same_arrays(type, desired, live, at, path);
    bool same = same_scalars(type, fallback, desired, live);
    if (!same && path != NULL)
        step_path(at, path);
    return same;
}

// ---- what can not be stored

static const char *fault_of(const struct schema_node *t, const json *v)
{
    char quantity[QUANTITY_TEXT_MAX];
    struct buf bytes;
    int64_t n;
    switch (t->meaning) {
    case SCHEMA_QUANTITY:
    case SCHEMA_RESOURCE:
        if (json_is_string(v) && json_str_len(v) >= QUANTITY_TEXT_MAX)
            return NULL; // longer than what is understood here, not wrong
        return quantity_text(v, quantity) ? NULL : "a quantity, such as \"500m\", \"1.5\" or \"2Gi\"";
    case SCHEMA_TIME:
    case SCHEMA_MICRO_TIME:
        return json_is_string(v) && clock_parse_time(json_str(v), &n) < 0
                   ? "a time, such as \"2024-01-31T12:00:00Z\""
                   : NULL;
    case SCHEMA_DURATION:
        return json_is_string(v) && duration_parse(json_str(v), &n) < 0 ? "a duration, such as \"1m30s\""
                                                                        : NULL;
    case SCHEMA_BYTES: {
        buf_init(&bytes, BYTES_MAX);
        bool bad = json_is_string(v) && !decode(v, &bytes) && !bytes.failed;
        buf_fini(&bytes);
        return bad ? "base64" : NULL;
    }
    default:
        return NULL;
    }
}

static int say_fault(const json *v, const char *what, const struct step *at, struct err *e)
{
    struct buf path;
    char *text = NULL;
    buf_init(&path, ERR_TEXT_MAX / 2);
    step_path(at, &path);
    (void)json_print(v, 100, &text, NULL, NULL);
    int r = err_set(e, ERR_INVALID, "%s: %s is not %s", path.data == NULL ? "" : path.data,
                    text == NULL ? "the value" : text, what);
    free(text);
    buf_fini(&path);
    return r;
}

int meaning_check(const struct schema_node *type, const json *v, const struct step *at, struct err *e)
{
    if (type == NULL || json_is_null(v))
        return 0;
    const char *fault = type->builtin ? fault_of(type, v) : NULL;
    if (fault != NULL)
        return say_fault(v, fault, at, e);
    int r = 0;
    for (struct json_iter i = json_iter(v); r == 0 && json_next(&i);) {
        struct step below = {.up = at, .name = i.key, .index = i.index + 1};
        const struct schema_node *t =
            i.key == NULL ? schema_element(type) : schema_member(type, i.key, i.key_len, NULL);
        r = meaning_check(t, i.value, &below, e);
    }
    return r;
}
