#include "run/release/release.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/json_write.h"
#include "kube/discovery.h"
#include "kube/metadata_list.h"
#include "run/apply/inventory.h"
#include "run/release/release_edit.h"

enum { TRIES = 5, PATCH_MAX = 4 << 20 };

// One object to be changed.
struct work {
    struct work *next;
    char *ns, *name, *uid;
    char *patch_manager;   // its fields are released, by an apply; NULL: a JSON patch
    struct json_doc *seen; // a document whose member "metadata" the patch is made for
    unsigned tries;
};

struct release {
    struct release_options o;
    struct release_identity from, to;
    struct discovery *discovery;
    bool discovered;
    struct inventory_kind *kinds;
    size_t count;
    char *inventory_uid;
    enum release_role role;
    size_t kind, ns; // where the walk is
    struct resource resource;
    struct metadata_list *list;
    struct work *work;
    struct call *call;
    size_t done, failed;
    struct err err; // the first
};

static void walk_on(struct release *r);
static void work_on(struct release *r);
static void send_patch(struct release *r);

static const struct release_identity *heir(const struct release *r)
{
    return r->o.to == NULL ? NULL : &r->to;
}

static const struct resource *config_maps(void)
{
    static struct resource r = {.plural = "configmaps", .namespaced = true};
    r.gvk = gvk_parse("v1/ConfigMap", NULL);
    return &r;
}

static void send(struct release *r, enum transport_method method, const struct resource *resource,
                 const char *ns, const char *name, const char *query, const char *type,
                 const struct buf *body, void (*on_done)(void *ud, struct client_result *res))
{
    struct buf path;
    buf_init(&path, 64 << 10);
    resource_path(resource, ns, name, NULL, query, &path);
    r->call = client_send(r->o.client,
                          &(struct client_request){.method = method,
                                                   .path = path.data,
                                                   .content_type = type,
                                                   .body = body == NULL ? NULL : body->data,
                                                   .body_len = body == NULL ? 0 : body->len,
                                                   .as = &identity_host},
                          on_done, r);
    buf_fini(&path);
}

static void say(struct release *r, const char *what)
{
    static const char *const roles[] = {"child", "patched", "subject"};
    const struct work *x = r->work;
    char *line = xasprintf("%s %s %s%s%s: %s%s", roles[r->role], r->resource.gvk->text, x->ns,
                           x->ns[0] == '\0' ? "" : "/", x->name, r->o.dry_run ? "would be " : "", what);
    r->o.say(r->o.ud, line);
    free(line);
}

static void fail(struct release *r, const char *what, const struct err *why)
{
    if (r->failed++ == 0)
        err_set(&r->err, (enum err_code) - why->code, "%s: %s", what, why->text);
    char *line = xasprintf("failed: %s: %s", what, why->text);
    r->o.say(r->o.ud, line);
    free(line);
}

static void finish(struct release *r, int code, const struct err *e)
{
    r->o.on_done(r->o.ud, code, e, r->done);
}

// ---- the inventories

static void on_inventory_gone(void *ud, struct client_result *res)
{
    struct release *r = ud;
    r->call = NULL;
    if (res->failure != NULL && res->failure->http != 404)
        fail(r, "the inventory", &res->failure->err);
    finish(r, r->failed > 0 ? r->err.code : 0, &r->err);
}

static void end(struct release *r)
{
    struct buf body;
    if (r->failed > 0 || r->o.dry_run) { // with something left it is needed again
        finish(r, r->failed > 0 ? r->err.code : 0, &r->err);
        return;
    }
    char *name = inventory_name(r->from.hash);
    buf_init(&body, 4096);
    buf_addf(&body, "{\"apiVersion\":\"v1\",\"kind\":\"DeleteOptions\",\"preconditions\":{\"uid\":\"%s\"}}",
             r->inventory_uid);
    send(r, METHOD_DELETE, config_maps(), r->o.namespace_, name, NULL, "application/json", &body,
         on_inventory_gone);
    buf_fini(&body);
    free(name);
}

static void on_heir_written(void *ud, struct client_result *res)
{
    struct release *r = ud;
    r->call = NULL;
    if (res->failure != NULL)
        finish(r, res->failure->code, &res->failure->err);
    else
        walk_on(r);
}

static bool is_there(const struct release *r, const struct inventory_kind *k)
{
    struct resource resource;
    return discovery_find_group_kind(r->discovery, k->group, k->kind, &resource) != DISCOVERY_UNKNOWN;
}

