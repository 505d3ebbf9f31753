#include "apiserver/fieldset.h"

#include <stdlib.h>
#include <string.h>

struct fieldset *fieldset_new(struct arena *a)
{
    return arena_zalloc(a, sizeof(struct fieldset));
}

static int compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    if (order != 0)
        return order;
    return a_len < b_len ? -1 : a_len > b_len;
}

static int compare_nodes(const struct fieldset *x, const struct fieldset *y)
{
    return compare(x->key, x->key_len, y->key, y->key_len);
}

// Behind the last child, to which it must not be smaller.
static void append(struct fieldset *parent, struct fieldset *child)
{
    child->next = NULL;
    if (parent->last == NULL)
        parent->first = child;
    else
        parent->last->next = child;
    parent->last = child;
}

static struct fieldset *new_child(struct arena *a, const char *key, size_t n, bool member)
{
    struct fieldset *c = fieldset_new(a);
    c->key = key;
    c->key_len = n;
    c->member = member;
    return c;
}

static struct fieldset *need_child(struct arena *a, struct fieldset *s, const char *key, size_t n)
{
    if (s->last == NULL || compare(s->last->key, s->last->key_len, key, n) < 0) {
        struct fieldset *c = new_child(a, key, n, false);
        append(s, c);
        return c;
    }
    struct fieldset **at = &s->first;
    int order;
    while ((order = compare((*at)->key, (*at)->key_len, key, n)) < 0)
        at = &(*at)->next;
    if (order == 0)
        return *at;
    struct fieldset *c = new_child(a, key, n, false);
    c->next = *at;
    *at = c;
    return c;
}

static struct fieldset *descend(struct arena *a, struct fieldset *s, const struct fieldset_path *path)
{
    if (path == NULL || path->key == NULL)
        return s;
    return need_child(a, descend(a, s, path->before), path->key, path->key_len);
}

void fieldset_insert(struct arena *a, struct fieldset *s, const struct fieldset_path *path)
{
    if (path != NULL && path->key != NULL)
        descend(a, s, path)->member = true;
}

const struct fieldset *fieldset_find(const struct fieldset *s, const char *key, size_t n)
{
    for (const struct fieldset *c = s == NULL ? NULL : s->first; c != NULL; c = c->next) {
        int order = compare(c->key, c->key_len, key, n);
        if (order >= 0)
            return order == 0 ? c : NULL;
    }
    return NULL;
}

bool fieldset_is_empty(const struct fieldset *s)
{
    if (s == NULL)
        return true;
    if (s->member)
        return false;
    for (const struct fieldset *c = s->first; c != NULL; c = c->next) {
        if (!fieldset_is_empty(c))
            return false;
    }
    return true;
}

// Is something in the result that the left set has, or has not, and the right one?
static bool is_in(char op, bool left, bool right)
{
    switch (op) {
    case '|':
        return left || right;
    case '&':
        return left && right;
    default:
        return left && !right;
    }
}

static struct fieldset *combine(struct arena *a, const struct fieldset *x, const struct fieldset *y, char op)
{
    bool member = is_in(op, x != NULL && x->member, y != NULL && y->member);
    const struct fieldset *named = x != NULL ? x : y;
    struct fieldset *out = new_child(a, named->key, named->key_len, member);
    const struct fieldset *i = x == NULL ? NULL : x->first, *j = y == NULL ? NULL : y->first;
    while (i != NULL || j != NULL) {
        int order = i == NULL ? 1 : j == NULL ? -1 : compare_nodes(i, j);
        const struct fieldset *left = order <= 0 ? i : NULL, *right = order >= 0 ? j : NULL;
        // A difference has to look below what both have.
        if (op == '-' ? left != NULL : is_in(op, left != NULL, right != NULL)) {
            struct fieldset *child = combine(a, left, right, op);
            if (child->member || child->first != NULL)
                append(out, child);
        }
        i = left != NULL ? i->next : i;
        j = right != NULL ? j->next : j;
    }
    return out;
}

