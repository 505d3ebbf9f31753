#include "run/apply/seen.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/strset.h"
#include "kube/selector.h"

enum { PATIENCE_MS = 5000, LOOK_MS = 1000 };

struct seen {
    struct seen_options o;
    struct own_waiter *waiter;
    struct loop_timer *timer;
    bool done;
    bool listed; // those that are behind were told to list
    bool lists;  // some still do
};

static void done(void *ud)
{
    struct seen *s = ud;
    if (s->done)
        return;
    s->done = true;
    loop_timer_stop(s->timer);
    s->o.on_seen(s->o.ud);
}

// ---- which stores are behind

struct look {
    const struct own_write *write;
    struct object *shown; // the object as some store shows it, not older than the write; +1, or NULL
    bool behind;          // some store is
    bool relist;          // those are to be listed
};

// Is the object in its scope? By what is not the write's to change.
static bool is_in_scope(const struct informer *i, const struct own_write *w)
{
    const struct informer_scope *scope = informer_scope(i);
    return str_eq(scope->gvk->kind, w->kind) && str_eq(scope->gvk->group, w->group) &&
           (scope->ns == NULL || str_eq(scope->ns, w->ns)) &&
           (scope->name == NULL || str_eq(scope->name, w->name));
}

// May its store come to hold the object? What reads one that is not synced waits for that.
static bool belongs(const struct informer *i, const struct own_write *w)
{
    return is_in_scope(i, w) && informer_state(i, NULL) == INFORMER_SYNCED;
}

static bool is_at(const char *rv, const struct own_write *w)
{
    int order;
    return w->rv[0] != '\0' && object_rv_compare(rv, w->rv, &order) && order >= 0;
}

static void find_shown(void *ud, struct informer *i)
{
    struct look *l = ud;
    if (l->shown != NULL || l->write->rv[0] == '\0' || !is_in_scope(i, l->write))
        return;
    struct object *o = store_get(informer_store(i), UINT64_MAX, l->write->ns, l->write->name);
    if (o != NULL && is_at(object_resource_version(o), l->write))
        l->shown = o;
    else
        object_unref(o);
}

// By its labels now; one that is selected by fields was there before it was written to.
static bool selects(const struct informer_scope *scope, const struct object *o)
{
    struct selector *s = NULL;
    if (scope->fields != NULL)
        return false;
    if (scope->labels == NULL || o == NULL || selector_parse(scope->labels, &s, NULL) < 0)
        return true;
    bool matches = selector_matches(s, o);
    selector_free(s);
    return matches;
}

static bool is_behind(struct informer *i, const struct look *l)
{
    const struct own_write *w = l->write;
    if (is_at(informer_resource_version(i), w))
        return false;
    struct object *o = store_get(informer_store(i), UINT64_MAX, w->ns, w->name);
    bool behind = o != NULL ? !is_at(object_resource_version(o), w)
                            : w->rv[0] != '\0' && selects(informer_scope(i), l->shown);
    object_unref(o);
    return behind;
}

static void look_at(void *ud, struct informer *i)
{
    struct look *l = ud;
    if (!belongs(i, l->write) || !is_behind(i, l))
        return;
    l->behind = true;
    if (l->relist)
        informer_relist(i);
}

static bool some_are_behind(struct informers *informers, const struct own_write *w, bool relist)
{
    struct look l = {.write = w, .relist = relist};
    informers_each(informers, find_shown, &l);
    informers_each(informers, look_at, &l);
    object_unref(l.shown);
    return l.behind;
}

bool seen_by_all(void *informers, const struct own_write *w)
{
    return !some_are_behind(informers, w, false);
}

// ---- waiting

static void relist_for(void *ud, const struct own_write *w)
{
    struct seen *s = ud;
    some_are_behind(s->o.informers, w, true);
}

static void look_for_list(void *ud, struct informer *i)
{
    struct look *l = ud;
    l->behind |= belongs(i, l->write) && informer_is_listing(i);
}

static void look_for_lists(void *ud, const struct own_write *w)
{
    struct seen *s = ud;
    struct look l = {.write = w};
    informers_each(s->o.informers, look_for_list, &l);
    s->lists |= l.behind;
}

static void on_time(void *ud)
{
    struct seen *s = ud;
    if (!s->listed)
        own_waiter_each(s->waiter, relist_for, s);
    s->lists = false;
    own_waiter_each(s->waiter, look_for_lists, s);
    if (!s->listed)
        log_debug("own writes were not seen in time", F_BOOL("lists", s->lists));
    s->listed = true;
    if (s->lists && !*s->o.hurry)
        loop_timer_start(s->timer, LOOK_MS);
    else
        done(s);
}

struct seen *seen_new(const struct seen_options *o)
{
    struct seen *s = xcalloc(1, sizeof *s);
    s->o = *o;
    s->waiter = own_waiter_new(o->own, done, s);
    s->timer = loop_timer_new(o->loop, on_time, s);
    return s;
}

void seen_free(struct seen *s)
{
    if (s == NULL)
        return;
    own_waiter_free(s->waiter);
    loop_timer_free(s->timer);
    free(s);
}

struct own_waiter *seen_waiter(struct seen *s)
{
    return s->waiter;
}

void seen_wait(struct seen *s)
{
    own_waiter_arm(s->waiter);
    if (own_waiter_is_clear(s->waiter) || *s->o.hurry)
        done(s);
    else
        loop_timer_start(s->timer, PATIENCE_MS);
}
