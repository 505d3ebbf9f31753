// A Lua table without members is a list and a map: here the kind's schema decides which. Pure; any thread.
#ifndef KUBE_EMPTIES_H
#define KUBE_EMPTIES_H

#include <stdbool.h>

#include "data/json_write.h"
#include "kube/schema.h"
#include "kube/step.h"

// Is there an empty table in it that only a schema can decide? (Not in metadata's labels and annotations of
// an object.)
bool empties_any(const json *v);
// Writes v with {} as [] where `type` (NULL: unknown) says that a list stands there. 0, or -ERR_INVALID
// naming the place (below `at`, elements counted from 1) of an empty list where a map is expected.
int empties_write(struct json_writer *w, const struct schema_node *type, const json *v, const struct step *at,
                  struct err *e);

#endif
