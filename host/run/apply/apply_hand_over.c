#include "run/apply/apply_hand_over.h"

#include "base/strset.h"
#include "run/apply/apply_fields.h"
#include "run/apply/apply_request.h"
#include "run/plan/hand_over.h"

static bool write_kept(struct apply_op *o, const json *object)
{
    struct json_doc *body;
    struct buf out;
    bool taken = hand_over_is_taken(object, o->op->manager);
    if (json_parse(o->op->body, o->op->body_len, &body, NULL) < 0)
        return false;
    buf_init(&out, 4 << 20);
    bool ok = hand_over_write(json_root(body), taken ? NULL : json_path(object, "spec", "replicas", NULL),
                              taken ? NULL : json_path(object, "metadata", "resourceVersion", NULL), &out);
    json_doc_free(body);
    if (ok)
        apply_op_set_body(o, &out);
    buf_fini(&out);
    return ok;
}

static void on_to_be_handed_over(struct apply_op *o, struct client_result *res)
{
    const json *object = json_root(res->doc);
    if (res->failure == NULL && o->op->settled && !hand_over_is_taken(object, o->op->manager)) {
        // What was compared is this version; another is to be compared first.
        o->ok = true;
        if (str_eq(json_str(json_path(object, "metadata", "resourceVersion", NULL)), o->op->live_rv))
            apply_fields_learn(o, object);
        else
            o->foreign = true;
    } else if (res->failure != NULL) {
        apply_op_fail(o, res->failure);
    } else if (!write_kept(o, object)) {
        apply_op_refuse(o, ERR_LIMIT, "it is larger than 4 MiB with the replicas it has");
    } else {
        apply_fields_send(o);
        return;
    }
    apply_op_end(o, NULL);
}

void apply_hand_over_ask(struct apply_op *o)
{
    o->asked++;
    apply_request_get(o, NULL, on_to_be_handed_over);
}

bool apply_hand_over_is_due_again(const struct apply_op *o, const struct client_result *res)
{
    enum { ASKED_MAX = 10 };
    return o->op->hands_over && o->asked < ASKED_MAX && res->failure != NULL && res->failure->http == 409 &&
           !api_status_is_conflict_with_manager(res->failure) && !apply_request_is_other_object(res->failure);
}
