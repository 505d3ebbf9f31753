#include "kube/discovery.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/hash_table.h"
#include "base/random.h"
#include "base/strset.h"
#include "kube/discovery_parse.h"

#define ACCEPT_AGGREGATED                                                                                    \
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,"                                  \
    "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList,"                             \
    "application/json"

enum {
    PERIOD_MS = 600000,
    PERIOD_BROKEN_MS = 30000, // while a group does not answer
    BACKOFF_MIN_MS = 1000,    // while the server does not
    BACKOFF_MAX_MS = 30000,
    MISS_FAST_MS = 2000,      // between refreshes for a kind that is missed
    MISS_FAST_FOR_MS = 60000, // ... in its first minute
    MISS_SLOW_MS = 10000,     // ... later
    MISS_FORGET_MS = 600000,  // nobody asked again
    MISSES_MAX = 1000,
    LEGACY_WINDOW = 32,     // requests under way at once
    EARLY_NOTICE_MS = 1000, // groups that hang do not hold back the others
};

enum { CORE, APIS, ROOTS };
static const char *const root_paths[ROOTS] = {"/api", "/apis"};

// One served group and version.
struct version {
    const char *api_version; // key
    const char *group;
    struct resource *resources;
    size_t count;
    size_t order;     // place in the server's list: smaller is preferred within a group
    bool unavailable; // its server does not answer; `resources` is the last good answer
    bool listed;      // by the list that is being taken in
    UT_hash_handle hh;
};

struct root {
    bool loaded; // a list came at some time
    bool failed; // the last one did not
};

struct miss {
    const struct gvk *gvk; // key
    uint64_t first_ms, last_ms;
    UT_hash_handle hh;
};

struct request {
    struct discovery *owner;
    struct call *call;
    int root;
    const char *api_version; // NULL: the root's list
    LIST_ENTRY(request) link;
};

struct listener {
    void (*fn)(void *ud, const struct err *e);
    void *ud;
    struct listener *next;
};

struct discovery {
    uint64_t doubt_after_ms; // before that no doubt is followed
    struct client *client;
    struct loop *loop;
    struct random random;
    struct loop_timer *timer; // the next fetch
    struct loop_timer *early; // the notice before all is there
    struct listener *listeners;

    LIST_HEAD(, request) requests; // under way
    size_t under_way;
    struct request **queue; // legacy versions to ask for
    size_t queued, queue_at;
    bool again;   // asked for while a fetch was under way
    bool changed; // since the last notice
    bool any_notice;
    struct err failure; // of this fetch
    int64_t retry_after_ms;
    unsigned failures; // in a row
    uint64_t started_ms;
    struct miss *misses;

    pthread_rwlock_t lock; // what stands below: written by the loop thread only
    struct version *versions;
    struct root roots[ROOTS];
};

static int root_of(const char *group)
{
    return *group == '\0' ? CORE : APIS;
}

// ---- the table

static struct version *version_find(struct discovery *d, const char *api_version)
{
    struct version *v;
    HASH_FIND_STR(d->versions, api_version, v);
    return v;
}

static struct version *version_get(struct discovery *d, const struct discovery_version *from)
{
    struct version *v = version_find(d, from->api_version);
    if (v != NULL)
        return v;
    v = xcalloc(1, sizeof(*v));
    v->api_version = from->api_version;
    v->group = from->group;
    v->unavailable = true; // until it is told what it serves
    HASH_ADD_KEYPTR(hh, d->versions, v->api_version, strlen(v->api_version), v);
    d->changed = true;
    return v;
}

static bool same_resources(const struct version *v, const struct resource *r, size_t count)
{
    if (v->count != count)
        return false;
    for (size_t i = 0; i < count; i++) {
        const struct resource *a = &v->resources[i], *b = &r[i];
        if (a->gvk != b->gvk || a->plural != b->plural || a->namespaced != b->namespaced ||
            a->has_status != b->has_status || a->has_scale != b->has_scale || a->verbs != b->verbs)
            return false;
    }
    return true;
}

// Takes the array.
static void version_set(struct discovery *d, struct version *v, struct resource *r, size_t count)
{
    if (same_resources(v, r, count)) {
        free(r);
        return;
    }
    free(v->resources);
    v->resources = r;
    v->count = count;
    d->changed = true;
}

static void version_set_available(struct discovery *d, struct version *v, bool available)
{
    d->changed = d->changed || v->unavailable == available;
    v->unavailable = !available;
}

static void version_free(struct discovery *d, struct version *v)
{
    HASH_DEL(d->versions, v);
    free(v->resources);
    free(v);
}

