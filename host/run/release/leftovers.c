#include "run/release/leftovers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/random.h"
#include "kube/metadata_list.h"
#include "run/apply/inventory.h"
#include "run/apply/unfinalize.h"
#include "run/controller/deletion.h"
#include "run/source/marks.h"

enum {
    SOON_MS = 3000,
    PERIOD_MS = 10 * 60 * 1000,
    WATCH_MS = 5000,         // how often namespaces with waiting finalizers are thought of
    ASK_EACH_MS = 10 * 1000, // how old what is known of one may be, ...
    ASK_ROOM_MS = 1000,      // ... or this for each of them, where there are many
};

// A namespace with subjects that carry an orphan's finalizer.
struct place {
    char *ns;
    uint64_t terminating_ms; // since when it is known to go; 0: it is not
};

// An inventory with subjects that no script looks after.
struct orphan {
    struct object *config_map; // +1
    char *script;              // "namespace/name"
    char hash[MARKS_HASH_MAX];
    char finalizer[MARKS_FINALIZER_MAX];
    struct inventory_kind *kinds;
    size_t count;
    size_t held; // subjects with the finalizer
    struct place *places;
    size_t place_count, place_cap;
    STAILQ_ENTRY(orphan) next;
};
STAILQ_HEAD(orphans, orphan);

// A subject in a namespace that goes.
struct held {
    struct held *next;
    struct object *object; // +1, as it was listed
};

struct leftovers {
    struct leftovers_options o;
    struct loop_timer *timer, *watch;
    struct random random;
    struct call *call;
    struct metadata_list *list;
    struct orphans fresh, told; // still to be walked through; those whose finalizers wait
    struct orphan *walked;      // of one of them: the walk that is under way ...
    const char *only;           // ... takes them off in this namespace; NULL: it counts
    size_t kind, ns;            // where it is
    struct resource resource;
    struct held *held; // of the page, to be let go
    bool looking;      // at the inventories
    bool again;        // once more, soon: something has changed meanwhile
};

static void look(void *ud);
static void think(void *ud);
static void walk_on(struct leftovers *l);
static void let_go_next(struct leftovers *l);

struct leftovers *leftovers_new(const struct leftovers_options *o)
{
    struct leftovers *l = xcalloc(1, sizeof *l);
    l->o = *o;
    random_init(&l->random, o->seed);
    STAILQ_INIT(&l->fresh);
    STAILQ_INIT(&l->told);
    l->timer = loop_timer_new(client_loop(o->client), look, l);
    l->watch = loop_timer_new(client_loop(o->client), think, l);
    return l;
}

static void orphan_free(struct orphan *x)
{
    object_unref(x->config_map);
    inventory_kinds_free(x->kinds, x->count);
    for (size_t i = 0; i < x->place_count; i++)
        free(x->places[i].ns);
    free(x->places);
    free(x->script);
    free(x);
}

static void drop_all(struct orphans *list)
{
    while (!STAILQ_EMPTY(list)) {
        struct orphan *x = STAILQ_FIRST(list);
        STAILQ_REMOVE_HEAD(list, next);
        orphan_free(x);
    }
}

static void drop_held(struct leftovers *l)
{
    struct held *x = l->held;
    l->held = x->next;
    object_unref(x->object);
    free(x);
}

void leftovers_free(struct leftovers *l)
{
    if (l == NULL)
        return;
    if (l->call != NULL)
        call_cancel(l->call);
    metadata_list_free(l->list);
    while (l->held != NULL)
        drop_held(l);
    drop_all(&l->fresh);
    drop_all(&l->told);
    loop_timer_free(l->timer);
    loop_timer_free(l->watch);
    free(l);
}

void leftovers_look(struct leftovers *l)
{
    l->again = l->looking;
    if (!l->looking)
        loop_timer_start(l->timer, SOON_MS);
}

static uint64_t now_of(const struct leftovers *l)
{
    return loop_now_ms(client_loop(l->o.client));
}

