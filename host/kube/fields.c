#include "kube/fields.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/strset.h"
#include "kube/fields_items.h"
#include "kube/meaning.h"
#include "kube/step.h"

// Where a node stands, as far as it matters: what the server strips from every set, and which maps can not be
// atomic.
enum level { LEVEL_ROOT, LEVEL_METADATA, LEVEL_META_MAP, LEVEL_TOP, LEVEL_DEEP };

// Where the walk stands.
struct place {
    struct step step;
    enum level level;
    const struct schema_node *type;
    const json *fallback;
};

struct walk {
    struct buf *path; // NULL: nobody asks
};

const json *fields_of_manager(const json *entries, const char *manager, const char *subresource)
{
    for (struct json_iter i = json_iter(entries); json_next(&i);) {
        const char *sub = json_get_str(i.value, "subresource");
        if (str_eq(json_get_str(i.value, "manager"), manager) &&
            str_eq(json_get_str(i.value, "operation"), "Apply") &&
            strcmp(sub == NULL ? "" : sub, subresource == NULL ? "" : subresource) == 0 &&
            json_is_object(json_get(i.value, "fieldsV1")))
            return json_get(i.value, "fieldsV1");
    }
    return NULL;
}

// ---- levels

static bool one_of(const char *name, const char *const *names)
{
    for (; *names != NULL; names++)
        if (strcmp(name, *names) == 0)
            return true;
    return false;
}

// Never owned: the server takes them out of every manager's set.
static bool is_stripped(enum level level, const char *name)
{
    static const char *const root[] = {"apiVersion", "kind", NULL};
    static const char *const metadata[] = {
        "name",     "namespace", "uid", "resourceVersion", "generation", "managedFields", "creationTimestamp",
        "selfLink", NULL};
    return (level == LEVEL_ROOT && one_of(name, root)) || (level == LEVEL_METADATA && one_of(name, metadata));
}

static enum level level_below(enum level level, const char *name)
{
    if (level == LEVEL_ROOT)
        return strcmp(name, "metadata") == 0 ? LEVEL_METADATA : LEVEL_TOP;
    if (level == LEVEL_METADATA && (strcmp(name, "labels") == 0 || strcmp(name, "annotations") == 0))
        return LEVEL_META_MAP;
    return LEVEL_DEEP;
}

// Owning such a map and nothing in it says nothing about what others put into it.
static bool is_granular(enum level level)
{
    return level == LEVEL_METADATA || level == LEVEL_META_MAP || level == LEVEL_TOP;
}

// ---- places

static struct place member(const struct place *at, const char *name)
{
    struct place p = {.step = {.up = &at->step, .name = name}, .level = level_below(at->level, name)};
    p.type = schema_member(at->type, name, strlen(name), &p.fallback);
    return p;
}

static struct place element(const struct place *at, const struct fields_item *item, size_t index)
{
    return (struct place){.step = {.up = &at->step, .item = item, .index = index},
                          .level = LEVEL_DEEP,
                          .type = schema_element(at->type)};
}

// A verdict that is reached here.
static enum fields_verdict tell(struct walk *w, const struct place *at, enum fields_verdict v)
{
    if (v != FIELDS_SAME && w->path != NULL)
        step_path(&at->step, w->path);
    return v;
}

// ---- values

// Desired is an empty map or list, and what live has in it is somebody else's.
static bool is_empty_among_others(const json *desired, const json *live, const struct place *at)
{
    bool granular = is_granular(at->level) || (at->type != NULL && at->type->granular);
    if (!granular || json_count(desired) > 0)
        return false;
    return (json_is_object(desired) && json_is_object(live)) ||
           (json_is_array(desired) && json_is_array(live));
}

// A value owned as a whole: a scalar, something atomic, or a map of which nothing inside is owned.
static enum fields_verdict compare_leaf(struct walk *w, const json *desired, const json *live,
                                        const struct place *at)
{
    if (is_empty_among_others(desired, live, at))
        return FIELDS_SAME;
    if (json_is_null(live) && meaning_is_zero(desired)) // it is ours, so it was the server that left it out
        return FIELDS_SAME;
    return meaning_same(at->type, at->fallback, desired, live, &at->step, w->path) ? FIELDS_SAME
                                                                                   : FIELDS_DIFFER;
}

// ---- fields that desired has and that are not owned

