#include "apiserver/typed.h"

#include <string.h>

#include "base/buf.h"

// Stands where typed_remove emptied a container.
static struct tree hole = {.type = TREE_NULL};

static bool mergeable_map(const struct listtype *type, const struct tree *v)
{
    return type->kind == LISTTYPE_MAP && (v == NULL || v->type == TREE_NULL || v->type == TREE_MAP);
}

static bool mergeable_list(const struct listtype *type, const struct tree *v)
{
    return (type->kind == LISTTYPE_KEYED || type->kind == LISTTYPE_SET) &&
           (v == NULL || v->type == TREE_NULL || v->type == TREE_LIST);
}

struct element {
    const char *key;
    size_t len;
};

static struct element field_element(struct arena *a, const struct tree_item *it)
{
    char *key = arena_zalloc(a, it->key_len + 3);
    key[0] = 'f';
    key[1] = ':';
    memcpy(key + 2, it->key, it->key_len);
    return (struct element){key, it->key_len + 2};
}

static struct element finish_element(struct arena *a, struct buf *b)
{
    struct element e = {arena_strndup(a, b->data, b->len), b->len};
    buf_fini(b);
    return e;
}

// How an item of a keyed list or a set is named. An item without its keys is named by its place.
static struct element item_element(struct arena *a, const struct listtype *type, const struct tree *list,
                                   size_t i, const char **ret_missing)
{
    struct tree *item = tree_at(list, i);
    struct buf b;
    struct json_writer w;
    buf_init(&b, SIZE_MAX / 2);
    jw_init(&w, &b);
    if (type->kind == LISTTYPE_SET) {
        buf_add_str(&b, "v:");
        tree_write(&w, item);
        return finish_element(a, &b);
    }
    buf_add_str(&b, "k:");
    jw_object(&w);
    bool whole = tree_is_map(item);
    for (size_t k = 0; k < LISTTYPE_KEYS_MAX && type->keys[k] != NULL; k++) {
        const struct tree *value = tree_get(item, type->keys[k]);
        jw_key(&w, type->keys[k]);
        if (value != NULL)
            tree_write(&w, value);
        else if (type->key_defaults[k] != NULL)
            jw_raw(&w, type->key_defaults[k], strlen(type->key_defaults[k]));
        else {
            jw_null(&w);
            if (ret_missing != NULL)
                *ret_missing = type->keys[k];
            whole = false;
        }
    }
    jw_object_end(&w);
    if (!whole) {
        buf_reset(&b);
        buf_addf(&b, "i:%zu", i);
    }
    return finish_element(a, &b);
}

static bool same_element(struct element x, struct element y)
{
    return x.len == y.len && memcmp(x.key, y.key, x.len) == 0;
}

static struct element *item_elements(struct arena *a, const struct listtype *type, const struct tree *list)
{
    size_t n = tree_count(list);
    struct element *e = arena_zalloc(a, (n + 1) * sizeof(*e));
    for (size_t i = 0; i < n; i++)
        e[i] = item_element(a, type, list, i, NULL);
    return e;
}

static ptrdiff_t find_element(const struct element *e, size_t n, struct element wanted)
{
    for (size_t i = 0; i < n; i++) {
        if (same_element(e[i], wanted))
            return (ptrdiff_t)i;
    }
    return -1;
}

// ---- check

struct check {
    struct arena *a;
    struct buf path;
    const char *found;
};

static void check_value(struct check *c, const struct listtype *type, const struct tree *v);

static const char *shape_name(char shape)
{
    return shape == 'm' ? "map" : shape == 'l' ? "list" : "string";
}

static bool has_shape(char shape, const struct tree *v)
{
    if (shape == 0 || v->type == TREE_NULL)
        return true;
    return v->type == (shape == 'm' ? TREE_MAP : shape == 'l' ? TREE_LIST : TREE_STRING);
}

static void report_shape(struct check *c, const struct listtype *type, const struct tree *v)
{
    const char *as_go = v->type == TREE_MAP ? "map[]" : v->type == TREE_LIST ? "[]" : tree_print(c->a, v);
    if (type->shape == 's')
        c->found = arena_printf(c->a, "%s: expected string, got &value.valueUnstructured{Value:%s}",
                                c->path.data, as_go);
    else
        c->found = arena_printf(c->a, "%s: expected %s, got &{%s}", c->path.data == NULL ? "" : c->path.data,
                                shape_name(type->shape), as_go);
}

