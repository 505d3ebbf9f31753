// Where a walk over an object stands: steps linked upwards, on the walker's stack, so that a path costs
// nothing until it is told.
#ifndef KUBE_STEP_H
#define KUBE_STEP_H

#include <stddef.h>

#include "base/buf.h"

struct fields_item;

struct step {
    const struct step *up;          // NULL: the root itself
    const char *name;               // a member; NULL: an element
    const struct fields_item *item; // an element told by its key; NULL: by its place
    size_t index;
};

// Appends "spec.ports[port=80].name", "data[\"a.b\"]"; nothing for the root or NULL.
void step_path(const struct step *at, struct buf *out);

#endif
