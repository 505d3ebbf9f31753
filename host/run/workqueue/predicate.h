// Which subjects are a script's, and which of their changes matter. Pure; any thread.
#ifndef RUN_WORKQUEUE_PREDICATE_H
#define RUN_WORKQUEUE_PREDICATE_H

#include <stdbool.h>
#include <stdint.h>

#include "kube/object.h"
#include "run/source/script.h"

// Paused by annotation.
bool predicate_is_paused(const struct object *subject);

// Is it within the script's namespaces, selector and fields? The server selects too, where it can; a store
// may hold more, as it serves others.
bool predicate_selects(const struct script *s, const struct object *subject);

// Changes that no predicate of a script can hide: creation and deletion (old or new is NULL), another UID,
// the begin of deletion, pausing and its end.
bool predicate_is_turn(const struct object *old, const struct object *new);

// Does the content differ in more than managedFields, resourceVersion and the status fields that this script
// and the host for it own? A field of ours that somebody changed or removed is no longer owned, so it counts.
bool predicate_content_differs(const struct script *s, const struct object *old, const struct object *new);

// Hash of the values at the script's `changed` paths; never 0. Only for a script that has them.
uint64_t predicate_changed_hash(const struct script *s, const struct object *subject);

#endif
