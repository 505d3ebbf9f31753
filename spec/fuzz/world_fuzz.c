// What scripts ask the world for, against a small cluster: a line a read, its arguments after bars (an empty
// one is not given). The first byte says whether the host is confined to two namespaces. Each read is
// answered, or refused with a reason; what is answered is what was asked for and nothing that scripts may not
// see; what waits is there once the loop has run; and nothing of it is left.
//   get|KIND|NAME|NAMESPACE
//   list|KIND|NAMESPACE|LABELS|FIELDS|OWNER
//   children|KIND
//   ready|APIVERSION|KIND|NAMESPACE|NAME
//   secret|NAME|LENGTH|CHARSET
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#include "apiserver/apiserver.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "run/world/deps.h"
#include "run/world/secret_value.h"
#include "run/world/world_view.h"

enum { READS_MAX = 16, ARGS_MAX = 6, RUN_MS = 5000, START_MS = 1700000000 };

static const char *const objects[] = {
    "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"other\"}}",
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"namespace\":\"default\","
    "\"labels\":{"
    "\"app\":\"x\",\"tier\":\"front\"}},\"spec\":{\"nodeName\":\"n1\"}}",
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"b\",\"namespace\":\"default\","
    "\"labels\":{"
    "\"app\":\"y\"},\"ownerReferences\":[{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"name\":\"s\","
    "\"uid\":"
    "\"u-s\"}]},\"spec\":{\"nodeName\":\"n2\"}}",
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"c\",\"namespace\":\"other\"}}",
    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"scripts\",\"namespace\":"
    "\"default\","
    "\"labels\":{\"tidelock.dev/scripts\":\"true\"}}}",
    "{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":\"" HOST_KEY_SECRET
    "\",\"namespace\":\"tidelock-system\"}}",
    "{\"apiVersion\":\"apiextensions.k8s.io/"
    "v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{\"name\":"
    "\"planets.x.test\"},\"spec\":{\"group\":\"x.test\",\"scope\":\"Cluster\",\"names\":{\"plural\":"
    "\"planets\","
    "\"kind\":\"Planet\"},\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true}]}}",
    "{\"apiVersion\":\"x.test/v1\",\"kind\":\"Planet\",\"metadata\":{\"name\":\"p\"}}",
};
static const char child[] =
    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"%s\",\"namespace\":\"default\","
    "\"labels\":{\"tidelock.dev/script\":\"%s\",\"tidelock.dev/owner-uid\":\"%s\"}}}";
static const char subject[] = "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"s\","
                              "\"namespace\":\"default\",\"uid\":\"u-s\",\"resourceVersion\":\"1\"}}";
static const char script_text[] = "return { subject = 'v1/ConfigMap', reconcile = function() end }";

struct cluster {
    struct loop *loop;
    struct random random;
    struct apiserver *server;
    struct discovery *discovery;
    struct store_clock *clock;
    struct informers *informers;
    struct deps *deps;
    struct strset namespaces;
    struct script_host host;
    struct script *script;
    struct object *subject;
    struct child_stores *children;
};

// ---- the cluster

static void on_change(void *ud, struct informer *i, struct object *old, struct object *new, uint64_t revision)
{
    struct cluster *c = ud;
    (void)revision;
    deps_on_change(c->deps, i, old, new);
}

static void on_state(void *ud, struct informer *i)
{
    struct cluster *c = ud;
    (void)i;
    deps_on_state(c->deps);
}

static void on_discovery(void *ud, const struct err *e)
{
    struct cluster *c = ud;
    (void)e;
    deps_on_state(c->deps);
}

static void wake(void *ud, void *owner, const char *key)
{
    (void)ud, (void)owner, (void)key;
}

static void apply(struct cluster *c, const char *text)
{
    int status = apiserver_apply_json(c->server, "person", text, NULL);
    ASSERT(status == 200 || status == 201);
}

