// What a server says when a field belongs to another manager, in words for people. Pure.
#ifndef RUN_APPLY_CONFLICT_H
#define RUN_APPLY_CONFLICT_H

#include <stdbool.h>

#include "data/json.h"

// The node at a field's path as the server spells it (.spec.ports[port=80,protocol="TCP"].name,
// .metadata.labels.app.kubernetes.io/name), or NULL.
const json *conflict_find(const json *object, const char *path);

struct conflict {
    char manager[128]; // "" when there is none: the answer was another one
    char path[256];
};

// The first conflict that a 409's Status names.
struct conflict conflict_read(const json *status);
// Who wrote the object last, besides `ours`, by its managedFields (of that subresource, NULL: none); ""
// when nobody did.
struct conflict conflict_guess(const json *object, const char *ours, const char *subresource,
                               const char *path);
// "field P flips: M sets V, this script's manager O wants W". Values are left out when `secret`. free().
char *conflict_text(const struct conflict *c, const json *theirs, const char *ours, const json *wanted,
                    bool secret);

#endif