// An empty granular list owns nothing, and a null owns nothing worth having: then there is nothing to gain.
static enum fields_verdict unowned(struct walk *w, const json *desired, const json *live,
                                   const struct place *at)
{
    if (json_is_null(desired))
        return tell(w, at, json_is_null(live) ? FIELDS_SAME : FIELDS_MISSING);
    if (json_is_array(desired) && json_count(desired) == 0)
        return tell(w, at,
                    json_count(live) == 0 || is_empty_among_others(desired, live, at) ? FIELDS_SAME
                                                                                      : FIELDS_MISSING);
    if (!json_is_object(desired) || json_count(desired) == 0)
        return tell(w, at, FIELDS_MISSING);
    for (struct json_iter i = json_iter(desired); json_next(&i);) {
        if (is_stripped(at->level, i.key))
            continue;
        struct place below = member(at, i.key);
        enum fields_verdict v = unowned(w, i.value, json_getn(live, i.key, i.key_len), &below);
        if (v != FIELDS_SAME)
            return v;
    }
    return FIELDS_SAME;
}

static enum fields_verdict compare_unowned_fields(struct walk *w, const json *owned, const json *desired,
                                                  const json *live, const struct place *at)
{
    yyjson_obj_iter in_owned = yyjson_obj_iter_with((json *)owned);
    struct buf key; // "f:name"
    enum fields_verdict v = FIELDS_SAME;
    buf_init(&key, SIZE_MAX / 2); // as long as a name that was read
    for (struct json_iter i = json_iter(desired); v == FIELDS_SAME && json_next(&i);) {
        if (is_stripped(at->level, i.key))
            continue;
        buf_reset(&key);
        buf_add_str(&key, "f:");
        buf_add(&key, i.key, i.key_len);
        if (owned != NULL && yyjson_obj_iter_getn(&in_owned, key.data, key.len) != NULL)
            continue;
        struct place below = member(at, i.key);
        v = unowned(w, i.value, json_getn(live, i.key, i.key_len), &below);
    }
    buf_fini(&key);
    return v;
}

// ---- the walk

static enum fields_verdict compare(struct walk *w, const json *owned, const json *desired, const json *live,
                                   const struct place *at);

static bool is_field(const struct json_iter *i)
{
    return i->key_len >= 2 && memcmp(i->key, "f:", 2) == 0;
}

// A Secret's stringData is kept in its data.
static const json *kept_elsewhere(const json *live, const struct place *at)
{
    const struct schema_node *values = at->type == NULL ? NULL : at->type->items;
    bool text = at->level == LEVEL_TOP && values != NULL && values->meaning == SCHEMA_SECRET_TEXT;
    return text ? json_get(live, "data") : NULL;
}

static enum fields_verdict compare_map(struct walk *w, const json *owned, const json *desired,
                                       const json *live, const struct place *at)
{
    yyjson_obj_iter in_desired = yyjson_obj_iter_with((json *)desired);
    yyjson_obj_iter in_live = yyjson_obj_iter_with(json_is_object(live) ? (json *)live : NULL);
    size_t owned_here = 0, wanted = 0;
    for (struct json_iter i = json_iter(owned); json_next(&i);) {
        if (!is_field(&i) || is_stripped(at->level, i.key + 2))
            continue;
        const char *name = i.key + 2;
        const json *d = yyjson_obj_iter_getn(&in_desired, name, i.key_len - 2);
        const json *l = in_live.obj == NULL ? NULL : yyjson_obj_iter_getn(&in_live, name, i.key_len - 2);
        struct place below = member(at, name);
        if (l == NULL)
            l = kept_elsewhere(live, &below);
        enum fields_verdict v = d == NULL ? tell(w, &below, FIELDS_EXTRA) : compare(w, i.value, d, l, &below);
        if (v != FIELDS_SAME)
            return v;
        owned_here++;
    }
    for (struct json_iter i = json_iter(desired); json_next(&i);)
        wanted += !is_stripped(at->level, i.key);
    return wanted == owned_here ? FIELDS_SAME : compare_unowned_fields(w, owned, desired, live, at);
}

static enum fields_verdict compare_item(struct walk *w, const struct fields_item *x, const json *desired,
                                        const json *live, const struct place *at)
{
    struct place here = element(at, x, 0);
    if (desired == NULL)
        return tell(w, &here, FIELDS_EXTRA);
    enum fields_verdict v = compare(w, x->set, desired, live, &here);
    if (v == FIELDS_SAME && x->type == 'v' && live == NULL) // a zero in a set is not left out
        return tell(w, &here, FIELDS_DIFFER);
    return v;
}

