// The children a pass wants, against those that are there.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "run/plan/child_owner.h"
#include "run/plan/hand_over.h"
#include "run/plan/plan_child.h"

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

static void add_creation(struct plan *p, const struct plan_input *in, const struct child *c, struct op *o)
{
    o->known_absent = is_known_absent(in, c);
    o->once = c->once;
    for (struct json_iter i = json_iter(json_get(c->entry, "adopt")); json_next(&i);)
        if (json_str(i.value) != NULL)
            strset_add(&o->adopt, json_str(i.value));
    p->unreachable |= !c->owned && !c->keep;
}

// path: see struct op; taken.
static int add_write(struct plan *p, const struct plan_input *in, const struct child *c, const json *desired,
                     uint64_t desired_hash, char *path, struct err *e)
{
    struct buf body;
    struct desired d = plan_child_desired(in, c, c->live == NULL ? NULL : object_uid(c->live));
    d.creates = c->live == NULL;
    buf_init(&body, DESIRED_BODY_MAX);
    if (plan_type_of(in->types, c->resource.gvk)->not_yet)
        in->types->awaited = true; // what is wrong is told before it is sent
    int r = desired_check(d.type, desired, d.at, e);
    if (r == 0)
        r = desired_write(&d, &body, e);
    if (r < 0) {
        buf_fini(&body);
        free(path);
        return r;
    }
    struct op *o = plan_add(p, c->live == NULL ? OP_CREATE : OP_APPLY, &c->resource, c->ns, c->name);
    o->body = buf_take(&body, &o->body_len);
    o->force = c->live != NULL;
    o->replace = c->replace;
    o->drops_status = c->resource.has_status && json_get(d.object, "status") != NULL;
    o->path = path;
    o->desired_hash = desired_hash;
    memcpy(o->manager, in->world->script->manager, sizeof o->manager);
    if (c->live == NULL) {
        add_creation(p, in, c, o);
        return 0;
    }
    o->learn_id = xstrdup(object_uid(c->live));
    o->uid = xstrdup(object_uid(c->live));
    o->live_rv = xstrdup(object_resource_version(c->live));
    return 0;
}

// A live object with our script's label, under the name we want: may we apply to it?
static int check_ours(const struct plan_input *in, const struct object *live, struct err *e)
{
    if (str_eq(object_label(live, MARKS_LABEL_OWNER), object_uid(in->world->subject)))
        return 0;
    struct json_doc *doc = object_parse(live);
    char *text = child_owner_refusal(json_root(doc));
    int r = err_set(e, ERR_CONFLICT, "%s", text);
    free(text);
    json_doc_free(doc);
    return r;
}

// Is the child as it should be, but for replicas that are ours as long as nobody else sets them? *ret_path:
// where it is not; free().
static bool is_settled(const struct plan_input *in, const struct child *c, const json *desired,
                       char **ret_path)
{
    struct json_doc *live = object_parse(c->live), *kept = NULL;
    struct buf body;
    uint64_t hash;
    *ret_path = NULL;
    buf_init(&body, DESIRED_BODY_MAX);
    bool settled =
        hand_over_write(desired, json_path(json_root(live), "spec", "replicas", NULL), NULL, &body) &&
        json_parse(body.data, body.len, &kept, NULL) == 0 &&
        plan_is_noop(in, c->live, in->world->script->manager, NULL, json_root(kept), object_uid(c->live),
                     &hash, ret_path);
    json_doc_free(kept);
    json_doc_free(live);
    buf_fini(&body);
    return settled;
}

static int change_child(struct plan *p, const struct plan_input *in, const struct child *c,
                        const json *desired, uint64_t hash, char *path, struct err *e)
{
    bool hands_over = hand_over_is_due(&c->resource, c->live, in->world->script->manager, desired);
    bool settled = false;
    if (hands_over) { // nobody fights over a field that goes
        free(path);
        settled = is_settled(in, c, desired, &path);
    }
    int r = add_write(p, in, c, desired, hash, path, e);
    if (r == 0 && hands_over) {
        struct op *o = &p->ops[p->count - 1];
        o->hands_over = true;
        o->settled = settled;
    }
    return r;
}

