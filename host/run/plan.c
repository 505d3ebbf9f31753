#include "run/plan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/quantity.h"
#include "kube/fields.h"
#include "run/desired.h"

static const char *const op_names[] = {
    [OP_CREATE] = "create", [OP_APPLY] = "apply", [OP_DELETE] = "delete",
    [OP_STATUS] = "status", [OP_PATCH] = "patch", [OP_RELEASE] = "release",
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
    p->errors = true;
    p->error_count++;
    if (p->error_count == 1)
        err_set(&p->err, (enum err_code) - e->code, "%s: %s", where, e->text);
    else if (p->error_count <= 5) {
        struct err first = p->err;
        err_set(&p->err, (enum err_code) - first.code, "%.700s; %s: %.200s", first.text, where, e->text);
    }
}

// Quantities are spelt in many ways; only under keys that hold them is "1000m" another spelling of "1".
static bool equal_in_meaning(void *ud, const char *path, const json *desired, const json *live)
{
    (void)ud;
    char number[32];
    if (json_equal(desired, live))
        return true;
    bool quantities = strstr(path, ".requests.") != NULL || strstr(path, ".limits.") != NULL ||
                      str_has_suffix(path, ".sizeLimit");
    const char *a = json_str(desired), *b = json_str(live);
    int64_t n;
    if (a == NULL && json_int(desired, &n) == 0) {
        snprintf(number, sizeof number, "%lld", (long long)n);
        a = number;
    }
    return quantities && a != NULL && b != NULL && quantity_valid(a) && quantity_valid(b) &&
           quantity_compare(a, b) == 0;
}

bool plan_is_noop(const struct plan_input *in, const struct object *live, const char *manager,
                  const char *subresource, const json *desired, const char *learn_id,
                  uint64_t *ret_desired_hash)
{
    size_t n;
    struct json_doc *managed = NULL, *doc = object_parse(live);
    const char *text = object_managed(live, &n);
    const json *owned = NULL;
    if (json_parse(text, n, &managed, NULL) == 0)
        owned = fields_of_manager(json_root(managed), manager, subresource);
    *ret_desired_hash = json_hash(desired);
    enum fields_verdict v = fields_compare(owned, desired, json_root(doc), equal_in_meaning, NULL, NULL);
    bool noop = v == FIELDS_SAME || (owned != NULL && learned_same(in->learned, learn_id, *ret_desired_hash,
                                                                   fields_hash_owned(owned, json_root(doc))));
    json_doc_free(managed);
    json_doc_free(doc);
    return noop;
}

// ---- children

struct child {
    const json *entry;
    const json *object;
    struct resource resource;
    const char *ns; // "" for cluster-scoped
    const char *name;
};

static int child_resource(const struct plan_input *in, struct child *c, struct err *e)
{
    const struct gvk *gvk = gvk_of(json_get_str(c->object, "apiVersion"), json_get_str(c->object, "kind"), e);
    if (gvk == NULL)
        return -ERR_INVALID;
    switch (discovery_find(in->world->discovery, gvk, &c->resource)) {
    case DISCOVERY_FOUND:
        return 0;
    case DISCOVERY_UNKNOWN:
        return err_set(e, ERR_NOT_FOUND,
                       "the server has no kind %s: check apiVersion and kind, or install its CRD", gvk->text);
    default:
        return err_set(e, ERR_UNAVAILABLE, "the server can not tell about %s now", gvk->text);
    }
}

static int child_namespace(const struct plan_input *in, struct child *c, struct err *e)
{
    const char *own = object_namespace(in->world->subject);
    const char *given = json_str(json_path(c->object, "metadata", "namespace", NULL));
    if (!c->resource.namespaced) {
        if (given != NULL)
            return err_set(e, ERR_INVALID, "%s is cluster-scoped: leave metadata.namespace out",
                           c->resource.gvk->text);
        if (own[0] != '\0')
            return err_set(e, ERR_UNSUPPORTED,
                           "a namespaced subject can not own a cluster-scoped child yet: the garbage "
                           "collector would not collect it");
        c->ns = "";
        return 0;
    }
    c->ns = given != NULL ? given : own;
    if (c->ns[0] == '\0')
        return err_set(e, ERR_INVALID, "the subject is cluster-scoped: give metadata.namespace");
    if (own[0] != '\0' && !str_eq(c->ns, own))
        return err_set(e, ERR_UNSUPPORTED,
                       "namespace %s is not the subject's (%s): a child there is not supported yet, the "
                       "garbage collector would not collect it",
                       c->ns, own);
    return 0;
}

