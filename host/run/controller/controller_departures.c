// Subjects that are no longer the script's: what became of them is asked, then what was left on them and for
// them is given back. One that was deleted leaves its patches; one that has left the selector is treated as
// if it was being deleted: finalize, children, status, finalizer, by passes of its key like any other.

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "base/strset.h"
#include "kube/metadata_list.h"
#include "run/controller/controller_internal.h"
#include "run/controller/departures.h"
#include "run/controller/sweep.h"
#include "run/report/reconciled.h"
#include "run/workqueue/predicate.h"

struct leaving {
    char *key;
    struct object *subject; // +1, as the server had it last
    UT_hash_handle hh;
};

struct comings_and_goings {
    struct controller *c;
    struct departures *departures;
    struct sweep *sweep;
    struct leaving *leaving;
    struct metadata_list *scan; // of all subjects, for those outside the selector
    struct loop_timer *scan_again;
    size_t scan_ns;
    unsigned scan_failures;
};

enum { SCAN_AGAIN_MS = 10 * 1000, SCAN_AGAIN_MAX_MS = 10 * 60 * 1000 }; // doubled each time

// ---- those that are leaving

static struct leaving *find(const struct controller *c, const char *key)
{
    struct leaving *x;
    HASH_FIND_STR(c->goings->leaving, key, x);
    return x;
}

static void drop(struct controller *c, struct leaving *x)
{
    HASH_DEL(c->goings->leaving, x);
    object_unref(x->subject);
    free(x->key);
    free(x);
}

void controller_view_leavers(const struct controller *c, struct controller_view *v)
{
    const struct leaving *x;
    if (c->goings == NULL)
        return;
    v->leaving = xcalloc(HASH_COUNT(c->goings->leaving) + 1, sizeof v->leaving[0]);
    for (x = c->goings->leaving; x != NULL; x = x->hh.next)
        v->leaving[v->leaving_count++] = object_ref(x->subject);
}

static bool has_patched(const struct controller *c)
{
    const struct inventory_kind *kinds;
    size_t n = inventory_kinds(c->inventory, &kinds);
    for (size_t i = 0; i < n; i++)
        if (kinds[i].patched)
            return true;
    return false;
}

static void leave(struct controller *c, struct object *now)
{
    char *key = controller_key(object_namespace(now), object_name(now));
    struct leaving *x = find(c, key);
    if (x != NULL) { // a pass for it failed: its next one sees what it is by now
        object_unref(x->subject);
        x->subject = object_ref(now);
        controller_deletion_note(c, now, true);
        controller_refresh_view(c);
        free(key);
        return;
    }
    x = xcalloc(1, sizeof *x);
    x->key = key;
    x->subject = object_ref(now);
    HASH_ADD_KEYPTR(hh, c->goings->leaving, x->key, strlen(x->key), x);
    log_info("subject leaves the script's selector: it is released", F_STR("script", c->script->name),
             F_STR("key", x->key));
    controller_know_subject(c, now); // its children's ends wake the key
    controller_deletion_note(c, now, true);
    controller_refresh_view(c);
    queue_add(c->queue, x->key);
}

void controller_left(struct controller *c, const char *key)
{
    struct leaving *x = find(c, key);
    if (x == NULL)
        return;
    controller_forget_subject(c, object_uid(x->subject));
    controller_deletion_forget(c, key);
    drop(c, x);
    controller_refresh_view(c);
    deps_forget(c->env->deps, c, key);
    key_states_forget(c->keys, key);
    reconciled_forget(c->reconciled, key);
    if (has_patched(c))
        sweep_request(c->goings->sweep);
}

void controller_leaving_failed(struct controller *c, const char *key)
{
    const struct leaving *x = find(c, key);
    if (x != NULL)
        departures_add(c->goings->departures, x->subject);
}

