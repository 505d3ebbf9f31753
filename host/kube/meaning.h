// Do two values mean the same to the API server? What the schema knows: quantities, durations, times and
// base64 in other spellings, defaults, and what built-in types leave out when it is empty. Without a schema
// (NULL): the letter. Pure; any thread.
#ifndef KUBE_MEANING_H
#define KUBE_MEANING_H

#include <stdbool.h>

#include "data/json.h"
#include "kube/schema.h"
#include "kube/step.h"

// One value that is owned as a whole, as desired and as it is (NULL: absent); `fallback` is its default, or
// NULL. On false the first place that differs is appended to `path` (may be NULL).
bool meaning_same(const struct schema_node *type, const json *fallback, const json *desired, const json *live,
                  const struct step *at, struct buf *path);

// Is every text in v what its type takes? The server refuses a bad quantity, time, duration or base64 in a
// built-in type without a word on where it stands. 0, or -ERR_INVALID with the place below `at`, elements
// counted from 1.
int meaning_check(const struct schema_node *type, const json *v, const struct step *at, struct err *e);

// What a server leaves out when it writes a value with "omitempty": null, "", 0, false, {} and [].
bool meaning_is_zero(const json *v);

#endif
