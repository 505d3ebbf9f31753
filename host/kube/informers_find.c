// The set of informers as other threads see it, and its numbers.
#include <stdlib.h>

#include "base/alloc.h"
#include "base/strset.h"
#include "kube/informers_impl.h"

bool informers_must_split(const struct informers *s, const struct informer_scope *scope,
                          const struct resource *r)
{
    return informers_is_confined(s) && r->namespaced && scope->ns == NULL;
}

enum informer_answer informers_absent(struct informers *s, const struct informer_scope *scope, struct err *e)
{
    struct resource r;
    const char *kind = scope->gvk->text;
    switch (discovery_find(s->o.discovery, scope->gvk, &r)) {
    case DISCOVERY_NOT_LOADED:
        err_set(e, ERR_PARKED, "%s: the kinds of the server are not known yet", kind);
        return INFORMER_SYNCING;
    case DISCOVERY_UNKNOWN:
        err_set(e, ERR_NOT_FOUND, "%s: the server has no such kind (is its CRD installed?)", kind);
        return INFORMER_UNKNOWN_KIND;
    case DISCOVERY_UNAVAILABLE:
        err_set(e, ERR_UNAVAILABLE,
                "%s: the server can not tell whether it has this kind (does its APIService answer?)", kind);
        return INFORMER_UNAVAILABLE;
    case DISCOVERY_FOUND:
        break;
    }
    if ((r.verbs & RESOURCE_LIST) == 0 || (r.verbs & RESOURCE_WATCH) == 0) {
        err_set(e, ERR_UNSUPPORTED, "%s can not be listed and watched, so it can not be read", kind);
        return INFORMER_UNAVAILABLE;
    }
    if (informers_is_confined(s) && r.namespaced && scope->ns != NULL &&
        !strset_has(s->o.namespaces, scope->ns) && !str_eq(scope->ns, s->o.own_namespace)) {
        err_set(e, ERR_FORBIDDEN, "%s: namespace %s is not among --namespaces", kind, scope->ns);
        return INFORMER_FORBIDDEN;
    }
    err_set(e, ERR_PARKED, "%s is not listed yet", kind);
    return INFORMER_SYNCING;
}

// ---- finding

// What an informer is to a reader of that revision: before its first list was complete the store shows only a
// part.
static enum informer_answer state_at(const struct informer *i, uint64_t revision)
{
    return i->state == INFORMER_SYNCED && i->synced_at > revision ? INFORMER_SYNCING : i->state;
}

// 0: it does not serve the scope.
static unsigned rank_of(const struct informer *i, const struct informer_scope *scope, uint64_t revision)
{
    enum informer_answer state = state_at(i, revision);
    if (!informers_covers(&i->scope, scope))
        return 0;
    if (state == INFORMER_FORBIDDEN && informers_is_narrower(scope, &i->scope))
        return 0; // says nothing of this scope
    return 1 + informers_narrowness(&i->scope) +
           (state == INFORMER_SYNCED    ? 32
            : state == INFORMER_SYNCING ? 16
                                        : 0);
}

static enum informer_answer answer_of(struct informer *i, uint64_t revision, struct store **ret,
                                      struct err *e)
{
    enum informer_answer answer = state_at(i, revision);
    if (answer == INFORMER_SYNCED)
        *ret = store_ref(i->store);
    else if (i->state == INFORMER_SYNCED)
        err_set(e, ERR_PARKED, "%s was not listed yet when the pass began", i->scope.gvk->text);
    else
        informer_state(i, e);
    return answer;
}

static enum informer_answer find_one(struct informers *s, const struct informer_scope *scope,
                                     uint64_t revision, struct store **ret, struct err *e)
{
    struct informer *best = NULL;
    unsigned best_rank = 0;
    struct informer *i;
    enum informer_answer answer = INFORMER_SYNCING;
    pthread_rwlock_rdlock(&s->lock);
    TAILQ_FOREACH (i, &s->informers, link) {
        unsigned rank = rank_of(i, scope, revision);
        if (rank > best_rank) {
            best = i;
            best_rank = rank;
        }
    }
    if (best != NULL)
        answer = answer_of(best, revision, ret, e);
    pthread_rwlock_unlock(&s->lock);
    return best != NULL ? answer : informers_absent(s, scope, e);
}

// A namespace means nothing to a cluster-scoped kind.
static struct informer_scope normal_scope(struct informers *s, const struct informer_scope *scope,
                                          bool *ret_split)
{
    struct informer_scope n = *scope;
    struct resource r;
    if (n.ns != NULL && n.ns[0] == 0)
        n.ns = NULL;
    if (n.labels != NULL && n.labels[0] == 0)
        n.labels = NULL;
    if (n.fields != NULL && n.fields[0] == 0)
        n.fields = NULL;
    *ret_split = false;
    if (discovery_find(s->o.discovery, n.gvk, &r) == DISCOVERY_FOUND) {
        if (!r.namespaced)
            n.ns = NULL;
        *ret_split = informers_must_split(s, &n, &r);
    }
    return n;
}

