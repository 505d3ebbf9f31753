#include "run/child_stores.h"

#include <stdlib.h>

#include "base/alloc.h"

struct child_stores *child_stores_new(size_t count)
{
    struct child_stores *c = xcalloc(1, sizeof *c + count * sizeof c->items[0]);
    c->refs = 1;
    c->count = count;
    return c;
}

struct child_stores *child_stores_ref(struct child_stores *c)
{
    __atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
    return c;
}

void child_stores_unref(struct child_stores *c)
{
    if (c == NULL || __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (size_t i = 0; i < c->count; i++)
        store_unref(c->items[i].store);
    free(c->patch_kinds);
    free(c);
}

bool child_stores_synced(const struct child_stores *c)
{
    for (size_t i = 0; i < c->count; i++)
        if (!c->items[i].synced)
            return false;
    return true;
}

const struct child_store *child_stores_find(const struct child_stores *c, const struct gvk *gvk)
{
    for (size_t i = 0; i < c->count; i++)
        if (gvk_same_group_kind(c->items[i].gvk, gvk))
            return &c->items[i];
    return NULL;
}

struct object *child_stores_get(const struct child_stores *c, uint64_t revision, const struct gvk *gvk,
                                const char *ns, const char *name)
{
    const struct child_store *s = child_stores_find(c, gvk);
    return s == NULL ? NULL : store_get(s->store, revision, ns, name);
}
