// One version of one object as the store keeps it: immutable, refcounted, compact. Any thread may hold and
// read it.
#ifndef KUBE_OBJECT_H
#define KUBE_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "data/json.h"
#include "kube/gvk.h"

struct object;

struct object_label {
    const char *key;
    const char *value;
};

struct object_owner {
    const char *uid;
    bool controller;
};

// Makes a record from a decoded object (pure: bytes to record). managedFields are left out of the bytes; the
// entries whose manager starts with "tidelock" are kept apart. `gvk` is the kind asked for (list items carry
// none; it is written into the bytes). 0; -ERR_INVALID naming what is wrong (no metadata, no name, a wrong
// type, a name or label beyond 1024 bytes); -ERR_LIMIT beyond 64 MiB. Nulls count as absent.
int object_new(const struct gvk *gvk, const json *node, struct object **ret, struct err *e);
struct object *object_ref(struct object *o);
void object_unref(struct object *o);

const struct gvk *object_gvk(const struct object *o);
const char *object_namespace(const struct object *o); // "" when cluster-scoped
const char *object_name(const struct object *o);
const char *object_uid(const struct object *o);
const char *object_resource_version(const struct object *o);                   // opaque text
int64_t object_generation(const struct object *o);                             // 0: the kind has none
bool object_is_deleting(const struct object *o);                               // deletionTimestamp is set
size_t object_labels(const struct object *o, const struct object_label **ret); // sorted by key; borrowed
const char *object_label(const struct object *o, const char *key);             // or NULL
size_t object_owners(const struct object *o, const struct object_owner **ret);

// The object as JSON text without managedFields, apiVersion and kind first.
const char *object_json(const struct object *o, size_t *ret_len);
// Parses the text; the caller frees the document. NULL only if the object nests deeper than JSON_DEPTH_MAX.
struct json_doc *object_parse(const struct object *o);
// Our managers' entries as a JSON array text
// ([{"manager":..,"operation":..,"subresource":..,"fieldsV1":{..}}]), "[]" if none.
const char *object_managed(const struct object *o, size_t *ret_len);
// Names of our managers (operation Apply, no subresource), for the store's manager index; count and borrowed
// array.
size_t object_managers(const struct object *o, const char *const **ret);
bool object_has_owner(const struct object *o, const char *uid);    // an ownerReference has this UID
bool object_has_manager(const struct object *o, const char *name); // it is among object_managers
// Hash of the content without managedFields, resourceVersion, generation: equal when nothing a script sees
// changed.
uint64_t object_content_hash(const struct object *o);
// The same without `status` too.
uint64_t object_spec_hash(const struct object *o);
// Memory of its own block, exact. The interned entries of our managers are shared: object_interned_bytes is
// all of them.
size_t object_bytes(const struct object *o);
size_t object_interned_bytes(void);

// Decimal resourceVersions of one resource: -1, 0, 1; false if either is not a decimal (then they can not be
// ordered).
bool object_rv_compare(const char *a, const char *b, int *ret);

#endif
