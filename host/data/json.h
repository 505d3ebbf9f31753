// JSON: reading gives an immutable document (yyjson); writing is a stream into a buffer (data/json_write.h).
// There is no mutable tree: every change is "read a document, write new bytes". A document may be read by
// several threads. Integers are exact from INT64_MIN to UINT64_MAX; beyond that they are doubles, as the API
// server does.
#ifndef DATA_JSON_H
#define DATA_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <yyjson.h>

#include "base/err.h"

// What is read nests at most this deep; deeper input is refused with ERR_LIMIT, so that recursion over a
// document is safe on a 1 MiB stack.
enum { JSON_DEPTH_MAX = 1000 };

typedef yyjson_val json; // a node; owned by its document
struct json_doc;         // owns all its nodes

// Parses n bytes (copied). 0; -ERR_PARSE with the position; -ERR_LIMIT when too deep.
int json_parse(const char *text, size_t n, struct json_doc **ret, struct err *e);
// The same with at most `max` bytes of memory. *ret_memory is the most it took; when it is more than `max`,
// what it would have taken: the result is -ERR_LIMIT then.
int json_parse_within(const char *text, size_t n, size_t max, struct json_doc **ret, size_t *ret_memory,
                      struct err *e);
void json_doc_free(struct json_doc *d);
const json *json_root(const struct json_doc *d);

// All readers below take NULL and nodes of another type and then give the "absent" answer.
static inline bool json_is_object(const json *v)
{
    return yyjson_is_obj((yyjson_val *)v);
}
static inline bool json_is_array(const json *v)
{
    return yyjson_is_arr((yyjson_val *)v);
}
static inline bool json_is_string(const json *v)
{
    return yyjson_is_str((yyjson_val *)v);
}
static inline bool json_is_number(const json *v)
{
    return yyjson_is_num((yyjson_val *)v);
}
static inline double json_double(const json *v) // nearest; 0 unless a number
{
    return yyjson_get_num((yyjson_val *)v);
}
static inline bool json_is_bool(const json *v)
{
    return yyjson_is_bool((yyjson_val *)v);
}
// null or absent
static inline bool json_is_null(const json *v)
{
    return v == NULL || yyjson_is_null((yyjson_val *)v);
}
static inline size_t json_count(const json *v) // members of an object, elements of an array, else 0
{
    return json_is_object(v) ? yyjson_obj_size((yyjson_val *)v) : yyjson_arr_size((yyjson_val *)v);
}
static inline const json *json_get(const json *object, const char *key)
{
    return yyjson_obj_get((yyjson_val *)object, key);
}
static inline const json *json_getn(const json *object, const char *key, size_t n)
{
    return yyjson_obj_getn((yyjson_val *)object, key, n);
}
static inline const json *json_at(const json *array, size_t i)
{
    return yyjson_arr_get((yyjson_val *)array, i);
}
static inline const char *json_str(const json *v) // NULL unless a string; may hold NULs: see json_str_len
{
    return yyjson_get_str((yyjson_val *)v);
}
static inline size_t json_str_len(const json *v)
{
    return yyjson_get_len((yyjson_val *)v);
}
// Member of `object` as a string, or NULL.
static inline const char *json_get_str(const json *object, const char *key)
{
    return json_str(json_get(object, key));
}
bool json_true(const json *v);             // only for a JSON true
int json_int(const json *v, int64_t *ret); // 0, or -ERR_INVALID if no exact int64
int64_t json_get_int(const json *object, const char *key, int64_t absent);
// Path walk: json_path(o, "metadata", "labels", "app", NULL).
const json *json_path(const json *v, ...) __attribute__((sentinel));
// Dotted path without escapes: "spec.template.metadata".
const json *json_dotted(const json *v, const char *path);

// for (struct json_iter i = json_iter(v); json_next(&i);) use i.key (NULL in arrays), i.value, i.index
struct json_iter {
    const json *container;
    const json *key_node;
    const char *key;
    size_t key_len;
    const json *value;
    size_t index;
    size_t left;
    json *cursor;
};
struct json_iter json_iter(const json *container); // empty for anything but an object or array
bool json_next(struct json_iter *it);

// Same JSON value: objects as sets of members, arrays in order, 1 equals 1.0 (by value), strings by bytes.
bool json_equal(const json *a, const json *b);
// Order-independent hash that agrees with json_equal.
uint64_t json_hash(const json *v);

#endif
