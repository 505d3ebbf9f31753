#include "run/apply/own_writes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/hash_table.h"
#include "base/strset.h"

struct wait { // one waiter waits for one entry
    struct own_waiter *waiter;
    struct entry *entry;
    LIST_ENTRY(wait) in_entry;
    LIST_ENTRY(wait) in_waiter;
};
LIST_HEAD(waits, wait);

enum { VERSIONS_MAX = 16 }; // of an object that are kept apart; with more somebody else writes, too

struct entry {
    char *id; // of id_len bytes, see id_of
    size_t id_len;
    unsigned in_flight;
    char *written;      // resourceVersion of our newest answered write, "" to vanish, or NULL
    struct strset ours; // resourceVersions of all of them
    struct strset seen; // of changes that came while a write was in flight, "" for a deletion
    bool crowded;       // there were more of those
    struct waits waits;
    UT_hash_handle hh;
};

struct own_writes {
    struct entry *entries;
    struct buf id; // of the last look-up
};

struct own_waiter {
    struct own_writes *writes;
    struct waits waits;
    bool armed;
    void (*on_seen)(void *ud);
    void *ud;
};

struct own_writes *own_writes_new(void)
{
    struct own_writes *w = xcalloc(1, sizeof *w);
    buf_init(&w->id, SIZE_MAX);
    return w;
}

// Group, kind, namespace and name, each with its NUL. Every change of every store is looked up: no
// formatting.
static const struct buf *id_of(struct own_writes *w, const struct gvk *gvk, const char *ns, const char *name)
{
    const char *const parts[] = {gvk->group, gvk->kind, ns == NULL ? "" : ns, name};
    buf_reset(&w->id);
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++)
        buf_add(&w->id, parts[i], strlen(parts[i]) + 1);
    return &w->id;
}

static struct entry *find(struct own_writes *w, const struct gvk *gvk, const char *ns, const char *name)
{
    struct entry *e = NULL;
    if (w->entries == NULL)
        return NULL;
    const struct buf *id = id_of(w, gvk, ns, name);
    HASH_FIND(hh, w->entries, id->data, id->len, e);
    return e;
}

static void wait_free(struct wait *x)
{
    LIST_REMOVE(x, in_entry);
    LIST_REMOVE(x, in_waiter);
    free(x);
}

// Frees the waits first, then tells: a waiter may free itself when told.
static void entry_free(struct own_writes *w, struct entry *e)
{
    HASH_DEL(w->entries, e);
    while (!LIST_EMPTY(&e->waits)) {
        struct own_waiter *waiter = LIST_FIRST(&e->waits)->waiter;
        wait_free(LIST_FIRST(&e->waits));
        if (waiter->armed && LIST_EMPTY(&waiter->waits))
            waiter->on_seen(waiter->ud);
    }
    free(e->id);
    free(e->written);
    strset_fini(&e->ours);
    strset_fini(&e->seen);
    free(e);
}

void own_writes_free(struct own_writes *w)
{
    if (w == NULL)
        return;
    struct entry *e, *tmp;
    HASH_ITER (hh, w->entries, e, tmp) {
        while (!LIST_EMPTY(&e->waits))
            wait_free(LIST_FIRST(&e->waits));
        entry_free(w, e);
    }
    buf_fini(&w->id);
    free(w);
}

void own_writes_begin(struct own_writes *w, const struct gvk *gvk, const char *ns, const char *name,
                      struct own_waiter *waiter)
{
    struct entry *e = find(w, gvk, ns, name);
    if (e == NULL) {
        const struct buf *id = id_of(w, gvk, ns, name);
        e = xcalloc(1, sizeof *e);
        e->id = xmemdup(id->data, id->len);
        e->id_len = id->len;
        strset_init(&e->ours);
        strset_init(&e->seen);
        LIST_INIT(&e->waits);
        HASH_ADD_KEYPTR(hh, w->entries, e->id, e->id_len, e);
    }
    e->in_flight++;
    if (waiter == NULL)
        return;
    struct wait *x = xcalloc(1, sizeof *x);
    x->waiter = waiter;
    x->entry = e;
    LIST_INSERT_HEAD(&e->waits, x, in_entry);
    LIST_INSERT_HEAD(&waiter->waits, x, in_waiter);
}

