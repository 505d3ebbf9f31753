#include "run/plan/plan_child.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "run/plan/readiness.h"

static int find_resource(const struct plan_input *in, struct child *c, struct err *e)
{
    const struct gvk *gvk =
        gvk_of_asked(json_get_str(c->object, "apiVersion"), json_get_str(c->object, "kind"), e);
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

static int find_namespace(const struct plan_input *in, struct child *c, struct err *e)
{
    const char *own = object_namespace(in->world->subject);
    const char *given = json_str(json_path(c->object, "metadata", "namespace", NULL));
    if (!c->resource.namespaced && given != NULL)
        return err_set(e, ERR_INVALID, "%s is cluster-scoped: leave metadata.namespace out",
                       c->resource.gvk->text);
    c->ns = !c->resource.namespaced ? "" : given != NULL ? given : own;
    if (c->resource.namespaced && c->ns[0] == '\0')
        return err_set(e, ERR_INVALID, "the subject is cluster-scoped: give metadata.namespace");
    // The collector takes an owner in another namespace, or a namespaced owner of a cluster-scoped object,
    // for gone.
    c->owned = !c->keep && (own[0] == '\0' || str_eq(c->ns, own));
    return 0;
}

int plan_child_read(const struct plan_input *in, const json *entry, struct child *c, struct err *e)
{
    c->entry = entry;
    c->object = json_get(entry, "object");
    c->name = json_str(json_path(c->object, "metadata", "name", NULL));
    c->once = json_true(json_get(entry, "once"));
    c->keep = json_true(json_get(entry, "keep"));
    c->replace = json_true(json_get(entry, "replace"));
    int r = find_resource(in, c, e);
    if (r == 0)
        r = find_namespace(in, c, e);
    if (r == 0 && !resource_name_ok(c->name))
        r = err_set(e, ERR_INVALID, "metadata.name: \"%s\" is not a name", c->name == NULL ? "" : c->name);
    if (r == 0)
        r = script_may_write(in->world->script, c->resource.gvk, c->ns, e);
    return r;
}

void child_set_init(struct child_set *s, size_t count)
{
    *s = (struct child_set){.items = xcalloc(count + 1, sizeof s->items[0]), .count = count};
}

void child_set_fini(struct child_set *s)
{
    HASH_CLEAR(hh, s->table);
    for (size_t i = 0; i < s->count; i++) {
        object_unref(s->items[i].live);
        free(s->items[i].id);
    }
    free(s->items);
}

static char *child_id(const struct gvk *gvk, const char *ns, const char *name)
{
    return xasprintf("%s/%s|%s|%s", gvk->group, gvk->kind, ns, name);
}

struct child *child_set_find(const struct child_set *s, const struct gvk *gvk, const char *ns,
                             const char *name)
{
    struct child *c;
    char *id = child_id(gvk, ns, name);
    HASH_FIND_STR(s->table, id, c);
    free(id);
    return c;
}

struct child *child_set_add(struct child_set *s, struct child *c)
{
    struct child *twin;
    c->id = child_id(c->resource.gvk, c->ns, c->name);
    HASH_FIND_STR(s->table, c->id, twin);
    if (twin == NULL)
        HASH_ADD_KEYPTR(hh, s->table, c->id, strlen(c->id), c);
    return twin;
}

struct desired plan_child_desired(const struct plan_input *in, const struct child *c, const char *uid)
{
    return (struct desired){.object = c->object,
                            .name = c->name,
                            .resource = &c->resource,
                            .ns = c->ns,
                            .uid = uid,
                            .script_hash = in->world->script->hash,
                            .owner = in->world->subject,
                            .owned = c->owned,
                            .keep = c->keep,
                            .order = c->order,
                            .type = plan_type_to_write(in, c->resource.gvk, c->object),
                            .at = &c->at};
}

// ---- order by readiness

// The entry that a reference of `after` means: namespace defaults to that of the entry itself.
static struct child *find_reference(const struct child_set *s, const struct child *from, const json *ref)
{
    const struct gvk *gvk = gvk_of_asked(json_get_str(ref, "apiVersion"), json_get_str(ref, "kind"), NULL);
    const char *name = json_str(json_path(ref, "metadata", "name", NULL));
    const char *ns = json_str(json_path(ref, "metadata", "namespace", NULL));
    if (gvk == NULL || name == NULL)
        return NULL;
    struct child *c = child_set_find(s, gvk, ns != NULL ? ns : from->ns, name);
    return c != NULL || ns != NULL ? c : child_set_find(s, gvk, "", name); // it may be cluster-scoped
}

static bool is_ready(const struct child *c)
{
    const json *verdict = json_get(c->entry, "ready"); // of the script's own function
    if (c->live == NULL || object_is_deleting(c->live))
        return false;
    if (json_is_bool(verdict))
        return json_true(verdict);
    struct json_doc *doc = object_parse(c->live);
    bool ready = readiness_of(c->resource.gvk, json_root(doc));
    json_doc_free(doc);
    return ready;
}

static int set_order(const struct child_set *s, struct child *c, unsigned depth, struct err *e);

static int order_after(const struct child_set *s, struct child *c, unsigned depth, struct err *e)
{
    enum { IN_A_ROW_MAX = 100 };
    if (depth > IN_A_ROW_MAX)
        return err_set(e, ERR_LIMIT, "after: more than %d entries wait for each other in a row",
                       IN_A_ROW_MAX);
    for (struct json_iter i = json_iter(json_get(c->entry, "after")); json_next(&i);) {
        struct child *before = find_reference(s, c, i.value);
        if (before == NULL)
            return err_set(e, ERR_INVALID, "after[%zu]: no entry of apply is this object", i.index + 1);
        int r = set_order(s, before, depth + 1, e);
        if (r < 0)
            return r;
        if (before->order + 1 > c->order)
            c->order = before->order + 1;
        c->blocked |= !is_ready(before);
    }
    return 0;
}

// Depth-first; each entry is worked out once.
static int set_order(const struct child_set *s, struct child *c, unsigned depth, struct err *e)
{
    if (c->ordering == ORDER_KNOWN)
        return 0;
    if (c->ordering == ORDER_BEGUN)
        return err_set(e, ERR_INVALID, "after: the entries wait for each other in a circle");
    if (c->ordering == ORDER_WRONG)
        return err_set(e, ERR_INVALID, "after: what it waits for has an error itself");
    c->ordering = ORDER_BEGUN;
    int r = order_after(s, c, depth, e);
    c->ordering = r < 0 ? ORDER_WRONG : ORDER_KNOWN;
    return r;
}

void plan_child_order(struct plan *p, struct child_set *s)
{
    for (size_t i = 0; i < s->count; i++) {
        struct err e;
        struct child *c = &s->items[i];
        if (c->name == NULL || json_count(json_get(c->entry, "after")) == 0)
            continue;
        if (set_order(s, c, 0, &e) == 0)
            continue;
        plan_error_in(p, "apply", i, c->object, &e);
        c->blocked = true;
    }
}
