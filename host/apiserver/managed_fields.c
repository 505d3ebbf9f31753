#include "apiserver/managed_fields.h"

#include <stdlib.h>
#include <string.h>

#include "apiserver/typed.h"
#include "base/strset.h"

static struct managed_entry *add_entry(struct arena *a, struct managed_fields *m)
{
    if (m->count == m->cap) {
        size_t cap = m->cap == 0 ? 4 : 2 * m->cap;
        struct managed_entry *items = arena_zalloc(a, cap * sizeof(*items));
        if (m->count > 0)
            memcpy(items, m->items, m->count * sizeof(*items));
        m->items = items;
        m->cap = cap;
    }
    struct managed_entry *e = &m->items[m->count++];
    *e = (struct managed_entry){0};
    return e;
}

static void remove_entry(struct managed_fields *m, size_t i)
{
    m->count--;
    memmove(&m->items[i], &m->items[i + 1], (m->count - i) * sizeof(*m->items));
}

static int read_entry(struct arena *a, const struct tree *t, struct managed_entry *e)
{
    const char *operation = tree_get_str(t, "operation"), *subresource = tree_get_str(t, "subresource");
    e->manager = tree_get_str(t, "manager");
    e->api_version = tree_get_str(t, "apiVersion");
    e->apply = str_eq(operation, "Apply");
    e->subresource = subresource == NULL ? "" : subresource;
    e->time = tree_get_str(t, "time");
    if (e->manager == NULL)
        e->manager = "";
    if ((!e->apply && !str_eq(operation, "Update")) || e->api_version == NULL || e->api_version[0] == '\0' ||
        !str_eq(tree_get_str(t, "fieldsType"), "FieldsV1"))
        return -1;
    e->set = fieldset_from_tree(a, tree_get(t, "fieldsV1"));
    return 0;
}

int managed_fields_read(struct arena *a, const struct tree *list, struct managed_fields *ret)
{
    *ret = (struct managed_fields){0};
    for (size_t i = 0; i < tree_count(list); i++) {
        if (read_entry(a, tree_at(list, i), add_entry(a, ret)) < 0) {
            ret->count = 0;
            return -1;
        }
    }
    return 0;
}

bool managed_fields_is_reset(const struct tree *list)
{
    return tree_is_list(list) &&
           (tree_count(list) == 0 || (tree_count(list) == 1 && tree_count(tree_at(list, 0)) == 0));
}

// Times are RFC 3339 in UTC, so text order is time order; an entry without one comes first.
static int compare_entries(const void *x, const void *y)
{
    const struct managed_entry *a = x, *b = y;
    if (a->apply != b->apply)
        return a->apply ? -1 : 1;
    int order = strcmp(a->time == NULL ? "" : a->time, b->time == NULL ? "" : b->time);
    if (order == 0)
        order = strcmp(a->manager, b->manager);
    if (order == 0)
        order = strcmp(a->api_version, b->api_version);
    return order != 0 ? order : strcmp(a->subresource, b->subresource);
}

struct tree *managed_fields_write(struct arena *a, const struct managed_fields *m)
{
    if (m->count == 0)
        return NULL;
    qsort(m->items, m->count, sizeof(*m->items), compare_entries);
    struct tree *list = tree_list(a);
    for (size_t i = 0; i < m->count; i++) {
        const struct managed_entry *e = &m->items[i];
        struct tree *t = tree_map(a);
        tree_set_str(a, t, "manager", e->manager);
        tree_set_str(a, t, "operation", e->apply ? "Apply" : "Update");
        tree_set_str(a, t, "apiVersion", e->api_version);
        if (e->time != NULL)
            tree_set_str(a, t, "time", e->time);
        tree_set_str(a, t, "fieldsType", "FieldsV1");
        tree_set(a, t, "fieldsV1", fieldset_to_tree(a, e->set));
        if (e->subresource[0] != '\0')
            tree_set_str(a, t, "subresource", e->subresource);
        tree_add(a, list, t);
    }
    return list;
}