static struct fieldset *combine_roots(struct arena *a, const struct fieldset *x, const struct fieldset *y,
                                      char op)
{
    static const struct fieldset nothing;
    return combine(a, x == NULL ? &nothing : x, y == NULL ? &nothing : y, op);
}

struct fieldset *fieldset_union(struct arena *a, const struct fieldset *x, const struct fieldset *y)
{
    return combine_roots(a, x, y, '|');
}

struct fieldset *fieldset_difference(struct arena *a, const struct fieldset *x, const struct fieldset *y)
{
    return combine_roots(a, x, y, '-');
}

struct fieldset *fieldset_intersection(struct arena *a, const struct fieldset *x, const struct fieldset *y)
{
    return combine_roots(a, x, y, '&');
}

static void read_children(struct arena *a, struct fieldset *s, const struct tree *t)
{
    for (size_t i = 0; i < tree_count(t); i++) {
        const struct tree_item *it = &t->box.items[i];
        if (it->key_len == 1 && it->key[0] == '.') {
            s->member = true;
            continue;
        }
        if (it->key_len < 2 || it->key[1] != ':')
            continue;
        struct fieldset *c = need_child(a, s, it->key, it->key_len);
        if (tree_count(it->value) == 0)
            c->member = true;
        else
            read_children(a, c, it->value);
    }
}

struct fieldset *fieldset_from_tree(struct arena *a, const struct tree *fields_v1)
{
    struct fieldset *s = fieldset_new(a);
    if (tree_is_map(fields_v1))
        read_children(a, s, fields_v1);
    s->member = false;
    return s;
}

struct tree *fieldset_to_tree(struct arena *a, const struct fieldset *s)
{
    struct tree *t = tree_map(a);
    if (s->key != NULL && s->member && s->first != NULL)
        tree_set(a, t, ".", tree_map(a));
    for (const struct fieldset *c = s->first; c != NULL; c = c->next)
        tree_setn(a, t, c->key, c->key_len, fieldset_to_tree(a, c));
    return t;
}

// `k:{"name":"a","port":80}` -> `[name="a",port=80]`
static void add_key_text(struct buf *out, const char *key, size_t n)
{
    struct json_doc *doc;
    if (json_parse(key + 2, n - 2, &doc, NULL) < 0) {
        buf_add(out, key, n);
        return;
    }
    buf_add_char(out, '[');
    for (struct json_iter i = json_iter(json_root(doc)); json_next(&i);) {
        char *value;
        size_t len;
        if (i.index > 0)
            buf_add_char(out, ',');
        buf_add(out, i.key, i.key_len);
        buf_add_char(out, '=');
        if (json_print(i.value, 1 << 20, &value, &len, NULL) == 0) {
            buf_add(out, value, len);
            free(value);
        }
    }
    buf_add_char(out, ']');
    json_doc_free(doc);
}

void fieldset_add_element_text(struct buf *out, const char *key, size_t n)
{
    switch (key[0]) {
    case 'f':
        buf_add_char(out, '.');
        buf_add(out, key + 2, n - 2);
        break;
    case 'k':
        add_key_text(out, key, n);
        break;
    default:
        buf_add_str(out, key[0] == 'v' ? "[=" : "[");
        buf_add(out, key + 2, n - 2);
        buf_add_char(out, ']');
    }
}

static void each(const struct fieldset *s, struct buf *path, void (*fn)(void *ud, const char *path), void *ud)
{
    size_t base = path->len;
    for (int deeper = 0; deeper < 2; deeper++) {
        for (const struct fieldset *c = s->first; c != NULL; c = c->next) {
            if (deeper ? c->first == NULL : !c->member)
                continue;
            fieldset_add_element_text(path, c->key, c->key_len);
            if (deeper)
                each(c, path, fn, ud);
            else
                fn(ud, path->data);
            path->len = base;
            if (path->data != NULL)
                path->data[base] = '\0';
        }
    }
}

void fieldset_each(const struct fieldset *s, void (*fn)(void *ud, const char *path), void *ud)
{
    struct buf path;
    buf_init(&path, 1 << 20);
    if (s != NULL)
        each(s, &path, fn, ud);
    buf_fini(&path);
}
