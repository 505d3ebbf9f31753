#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "run/plan/desired.h"
#include "run/plan/plan.h"

struct target {
    const json *object;
    struct step at; // its place: patch[i]
    struct resource resource;
    const char *ns;
    const char *name;
    bool force;
};

static int read_target(const struct plan_input *in, const json *entry, struct target *t, struct err *e)
{
    t->object = json_get(entry, "object");
    t->force = json_true(json_get(entry, "force"));
    t->name = json_str(json_path(t->object, "metadata", "name", NULL));
    const struct gvk *gvk =
        gvk_of_asked(json_get_str(t->object, "apiVersion"), json_get_str(t->object, "kind"), e);
    if (gvk == NULL)
        return -ERR_INVALID;
    if (discovery_find(in->world->discovery, gvk, &t->resource) != DISCOVERY_FOUND)
        return err_set(e, ERR_NOT_FOUND, "the server has no kind %s", gvk->text);
    const char *given = json_str(json_path(t->object, "metadata", "namespace", NULL));
    const char *own = object_namespace(in->world->subject);
    if (!t->resource.namespaced && given != NULL)
        return err_set(e, ERR_INVALID, "%s is cluster-scoped: leave metadata.namespace out", gvk->text);
    t->ns = !t->resource.namespaced ? "" : given != NULL ? given : own;
    if (t->resource.namespaced && t->ns[0] == '\0')
        return err_set(e, ERR_INVALID, "the subject is cluster-scoped: give metadata.namespace");
    return script_may_write(in->world->script, gvk, t->ns, e);
}

int plan_open_store(const struct plan_input *in, const struct gvk *gvk, const char *ns, const char *name,
                    struct store **ret, struct err *e)
{
    struct informer_scope scope = {.gvk = gvk, .ns = ns, .name = name};
    struct err why = {0};
    *ret = NULL;
    enum informer_answer answer =
        informers_find_at(in->world->informers, &scope, in->world->revision, ret, &why);
    reads_add(&in->world->reads, &(struct read){.gvk = gvk,
                                                .ns = (char *)ns,
                                                .name = (char *)name,
                                                .owner_uid = name == NULL ? "-" : NULL,
                                                .answer = answer});
    if (answer == INFORMER_SYNCED)
        return 0;
    if (answer == INFORMER_SYNCING)
        return err_set(e, ERR_PARKED, "%s is not synced yet", gvk->text);
    return err_set(e, ERR_UNAVAILABLE, "%s can not be read now: %s", gvk->text, why.text);
}

static int compare_target(struct plan *p, const struct plan_input *in, const struct target *t,
                          const struct object *live, const char *manager, struct err *e)
{
    struct buf body;
    struct json_doc *doc = NULL;
    uint64_t hash;
    char *path;
    struct desired d = {.object = t->object,
                        .resource = &t->resource,
                        .name = t->name,
                        .ns = t->ns,
                        .uid = object_uid(live),
                        .type = plan_type_to_write(in, t->resource.gvk, t->object),
                        .at = &t->at};
    char *learn_id = xasprintf("%s/%s", object_uid(live), manager);
    buf_init(&body, DESIRED_BODY_MAX);
    int r = desired_write(&d, &body, e);
    if (r == 0)
        r = json_parse(body.data, body.len, &doc, e);
    bool differs = r == 0 && !plan_is_noop(in, live, manager, NULL, json_root(doc), learn_id, &hash, &path);
    if (differs)
        r = desired_check(d.type, json_root(doc), d.at, e);
    if (differs && r < 0)
        free(path);
    if (differs && r == 0) {
        struct op *o = plan_add(p, OP_PATCH, &t->resource, t->ns, t->name);
        o->uid = xstrdup(object_uid(live));
        o->live_rv = xstrdup(object_resource_version(live));
        o->body = buf_take(&body, &o->body_len);
        o->force = t->force;
        o->drops_status = t->resource.has_status && json_get(t->object, "status") != NULL;
        o->learn_id = xstrdup(learn_id);
        o->path = path;
        o->desired_hash = hash;
        memcpy(o->manager, manager, sizeof o->manager);
    }
    json_doc_free(doc);
    buf_fini(&body);
    free(learn_id);
    return plan_type_checked(in->types, t->resource.gvk, r, e);
}

