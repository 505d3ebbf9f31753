#include "run/world/reads.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/strset.h"

void reads_fini(struct reads *r)
{
    for (size_t i = 0; i < r->count; i++) {
        free(r->items[i].ns);
        free(r->items[i].name);
        free(r->items[i].labels);
        free(r->items[i].owner_uid);
    }
    free(r->items);
    *r = (struct reads){0};
}

static bool same(const struct read *a, const struct read *b)
{
    return a->gvk == b->gvk && str_eq(a->ns, b->ns) && str_eq(a->name, b->name) &&
           str_eq(a->labels, b->labels) && str_eq(a->owner_uid, b->owner_uid);
}

void reads_add(struct reads *r, const struct read *item)
{
    for (size_t i = 0; i < r->count; i++) {
        if (same(&r->items[i], item)) {
            r->items[i].answer = item->answer;
            return;
        }
    }
    if (r->count == r->cap) {
        r->cap = r->cap == 0 ? 4 : r->cap * 2;
        r->items = xreallocarray(r->items, r->cap, sizeof r->items[0]);
    }
    r->items[r->count++] = (struct read){
        .gvk = item->gvk,
        .ns = xstrdup(item->ns),
        .name = xstrdup(item->name),
        .labels = xstrdup(item->labels),
        .owner_uid = xstrdup(item->owner_uid),
        .answer = item->answer,
    };
}