static void apply_child(struct cluster *c, const char *name, const char *uid)
{
    char *text = xasprintf(child, name, c->script->hash, uid);
    apply(c, text);
    free(text);
}

static void make_script(struct cluster *c)
{
    struct program_options o = {.main = {"fuzz.lua", script_text, sizeof(script_text) - 1}};
    struct program *p;
    struct json_doc *doc;
    struct grants *grants = grants_new();
    ASSERT(program_new(&o, &p, NULL) == 0);
    ASSERT(grants_add(grants, "*=Secret", NULL) == 0); // the host's key is hidden even so
    c->host = (struct script_host){.instance = "fuzz",
                                   .scripts_namespace = "tidelock-system",
                                   .host_namespace = "tidelock-system",
                                   .grants = grants,
                                   .namespaces = &c->namespaces};
    ASSERT(script_new(&c->host, "tidelock-system", "fuzz.lua", p, &c->script, NULL) == 0);
    ASSERT(json_parse(subject, sizeof(subject) - 1, &doc, NULL) == 0);
    ASSERT(object_new(gvk_parse("v1/ConfigMap", NULL), json_root(doc), &c->subject, NULL) == 0);
    json_doc_free(doc);
}

// The script's children: ConfigMaps.
static void open_children(struct cluster *c)
{
    char *labels = xasprintf("tidelock.dev/script=%s", c->script->hash);
    struct informer_scope scope = {.gvk = gvk_parse("v1/ConfigMap", NULL), .ns = "default", .labels = labels};
    struct informer_use *use = informers_acquire(c->informers, &scope, &identity_host);
    loop_run_until(c->loop, loop_now_ms(c->loop) + RUN_MS);
    ASSERT(informer_use_state(use, NULL) == INFORMER_SYNCED);
    c->children = child_stores_new(1);
    c->children->count = 1;
    c->children->items[0] = (struct child_store){
        .gvk = scope.gvk, .store = store_ref(informer_store(informer_use_get(use))), .synced = true};
    free(labels);
}

static struct cluster *cluster_new(bool confined)
{
    struct cluster *c = xcalloc(1, sizeof(*c));
    random_init(&c->random, 1);
    c->loop = loop_new(clock_virtual_new((int64_t)START_MS * 1000));
    c->server = apiserver_new(&(struct apiserver_options){.loop = c->loop, .random = &c->random});
    struct metrics *metrics = metrics_new();
    struct client *client = client_new_with(c->loop, apiserver_transport(c->server, "tidelock"), metrics);
    if (confined) {
        strset_add(&c->namespaces, "default");
        strset_add(&c->namespaces, "tidelock-system");
    }
    make_script(c);
    for (size_t i = 0; i < sizeof(objects) / sizeof(objects[0]); i++)
        apply(c, objects[i]);
    apply_child(c, "mine", "u-s");
    apply_child(c, "another", "u-t");
    c->discovery = discovery_new(client);
    c->clock = store_clock_new();
    c->informers = informers_new(&(struct informers_options){.client = client,
                                                             .discovery = c->discovery,
                                                             .clock = c->clock,
                                                             .metrics = metrics,
                                                             .namespaces = &c->namespaces,
                                                             .on_change = on_change,
                                                             .on_state = on_state,
                                                             .ud = c});
    c->deps = deps_new(c->informers, wake, c);
    discovery_on_change(c->discovery, on_discovery, c);
    discovery_refresh(c->discovery);
    loop_run_until(c->loop, loop_now_ms(c->loop) + RUN_MS);
    open_children(c);
    return c;
}

// ---- what is answered

static const char *meta(const json *o, const char *key)
{
    const char *s = json_str(json_path(o, "metadata", key, NULL));
    return s != NULL ? s : "";
}

static const char *label(const json *o, const char *key)
{
    const char *s = json_str(json_path(o, "metadata", "labels", key, NULL));
    return s != NULL ? s : "";
}

