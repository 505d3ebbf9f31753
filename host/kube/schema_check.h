// Is a value what its type takes? Asked before it is sent: the server's own words name the first fault only,
// and not as the script's author counts. Pure; any thread.
#ifndef KUBE_SCHEMA_CHECK_H
#define KUBE_SCHEMA_CHECK_H

#include "kube/schema.h"
#include "kube/step.h"

// 0, or -ERR_INVALID with the place of a value of another type, or of a member that the type does not have:
// `spec.replicas: expected integer, got "3"`. Elements count from 1. Never refuses what a server with this
// schema would take: null, a whole number of any spelling, an empty object for a list, and whatever the
// schema is silent about.
int schema_check(const struct schema_node *type, const json *v, const struct step *at, struct err *e);

#endif
