// JSON merge patch (RFC 7386) and JSON patch (RFC 6902) on trees. Pure.
#ifndef APISERVER_PATCH_BODY_H
#define APISERVER_PATCH_BODY_H

#include "apiserver/tree.h"
#include "base/err.h"

enum { PATCH_BODY_OPERATIONS_MAX = 10000 };

// `target` must be a copy: it is changed. The result is the patched value (never NULL).
struct tree *patch_body_merge(struct arena *a, struct tree *target, const struct tree *patch);
// 0; -ERR_BAD_REQUEST: not a JSON patch; -ERR_TOO_LARGE: too many operations; -ERR_INVALID: an operation can
// not be done. On failure *target may have been changed in part.
int patch_body_json(struct arena *a, struct tree **target, const struct tree *patch, struct err *e);

#endif
