#include "run/apply/apply_status.h"

#include "base/strset.h"
#include "kube/fields.h"
#include "run/apply/apply_request.h"

static const char changed_kind[] =
    "the kind has changed: whether it has the status subresource is asked again";

bool apply_status_is_dropped(const struct apply_op *o, const json *object)
{
    struct json_doc *body = NULL;
    if (o->op->kind != OP_STATUS || o->op->subresource != NULL ||
        fields_of_manager(json_path(object, "metadata", "managedFields", NULL), o->op->manager, NULL) != NULL)
        return false;
    bool given = json_parse(o->op->body, o->op->body_len, &body, NULL) == 0 &&
                 json_count(json_get(json_root(body), "status")) > 0;
    json_doc_free(body);
    return given;
}

void apply_status_refuse(struct apply_op *o)
{
    discovery_doubt(o->applier->o.discovery);
    apply_op_refuse(o, ERR_UNAVAILABLE, changed_kind);
    apply_op_end(o, NULL);
}

static void on_is_subject_there(struct apply_op *o, struct client_result *res)
{
    const char *uid = json_str(json_path(json_root(res->doc), "metadata", "uid", NULL));
    const struct api_status *why = res->failure;
    bool gone = why == NULL ? !str_eq(uid, o->op->uid) : why->http == 404;
    if (!gone && (why == NULL || why->http == 403)) { // 403: it may be there, so discovery is asked
        apply_status_refuse(o);
        return;
    }
    if (gone)
        o->ok = true; // its status has nowhere to go
    else
        apply_op_fail(o, why);
    apply_op_end(o, NULL);
}

void apply_status_ask(struct apply_op *o)
{
    apply_request_get(o, NULL, on_is_subject_there);
}
