// One informer: a reflector that fills a store. Declared in informers.h.
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strset.h"
#include "kube/informers_impl.h"

void informer_scope_copy(struct informer_scope *to, const struct informer_scope *from)
{
    *to = (struct informer_scope){
        .gvk = from->gvk,
        .ns = from->ns != NULL && from->ns[0] != 0 ? xstrdup(from->ns) : NULL,
        .name = xstrdup(from->name),
        .labels = from->labels != NULL && from->labels[0] != 0 ? xstrdup(from->labels) : NULL,
        .fields = from->fields != NULL && from->fields[0] != 0 ? xstrdup(from->fields) : NULL,
    };
}

void informer_scope_fini(struct informer_scope *scope)
{
    free((char *)scope->ns);
    free((char *)scope->name);
    free((char *)scope->labels);
    free((char *)scope->fields);
}

// ---- state

bool informer_set_state(struct informer *i, enum informer_answer state, const char *why)
{
    bool changed = i->state != state;
    uint64_t now = store_clock_now(i->set->o.clock);
    pthread_rwlock_wrlock(&i->set->lock);
    i->state = state;
    if (state == INFORMER_SYNCED && i->synced_at == UINT64_MAX)
        i->synced_at = now;
    free(i->why);
    i->why = xstrdup(why);
    pthread_rwlock_unlock(&i->set->lock);
    return changed;
}

void informer_notify(struct informer *i)
{
    if (i->set->o.on_state != NULL)
        i->set->o.on_state(i->set->o.ud, i);
}

enum informer_answer informer_state(const struct informer *i, struct err *e)
{
    static const enum err_code codes[] = {
        [INFORMER_SYNCED] = ERR_NONE,
        [INFORMER_SYNCING] = ERR_PARKED,
        [INFORMER_UNKNOWN_KIND] = ERR_NOT_FOUND,
        [INFORMER_FORBIDDEN] = ERR_FORBIDDEN,
        [INFORMER_UNAVAILABLE] = ERR_UNAVAILABLE,
    };
    if (e != NULL && i->state != INFORMER_SYNCED)
        err_set(e, codes[i->state], "%s%s%s", i->scope.gvk->text, i->why != NULL ? ": " : " is being listed",
                i->why != NULL ? i->why : "");
    return i->state;
}

// ---- events of the reflector

static void on_store_event(void *ud, struct object *old, struct object *new, uint64_t revision)
{
    struct informer *i = ud;
    if (i->set->o.on_change != NULL)
        i->set->o.on_change(i->set->o.ud, i, old, new, revision);
}

static void count(struct series *s)
{
    if (s != NULL)
        series_inc(s);
}

// A deletion that is replayed may be that of a forerunner of the same name.
static void take_delete(struct informer *i, struct object *o)
{
    struct object *stored = store_get(i->store, UINT64_MAX, object_namespace(o), object_name(o));
    bool other = stored != NULL && object_uid(stored)[0] != 0 && object_uid(o)[0] != 0 &&
                 strcmp(object_uid(stored), object_uid(o)) != 0;
    object_unref(stored);
    if (!other)
        store_remove(i->store, object_namespace(o), object_name(o), on_store_event, i);
}

static void take_error(struct informer *i, const struct api_status *error)
{
    if (error->http == 404)
        discovery_miss(i->set->o.discovery, i->scope.gvk);
    enum informer_answer state = i->state;
    if (error->http == 403)
        state = INFORMER_FORBIDDEN;
    else if (error->http == 400 && i->scope.fields != NULL)
        state = INFORMER_UNAVAILABLE; // few fields of a kind can be selected by
    bool changed = informer_set_state(i, state, error->err.text);
    if (changed)
        informers_on_forbidden(i);
    if (changed && !i->doomed)
        informer_notify(i);
}

static void take_done(struct informer *i)
{
    store_relist_sweep(i->store, on_store_event, i);
    bool changed = informer_set_state(i, INFORMER_SYNCED, NULL);
    informers_on_synced(i);
    if (changed)
        informer_notify(i);
}

static void on_event(void *ud, const struct watch_event *ev)
{
    struct informer *i = ud;
    struct informer_kind *k = i->kind;
    if (i->doomed)
        return;
    switch (ev->kind) {
    case WATCH_INIT:
        count(k != NULL ? k->relists : NULL);
        store_relist_begin(i->store);
        break;
    case WATCH_INIT_APPLY:
    case WATCH_APPLY:
        count(k != NULL ? k->events : NULL);
        store_put(i->store, object_ref(ev->object), on_store_event, i);
        break;
    case WATCH_DELETE:
        count(k != NULL ? k->events : NULL);
        take_delete(i, ev->object);
        break;
    case WATCH_INIT_DONE:
        take_done(i);
        break;
    case WATCH_ERROR:
        take_error(i, ev->error);
        break;
    }
}

