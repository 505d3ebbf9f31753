// What the store keeps of managedFields: the entries of our own managers, as one JSON array text. Equal texts
// are one record, refcounted, in a table of the process. Private to the kube layer's object.c. Any thread.
#ifndef KUBE_OBJECT_MANAGED_H
#define KUBE_OBJECT_MANAGED_H

#include <stddef.h>

#include "base/err.h"
#include "data/json.h"

struct object_managed;

// From metadata.managedFields (any node). *ret: +1 reference, or NULL when no entry is ours. 0 or -ERR_LIMIT.
int object_managed_intern(const json *managed_fields, struct object_managed **ret, struct err *e);
void object_managed_unref(struct object_managed *m);
const char *object_managed_text(const struct object_managed *m, size_t *ret_len); // NULL gives "[]"
size_t object_managed_names(const struct object_managed *m, const char *const **ret);

#endif