static void tell(struct leftovers *l, const struct orphan *x)
{
    const char *name = strchr(x->script, '/') + 1;
    char *text =
        xasprintf("script %s does not run, but its finalizer is on %zu objects, which can not be deleted "
                  "until it is taken off: bring the script back, or hand them back with: tidelock "
                  "release %s --namespace-of-script %.*s",
                  x->script, x->held, name, (int)(name - 1 - x->script), x->script);
    log_warn("finalizers of a removed script wait", F_STR("script", x->script),
             F_INT("subjects", (int64_t)x->held), F_STR("error", text));
    recorder_event(l->o.recorder, x->config_map, "Warning", "FinalizersWait", "Release", text);
    free(text);
}

// ---- letting go

static void say_let_go(struct leftovers *l, const struct object *subject)
{
    const struct object *about = terminating_object(l->o.terminating, object_namespace(subject));
    char *text = xasprintf(
        "%s %s/%s: the namespace is being deleted, so the finalizer of script %s, which does "
        "not look after it, was taken off; what the script made elsewhere stays until it is "
        "handed back by: tidelock release",
        object_gvk(subject)->kind, object_namespace(subject), object_name(subject), l->walked->script);
    log_warn("subject is let go: its namespace is being deleted", F_STR("script", l->walked->script),
             F_STR("namespace", object_namespace(subject)), F_STR("name", object_name(subject)),
             F_STR("error", text));
    if (about != NULL)
        recorder_event(l->o.recorder, about, "Warning", "FinalizerTakenOff", "Release", text);
    free(text);
}

static void on_let_go(void *ud, struct client_result *res)
{
    struct leftovers *l = ud;
    const struct object *subject = l->held->object;
    l->call = NULL;
    if (res->failure == NULL) {
        say_let_go(l, subject);
        series_inc(
            metric_series(metrics_add(l->o.metrics, &deletion_given_up), strchr(l->walked->script, '/') + 1));
    } else if (res->failure->http != 404) {
        log_warn("finalizer can not be taken off", F_STR("script", l->walked->script),
                 F_STR("namespace", object_namespace(subject)), F_STR("name", object_name(subject)),
                 F_STR("error", res->failure->err.text));
    }
    drop_held(l);
    let_go_next(l);
}

static void let_go_next(struct leftovers *l)
{
    for (; l->held != NULL; drop_held(l)) {
        struct json_doc *doc = object_parse(l->held->object);
        l->call = unfinalize_send(l->o.client, &l->resource, json_get(json_root(doc), "metadata"),
                                  l->walked->finalizer, on_let_go, l);
        json_doc_free(doc);
        if (l->call != NULL)
            return;
    }
    metadata_list_next(l->list);
}

static void hold(struct leftovers *l, const json *item)
{
    struct object *o;
    if (object_new(l->resource.gvk, item, &o, NULL) < 0)
        return; // beyond what the server itself takes
    struct held *x = xcalloc(1, sizeof *x);
    *x = (struct held){l->held, o};
    l->held = x;
}

// ---- subjects

static void count(struct orphan *x, const json *metadata)
{
    const char *ns = json_get_str(metadata, "namespace");
    x->held++;
    for (size_t i = 0; i < x->place_count; i++)
        if (str_eq(x->places[i].ns, ns))
            return;
    if (ns == NULL)
        return;
    if (x->place_count == x->place_cap) {
        x->place_cap = x->place_cap == 0 ? 4 : x->place_cap * 2;
        x->places = xreallocarray(x->places, x->place_cap, sizeof x->places[0]);
    }
    x->places[x->place_count++] = (struct place){.ns = xstrdup(ns)};
}

static bool has_finalizer(const struct orphan *x, const json *metadata)
{
    for (struct json_iter f = json_iter(json_get(metadata, "finalizers")); json_next(&f);)
        if (str_eq(json_str(f.value), x->finalizer))
            return true;
    return false;
}

static void on_page(void *ud, const json *items)
{
    struct leftovers *l = ud;
    for (struct json_iter i = json_iter(items); json_next(&i);) {
        const json *metadata = json_get(i.value, "metadata");
        if (!has_finalizer(l->walked, metadata))
            continue;
        if (l->only == NULL)
            count(l->walked, metadata);
        else if (json_get(metadata, "deletionTimestamp") != NULL)
            hold(l, i.value);
    }
    let_go_next(l);
}

