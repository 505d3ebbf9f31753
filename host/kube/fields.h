// FieldsV1 sets (the "f:name", "k:{...}", "v:...", "." trees of managedFields; structured-merge-diff's
// format) over JSON nodes, and their comparison with a desired object without a schema: the set a manager
// owns tells how lists are merged. Pure; any thread.
#ifndef KUBE_FIELDS_H
#define KUBE_FIELDS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "data/json.h"
#include "kube/schema.h"

// The fieldsV1 object of `manager` with operation "Apply" (and that subresource, NULL or "" for none) in an
// array of entries (object_managed, or metadata.managedFields); NULL if there is none.
const json *fields_of_manager(const json *entries, const char *manager, const char *subresource);

enum fields_verdict {
    FIELDS_SAME,    // owned set == desired's fields, and every owned value equals live's
    FIELDS_MISSING, // desired has a field that is not owned
    FIELDS_EXTRA,   // owned has a field that desired lacks
    FIELDS_DIFFER,  // an owned value differs from live's
};

// Compares what `owned` (may be NULL: owns nothing) holds with `desired` and `live` (whole objects).
// apiVersion, kind, metadata.name, metadata.namespace, metadata.uid, metadata.resourceVersion (and what else
// the server strips from every set) are passed over. An empty list or a null that is not owned is no missing
// field while live has nothing there. A map-list item of desired that lacks a key field matches an owned item
// by its other keys (the server defaulted it). An owned empty value ("", 0, {}, null) that live lacks is the
// same: the server left it out. Values owned as a whole are compared by kube/meaning.h with what `type` (the
// kind's node; NULL: unknown) says of them. On anything but FIELDS_SAME the first place is written to path
// ("" otherwise).
enum fields_verdict fields_compare(const json *owned, const json *desired, const json *live,
                                   const struct schema_node *type, struct buf *path /* may be NULL */);

// Hash of the values that `owned` selects in live: unchanged while nobody changed a field of ours.
uint64_t fields_hash_owned(const json *owned, const json *live);

#endif
