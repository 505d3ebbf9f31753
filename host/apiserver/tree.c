#include "apiserver/tree.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/assert.h"

static struct tree *new_node(struct arena *a, enum tree_type type)
{
    struct tree *t = arena_zalloc(a, sizeof(*t));
    t->type = type;
    return t;
}

static struct tree *new_box(struct arena *a, enum tree_type type, size_t cap)
{
    struct tree *t = new_node(a, type);
    if (cap > 0)
        t->box.items = arena_zalloc(a, cap * sizeof(*t->box.items));
    t->box.cap = cap;
    return t;
}

static int compare_keys(const char *a, size_t a_len, const char *b, size_t b_len)
{
    int order = memcmp(a, b, a_len < b_len ? a_len : b_len);
    if (order != 0)
        return order;
    return a_len < b_len ? -1 : a_len > b_len;
}

static int compare_items(const void *a, const void *b)
{
    const struct tree_item *x = a, *y = b;
    return compare_keys(x->key, x->key_len, y->key, y->key_len);
}

// Keys come in any order and may come twice: sorts, keeping the last of equals.
static void sort_items(struct tree *map)
{
    struct tree_item *items = map->box.items;
    bool sorted = true;
    for (size_t i = 1; i < map->box.count && sorted; i++)
        sorted = compare_items(&items[i - 1], &items[i]) < 0;
    if (sorted)
        return;
    for (size_t i = 1; i < map->box.count; i++) { // stable, and quick on what is nearly sorted
        struct tree_item it = items[i];
        size_t low = 0, high = i;
        while (low < high) {
            size_t mid = (low + high) / 2;
            if (compare_items(&items[mid], &it) <= 0)
                low = mid + 1;
            else
                high = mid;
        }
        memmove(&items[low + 1], &items[low], (i - low) * sizeof(*items));
        items[low] = it;
    }
    size_t kept = 0;
    for (size_t i = 0; i < map->box.count; i++) {
        if (kept > 0 && compare_items(&items[kept - 1], &items[i]) == 0)
            kept--;
        items[kept++] = items[i];
    }
    map->box.count = kept;
}

static struct tree *number_from_json(struct arena *a, const json *node)
{
    yyjson_val *v = (yyjson_val *)node;
    struct tree *t = new_node(a, TREE_INT);
    if (json_int(node, &t->num) == 0)
        return t;
    if (yyjson_is_uint(v)) {
        t->type = TREE_UINT;
        t->unum = yyjson_get_uint(v);
    } else {
        t->type = TREE_DOUBLE;
        t->dbl = yyjson_get_num(v);
    }
    return t;
}

static struct tree *box_from_json(struct arena *a, const json *node)
{
    bool map = json_is_object(node);
    struct tree *t = new_box(a, map ? TREE_MAP : TREE_LIST, json_count(node));
    for (struct json_iter i = json_iter(node); json_next(&i);) {
        struct tree_item *it = &t->box.items[t->box.count++];
        it->value = tree_from_json(a, i.value);
        if (map) {
            it->key = arena_strndup(a, i.key, i.key_len);
            it->key_len = i.key_len;
        }
    }
    if (map)
        sort_items(t);
    return t;
}

struct tree *tree_from_json(struct arena *a, const json *node)
{
    if (node == NULL)
        return NULL;
    if (json_is_object(node) || json_is_array(node))
        return box_from_json(a, node);
    if (json_is_string(node))
        return tree_strn(a, json_str(node), json_str_len(node));
    if (json_is_number(node))
        return number_from_json(a, node);
    struct tree *t = new_node(a, json_is_bool(node) ? TREE_BOOL : TREE_NULL);
    if (json_is_bool(node))
        t->flag = json_true(node);
    return t;
}

struct tree *tree_parse(struct arena *a, const char *text, size_t n, struct err *e)
{
    struct json_doc *doc;
    if (json_parse(text, n, &doc, e) < 0)
        return NULL;
    struct tree *t = tree_from_json(a, json_root(doc));
    json_doc_free(doc);
    return t;
}

struct tree *tree_copy(struct arena *a, const struct tree *t)
{
    if (t == NULL)
        return NULL;
    if (t->type != TREE_LIST && t->type != TREE_MAP) {
        struct tree *copy = new_node(a, t->type);
        *copy = *t; // texts are never changed in place
        return copy;
    }
    struct tree *copy = new_box(a, t->type, t->box.count);
    copy->box.count = t->box.count;
    for (size_t i = 0; i < t->box.count; i++) {
        copy->box.items[i] = t->box.items[i];
        copy->box.items[i].value = tree_copy(a, t->box.items[i].value);
    }
    return copy;
}

