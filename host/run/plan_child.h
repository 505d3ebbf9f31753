// One entry of `apply`. Private to plan_*.c; worker.
#ifndef RUN_PLAN_CHILD_H
#define RUN_PLAN_CHILD_H

#include "run/desired.h"
#include "run/plan.h"

struct child {
    const json *entry;
    const json *object;
    struct resource resource;
    const char *ns;      // "" for cluster-scoped
    const char *name;    // NULL: it could not be read
    struct object *live; // ours, +1 reference, or NULL
    bool once, keep, replace;
    bool owned;     // an ownerReference is legal, and wanted
    unsigned order; // how many others must be ready before it, in a row
    bool blocked;   // one of those is not ready yet
    enum { ORDER_UNKNOWN, ORDER_BEGUN, ORDER_KNOWN, ORDER_WRONG } ordering;
};

// Reads an entry: kind, scope, rights, options. Names are checked.
int plan_child_read(const struct plan_input *in, const json *entry, struct child *c, struct err *e);
bool plan_child_same(const struct child *a, const struct child *b);
struct desired plan_child_desired(const struct plan_input *in, const struct child *c, const char *uid);
bool plan_is_manager_of(const struct object *o, const char *manager);
// Sets order and blocked of all by their `after`. Errors name the entry.
void plan_child_order(struct plan *p, const struct plan_input *in, struct child *children, size_t n);

#endif