static void check_items(struct check *c, const struct listtype *type, const struct tree *list)
{
    size_t n = tree_count(list), base = c->path.len;
    struct element *e = arena_zalloc(c->a, (n + 1) * sizeof(*e));
    for (size_t i = 0; i < n && c->found == NULL; i++) {
        const char *missing = NULL;
        e[i] = item_element(c->a, type, list, i, &missing);
        if (missing != NULL) {
            c->found = arena_printf(
                c->a,
                "%s: element %zu: associative list with keys has an element that omits key field "
                "\"%s\" (and doesn't have default value)",
                c->path.data, i, missing);
            return;
        }
        if (find_element(e, i, e[i]) >= 0) {
            struct buf text;
            buf_init(&text, 1 << 20);
            fieldset_add_element_text(&text, e[i].key, e[i].len);
            c->found = arena_printf(c->a, "%s: duplicate entries for key %s", c->path.data, text.data);
            buf_fini(&text);
            return;
        }
        fieldset_add_element_text(&c->path, e[i].key, e[i].len);
        check_value(c, type->other, tree_at(list, i));
        c->path.len = base;
        c->path.data[base] = '\0';
    }
}

static void check_value(struct check *c, const struct listtype *type, const struct tree *v)
{
    if (c->found != NULL || v == NULL || type == NULL)
        return;
    if (!has_shape(type->shape, v)) {
        report_shape(c, type, v);
        return;
    }
    if (type->kind == LISTTYPE_MAP && tree_is_map(v)) {
        size_t base = c->path.len;
        for (size_t i = 0; i < tree_count(v) && c->found == NULL; i++) {
            const struct tree_item *it = &v->box.items[i];
            buf_addf(&c->path, ".%s", it->key);
            check_value(c, listtype_member(type, it->key, NULL), it->value);
            c->path.len = base;
            c->path.data[base] = '\0';
        }
    } else if (mergeable_list(type, v)) {
        check_items(c, type, v);
    }
}

const char *typed_check(struct arena *a, const struct listtype *type, const struct tree *value)
{
    struct check c = {.a = a};
    buf_init(&c.path, 1 << 20);
    check_value(&c, type, value);
    buf_fini(&c.path);
    return c.found;
}

// ---- fields

struct fields_walk {
    struct arena *a;
    struct fieldset *set;
};

static void walk_fields(struct fields_walk *w, const struct listtype *type, const struct tree *v,
                        const struct fieldset_path *path);

static void walk_items(struct fields_walk *w, const struct listtype *type, const struct tree *list,
                       const struct fieldset_path *path)
{
    size_t n = tree_count(list);
    struct element *e = item_elements(w->a, type, list);
    for (size_t i = 0; i < n; i++) {
        struct fieldset_path here = {path, e[i].key, e[i].len};
        bool twice = find_element(e, i, e[i]) >= 0 || find_element(e + i + 1, n - i - 1, e[i]) >= 0;
        if (!twice)
            walk_fields(w, type->other, tree_at(list, i), &here);
        fieldset_insert(w->a, w->set, &here);
    }
}

static void walk_members(struct fields_walk *w, const struct listtype *type, const struct tree *map,
                         const struct fieldset_path *path)
{
    for (size_t i = 0; i < tree_count(map); i++) {
        const struct tree_item *it = &map->box.items[i];
        struct element e = field_element(w->a, it);
        struct fieldset_path here = {path, e.key, e.len};
        bool named;
        const struct listtype *member = listtype_member(type, it->key, &named);
        walk_fields(w, member, it->value, &here);
        bool empty = tree_is_null(it->value) || (tree_is_map(it->value) && tree_count(it->value) == 0);
        if (!named || empty)
            fieldset_insert(w->a, w->set, &here);
    }
}

static void walk_fields(struct fields_walk *w, const struct listtype *type, const struct tree *v,
                        const struct fieldset_path *path)
{
    if (mergeable_map(type, v))
        walk_members(w, type, v, path);
    else if (mergeable_list(type, v))
        walk_items(w, type, v, path);
    else
        fieldset_insert(w->a, w->set, path);
}

struct fieldset *typed_fields(struct arena *a, const struct listtype *type, const struct tree *value)
{
    struct fields_walk w = {a, fieldset_new(a)};
    static const struct fieldset_path root;
    walk_fields(&w, type, value, &root);
    return w.set;
}

// ---- merge