// A stale version without content keeps its last good one, and so does one whose content is not in this
// document.
static void take_version(struct discovery *d, struct discovery_version *from, size_t order)
{
    struct version *v = version_get(d, from);
    v->listed = true;
    v->order = order;
    if (from->listed_only)
        return;
    if (!from->stale || from->count > 0) {
        version_set(d, v, from->resources, from->count);
        from->resources = NULL;
    }
    version_set_available(d, v, !from->stale);
}

static void take_list(struct discovery *d, int root, struct discovery_list *l)
{
    struct version *v, *next;
    pthread_rwlock_wrlock(&d->lock);
    for (size_t i = 0; i < l->count; i++)
        if (root_of(l->items[i].group) == root)
            take_version(d, &l->items[i], i);
    HASH_ITER (hh, d->versions, v, next) {
        if (root_of(v->group) != root)
            continue;
        if (!v->listed) {
            version_free(d, v);
            d->changed = true;
            continue;
        }
        v->listed = false;
    }
    d->changed = d->changed || d->roots[root].failed || !d->roots[root].loaded;
    d->roots[root] = (struct root){.loaded = true};
    pthread_rwlock_unlock(&d->lock);
}

static enum discovery_answer absent(const struct discovery *d, const char *group)
{
    const struct root *r = &d->roots[root_of(group)];
    if (!r->loaded)
        return d->roots[CORE].loaded || d->roots[APIS].loaded ? DISCOVERY_UNAVAILABLE : DISCOVERY_NOT_LOADED;
    return r->failed ? DISCOVERY_UNAVAILABLE : DISCOVERY_UNKNOWN;
}

enum discovery_answer discovery_find(struct discovery *d, const struct gvk *gvk, struct resource *ret)
{
    pthread_rwlock_rdlock(&d->lock);
    const struct version *v = version_find(d, gvk->api_version);
    enum discovery_answer answer =
        v != NULL && v->unavailable ? DISCOVERY_UNAVAILABLE : absent(d, gvk->group);
    for (size_t i = 0; v != NULL && i < v->count; i++) {
        if (v->resources[i].gvk != gvk)
            continue;
        *ret = v->resources[i];
        answer = DISCOVERY_FOUND;
        break;
    }
    pthread_rwlock_unlock(&d->lock);
    return answer;
}

static const struct resource *find_kind(const struct version *v, const char *kind)
{
    for (size_t i = 0; i < v->count; i++)
        if (strcmp(v->resources[i].gvk->kind, kind) == 0)
            return &v->resources[i];
    return NULL;
}

enum discovery_answer discovery_find_group_kind(struct discovery *d, const char *group, const char *kind,
                                                struct resource *ret)
{
    const struct resource *best = NULL;
    size_t best_order = 0;
    bool unavailable = false;
    pthread_rwlock_rdlock(&d->lock);
    for (const struct version *v = d->versions; v != NULL; v = v->hh.next) {
        if (strcmp(v->group, group) != 0)
            continue;
        unavailable = unavailable || v->unavailable;
        const struct resource *r = find_kind(v, kind);
        if (r != NULL && (best == NULL || v->order < best_order)) {
            best = r;
            best_order = v->order;
        }
    }
    enum discovery_answer answer = unavailable ? DISCOVERY_UNAVAILABLE : absent(d, group);
    if (best != NULL) {
        *ret = *best;
        answer = DISCOVERY_FOUND;
    }
    pthread_rwlock_unlock(&d->lock);
    return answer;
}

size_t discovery_count(struct discovery *d)
{
    size_t n = 0;
    pthread_rwlock_rdlock(&d->lock);
    for (const struct version *v = d->versions; v != NULL; v = v->hh.next)
        n += v->count;
    pthread_rwlock_unlock(&d->lock);
    return n;
}

// ---- when to fetch

static bool any_unavailable(const struct discovery *d)
{
    for (const struct version *v = d->versions; v != NULL; v = v->hh.next)
        if (v->unavailable)
            return true;
    return false;
}

static uint64_t period(struct discovery *d)
{
    if (d->failures == 0)
        return random_jitter_ms(&d->random, any_unavailable(d) ? PERIOD_BROKEN_MS : PERIOD_MS, 0.1);
    unsigned doublings = d->failures > 6 ? 5 : d->failures - 1;
    uint64_t ms = (uint64_t)BACKOFF_MIN_MS << doublings;
    ms = random_jitter_ms(&d->random, ms > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : ms, 0.2);
    return d->retry_after_ms > (int64_t)ms ? (uint64_t)d->retry_after_ms : ms;
}