void controller_came_back(struct controller *c, const struct object *subject)
{
    departures_drop(c->goings->departures, object_uid(subject));
    if (c->goings->leaving == NULL)
        return;
    char *key = controller_key(object_namespace(subject), object_name(subject));
    struct leaving *x = find(c, key);
    if (x != NULL) {
        if (!str_eq(object_uid(x->subject), object_uid(subject)))
            controller_forget_subject(c, object_uid(x->subject));
        drop(c, x);
        controller_refresh_view(c);
    }
    free(key);
}

// ---- what became of them

static bool is_filtered(const struct controller *c)
{
    const struct program_spec *spec = program_spec(c->script->program);
    return c->script->selector != NULL || c->script->fields != NULL || spec->namespaces != NULL;
}

void controller_went(struct controller *c, struct object *last)
{
    if (is_filtered(c) || has_patched(c))
        departures_add(c->goings->departures, last);
}

static bool is_idle(void *ud, const struct object *subject)
{
    struct controller *c = ud;
    char *key = controller_key(object_namespace(subject), object_name(subject));
    bool idle = c->ready && queue_place(c->queue, key) == QUEUE_ELSEWHERE;
    free(key);
    return idle;
}

static void on_gone(void *ud, struct object *last)
{
    struct controller *c = ud;
    char *key = controller_key(object_namespace(last), object_name(last));
    controller_left(c, key);
    free(key);
    if (has_patched(c))
        sweep_request(c->goings->sweep);
}

static void on_there(void *ud, struct object *now)
{
    struct controller *c = ud;
    if (!predicate_selects(c->script, now) && !c->stopping)
        leave(c, now); // else it is in the store by now, or will be
}

// ---- patches

static bool knows_the_living(void *ud)
{
    const struct controller *c = ud;
    return c->ready && !c->stopping;
}

static void each_live(void *ud, void (*fn)(void *arg, const char *uid), void *arg)
{
    const struct controller *c = ud;
    controller_each_uid(c, fn, arg);
    departures_each(c->goings->departures, fn, arg);
}

static size_t kinds(void *ud, const struct inventory_kind **ret)
{
    const struct controller *c = ud;
    return inventory_kinds(c->inventory, ret);
}

// ---- those that left while nobody looked

static bool holds_finalizer(const json *metadata, const char *finalizer)
{
    for (struct json_iter i = json_iter(json_get(metadata, "finalizers")); json_next(&i);)
        if (str_eq(json_str(i.value), finalizer))
            return true;
    return false;
}

// Did this script leave anything on it, or for it?
static bool has_traces(const struct controller *c, const struct object *o, const json *metadata)
{
    char finalizer[MARKS_FINALIZER_MAX];
    marks_finalizer(finalizer, c->script->hash);
    if (holds_finalizer(metadata, finalizer))
        return true;
    for (struct json_iter i = json_iter(json_get(metadata, "managedFields")); json_next(&i);) {
        const char *manager = json_get_str(i.value, "manager");
        if (manager != NULL && strstr(manager, c->script->hash) != NULL &&
            str_has_prefix(manager, "tidelock"))
            return true;
    }
    struct object_list children = {0};
    if (c->view->children != NULL)
        child_stores_list(c->view->children, UINT64_MAX, NULL, object_uid(o), &children);
    bool any = children.count > 0;
    object_list_fini(&children);
    return any;
}

static void on_scanned(void *ud, const json *items)
{
    struct controller *c = ud;
    struct object *o;
    for (struct json_iter i = json_iter(items); json_next(&i);) {
        if (!c->ready || object_new(c->script->subject, i.value, &o, NULL) < 0)
            continue; // not ready: all is scanned again when it is
        if (controller_key_of_uid(c, object_uid(o)) == NULL &&
            has_traces(c, o, json_get(i.value, "metadata")))
            departures_add(c->goings->departures, o);
        object_unref(o);
    }
    metadata_list_next(c->goings->scan);
}

static void scan_on(struct controller *c);

