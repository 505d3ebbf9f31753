#include "run/world/deps.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/hash_table.h"
#include "base/strset.h"

// One read of one key: member of its scope's bucket and of its key's list.
struct edge {
    struct dependent *dependent;
    struct scope *scope;
    struct bucket *bucket;
    struct selector *labels;     // list; NULL: all
    char *owner_uid;             // list; or NULL
    enum informer_answer answer; // what the pass was told
    LIST_ENTRY(edge) in_bucket;
    LIST_ENTRY(edge) in_dependent;
};
LIST_HEAD(edges, edge);

// Edges of a scope under one index term: "" (all changes), "l:key=value" or "o:uid".
struct bucket {
    char *term;
    struct edges edges;
    UT_hash_handle hh;
};

// What an informer has to cover: an object, a namespace or a cluster.
struct scope {
    char *text; // its key
    struct informer_scope what;
    char *ns, *name;
    struct informer_use *use;
    struct informer *informer; // what covered it when last looked at
    struct bucket *buckets;
    size_t edges;
    UT_hash_handle hh;
};

struct dependent {
    char *id; // owner and key
    void *owner;
    char *key;
    struct edges edges;
    UT_hash_handle hh;
};

struct deps {
    struct informers *informers;
    struct scope *scopes;
    struct dependent *dependents;
    void (*wake)(void *ud, void *owner, const char *key);
    void *ud;
};

struct deps *deps_new(struct informers *informers, void (*wake)(void *ud, void *owner, const char *key),
                      void *ud)
{
    struct deps *d = xcalloc(1, sizeof *d);
    d->informers = informers;
    d->wake = wake;
    d->ud = ud;
    return d;
}

static char *scope_text(const struct gvk *gvk, const char *ns, const char *name)
{
    return xasprintf("%s|%s|%s", gvk->text, ns == NULL ? "*" : ns, name == NULL ? "*" : name);
}

static struct scope *scope_find(const struct deps *d, const struct gvk *gvk, const char *ns, const char *name)
{
    if (d->scopes == NULL) // no script reads anything, and every change asks
        return NULL;
    char *text = scope_text(gvk, ns, name);
    struct scope *s;
    HASH_FIND_STR(d->scopes, text, s);
    free(text);
    return s;
}

static struct scope *scope_get(struct deps *d, const struct read *r, const struct identity *as)
{
    struct scope *s = scope_find(d, r->gvk, r->ns, r->name);
    if (s != NULL)
        return s;
    s = xcalloc(1, sizeof *s);
    s->text = scope_text(r->gvk, r->ns, r->name);
    s->ns = xstrdup(r->ns);
    s->name = xstrdup(r->name);
    s->what = (struct informer_scope){.gvk = r->gvk, .ns = s->ns, .name = s->name};
    s->use = informers_acquire(d->informers, &s->what, as);
    s->informer = informer_use_get(s->use);
    HASH_ADD_KEYPTR(hh, d->scopes, s->text, strlen(s->text), s);
    return s;
}

static void scope_drop(struct deps *d, struct scope *s)
{
    ASSERT(s->buckets == NULL);
    HASH_DEL(d->scopes, s);
    informer_use_release(s->use);
    free(s->text);
    free(s->ns);
    free(s->name);
    free(s);
}

// The narrowest index term that every match of this read fulfils.
static char *read_term(const struct read *r, const struct selector *labels)
{
    const char *key, *value;
    if (r->owner_uid != NULL)
        return xasprintf("o:%s", r->owner_uid);
    if (labels != NULL && selector_equality(labels, &key, &value))
        return xasprintf("l:%s=%s", key, value);
    return xstrdup("");
}

static struct bucket *bucket_get(struct scope *s, char *term /* taken */)
{
    struct bucket *b;
    HASH_FIND_STR(s->buckets, term, b);
    if (b != NULL) {
        free(term);
        return b;
    }
    b = xcalloc(1, sizeof *b);
    b->term = term;
    LIST_INIT(&b->edges);
    HASH_ADD_KEYPTR(hh, s->buckets, b->term, strlen(b->term), b);
    return b;
}

static void edge_free(struct deps *d, struct edge *e)
{
    struct scope *s = e->scope;
    struct bucket *b = e->bucket;
    LIST_REMOVE(e, in_bucket);
    LIST_REMOVE(e, in_dependent);
    selector_free(e->labels);
    free(e->owner_uid);
    free(e);
    if (LIST_EMPTY(&b->edges)) {
        HASH_DEL(s->buckets, b);
        free(b->term);
        free(b);
    }
    if (--s->edges == 0)
        scope_drop(d, s);
}