static struct tree *merge_members(struct arena *a, const struct listtype *type, struct tree *base,
                                  struct tree *over)
{
    struct tree *out = tree_map(a);
    size_t i = 0, j = 0, n = tree_count(base), m = tree_count(over);
    while (i < n || j < m) {
        struct tree_item *x = i < n ? &base->box.items[i] : NULL, *y = j < m ? &over->box.items[j] : NULL;
        int order = x == NULL ? 1 : y == NULL ? -1 : strcmp(x->key, y->key);
        struct tree_item *named = order <= 0 ? x : y;
        struct tree *value =
            order < 0   ? x->value
            : order > 0 ? y->value
                        : typed_merge(a, listtype_member(type, named->key, NULL), x->value, y->value);
        tree_setn(a, out, named->key, named->key_len, value);
        i += order <= 0;
        j += order >= 0;
    }
    return out;
}

struct list_merge {
    struct arena *a;
    const struct listtype *type;
    struct tree *base, *over, *out;
    struct element *base_e, *over_e;
    size_t n, m; // items in base, over
    bool *done;  // items of over that are in out
};

// Item j of over, merged with its twin in base.
static void take_over(struct list_merge *g, size_t j)
{
    ptrdiff_t twin = find_element(g->base_e, g->n, g->over_e[j]);
    bool twice = twin >= 0 && find_element(g->base_e + twin + 1, g->n - (size_t)twin - 1, g->over_e[j]) >= 0;
    struct tree *left = twin < 0 || twice ? NULL : tree_at(g->base, (size_t)twin);
    tree_add(g->a, g->out, typed_merge(g->a, g->type->other, left, tree_at(g->over, j)));
    g->done[j] = true;
}

// Index in over of the next item from j on that base has too; m if there is none.
static size_t next_shared(const struct list_merge *g, size_t j)
{
    while (j < g->m && find_element(g->base_e, g->n, g->over_e[j]) < 0)
        j++;
    return j;
}

// Items of base keep their places, new ones of over stand where over puts them relative to the items both
// have; over's order wins.
static void merge_order(struct list_merge *g)
{
    size_t i = 0, j = 0, shared = next_shared(g, 0);
    while (i < g->n || j < g->m) {
        ptrdiff_t in_over = i < g->n ? find_element(g->over_e, g->m, g->base_e[i]) : -1;
        if (i < g->n && j < g->m) {
            if (in_over == (ptrdiff_t)j) {
                take_over(g, j);
                shared = next_shared(g, ++j);
                i++;
                continue;
            }
            if (in_over >= 0 && shared < g->m && (size_t)in_over != shared) {
                i++; // its turn comes when over says so
                continue;
            }
        }
        if (i < g->n && in_over < 0) {
            tree_add(g->a, g->out, tree_at(g->base, i++));
            continue;
        }
        if (i < g->n && g->done[in_over])
            i++;
        if (j < g->m) {
            take_over(g, j);
            if (shared == j)
                shared = next_shared(g, j + 1);
            j++;
        }
    }
}

static struct tree *merge_items(struct arena *a, const struct listtype *type, struct tree *base,
                                struct tree *over)
{
    struct list_merge g = {
        .a = a,
        .type = type,
        .base = base,
        .over = over,
        .out = tree_list(a),
        .base_e = item_elements(a, type, base),
        .over_e = item_elements(a, type, over),
        .n = tree_count(base),
        .m = tree_count(over),
    };
    g.done = arena_zalloc(a, g.m + 1);
    merge_order(&g);
    return g.out;
}

struct tree *typed_merge(struct arena *a, const struct listtype *type, struct tree *base, struct tree *over)
{
    if (base == NULL || over == NULL)
        return over != NULL ? over : base;
    if (tree_count(base) == 0 && tree_count(over) == 0)
        return over;
    if (mergeable_map(type, base) && mergeable_map(type, over))
        return merge_members(a, type, base, over);
    if (mergeable_list(type, base) && mergeable_list(type, over))
        return merge_items(a, type, base, over);
    return over;
}

// ---- compare

struct compare_walk {
    struct arena *a;
    struct typed_diff *diff;
};

static void compare_value(struct compare_walk *w, const struct listtype *type, const struct tree *old,
                          const struct tree *new, const struct fieldset_path *path);

