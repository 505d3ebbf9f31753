#include "run/plan/plan_types.h"

#include <stdlib.h>

#include "base/alloc.h"

void plan_types_fini(struct plan_types *t)
{
    for (size_t i = 0; i < t->count; i++)
        schema_unref(t->items[i].schema);
    free(t->items);
}

const struct plan_type *plan_type_of(struct plan_types *t, const struct gvk *gvk)
{
    static const struct plan_type none;
    if (t == NULL || t->schemas == NULL)
        return &none;
    for (size_t i = 0; i < t->count; i++)
        if (t->items[i].gvk == gvk)
            return &t->items[i];
    if (t->count == t->cap) {
        t->cap = t->cap == 0 ? 4 : t->cap * 2;
        t->items = xreallocarray(t->items, t->cap, sizeof t->items[0]);
    }
    struct plan_type *p = &t->items[t->count++];
    *p = (struct plan_type){.gvk = gvk};
    p->not_yet = schemas_find(t->schemas, gvk, &p->schema, &p->node) == SCHEMAS_NOT_YET;
    return p;
}

int plan_type_checked(struct plan_types *t, const struct gvk *gvk, int r, const struct err *e)
{
    if (r == -ERR_INVALID && plan_type_of(t, gvk)->node != NULL && !schemas_sure(t->schemas, gvk, e->text))
        t->awaited = true;
    return r;
}