static void write_box(struct json_writer *w, const struct tree *t)
{
    bool map = t->type == TREE_MAP;
    if (map)
        jw_object(w);
    else
        jw_array(w);
    for (size_t i = 0; i < t->box.count; i++) {
        if (map)
            jw_keyn(w, t->box.items[i].key, t->box.items[i].key_len);
        tree_write(w, t->box.items[i].value);
    }
    if (map)
        jw_object_end(w);
    else
        jw_array_end(w);
}

void tree_write(struct json_writer *w, const struct tree *t)
{
    switch (t == NULL ? TREE_NULL : t->type) {
    case TREE_NULL:
        jw_null(w);
        break;
    case TREE_BOOL:
        jw_bool(w, t->flag);
        break;
    case TREE_INT:
        jw_int(w, t->num);
        break;
    case TREE_UINT:
        jw_uint(w, t->unum);
        break;
    case TREE_DOUBLE:
        jw_double(w, t->dbl);
        break;
    case TREE_STRING:
        jw_strn(w, t->str.bytes, t->str.len);
        break;
    case TREE_LIST:
    case TREE_MAP:
        write_box(w, t);
        break;
    }
}

char *tree_print(struct arena *a, const struct tree *t)
{
    struct buf b;
    struct json_writer w;
    buf_init(&b, SIZE_MAX / 2);
    jw_init(&w, &b);
    tree_write(&w, t);
    char *text = arena_strndup(a, b.data == NULL ? "" : b.data, b.len);
    buf_fini(&b);
    return text;
}

static double as_double(const struct tree *t)
{
    return t->type == TREE_INT ? (double)t->num : t->type == TREE_UINT ? (double)t->unum : t->dbl;
}

static bool is_number(const struct tree *t)
{
    return t->type == TREE_INT || t->type == TREE_UINT || t->type == TREE_DOUBLE;
}

static bool equal_boxes(const struct tree *a, const struct tree *b)
{
    if (a->box.count != b->box.count)
        return false;
    for (size_t i = 0; i < a->box.count; i++) {
        const struct tree_item *x = &a->box.items[i], *y = &b->box.items[i];
        if (a->type == TREE_MAP && compare_items(x, y) != 0)
            return false;
        if (!tree_equal(x->value, y->value))
            return false;
    }
    return true;
}

bool tree_equal(const struct tree *a, const struct tree *b)
{
    if (a == b || a == NULL || b == NULL)
        return a == b;
    if (a->type != b->type)
        return is_number(a) && is_number(b) && as_double(a) == as_double(b);
    switch (a->type) {
    case TREE_NULL:
        return true;
    case TREE_BOOL:
        return a->flag == b->flag;
    case TREE_INT:
        return a->num == b->num;
    case TREE_UINT:
        return a->unum == b->unum;
    case TREE_DOUBLE:
        return a->dbl == b->dbl;
    case TREE_STRING:
        return compare_keys(a->str.bytes, a->str.len, b->str.bytes, b->str.len) == 0;
    default:
        return equal_boxes(a, b);
    }
}

struct tree *tree_map(struct arena *a)
{
    return new_box(a, TREE_MAP, 0);
}

struct tree *tree_list(struct arena *a)
{
    return new_box(a, TREE_LIST, 0);
}

struct tree *tree_null(struct arena *a)
{
    return new_node(a, TREE_NULL);
}

struct tree *tree_int(struct arena *a, int64_t v)
{
    struct tree *t = new_node(a, TREE_INT);
    t->num = v;
    return t;
}

struct tree *tree_strn(struct arena *a, const char *s, size_t n)
{
    struct tree *t = new_node(a, TREE_STRING);
    t->str.bytes = arena_strndup(a, s, n);
    t->str.len = n;
    return t;
}

struct tree *tree_str(struct arena *a, const char *s)
{
    return tree_strn(a, s, strlen(s));
}

bool tree_is_map(const struct tree *t)
{
    return t != NULL && t->type == TREE_MAP;
}

bool tree_is_list(const struct tree *t)
{
    return t != NULL && t->type == TREE_LIST;
}

