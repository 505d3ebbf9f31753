#include "run/workqueue/predicate.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/strset.h"
#include "kube/fields.h"
#include "kube/fields_items.h"
#include "run/source/marks.h"

bool predicate_is_paused(const struct object *subject)
{
    // Annotations are not indexed; the text is looked at only when the word stands there at all.
    size_t n;
    const char *text = object_json(subject, &n);
    if (memmem(text, n, MARKS_ANNOTATION_PAUSED, sizeof MARKS_ANNOTATION_PAUSED - 1) == NULL)
        return false;
    struct json_doc *doc = object_parse(subject);
    const char *value =
        json_str(json_path(json_root(doc), "metadata", "annotations", MARKS_ANNOTATION_PAUSED, NULL));
    bool paused = value != NULL && strcmp(value, "true") == 0;
    json_doc_free(doc);
    return paused;
}

static bool has_namespace(const char *const *list, const char *ns)
{
    if (list == NULL || ns[0] == '\0') // cluster-scoped ones are in none
        return true;
    for (; *list != NULL; list++)
        if (strcmp(*list, ns) == 0)
            return true;
    return false;
}

bool predicate_selects(const struct script *s, const struct object *subject)
{
    if (!has_namespace(program_spec(s->program)->namespaces, object_namespace(subject)) ||
        !selector_matches(s->selector, subject))
        return false;
    if (s->fields == NULL)
        return true;
    struct json_doc *doc = object_parse(subject);
    bool match = field_selector_matches(s->fields, json_root(doc));
    json_doc_free(doc);
    return match;
}

bool predicate_is_turn(const struct object *old, const struct object *new)
{
    return old == NULL || new == NULL || !str_eq(object_uid(old), object_uid(new)) ||
           object_is_deleting(old) != object_is_deleting(new) ||
           predicate_is_paused(old) != predicate_is_paused(new);
}

// ---- what is not ours in a status

// The sets of what our managers own at one place of the status: the script's, and the host's for it.
enum { OWN_SETS = 2 };
struct own_sets {
    const json *set[OWN_SETS];
};

static bool is_leaf(const json *set)
{
    return json_is_object(set) && json_count(set) == 0;
}

static bool is_ours(const struct own_sets *own)
{
    return is_leaf(own->set[0]) || is_leaf(own->set[1]);
}

static bool is_foreign(const struct own_sets *own)
{
    return own->set[0] == NULL && own->set[1] == NULL;
}

static uint64_t hash_foreign(const struct own_sets *own, const json *v);

static struct own_sets below(const struct own_sets *own, const char *key, size_t n)
{
    struct own_sets r = {{NULL}};
    char *member = xasprintf("f:%.*s", (int)n, key);
    for (size_t i = 0; i < OWN_SETS; i++)
        r.set[i] = json_get(own->set[i], member);
    free(member);
    return r;
}

static uint64_t hash_members(const struct own_sets *own, const json *v)
{
    uint64_t sum = 0;
    for (struct json_iter i = json_iter(v); json_next(&i);) {
        struct own_sets inner = below(own, i.key, i.key_len);
        uint64_t h = hash_foreign(&inner, i.value);
        if (h != 0)
            sum += hash_fnv1a(hash_fnv1a(HASH_FNV_START, i.key, i.key_len), &h, sizeof h);
    }
    return sum;
}

struct element {
    const json *node;
    size_t index;
    struct own_sets own;
};

static int by_node(const void *a, const void *b)
{
    const json *x = ((const struct element *)a)->node, *y = ((const struct element *)b)->node;
    return x < y ? -1 : x > y;
}

static int by_index(const void *a, const void *b)
{
    size_t x = ((const struct element *)a)->index, y = ((const struct element *)b)->index;
    return x < y ? -1 : x > y;
}

// Notes at each element (sorted by node) what one of our managers owns of it.
static void match_elements(const json *set, size_t which, const json *array, struct element *elements)
{
    struct fields_items items;
    size_t rest;
    fields_items_init(&items, set);
    const json **nodes = xcalloc(items.count + 1, sizeof nodes[0]);
    fields_items_match(&items, array, NULL, nodes, &rest);
    for (size_t i = 0; i < items.count; i++) {
        struct element key = {.node = nodes[i]};
        struct element *e = bsearch(&key, elements, json_count(array), sizeof key, by_node);
        if (e != NULL)
            e->own.set[which] = items.items[i].set;
    }
    free(nodes);
    fields_items_fini(&items);
}

