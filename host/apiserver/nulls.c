#include "apiserver/nulls.h"

#include <string.h>

#include "base/buf.h"

static bool forbids_null(const struct listtype *type)
{
    return type != NULL && type->type_name != NULL && !type->nullable;
}

// The type of a member or an item.
static const struct listtype *below(const struct listtype *type, const struct tree *container,
                                    const char *key)
{
    return tree_is_map(container) && key != NULL ? listtype_member(type, key, NULL) : type->other;
}

void nulls_settle(struct arena *a, const struct listtype *type, struct tree *value, bool drops)
{
    if (type == NULL)
        return;
    for (size_t i = 0; i < tree_count(value);) {
        struct tree_item *it = &value->box.items[i];
        const struct listtype *t = below(type, value, it->key);
        bool null = tree_is_null(it->value) && tree_is_map(value) && forbids_null(t);
        if (null && t->default_json != NULL) {
            it->value = tree_parse(a, t->default_json, strlen(t->default_json), NULL);
        } else if (null && drops) {
            tree_remove(value, it->key);
            continue;
        }
        nulls_settle(a, t, it->value, drops);
        i++;
    }
}

struct nulls_walk {
    struct arena *a;
    struct buf path;
    const struct nulls_fault *found;
};

static void find(struct nulls_walk *w, const struct listtype *type, const struct tree *value)
{
    if (type == NULL || w->found != NULL)
        return;
    if (tree_is_null(value) && forbids_null(type)) {
        struct nulls_fault *fault = arena_zalloc(w->a, sizeof(*fault));
        *fault = (struct nulls_fault){arena_strdup(w->a, w->path.data == NULL ? "" : w->path.data),
                                      type->type_name};
        w->found = fault;
    }
    size_t base = w->path.len;
    for (size_t i = 0; i < tree_count(value) && w->found == NULL; i++) {
        const struct tree_item *it = &value->box.items[i];
        if (it->key != NULL)
            buf_addf(&w->path, "%s%s", base > 0 ? "." : "", it->key);
        else
            buf_addf(&w->path, "[%zu]", i);
        find(w, below(type, value, it->key), it->value);
        w->path.len = base;
        w->path.data[base] = '\0';
    }
}

const struct nulls_fault *nulls_find(struct arena *a, const struct listtype *type, const struct tree *value)
{
    struct nulls_walk w = {.a = a};
    buf_init(&w.path, 1 << 20);
    find(&w, type, value);
    buf_fini(&w.path);
    return w.found;
}