// ---- life

static void on_linger(void *ud)
{
    struct informer *i = ud;
    if (i->uses == 0)
        informer_doom(i);
}

// metadata.name=NAME, with what a field selector takes as its own escaped.
static char *name_selector(const char *name)
{
    char *text = xmalloc(2 * strlen(name) + 16);
    char *out = stpcpy(text, "metadata.name=");
    for (const char *s = name; *s != 0; s++) {
        if (strchr("\\,=", *s) != NULL)
            *out++ = '\\';
        *out++ = *s;
    }
    *out = 0;
    return text;
}

// What the server is to select by; free().
static char *field_selector_of(const struct informer_scope *scope)
{
    if (scope->name == NULL)
        return xstrdup(scope->fields);
    char *name = name_selector(scope->name);
    if (scope->fields == NULL)
        return name;
    char *both = xasprintf("%s,%s", name, scope->fields);
    free(name);
    return both;
}

// Did one of this group's informers find that the server does not list by watch?
static bool watch_list_is_refused(const struct informers *s, const struct gvk *gvk)
{
    const struct informer *i;
    TAILQ_FOREACH (i, &s->informers, link) {
        if (strcmp(i->scope.gvk->group, gvk->group) == 0 && i->watch != NULL && watch_list_refused(i->watch))
            return true;
    }
    return false;
}

static void start_watch(struct informer *i)
{
    struct informers *s = i->set;
    char *fields = field_selector_of(&i->scope);
    i->watch = watch_new(&(struct watch_options){
        .client = s->o.client,
        .resource = i->resource,
        .ns = i->scope.ns,
        .label_selector = i->scope.labels,
        .field_selector = fields,
        .as = &i->as,
        .seed = s->o.seed + ++s->made * 0x9e3779b97f4a7c15ULL,
        .no_watch_list = watch_list_is_refused(s, i->scope.gvk),
        .on_event = on_event,
        .ud = i,
    });
    free(fields);
    watch_start(i->watch);
}

struct informer *informer_start(struct informers *s, const struct resource *r,
                                const struct informer_scope *scope, const struct identity *as, bool widened)
{
    struct informer *i = xcalloc(1, sizeof(*i));
    i->set = s;
    i->resource = *r;
    informer_scope_copy(&i->scope, scope);
    i->as.user = xstrdup(as->user);
    i->store = store_new(s->o.clock, scope->gvk);
    i->linger = loop_timer_new(s->loop, on_linger, i);
    i->state = INFORMER_SYNCING;
    i->synced_at = UINT64_MAX;
    i->widened = widened;
    i->kind = informers_kind(s, scope->gvk);
    start_watch(i);
    pthread_rwlock_wrlock(&s->lock);
    TAILQ_INSERT_TAIL(&s->informers, i, link);
    pthread_rwlock_unlock(&s->lock);
    return i;
}

void informer_doom(struct informer *i)
{
    struct informers *s = i->set;
    i->doomed = true;
    loop_timer_stop(i->linger);
    pthread_rwlock_wrlock(&s->lock);
    TAILQ_REMOVE(&s->informers, i, link);
    TAILQ_INSERT_TAIL(&s->doomed, i, link);
    pthread_rwlock_unlock(&s->lock);
    loop_timer_start(s->chores, 0);
}

void informer_free(struct informer *i)
{
    watch_free(i->watch);
    loop_timer_free(i->linger);
    store_unref(i->store);
    informer_scope_fini(&i->scope);
    free((char *)i->as.user);
    free(i->why);
    free(i);
}

const struct informer_scope *informer_scope(const struct informer *i)
{
    return &i->scope;
}

struct store *informer_store(struct informer *i)
{
    return i->store;
}

const char *informer_resource_version(const struct informer *i)
{
    return i->watch == NULL ? "" : watch_resource_version(i->watch);
}

bool informer_is_listing(const struct informer *i)
{
    return i->watch != NULL && watch_is_listing(i->watch);
}

void informer_relist(struct informer *i)
{
    if (i->watch != NULL)
        watch_relist(i->watch);
}