static void on_list_end(void *ud, const struct api_status *why)
{
    struct leftovers *l = ud;
    if (why != NULL)
        log_debug("subjects of a removed script can not be listed", F_STR("script", l->walked->script),
                  F_STR("error", why->err.text));
    metadata_list_free(l->list);
    l->list = NULL;
    l->ns++;
    walk_on(l);
}

// Subjects of this kind are nobody's.
static bool is_orphaned(const struct leftovers *l, const struct orphan *x, const struct inventory_kind *k)
{
    const struct gvk *subject = l->o.subject(l->o.ud, x->hash);
    return k->subject &&
           (subject == NULL || !str_eq(subject->group, k->group) || !str_eq(subject->kind, k->kind));
}

static bool list_next(struct leftovers *l)
{
    const struct orphan *x = l->walked;
    const struct strset *in = l->o.namespaces;
    size_t namespaces = in == NULL ? 0 : in->count;
    for (; l->kind < x->count; l->kind++, l->ns = 0) {
        const struct inventory_kind *k = &x->kinds[l->kind];
        if (!is_orphaned(l, x, k) ||
            discovery_find_group_kind(l->o.discovery, k->group, k->kind, &l->resource) != DISCOVERY_FOUND)
            continue;
        bool once = l->only != NULL || namespaces == 0 || !l->resource.namespaced;
        if (l->ns >= (once ? 1 : namespaces) || (l->only != NULL && !l->resource.namespaced))
            continue;
        l->list = metadata_list_new(&(struct metadata_list_options){.client = l->o.client,
                                                                    .resource = l->resource,
                                                                    .ns = l->only != NULL ? l->only
                                                                          : once          ? NULL
                                                                                          : in->items[l->ns],
                                                                    .as = &identity_host,
                                                                    .on_page = on_page,
                                                                    .on_end = on_list_end,
                                                                    .ud = l});
        metadata_list_next(l->list);
        return true;
    }
    return false;
}

static void begin_walk(struct leftovers *l, struct orphan *x, const char *only)
{
    l->walked = x;
    l->only = only;
    l->kind = l->ns = 0;
}

// All of an orphan's subjects have been seen.
static void end_count(struct leftovers *l)
{
    struct orphan *x = l->walked;
    STAILQ_REMOVE_HEAD(&l->fresh, next);
    if (x->held == 0) {
        orphan_free(x);
        return;
    }
    STAILQ_INSERT_TAIL(&l->told, x, next);
    if (l->o.subject(l->o.ud, x->hash) == NULL) // else the script says itself what it waits for
        tell(l, x);
}

static void end_look(struct leftovers *l)
{
    l->looking = false;
    loop_timer_start(l->timer, l->again ? SOON_MS : random_jitter_ms(&l->random, PERIOD_MS, 0.1));
    l->again = false;
    if (!STAILQ_EMPTY(&l->told))
        loop_timer_start(l->watch, WATCH_MS);
}

static void walk_on(struct leftovers *l)
{
    if (list_next(l))
        return;
    if (l->only != NULL) {
        l->walked = NULL;
        loop_timer_start(l->watch, 0); // others may be due
        return;
    }
    end_count(l);
    l->walked = NULL;
    if (STAILQ_EMPTY(&l->fresh)) {
        end_look(l);
        return;
    }
    begin_walk(l, STAILQ_FIRST(&l->fresh), NULL);
    walk_on(l);
}

// ---- namespaces that go

// True: its turn to be let go has come.
static bool is_due(struct leftovers *l, struct place *p, uint64_t max_age_ms)
{
    uint64_t now = now_of(l);
    switch (terminating_is(l->o.terminating, p->ns, p->terminating_ms == 0 ? max_age_ms : WATCH_MS)) {
    case TERMINATING_ASKED:
        return false;
    case TERMINATING_NO:
        if (p->terminating_ms != 0)
            leftovers_look(l); // it is gone: are there others?
        p->terminating_ms = 0;
        return false;
    case TERMINATING_YES:
        break;
    }
    if (p->terminating_ms == 0)
        p->terminating_ms = now;
    return now - p->terminating_ms >= DELETION_IDLE_MS;
}