static int read_child(const struct plan_input *in, struct child *c, struct err *e)
{
    c->name = json_str(json_path(c->object, "metadata", "name", NULL));
    int r = child_resource(in, c, e);
    if (r == 0)
        r = child_namespace(in, c, e);
    if (r == 0 && !resource_name_ok(c->name))
        r = err_set(e, ERR_INVALID, "metadata.name: \"%s\" is not a name", c->name == NULL ? "" : c->name);
    if (r == 0)
        r = script_may_write(in->world->script, c->resource.gvk, c->ns, e);
    return r;
}

static struct desired child_desired(const struct plan_input *in, const struct child *c, const char *uid)
{
    return (struct desired){.object = c->object,
                            .name = c->name,
                            .resource = &c->resource,
                            .ns = c->ns,
                            .uid = uid,
                            .script_hash = in->world->script->hash,
                            .owner = in->world->subject};
}

static bool has_manager(const struct object *o, const char *manager)
{
    const char *const *managers;
    size_t n = object_managers(o, &managers);
    for (size_t i = 0; i < n; i++)
        if (str_eq(managers[i], manager))
            return true;
    return false;
}

// Is there a complete store that shows there is no such object?
static bool is_known_absent(const struct plan_input *in, const struct child *c)
{
    struct store *store;
    struct informer_scope scope = {
        .gvk = c->resource.gvk, .ns = c->resource.namespaced ? c->ns : NULL, .name = c->name};
    if (informers_find_at(in->world->informers, &scope, in->world->revision, &store, NULL) != INFORMER_SYNCED)
        return false;
    struct object *o = store_get(store, in->world->revision, c->ns, c->name);
    store_unref(store);
    object_unref(o);
    return o == NULL;
}

static int add_write(struct plan *p, const struct plan_input *in, const struct child *c,
                     const struct object *live, const char *learn_id, uint64_t desired_hash, struct err *e)
{
    struct buf body;
    struct desired d = child_desired(in, c, live == NULL ? NULL : object_uid(live));
    buf_init(&body, DESIRED_BODY_MAX);
    int r = desired_write(&d, &body, e);
    if (r < 0) {
        buf_fini(&body);
        return r;
    }
    struct op *o = plan_add(p, live == NULL ? OP_CREATE : OP_APPLY, &c->resource, c->ns, c->name);
    o->body = buf_take(&body, &o->body_len);
    o->force = live != NULL;
    o->desired_hash = desired_hash;
    o->learn_id = xstrdup(learn_id);
    memcpy(o->manager, in->world->script->manager, sizeof o->manager);
    if (live != NULL) {
        o->uid = xstrdup(object_uid(live));
        o->live_rv = xstrdup(object_resource_version(live));
        return 0;
    }
    o->known_absent = is_known_absent(in, c);
    for (struct json_iter i = json_iter(json_get(c->entry, "adopt")); json_next(&i);)
        if (json_str(i.value) != NULL)
            strset_add(&o->adopt, json_str(i.value));
    return 0;
}

// A live object with our script's label, under the name we want: may we apply to it?
static int check_ours(const struct plan_input *in, const struct object *live, struct err *e)
{
    const char *owner = object_label(live, MARKS_LABEL_OWNER);
    if (owner == NULL || !str_eq(owner, object_uid(in->world->subject)))
        return err_set(
            e, ERR_CONFLICT,
            "it belongs to another subject of this script (owner UID %s): two subjects want one child",
            owner == NULL ? "unknown" : owner);
    if (!has_manager(live, in->world->script->manager))
        return err_set(e, ERR_CONFLICT,
                       "it carries this script's labels, but the script never applied it: remove the labels "
                       "or the object");
    return 0;
}

static int compare_child(struct plan *p, const struct plan_input *in, const struct child *c,
                         const struct object *live, const struct buf *body, struct err *e)
{
    struct json_doc *doc;
    uint64_t hash;
    int r = json_parse(body->data, body->len, &doc, e);
    if (r < 0)
        return r;
    if (live == NULL)
        r = add_write(p, in, c, NULL, NULL, json_hash(json_root(doc)), e);
    else if (!plan_is_noop(in, live, in->world->script->manager, NULL, json_root(doc), object_uid(live),
                           &hash))
        r = add_write(p, in, c, live, object_uid(live), hash, e);
    json_doc_free(doc);
    return r;
}

