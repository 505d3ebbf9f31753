// Reading the store, from any thread.
#include <string.h>

#include "base/strset.h"
#include "kube/store_impl.h"

enum { LABEL_INDEX_FROM = 64 }; // objects; below, looking at all is as fast

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

static struct choice choose(struct store *s, const struct store_query *q)
{
    struct choice c = {0};
    const char *key, *value;
    if (q->owner_uid != NULL)
        consider(s, &c, INDEX_OWNER, q->owner_uid, NULL);
    if (q->manager != NULL)
        consider(s, &c, INDEX_MANAGER, q->manager, NULL);
    if (q->ns != NULL && q->ns[0] != 0)
        consider(s, &c, INDEX_NAMESPACE, q->ns, NULL);
    if (selector_equality(q->labels, &key, &value) && store_index_has_label_key(s, key))
        consider(s, &c, INDEX_LABEL, key, value);
    return c;
}

static bool wants_label_index(const struct store *s, const struct store_query *q)
{
    const char *key, *value;
    return q->owner_uid == NULL && selector_equality(q->labels, &key, &value) &&
           s->live >= LABEL_INDEX_FROM && s->label_key_count < STORE_LABEL_INDEXES &&
           !store_index_has_label_key(s, key);
}

static void read_lock(struct store *s, const struct store_query *q)
{
    const char *key, *value;
    pthread_rwlock_rdlock(&s->lock);
    if (!wants_label_index(s, q))
        return;
    pthread_rwlock_unlock(&s->lock);
    selector_equality(q->labels, &key, &value);
    pthread_rwlock_wrlock(&s->lock);
    store_index_add_label_key(s, key);
    pthread_rwlock_unlock(&s->lock);
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