// Has a change to resourceVersion `seen` shown our write `written`?
static bool shows(const char *seen, const char *written)
{
    int order;
    if (written[0] == '\0' || seen[0] == '\0')
        return seen[0] == '\0'; // it is gone: nothing older will come
    if (object_rv_compare(seen, written, &order))
        return order >= 0;
    return str_eq(seen, written);
}

// Answers of writes that were in flight together come in any order.
static void note_written(struct entry *e, const char *rv)
{
    int order;
    if (e->ours.count < VERSIONS_MAX)
        strset_add(&e->ours, rv);
    if (e->written != NULL && object_rv_compare(rv, e->written, &order) && order < 0)
        return;
    free(e->written);
    e->written = xstrdup(rv);
}

static void note_seen(struct entry *e, const char *rv)
{
    if (strset_has(&e->seen, rv))
        return; // by another store
    e->crowded |= e->seen.count == VERSIONS_MAX;
    if (e->seen.count < VERSIONS_MAX)
        strset_add(&e->seen, rv);
}

static bool was_shown(const struct entry *e)
{
    for (size_t i = 0; i < e->seen.count; i++)
        if (shows(e->seen.items[i], e->written))
            return true;
    return false;
}

static bool saw_others(const struct entry *e)
{
    for (size_t i = 0; i < e->seen.count; i++)
        if (!strset_has(&e->ours, e->seen.items[i]))
            return true;
    return e->crowded;
}

bool own_writes_end(struct own_writes *w, const struct gvk *gvk, const char *ns, const char *name,
                    const char *rv)
{
    struct entry *e = find(w, gvk, ns, name);
    if (e == NULL || e->in_flight == 0)
        return false;
    if (rv != NULL)
        note_written(e, rv);
    if (--e->in_flight > 0)
        return false;
    bool foreign = saw_others(e);
    if (e->written == NULL || was_shown(e)) {
        entry_free(w, e);
        return foreign;
    }
    strset_fini(&e->seen);
    strset_init(&e->seen);
    e->crowded = false;
    return foreign;
}

void own_writes_store_has(struct own_writes *w, const struct gvk *gvk, const char *ns, const char *name,
                          const char *rv)
{
    struct entry *e = find(w, gvk, ns, name);
    if (e != NULL && e->in_flight == 0 && shows(rv, e->written))
        entry_free(w, e);
}

bool own_writes_is_echo(struct own_writes *w, const struct object *old, const struct object *new)
{
    const struct object *o = new != NULL ? new : old;
    struct entry *e = w->entries == NULL ? NULL : find(w, object_gvk(o), object_namespace(o), object_name(o));
    if (e == NULL)
        return false;
    const char *rv = new != NULL ? object_resource_version(new) : "";
    if (e->in_flight > 0) {
        note_seen(e, rv);
        return true;
    }
    bool echo = strset_has(&e->ours, rv);
    if (shows(rv, e->written))
        entry_free(w, e);
    return echo;
}

struct own_waiter *own_waiter_new(struct own_writes *w, void (*on_seen)(void *ud), void *ud)
{
    struct own_waiter *x = xcalloc(1, sizeof *x);
    x->writes = w;
    x->on_seen = on_seen;
    x->ud = ud;
    LIST_INIT(&x->waits);
    return x;
}

bool own_waiter_is_clear(const struct own_waiter *x)
{
    return LIST_EMPTY(&x->waits);
}

void own_waiter_arm(struct own_waiter *x)
{
    x->armed = true;
}

void own_waiter_free(struct own_waiter *x)
{
    if (x == NULL)
        return;
    while (!LIST_EMPTY(&x->waits))
        wait_free(LIST_FIRST(&x->waits));
    free(x);
}
