#include "run/apply/apply_fields.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/strset.h"
#include "kube/fields.h"
#include "run/apply/apply_create.h"
#include "run/apply/apply_delete.h"
#include "run/apply/apply_empty.h"
#include "run/apply/apply_fight.h"
#include "run/apply/apply_hand_over.h"
#include "run/apply/apply_request.h"
#include "run/apply/apply_status.h"

// That a status which was given goes nowhere is said once.
static void note_dropped_status(struct apply_op *o)
{
    const char *script = o->in->view->script->name, *kind = o->op->resource.gvk->text;
    char *once = xasprintf("%s status of %s", script, kind);
    if (o->op->drops_status && strset_add(&o->applier->warnings, once))
        log_warn(
            "a status in apply or patch is not set: it belongs to the controller of that kind, leave it out",
            F_STR("script", script), F_STR("key", o->in->key), F_STR("kind", kind),
            F_STR("name", o->op->name));
    free(once);
}

void apply_fields_learn(const struct apply_op *o, const json *object)
{
    const char *uid = json_str(json_path(object, "metadata", "uid", NULL));
    const char *id = o->op->learn_id != NULL ? o->op->learn_id : uid;
    if (id == NULL || o->op->kind == OP_RELEASE || o->op->desired_hash == 0)
        return;
    const json *owned = fields_of_manager(json_path(object, "metadata", "managedFields", NULL),
                                          o->op->manager, o->op->subresource);
    learned_put(o->applier->o.learned, id, o->op->desired_hash, fields_hash_owned(owned, object));
}

// The server has no reason of its own for "this can not be changed": its texts tell.
static bool is_immutable_change(const struct api_status *why)
{
    static const char *const texts[] = {"immutable",
                                        "may not be changed",
                                        "cannot be changed",
                                        "cannot change",
                                        "may not change",
                                        "updates to statefulset spec",
                                        "can not be less than previous value"};
    for (size_t i = 0; why->http == 422 && i < sizeof texts / sizeof texts[0]; i++)
        if (strstr(why->err.text, texts[i]) != NULL)
            return true;
    return false;
}

// True: another request is on its way.
static bool goes_on(struct apply_op *o, const struct client_result *res)
{
    if (apply_empty_helps(o, res) || apply_create_lost(o, res))
        return true;
    if (apply_hand_over_is_due_again(o, res))
        apply_hand_over_ask(o);
    else if (apply_fight_answered(o, res))
        apply_fields_send(o);
    else if (res->failure != NULL && o->op->replace && is_immutable_change(res->failure))
        apply_delete_replace(o, res->failure);
    else if (res->failure != NULL && res->failure->http == 404 && o->op->kind == OP_STATUS &&
             o->op->subresource != NULL)
        apply_status_ask(o);
    else
        return false;
    return true;
}

static void on_applied(struct apply_op *o, struct client_result *res)
{
    const json *object = json_root(res->doc);
    note_dropped_status(o);
    if (res->failure == NULL)
        apply_fight_written(o, res->status == 201);
    if (goes_on(o, res))
        return;
    if (res->failure == NULL && apply_status_is_dropped(o, object)) {
        apply_status_refuse(o);
        return;
    }
    if (res->failure != NULL) {
        // The subject is gone: its status has nowhere to go, and the deletion comes through the watch. So has
        // a field that was to be given up.
        bool gone = (apply_op_is_about_subject(o->op) || o->op->kind == OP_RELEASE) &&
                    apply_request_is_other_object(res->failure);
        if (gone)
            o->ok = true;
        else
            apply_op_fail(o, res->failure);
        apply_op_end(o, NULL);
    } else {
        const char *rv = json_str(json_path(object, "metadata", "resourceVersion", NULL));
        o->ok = true;
        apply_fields_learn(o, object);
        apply_op_end(o, rv == NULL || str_eq(rv, o->op->live_rv) ? NULL : rv);
    }
}

void apply_fields_send(struct apply_op *o)
{
    if (o->op->kind == OP_UNFINALIZE) {
        apply_request_patch(o, NULL, "application/json-patch+json", o->op->body, o->op->body_len, on_applied);
        return;
    }
    char *query = apply_request_query(o->op, o->op->force && o->move != FIGHTS_PROBE);
    apply_request_patch(o, query, "application/apply-patch+yaml", o->op->body, o->op->body_len, on_applied);
    free(query);
}