static enum fields_verdict compare_list(struct walk *w, const json *owned, const json *desired,
                                        const json *live, const struct place *at)
{
    struct fields_items l;
    fields_items_init(&l, owned);
    const json **wanted = xcalloc(l.count + 1, sizeof(*wanted)),
               **there = xcalloc(l.count + 1, sizeof(*there));
    size_t rest = 0, ignored;
    const json *more = fields_items_match(&l, desired, schema_element(at->type), wanted, &rest);
    (void)fields_items_match(&l, live, schema_element(at->type), there, &ignored);
    enum fields_verdict v = FIELDS_SAME;
    for (size_t i = 0; i < l.count && v == FIELDS_SAME; i++)
        v = compare_item(w, &l.items[i], wanted[i], there[i], at);
    if (v == FIELDS_SAME && more != NULL) {
        struct place here = element(at, NULL, rest);
        v = tell(w, &here, FIELDS_MISSING);
    }
    free(wanted);
    free(there);
    fields_items_fini(&l);
    return v;
}

// 'f' a map, 'k', 'v' or 'i' a list, 0 a leaf.
static char children(const json *owned)
{
    for (struct json_iter i = json_iter(owned); json_next(&i);)
        if (i.key_len >= 2 && i.key[1] == ':' && strchr("fkvi", i.key[0]) != NULL)
            return i.key[0];
    return 0;
}

static enum fields_verdict compare(struct walk *w, const json *owned, const json *desired, const json *live,
                                   const struct place *at)
{
    char type = children(owned);
    if (type == 0)
        return compare_leaf(w, desired, live, at);
    if (json_is_null(desired))
        return tell(w, at, FIELDS_EXTRA);
    if (type == 'f')
        return json_is_object(desired) ? compare_map(w, owned, desired, live, at)
                                       : tell(w, at, FIELDS_DIFFER);
    return json_is_array(desired) ? compare_list(w, owned, desired, live, at) : tell(w, at, FIELDS_DIFFER);
}

enum fields_verdict fields_compare(const json *owned, const json *desired, const json *live,
                                   const struct schema_node *type, struct buf *path)
{
    struct walk w = {.path = path};
    const struct place root = {.level = LEVEL_ROOT, .type = type};
    return json_is_object(desired) ? compare_map(&w, owned, desired, live, &root) : FIELDS_DIFFER;
}

// ---- hash

static uint64_t hash_node(const json *owned, const json *live, uint64_t at, enum level level);

static uint64_t hash_leaf(const json *live, uint64_t at, enum level level)
{
    uint64_t value = json_is_null(live) ? 0 : json_hash(live);
    if (level == LEVEL_META_MAP && json_is_object(live))
        value = 1; // the labels inside are others'

    return hash_fnv1a(at, &value, sizeof(value));
}

static uint64_t hash_list(const json *owned, const json *live, uint64_t at)
{
    struct fields_items l;
    fields_items_init(&l, owned);
    const json **there = xcalloc(l.count + 1, sizeof(*there));
    size_t ignored;
    uint64_t sum = 0;
    (void)fields_items_match(&l, live, NULL, there, &ignored);
    for (size_t i = 0; i < l.count; i++)
        sum += hash_node(l.items[i].set, there[i], hash_fnv1a(at, l.items[i].text, strlen(l.items[i].text)),
                         LEVEL_DEEP);
    free(there);
    fields_items_fini(&l);
    return sum;
}

// Sums: the order of members is no content.
static uint64_t hash_node(const json *owned, const json *live, uint64_t at, enum level level)
{
    uint64_t sum = 0;
    char type = children(owned);
    if (type == 0)
        return hash_leaf(live, at, level);
    if (type != 'f')
        return hash_list(owned, live, at);
    for (struct json_iter i = json_iter(owned); json_next(&i);) {
        if (!is_field(&i))
            continue;
        const json *l = json_getn(live, i.key + 2, i.key_len - 2);
        if (l == NULL && level == LEVEL_ROOT && strcmp(i.key, "f:stringData") == 0)
            l = json_get(live, "data"); // where a Secret keeps it
        sum += hash_node(i.value, l, hash_fnv1a(at, i.key, i.key_len), level_below(level, i.key + 2));
    }
    return sum;
}

uint64_t fields_hash_owned(const json *owned, const json *live)
{
    return owned == NULL ? 0 : hash_node(owned, live, HASH_FNV_START, LEVEL_ROOT);
}
