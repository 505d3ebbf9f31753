// The schemas a plan needs, looked up once a kind. One that is still to come is noted: then the plan is not
// carried out, and its key waits. One owner (a worker).
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

#endif
