#include "kube/informers.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strset.h"
#include "kube/informers_impl.h"

// ---- scopes

static bool covers_text(const char *wide, const char *narrow)
{
    return wide == NULL || str_eq(wide, narrow);
}

bool informers_covers(const struct informer_scope *wide, const struct informer_scope *narrow)
{
    return wide->gvk == narrow->gvk && covers_text(wide->ns, narrow->ns) &&
           covers_text(wide->name, narrow->name) && covers_text(wide->labels, narrow->labels) &&
           covers_text(wide->fields, narrow->fields);
}

bool informers_is_narrower(const struct informer_scope *a, const struct informer_scope *b)
{
    return informers_covers(b, a) && !informers_covers(a, b);
}

unsigned informers_narrowness(const struct informer_scope *scope)
{
    return (scope->name != NULL ? 8U : 0U) + (scope->ns != NULL ? 4U : 0U) +
           (scope->labels != NULL ? 2U : 0U) + (scope->fields != NULL ? 1U : 0U);
}

bool informers_is_confined(const struct informers *s)
{
    return s->o.namespaces != NULL && s->o.namespaces->count > 0;
}

static bool is_as(const struct identity *a, const struct identity *b)
{
    return str_eq(a->user, b->user);
}

// ---- which informer serves a use

// A synced one before one that is not, then the narrowest. One that is forbidden serves only those who need
// all of it.
static struct informer *find_cover(struct informers *s, const struct informer_use *u)
{
    struct informer *best = NULL;
    unsigned best_rank = 0;
    struct informer *i;
    TAILQ_FOREACH (i, &s->informers, link) {
        if (!informers_covers(&i->scope, &u->scope) || !is_as(&i->as, &u->as) ||
            (i->state == INFORMER_FORBIDDEN && informers_is_narrower(&u->scope, &i->scope)))
            continue;
        unsigned rank = 1 + informers_narrowness(&i->scope) + (i->state == INFORMER_SYNCED ? 16 : 0);
        if (rank > best_rank) {
            best = i;
            best_rank = rank;
        }
    }
    return best;
}

static bool is_unwidened(const struct informers *s, const struct gvk *gvk)
{
    for (size_t i = 0; i < s->unwidened_count; i++) {
        if (s->unwidened[i] == gvk)
            return true;
    }
    return false;
}

// Informers in use of single objects: in the scope's namespace, and in all.
static void count_objects(const struct informers *s, const struct informer_use *u, size_t *ret_here,
                          size_t *ret_all)
{
    const struct informer *i;
    TAILQ_FOREACH (i, &s->informers, link) {
        if (i->scope.gvk != u->scope.gvk || i->scope.name == NULL || i->uses == 0 || !is_as(&i->as, &u->as))
            continue;
        *ret_all += 1;
        *ret_here += str_eq(i->scope.ns, u->scope.ns);
    }
}

static size_t count_namespaces(const struct informers *s, const struct informer_use *u)
{
    size_t n = 0;
    const struct informer *i;
    TAILQ_FOREACH (i, &s->informers, link) {
        n += i->scope.gvk == u->scope.gvk && i->scope.name == NULL && i->scope.ns != NULL && i->uses > 0 &&
             str_eq(i->scope.labels, u->scope.labels) && str_eq(i->scope.fields, u->scope.fields) &&
             is_as(&i->as, &u->as);
    }
    return n;
}

static struct informer_scope widen(const struct informers *s, const struct informer_use *u)
{
    struct informer_scope scope = u->scope;
    size_t here = 0;
    size_t all = 0;
    if (scope.ns == NULL || is_unwidened(s, scope.gvk))
        return scope;
    if (scope.name != NULL) {
        count_objects(s, u, &here, &all);
        if (here >= INFORMERS_OBJECTS_MAX)
            scope.name = NULL;
        else if (all >= INFORMERS_OBJECTS_TOTAL && !informers_is_confined(s))
            scope.name = scope.ns = NULL;
    }
    if (scope.name == NULL && scope.ns != NULL && !informers_is_confined(s) &&
        count_namespaces(s, u) >= INFORMERS_NAMESPACES_MAX)
        scope.ns = NULL;
    return scope;
}