static void compare_members(struct compare_walk *w, const struct listtype *type, const struct tree *old,
                            const struct tree *new, const struct fieldset_path *path)
{
    size_t i = 0, j = 0, n = tree_count(old), m = tree_count(new);
    while (i < n || j < m) {
        struct tree_item *x = i < n ? &old->box.items[i] : NULL, *y = j < m ? &new->box.items[j] : NULL;
        int order = x == NULL ? 1 : y == NULL ? -1 : strcmp(x->key, y->key);
        const struct tree_item *named = order <= 0 ? x : y;
        struct element e = field_element(w->a, named);
        struct fieldset_path here = {path, e.key, e.len};
        compare_value(w, listtype_member(type, named->key, NULL), order <= 0 ? x->value : NULL,
                      order >= 0 ? y->value : NULL, &here);
        i += order <= 0;
        j += order >= 0;
    }
}

struct found {
    size_t count;
    const struct tree *first;
};

static struct found find_items(const struct element *e, const struct tree *list, struct element wanted)
{
    struct found f = {0};
    for (size_t i = 0; i < tree_count(list); i++) {
        if (!same_element(e[i], wanted))
            continue;
        if (f.count++ == 0)
            f.first = tree_at(list, i);
    }
    return f;
}

// One key, which may stand several times on either side; then all items of the key count as one value.
static void compare_item(struct compare_walk *w, const struct listtype *type, struct found x, struct found y,
                         bool same, const struct fieldset_path *here)
{
    if (x.count <= 1 && y.count <= 1) {
        compare_value(w, type->other, x.first, y.first, here);
    } else if (x.count >= 2 && y.count >= 2) {
        if (!same)
            fieldset_insert(w->a, w->diff->modified, here);
    } else if (x.count >= 2) {
        compare_value(w, type->other, NULL, y.first, here);
        fieldset_insert(w->a, w->diff->removed, here);
    } else {
        compare_value(w, type->other, x.first, NULL, here);
        fieldset_insert(w->a, w->diff->added, here);
    }
}

static void compare_items(struct compare_walk *w, const struct listtype *type, const struct tree *old,
                          const struct tree *new, const struct fieldset_path *path)
{
    struct element *x = item_elements(w->a, type, old), *y = item_elements(w->a, type, new);
    size_t n = tree_count(old), m = tree_count(new);
    bool same = tree_equal(old, new);
    for (size_t i = 0; i < n + m; i++) {
        struct element e = i < n ? x[i] : y[i - n];
        bool seen =
            i < n ? find_element(x, i, e) >= 0 : find_element(x, n, e) >= 0 || find_element(y, i - n, e) >= 0;
        if (seen)
            continue;
        struct fieldset_path here = {path, e.key, e.len};
        compare_item(w, type, find_items(x, old, e), find_items(y, new, e), same, &here);
    }
}

static void compare_value(struct compare_walk *w, const struct listtype *type, const struct tree *old,
                          const struct tree *new, const struct fieldset_path *path)
{
    bool nothing = tree_count(old) == 0 && tree_count(new) == 0;
    bool maps = mergeable_map(type, old) && mergeable_map(type, new);
    bool lists = mergeable_list(type, old) && mergeable_list(type, new);
    if (old == NULL && new == NULL)
        return;
    if (maps && !nothing)
        compare_members(w, type, old, new, path);
    else if (lists && !nothing)
        compare_items(w, type, old, new, path);
    else if (old != NULL && new != NULL && !tree_equal(old, new)) {
        fieldset_insert(w->a, w->diff->modified, path);
        // A map that becomes a scalar, or the other way round, loses or gains its members, too.
        if (mergeable_map(type, old) != mergeable_map(type, new))
            compare_members(w, type, tree_is_map(old) ? old : NULL, tree_is_map(new) ? new : NULL, path);
    }
    if (old == NULL)
        fieldset_insert(w->a, w->diff->added, path);
    else if (new == NULL)
        fieldset_insert(w->a, w->diff->removed, path);
}

void typed_compare(struct arena *a, const struct listtype *type, const struct tree *old,
                   const struct tree *new, struct typed_diff *ret)
{
    *ret = (struct typed_diff){fieldset_new(a), fieldset_new(a), fieldset_new(a)};
    struct compare_walk w = {a, ret};
    static const struct fieldset_path root;
    compare_value(&w, type, old, new, &root);
}

// ---- remove

