#include "run/apply/apply_create.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/strset.h"
#include "data/json_write.h"
#include "kube/fields.h"
#include "run/apply/adopt.h"
#include "run/apply/apply_fields.h"
#include "run/apply/apply_request.h"

// ---- what the server holds already

static bool is_tidelock(const char *manager)
{
    return manager != NULL && str_has_prefix(manager, "tidelock");
}

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

// ---- creating

static void on_undone(struct apply_op *o, struct client_result *res)
{
    if (res->failure != NULL)
        apply_op_fail(o, res->failure);
    apply_op_end(o, NULL);
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

void apply_create_undo(struct apply_op *o, const json *object)
{
    struct buf body;
    struct json_writer w;
    const json *metadata = json_get(object, "metadata");
    refuse_foreign(o, object);
    o->remedy = "nor could our fields be taken off it again";
    buf_init(&body, 64 << 10);
    jw_init(&w, &body);
    jw_object(&w);
    jw_member_str(&w, "apiVersion", o->op->resource.gvk->api_version);
    jw_member_str(&w, "kind", o->op->resource.gvk->kind);
    jw_key(&w, "metadata");
    jw_object(&w);
    jw_member(&w, "name", json_get(metadata, "name"));
    jw_member(&w, "namespace", json_get(metadata, "namespace"));
    jw_member(&w, "uid", json_get(metadata, "uid"));
    jw_object_end(&w);
    jw_object_end(&w);
    char *query = apply_request_query(o->op, false);
    apply_request_patch(o, query, "application/apply-patch+yaml", body.data, body.len, on_undone);
    free(query);
    buf_fini(&body);
}

bool apply_create_is_foreign(const json *object)
{
    for (struct json_iter i = json_iter(json_path(object, "metadata", "managedFields", NULL)); json_next(&i);)
        if (!is_tidelock(json_get_str(i.value, "manager")) && json_get_str(i.value, "subresource") == NULL)
            return true;
    return false;
}

// The entries of the managers that are taken over from become ours, so that what they set and the script does
// not want can go.
static void on_adopted(struct apply_op *o, struct client_result *res)
{
    if (res->failure == NULL) {
        apply_fields_send(o);
        return;
    }
    apply_op_fail(o, res->failure);
    apply_op_end(o, NULL);
}

static void adopt(struct apply_op *o, const json *object)
{
    struct buf body;
    struct holders h = holders_of(o->op, object);
    o->adopted = true;
    o->op->force = !h.others; // where the script wants what somebody else sets, the server tells
    free(o->op->uid);
    o->op->uid = xstrdup(json_str(json_path(object, "metadata", "uid", NULL)));
    if (!h.named) {
        apply_fields_send(o);
        return;
    }
    buf_init(&body, 4 << 20);
    adopt_write_patch(object, &o->op->adopt, o->op->manager, o->op->resource.gvk->api_version, &body);
    apply_request_patch(o, NULL, "application/json-patch+json", body.data, body.len, on_adopted);
    buf_fini(&body);
}

static void on_guard(struct apply_op *o, struct client_result *res)
{
    bool is_absent = res->failure != NULL && res->failure->http == 404;
    if (is_absent && (o->op->ns[0] == '\0' || !str_eq(res->failure->details_kind, "namespaces"))) {
        apply_fields_send(o); // it is the object that is missing, not its namespace
        return;
    }
    const json *object = json_root(res->doc);
    const char *controller = other_controller(o, object);
    if (res->failure != NULL) {
        apply_op_fail(o, res->failure);
    } else if (is_our_child(o, object)) {
        o->op->force = true; // the store lags
        free(o->op->uid);
        o->op->uid = xstrdup(json_str(json_path(object, "metadata", "uid", NULL)));
        apply_fields_send(o);
        return;
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

void apply_create_guard(struct apply_op *o)
{
    apply_request_get(o, NULL, on_guard);
}
