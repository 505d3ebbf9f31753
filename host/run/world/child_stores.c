#include "run/world/child_stores.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "kube/selector.h"
#include "run/source/marks.h"

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

void child_stores_list(const struct child_stores *c, uint64_t revision, const struct gvk *gvk,
                       const char *owner_uid, struct object_list *ret)
{
    struct selector *mine = NULL;
    char *text = xasprintf("%s=%s", MARKS_LABEL_OWNER, owner_uid);
    *ret = (struct object_list){0};
    int r = selector_parse(text, &mine, NULL);
    free(text);
    if (r < 0)
        return; // no UID looks like this
    for (size_t i = 0; i < c->count; i++) {
        struct object_list part;
        if (gvk != NULL && !gvk_same_group_kind(c->items[i].gvk, gvk))
            continue;
        store_list(c->items[i].store, revision, &(struct store_query){.labels = mine}, &part);
        object_list_append(ret, &part);
    }
    selector_free(mine);
}

struct object *child_stores_get(const struct child_stores *c, uint64_t revision, const struct gvk *gvk,
                                const char *ns, const char *name)
{
    for (size_t i = 0; i < c->count; i++) { // one a kind, or one a kind and namespace
        struct object *o = NULL;
        if (gvk_same_group_kind(c->items[i].gvk, gvk))
            o = store_get(c->items[i].store, revision, ns, name);
        if (o != NULL)
            return o;
    }
    return NULL;
}