static int compare_child(struct plan *p, const struct plan_input *in, const struct child *c, struct err *e)
{
    struct json_doc *doc = NULL;
    struct desired d = plan_child_desired(in, c, NULL);
    struct buf body;
    uint64_t hash;
    char *path;
    buf_init(&body, DESIRED_BODY_MAX);
    int r = desired_write(&d, &body, e);
    if (r == 0)
        r = json_parse(body.data, body.len, &doc, e);
    if (r == 0 && c->live == NULL)
        r = add_write(p, in, c, json_root(doc), json_hash(json_root(doc)), NULL, e);
    else if (r == 0 && !plan_is_noop(in, c->live, in->world->script->manager, NULL, json_root(doc),
                                     object_uid(c->live), &hash, &path))
        r = change_child(p, in, c, json_root(doc), hash, path, e);
    json_doc_free(doc);
    buf_fini(&body);
    return plan_type_checked(in->types, c->resource.gvk, r, e);
}

static int plan_child(struct plan *p, const struct plan_input *in, const struct child *c, struct err *e)
{
    if (c->live == NULL && c->blocked)
        return 0; // what it waits for wakes this key
    if (c->live == NULL)
        return compare_child(p, in, c, e);
    p->unreachable |= !c->owned && !c->keep;
    p->ordered |= c->order > 0;
    if (object_is_deleting(c->live))
        return 0; // its end wakes this key
    int r = check_ours(in, c->live, e);
    if (r < 0 || c->once)
        return r;
    struct child guarded = *c; // labels can be copied and managedFields be lost: the server is asked
    if (!object_has_manager(c->live, in->world->script->manager))
        guarded.live = NULL;
    return compare_child(p, in, &guarded, e);
}

// ---- pruning

static bool is_wanted(const struct plan_input *in, const struct object *o, const struct child_set *wanted)
{
    struct resource r;
    return discovery_find(in->world->discovery, object_gvk(o), &r) != DISCOVERY_FOUND ||
           child_set_find(wanted, object_gvk(o), object_namespace(o), object_name(o)) != NULL;
}

static unsigned order_of(const struct object *o)
{
    const char *text = object_label(o, MARKS_LABEL_ORDER);
    return text == NULL ? 0 : (unsigned)strtoul(text, NULL, 10);
}

// Labels are copied by others (a Service's to its EndpointSlices): only what we applied is ours to delete.
static bool may_delete(const struct plan_input *in, const struct object *o)
{
    return object_has_manager(o, in->world->script->manager) && object_label(o, MARKS_LABEL_KEEP) == NULL;
}

static void add_delete(struct plan *p, const struct plan_input *in, const struct object *o)
{
    struct resource resource;
    if (discovery_find(in->world->discovery, object_gvk(o), &resource) != DISCOVERY_FOUND)
        return;
    struct op *op = plan_add(p, OP_DELETE, &resource, object_namespace(o), object_name(o));
    op->uid = xstrdup(object_uid(o));
    op->live_rv = xstrdup(object_resource_version(o));
}

// Some servers have one object in two groups: an Event of v1 is one of events.k8s.io, too. Then it is wanted
// under its other name, or may be, until the wanted one is known.
static bool is_wanted_elsewhere(struct plan *p, const struct object *o, const struct child_set *wanted)
{
    for (size_t i = 0; i < wanted->count; i++) {
        const struct child *c = &wanted->items[i];
        if (c->name == NULL || !str_eq(c->name, object_name(o)) ||
            !str_eq(c->resource.gvk->kind, object_gvk(o)->kind) || !str_eq(c->ns, object_namespace(o)))
            continue;
        p->unfinished |= c->live == NULL;
        if (c->live == NULL || str_eq(object_uid(c->live), object_uid(o)))
            return true;
    }
    return false;
}