// When the kinds that are missed want the next fetch; UINT64_MAX: none is.
static uint64_t misses_due(const struct discovery *d)
{
    uint64_t due = UINT64_MAX, now = loop_now_ms(d->loop);
    for (const struct miss *m = d->misses; m != NULL; m = m->hh.next) {
        uint64_t at = d->started_ms + (now - m->first_ms < MISS_FAST_FOR_MS ? MISS_FAST_MS : MISS_SLOW_MS);
        due = at < due ? at : due;
    }
    return due;
}

static void schedule(struct discovery *d)
{
    uint64_t now = loop_now_ms(d->loop), ms = period(d), due = misses_due(d);
    if (d->failures == 0 && due != UINT64_MAX) {
        uint64_t wait = due > now ? due - now : 0;
        ms = wait < ms ? wait : ms;
    }
    loop_timer_start(d->timer, ms);
}

static void miss_free(struct discovery *d, struct miss *m)
{
    HASH_DEL(d->misses, m);
    free(m);
}

static void forget_misses(struct discovery *d)
{
    struct miss *m, *next;
    struct resource r;
    uint64_t now = loop_now_ms(d->loop);
    HASH_ITER (hh, d->misses, m, next) {
        if (now - m->last_ms >= MISS_FORGET_MS || discovery_find(d, m->gvk, &r) == DISCOVERY_FOUND)
            miss_free(d, m);
    }
}

void discovery_miss(struct discovery *d, const struct gvk *gvk)
{
    struct miss *m;
    uint64_t now = loop_now_ms(d->loop);
    HASH_FIND_PTR(d->misses, &gvk, m);
    if (m == NULL && HASH_COUNT(d->misses) < MISSES_MAX) {
        m = xcalloc(1, sizeof(*m));
        *m = (struct miss){.gvk = gvk, .first_ms = now};
        HASH_ADD_PTR(d->misses, gvk, m);
        if (d->under_way == 0 && loop_timer_active(d->timer))
            schedule(d);
    }
    if (m != NULL)
        m->last_ms = now;
}

// ---- fetching

static void notify(struct discovery *d, const struct err *e)
{
    d->changed = false;
    d->any_notice = true;
    for (struct listener *x = d->listeners; x != NULL; x = x->next)
        x->fn(x->ud, e);
}

static void on_early(void *ud)
{
    struct discovery *d = ud;
    if (d->changed)
        notify(d, NULL);
}

static void finish(struct discovery *d)
{
    loop_timer_stop(d->early);
    bool failed = d->failure.code != 0;
    struct err failure = d->failure;
    d->failures = failed ? d->failures + 1 : 0;
    forget_misses(d);
    schedule(d);
    if (d->again && !failed)
        loop_timer_start(d->timer, 0);
    d->again = false;
    if (d->changed || failed || !d->any_notice)
        notify(d, failed ? &failure : NULL);
}

static void on_answer(void *ud, struct client_result *res);

static void request_send(struct discovery *d, struct request *q)
{
    struct buf path;
    buf_init(&path, 4096);
    buf_add_str(&path, root_paths[q->root]);
    if (q->api_version != NULL) {
        buf_add_char(&path, '/');
        buf_add_str(&path, q->api_version);
    }
    LIST_INSERT_HEAD(&d->requests, q, link);
    d->under_way++;
    q->call =
        client_send(d->client,
                    &(struct client_request){.method = METHOD_GET,
                                             .path = path.data,
                                             .accept = q->api_version == NULL ? ACCEPT_AGGREGATED : NULL,
                                             .as = &identity_host},
                    on_answer, q);
    buf_fini(&path);
}

static struct request *request_new(struct discovery *d, int root, const char *api_version)
{
    struct request *q = xcalloc(1, sizeof(*q));
    *q = (struct request){.owner = d, .root = root, .api_version = api_version};
    return q;
}

static void send_queued(struct discovery *d)
{
    while (d->queue_at < d->queued && d->under_way < LEGACY_WINDOW)
        request_send(d, d->queue[d->queue_at++]);
}

static void enqueue(struct discovery *d, int root, const struct discovery_list *l)
{
    for (size_t i = 0; i < l->count; i++) {
        if (!l->items[i].listed_only || root_of(l->items[i].group) != root)
            continue;
        d->queue = xreallocarray(d->queue, d->queued + 1, sizeof(struct request *));
        d->queue[d->queued++] = request_new(d, root, l->items[i].api_version);
    }
    if (d->queued > d->queue_at && !loop_timer_active(d->early))
        loop_timer_start(d->early, EARLY_NOTICE_MS);
}

static void root_failed(struct discovery *d, int root, const struct err *e, int64_t retry_after_ms)
{
    pthread_rwlock_wrlock(&d->lock);
    d->roots[root].failed = true;
    pthread_rwlock_unlock(&d->lock);
    d->failure = *e;
    err_prefix(&d->failure, "discovery, GET %s", root_paths[root]);
    if (retry_after_ms > d->retry_after_ms)
        d->retry_after_ms = retry_after_ms;
}