static struct json_doc *parse_given(const struct world_object *o)
{
    struct json_doc *doc;
    ASSERT(json_parse(o->json, o->len, &doc, NULL) == 0);
    const json *root = json_root(doc);
    ASSERT(strcmp(label(root, MARKS_LABEL_SCRIPTS), "true") != 0);
    ASSERT(strcmp(meta(root, "name"), HOST_KEY_SECRET) != 0);
    return doc;
}

static void check_kind(const json *o, const char *kind)
{
    const char *slash = strrchr(kind, '/');
    ASSERT(slash != NULL && strcmp(slash + 1, json_get_str(o, "kind")) == 0);
}

static bool is_owned(const json *o, const char *uid)
{
    for (struct json_iter it = json_iter(json_path(o, "metadata", "ownerReferences", NULL));
         json_next(&it);) {
        if (strcmp(json_get_str(it.value, "uid"), uid) == 0)
            return true;
    }
    return false;
}

// In order, of the kind, and within what was asked for.
static void check_list(const struct cluster *c, const struct world_query *q, const struct world_list *list)
{
    char before[1024] = "";
    for (size_t i = 0; i < list->count; i++) {
        char at[1024];
        struct json_doc *doc = parse_given(&list->items[i]);
        const json *o = json_root(doc);
        const char *ns = meta(o, "namespace");
        check_kind(o, q->kind);
        snprintf(at, sizeof(at), "%s\1%s", ns, meta(o, "name"));
        ASSERT(i == 0 || strcmp(before, at) < 0);
        memcpy(before, at, sizeof(at));
        if (ns[0] != '\0' && (q->ns == NULL || strcmp(q->ns, "*") != 0))
            ASSERT(strcmp(ns, q->ns == NULL ? "default" : q->ns) == 0);
        ASSERT(ns[0] == '\0' || c->namespaces.count == 0 || strset_has(&c->namespaces, ns));
        ASSERT(q->owner_uid == NULL || is_owned(o, q->owner_uid));
        json_doc_free(doc);
    }
}

// Selectors are kept as text that says the same.
static void check_reads(const struct reads *reads)
{
    for (size_t i = 0; i < reads->count; i++) {
        struct selector *again;
        if (reads->items[i].labels == NULL)
            continue;
        ASSERT(selector_parse(reads->items[i].labels, &again, NULL) == 0);
        ASSERT(strcmp(selector_text(again), reads->items[i].labels) == 0);
        selector_free(again);
    }
}

// ---- reads

struct line {
    char *args[ARGS_MAX]; // NULL: not given
};

static int do_get(const struct line *l, struct world_view *w, struct err *e)
{
    struct world_object o = {0};
    const char *name = l->args[2] != NULL ? l->args[2] : "";
    int r = world_view_ops.get(w, l->args[1], name, l->args[3], &o, e);
    if (r < 0 || o.json == NULL)
        return r;
    struct json_doc *doc = parse_given(&o);
    const char *ns = meta(json_root(doc), "namespace");
    check_kind(json_root(doc), l->args[1]);
    ASSERT(strcmp(meta(json_root(doc), "name"), name) == 0);
    ASSERT(ns[0] == '\0' || strcmp(ns, l->args[3] != NULL ? l->args[3] : "default") == 0);
    json_doc_free(doc);
    return 0;
}

static int do_list(const struct cluster *c, const struct line *l, struct world_view *w, struct err *e)
{
    struct world_query q = {.kind = l->args[1],
                            .ns = l->args[2],
                            .labels = l->args[3],
                            .fields = l->args[4],
                            .owner_uid = l->args[5]};
    struct world_list list = {0};
    int r = world_view_ops.list(w, &q, &list, e);
    if (r == 0)
        check_list(c, &q, &list);
    return r;
}

