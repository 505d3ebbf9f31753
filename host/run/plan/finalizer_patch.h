// The JSON patch that takes our finalizer off an object: it names the object's UID, the finalizer's place and
// its value, so it fails rather than take somebody else's. Pure.
#ifndef RUN_PLAN_FINALIZER_PATCH_H
#define RUN_PLAN_FINALIZER_PATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "data/json.h"

// Where it stands in metadata.finalizers; -1: nowhere. metadata: of the object.
int64_t finalizer_patch_index(const json *metadata, const char *finalizer);
// False: there is nothing to take off.
bool finalizer_patch_write(const json *metadata, const char *finalizer, struct buf *out);

#endif
