#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kube/fields.h"
#include "run/plan/desired.h"
#include "run/plan/plan.h"
#include "run/source/marks.h"

// A kind without the status subresource keeps its status in the main resource, under a manager of its own.
static void main_manager(const struct plan_input *in, char out[MARKS_MANAGER_MAX])
{
    memcpy(out, in->world->script->manager, MARKS_MANAGER_MAX);
    strncat(out, "-status", MARKS_MANAGER_MAX - strlen(out) - 1);
}

static void status_manager(const struct plan_input *in, const struct resource *resource,
                           char out[MARKS_MANAGER_MAX])
{
    if (resource->has_status)
        memcpy(out, in->world->script->manager, MARKS_MANAGER_MAX);
    else
        main_manager(in, out);
}

static bool owns_status(const struct object *subject, const char *manager, const char *subresource)
{
    size_t n;
    struct json_doc *doc;
    const char *text = object_managed(subject, &n);
    if (json_parse(text, n, &doc, NULL) < 0)
        return false;
    bool owns = json_count(fields_of_manager(json_root(doc), manager, subresource)) > 0;
    json_doc_free(doc);
    return owns;
}

static int check_status(const struct schema_node *type, const json *body, struct err *e)
{
    static const struct step root, at = {.up = &root, .name = "status"};
    return desired_check(schema_member(type, "status", 6, NULL), json_get(body, "status"), &at, e);
}

static int compare_status(struct plan *p, const struct plan_input *in, const struct resource *resource,
                          const char *manager, const struct schema_node *type, const struct buf *body,
                          struct err *e)
{
    const struct object *subject = in->world->subject;
    const char *subresource = resource->has_status ? "status" : NULL;
    struct json_doc *doc;
    uint64_t hash;
    char *path;
    int r = json_parse(body->data, body->len, &doc, e);
    if (r < 0)
        return r;
    char *learn_id = xasprintf("%s/%s", object_uid(subject), manager);
    bool noop = plan_is_noop(in, subject, manager, subresource, json_root(doc), learn_id, &hash, &path);
    if (!noop && plan_type_of(in->types, object_gvk(subject))->not_yet)
        in->types->awaited = true; // what is wrong is told before it is sent
    if (!noop)
        r = check_status(type, json_root(doc), e);
    json_doc_free(doc);
    if (!noop && r < 0)
        free(path);
    if (noop || r < 0) {
        free(learn_id);
        return r;
    }
    struct op *o = plan_add(p, OP_STATUS, resource, object_namespace(subject), object_name(subject));
    o->uid = xstrdup(object_uid(subject));
    o->live_rv = xstrdup(object_resource_version(subject));
    o->body = xmemdup(body->data, body->len);
    o->body_len = body->len;
    o->subresource = subresource;
    o->force = true;
    o->learn_id = learn_id;
    o->path = path;
    o->desired_hash = hash;
    memcpy(o->manager, manager, sizeof o->manager);
    return 0;
}

// What `manager` holds in the subject's status is given up.
static void release(struct plan *p, const struct plan_input *in, const struct resource *resource,
                    const char *manager)
{
    const struct object *subject = in->world->subject;
    const char *subresource = resource->has_status ? "status" : NULL;
    struct buf body;
    if (!owns_status(subject, manager, subresource))
        return;
    buf_init(&body, DESIRED_BODY_MAX);
    struct desired bare = {.resource = resource,
                           .name = object_name(subject),
                           .ns = object_namespace(subject),
                           .uid = object_uid(subject)};
    if (desired_write(&bare, &body, NULL) == 0) {
        struct op *o = plan_add(p, OP_STATUS, resource, object_namespace(subject), object_name(subject));
        o->uid = xstrdup(object_uid(subject));
        o->live_rv = xstrdup(object_resource_version(subject));
        o->body = buf_take(&body, &o->body_len);
        o->subresource = subresource;
        snprintf(o->manager, sizeof o->manager, "%s", manager);
    }
    buf_fini(&body);
}

// What was written to the object itself before its kind had the subresource: the values stay, the fields are
// those of the manager of the subresource alone from now on.
static void release_former(struct plan *p, const struct plan_input *in, const struct resource *resource)
{
    char manager[MARKS_MANAGER_MAX];
    struct resource main = *resource;
    main.has_status = false;
    main_manager(in, manager);
    if (resource->has_status)
        release(p, in, &main, manager);
}

static int write_status(struct plan *p, const struct plan_input *in, const json *status, struct err *e)
{
    const struct object *subject = in->world->subject;
    struct resource resource;
    char manager[MARKS_MANAGER_MAX];
    if (discovery_find(in->world->discovery, object_gvk(subject), &resource) != DISCOVERY_FOUND)
        return err_set(e, ERR_UNAVAILABLE, "the server can not tell about %s now", object_gvk(subject)->text);
    status_manager(in, &resource, manager);
    bool clear = json_count(status) == 0;
    if (clear && !owns_status(subject, manager, resource.has_status ? "status" : NULL))
        return 0; // nothing of ours is there to clear
    struct buf body;
    struct json_doc *live = object_parse(subject);
    const struct schema_node *type = plan_type_to_write(in, object_gvk(subject), status);
    buf_init(&body, DESIRED_BODY_MAX);
    int r = desired_write_status(subject, type, json_root(live), clear ? NULL : status, in->now_us, &body, e);
    if (r == 0)
        r = compare_status(p, in, &resource, manager, type, &body, e);
    release_former(p, in, &resource);
    buf_fini(&body);
    json_doc_free(live);
    return plan_type_checked(in->types, object_gvk(subject), r, e);
}

// The script's and the host's own for it.
void plan_status_release(struct plan *p, const struct plan_input *in)
{
    struct resource resource;
    char manager[MARKS_MANAGER_MAX];
    if (discovery_find(in->world->discovery, object_gvk(in->world->subject), &resource) != DISCOVERY_FOUND)
        return;
    status_manager(in, &resource, manager);
    release(p, in, &resource, manager);
    marks_report_manager(manager, in->world->script->hash);
    release(p, in, &resource, manager);
}

void plan_status(struct plan *p, const struct plan_input *in)
{
    const json *status = json_get(in->result, "status");
    struct err e;
    if (json_is_object(status) && write_status(p, in, status, &e) < 0)
        plan_error(p, strncmp(e.text, "status", 6) == 0 ? NULL : "status", &e);
}