bool tree_is_null(const struct tree *t)
{
    return t == NULL || t->type == TREE_NULL;
}

size_t tree_count(const struct tree *t)
{
    return tree_is_map(t) || tree_is_list(t) ? t->box.count : 0;
}

// Where the key is, or where it would have to stand.
static size_t find_key(const struct tree *map, const char *key, size_t n, bool *ret_found)
{
    size_t low = 0, high = map->box.count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        const struct tree_item *it = &map->box.items[mid];
        int order = compare_keys(it->key, it->key_len, key, n);
        if (order == 0) {
            *ret_found = true;
            return mid;
        }
        if (order < 0)
            low = mid + 1;
        else
            high = mid;
    }
    *ret_found = false;
    return low;
}

struct tree *tree_getn(const struct tree *map, const char *key, size_t n)
{
    if (!tree_is_map(map))
        return NULL;
    bool found;
    size_t i = find_key(map, key, n, &found);
    return found ? map->box.items[i].value : NULL;
}

struct tree *tree_get(const struct tree *map, const char *key)
{
    return tree_getn(map, key, strlen(key));
}

const char *tree_text(const struct tree *t)
{
    return t != NULL && t->type == TREE_STRING ? t->str.bytes : NULL;
}

const char *tree_get_str(const struct tree *map, const char *key)
{
    return tree_text(tree_get(map, key));
}

struct tree *tree_path(const struct tree *t, ...)
{
    va_list ap;
    va_start(ap, t);
    const char *key;
    struct tree *at = (struct tree *)t;
    while ((key = va_arg(ap, const char *)) != NULL)
        at = tree_get(at, key);
    va_end(ap);
    return at;
}

struct tree *tree_at(const struct tree *list, size_t i)
{
    return tree_is_list(list) && i < list->box.count ? list->box.items[i].value : NULL;
}

static void open_gap(struct arena *a, struct tree *t, size_t at)
{
    if (t->box.count == t->box.cap) {
        size_t cap = t->box.cap == 0 ? 4 : 2 * t->box.cap;
        struct tree_item *items = arena_zalloc(a, cap * sizeof(*items));
        if (t->box.count > 0)
            memcpy(items, t->box.items, t->box.count * sizeof(*items));
        t->box.items = items;
        t->box.cap = cap;
    }
    memmove(&t->box.items[at + 1], &t->box.items[at], (t->box.count - at) * sizeof(*t->box.items));
    t->box.count++;
}

static void close_gap(struct tree *t, size_t at)
{
    t->box.count--;
    memmove(&t->box.items[at], &t->box.items[at + 1], (t->box.count - at) * sizeof(*t->box.items));
}

void tree_setn(struct arena *a, struct tree *map, const char *key, size_t n, struct tree *value)
{
    DASSERT(tree_is_map(map));
    bool found;
    size_t i = find_key(map, key, n, &found);
    if (value == NULL) {
        if (found)
            close_gap(map, i);
        return;
    }
    if (!found) {
        open_gap(a, map, i);
        map->box.items[i].key = arena_strndup(a, key, n);
        map->box.items[i].key_len = n;
    }
    map->box.items[i].value = value;
}

void tree_set(struct arena *a, struct tree *map, const char *key, struct tree *value)
{
    tree_setn(a, map, key, strlen(key), value);
}

void tree_set_str(struct arena *a, struct tree *map, const char *key, const char *s)
{
    tree_set(a, map, key, s == NULL ? NULL : tree_str(a, s));
}

void tree_remove(struct tree *map, const char *key)
{
    if (tree_is_map(map))
        tree_setn(NULL, map, key, strlen(key), NULL);
}

void tree_insert_at(struct arena *a, struct tree *list, size_t i, struct tree *value)
{
    DASSERT(tree_is_list(list) && i <= list->box.count);
    open_gap(a, list, i);
    list->box.items[i] = (struct tree_item){.value = value};
}

void tree_add(struct arena *a, struct tree *list, struct tree *value)
{
    tree_insert_at(a, list, list->box.count, value);
}

void tree_remove_at(struct tree *list, size_t i)
{
    DASSERT(tree_is_list(list) && i < list->box.count);
    close_gap(list, i);
}

struct tree *tree_need_map(struct arena *a, struct tree *map, const char *key)
{
    struct tree *t = tree_get(map, key);
    if (!tree_is_map(t)) {
        t = tree_map(a);
        tree_set(a, map, key, t);
    }
    return t;
}
