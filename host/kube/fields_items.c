#include "kube/fields_items.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

static struct fields_item item_read(const struct json_iter *i)
{
    struct fields_item x = {.text = i->key, .set = i->value, .type = i->key[0]};
    if (json_parse(i->key + 2, i->key_len - 2, &x.doc, NULL) == 0)
        x.key = json_root(x.doc);
    return x;
}

void fields_items_init(struct fields_items *l, const json *owned)
{
    *l = (struct fields_items){.items = xcalloc(json_count(owned) + 1, sizeof(*l->items))};
    for (struct json_iter i = json_iter(owned); json_next(&i);)
        if (i.key_len > 2 && i.key[1] == ':' && strchr("kvi", i.key[0]) != NULL)
            l->items[l->count++] = item_read(&i);
}

void fields_items_fini(struct fields_items *l)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->items[i].doc != NULL)
            json_doc_free(l->items[i].doc);
    free(l->items);
}

// May the server give the key this value where there is none?
static bool may_be_default(const struct schema_node *element, const struct json_iter *key)
{
    const json *fallback;
    (void)schema_member(element, key->key, key->key_len, &fallback);
    return fallback == NULL || json_equal(fallback, key->value);
}

// `partial`: a key that the node lacks was or will be given by the server's default.
static bool key_matches(const json *key, const json *node, bool partial, const struct schema_node *element)
{
    if (!json_is_object(key) || !json_is_object(node))
        return false;
    for (struct json_iter i = json_iter(key); json_next(&i);) {
        const json *v = json_getn(node, i.key, i.key_len);
        if (json_is_null(v) ? !partial || !may_be_default(element, &i) : !json_equal(v, i.value))
            return false;
    }
    return true;
}

static bool item_matches(const struct fields_item *x, const json *node, size_t index, bool partial,
                         const struct schema_node *element)
{
    int64_t n;
    if (x->key == NULL)
        return false;
    switch (x->type) {
    case 'k':
        return key_matches(x->key, node, partial, element);
    case 'v':
        return json_equal(x->key, node);
    default:
        return json_int(x->key, &n) == 0 && n >= 0 && (size_t)n == index;
    }
}

// ---- matching

struct element {
    const json *node; // NULL: taken
    size_t index;
    uint64_t hash;
};

struct elements {
    struct element *items; // sorted by hash, then index
    size_t count;
};

// Of a node's values of the fields that `key` names; of key itself too.
static uint64_t key_hash(const json *key, const json *node)
{
    uint64_t sum = 0;
    for (struct json_iter i = json_iter(key); json_next(&i);) {
        const json *v = json_getn(node, i.key, i.key_len);
        uint64_t value = json_is_null(v) ? 0 : json_hash(v);
        sum += hash_fnv1a(hash_fnv1a(HASH_FNV_START, i.key, i.key_len), &value, sizeof(value));
    }
    return sum;
}

// All items of a list have the same key fields: the first one's serve for the elements.
static uint64_t node_hash(const struct fields_item *first, const json *node, size_t index)
{
    if (first->type == 'k')
        return key_hash(first->key, node);
    return first->type == 'v' ? json_hash(node) : index;
}

static uint64_t item_hash(const struct fields_item *x)
{
    int64_t n;
    if (x->type == 'k')
        return key_hash(x->key, x->key);
    if (x->type == 'v')
        return json_hash(x->key);
    return json_int(x->key, &n) == 0 ? (uint64_t)n : UINT64_MAX;
}

static int by_hash(const void *left, const void *right)
{
    const struct element *a = left, *b = right;
    if (a->hash != b->hash)
        return a->hash < b->hash ? -1 : 1;
    return a->index < b->index ? -1 : a->index > b->index;
}

static void elements_init(struct elements *e, const struct fields_items *l, const json *array)
{
    bool some = json_is_array(array) && l->count > 0 && l->items[0].key != NULL;
    *e = (struct elements){.items = xcalloc(json_count(array) + 1, sizeof(*e->items))};
    for (struct json_iter i = json_iter(json_is_array(array) ? array : NULL); json_next(&i);)
        e->items[e->count++] =
            (struct element){.node = i.value,
                             .index = i.index,
                             .hash = some ? node_hash(&l->items[0], i.value, i.index) : i.index};
    qsort(e->items, e->count, sizeof(*e->items), by_hash);
}

static size_t first_with(const struct elements *e, uint64_t hash)
{
    size_t low = 0, high = e->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (e->items[middle].hash < hash)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static const json *take_exact(struct elements *e, const struct fields_item *x)
{
    uint64_t hash = x->key == NULL ? 0 : item_hash(x);
    for (size_t k = first_with(e, hash); k < e->count && e->items[k].hash == hash; k++) {
        const json *node = e->items[k].node;
        if (node == NULL || !item_matches(x, node, e->items[k].index, false, NULL))
            continue;
        e->items[k].node = NULL;
        return node;
    }
    return NULL;
}

static const json *take_partial(struct elements *e, const struct fields_item *x,
                                const struct schema_node *element)
{
    for (size_t k = 0; k < e->count; k++) {
        const json *node = e->items[k].node;
        if (node == NULL || !item_matches(x, node, e->items[k].index, true, element))
            continue;
        e->items[k].node = NULL;
        return node;
    }
    return NULL;
}

const json *fields_items_match(const struct fields_items *l, const json *array,
                               const struct schema_node *element, const json **ret, size_t *ret_rest)
{
    struct elements e;
    elements_init(&e, l, array);
    for (size_t i = 0; i < l->count; i++)
        ret[i] = take_exact(&e, &l->items[i]);
    for (size_t i = 0; i < l->count; i++)
        if (ret[i] == NULL)
            ret[i] = take_partial(&e, &l->items[i], element);
    const json *rest = NULL;
    size_t at = SIZE_MAX;
    for (size_t i = 0; i < e.count; i++) {
        if (e.items[i].node == NULL || e.items[i].index > at)
            continue;
        rest = e.items[i].node;
        at = e.items[i].index;
    }
    *ret_rest = at;
    free(e.items);
    return rest;
}

static void add_value(struct buf *path, const json *v)
{
    int64_t n;
    if (json_is_string(v))
        buf_addf(path, "\"%s\"", json_str(v));
    else if (json_int(v, &n) == 0)
        buf_addf(path, "%lld", (long long)n);
    else
        buf_add_char(path, '?');
}

void fields_item_path(const struct fields_item *x, struct buf *path)
{
    const char *between = "";
    buf_add_char(path, '[');
    if (x->key == NULL) {
        buf_add_str(path, x->text);
    } else if (x->type != 'k') {
        add_value(path, x->key);
    } else {
        for (struct json_iter i = json_iter(x->key); json_next(&i); between = ",") {
            buf_addf(path, "%s%s=", between, i.key);
            add_value(path, i.value);
        }
    }
    buf_add_char(path, ']');
}
