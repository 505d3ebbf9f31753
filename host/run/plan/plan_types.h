// The schemas a plan needs, looked up once a kind. One that is still to come, or that may be out of date, is
// noted: then the plan is not carried out, and its key waits. One owner (a worker).
#ifndef RUN_PLAN_PLAN_TYPES_H
#define RUN_PLAN_PLAN_TYPES_H

#include <stdbool.h>
#include <stddef.h>

#include "kube/schemas.h"

struct plan_type {
    const struct gvk *gvk;
    const struct schema_node *node; // NULL: none, or not yet
    bool not_yet;
    struct schema *schema; // +1
};

struct plan_types {
    struct schemas *schemas; // NULL: there are none
    struct plan_type *items;
    size_t count, cap;
    bool awaited; // something was to be decided that a schema on its way decides
};

void plan_types_fini(struct plan_types *t);
// `t` may be NULL. Borrowed until the next call.
const struct plan_type *plan_type_of(struct plan_types *t, const struct gvk *gvk);
// What became of a check of an object by its kind's schema: returned as it is, after a refusal by a schema of
// which it is not sure that it is the server's was noted.
int plan_type_checked(struct plan_types *t, const struct gvk *gvk, int r, const struct err *e);

#endif