static void think(void *ud)
{
    struct leftovers *l = ud;
    struct orphan *x;
    size_t places = 0;
    if (l->walked != NULL || l->looking)
        return; // its end comes back here
    STAILQ_FOREACH (x, &l->told, next) {
        places += x->place_count;
    }
    uint64_t max_age = places * ASK_ROOM_MS > ASK_EACH_MS ? places * ASK_ROOM_MS : ASK_EACH_MS;
    STAILQ_FOREACH (x, &l->told, next) {
        for (size_t i = 0; i < x->place_count && l->o.settled(l->o.ud); i++) {
            if (!is_due(l, &x->places[i], max_age))
                continue;
            x->places[i].terminating_ms = now_of(l); // again after a while, if something is left
            begin_walk(l, x, x->places[i].ns);
            walk_on(l);
            return;
        }
    }
    if (!STAILQ_EMPTY(&l->told))
        loop_timer_start(l->watch, WATCH_MS);
}

void leftovers_on_namespace(struct leftovers *l)
{
    if (!STAILQ_EMPTY(&l->told))
        loop_timer_start(l->watch, 0);
}

// ---- inventories

static bool has_orphaned(const struct leftovers *l, const struct orphan *x)
{
    for (size_t i = 0; i < x->count; i++)
        if (is_orphaned(l, x, &x->kinds[i]))
            return true;
    return false;
}

// One of ours: its name is made of what stands in it.
static void add_orphan(struct leftovers *l, const json *config_map)
{
    const char *script = json_str(json_path(config_map, "data", "script", NULL));
    const char *slash = script == NULL ? NULL : strchr(script, '/');
    if (slash == NULL)
        return;
    struct orphan *x = xcalloc(1, sizeof *x);
    char *ns = xstrndup(script, (size_t)(slash - script));
    marks_script_hash(x->hash, l->o.instance, ns, slash + 1);
    marks_finalizer(x->finalizer, x->hash);
    x->script = xstrdup(script);
    x->count = inventory_read(config_map, &x->kinds);
    char *name = inventory_name(x->hash);
    bool ours = str_eq(json_str(json_path(config_map, "metadata", "name", NULL)), name);
    if (ours && has_orphaned(l, x) &&
        object_new(gvk_parse("v1/ConfigMap", NULL), config_map, &x->config_map, NULL) == 0)
        STAILQ_INSERT_TAIL(&l->fresh, x, next);
    else
        orphan_free(x);
    free(name);
    free(ns);
}

static void on_inventories(void *ud, struct client_result *res)
{
    struct leftovers *l = ud;
    l->call = NULL;
    if (res->failure == NULL)
        drop_all(&l->told);
    for (struct json_iter i = json_iter(json_get(json_root(res->doc), "items")); json_next(&i);)
        add_orphan(l, i.value);
    if (STAILQ_EMPTY(&l->fresh)) {
        end_look(l);
        return;
    }
    begin_walk(l, STAILQ_FIRST(&l->fresh), NULL);
    walk_on(l);
}

static void look(void *ud)
{
    struct leftovers *l = ud;
    struct resource config_maps = {
        .gvk = gvk_parse("v1/ConfigMap", NULL), .plural = "configmaps", .namespaced = true};
    struct buf path;
    if (l->walked != NULL || !l->o.settled(l->o.ud)) {
        loop_timer_start(l->timer, SOON_MS);
        return;
    }
    l->looking = true;
    buf_init(&path, 4096);
    resource_path(&config_maps, l->o.namespace_, NULL, NULL, "labelSelector=tidelock.dev%2Finventory%3Dtrue",
                  &path);
    l->call = client_send(l->o.client, &(struct client_request){.path = path.data, .as = &identity_host},
                          on_inventories, l);
    buf_fini(&path);
}