// A script looks after subjects of one kind. True: the heir has some of another one, and it was said.
static bool refuse_other_subjects(struct release *r, const struct inventory_kind *his, size_t n)
{
    for (size_t i = 0; i < n * r->count; i++) {
        const struct inventory_kind *x = &his[i / r->count], *y = &r->kinds[i % r->count];
        bool same = str_eq(x->group, y->group) && str_eq(x->kind, y->kind);
        if (same || !x->subject || !y->subject || !is_there(r, x) || !is_there(r, y))
            continue;
        struct err e;
        int code =
            err_set(&e, ERR_CONFLICT,
                    "--adopt-by %s/%s: its subjects are of kind %s%s%s, those of %s/%s of kind %s%s%s, "
                    "and a script looks after one kind only: name a script of that kind, or leave "
                    "--adopt-by out",
                    r->o.to_ns, r->o.to, x->group, x->group[0] == '\0' ? "" : "/", x->kind, r->o.script_ns,
                    r->o.script, y->group, y->group[0] == '\0' ? "" : "/", y->kind);
        finish(r, code, &e);
        return true;
    }
    return false;
}

// What the heir is to look after stands in his inventory before the first object is his.
static void write_heir(struct release *r, struct inventory_kind *his, size_t n)
{
    his = xreallocarray(his, n + r->count + 1, sizeof his[0]);
    memcpy(his + n, r->kinds, r->count * sizeof his[0]);
    char *name = inventory_name(r->to.hash), *script = xasprintf("%s/%s", r->o.to_ns, r->o.to);
    struct buf body;
    buf_init(&body, 1 << 20);
    inventory_write(&body, r->o.namespace_, name, script, his, n + r->count);
    send(r, METHOD_PATCH, config_maps(), r->o.namespace_, name, "fieldManager=tidelock&force=true",
         "application/apply-patch+yaml", &body, on_heir_written);
    buf_fini(&body);
    free(name);
    free(script);
    inventory_kinds_free(his, n); // the rest is r's
}

static void on_heir(void *ud, struct client_result *res)
{
    struct release *r = ud;
    r->call = NULL;
    if (res->failure != NULL && res->failure->http != 404) {
        finish(r, res->failure->code, &res->failure->err);
        return;
    }
    struct inventory_kind *his = NULL;
    size_t n = res->failure == NULL ? inventory_read(json_root(res->doc), &his) : 0;
    bool refused = refuse_other_subjects(r, his, n);
    if (!refused && !r->o.dry_run) {
        write_heir(r, his, n);
        return;
    }
    inventory_kinds_free(his, n);
    if (!refused)
        walk_on(r);
}

static void on_inventory(void *ud, struct client_result *res)
{
    struct release *r = ud;
    struct err e;
    r->call = NULL;
    if (res->failure != NULL) {
        e = res->failure->err;
        if (res->failure->http == 404)
            err_set(
                &e, ERR_NOT_FOUND,
                "there is no inventory of script %s/%s (instance %s) in namespace %s: nothing to release, or "
                "another --namespace-of-script, --instance or --namespace",
                r->o.script_ns, r->o.script, r->o.instance, r->o.namespace_);
        finish(r, res->failure->http == 404 ? -ERR_NOT_FOUND : res->failure->code, &e);
        return;
    }
    r->count = inventory_read(json_root(res->doc), &r->kinds);
    r->inventory_uid = xstrdup(json_str(json_path(json_root(res->doc), "metadata", "uid", NULL)));
    if (r->o.to == NULL) {
        walk_on(r);
        return;
    }
    char *name = inventory_name(r->to.hash);
    send(r, METHOD_GET, config_maps(), r->o.namespace_, name, NULL, NULL, NULL, on_heir);
    free(name);
}

// ---- the objects

static void add_work(struct release *r, const json *item, const char *patch_manager)
{
    const json *metadata = json_get(item, "metadata");
    const char *ns = json_get_str(metadata, "namespace");
    struct work *x = xcalloc(1, sizeof *x);
    char *text = NULL;
    size_t n;
    if (json_print(item, PATCH_MAX, &text, &n, NULL) < 0 || json_parse(text, n, &x->seen, NULL) < 0) {
        free(text);
        free(x);
        return; // beyond what the server itself takes
    }
    free(text);
    x->ns = xstrdup(ns == NULL ? "" : ns);
    x->name = xstrdup(json_get_str(metadata, "name"));
    x->uid = xstrdup(json_get_str(metadata, "uid"));
    x->patch_manager = xstrdup(patch_manager);
    x->next = r->work;
    r->work = x;
}