static const json *root_of_doc(const struct client_result *res)
{
    return res->doc == NULL ? NULL : json_root(res->doc); // an empty body has none
}

static void root_answered(struct discovery *d, int root, const struct client_result *res)
{
    struct discovery_list l;
    struct err e;
    if (res->failure != NULL) {
        root_failed(d, root, &res->failure->err, res->failure->retry_after_ms);
        return;
    }
    if (discovery_parse_list(root_of_doc(res), &l, &e) < 0) {
        root_failed(d, root, &e, -1);
        return;
    }
    take_list(d, root, &l);
    enqueue(d, root, &l);
    discovery_list_fini(&l);
}

static void version_answered(struct discovery *d, const char *api_version, const struct client_result *res)
{
    struct resource *r = NULL;
    size_t count = 0;
    bool good = res->failure == NULL &&
                discovery_parse_resources(root_of_doc(res), api_version, &r, &count, NULL) == 0;
    pthread_rwlock_wrlock(&d->lock);
    struct version *v = version_find(d, api_version);
    if (v != NULL && good)
        version_set(d, v, r, count);
    else
        free(r);
    if (v != NULL)
        version_set_available(d, v, good);
    pthread_rwlock_unlock(&d->lock);
}

static void on_answer(void *ud, struct client_result *res)
{
    struct request q = *(struct request *)ud;
    struct discovery *d = q.owner;
    LIST_REMOVE((struct request *)ud, link);
    free(ud);
    d->under_way--;
    if (q.api_version == NULL)
        root_answered(d, q.root, res);
    else
        version_answered(d, q.api_version, res);
    send_queued(d);
    if (d->under_way == 0)
        finish(d);
}

static void drop_queue(struct discovery *d)
{
    for (size_t i = d->queue_at; i < d->queued; i++)
        free(d->queue[i]);
    free(d->queue);
    d->queue = NULL;
    d->queued = d->queue_at = 0;
}

static void fetch(void *ud)
{
    struct discovery *d = ud;
    loop_timer_stop(d->timer);
    drop_queue(d);
    d->failure = (struct err){0};
    d->retry_after_ms = -1;
    d->started_ms = loop_now_ms(d->loop);
    for (int root = 0; root < ROOTS; root++)
        request_send(d, request_new(d, root, NULL));
}

void discovery_refresh(struct discovery *d)
{
    if (d->under_way > 0)
        d->again = true;
    else
        fetch(d);
}

void discovery_doubt(struct discovery *d)
{
    enum { DOUBT_MS = 10 * 1000 };
    uint64_t now = loop_now_ms(d->loop);
    if (now < d->doubt_after_ms)
        return;
    d->doubt_after_ms = now + DOUBT_MS;
    discovery_refresh(d);
}

void discovery_on_change(struct discovery *d, void (*fn)(void *ud, const struct err *e), void *ud)
{
    struct listener **at = &d->listeners;
    while (*at != NULL)
        at = &(*at)->next;
    *at = xcalloc(1, sizeof(**at));
    **at = (struct listener){.fn = fn, .ud = ud};
}

struct discovery *discovery_new(struct client *c)
{
    struct discovery *d = xcalloc(1, sizeof(*d));
    d->client = c;
    d->loop = client_loop(c);
    d->timer = loop_timer_new(d->loop, fetch, d);
    d->early = loop_timer_new(d->loop, on_early, d);
    if (clock_is_virtual(loop_clock(d->loop)))
        random_init(&d->random, 1); // the same run again
    else
        random_init_kernel(&d->random);
    LIST_INIT(&d->requests);
    pthread_rwlock_init(&d->lock, NULL);
    return d;
}

void discovery_free(struct discovery *d)
{
    if (d == NULL)
        return;
    struct request *q;
    while ((q = LIST_FIRST(&d->requests)) != NULL) {
        LIST_REMOVE(q, link);
        call_cancel(q->call);
        free(q);
    }
    drop_queue(d);
    struct version *v, *next_v;
    HASH_ITER (hh, d->versions, v, next_v)
        version_free(d, v);
    struct miss *m, *next_m;
    HASH_ITER (hh, d->misses, m, next_m)
        miss_free(d, m);
    struct listener *x;
    while ((x = d->listeners) != NULL) {
        d->listeners = x->next;
        free(x);
    }
    loop_timer_free(d->timer);
    loop_timer_free(d->early);
    pthread_rwlock_destroy(&d->lock);
    free(d);
}