static int do_children(const struct line *l, struct world_view *w, struct err *e)
{
    struct world_list list = {0};
    int r = world_view_ops.children(w, l->args[1], &list, e);
    for (size_t i = 0; r == 0 && i < list.count; i++) {
        struct json_doc *doc = parse_given(&list.items[i]);
        ASSERT(strcmp(label(json_root(doc), MARKS_LABEL_OWNER), "u-s") == 0);
        json_doc_free(doc);
    }
    return r;
}

static int do_ready(const struct line *l, struct world_view *w, struct err *e)
{
    struct world_object o = {0};
    if (l->args[2] == NULL || l->args[4] == NULL)
        return 0;
    int r = world_view_ops.child(w, l->args[1], l->args[2], l->args[3], l->args[4], &o, e);
    if (r < 0 || o.json == NULL)
        return r;
    struct json_doc *doc = parse_given(&o);
    ASSERT(strcmp(meta(json_root(doc), "name"), "mine") == 0);
    json_doc_free(doc);
    return 0;
}

static int do_secret(const struct line *l, struct world_view *w, struct err *e)
{
    char out[SECRET_VALUE_MAX + 1];
    int length = l->args[2] != NULL ? atoi(l->args[2]) : 0;
    return world_view_ops.secret_value(w, l->args[1], length, l->args[3], out, e);
}

static int do_line(const struct cluster *c, const struct line *l, struct world_view *w)
{
    struct err e = {0};
    const char *what = l->args[0] != NULL ? l->args[0] : "";
    int r = 0;
    if (l->args[1] == NULL)
        return 0;
    if (strcmp(what, "get") == 0)
        r = do_get(l, w, &e);
    else if (strcmp(what, "list") == 0)
        r = do_list(c, l, w, &e);
    else if (strcmp(what, "children") == 0)
        r = do_children(l, w, &e);
    else if (strcmp(what, "ready") == 0)
        r = do_ready(l, w, &e);
    else if (strcmp(what, "secret") == 0)
        r = do_secret(l, w, &e);
    ASSERT(r == 0 || (r < 0 && e.text[0] != '\0'));
    return r;
}

// As a pass and what the loop does after it. True: something is not there yet.
static bool run_pass(struct cluster *c, const struct line *lines, size_t count)
{
    struct world_view w = {.informers = c->informers,
                           .discovery = c->discovery,
                           .script = c->script,
                           .subject = c->subject,
                           .children = c->children,
                           .revision = store_snapshot(c->clock)};
    bool parked = false;
    for (size_t i = 0; i < count; i++)
        parked = do_line(c, &lines[i], &w) == -ERR_PARKED || parked;
    ASSERT(parked == w.parked && w.reads.count <= count);
    check_reads(&w.reads);
    deps_install(c->deps, c, "default/s", &w.reads, w.revision, &identity_host);
    store_snapshot_release(c->clock, w.revision);
    world_view_fini(&w);
    return parked;
}

static size_t split(char *text, struct line *ret)
{
    size_t n = 0;
    for (char *line; n < READS_MAX && (line = strsep(&text, "\n")) != NULL; n++) {
        ret[n] = (struct line){0};
        for (size_t i = 0; i < ARGS_MAX && line != NULL; i++) {
            char *arg = strsep(&line, "|");
            ret[n].args[i] = arg[0] != '\0' ? arg : NULL;
        }
    }
    return n;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct cluster *clusters[2];
    struct line lines[READS_MAX];
    if (n < 2)
        return 0;
    bool confined = data[0] % 2 == 1;
    if (clusters[confined] == NULL)
        clusters[confined] = cluster_new(confined);
    struct cluster *c = clusters[confined];
    char *text = xmemdup(data + 1, n - 1);
    size_t count = split(text, lines);
    if (run_pass(c, lines, count)) {
        loop_run_until(c->loop, loop_now_ms(c->loop) + RUN_MS);
        ASSERT(!run_pass(c, lines, count));
    }
    deps_forget(c->deps, c, "default/s");
    free(text);
    return 0;
}