enum informer_answer informers_find_at(struct informers *s, const struct informer_scope *scope,
                                       uint64_t revision, struct store **ret, struct err *e)
{
    bool must_split;
    struct informer_scope n = normal_scope(s, scope, &must_split);
    if (!must_split)
        return find_one(s, &n, revision, ret, e);
    err_set(e, ERR_UNSUPPORTED, "%s: all namespaces can not be read as one under --namespaces", n.gvk->text);
    return INFORMER_UNAVAILABLE;
}

enum informer_answer informers_find(struct informers *s, const struct informer_scope *scope,
                                    struct store **ret, struct err *e)
{
    return informers_find_at(s, scope, UINT64_MAX, ret, e);
}

static enum informer_answer find_parts(struct informers *s, struct informer_scope scope, uint64_t revision,
                                       struct store **stores, struct err *e)
{
    enum informer_answer worst = INFORMER_SYNCED;
    for (size_t i = 0; i < s->o.namespaces->count; i++) {
        struct err why;
        scope.ns = s->o.namespaces->items[i];
        enum informer_answer a = find_one(s, &scope, revision, &stores[i], &why);
        if (a > worst) {
            worst = a;
            if (e != NULL)
                *e = why;
        }
    }
    return worst;
}

enum informer_answer informers_find_all(struct informers *s, const struct informer_scope *scope,
                                        uint64_t revision, struct store ***ret, size_t *ret_count,
                                        struct err *e)
{
    bool must_split;
    struct informer_scope n = normal_scope(s, scope, &must_split);
    size_t count = must_split ? s->o.namespaces->count : 1;
    struct store **stores = xcalloc(count, sizeof(struct store *));
    enum informer_answer answer =
        must_split ? find_parts(s, n, revision, stores, e) : find_one(s, &n, revision, stores, e);
    if (answer == INFORMER_SYNCED) {
        *ret = stores;
        *ret_count = count;
        return answer;
    }
    for (size_t i = 0; i < count; i++)
        store_unref(stores[i]);
    free(stores);
    return answer;
}

// ---- numbers

static const struct metric_def defs[] = {
    {"tidelock_store_objects", "Objects in the stores, by kind.", METRIC_GAUGE, "kind", NULL, 0},
    {"tidelock_store_bytes", "Memory of the stores, by kind: objects, versions and indexes.", METRIC_GAUGE,
     "kind", NULL, 0},
    {"tidelock_watch_relists_total", "Lists begun, by kind.", METRIC_COUNTER, "kind", NULL, 0},
    {"tidelock_watch_events_total", "Objects received by lists and watches, by kind.", METRIC_COUNTER, "kind",
     NULL, 0},
};

struct sum {
    struct informer_kind *kind;
    struct store *store;
};

static size_t collect(struct informers *s, struct sum **ret)
{
    size_t n = 0;
    struct informer_kind *k;
    struct informer *i;
    pthread_rwlock_rdlock(&s->lock);
    LIST_FOREACH (k, &s->kinds, link) {
        series_set(k->objects, 0);
        series_set(k->bytes, 0);
    }
    TAILQ_FOREACH (i, &s->informers, link)
        n++;
    *ret = xcalloc(n, sizeof(**ret));
    n = 0;
    TAILQ_FOREACH (i, &s->informers, link)
        (*ret)[n++] = (struct sum){i->kind, store_ref(i->store)};
    pthread_rwlock_unlock(&s->lock);
    return n;
}

static void on_render(void *ud)
{
    struct sum *sums;
    size_t n = collect(ud, &sums);
    for (size_t i = 0; i < n; i++) {
        series_add(sums[i].kind->objects, (double)store_count(sums[i].store));
        series_add(sums[i].kind->bytes, (double)store_bytes(sums[i].store));
        store_unref(sums[i].store);
    }
    free(sums);
}

void informers_add_metrics(struct informers *s)
{
    s->objects = metrics_add(s->o.metrics, &defs[0]);
    s->bytes = metrics_add(s->o.metrics, &defs[1]);
    s->relists = metrics_add(s->o.metrics, &defs[2]);
    s->events = metrics_add(s->o.metrics, &defs[3]);
    metrics_on_render(s->o.metrics, on_render, s);
}

struct informer_kind *informers_kind(struct informers *s, const struct gvk *gvk)
{
    struct informer_kind *k;
    if (s->o.metrics == NULL)
        return NULL;
    LIST_FOREACH (k, &s->kinds, link) {
        if (k->gvk == gvk)
            return k;
    }
    k = xcalloc(1, sizeof(*k));
    k->gvk = gvk;
    k->objects = metric_series(s->objects, gvk->text);
    k->bytes = metric_series(s->bytes, gvk->text);
    k->relists = metric_series(s->relists, gvk->text);
    k->events = metric_series(s->events, gvk->text);
    pthread_rwlock_wrlock(&s->lock);
    LIST_INSERT_HEAD(&s->kinds, k, link);
    pthread_rwlock_unlock(&s->lock);
    return k;
}
