// One entry of `apply`. Private to plan_*.c; worker.
#ifndef RUN_PLAN_PLAN_CHILD_H
#define RUN_PLAN_PLAN_CHILD_H

#include "base/hash_table.h"
#include "run/plan/desired.h"
#include "run/plan/plan.h"

struct child {
    const json *entry;
    const json *object;
    struct step at; // its place: apply[i]
    struct resource resource;
    const char *ns;      // "" for cluster-scoped
    const char *name;    // NULL: it could not be read
    struct object *live; // ours, +1 reference, or NULL
    bool once, keep, replace;
    bool owned;     // an ownerReference is legal, and wanted
    unsigned order; // how many others must be ready before it, in a row
    bool blocked;   // one of those is not ready yet
    enum { ORDER_UNKNOWN, ORDER_BEGUN, ORDER_KNOWN, ORDER_WRONG } ordering;
    char *id; // in a set
    UT_hash_handle hh;
};

// All entries, found by what they are: there may be thousands.
struct child_set {
    struct child *items; // count of them; those that could not be read are in no table
    size_t count;
    struct child *table;
};

void child_set_init(struct child_set *s, size_t count);
void child_set_fini(struct child_set *s);
// Puts an entry that was read into the table. The one that is the same object already, or NULL.
struct child *child_set_add(struct child_set *s, struct child *c);
// By group and kind, namespace ("" for cluster-scoped) and name; or NULL.
struct child *child_set_find(const struct child_set *s, const struct gvk *gvk, const char *ns,
                             const char *name);

// Reads an entry: kind, scope, rights, options. Names are checked.
int plan_child_read(const struct plan_input *in, const json *entry, struct child *c, struct err *e);
struct desired plan_child_desired(const struct plan_input *in, const struct child *c, const char *uid);
// Sets order and blocked of all by their `after`. Errors name the entry.
void plan_child_order(struct plan *p, struct child_set *s);

#endif