static void let_go(struct informer *i, bool linger)
{
    if (i == NULL || --i->uses > 0 || i->doomed)
        return;
    if (linger)
        loop_timer_start(i->linger, INFORMERS_LINGER_MS);
    else
        informer_doom(i);
}

// `linger`: the informer it had may be wanted again soon.
static void hold(struct informer_use *u, struct informer *i, bool linger)
{
    struct informer *old = u->informer;
    if (i != NULL) {
        i->uses++;
        loop_timer_stop(i->linger);
    }
    u->informer = i;
    let_go(old, linger);
}

static struct informer_use *use_new(struct informers *s, const struct informer_scope *scope,
                                    const struct identity *as);
static void attach(struct informer_use *u);

static void split(struct informer_use *u)
{
    const struct strset *namespaces = u->set->o.namespaces;
    if (u->part_count > 0)
        return;
    u->parts = xreallocarray(NULL, namespaces->count, sizeof(struct informer_use *));
    for (size_t i = 0; i < namespaces->count; i++) {
        struct informer_scope scope = u->scope;
        scope.ns = namespaces->items[i];
        u->parts[u->part_count] = use_new(u->set, &scope, &u->as);
        attach(u->parts[u->part_count++]);
    }
}

// Finds or starts the informer of a use that has none; leaves it without when discovery or the configuration
// says so.
static void attach(struct informer_use *u)
{
    struct informers *s = u->set;
    struct resource r;
    enum discovery_answer known = discovery_find(s->o.discovery, u->scope.gvk, &r);
    if (known == DISCOVERY_UNKNOWN)
        discovery_miss(s->o.discovery, u->scope.gvk);
    if (known != DISCOVERY_FOUND || s->drained) {
        if (!loop_timer_active(s->patrol))
            loop_timer_start(s->patrol, INFORMERS_PATROL_MS);
        return;
    }
    if (!r.namespaced && u->scope.ns != NULL) {
        free((char *)u->scope.ns);
        u->scope.ns = NULL;
    }
    if (informers_must_split(s, &u->scope, &r)) {
        split(u);
        return;
    }
    if (informers_absent(s, &u->scope, NULL) != INFORMER_SYNCING)
        return;
    struct informer *i = find_cover(s, u);
    if (i == NULL) {
        struct informer_scope scope = widen(s, u);
        i = informer_start(s, &r, &scope, &u->as, !informers_covers(&u->scope, &scope));
    }
    hold(u, i, true);
}

// ---- uses

static struct informer_use *use_new(struct informers *s, const struct informer_scope *scope,
                                    const struct identity *as)
{
    struct informer_use *u = xcalloc(1, sizeof(*u));
    u->set = s;
    informer_scope_copy(&u->scope, scope);
    u->as.user = xstrdup(as->user);
    TAILQ_INSERT_TAIL(&s->uses, u, link);
    return u;
}

struct informer_use *informers_acquire(struct informers *s, const struct informer_scope *scope,
                                       const struct identity *as)
{
    struct informer_use *u = use_new(s, scope, as);
    attach(u);
    return u;
}

void informer_use_release(struct informer_use *u)
{
    if (u == NULL)
        return;
    for (size_t i = 0; i < u->part_count; i++)
        informer_use_release(u->parts[i]);
    if (u->set != NULL) {
        hold(u, NULL, true);
        TAILQ_REMOVE(&u->set->uses, u, link);
    }
    informer_scope_fini(&u->scope);
    free((char *)u->as.user);
    free(u->parts);
    free(u);
}

struct informer *informer_use_get(struct informer_use *u)
{
    return u->informer;
}

// Of the parts the one that holds the whole up most.
static enum informer_answer state_of_parts(struct informer_use *u, struct err *e)
{
    enum informer_answer worst = INFORMER_SYNCED;
    for (size_t i = 0; i < u->part_count; i++) {
        struct err why;
        enum informer_answer a = informer_use_state(u->parts[i], &why);
        if (a > worst) {
            worst = a;
            if (e != NULL)
                *e = why;
        }
    }
    return worst;
}