static void edge_add(struct deps *d, struct dependent *dep, const struct read *r, const struct identity *as)
{
    struct edge *e = xcalloc(1, sizeof *e);
    e->dependent = dep;
    e->scope = scope_get(d, r, as);
    e->owner_uid = xstrdup(r->owner_uid);
    e->answer = r->answer;
    if (r->labels != NULL) // was parsed by the pass: a failure leaves it NULL, which matches all
        (void)selector_parse(r->labels, &e->labels, NULL);
    e->bucket = bucket_get(e->scope, read_term(r, e->labels));
    e->scope->edges++;
    LIST_INSERT_HEAD(&e->bucket->edges, e, in_bucket);
    LIST_INSERT_HEAD(&dep->edges, e, in_dependent);
}

static char *dependent_id(const void *owner, const char *key)
{
    return xasprintf("%p|%s", owner, key);
}

static struct dependent *dependent_find(const struct deps *d, const void *owner, const char *key)
{
    char *id = dependent_id(owner, key);
    struct dependent *dep;
    HASH_FIND_STR(d->dependents, id, dep);
    free(id);
    return dep;
}

static struct dependent *dependent_new(struct deps *d, void *owner, const char *key)
{
    struct dependent *dep = xcalloc(1, sizeof *dep);
    dep->id = dependent_id(owner, key);
    dep->owner = owner;
    dep->key = xstrdup(key);
    LIST_INIT(&dep->edges);
    HASH_ADD_KEYPTR(hh, d->dependents, dep->id, strlen(dep->id), dep);
    return dep;
}

// Once it is out of the table.
static void dependent_drop(struct deps *d, struct dependent *dep)
{
    while (!LIST_EMPTY(&dep->edges))
        edge_free(d, LIST_FIRST(&dep->edges));
    free(dep->id);
    free(dep->key);
    free(dep);
}

static void dependent_free(struct deps *d, struct dependent *dep)
{
    HASH_DEL(d->dependents, dep);
    dependent_drop(d, dep);
}

static bool edge_matches(const struct edge *e, const struct object *o)
{
    return o != NULL && (e->owner_uid == NULL || object_has_owner(o, e->owner_uid)) &&
           selector_matches(e->labels, o);
}

struct moved {
    const struct edge *edge;
    bool yes;
};

static void on_moved(void *ud, struct object *old, struct object *new, uint64_t revision)
{
    (void)revision;
    struct moved *m = ud;
    const struct scope *s = m->edge->scope;
    const struct object *any = new != NULL ? new : old;
    if (s->ns != NULL && !str_eq(object_namespace(any), s->ns))
        return;
    if (s->name != NULL && !str_eq(object_name(any), s->name))
        return;
    m->yes |= edge_matches(m->edge, old) || edge_matches(m->edge, new);
}

// Has what this edge reads changed since the pass read it?
static bool edge_moved(struct deps *d, const struct edge *e, uint64_t revision)
{
    enum informer_answer now = informer_use_state(e->scope->use, NULL);
    if (now != e->answer)
        return now != INFORMER_SYNCING;
    struct moved m = {.edge = e};
    struct store **stores;
    size_t n;
    if (informers_find_all(d->informers, &e->scope->what, UINT64_MAX, &stores, &n, NULL) != INFORMER_SYNCED)
        return false;
    for (size_t i = 0; i < n; i++) {
        store_changed_since(stores[i], revision, on_moved, &m);
        store_unref(stores[i]);
    }
    free(stores);
    return m.yes;
}

bool deps_install(struct deps *d, void *owner, const char *key, struct reads *reads, uint64_t revision,
                  const struct identity *as)
{
    // The new edges come first: informers that both need are not stopped in between.
    struct dependent *old = dependent_find(d, owner, key);
    if (old != NULL)
        HASH_DEL(d->dependents, old);
    bool moved = false;
    if (reads->count > 0) {
        struct dependent *dep = dependent_new(d, owner, key);
        for (size_t i = 0; i < reads->count; i++)
            edge_add(d, dep, &reads->items[i], as);
        struct edge *e;
        LIST_FOREACH (e, &dep->edges, in_dependent) {
            e->scope->informer = informer_use_get(e->scope->use);
            moved |= edge_moved(d, e, revision);
        }
    }
    if (old != NULL) {
        struct dependent *none = NULL;
        HASH_ADD_KEYPTR(hh, none, old->id, strlen(old->id),
                        old); // dependent_free expects a member of a table
        struct dependent *keep = d->dependents;
        d->dependents = none;
        dependent_free(d, old);
        d->dependents = keep;
    }
    reads_fini(reads);
    return moved;
}