static void on_scan_end(void *ud, const struct api_status *why)
{
    struct controller *c = ud;
    struct comings_and_goings *g = c->goings;
    metadata_list_free(g->scan);
    g->scan = NULL;
    if (why != NULL && why->http != 404) { // 404: the kind has just vanished
        uint64_t ms = (uint64_t)SCAN_AGAIN_MS << (g->scan_failures < 6 ? g->scan_failures : 6);
        enum log_level level = g->scan_failures == 0 ? LOG_WARN : LOG_DEBUG;
        g->scan_failures++;
        LOG_(level, "subjects that left the script's selector can not be looked for yet",
             F_STR("script", c->script->name), F_STR("error", why->err.text));
        loop_timer_start(g->scan_again, ms < SCAN_AGAIN_MAX_MS ? ms : SCAN_AGAIN_MAX_MS);
        return;
    }
    g->scan_failures = 0;
    g->scan_ns++;
    scan_on(c);
}

static void scan_on(struct controller *c)
{
    struct comings_and_goings *g = c->goings;
    const struct strset *in = c->env->namespaces;
    struct resource r;
    if (!c->ready || g->scan != NULL ||
        discovery_find(c->env->discovery, c->script->subject, &r) != DISCOVERY_FOUND)
        return;
    bool all = in == NULL || in->count == 0 || !r.namespaced;
    if (g->scan_ns >= (all ? 1 : in->count))
        return;
    g->scan = metadata_list_new(&(struct metadata_list_options){.client = c->env->client,
                                                                .resource = r,
                                                                .ns = all ? NULL : in->items[g->scan_ns],
                                                                .as = &identity_host,
                                                                .on_page = on_scanned,
                                                                .on_end = on_scan_end,
                                                                .ud = c});
    metadata_list_next(g->scan);
}

static void scan_again(void *ud)
{
    scan_on(ud);
}

// ---- life

// After a new version: some may be selected again.
static void leave_on(struct controller *c)
{
    struct leaving *x, *tmp;
    HASH_ITER (hh, c->goings->leaving, x, tmp) {
        if (predicate_selects(c->script, x->subject)) {
            drop(c, x);
            continue;
        }
        controller_know_subject(c, x->subject);
        controller_deletion_note(c, x->subject, true);
        queue_add(c->queue, x->key);
    }
    controller_refresh_view(c);
}

void controller_goings_begin(struct controller *c)
{
    struct comings_and_goings *g = c->goings;
    leave_on(c);
    if (has_patched(c))
        sweep_request(g->sweep);
    const struct inventory_kind *unused;
    if (!is_filtered(c) || inventory_kinds(c->inventory, &unused) == 0)
        return; // all there are stand in the store, or nothing was ever left behind
    metadata_list_free(g->scan);
    g->scan = NULL;
    g->scan_ns = 0;
    scan_on(c);
}

void controller_goings_open(struct controller *c, uint64_t seed)
{
    struct comings_and_goings *g = xcalloc(1, sizeof *g);
    const struct controller_env *env = c->env;
    c->goings = g;
    g->c = c;
    g->scan_again = loop_timer_new(env->loop, scan_again, c);
    g->departures = departures_new(&(struct departures_options){.client = env->client,
                                                                .discovery = env->discovery,
                                                                .as = &identity_host,
                                                                .seed = seed,
                                                                .idle = is_idle,
                                                                .on_gone = on_gone,
                                                                .on_there = on_there,
                                                                .ud = c});
    g->sweep = sweep_new(&(struct sweep_options){.client = env->client,
                                                 .discovery = env->discovery,
                                                 .namespaces = env->namespaces,
                                                 .manager = c->script->manager,
                                                 .script = c->script->name,
                                                 .seed = seed,
                                                 .ready = knows_the_living,
                                                 .each_live = each_live,
                                                 .kinds = kinds,
                                                 .ud = c});
}

void controller_goings_close(struct controller *c)
{
    struct comings_and_goings *g = c->goings;
    struct leaving *x, *tmp;
    departures_free(g->departures);
    sweep_free(g->sweep);
    metadata_list_free(g->scan);
    loop_timer_free(g->scan_again);
    HASH_ITER (hh, g->leaving, x, tmp) {
        drop(c, x);
    }
    free(g);
    c->goings = NULL;
}
