#include "run/apply/apply_create.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/strset.h"
#include "kube/fields.h"
#include "run/apply/adopt.h"
#include "run/apply/apply_fields.h"
#include "run/apply/apply_request.h"
#include "run/plan/child_owner.h"
#include "run/plan/desired.h"

// ---- what the server holds already

// Names of the managers in an object's managedFields other than ours, for messages: "kubectl, argocd".
static char *foreign_managers(const json *object, const char *ours)
{
    struct buf names;
    struct strset seen;
    buf_init(&names, 512);
    strset_init(&seen);
    for (struct json_iter i = json_iter(json_path(object, "metadata", "managedFields", NULL));
         json_next(&i);) {
        const char *manager = json_get_str(i.value, "manager");
        if (manager == NULL || str_eq(manager, ours) || json_get_str(i.value, "subresource") != NULL ||
            !strset_add(&seen, manager))
            continue;
        buf_addf(&names, "%s%s", names.len == 0 ? "" : ", ", manager);
    }
    strset_fini(&seen);
    return buf_take(&names, NULL);
}

// Whose fields an object has, but for those of subresources.
struct holders {
    bool ours, named, others; // named: by adopt
};

static struct holders holders_of(const struct op *op, const json *object)
{
    struct holders h = {0};
    for (struct json_iter i = json_iter(json_path(object, "metadata", "managedFields", NULL));
         json_next(&i);) {
        const char *manager = json_get_str(i.value, "manager");
        if (manager == NULL || json_get_str(i.value, "subresource") != NULL)
            continue;
        bool ours = str_eq(manager, op->manager), named = strset_has(&op->adopt, manager);
        h.ours |= ours;
        h.named |= !ours && named;
        h.others |= !ours && !named;
    }
    return h;
}

// May an object that is there be taken over? A manager that is named must have had it; what others set in it
// stays theirs.
static bool may_adopt(const struct op *op, const json *object)
{
    struct holders h = holders_of(op, object);
    return op->adopt.count > 0 && (h.ours || h.named || !h.others);
}

// It carries our labels, and we applied it, as far as it can be told: people do take managedFields away.
static bool is_our_child(const struct apply_op *o, const json *object)
{
    const json *labels = json_path(object, "metadata", "labels", NULL);
    const json *managed = json_path(object, "metadata", "managedFields", NULL);
    return str_eq(json_get_str(labels, MARKS_LABEL_SCRIPT), o->in->view->script->hash) &&
           str_eq(json_get_str(labels, MARKS_LABEL_OWNER), object_uid(o->in->subject)) &&
           (json_count(managed) == 0 || fields_of_manager(managed, o->op->manager, NULL) != NULL);
}

// A child of this script all the same.
static bool is_another_subjects(const struct apply_op *o, const json *object)
{
    const json *labels = json_path(object, "metadata", "labels", NULL);
    const char *owner = json_get_str(labels, MARKS_LABEL_OWNER);
    return str_eq(json_get_str(labels, MARKS_LABEL_SCRIPT), o->in->view->script->hash) && owner != NULL &&
           !str_eq(owner, object_uid(o->in->subject)) &&
           fields_of_manager(json_path(object, "metadata", "managedFields", NULL), o->op->manager, NULL) !=
               NULL;
}

static void refuse_another_subjects(struct apply_op *o, const json *object)
{
    char *text = child_owner_refusal(object);
    apply_op_refuse(o, ERR_CONFLICT, text);
    free(text);
}

static void refuse_foreign(struct apply_op *o, const json *object)
{
    char *managers = foreign_managers(object, o->op->manager);
    char *text = xasprintf("it is there already and not this subject's (managers: %s): rename the child, "
                           "delete the object, or take it over with "
                           "adopt = {...} naming these managers",
                           managers[0] == '\0' ? "none" : managers);
    apply_op_refuse(o, ERR_EXISTS, text);
    free(managers);
    free(text);
}

// The controller that an object has, when it is not our subject.
static const char *other_controller(const struct apply_op *o, const json *object)
{
    for (struct json_iter i = json_iter(json_path(object, "metadata", "ownerReferences", NULL));
         json_next(&i);)
        if (json_true(json_get(i.value, "controller")) &&
            !str_eq(json_get_str(i.value, "uid"), object_uid(o->in->subject)))
            return json_get_str(i.value, "name");
    return NULL;
}