static struct managed_entry *find_entry(struct managed_fields *m, const struct managed_writer *w, bool apply)
{
    for (size_t i = 0; i < m->count; i++) {
        struct managed_entry *e = &m->items[i];
        if (e->apply == apply && strcmp(e->manager, w->manager) == 0 &&
            strcmp(e->subresource, w->subresource) == 0 &&
            (apply || strcmp(e->api_version, w->api_version) == 0))
            return e;
    }
    return NULL;
}

static struct managed_entry *need_entry(struct managed_fields *m, const struct managed_writer *w, bool apply)
{
    struct managed_entry *e = find_entry(m, w, apply);
    if (e == NULL) {
        e = add_entry(w->arena, m);
        e->manager = w->manager;
        e->apply = apply;
        e->subresource = w->subresource;
        e->set = fieldset_new(w->arena);
    }
    e->api_version = w->api_version;
    return e;
}

// What nobody owns: identity and what the server sets itself.
static struct fieldset *without_server_fields(struct arena *a, const struct fieldset *set)
{
    static const char *const top[] = {"f:apiVersion", "f:kind", "f:metadata"};
    static const char *const meta[] = {"f:name",       "f:namespace",     "f:creationTimestamp",
                                       "f:selfLink",   "f:uid",           "f:clusterName",
                                       "f:generation", "f:managedFields", "f:resourceVersion"};
    static const struct fieldset_path root;
    struct fieldset *strip = fieldset_new(a);
    for (size_t i = 0; i < sizeof(top) / sizeof(top[0]); i++)
        fieldset_insert(a, strip, &(struct fieldset_path){&root, top[i], strlen(top[i])});
    struct fieldset_path in_meta = {&root, "f:metadata", strlen("f:metadata")};
    for (size_t i = 0; i < sizeof(meta) / sizeof(meta[0]); i++)
        fieldset_insert(a, strip, &(struct fieldset_path){&in_meta, meta[i], strlen(meta[i])});
    return fieldset_difference(a, set, strip);
}

struct conflict_walk {
    struct arena *a;
    const char *manager;
    struct managed_conflicts *out;
};

static void add_conflict(void *ud, const char *path)
{
    struct conflict_walk *w = ud;
    struct managed_conflicts *c = w->out;
    if (c->count == c->cap) {
        size_t cap = c->cap == 0 ? 8 : 2 * c->cap;
        struct managed_conflict *items = arena_zalloc(w->a, cap * sizeof(*items));
        if (c->count > 0)
            memcpy(items, c->items, c->count * sizeof(*items));
        c->items = items;
        c->cap = cap;
    }
    c->items[c->count++] = (struct managed_conflict){w->manager, arena_strdup(w->a, path)};
}

static const char *manager_text(struct arena *a, const struct managed_entry *e)
{
    const char *quoted = tree_print(a, tree_str(a, e->manager));
    if (e->subresource[0] != '\0')
        quoted = arena_printf(a, "%s with subresource \"%s\"", quoted, e->subresource);
    return e->apply ? quoted : arena_printf(a, "%s using %s", quoted, e->api_version);
}

// Sorted by manager; the paths of one manager keep their order.
static void sort_conflicts(struct managed_conflicts *c)
{
    for (size_t i = 1; i < c->count; i++) {
        struct managed_conflict it = c->items[i];
        size_t at = i;
        for (; at > 0 && strcmp(c->items[at - 1].manager, it.manager) > 0; at--)
            c->items[at] = c->items[at - 1];
        c->items[at] = it;
    }
}

// Every manager but `self` loses what changes; false when that needs force and there is none.
static bool take_from_others(const struct managed_writer *w, const struct typed_diff *diff,
                             struct managed_fields *m, const struct managed_entry *self,
                             struct managed_conflicts *conflicts)
{
    struct arena *a = w->arena;
    const struct fieldset *changed = fieldset_union(a, diff->modified, diff->added);
    for (size_t i = 0; conflicts != NULL && i < m->count; i++) {
        const struct managed_entry *e = &m->items[i];
        if (e == self)
            continue;
        struct conflict_walk walk = {a, manager_text(a, e), conflicts};
        fieldset_each(fieldset_intersection(a, e->set, changed), add_conflict, &walk);
    }
    if (conflicts != NULL && conflicts->count > 0) {
        sort_conflicts(conflicts);
        return false;
    }
    const struct fieldset *lost = fieldset_union(a, changed, diff->removed);
    for (size_t i = 0; i < m->count; i++) {
        if (&m->items[i] != self)
            m->items[i].set = fieldset_difference(a, m->items[i].set, lost);
    }
    return true;
}

