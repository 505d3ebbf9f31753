#include "kube/fields.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/strset.h"
#include "kube/fields_items.h"

enum { PATH_MAX_BYTES = 64 * 1024 };

// Where a node stands, as far as it matters: what the server strips from every set, and which maps can not be
// atomic.
enum level { LEVEL_ROOT, LEVEL_METADATA, LEVEL_META_MAP, LEVEL_TOP, LEVEL_DEEP };

struct walk {
    fields_equal_fn *equal;
    void *ud;
    struct buf path;
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

// ---- paths

static bool is_plain(const char *name)
{
    return *name != '\0' && strpbrk(name, ".[]\"") == NULL;
}

static size_t push_name(struct walk *w, const char *name)
{
    size_t before = w->path.len;
    if (!is_plain(name))
        buf_addf(&w->path, "[\"%s\"]", name);
    else
        buf_addf(&w->path, "%s%s", before == 0 ? "" : ".", name);
    return before;
}

static void pop(struct walk *w, size_t before)
{
    w->path.len = before;
    w->path.failed = false;
    if (w->path.data != NULL)
        w->path.data[before] = '\0';
}

static const char *path_text(const struct walk *w)
{
    return w->path.data == NULL ? "" : w->path.data;
}

// ---- values

// What a server leaves out when it writes a value with "omitempty".
static bool is_zero(const json *v)
{
    int64_t n;
    if (json_is_string(v))
        return json_str_len(v) == 0;
    if (json_is_object(v) || json_is_array(v))
        return json_count(v) == 0;
    if (json_is_number(v))
        return json_int(v, &n) == 0 && n == 0;
    return json_is_null(v) || (json_is_bool(v) && !json_true(v));
}

static bool same_value(struct walk *w, const json *desired, const json *live);

static bool same_member(struct walk *w, const char *name, const json *desired, const json *live)
{
    size_t before = push_name(w, name);
    if (!same_value(w, desired, live))
        return false;
    pop(w, before);
    return true;
}

static bool same_objects(struct walk *w, const json *desired, const json *live)
{
    yyjson_obj_iter in_live = yyjson_obj_iter_with((json *)live),
                    in_desired = yyjson_obj_iter_with((json *)desired);
    for (struct json_iter i = json_iter(desired); json_next(&i);)
        if (!same_member(w, i.key, i.value, yyjson_obj_iter_getn(&in_live, i.key, i.key_len)))
            return false;
    for (struct json_iter i = json_iter(live); json_next(&i);)
        if (yyjson_obj_iter_getn(&in_desired, i.key, i.key_len) == NULL &&
            !same_member(w, i.key, NULL, i.value))
            return false;
    return true;
}

static bool same_arrays(struct walk *w, const json *desired, const json *live)
{
    struct json_iter k = json_iter(live);
    if (json_count(desired) != json_count(live))
        return false;
    for (struct json_iter i = json_iter(desired); json_next(&i) && json_next(&k);) {
        size_t before = w->path.len;
        buf_addf(&w->path, "[%zu]", i.index);
        if (!same_value(w, i.value, k.value))
            return false;
        pop(w, before);
    }
    return true;
}

static bool same_value(struct walk *w, const json *desired, const json *live)
{
    if (json_is_null(desired) && json_is_null(live))
        return true;
    if (desired != NULL && live != NULL && json_equal(desired, live))
        return true;
    if (w->equal != NULL && w->equal(w->ud, path_text(w), desired, live))
        return true;
    if (json_is_object(desired) && json_is_object(live))
        return same_objects(w, desired, live);
    return json_is_array(desired) && json_is_array(live) && same_arrays(w, desired, live);
}

// A value owned as a whole: a scalar, something atomic, or a map of which nothing inside is owned.
static enum fields_verdict compare_leaf(struct walk *w, const json *desired, const json *live,
                                        enum level level)
{
    bool empty_map = json_is_object(desired) && json_count(desired) == 0;
    if (empty_map && is_granular(level) && json_is_object(live))
        return FIELDS_SAME;
    if (json_is_null(live) && is_zero(desired)) // it is ours, so it was the server that left it out
        return FIELDS_SAME;
    return same_value(w, desired, live) ? FIELDS_SAME : FIELDS_DIFFER;
}

// ---- fields that desired has and that are not owned

// An empty granular list owns nothing, and a null owns nothing worth having: then there is nothing to gain.
static enum fields_verdict unowned(struct walk *w, const json *desired, const json *live, enum level level)
{
    if (json_is_null(desired))
        return json_is_null(live) ? FIELDS_SAME : FIELDS_MISSING;
    if (json_is_array(desired) && json_count(desired) == 0)
        return json_count(live) == 0 ? FIELDS_SAME : FIELDS_MISSING;
    if (!json_is_object(desired) || json_count(desired) == 0)
        return FIELDS_MISSING;
    for (struct json_iter i = json_iter(desired); json_next(&i);) {
        if (is_stripped(level, i.key))
            continue;
        size_t before = push_name(w, i.key);
        enum fields_verdict v =
            unowned(w, i.value, json_getn(live, i.key, i.key_len), level_below(level, i.key));
        if (v != FIELDS_SAME)
            return v;
        pop(w, before);
    }
    return FIELDS_SAME;
}

static enum fields_verdict compare_unowned_fields(struct walk *w, const json *owned, const json *desired,
                                                  const json *live, enum level level)
{
    yyjson_obj_iter in_owned = yyjson_obj_iter_with((json *)owned);
    struct buf key; // "f:name"
    enum fields_verdict v = FIELDS_SAME;
    buf_init(&key, SIZE_MAX / 2); // as long as a name that was read
    for (struct json_iter i = json_iter(desired); v == FIELDS_SAME && json_next(&i);) {
        if (is_stripped(level, i.key))
            continue;
        buf_reset(&key);
        buf_add_str(&key, "f:");
        buf_add(&key, i.key, i.key_len);
        if (owned != NULL && yyjson_obj_iter_getn(&in_owned, key.data, key.len) != NULL)
            continue;
        size_t before = push_name(w, i.key);
        v = unowned(w, i.value, json_getn(live, i.key, i.key_len), level_below(level, i.key));
        if (v == FIELDS_SAME)
            pop(w, before);
    }
    buf_fini(&key);
    return v;
}

// ---- the walk

static enum fields_verdict compare(struct walk *w, const json *owned, const json *desired, const json *live,
                                   enum level level);

static bool is_field(const struct json_iter *i)
{
    return i->key_len >= 2 && memcmp(i->key, "f:", 2) == 0;
}

static enum fields_verdict compare_map(struct walk *w, const json *owned, const json *desired,
                                       const json *live, enum level level)
{
    yyjson_obj_iter in_desired = yyjson_obj_iter_with((json *)desired);
    yyjson_obj_iter in_live = yyjson_obj_iter_with(json_is_object(live) ? (json *)live : NULL);
    size_t owned_here = 0, wanted = 0;
    for (struct json_iter i = json_iter(owned); json_next(&i);) {
        if (!is_field(&i) || is_stripped(level, i.key + 2))
            continue;
        const char *name = i.key + 2;
        const json *d = yyjson_obj_iter_getn(&in_desired, name, i.key_len - 2);
        const json *l = in_live.obj == NULL ? NULL : yyjson_obj_iter_getn(&in_live, name, i.key_len - 2);
        size_t before = push_name(w, name);
        enum fields_verdict v =
            d == NULL ? FIELDS_EXTRA : compare(w, i.value, d, l, level_below(level, name));
        if (v != FIELDS_SAME)
            return v;
        pop(w, before);
        owned_here++;
    }
    for (struct json_iter i = json_iter(desired); json_next(&i);)
        wanted += !is_stripped(level, i.key);
    return wanted == owned_here ? FIELDS_SAME : compare_unowned_fields(w, owned, desired, live, level);
}

static enum fields_verdict compare_item(struct walk *w, const struct fields_item *x, const json *desired,
                                        const json *live)
{
    size_t before = w->path.len;
    fields_item_path(x, &w->path);
    enum fields_verdict v = desired == NULL ? FIELDS_EXTRA : compare(w, x->set, desired, live, LEVEL_DEEP);
    if (v == FIELDS_SAME && x->type == 'v' &&
        live == NULL) // a zero that is an element of a set is not left out
        v = FIELDS_DIFFER;
    if (v == FIELDS_SAME)
        pop(w, before);
    return v;
}

static enum fields_verdict compare_list(struct walk *w, const json *owned, const json *desired,
                                        const json *live)
{
    struct fields_items l;
    fields_items_init(&l, owned);
    const json **wanted = xcalloc(l.count + 1, sizeof(*wanted)),
               **there = xcalloc(l.count + 1, sizeof(*there));
    size_t rest = 0, ignored;
    const json *more = fields_items_match(&l, desired, wanted, &rest);
    (void)fields_items_match(&l, live, there, &ignored);
    enum fields_verdict v = FIELDS_SAME;
    for (size_t i = 0; i < l.count && v == FIELDS_SAME; i++)
        v = compare_item(w, &l.items[i], wanted[i], there[i]);
    if (v == FIELDS_SAME && more != NULL) {
        buf_addf(&w->path, "[%zu]", rest);
        v = FIELDS_MISSING;
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
                                   enum level level)
{
    char type = children(owned);
    if (type == 0)
        return compare_leaf(w, desired, live, level);
    if (json_is_null(desired))
        return FIELDS_EXTRA;
    if (type == 'f')
        return json_is_object(desired) ? compare_map(w, owned, desired, live, level) : FIELDS_DIFFER;
    return json_is_array(desired) ? compare_list(w, owned, desired, live) : FIELDS_DIFFER;
}

enum fields_verdict fields_compare(const json *owned, const json *desired, const json *live,
                                   fields_equal_fn *equal, void *ud, struct buf *path)
{
    struct walk w = {.equal = equal, .ud = ud};
    buf_init(&w.path, PATH_MAX_BYTES);
    enum fields_verdict v =
        json_is_object(desired) ? compare_map(&w, owned, desired, live, LEVEL_ROOT) : FIELDS_DIFFER;
    if (path != NULL && v != FIELDS_SAME)
        buf_add_str(path, path_text(&w));
    buf_fini(&w.path);
    return v;
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
    (void)fields_items_match(&l, live, there, &ignored);
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
    for (struct json_iter i = json_iter(owned); json_next(&i);)
        if (is_field(&i))
            sum += hash_node(i.value, json_getn(live, i.key + 2, i.key_len - 2),
                             hash_fnv1a(at, i.key, i.key_len), level_below(level, i.key + 2));
    return sum;
}

uint64_t fields_hash_owned(const json *owned, const json *live)
{
    return owned == NULL ? 0 : hash_node(owned, live, HASH_FNV_START, LEVEL_ROOT);
}