static void refuse_controlled(struct apply_op *o, const char *controller)
{
    char *text = xasprintf("it is there already and %s is its controller, which an object has but one of: "
                           "rename the child, or take that ownerReference away",
                           controller);
    apply_op_refuse(o, ERR_EXISTS, text);
    free(text);
}

// The body is an apply to this very object from now on, and no creation any more.
static bool aim(struct apply_op *o, const json *object, bool force)
{
    struct json_doc *body;
    struct buf out;
    if (json_parse(o->op->body, o->op->body_len, &body, NULL) < 0)
        return false;
    free(o->op->uid);
    o->op->uid = xstrdup(json_str(json_path(object, "metadata", "uid", NULL)));
    o->op->force = force;
    buf_init(&out, DESIRED_BODY_MAX);
    bool ok = desired_aim(json_root(body), o->op->uid, &out);
    json_doc_free(body);
    if (ok)
        apply_op_set_body(o, &out);
    buf_fini(&out);
    return ok;
}

static void apply_to(struct apply_op *o, const json *object, bool force)
{
    if (aim(o, object, force)) {
        apply_fields_send(o);
        return;
    }
    apply_op_refuse(o, ERR_LIMIT, "it is larger than 4 MiB");
    apply_op_end(o, NULL);
}

// The entries of the managers that are taken over from become ours, so that what they set and the script does
// not want can go.
static void on_adopted(struct apply_op *o, struct client_result *res)
{
    if (res->failure == NULL) {
        apply_to(o, json_root(res->doc), o->op->force);
        return;
    }
    apply_op_fail(o, res->failure);
    apply_op_end(o, NULL);
}

static void adopt(struct apply_op *o, const json *object)
{
    struct buf body;
    struct holders h = holders_of(o->op, object);
    o->op->force = !h.others; // where the script wants what somebody else sets, the server tells
    if (!h.named) {
        apply_to(o, object, o->op->force);
        return;
    }
    buf_init(&body, 4 << 20);
    adopt_write_patch(object, &o->op->adopt, o->op->manager, o->op->resource.gvk->api_version, &body);
    apply_request_patch(o, NULL, "application/json-patch+json", body.data, body.len, on_adopted);
    buf_fini(&body);
}

// The store lags, or the object has lost what it is recognized by.
static void go_on_with_ours(struct apply_op *o, const json *object)
{
    if (!o->op->once) {
        apply_to(o, object, true);
        return;
    }
    o->ok = true;
    apply_op_end(o, NULL);
}

// Somebody has made an object of that name.
static void look_at(struct apply_op *o, const json *object)
{
    const char *controller = other_controller(o, object);
    if (is_our_child(o, object)) {
        go_on_with_ours(o, object);
        return;
    }
    if (is_another_subjects(o, object)) {
        refuse_another_subjects(o, object);
    } else if (!may_adopt(o->op, object)) {
        refuse_foreign(o, object);
    } else if (controller != NULL) {
        refuse_controlled(o, controller);
    } else {
        adopt(o, object);
        return;
    }
    apply_op_end(o, NULL);
}

static void on_guard(struct apply_op *o, struct client_result *res)
{
    const struct api_status *why = res->failure;
    // The object may be missing, or its namespace.
    bool absent =
        why != NULL && why->http == 404 && (o->op->ns[0] == '\0' || !str_eq(why->details_kind, "namespaces"));
    bool refused = o->remedy != NULL; // the creation was, and why stands there
    if (why == NULL) {
        o->remedy = NULL;
        look_at(o, json_root(res->doc));
    } else if (absent && !refused) {
        apply_fields_send(o);
    } else {
        if (!absent)
            apply_op_fail(o, why);
        apply_op_end(o, NULL);
    }
}

void apply_create_guard(struct apply_op *o)
{
    apply_request_get(o, NULL, on_guard);
}

bool apply_create_lost(struct apply_op *o, const struct client_result *res)
{
    if (o->op->kind != OP_CREATE || o->op->uid != NULL || res->failure == NULL || res->failure->http != 409)
        return false;
    apply_op_fail_but_try(o, res->failure, "nor could the object that is there be read");
    apply_create_guard(o);
    return true;
}
