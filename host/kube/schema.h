// What the OpenAPI v3 document of one group and version says about its kinds, as far as comparing and writing
// objects needs it: a small immutable tree. Structures that several kinds use stand there once, and refer to
// themselves where the API does. Refcounted; any thread. Nodes are valid while their schema is held.
#ifndef KUBE_SCHEMA_H
#define KUBE_SCHEMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/json.h"
#include "kube/gvk.h"

enum schema_type {
    SCHEMA_ANY, // nothing is known, or several types are allowed
    SCHEMA_OBJECT,
    SCHEMA_ARRAY,
    SCHEMA_STRING,
    SCHEMA_INTEGER,
    SCHEMA_NUMBER,
    SCHEMA_BOOLEAN,
};

// Values that can be spelt in several ways.
enum schema_meaning {
    SCHEMA_PLAIN,
    SCHEMA_QUANTITY,
    SCHEMA_RESOURCE, // a quantity in a list of resources, which the server rounds up to 1m
    SCHEMA_DURATION,
    SCHEMA_TIME,       // to the second
    SCHEMA_MICRO_TIME, // to the microsecond
    SCHEMA_BYTES,      // base64
    SCHEMA_SECRET_TEXT // a Secret's stringData: text which the server keeps as base64 in `data`
};

struct schema_node {
    const struct schema_field *fields; // of an object, sorted by name
    const struct schema_node
        *items; // of an array; of an object: the value of any other member. NULL: unknown
    uint16_t field_count;
    uint8_t type;      // enum schema_type
    uint8_t meaning;   // enum schema_meaning
    bool builtin : 1;  // a Go type of the server: what is empty may be left out
    bool nullable : 1; // null is a value of its own
    bool granular : 1; // an object or array whose members have owners of their own
    bool closed : 1;   // an object that has no members but its fields
    bool by_type : 1;  // an array whose members are told apart by their member `type`, as conditions are
};

struct schema_field {
    const char *name;
    const struct schema_node *type;
    const json *fallback; // what the server puts when it is absent; NULL: nothing known
};

struct schema;

enum { SCHEMA_DOCUMENT_MAX = 32 << 20 }; // bytes of a document

// Reads a document (components.schemas) for the kinds of `api_version`; takes some ms for a large one. 0,
// -ERR_PARSE, -ERR_LIMIT, -ERR_INVALID (no such document).
int schema_compile(const char *text, size_t n, const char *api_version, struct schema **ret, struct err *e);
struct schema *schema_ref(struct schema *s);
void schema_unref(struct schema *s);
const struct schema_node *schema_kind(const struct schema *s, const char *kind); // NULL: not in it
size_t schema_bytes(const struct schema *s);                                     // memory, all of it

// The member of an object's type, by property or as any other member; its default in *ret_fallback (may be
// NULL). NULL: unknown.
const struct schema_node *schema_member(const struct schema_node *object, const char *name, size_t n,
                                        const json **ret_fallback);
bool schema_has_member(const struct schema_node *object, const char *name, size_t n); // as a property
static inline const struct schema_node *schema_element(const struct schema_node *array)
{
    return array != NULL && array->type == SCHEMA_ARRAY ? array->items : NULL;
}

#endif
