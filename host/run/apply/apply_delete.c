#include "run/apply/apply_delete.h"

#include "base/buf.h"
#include "data/json_write.h"
#include "run/apply/apply_fight.h"
#include "run/apply/apply_request.h"

static void on_deleted(struct apply_op *o, struct client_result *res)
{
    const json *answer = json_root(res->doc);
    if (res->failure != NULL && res->failure->http != 404 && res->failure->http != 409) {
        apply_op_fail(o, res->failure);
        apply_op_end(o, NULL);
    } else if (res->failure != NULL) {
        o->ok = true; // somebody deleted it, or it is another object by now
        apply_op_end(o, NULL);
    } else {
        apply_fight_deleted(o);
        o->foreign |= o->op->kind != OP_DELETE; // replaced: its end is no news, but it has to be made again
        // With finalizers or a grace period the object is answered and stays for a while.
        const char *rv = json_str(json_path(answer, "metadata", "resourceVersion", NULL));
        bool stays = json_path(answer, "metadata", "deletionTimestamp", NULL) != NULL && rv != NULL;
        o->ok = true;
        apply_op_end(o, stays ? rv : "");
    }
}

void apply_delete_send(struct apply_op *o)
{
    struct buf body;
    struct json_writer w;
    buf_init(&body, 4096);
    jw_init(&w, &body);
    jw_object(&w);
    jw_member_str(&w, "apiVersion", "v1");
    jw_member_str(&w, "kind", "DeleteOptions");
    jw_member_str(&w, "propagationPolicy", "Background");
    jw_key(&w, "preconditions");
    jw_object(&w);
    jw_member_str(&w, "uid", o->op->uid);
    jw_object_end(&w);
    jw_object_end(&w);
    apply_request_send(o, NULL, NULL,
                       &(struct client_request){.method = METHOD_DELETE,
                                                .content_type = "application/json",
                                                .body = body.data,
                                                .body_len = body.len},
                       on_deleted);
    buf_fini(&body);
}

void apply_delete_replace(struct apply_op *o, const struct api_status *why)
{
    apply_op_fail_but_try(o, why, "nor could it be deleted, to be created anew");
    apply_delete_send(o);
}