static uint64_t hash_elements(const struct own_sets *own, const json *v)
{
    size_t n = json_count(v);
    struct element *elements = xcalloc(n + 1, sizeof elements[0]);
    uint64_t sum = 0, at = 0;
    for (struct json_iter i = json_iter(v); json_next(&i);)
        elements[i.index] = (struct element){.node = i.value, .index = i.index};
    qsort(elements, n, sizeof elements[0], by_node);
    for (size_t k = 0; k < OWN_SETS; k++)
        match_elements(own->set[k], k, v, elements);
    qsort(elements, n, sizeof elements[0], by_index);
    for (size_t i = 0; i < n; i++) {
        uint64_t h = hash_foreign(&elements[i].own, elements[i].node);
        if (h == 0)
            continue; // all ours: where it stands does not matter
        at++;
        sum += hash_fnv1a(hash_fnv1a(HASH_FNV_START, &at, sizeof at), &h, sizeof h);
    }
    free(elements);
    return sum;
}

// 0: nothing here is anybody else's.
static uint64_t hash_foreign(const struct own_sets *own, const json *v)
{
    if (is_ours(own))
        return 0;
    if (is_foreign(own) || !(json_is_object(v) || json_is_array(v)))
        return json_hash(v) | 1;
    return json_is_object(v) ? hash_members(own, v) : hash_elements(own, v);
}

static struct own_sets own_status(const struct script *s, const json *entries)
{
    // A kind without the status subresource has its status under a manager of its own.
    char other[MARKS_MANAGER_MAX + 8], host[MARKS_MANAGER_MAX];
    const json *mine = fields_of_manager(entries, s->manager, "status");
    struct own_sets r = {{NULL}};
    if (mine == NULL) {
        char *end = stpcpy(other, s->manager);
        strcpy(end, "-status");
        mine = fields_of_manager(entries, other, NULL);
    }
    marks_report_manager(host, s->hash);
    r.set[0] = json_get(mine, "f:status");
    r.set[1] = json_get(fields_of_manager(entries, host, "status"), "f:status");
    return r;
}

// A status in two parts: what we own (as a set), and what others put there (as values).
static uint64_t hash_status(const struct script *s, const struct object *o)
{
    struct json_doc *doc = object_parse(o), *managed = NULL;
    size_t n;
    const char *text = object_managed(o, &n);
    (void)json_parse(text, n, &managed, NULL);
    const json *status = json_get(json_root(doc), "status");
    struct own_sets own = own_status(s, json_root(managed));
    uint64_t parts[3] = {json_is_null(status) ? 0 : hash_foreign(&own, status),
                         own.set[0] == NULL ? 0 : json_hash(own.set[0]),
                         own.set[1] == NULL ? 0 : json_hash(own.set[1])};
    json_doc_free(managed);
    json_doc_free(doc);
    return hash_fnv1a(HASH_FNV_START, parts, sizeof parts);
}

bool predicate_content_differs(const struct script *s, const struct object *old, const struct object *new)
{
    size_t n, m;
    if (object_spec_hash(old) != object_spec_hash(new))
        return true;
    const char *a = object_managed(old, &n), *b = object_managed(new, &m);
    bool same_sets = n == m && memcmp(a, b, n) == 0;
    if (same_sets && object_content_hash(old) == object_content_hash(new))
        return false;
    return hash_status(s, old) != hash_status(s, new);
}

uint64_t predicate_changed_hash(const struct script *s, const struct object *subject)
{
    struct json_doc *doc = object_parse(subject);
    uint64_t h = HASH_FNV_START;
    for (const char *const *p = program_spec(s->program)->changed; *p != NULL; p++) {
        const json *v = json_dotted(json_root(doc), *p);
        uint64_t value = json_is_null(v) ? 0 : json_hash(v);
        h = hash_fnv1a(h, &value, sizeof value);
    }
    json_doc_free(doc);
    return h | 1;
}