static void drop_empty(struct managed_fields *m)
{
    for (size_t i = 0; i < m->count;) {
        if (fieldset_is_empty(m->items[i].set))
            remove_entry(m, i);
        else
            i++;
    }
}

// Takes out of `merged` what the manager applied before, does not apply now, and nobody else owns.
static struct tree *prune(const struct managed_writer *w, struct tree *merged, const struct managed_fields *m,
                          const struct fieldset *last)
{
    struct arena *a = w->arena;
    if (fieldset_is_empty(last))
        return merged;
    struct fieldset *mine = typed_with_parents(a, w->type, last);
    struct fieldset *all = typed_with_parents(a, w->type, typed_fields(a, w->type, merged));
    struct fieldset *owned = fieldset_new(a);
    for (size_t i = 0; i < m->count; i++)
        owned = fieldset_union(a, owned, m->items[i].set);
    owned = typed_with_parents(a, w->type, owned);

    struct tree *pruned = typed_remove(a, w->type, merged, mine);
    struct fieldset *left = typed_with_parents(a, w->type, typed_fields(a, w->type, pruned));
    // Back comes what somebody owns ...
    pruned = typed_remove(a, w->type, merged, fieldset_difference(a, all, fieldset_union(a, left, owned)));
    // ... and what was below something of ours without being ours.
    left = typed_with_parents(a, w->type, typed_fields(a, w->type, pruned));
    struct fieldset *gone = fieldset_intersection(a, fieldset_difference(a, all, left), mine);
    return typed_fill_holes(a, typed_remove(a, w->type, merged, gone));
}

// An object that nobody is known to own: whatever is in it belongs to an updater of the time before.
static void own_existing(const struct managed_writer *w, const struct tree *live, struct managed_fields *m)
{
    struct managed_writer before = *w;
    before.manager = "before-first-apply";
    managed_fields_update(&before, NULL, live, false, m);
}

bool managed_fields_apply(const struct managed_writer *w, struct tree *live, struct tree *patch, bool exists,
                          struct managed_fields *m, struct tree **ret, struct managed_conflicts *conflicts)
{
    struct arena *a = w->arena;
    if (exists && m->count == 0)
        own_existing(w, live, m);
    struct tree *merged = typed_merge(a, w->type, live, patch);
    struct managed_entry *self = need_entry(m, w, true);
    const struct fieldset *last = self->set;
    self->set = typed_fields(a, w->type, patch);
    merged = prune(w, merged, m, last);

    struct typed_diff diff;
    typed_compare(a, w->type, live, merged, &diff);
    if (!take_from_others(w, &diff, m, self, w->force ? NULL : conflicts))
        return false;
    self->set = without_server_fields(a, self->set);
    bool same = tree_equal(live, merged);
    if (!same)
        self->time = w->time;
    drop_empty(m);
    *ret = same ? live : merged;
    return true;
}

void managed_fields_update(const struct managed_writer *w, const struct tree *live, const struct tree *new,
                           bool exists, struct managed_fields *m)
{
    struct arena *a = w->arena;
    if (exists && m->count == 0)
        return; // ownership was given up; it is taken up again by the next apply
    struct typed_diff diff;
    typed_compare(a, w->type, live, new, &diff);
    take_from_others(w, &diff, m, NULL, NULL);
    struct fieldset *set = without_server_fields(a, fieldset_union(a, diff.modified, diff.added));
    if (!fieldset_is_empty(set)) {
        struct managed_entry *self = need_entry(m, w, false);
        self->set = fieldset_union(a, self->set, set);
        self->time = w->time;
    }
    drop_empty(m);
}
