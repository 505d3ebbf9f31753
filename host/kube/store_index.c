// The buckets of the store: by namespace, owner UID, manager, and label pairs of the keys that were asked
// for. A bucket holds every slot with a version that belongs there; readers check the version they see.
#include "kube/store_impl.h"

#include <string.h>

#include "base/assert.h"
#include "base/strset.h"

struct key {
    size_t len;
    char text[STORE_KEY_MAX];
};

// False: too long to be any object's (object_new has a limit).
static bool make_key(struct key *k, enum index_kind kind, const char *text, const char *value)
{
    size_t n = strlen(text) + 1;
    size_t m = value != NULL ? strlen(value) + 1 : 0;
    if (1 + n + m > sizeof(k->text))
        return false;
    k->text[0] = (char)kind;
    memcpy(k->text + 1, text, n);
    if (m > 0)
        memcpy(k->text + 1 + n, value, m);
    k->len = 1 + n + m;
    return true;
}

static struct bucket *get_bucket(struct store *s, const struct key *k)
{
    struct bucket *b;
    HASH_FIND(hh, s->buckets, k->text, k->len, b);
    if (b != NULL)
        return b;
    b = xcalloc(1, sizeof(*b) + k->len);
    LIST_INIT(&b->postings);
    b->key_len = k->len;
    memcpy(b->key, k->text, k->len);
    HASH_ADD_KEYPTR(hh, s->buckets, b->key, b->key_len, b);
    s->bytes += store_block_bytes(b);
    return b;
}

static void add(struct store *s, struct slot *slot, enum index_kind kind, const char *text, const char *value)
{
    struct key k;
    if (!make_key(&k, kind, text, value))
        return;
    for (struct posting *p = slot->postings; p != NULL; p = p->next) {
        if (p->bucket->key_len == k.len && memcmp(p->bucket->key, k.text, k.len) == 0)
            return;
    }
    struct posting *p = xcalloc(1, sizeof(*p));
    p->slot = slot;
    p->bucket = get_bucket(s, &k);
    p->next = slot->postings;
    slot->postings = p;
    LIST_INSERT_HEAD(&p->bucket->postings, p, in_bucket);
    p->bucket->count++;
    s->bytes += store_block_bytes(p);
}

static void add_label(struct store *s, struct slot *slot, const struct object *o, const char *key)
{
    const char *value = object_label(o, key);
    if (value != NULL)
        add(s, slot, INDEX_LABEL, key, value);
}

void store_index_add(struct store *s, struct slot *slot, const struct object *o)
{
    const struct object_owner *owners;
    const char *const *managers;
    if (object_namespace(o)[0] != 0)
        add(s, slot, INDEX_NAMESPACE, object_namespace(o), NULL);
    size_t n = object_owners(o, &owners);
    for (size_t i = 0; i < n; i++)
        add(s, slot, INDEX_OWNER, owners[i].uid, NULL);
    n = object_managers(o, &managers);
    for (size_t i = 0; i < n; i++)
        add(s, slot, INDEX_MANAGER, managers[i], NULL);
    for (size_t i = 0; i < s->label_key_count; i++)
        add_label(s, slot, o, s->label_keys[i]);
}

static bool object_belongs(const struct object *o, const struct bucket *b)
{
    const char *text = b->key + 1;
    const struct object_owner *owners;
    const char *const *managers;
    size_t n;
    switch ((enum index_kind)b->key[0]) {
    case INDEX_NAMESPACE:
        return strcmp(object_namespace(o), text) == 0;
    case INDEX_LABEL:
        return str_eq(object_label(o, text), text + strlen(text) + 1);
    case INDEX_OWNER:
        n = object_owners(o, &owners);
        for (size_t i = 0; i < n; i++) {
            if (strcmp(owners[i].uid, text) == 0)
                return true;
        }
        return false;
    case INDEX_MANAGER:
        n = object_managers(o, &managers);
        for (size_t i = 0; i < n; i++) {
            if (strcmp(managers[i], text) == 0)
                return true;
        }
        return false;
    }
    return false;
}

static bool slot_belongs(const struct slot *slot, const struct bucket *b)
{
    if (slot->object != NULL && object_belongs(slot->object, b))
        return true;
    for (const struct old_version *v = slot->older; v != NULL; v = v->older) {
        if (v->object != NULL && object_belongs(v->object, b))
            return true;
    }
    return false;
}

static void drop(struct store *s, struct posting *p)
{
    struct bucket *b = p->bucket;
    LIST_REMOVE(p, in_bucket);
    s->bytes -= store_block_bytes(p);
    free(p);
    if (--b->count == 0) {
        HASH_DEL(s->buckets, b);
        s->bytes -= store_block_bytes(b);
        free(b);
    }
}

void store_index_trim(struct store *s, struct slot *slot)
{
    struct posting **link = &slot->postings;
    while (*link != NULL) {
        struct posting *p = *link;
        if (slot_belongs(slot, p->bucket)) {
            link = &p->next;
        } else {
            *link = p->next;
            drop(s, p);
        }
    }
}

bool store_index_has_label_key(const struct store *s, const char *key)
{
    for (size_t i = 0; i < s->label_key_count; i++) {
        if (strcmp(s->label_keys[i], key) == 0)
            return true;
    }
    return false;
}

void store_index_add_label_key(struct store *s, const char *key)
{
    if (s->label_key_count == STORE_LABEL_INDEXES || store_index_has_label_key(s, key))
        return;
    char *copy = xstrdup(key);
    s->label_keys[s->label_key_count++] = copy;
    s->bytes += store_block_bytes(copy);
    for (struct slot *slot = s->slots; slot != NULL; slot = slot->hh.next) {
        if (slot->object != NULL)
            add_label(s, slot, slot->object, copy);
        for (struct old_version *v = slot->older; v != NULL; v = v->older) {
            if (v->object != NULL)
                add_label(s, slot, v->object, copy);
        }
    }
}

struct bucket *store_index_find(struct store *s, enum index_kind kind, const char *text, const char *value)
{
    struct key k;
    struct bucket *b = NULL;
    if (make_key(&k, kind, text, value))
        HASH_FIND(hh, s->buckets, k.text, k.len, b);
    return b;
}
