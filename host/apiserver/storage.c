#include "apiserver/storage.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strset.h"

struct record {
    char *key;
    struct storage_version *version;
};

struct storage {
    struct record *records; // sorted by key
    size_t count, cap;
    struct storage_event *log; // a ring
    size_t log_first, log_count;
    uint64_t oldest;
};

struct storage *storage_new(void)
{
    struct storage *s = xcalloc(1, sizeof(*s));
    s->log = xcalloc(STORAGE_LOG_MAX, sizeof(*s->log));
    return s;
}

static void forget_event(struct storage_event *ev)
{
    storage_version_unref(ev->old);
    storage_version_unref(ev->new);
    free(ev->key);
    *ev = (struct storage_event){0};
}

static struct storage_event *event_at(const struct storage *s, size_t i)
{
    return &s->log[(s->log_first + i) % STORAGE_LOG_MAX];
}

static void drop_oldest(struct storage *s)
{
    struct storage_event *ev = event_at(s, 0);
    s->oldest = ev->resource_version;
    forget_event(ev);
    s->log_first = (s->log_first + 1) % STORAGE_LOG_MAX;
    s->log_count--;
}

void storage_free(struct storage *s)
{
    if (s == NULL)
        return;
    while (s->log_count > 0)
        drop_oldest(s);
    for (size_t i = 0; i < s->count; i++) {
        free(s->records[i].key);
        storage_version_unref(s->records[i].version);
    }
    free(s->records);
    free(s->log);
    free(s);
}

struct storage_version *storage_version_new(uint64_t resource_version, char *json_text, size_t len)
{
    struct storage_version *v = xcalloc(1, sizeof(*v));
    *v = (struct storage_version){1, resource_version, json_text, len};
    return v;
}

struct storage_version *storage_version_ref(struct storage_version *v)
{
    v->refs++;
    return v;
}

void storage_version_unref(struct storage_version *v)
{
    if (v == NULL || --v->refs > 0)
        return;
    free(v->json);
    free(v);
}

static size_t find(const struct storage *s, const char *key, bool *ret_found)
{
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t mid = (low + high) / 2;
        int order = strcmp(s->records[mid].key, key);
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

struct storage_version *storage_get(const struct storage *s, const char *key)
{
    bool found;
    size_t i = find(s, key, &found);
    return found ? s->records[i].version : NULL;
}

// Takes old and new.
static const struct storage_event *add_event(struct storage *s, enum storage_event_type type, const char *key,
                                             struct storage_version *old, struct storage_version *new)
{
    if (s->log_count == STORAGE_LOG_MAX)
        drop_oldest(s);
    struct storage_event *ev = event_at(s, s->log_count++);
    *ev = (struct storage_event){type, new->resource_version, xstrdup(key), old, new};
    return ev;
}

const struct storage_event *storage_put(struct storage *s, const char *key, struct storage_version *v)
{
    bool found;
    size_t i = find(s, key, &found);
    if (found) {
        struct storage_version *old = s->records[i].version;
        s->records[i].version = storage_version_ref(v);
        return add_event(s, STORAGE_MODIFIED, key, old, v);
    }
    if (s->count == s->cap) {
        s->cap = s->cap == 0 ? 16 : 2 * s->cap;
        s->records = xreallocarray(s->records, s->cap, sizeof(*s->records));
    }
    memmove(&s->records[i + 1], &s->records[i], (s->count - i) * sizeof(*s->records));
    s->records[i] = (struct record){xstrdup(key), storage_version_ref(v)};
    s->count++;
    return add_event(s, STORAGE_ADDED, key, NULL, v);
}

const struct storage_event *storage_remove(struct storage *s, const char *key, struct storage_version *last)
{
    bool found;
    size_t i = find(s, key, &found);
    if (!found) {
        storage_version_unref(last);
        return NULL;
    }
    struct record gone = s->records[i];
    s->count--;
    memmove(&s->records[i], &s->records[i + 1], (s->count - i) * sizeof(*s->records));
    const struct storage_event *ev = add_event(s, STORAGE_DELETED, gone.key, gone.version, last);
    free(gone.key);
    return ev;
}

size_t storage_count(const struct storage *s)
{
    return s->count;
}

static void list_now(const struct storage *s, const char *prefix, struct storage_list *ret)
{
    bool found;
    ret->items = xcalloc(s->count + 1, sizeof(*ret->items));
    for (size_t i = find(s, prefix, &found); i < s->count && str_has_prefix(s->records[i].key, prefix); i++)
        ret->items[ret->count++] =
            (struct storage_entry){s->records[i].key, storage_version_ref(s->records[i].version)};
}

// Takes one event back.
static void undo_event(struct storage_list *l, const struct storage_event *ev)
{
    size_t i = 0;
    while (i < l->count && strcmp(l->items[i].key, ev->key) < 0)
        i++;
    bool there = i < l->count && strcmp(l->items[i].key, ev->key) == 0;
    if (ev->old == NULL) {
        if (!there)
            return;
        storage_version_unref(l->items[i].version);
        l->count--;
        memmove(&l->items[i], &l->items[i + 1], (l->count - i) * sizeof(*l->items));
    } else if (there) {
        storage_version_unref(l->items[i].version);
        l->items[i].version = storage_version_ref(ev->old);
    } else {
        l->items = xreallocarray(l->items, l->count + 1, sizeof(*l->items));
        memmove(&l->items[i + 1], &l->items[i], (l->count - i) * sizeof(*l->items));
        l->items[i] = (struct storage_entry){ev->key, storage_version_ref(ev->old)};
        l->count++;
    }
}

bool storage_list(const struct storage *s, const char *prefix, uint64_t resource_version,
                  struct storage_list *ret)
{
    if (resource_version != 0 && resource_version < s->oldest)
        return false;
    struct storage_list l = {0};
    list_now(s, prefix, &l);
    for (size_t i = s->log_count; resource_version != 0 && i-- > 0;) {
        const struct storage_event *ev = event_at(s, i);
        if (ev->resource_version <= resource_version)
            break;
        if (str_has_prefix(ev->key, prefix))
            undo_event(&l, ev);
    }
    *ret = l;
    return true;
}

void storage_list_fini(struct storage_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        storage_version_unref(l->items[i].version);
    free(l->items);
    *l = (struct storage_list){0};
}

uint64_t storage_oldest(const struct storage *s)
{
    return s->oldest;
}

void storage_compact(struct storage *s, uint64_t resource_version)
{
    while (s->log_count > 0 && event_at(s, 0)->resource_version <= resource_version)
        drop_oldest(s);
    if (s->oldest < resource_version)
        s->oldest = resource_version;
}

void storage_each_event_after(const struct storage *s, uint64_t resource_version,
                              void (*fn)(void *ud, const struct storage_event *ev), void *ud)
{
    for (size_t i = 0; i < s->log_count; i++) {
        const struct storage_event *ev = event_at(s, i);
        if (ev->resource_version > resource_version)
            fn(ud, ev);
    }
}