static struct tree *remove_members(struct arena *a, const struct listtype *type, struct tree *v,
                                   const struct fieldset *set)
{
    struct tree *out = tree_map(a);
    for (size_t i = 0; i < tree_count(v); i++) {
        const struct tree_item *it = &v->box.items[i];
        struct element e = field_element(a, it);
        const struct fieldset *below = fieldset_find(set, e.key, e.len);
        if (below != NULL && below->member)
            continue;
        struct tree *value = it->value;
        if (below != NULL && !fieldset_is_empty(below))
            value = typed_remove(a, listtype_member(type, it->key, NULL), value, below);
        tree_setn(a, out, it->key, it->key_len, value);
    }
    return tree_count(out) == 0 ? &hole : out;
}

static struct tree *remove_items(struct arena *a, const struct listtype *type, struct tree *v,
                                 const struct fieldset *set)
{
    struct tree *out = tree_list(a);
    struct element *e = item_elements(a, type, v);
    for (size_t i = 0; i < tree_count(v); i++) {
        const struct fieldset *below = fieldset_find(set, e[i].key, e[i].len);
        if (below != NULL && below->member)
            continue;
        struct tree *value = tree_at(v, i);
        if (below != NULL && !fieldset_is_empty(below))
            value = typed_remove(a, type->other, value, below);
        tree_add(a, out, value);
    }
    return tree_count(out) == 0 ? &hole : out;
}

struct tree *typed_remove(struct arena *a, const struct listtype *type, struct tree *value,
                          const struct fieldset *set)
{
    if (tree_count(value) == 0)
        return value;
    if (mergeable_map(type, value))
        return remove_members(a, type, value, set);
    if (mergeable_list(type, value))
        return remove_items(a, type, value, set);
    return value;
}

static struct tree *fill_holes(struct arena *a, struct tree *value)
{
    if (value == &hole)
        return tree_null(a);
    if (tree_count(value) == 0)
        return value;
    struct tree *out = tree_is_map(value) ? tree_map(a) : tree_list(a);
    for (size_t i = 0; i < tree_count(value); i++) {
        const struct tree_item *it = &value->box.items[i];
        if (tree_is_map(value))
            tree_setn(a, out, it->key, it->key_len, fill_holes(a, it->value));
        else
            tree_add(a, out, fill_holes(a, it->value));
    }
    return out;
}

struct tree *typed_fill_holes(struct arena *a, struct tree *value)
{
    return value == &hole ? tree_map(a) : fill_holes(a, value);
}

// ---- parents

static struct fieldset *with_parents(struct arena *a, const struct listtype *type, const struct fieldset *s)
{
    struct fieldset *out = fieldset_new(a);
    out->key = s->key;
    out->key_len = s->key_len;
    out->member = s->member;
    for (const struct fieldset *c = s->first; c != NULL; c = c->next) {
        bool named = false;
        const struct listtype *below = type == NULL ? NULL : type->other;
        if (type != NULL && type->kind == LISTTYPE_MAP && c->key[0] == 'f')
            below = listtype_member(type, c->key + 2, &named);
        struct fieldset *copy = with_parents(a, below, c);
        copy->member = copy->member || (named && c->first != NULL);
        if (out->last == NULL)
            out->first = copy;
        else
            out->last->next = copy;
        out->last = copy;
    }
    return out;
}

struct fieldset *typed_with_parents(struct arena *a, const struct listtype *type, const struct fieldset *set)
{
    return set == NULL ? fieldset_new(a) : with_parents(a, type, set);
}

// ---- normalize

void typed_normalize(struct arena *a, const struct listtype *type, struct tree *value)
{
    if (type == NULL || !type->builtin || tree_count(value) == 0 || type->kind == LISTTYPE_ATOMIC)
        return;
    if (tree_is_list(value)) {
        for (size_t i = 0; type->kind != LISTTYPE_MAP && i < tree_count(value); i++)
            typed_normalize(a, type->other, tree_at(value, i));
        return;
    }
    for (size_t i = 0; type->kind == LISTTYPE_MAP && i < value->box.count;) {
        struct tree_item *it = &value->box.items[i];
        bool named;
        const struct listtype *member = listtype_member(type, it->key, &named);
        typed_normalize(a, member, it->value);
        bool emptied = tree_count(it->value) == 0 &&
                       (tree_is_list(it->value) ||
                        (tree_is_map(it->value) && !member->other_named && member->shape == 'm'));
        if (named && (tree_is_null(it->value) || emptied)) {
            tree_remove(value, it->key);
            continue;
        }
        if (!named && tree_is_null(it->value))
            it->value = tree_str(a, "");
        i++;
    }
}
