// Reading the store, from any thread.
#include <string.h>

#include "base/strset.h"
#include "kube/store_impl.h"

enum { INDEX_FROM = 64 }; // objects; below, looking at all is as fast

struct object *store_get(struct store *s, uint64_t revision, const char *ns, const char *name)
{
    pthread_rwlock_rdlock(&s->lock);
    struct slot *slot = store_find_slot(s, ns, name);
    struct object *o = slot != NULL ? slot_visible(slot, revision) : NULL;
    if (o != NULL)
        object_ref(o);
    pthread_rwlock_unlock(&s->lock);
    return o;
}

static bool matches(const struct object *o, const struct store_query *q)
{
    return (q->ns == NULL || strcmp(q->ns, object_namespace(o)) == 0) &&
           (q->owner_uid == NULL || object_has_owner(o, q->owner_uid)) &&
           (q->manager == NULL || object_has_manager(o, q->manager)) && selector_matches(q->labels, o);
}

// ---- which bucket to look through

struct choice {
    bool indexed;          // else all slots
    struct bucket *bucket; // NULL: nothing can match
};

static void consider(struct store *s, struct choice *c, enum index_kind kind, const char *text,
                     const char *value)
{
    if (c->indexed && c->bucket == NULL)
        return;
    struct bucket *b = store_index_find(s, kind, text, value);
    if (!c->indexed || b == NULL || b->count < c->bucket->count)
        c->bucket = b;
    c->indexed = true;
}

// The label or field that the query narrows most by.
struct equality {
    enum index_kind kind;
    const char *name, *value;
};

static bool equality_of(const struct store_query *q, enum index_kind kind, struct equality *ret)
{
    struct equality e = {.kind = kind};
    bool found = kind == INDEX_LABEL ? selector_equality(q->labels, &e.name, &e.value)
                                     : field_selector_equality(q->near, &e.name, &e.value);
    // what has no place in a bucket's key has none in the index
    if (!found || strlen(e.name) + strlen(e.value) + 3 > STORE_KEY_MAX)
        return false;
    *ret = e;
    return true;
}

static struct choice choose(struct store *s, const struct store_query *q)
{
    static const enum index_kind kinds[] = {INDEX_LABEL, INDEX_FIELD};
    struct choice c = {0};
    struct equality e;
    if (q->owner_uid != NULL)
        consider(s, &c, INDEX_OWNER, q->owner_uid, NULL);
    if (q->manager != NULL)
        consider(s, &c, INDEX_MANAGER, q->manager, NULL);
    if (q->ns != NULL && q->ns[0] != 0)
        consider(s, &c, INDEX_NAMESPACE, q->ns, NULL);
    for (size_t i = 0; i < 2; i++) {
        if (equality_of(q, kinds[i], &e) && store_index_is_asked(s, kinds[i], e.name))
            consider(s, &c, kinds[i], e.name, e.value);
    }
    return c;
}

static bool wants_index(const struct store *s, const struct store_query *q, enum index_kind kind,
                        struct equality *ret)
{
    return q->owner_uid == NULL && s->live >= INDEX_FROM && store_index_has_room(s, kind) &&
           equality_of(q, kind, ret) && !store_index_is_asked(s, kind, ret->name);
}

static void read_lock(struct store *s, const struct store_query *q)
{
    struct equality e;
    struct field_values known = {0};
    pthread_rwlock_rdlock(&s->lock);
    if (!wants_index(s, q, INDEX_LABEL, &e) && !wants_index(s, q, INDEX_FIELD, &e))
        return;
    if (e.kind == INDEX_FIELD)
        store_index_take_objects(s, &known);
    pthread_rwlock_unlock(&s->lock);
    if (e.kind == INDEX_FIELD)
        store_index_look_up(&known, e.name);
    pthread_rwlock_wrlock(&s->lock);
    store_index_ask(s, e.kind, e.name, &known);
    pthread_rwlock_unlock(&s->lock);
    store_index_forget(&known);
    pthread_rwlock_rdlock(&s->lock);
}

// ---- listing

struct collector {
    const struct store_query *query;
    uint64_t revision;
    struct object_list *list;
    size_t cap;
};

static void collect(struct collector *c, const struct slot *slot)
{
    struct object *o = slot_visible(slot, c->revision);
    if (o == NULL || !matches(o, c->query))
        return;
    if (c->list->count == c->cap) {
        c->cap = c->cap > 0 ? 2 * c->cap : 16;
        c->list->items = xreallocarray(c->list->items, c->cap, sizeof(c->list->items[0]));
    }
    c->list->items[c->list->count++] = object_ref(o);
}

static int compare_objects(const void *a, const void *b)
{
    const struct object *x = *(struct object *const *)a;
    const struct object *y = *(struct object *const *)b;
    int c = strcmp(object_namespace(x), object_namespace(y));
    return c != 0 ? c : strcmp(object_name(x), object_name(y));
}

void store_list(struct store *s, uint64_t revision, const struct store_query *q, struct object_list *ret)
{
    static const struct store_query all = {0};
    struct object_list list = {0};
    struct collector c = {q != NULL ? q : &all, revision, &list, 0};
    read_lock(s, c.query);
    struct choice from = choose(s, c.query);
    if (!from.indexed) {
        for (struct slot *slot = s->slots; slot != NULL; slot = slot->hh.next)
            collect(&c, slot);
    } else if (from.bucket != NULL) {
        struct posting *p;
        LIST_FOREACH (p, &from.bucket->postings, in_bucket)
            collect(&c, p->slot);
    }
    pthread_rwlock_unlock(&s->lock);
    if (list.count > 1)
        qsort(list.items, list.count, sizeof(list.items[0]), compare_objects);
    *ret = list;
}

void object_list_append(struct object_list *l, struct object_list *more)
{
    if (more->count > 0) {
        l->items = xreallocarray(l->items, l->count + more->count, sizeof l->items[0]);
        memcpy(l->items + l->count, more->items, more->count * sizeof l->items[0]);
        l->count += more->count;
    }
    free(more->items);
    *more = (struct object_list){0};
}

void object_list_fini(struct object_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        object_unref(l->items[i]);
    free(l->items);
    *l = (struct object_list){0};
}

size_t store_count(struct store *s)
{
    pthread_rwlock_rdlock(&s->lock);
    size_t n = s->live;
    pthread_rwlock_unlock(&s->lock);
    return n;
}

size_t store_bytes(struct store *s)
{
    pthread_rwlock_rdlock(&s->lock);
    size_t n = s->bytes;
    if (s->slots != NULL)
        n += sizeof(UT_hash_table) + s->slots->hh.tbl->num_buckets * sizeof(UT_hash_bucket);
    if (s->buckets != NULL)
        n += sizeof(UT_hash_table) + s->buckets->hh.tbl->num_buckets * sizeof(UT_hash_bucket);
    pthread_rwlock_unlock(&s->lock);
    return n;
}