static void drop_work(struct release *r)
{
    struct work *x = r->work;
    r->work = x->next;
    json_doc_free(x->seen);
    free(x->ns);
    free(x->name);
    free(x->uid);
    free(x->patch_manager);
    free(x);
}

static void on_page(void *ud, const json *items)
{
    struct release *r = ud;
    for (struct json_iter i = json_iter(items); json_next(&i);) {
        const json *metadata = json_get(i.value, "metadata");
        if (!release_edit_concerns(r->role, &r->from, metadata))
            continue;
        if (r->role != RELEASE_PATCHED || r->o.to != NULL) {
            add_work(r, i.value, NULL);
            continue;
        }
        for (struct json_iter m = json_iter(json_get(metadata, "managedFields")); json_next(&m);)
            if (release_edit_patch_manager(&r->from, m.value) != NULL)
                add_work(r, i.value, release_edit_patch_manager(&r->from, m.value));
    }
    work_on(r);
}

static void on_list_end(void *ud, const struct api_status *why)
{
    struct release *r = ud;
    if (why != NULL && why->http != 404) {
        char *what = xasprintf("list of %s", r->resource.gvk->text);
        fail(r, what, &why->err);
        free(what);
    }
    metadata_list_free(r->list);
    r->list = NULL;
    r->ns++;
    walk_on(r);
}

static bool is_of_role(const struct inventory_kind *k, enum release_role role)
{
    return k->subject   ? role == RELEASE_SUBJECT
           : k->patched ? role == RELEASE_PATCHED
                        : role == RELEASE_CHILD;
}

static void list_kind(struct release *r, const char *ns)
{
    char *labels = r->role == RELEASE_CHILD ? xasprintf("%s=%s", MARKS_LABEL_SCRIPT, r->from.hash) : NULL;
    r->list = metadata_list_new(&(struct metadata_list_options){.client = r->o.client,
                                                                .resource = r->resource,
                                                                .ns = ns,
                                                                .labels = labels,
                                                                .as = &identity_host,
                                                                .on_page = on_page,
                                                                .on_end = on_list_end,
                                                                .ud = r});
    free(labels);
    metadata_list_next(r->list);
}

// A kind that is gone has no objects; one whose group does not answer now may have.
static bool is_served(struct release *r, const struct inventory_kind *k)
{
    struct err why;
    enum discovery_answer answer = discovery_find_group_kind(r->discovery, k->group, k->kind, &r->resource);
    if (answer == DISCOVERY_UNAVAILABLE || answer == DISCOVERY_NOT_LOADED) {
        err_set(&why, ERR_UNAVAILABLE, "the server can not tell about it now: try again later");
        fail(r, k->kind, &why);
    }
    return answer == DISCOVERY_FOUND;
}

// Children first: a subject that waits for its finalizer may vanish with it, and take them along.
static void walk_on(struct release *r)
{
    size_t namespaces = r->o.namespaces == NULL ? 0 : r->o.namespaces->count;
    for (; r->role <= RELEASE_SUBJECT; r->role++, r->kind = 0) {
        for (; r->kind < r->count; r->kind++, r->ns = 0) {
            const struct inventory_kind *k = &r->kinds[r->kind];
            if (!is_of_role(k, r->role) || !is_served(r, k))
                continue;
            bool all = namespaces == 0 || !r->resource.namespaced;
            if (r->ns >= (all ? 1 : namespaces))
                continue;
            list_kind(r, all ? NULL : r->o.namespaces->items[r->ns]);
            return;
        }
    }
    end(r);
}

// ---- one object

static const json *seen_metadata(const struct release *r)
{
    return json_get(json_root(r->work->seen), "metadata");
}

static void end_work(struct release *r, const struct api_status *failure, const char *what)
{
    bool gone = failure != NULL && (failure->http == 404 || (failure->http == 409 && r->work->patch_manager));
    if (failure == NULL || gone) {
        say(r, gone ? "gone meanwhile" : what);
        r->done++;
    } else {
        char *object = xasprintf("%s %s%s%s", r->resource.gvk->text, r->work->ns,
                                 r->work->ns[0] == '\0' ? "" : "/", r->work->name);
        fail(r, object, &failure->err);
        free(object);
    }
    drop_work(r);
    work_on(r);
}

static void on_seen_again(void *ud, struct client_result *res)
{
    struct release *r = ud;
    r->call = NULL;
    if (res->failure != NULL) {
        end_work(r, res->failure, "");
        return;
    }
    json_doc_free(r->work->seen);
    r->work->seen = client_result_take_doc(res);
    if (release_edit_concerns(r->role, &r->from, seen_metadata(r)))
        send_patch(r);
    else
        end_work(r, NULL, "free already");
}