enum informer_answer informer_use_state(struct informer_use *u, struct err *e)
{
    if (u->informer != NULL)
        return informer_state(u->informer, e);
    if (u->part_count > 0)
        return state_of_parts(u, e);
    return informers_absent(u->set, &u->scope, e);
}

// ---- what changes who serves whom

void informers_on_synced(struct informer *i)
{
    struct informer_use *u;
    TAILQ_FOREACH (u, &i->set->uses, link) {
        if (u->informer != NULL && u->informer != i && informers_covers(&i->scope, &u->informer->scope) &&
            is_as(&i->as, &u->as))
            hold(u, i, false);
    }
    struct informer *other, *next;
    for (other = TAILQ_FIRST(&i->set->informers); other != NULL; other = next) {
        next = TAILQ_NEXT(other, link);
        if (other != i && other->uses == 0 && informers_covers(&i->scope, &other->scope) &&
            is_as(&i->as, &other->as))
            informer_doom(other); // no need to linger
    }
}

void informers_on_forbidden(struct informer *i)
{
    struct informers *s = i->set;
    struct informer_use *u;
    if (i->widened && !is_unwidened(s, i->scope.gvk)) {
        s->unwidened = xreallocarray(s->unwidened, s->unwidened_count + 1, sizeof(s->unwidened[0]));
        s->unwidened[s->unwidened_count++] = i->scope.gvk;
    }
    TAILQ_FOREACH (u, &s->uses, link) {
        if (u->informer == i && informers_is_narrower(&u->scope, &i->scope)) {
            hold(u, NULL, false);
            attach(u);
        }
    }
}

static void on_chores(void *ud)
{
    struct informers *s = ud;
    struct informer *i;
    while ((i = TAILQ_FIRST(&s->doomed)) != NULL) {
        TAILQ_REMOVE(&s->doomed, i, link);
        informer_free(i);
    }
}

// ---- kinds come and go

static void vanish(struct informers *s, struct informer *i)
{
    struct informer_use *u;
    TAILQ_FOREACH (u, &s->uses, link) {
        if (u->informer == i)
            hold(u, NULL, true);
    }
    informer_set_state(i, INFORMER_UNKNOWN_KIND, "the server does not serve this kind as before");
    informer_notify(i);
    informer_doom(i);
    discovery_miss(s->o.discovery, i->scope.gvk);
}

// A CRD of the same kind, made anew with another scope or name.
static bool is_other_resource(const struct resource *a, const struct resource *b)
{
    return a->namespaced != b->namespaced || strcmp(a->plural, b->plural) != 0;
}

// True while some informer's kind is missing and that is not confirmed yet.
static bool look_at_informers(struct informers *s)
{
    bool missing = false;
    uint64_t now = loop_now_ms(s->loop);
    struct informer *i, *next;
    for (i = TAILQ_FIRST(&s->informers); i != NULL; i = next) {
        struct resource r;
        next = TAILQ_NEXT(i, link);
        enum discovery_answer known = discovery_find(s->o.discovery, i->scope.gvk, &r);
        bool other = known == DISCOVERY_FOUND && is_other_resource(&r, &i->resource);
        bool confirmed = known == DISCOVERY_UNKNOWN && i->missing_since != 0 &&
                         now - i->missing_since >= INFORMERS_CONFIRM_MS;
        if (other || confirmed) {
            vanish(s, i);
        } else if (known != DISCOVERY_UNKNOWN) {
            i->missing_since = 0;
        } else {
            if (i->missing_since == 0) {
                i->missing_since = now > 0 ? now : 1;
                discovery_miss(s->o.discovery, i->scope.gvk);
            }
            missing = true;
        }
    }
    return missing;
}

