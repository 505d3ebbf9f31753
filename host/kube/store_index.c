// The buckets of the store: by namespace, owner UID, manager, and by the values of labels and fields that
// were asked for. A bucket holds every slot with a version that belongs there; readers check the version they
// see.
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

// By its values at these paths, of which there are some.
static void add_fields(struct store *s, struct slot *slot, const struct object *o, char *const *paths,
                       size_t n)
{
    struct json_doc *doc = object_parse(o);
    for (size_t i = 0; i < n; i++) {
        char text[FIELD_TEXT_MAX];
        const char *value = field_text(json_root(doc), paths[i], text);
        if (value != NULL)
            add(s, slot, INDEX_FIELD, paths[i], value);
    }
    json_doc_free(doc);
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
    for (size_t i = 0; i < s->labels.count; i++)
        add_label(s, slot, o, s->labels.names[i]);
    if (s->fields.count > 0)
        add_fields(s, slot, o, s->fields.names, s->fields.count);
}

static bool has_field(const struct object *o, const char *path, const char *value)
{
    char text[FIELD_TEXT_MAX];
    struct json_doc *doc = object_parse(o);
    bool has = str_eq(field_text(json_root(doc), path, text), value);
    json_doc_free(doc);
    return has;
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
    case INDEX_FIELD:
        return has_field(o, text, text + strlen(text) + 1);
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

static struct asked *asked_of(struct store *s, enum index_kind kind)
{
    return kind == INDEX_LABEL ? &s->labels : &s->fields;
}

bool store_index_is_asked(const struct store *s, enum index_kind kind, const char *name)
{
    const struct asked *a = kind == INDEX_LABEL ? &s->labels : &s->fields;
    for (size_t i = 0; i < a->count; i++) {
        if (strcmp(a->names[i], name) == 0)
            return true;
    }
    return false;
}

bool store_index_has_room(const struct store *s, enum index_kind kind)
{
    return (kind == INDEX_LABEL ? s->labels.count : s->fields.count) < STORE_ASKED_MAX;
}

static int compare_known(const void *a, const void *b)
{
    const struct field_value *x = a, *y = b;
    return (x->object > y->object) - (x->object < y->object);
}

void store_index_look_up(struct field_values *v, const char *path)
{
    for (size_t i = 0; i < v->count; i++) {
        char text[FIELD_TEXT_MAX];
        struct json_doc *doc = object_parse(v->items[i].object);
        const char *value = field_text(json_root(doc), path, text);
        v->items[i].value = value != NULL ? xstrdup(value) : NULL;
        json_doc_free(doc);
    }
    if (v->count > 1)
        qsort(v->items, v->count, sizeof(v->items[0]), compare_known);
}

void store_index_take_objects(struct store *s, struct field_values *ret)
{
    ret->items = xcalloc(s->live + 1, sizeof(ret->items[0]));
    ret->count = 0;
    for (struct slot *slot = s->slots; slot != NULL && ret->count < s->live; slot = slot->hh.next) {
        if (slot->object != NULL)
            ret->items[ret->count++].object = object_ref(slot->object);
    }
}

void store_index_forget(struct field_values *v)
{
    for (size_t i = 0; i < v->count; i++) {
        object_unref(v->items[i].object);
        free(v->items[i].value);
    }
    free(v->items);
}

static void add_asked(struct store *s, struct slot *slot, struct object *o, enum index_kind kind, char *name,
                      const struct field_values *known)
{
    const struct field_value wanted = {.object = o};
    const struct field_value *found =
        known->count > 0 ? bsearch(&wanted, known->items, known->count, sizeof(wanted), compare_known) : NULL;
    if (kind == INDEX_LABEL)
        add_label(s, slot, o, name);
    else if (found == NULL)
        add_fields(s, slot, o, &name, 1);
    else if (found->value != NULL)
        add(s, slot, INDEX_FIELD, name, found->value);
}

void store_index_ask(struct store *s, enum index_kind kind, const char *name,
                     const struct field_values *known)
{
    struct asked *a = asked_of(s, kind);
    if (a->count == STORE_ASKED_MAX || store_index_is_asked(s, kind, name))
        return;
    char *copy = xstrdup(name);
    a->names[a->count++] = copy;
    s->bytes += store_block_bytes(copy);
    for (struct slot *slot = s->slots; slot != NULL; slot = slot->hh.next) {
        if (slot->object != NULL)
            add_asked(s, slot, slot->object, kind, copy, known);
        for (struct old_version *v = slot->older; v != NULL; v = v->older) {
            if (v->object != NULL)
                add_asked(s, slot, v->object, kind, copy, known);
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
