// What the schema of a custom kind makes of null in a place that is not nullable. All memory comes from the
// arena.
#ifndef APISERVER_NULLS_H
#define APISERVER_NULLS_H

#include <stdbool.h>

#include "apiserver/listtype.h"
#include "apiserver/tree.h"

// A place where null can not be.
struct nulls_fault {
    const char *path; // "spec.m"
    const char *type; // what it must be, as the schema calls it: "object"
};

// A null member becomes its default. Without one it is left out where `drops` (all writes but applies).
// Changes `value`, which must be a copy.
void nulls_settle(struct arena *a, const struct listtype *type, struct tree *value, bool drops);
// The first null that is left and may not be; NULL: none.
const struct nulls_fault *nulls_find(struct arena *a, const struct listtype *type, const struct tree *value);

#endif