// True while some use has no informer.
static bool look_at_uses(struct informers *s)
{
    bool waiting = false;
    struct informer_use *u;
    TAILQ_FOREACH (u, &s->uses, link) {
        if (u->informer != NULL || u->part_count > 0)
            continue;
        attach(u);
        if (u->informer != NULL)
            u->informer->appeared = true;
        else
            waiting = waiting || u->part_count == 0;
    }
    return waiting;
}

static void notify_appeared(struct informers *s)
{
    struct informer *i;
    TAILQ_FOREACH (i, &s->informers, link) {
        if (i->appeared) {
            i->appeared = false;
            informer_notify(i);
        }
    }
}

static void patrol(void *ud)
{
    struct informers *s = ud;
    if (s->drained)
        return;
    bool missing = look_at_informers(s);
    bool waiting = look_at_uses(s);
    if (missing || waiting)
        loop_timer_start(s->patrol, missing ? INFORMERS_CONFIRM_MS : INFORMERS_PATROL_MS);
    notify_appeared(s);
}

static void on_discovery(void *ud, const struct err *e)
{
    (void)e;
    patrol(ud);
}

// ---- life

struct informers *informers_new(const struct informers_options *o)
{
    struct informers *s = xcalloc(1, sizeof(*s));
    s->o = *o;
    s->loop = client_loop(o->client);
    pthread_rwlock_init(&s->lock, NULL);
    TAILQ_INIT(&s->informers);
    TAILQ_INIT(&s->doomed);
    TAILQ_INIT(&s->uses);
    LIST_INIT(&s->kinds);
    s->chores = loop_timer_new(s->loop, on_chores, s);
    s->patrol = loop_timer_new(s->loop, patrol, s);
    discovery_on_change(o->discovery, on_discovery, s);
    if (o->metrics != NULL)
        informers_add_metrics(s);
    return s;
}

static void free_list(struct informer_list *l)
{
    struct informer *i;
    while ((i = TAILQ_FIRST(l)) != NULL) {
        TAILQ_REMOVE(l, i, link);
        informer_free(i);
    }
}

void informers_free(struct informers *s)
{
    struct informer_use *u;
    struct informer_kind *k;
    if (s == NULL)
        return;
    while ((u = TAILQ_FIRST(&s->uses)) != NULL) { // their holders release them later
        TAILQ_REMOVE(&s->uses, u, link);
        u->set = NULL;
        u->informer = NULL;
    }
    free_list(&s->informers);
    free_list(&s->doomed);
    while ((k = LIST_FIRST(&s->kinds)) != NULL) {
        LIST_REMOVE(k, link);
        free(k);
    }
    loop_timer_free(s->chores);
    loop_timer_free(s->patrol);
    pthread_rwlock_destroy(&s->lock);
    free(s->unwidened);
    free(s);
}

void informers_drain(struct informers *s)
{
    struct informer *i;
    s->drained = true;
    loop_timer_stop(s->patrol);
    TAILQ_FOREACH (i, &s->informers, link) {
        watch_free(i->watch);
        i->watch = NULL;
        loop_timer_stop(i->linger);
    }
}

void informers_each(struct informers *s, void (*fn)(void *ud, struct informer *i), void *ud)
{
    struct informer *i, *next;
    for (i = TAILQ_FIRST(&s->informers); i != NULL; i = next) {
        next = TAILQ_NEXT(i, link);
        fn(ud, i);
    }
}

bool informers_all_synced(const struct informers *s)
{
    struct informer_use *u;
    TAILQ_FOREACH (u, &s->uses, link) {
        if (informer_use_state(u, NULL) == INFORMER_SYNCING)
            return false;
    }
    return true;
}

uint64_t informers_quiet_ms(const struct informers *s)
{
    uint64_t quiet = 0;
    uint64_t now = loop_now_ms(s->loop);
    const struct informer *i;
    TAILQ_FOREACH (i, &s->informers, link) {
        if (i->state != INFORMER_SYNCED || i->watch == NULL || i->uses == 0)
            continue;
        uint64_t ms = now - watch_last_activity_ms(i->watch);
        if (ms > quiet)
            quiet = ms;
    }
    return quiet;
}
