// spec.replicas of a child whose kind has the scale subresource, when a script no longer gives it. To leave
// it out is to hand it over to whoever scales (an autoscaler, a person). The server would reset a field that
// nobody owns to its default, and take the pods away in between; so our manager keeps owning it at the value
// it has until somebody else sets it. Pure; any thread.
#ifndef RUN_PLAN_HAND_OVER_H
#define RUN_PLAN_HAND_OVER_H

#include <stdbool.h>

#include "base/buf.h"
#include "data/json.h"
#include "kube/object.h"
#include "kube/resource.h"

// Does `manager` own the replicas of `live`, and does `desired` not have them?
bool hand_over_is_due(const struct resource *r, const struct object *live, const char *manager,
                      const json *desired);
// Does somebody else own them too, so that they stay when `manager` gives them up? By the managedFields of
// the object as the server gave it.
bool hand_over_is_taken(const json *object, const char *manager);
// Writes the body of an apply with these replicas and resourceVersion in place of those it may have had;
// NULL: without. False: it is too large.
bool hand_over_write(const json *body, const json *replicas, const json *resource_version, struct buf *out);

#endif