static void on_entries(void *ud, struct client_result *res)
{
    struct release *r = ud;
    r->call = NULL;
    // Lost against another writer: the heir's next pass sets the one label once more.
    end_work(r, res->failure != NULL && res->failure->http == 409 ? NULL : res->failure, "handed over");
}

static const char *what_was_done(const struct release *r)
{
    if (r->o.to != NULL)
        return "handed over";
    return r->role == RELEASE_PATCHED ? "released" : r->role == RELEASE_SUBJECT ? "freed" : "handed back";
}

static void on_patched(void *ud, struct client_result *res)
{
    struct release *r = ud;
    r->call = NULL;
    bool conflict = res->failure != NULL && (res->failure->http == 409 || res->failure->http == 422);
    if (conflict && r->work->patch_manager == NULL && ++r->work->tries < TRIES) {
        send(r, METHOD_GET, &r->resource, r->work->ns, r->work->name, NULL, NULL, NULL, on_seen_again);
        return;
    }
    if (res->failure != NULL || r->o.to == NULL || r->role != RELEASE_CHILD) {
        end_work(r, res->failure, what_was_done(r));
        return;
    }
    struct buf body;
    buf_init(&body, PATCH_MAX);
    release_edit_write_entries(&r->from, &r->to, seen_metadata(r), json_get(json_root(res->doc), "metadata"),
                               &body);
    send(r, METHOD_PATCH, &r->resource, r->work->ns, r->work->name, "fieldManager=tidelock-release",
         "application/json-patch+json", &body, on_entries);
    buf_fini(&body);
}

static void write_bare(const struct release *r, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    jw_member_str(&w, "apiVersion", r->resource.gvk->api_version);
    jw_member_str(&w, "kind", r->resource.gvk->kind);
    jw_key(&w, "metadata");
    jw_object(&w);
    jw_member_str(&w, "name", r->work->name);
    if (r->work->ns[0] != '\0')
        jw_member_str(&w, "namespace", r->work->ns);
    jw_member_str(&w, "uid", r->work->uid);
    jw_object_end(&w);
    jw_object_end(&w);
}

static void send_patch(struct release *r)
{
    const struct work *x = r->work;
    struct buf body, query;
    buf_init(&body, PATCH_MAX);
    buf_init(&query, 4096);
    if (x->patch_manager != NULL)
        write_bare(r, &body);
    else
        release_edit_write(r->role, &r->from, heir(r), seen_metadata(r), &body);
    resource_query_add(&query, "fieldManager",
                       x->patch_manager != NULL ? x->patch_manager : "tidelock-release");
    send(r, METHOD_PATCH, &r->resource, x->ns, x->name, query.data,
         x->patch_manager != NULL ? "application/apply-patch+yaml" : "application/json-patch+json", &body,
         on_patched);
    buf_fini(&body);
    buf_fini(&query);
}

static void work_on(struct release *r)
{
    for (; r->work != NULL && r->o.dry_run; drop_work(r)) {
        say(r, what_was_done(r));
        r->done++;
    }
    if (r->work != NULL)
        send_patch(r);
    else
        metadata_list_next(r->list);
}

// ---- life

static void on_discovery(void *ud, const struct err *e)
{
    struct release *r = ud;
    if (r->discovered)
        return;
    if (discovery_count(r->discovery) == 0) {
        if (e != NULL)
            finish(r, e->code, e);
        r->discovered = e != NULL;
        return;
    }
    r->discovered = true;
    char *name = inventory_name(r->from.hash);
    send(r, METHOD_GET, config_maps(), r->o.namespace_, name, NULL, NULL, NULL, on_inventory);
    free(name);
}

struct release *release_start(const struct release_options *o)
{
    struct release *r = xcalloc(1, sizeof *r);
    r->o = *o;
    release_identity_init(&r->from, o->instance, o->script_ns, o->script);
    if (o->to != NULL)
        release_identity_init(&r->to, o->instance, o->to_ns, o->to);
    r->discovery = discovery_new(o->client);
    discovery_on_change(r->discovery, on_discovery, r);
    discovery_refresh(r->discovery);
    return r;
}

void release_free(struct release *r)
{
    if (r == NULL)
        return;
    if (r->call != NULL)
        call_cancel(r->call);
    metadata_list_free(r->list);
    while (r->work != NULL)
        drop_work(r);
    discovery_free(r->discovery);
    inventory_kinds_free(r->kinds, r->count);
    free(r->inventory_uid);
    free(r);
}
