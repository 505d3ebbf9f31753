// `delete`: objects that the script wants gone and that are not its children.

#include <stdio.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "run/plan/plan_child.h"

struct reference {
    struct resource resource;
    const char *ns, *name, *uid; // ns "" for cluster-scoped; uid NULL: whichever it is
};

static int read_reference(const struct plan_input *in, const json *ref, struct reference *r, struct err *e)
{
    const char *given = json_str(json_path(ref, "metadata", "namespace", NULL));
    const char *own = object_namespace(in->world->subject);
    const struct gvk *gvk = gvk_of_asked(json_get_str(ref, "apiVersion"), json_get_str(ref, "kind"), e);
    r->name = json_str(json_path(ref, "metadata", "name", NULL));
    r->uid = json_str(json_path(ref, "metadata", "uid", NULL));
    if (gvk == NULL)
        return -ERR_INVALID;
    switch (discovery_find(in->world->discovery, gvk, &r->resource)) {
    case DISCOVERY_FOUND:
        break;
    case DISCOVERY_UNKNOWN:
        r->name = NULL; // without the kind there is no object
        return 0;
    default:
        return err_set(e, ERR_UNAVAILABLE, "the server can not tell about %s now", gvk->text);
    }
    if (!r->resource.namespaced && given != NULL)
        return err_set(e, ERR_INVALID, "%s is cluster-scoped: leave metadata.namespace out", gvk->text);
    r->ns = !r->resource.namespaced ? "" : given != NULL ? given : own;
    if (r->resource.namespaced && r->ns[0] == '\0')
        return err_set(e, ERR_INVALID, "the subject is cluster-scoped: give metadata.namespace");
    if (!resource_name_ok(r->name))
        return err_set(e, ERR_INVALID, "metadata.name: \"%s\" is not a name", r->name);
    return script_may_write(in->world->script, gvk, r->ns, e);
}

// Does an entry of `list` name the same object? Entries of apply hold theirs under "object".
static bool is_applied(const struct plan_input *in, const struct reference *r)
{
    for (struct json_iter i = json_iter(json_get(in->result, "apply")); json_next(&i);) {
        const json *object = json_get(i.value, "object");
        const char *ns = json_str(json_path(object, "metadata", "namespace", NULL));
        const struct gvk *gvk =
            gvk_of_asked(json_get_str(object, "apiVersion"), json_get_str(object, "kind"), NULL);
        if (!r->resource.namespaced)
            ns = "";
        else if (ns == NULL)
            ns = object_namespace(in->world->subject);
        if (gvk != NULL && gvk_same_group_kind(gvk, r->resource.gvk) && str_eq(ns, r->ns) &&
            str_eq(json_str(json_path(object, "metadata", "name", NULL)), r->name))
            return true;
    }
    return false;
}

static bool is_planned(const struct plan *p, const struct object *live)
{
    for (size_t i = 0; i < p->count; i++)
        if (p->ops[i].kind == OP_DELETE && str_eq(p->ops[i].uid, object_uid(live)))
            return true; // pruned, or named twice
    return false;
}

static int check_live(const struct plan_input *in, const struct object *live, struct err *e)
{
    const char *owner = object_label(live, MARKS_LABEL_OWNER);
    bool ours = str_eq(object_label(live, MARKS_LABEL_SCRIPT), in->world->script->hash) &&
                object_has_manager(live, in->world->script->manager);
    if (ours && !str_eq(owner, object_uid(in->world->subject)))
        return err_set(
            e, ERR_CONFLICT,
            "it is the child of another subject of this script, which would make it again: leave it "
            "out of that one's apply instead");
    return 0;
}

static int plan_reference(struct plan *p, const struct plan_input *in, const json *ref, struct err *e)
{
    struct reference r = {0};
    struct store *store;
    int result = read_reference(in, ref, &r, e);
    if (result < 0 || r.name == NULL)
        return result;
    if (is_applied(in, &r))
        return err_set(e, ERR_INVALID, "the same object stands in apply: it can not be wanted and unwanted");
    result = plan_open_store(in, r.resource.gvk, r.resource.namespaced ? r.ns : NULL, r.name, &store, e);
    if (result < 0)
        return result;
    struct object *live = store_get(store, in->world->revision, r.ns, r.name);
    store_unref(store);
    bool there =
        live != NULL && !object_is_deleting(live) && (r.uid == NULL || str_eq(r.uid, object_uid(live)));
    if (there)
        result = check_live(in, live, e);
    if (there && result == 0 && !is_planned(p, live)) {
        struct op *op = plan_add(p, OP_DELETE, &r.resource, r.ns, r.name);
        op->uid = xstrdup(object_uid(live));
        op->live_rv = xstrdup(object_resource_version(live));
        op->by_reference = true;
    }
    object_unref(live);
    return result;
}

int plan_deletes(struct plan *p, const struct plan_input *in, struct err *e)
{
    for (struct json_iter i = json_iter(json_get(in->result, "delete")); json_next(&i);) {
        struct err why = {0};
        char where[256];
        int r = plan_reference(p, in, i.value, &why);
        if (r == -ERR_PARKED) {
            *e = why;
            return r;
        }
        snprintf(where, sizeof where, "delete[%zu] (%s %s)", i.index + 1, json_get_str(i.value, "kind"),
                 json_str(json_path(i.value, "metadata", "name", NULL)));
        if (r < 0)
            plan_error(p, where, &why);
    }
    return 0;
}