// Those that waited for others go first: of what is to be deleted only the highest order now, the rest when
// it is gone; all at once where nothing is waited for.
static void delete_in_reverse(struct plan *p, const struct plan_input *in, const struct object_list *list)
{
    unsigned highest = 0;
    bool deletes = false, more = in->finalizing;
    for (size_t i = 0; i < list->count; i++)
        if (order_of(list->items[i]) > highest)
            highest = order_of(list->items[i]);
    for (size_t i = 0; i < list->count; i++) {
        bool now = in->given_up || order_of(list->items[i]) == highest;
        more |= !now;
        if (!now || object_is_deleting(list->items[i]))
            continue;
        add_delete(p, in, list->items[i]);
        deletes = true;
    }
    p->unfinished |= deletes && more;
    p->ordered |= highest > 0; // the finalizer stays for those that are left
}

size_t plan_delete_children(struct plan *p, const struct plan_input *in, const struct child_set *wanted,
                            bool unreachable_only)
{
    struct object_list all, doomed = {0};
    if (in->world->children == NULL)
        return 0;
    child_stores_list(in->world->children, in->world->revision, NULL, object_uid(in->world->subject), &all);
    doomed.items = xcalloc(all.count + 1, sizeof doomed.items[0]);
    for (size_t i = 0; i < all.count; i++) {
        struct object *o = all.items[i];
        const struct object_owner *owners;
        bool collected = unreachable_only && object_owners(o, &owners) > 0;
        if (may_delete(in, o) && !collected &&
            (wanted == NULL || !(is_wanted(in, o, wanted) || is_wanted_elsewhere(p, o, wanted))))
            doomed.items[doomed.count++] = object_ref(o);
    }
    delete_in_reverse(p, in, &doomed);
    size_t left = doomed.count;
    object_list_fini(&all);
    object_list_fini(&doomed);
    return left;
}

// ---- all of them

static void read_children(struct plan *p, const struct plan_input *in, const json *apply, struct child_set *s)
{
    static const struct step root, list = {.up = &root, .name = "apply"};
    for (struct json_iter i = json_iter(apply); json_next(&i);) {
        struct child *c = &s->items[i.index];
        struct err e = {0};
        c->at = (struct step){.up = &list, .index = i.index + 1};
        int r = plan_child_read(in, i.value, c, &e);
        const struct child *twin = r < 0 ? NULL : child_set_add(s, c);
        if (twin != NULL)
            r = err_set(&e, ERR_INVALID, "the same object stands at apply[%zu] too",
                        (size_t)(twin - s->items) + 1);
        if (r == 0 && in->world->children != NULL)
            c->live =
                child_stores_get(in->world->children, in->world->revision, c->resource.gvk, c->ns, c->name);
        if (r < 0) {
            plan_error_in(p, "apply", i.index, c->object, &e);
            c->name = NULL;
        }
    }
}

void plan_children(struct plan *p, const struct plan_input *in, const json *apply)
{
    size_t n = json_count(apply);
    struct child_set s;
    child_set_init(&s, n);
    read_children(p, in, apply, &s);
    bool complete = !p->errors; // an entry that could not be read may stand for anything
    bool waits = false;
    plan_child_order(p, &s);
    for (size_t i = 0; i < n; i++) {
        struct err e = {0};
        if (s.items[i].name != NULL && plan_child(p, in, &s.items[i], &e) < 0)
            plan_error_in(p, "apply", i, s.items[i].object, &e);
        p->ordered |= s.items[i].order > 0;
        waits |= s.items[i].live == NULL && s.items[i].blocked;
    }
    p->unfinished |= waits && p->count > 0; // what is written now may be all that it waits for
    size_t writes = p->count;
    if (complete)
        plan_delete_children(p, in, &s, false);
    p->pruned = p->count - writes;
    child_set_fini(&s);
}
