#include "run/release/leftovers.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/random.h"
#include "kube/metadata_list.h"
#include "run/apply/inventory.h"
#include "run/source/marks.h"

enum { SOON_MS = 3000, PERIOD_MS = 10 * 60 * 1000 };

// An inventory whose script does not run.
struct orphan {
    struct orphan *next;
    struct object *config_map; // +1
    char *script;              // "namespace/name"
    char finalizer[MARKS_FINALIZER_MAX];
    struct inventory_kind *kinds;
    size_t count;
    size_t held; // subjects with the finalizer
};

struct leftovers {
    struct leftovers_options o;
    struct loop_timer *timer;
    struct random random;
    struct call *call;
    struct metadata_list *list;
    struct orphan *orphans;
    size_t kind, ns; // where the walk is, of the first orphan
    bool looking;
};

static void look(void *ud);
static void walk_on(struct leftovers *l);

struct leftovers *leftovers_new(const struct leftovers_options *o)
{
    struct leftovers *l = xcalloc(1, sizeof *l);
    l->o = *o;
    random_init(&l->random, o->seed);
    l->timer = loop_timer_new(client_loop(o->client), look, l);
    return l;
}

static void drop_orphan(struct leftovers *l)
{
    struct orphan *x = l->orphans;
    l->orphans = x->next;
    object_unref(x->config_map);
    inventory_kinds_free(x->kinds, x->count);
    free(x->script);
    free(x);
    l->kind = l->ns = 0;
}

void leftovers_free(struct leftovers *l)
{
    if (l == NULL)
        return;
    if (l->call != NULL)
        call_cancel(l->call);
    metadata_list_free(l->list);
    while (l->orphans != NULL)
        drop_orphan(l);
    loop_timer_free(l->timer);
    free(l);
}

void leftovers_look(struct leftovers *l)
{
    if (!l->looking)
        loop_timer_start(l->timer, SOON_MS);
}

static void end(struct leftovers *l)
{
    l->looking = false;
    loop_timer_start(l->timer, random_jitter_ms(&l->random, PERIOD_MS, 0.1));
}

static void tell(struct leftovers *l)
{
    const struct orphan *x = l->orphans;
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

// ---- subjects

static void on_page(void *ud, const json *items)
{
    struct leftovers *l = ud;
    for (struct json_iter i = json_iter(items); json_next(&i);)
        for (struct json_iter f = json_iter(json_path(i.value, "metadata", "finalizers", NULL));
             json_next(&f);)
            l->orphans->held += str_eq(json_str(f.value), l->orphans->finalizer);
    metadata_list_next(l->list);
}

static void on_list_end(void *ud, const struct api_status *why)
{
    struct leftovers *l = ud;
    if (why != NULL)
        log_debug("subjects of a removed script can not be listed", F_STR("script", l->orphans->script),
                  F_STR("error", why->err.text));
    metadata_list_free(l->list);
    l->list = NULL;
    l->ns++;
    walk_on(l);
}

static bool next_list(struct leftovers *l, const struct orphan *x)
{
    size_t namespaces = l->o.namespaces == NULL ? 0 : l->o.namespaces->count;
    for (; l->kind < x->count; l->kind++, l->ns = 0) {
        const struct inventory_kind *k = &x->kinds[l->kind];
        struct resource resource;
        if (!k->subject ||
            discovery_find_group_kind(l->o.discovery, k->group, k->kind, &resource) != DISCOVERY_FOUND)
            continue;
        bool all = namespaces == 0 || !resource.namespaced;
        if (l->ns >= (all ? 1 : namespaces))
            continue;
        l->list = metadata_list_new(
            &(struct metadata_list_options){.client = l->o.client,
                                            .resource = resource,
                                            .ns = all ? NULL : l->o.namespaces->items[l->ns],
                                            .as = &identity_host,
                                            .on_page = on_page,
                                            .on_end = on_list_end,
                                            .ud = l});
        metadata_list_next(l->list);
        return true;
    }
    return false;
}

static void walk_on(struct leftovers *l)
{
    for (; l->orphans != NULL; drop_orphan(l)) {
        if (next_list(l, l->orphans))
            return;
        if (l->orphans->held > 0)
            tell(l);
    }
    end(l);
}

// ---- inventories

// One of ours: its name is made of what stands in it.
static void add_orphan(struct leftovers *l, const json *config_map)
{
    char hash[MARKS_HASH_MAX];
    const char *script = json_str(json_path(config_map, "data", "script", NULL));
    const char *slash = script == NULL ? NULL : strchr(script, '/');
    if (slash == NULL)
        return;
    char *ns = xstrndup(script, (size_t)(slash - script));
    marks_script_hash(hash, l->o.instance, ns, slash + 1);
    char *name = inventory_name(hash);
    bool ours = str_eq(json_str(json_path(config_map, "metadata", "name", NULL)), name);
    struct object *o;
    if (ours && !l->o.runs(l->o.ud, hash) &&
        object_new(gvk_parse("v1/ConfigMap", NULL), config_map, &o, NULL) == 0) {
        struct orphan *x = xcalloc(1, sizeof *x);
        x->config_map = o;
        x->script = xstrdup(script);
        x->count = inventory_read(config_map, &x->kinds);
        marks_finalizer(x->finalizer, hash);
        x->next = l->orphans;
        l->orphans = x;
    }
    free(name);
    free(ns);
}

static void on_inventories(void *ud, struct client_result *res)
{
    struct leftovers *l = ud;
    l->call = NULL;
    for (struct json_iter i = json_iter(json_get(json_root(res->doc), "items")); json_next(&i);)
        add_orphan(l, i.value);
    walk_on(l);
}

static void look(void *ud)
{
    struct leftovers *l = ud;
    struct resource config_maps = {
        .gvk = gvk_parse("v1/ConfigMap", NULL), .plural = "configmaps", .namespaced = true};
    struct buf path;
    if (!l->o.settled(l->o.ud)) {
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