static int plan_child(struct plan *p, const struct plan_input *in, const struct child *c, struct err *e)
{
    struct object *live =
        in->world->children == NULL
            ? NULL
            : child_stores_get(in->world->children, in->world->revision, c->resource.gvk, c->ns, c->name);
    int r = 0;
    struct desired d = child_desired(in, c, NULL);
    struct buf body;
    buf_init(&body, DESIRED_BODY_MAX);
    if (live == NULL || !object_is_deleting(live)) { // its deletion wakes this key
        r = live == NULL ? 0 : check_ours(in, live, e);
        if (r == 0)
            r = desired_write(&d, &body, e);
        if (r == 0)
            r = compare_child(p, in, c, live, &body, e);
    }
    buf_fini(&body);
    object_unref(live);
    return r;
}

static bool same_child(const struct child *a, const struct child *b)
{
    return gvk_same_group_kind(a->resource.gvk, b->resource.gvk) && str_eq(a->ns, b->ns) &&
           str_eq(a->name, b->name);
}

static const struct child *find_twin(const struct child *children, size_t n, const struct child *c)
{
    for (size_t i = 0; i < n; i++)
        if (children[i].name != NULL && same_child(&children[i], c))
            return &children[i];
    return NULL;
}

static void prune(struct plan *p, const struct plan_input *in, const struct child *wanted, size_t n)
{
    struct object_list list;
    if (in->world->children == NULL)
        return;
    child_stores_list(in->world->children, in->world->revision, NULL, object_uid(in->world->subject), &list);
    for (size_t i = 0; i < list.count; i++) {
        const struct object *o = list.items[i];
        struct child c = {.ns = object_namespace(o), .name = object_name(o)};
        // Labels are copied by others (a Service's to its EndpointSlices): only what we applied is ours to
        // delete.
        if (object_is_deleting(o) || !has_manager(o, in->world->script->manager) ||
            discovery_find(in->world->discovery, object_gvk(o), &c.resource) != DISCOVERY_FOUND ||
            find_twin(wanted, n, &c) != NULL)
            continue;
        struct op *op = plan_add(p, OP_DELETE, &c.resource, c.ns, c.name);
        op->uid = xstrdup(object_uid(o));
        op->live_rv = xstrdup(object_resource_version(o));
    }
    object_list_fini(&list);
}

static void plan_children(struct plan *p, const struct plan_input *in, const json *apply)
{
    size_t n = json_count(apply);
    struct child *children = xcalloc(n + 1, sizeof children[0]);
    for (struct json_iter i = json_iter(apply); json_next(&i);) {
        struct child *c = &children[i.index];
        struct err e = {0};
        char where[256];
        c->entry = i.value;
        c->object = json_get(i.value, "object");
        int r = read_child(in, c, &e);
        snprintf(where, sizeof where, "apply[%zu] (%s %s)", i.index + 1, json_get_str(c->object, "kind"),
                 c->name == NULL ? "" : c->name);
        const struct child *twin = r < 0 ? NULL : find_twin(children, i.index, c);
        if (twin != NULL)
            r = err_set(&e, ERR_INVALID, "the same object stands at apply[%zu] too",
                        (size_t)(twin - children) + 1);
        if (r == 0)
            r = plan_child(p, in, c, &e);
        if (r < 0) {
            plan_error(p, where, &e);
            if (c->ns == NULL)
                c->name = NULL; // can not be compared with others
        }
    }
    if (!p->errors) // an entry that could not be read may stand for anything
        prune(p, in, children, n);
    free(children);
}

static void read_events(struct plan *p, const json *events)
{
    p->events = xcalloc(json_count(events) + 1, sizeof p->events[0]);
    for (struct json_iter i = json_iter(events); json_next(&i);) {
        struct plan_event *ev = &p->events[p->event_count++];
        ev->type = xstrdup(json_get_str(i.value, "type"));
        ev->reason = xstrdup(json_get_str(i.value, "reason"));
        ev->message = xstrdup(json_get_str(i.value, "message"));
    }
}

int plan_make(const struct plan_input *in, struct plan **ret, struct err *e)
{
    struct plan *p = xcalloc(1, sizeof *p);
    const json *apply = json_get(in->result, "apply");
    if (json_is_array(apply))
        plan_children(p, in, apply);
    if (json_get(in->result, "delete") != NULL) {
        struct err why;
        err_set(&why, ERR_UNSUPPORTED, "deleting objects that are not children is not supported yet");
        plan_error(p, "delete", &why);
    }
    int r = plan_patches(p, in, e);
    if (r < 0) {
        plan_free(p);
        return r;
    }
    plan_status(p, in);
    read_events(p, json_get(in->result, "events"));
    p->requeue_us = json_get_int(in->result, "requeue_after_us", 0);
    *ret = p;
    return 0;
}