static int plan_target(struct plan *p, const struct plan_input *in, const struct target *t,
                       const char *manager, struct err *e)
{
    struct store *store;
    int r = plan_open_store(in, t->resource.gvk, t->resource.namespaced ? t->ns : NULL, t->name, &store, e);
    if (r < 0)
        return r;
    struct object *live = store_get(store, in->world->revision, t->ns, t->name);
    store_unref(store);
    if (live == NULL)
        return err_set(e, ERR_NOT_FOUND,
                       "there is no such object: a patch never creates one (use apply for children)");
    r = object_is_deleting(live) ? 0 : compare_target(p, in, t, live, manager, e);
    object_unref(live);
    return r;
}

static bool is_wanted(const struct target *targets, size_t n, const struct object *o)
{
    for (size_t i = 0; i < n; i++)
        if (targets[i].name != NULL && gvk_same_group_kind(targets[i].resource.gvk, object_gvk(o)) &&
            str_eq(targets[i].name, object_name(o)) && str_eq(targets[i].ns, object_namespace(o)))
            return true;
    return false;
}

static void add_release(struct plan *p, const struct resource *resource, const struct object *o,
                        const char *manager)
{
    struct op *op = plan_add(p, OP_RELEASE, resource, object_namespace(o), object_name(o));
    struct desired bare = {.resource = resource, .name = op->name, .ns = op->ns, .uid = object_uid(o)};
    struct buf body;
    buf_init(&body, DESIRED_BODY_MAX);
    int r = desired_write(&bare, &body, NULL);
    ASSERT(r == 0);
    op->uid = xstrdup(object_uid(o));
    op->live_rv = xstrdup(object_resource_version(o));
    op->body = buf_take(&body, &op->body_len);
    memcpy(op->manager, manager, sizeof op->manager);
}

// Gives up what this subject's manager holds on objects of the kind that are no longer wanted.
static int release_kind(struct plan *p, const struct plan_input *in, const struct gvk *gvk,
                        const struct target *wanted, size_t n, const char *manager, struct err *e)
{
    struct resource resource;
    struct store *store;
    struct object_list list;
    const char *own = object_namespace(in->world->subject);
    if (discovery_find(in->world->discovery, gvk, &resource) != DISCOVERY_FOUND)
        return 0;
    const char *ns = resource.namespaced && own[0] != '\0' ? own : NULL;
    int r = plan_open_store(in, gvk, ns, NULL, &store, e);
    if (r < 0)
        return r == -ERR_PARKED ? r : 0; // it can not be read now: the state of the kind wakes the key
    store_list(store, in->world->revision, &(struct store_query){.ns = ns, .manager = manager}, &list);
    store_unref(store);
    for (size_t i = 0; i < list.count; i++)
        if (!is_wanted(wanted, n, list.items[i]) && !object_is_deleting(list.items[i]))
            add_release(p, &resource, list.items[i], manager);
    object_list_fini(&list);
    return 0;
}

int plan_patches(struct plan *p, const struct plan_input *in, struct err *e)
{
    static const struct step root, list = {.up = &root, .name = "patch"};
    const json *patch = json_get(in->result, "patch");
    const struct child_stores *known = in->world->children;
    char manager[MARKS_MANAGER_MAX];
    size_t n = json_count(patch);
    if (!json_is_array(patch))
        return 0; // absent: patches are left alone
    struct target *targets = xcalloc(n + 1, sizeof targets[0]);
    marks_patch_manager(manager, in->world->script->manager, object_uid(in->world->subject));
    int r = 0;
    for (struct json_iter i = json_iter(patch); r != -ERR_PARKED && json_next(&i);) {
        struct target *t = &targets[i.index];
        struct err why = {0};
        t->at = (struct step){.up = &list, .index = i.index + 1};
        r = read_target(in, i.value, t, &why);
        if (r == 0)
            r = plan_target(p, in, t, manager, &why);
        if (r == -ERR_PARKED)
            *e = why;
        else if (r < 0)
            plan_error_in(p, "patch", i.index, t->object, &why);
        if (r < 0 && t->ns == NULL)
            t->name = NULL;
    }
    bool readable = !p->errors;
    for (size_t i = 0; r != -ERR_PARKED && readable && known != NULL && i < known->patch_count; i++)
        r = release_kind(p, in, known->patch_kinds[i], targets, n, manager, e);
    free(targets);
    return r == -ERR_PARKED ? r : 0;
}
