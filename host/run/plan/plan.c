#include "run/plan/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kube/empties.h"
#include "kube/fields.h"
#include "run/plan/desired.h"

static const char *const op_names[] = {
    [OP_CREATE] = "create",       [OP_APPLY] = "apply",           [OP_DELETE] = "delete",
    [OP_STATUS] = "status",       [OP_PATCH] = "patch",           [OP_RELEASE] = "release",
    [OP_FINALIZER] = "finalizer", [OP_UNFINALIZE] = "unfinalize",
};

const char *op_kind_name(enum op_kind k)
{
    return op_names[k];
}

static void op_fini(struct op *o)
{
    free(o->ns);
    free(o->name);
    free(o->uid);
    free(o->live_rv);
    free(o->body);
    free(o->learn_id);
    free(o->path);
    strset_fini(&o->adopt);
}

void plan_free(struct plan *p)
{
    if (p == NULL)
        return;
    for (size_t i = 0; i < p->count; i++)
        op_fini(&p->ops[i]);
    for (size_t i = 0; i < p->event_count; i++) {
        free(p->events[i].type);
        free(p->events[i].reason);
        free(p->events[i].message);
    }
    free(p->ops);
    free(p->events);
    free(p);
}

struct op *plan_add(struct plan *p, enum op_kind kind, const struct resource *resource, const char *ns,
                    const char *name)
{
    if (p->count == p->cap) {
        p->cap = p->cap == 0 ? 4 : p->cap * 2;
        p->ops = xreallocarray(p->ops, p->cap, sizeof p->ops[0]);
    }
    struct op *o = &p->ops[p->count++];
    *o = (struct op){.kind = kind, .resource = *resource, .ns = xstrdup(ns), .name = xstrdup(name)};
    return o;
}

void plan_error(struct plan *p, const char *where, const struct err *e)
{
    struct err told = *e;
    if (where != NULL)
        err_prefix(&told, "%s", where);
    p->errors = true;
    if (p->error_count++ == 0)
        p->err = told;
    else
        err_join(&p->err, p->error_count - 1, told.text);
}

void plan_error_in(struct plan *p, const char *list, size_t index, const json *object, const struct err *e)
{
    struct err told;
    char place[64], where[256];
    const char *kind = json_get_str(object, "kind");
    const char *name = json_str(json_path(object, "metadata", "name", NULL));
    int n = snprintf(place, sizeof place, "%s[%zu]", list, index + 1);
    snprintf(where, sizeof where, "%s (%s %s)", place, kind == NULL ? "" : kind, name == NULL ? "" : name);
    if (strncmp(e->text, place, (size_t)n) != 0) {
        plan_error(p, where, e);
        return;
    }
    err_set(&told, (enum err_code) - e->code, "%s%s", e->text, where + n);
    plan_error(p, NULL, &told);
}

const struct schema_node *plan_type_to_write(const struct plan_input *in, const struct gvk *gvk,
                                             const json *object)
{
    const struct plan_type *type = plan_type_of(in->types, gvk);
    if (type->not_yet && empties_any(object))
        in->types->awaited = true;
    return type->node;
}

bool plan_is_noop(const struct plan_input *in, const struct object *live, const char *manager,
                  const char *subresource, const json *desired, const char *learn_id,
                  uint64_t *ret_desired_hash, char **ret_path)
{
    size_t n;
    struct buf path;
    struct json_doc *managed = NULL, *doc = object_parse(live);
    const char *text = object_managed(live, &n);
    const json *owned = NULL;
    if (json_parse(text, n, &managed, NULL) == 0)
        owned = fields_of_manager(json_root(managed), manager, subresource);
    buf_init(&path, 4096);
    const struct plan_type *type = plan_type_of(in->types, object_gvk(live));
    enum fields_verdict v = fields_compare(owned, desired, json_root(doc), type->node, &path);
    bool noop = v == FIELDS_SAME;
    if (!noop) {
        *ret_desired_hash = json_hash(desired);
        noop = owned != NULL && learned_same(in->learned, learn_id, *ret_desired_hash,
                                             fields_hash_owned(owned, json_root(doc)));
    }
    if (!noop && owned != NULL && type->not_yet) { // it may be the same in other words
        in->types->awaited = true;
        noop = true;
    }
    *ret_path = noop ? NULL : buf_take(&path, NULL);
    buf_fini(&path);
    json_doc_free(managed);
    json_doc_free(doc);
    return noop;
}

static void add_event(struct plan *p, const char *type, const char *reason, const char *message)
{
    p->events[p->event_count++] =
        (struct plan_event){.type = xstrdup(type), .reason = xstrdup(reason), .message = xstrdup(message)};
}

// The script's, and one of the host's own where so many children go that it may be a mistake.
static void set_events(struct plan *p, const json *events)
{
    enum { PRUNED_TOLD = 20 };
    char text[100];
    p->events = xcalloc(json_count(events) + 1, sizeof p->events[0]);
    for (struct json_iter i = json_iter(events); json_next(&i);)
        add_event(p, json_get_str(i.value, "type"), json_get_str(i.value, "reason"),
                  json_get_str(i.value, "message"));
    if (p->pruned < PRUNED_TOLD)
        return;
    snprintf(text, sizeof text, "%zu children that the script no longer returns are deleted", p->pruned);
    add_event(p, "Normal", "Pruned", text);
}

int plan_make(const struct plan_input *in, struct plan **ret, struct err *e)
{
    struct plan *p = xcalloc(1, sizeof *p);
    const json *apply = json_get(in->result, "apply");
    if (json_is_array(apply))
        plan_children(p, in, apply);
    int r = plan_patches(p, in, e);
    if (r == 0)
        r = plan_deletes(p, in, e);
    if (r < 0) {
        plan_free(p);
        return r;
    }
    plan_status(p, in);
    p->finalizing = in->finalizing;
    if (in->finalizing)
        plan_finalization(p, in);
    else
        plan_finalizer(p, in);
    set_events(p, json_get(in->result, "events"));
    p->requeue_us = json_get_int(in->result, "requeue_after_us", 0);
    if (in->types != NULL && in->types->awaited) {
        plan_free(p);
        return err_set(e, ERR_PARKED, "the schema of a kind is still to come");
    }
    *ret = p;
    return 0;
}