void deps_forget(struct deps *d, void *owner, const char *key)
{
    struct dependent *dep = dependent_find(d, owner, key);
    if (dep != NULL)
        dependent_free(d, dep);
}

void deps_forget_owner(struct deps *d, void *owner)
{
    struct dependent *dep, *tmp;
    HASH_ITER (hh, d->dependents, dep, tmp) {
        if (dep->owner == owner)
            dependent_free(d, dep);
    }
}

void deps_free(struct deps *d)
{
    if (d == NULL)
        return;
    struct dependent *dep, *tmp;
    HASH_ITER (hh, d->dependents, dep, tmp) {
        dependent_free(d, dep);
    }
    ASSERT(d->scopes == NULL);
    free(d);
}

static void wake_bucket(struct deps *d, struct scope *s, const char *term, const struct object *old,
                        const struct object *new)
{
    struct bucket *b;
    HASH_FIND_STR(s->buckets, term, b);
    if (b == NULL)
        return;
    const struct edge *e;
    LIST_FOREACH (e, &b->edges, in_bucket) {
        if (edge_matches(e, old) || edge_matches(e, new))
            d->wake(d->ud, e->dependent->owner, e->dependent->key);
    }
}

static void wake_terms_of(struct deps *d, struct scope *s, const struct object *o, const struct object *old,
                          const struct object *new)
{
    const struct object_label *labels;
    const struct object_owner *owners;
    size_t n = object_labels(o, &labels);
    for (size_t i = 0; i < n; i++) {
        char *term = xasprintf("l:%s=%s", labels[i].key, labels[i].value);
        wake_bucket(d, s, term, old, new);
        free(term);
    }
    n = object_owners(o, &owners);
    for (size_t i = 0; i < n; i++) {
        char *term = xasprintf("o:%s", owners[i].uid);
        wake_bucket(d, s, term, old, new);
        free(term);
    }
}

static void scope_on_change(struct deps *d, struct scope *s, const struct informer *informer,
                            const struct object *old, const struct object *new)
{
    const struct informer *own = s == NULL ? NULL : informer_use_get(s->use);
    if (s == NULL || (own != NULL && own != informer))
        return; // another store tells the same, or will once it covers this scope
    wake_bucket(d, s, "", old, new);
    if (HASH_COUNT(s->buckets) == 0)
        return;
    if (old != NULL)
        wake_terms_of(d, s, old, old, new);
    if (new != NULL)
        wake_terms_of(d, s, new, old, new);
}

void deps_on_change(struct deps *d, struct informer *informer, struct object *old, struct object *new)
{
    const struct object *o = new != NULL ? new : old;
    const char *ns = object_namespace(o)[0] != '\0' ? object_namespace(o) : NULL;
    const struct gvk *gvk = object_gvk(o);
    scope_on_change(d, scope_find(d, gvk, ns, object_name(o)), informer, old, new);
    scope_on_change(d, scope_find(d, gvk, ns, NULL), informer, old, new);
    if (ns != NULL)
        scope_on_change(d, scope_find(d, gvk, NULL, NULL), informer, old, new);
}

static void wake_scope(struct deps *d, struct scope *s, bool all, enum informer_answer now)
{
    struct bucket *b, *tmp;
    HASH_ITER (hh, s->buckets, b, tmp) {
        struct edge *e;
        LIST_FOREACH (e, &b->edges, in_bucket) {
            if (!all && e->answer == now)
                continue;
            e->answer = now; // woken once for it
            d->wake(d->ud, e->dependent->owner, e->dependent->key);
        }
    }
}

void deps_on_state(struct deps *d)
{
    struct scope *s, *tmp;
    HASH_ITER (hh, d->scopes, s, tmp) {
        enum informer_answer now = informer_use_state(s->use, NULL);
        if (now == INFORMER_SYNCING)
            continue;
        // Another informer covers it: what changed while it took over may have been told by neither.
        struct informer *informer = informer_use_get(s->use);
        bool taken_over = s->informer != NULL && informer != s->informer;
        s->informer = informer;
        wake_scope(d, s, taken_over, now);
    }
}
