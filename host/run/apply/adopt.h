// Taking an object over from other field managers: their entries in managedFields become ours, as kubectl
// does when it moves from client-side to server-side apply. Otherwise what they set would stay for ever when
// the script no longer wants it. Pure.
#ifndef RUN_APPLY_ADOPT_H
#define RUN_APPLY_ADOPT_H

#include "base/buf.h"
#include "base/strset.h"
#include "data/json.h"

// A JSON patch of `object` (as the server gave it) that moves the entries of `managers` (and ours) into one
// of `manager`; it holds only for the object's current resourceVersion.
void adopt_write_patch(const json *object, const struct strset *managers, const char *manager,
                       const char *api_version, struct buf *out);

#endif
