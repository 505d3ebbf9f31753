#include "run/apply/own_writes.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/hash_table.h"
#include "base/strset.h"

struct wait { // one waiter waits for one part
    struct own_waiter *waiter;
    struct part *part;
    LIST_ENTRY(wait) in_part;
    LIST_ENTRY(wait) in_waiter;
};
LIST_HEAD(waits, wait);

enum { VERSIONS_MAX = 16 }; // of an object that are kept apart; with more somebody else writes, too

struct part { // what one writer has under way
    struct entry *entry;
    char *script, *key;
    unsigned in_flight;
    char *written;      // resourceVersion of the newest answered write, "" to vanish, or NULL
    struct strset ours; // resourceVersions of all of them
    struct strset seen; // of changes that came while a write was in flight, "" for a deletion
    bool crowded;       // there were more of those
    struct waits waits;
    LIST_ENTRY(part) in_entry;
};

struct entry { // of an object
    char *id;  // of id_len bytes, see id_of
    size_t id_len;
    LIST_HEAD(, part) parts; // never empty
    UT_hash_handle hh;
};

struct own_writes {
    bool (*by_all)(void *ud, const struct own_write *w);
    void *ud;
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

struct own_writes *own_writes_new(bool (*by_all)(void *ud, const struct own_write *w), void *ud)
{
    struct own_writes *w = xcalloc(1, sizeof *w);
    w->by_all = by_all;
    w->ud = ud;
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

static struct part *find_part(const struct entry *e, struct own_writer by)
{
    struct part *p;
    if (e == NULL)
        return NULL;
    LIST_FOREACH (p, &e->parts, in_entry)
        if (str_eq(p->key, by.key) && str_eq(p->script, by.script))
            return p;
    return NULL;
}

static void wait_free(struct wait *x)
{
    LIST_REMOVE(x, in_part);
    LIST_REMOVE(x, in_waiter);
    free(x);
}

// Frees the waits first, then tells: a waiter may free itself when told. With its last part an entry goes.
static void part_free(struct own_writes *w, struct part *p)
{
    struct entry *e = p->entry;
    LIST_REMOVE(p, in_entry);
    if (LIST_EMPTY(&e->parts)) {
        HASH_DEL(w->entries, e);
        free(e->id);
        free(e);
    }
    while (!LIST_EMPTY(&p->waits)) {
        struct own_waiter *waiter = LIST_FIRST(&p->waits)->waiter;
        wait_free(LIST_FIRST(&p->waits));
        if (waiter->armed && LIST_EMPTY(&waiter->waits))
            waiter->on_seen(waiter->ud);
    }
    free(p->script);
    free(p->key);
    free(p->written);
    strset_fini(&p->ours);
    strset_fini(&p->seen);
    free(p);
}

void own_writes_free(struct own_writes *w)
{
    if (w == NULL)
        return;
    while (w->entries != NULL) {
        struct part *p = LIST_FIRST(&w->entries->parts);
        while (!LIST_EMPTY(&p->waits))
            wait_free(LIST_FIRST(&p->waits));
        part_free(w, p);
    }
    buf_fini(&w->id);
    free(w);
}

static struct entry *find_or_add(struct own_writes *w, const struct gvk *gvk, const char *ns,
                                 const char *name)
{
    struct entry *e = find(w, gvk, ns, name);
    if (e != NULL)
        return e;
    const struct buf *id = id_of(w, gvk, ns, name);
    e = xcalloc(1, sizeof *e);
    e->id = xmemdup(id->data, id->len);
    e->id_len = id->len;
    LIST_INIT(&e->parts);
    HASH_ADD_KEYPTR(hh, w->entries, e->id, e->id_len, e);
    return e;
}

static struct part *part_new(struct entry *e, struct own_writer by)
{
    struct part *p = xcalloc(1, sizeof *p);
    p->entry = e;
    p->script = xstrdup(by.script);
    p->key = xstrdup(by.key);
    strset_init(&p->ours);
    strset_init(&p->seen);
    LIST_INIT(&p->waits);
    LIST_INSERT_HEAD(&e->parts, p, in_entry);
    return p;
}

void own_writes_begin(struct own_writes *w, struct own_writer by, const struct gvk *gvk, const char *ns,
                      const char *name, struct own_waiter *waiter)
{
    struct entry *e = find_or_add(w, gvk, ns, name);
    struct part *p = find_part(e, by);
    if (p == NULL)
        p = part_new(e, by);
    p->in_flight++;
    if (waiter == NULL)
        return;
    struct wait *x = xcalloc(1, sizeof *x);
    x->waiter = waiter;
    x->part = p;
    LIST_INSERT_HEAD(&p->waits, x, in_part);
    LIST_INSERT_HEAD(&waiter->waits, x, in_waiter);
}

static struct own_write describe(const struct part *p)
{
    struct own_write w = {.group = p->entry->id, .rv = p->written};
    w.kind = w.group + strlen(w.group) + 1;
    w.ns = w.kind + strlen(w.kind) + 1;
    w.name = w.ns + strlen(w.ns) + 1;
    return w;
}

// A store shows it.
static void part_shown(struct own_writes *w, struct part *p)
{
    struct own_write write = describe(p);
    if (w->by_all == NULL || w->by_all(w->ud, &write))
        part_free(w, p);
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
static void note_written(struct part *p, const char *rv)
{
    int order;
    if (p->ours.count < VERSIONS_MAX)
        strset_add(&p->ours, rv);
    if (p->written != NULL && object_rv_compare(rv, p->written, &order) && order < 0)
        return;
    free(p->written);
    p->written = xstrdup(rv);
}

static void note_seen(struct part *p, const char *rv)
{
    if (strset_has(&p->seen, rv))
        return; // by another store
    p->crowded |= p->seen.count == VERSIONS_MAX;
    if (p->seen.count < VERSIONS_MAX)
        strset_add(&p->seen, rv);
}

static bool was_shown(const struct part *p)
{
    for (size_t i = 0; i < p->seen.count; i++)
        if (shows(p->seen.items[i], p->written))
            return true;
    return false;
}

static bool saw_others(const struct part *p)
{
    for (size_t i = 0; i < p->seen.count; i++)
        if (!strset_has(&p->ours, p->seen.items[i]))
            return true;
    return p->crowded;
}

bool own_writes_end(struct own_writes *w, struct own_writer by, const struct gvk *gvk, const char *ns,
                    const char *name, const char *rv)
{
    struct part *p = find_part(find(w, gvk, ns, name), by);
    if (p == NULL || p->in_flight == 0)
        return false;
    if (rv != NULL)
        note_written(p, rv);
    if (--p->in_flight > 0)
        return false;
    bool foreign = saw_others(p);
    bool shown = p->written != NULL && was_shown(p);
    strset_fini(&p->seen);
    strset_init(&p->seen);
    p->crowded = false;
    if (p->written == NULL)
        part_free(w, p);
    else if (shown)
        part_shown(w, p);
    return foreign;
}

void own_writes_store_has(struct own_writes *w, struct own_writer by, const struct gvk *gvk, const char *ns,
                          const char *name, const char *rv)
{
    struct part *p = find_part(find(w, gvk, ns, name), by);
    if (p != NULL && p->in_flight == 0 && shows(rv, p->written))
        part_shown(w, p);
}

static struct entry *find_changed(struct own_writes *w, const struct object *old, const struct object *new)
{
    const struct object *o = new != NULL ? new : old;
    return w->entries == NULL ? NULL : find(w, object_gvk(o), object_namespace(o), object_name(o));
}

bool own_writes_is_echo(struct own_writes *w, struct own_writer of, const struct object *old,
                        const struct object *new)
{
    const struct part *p = find_part(find_changed(w, old, new), of);
    return p != NULL &&
           (p->in_flight > 0 || strset_has(&p->ours, new != NULL ? object_resource_version(new) : ""));
}

void own_writes_came(struct own_writes *w, const struct object *old, const struct object *new)
{
    const struct entry *e = find_changed(w, old, new);
    const char *rv = new != NULL ? object_resource_version(new) : "";
    struct part *next;
    for (struct part *p = e == NULL ? NULL : LIST_FIRST(&e->parts); p != NULL; p = next) {
        next = LIST_NEXT(p, in_entry);
        if (p->in_flight > 0)
            note_seen(p, rv);
        else if (shows(rv, p->written))
            part_shown(w, p);
    }
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

void own_waiter_each(const struct own_waiter *x, void (*fn)(void *ud, const struct own_write *w), void *ud)
{
    const struct wait *i;
    LIST_FOREACH (i, &x->waits, in_waiter) {
        struct own_write w = describe(i->part);
        if (w.rv !=
            NULL) // NULL: a report's write to the object is under way, and none of the key's was taken
            fn(ud, &w);
    }
}

void own_waiter_free(struct own_waiter *x)
{
    if (x == NULL)
        return;
    while (!LIST_EMPTY(&x->waits)) {
        struct part *p = LIST_FIRST(&x->waits)->part;
        wait_free(LIST_FIRST(&x->waits));
        if (LIST_EMPTY(&p->waits) && p->in_flight == 0) // no store will show it
            part_free(x->writes, p);
    }
    free(x);
}
