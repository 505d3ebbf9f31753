#include "run/apply/apply_empty.h"

#include <stdlib.h>
#include <string.h>

#include "kube/emptied.h"
#include "run/apply/apply_fields.h"
#include "run/apply/apply_request.h"

static bool is_hole(const struct api_status *why)
{
    return why != NULL && why->http == 422 && strstr(why->err.text, "Invalid value: \"null\"") != NULL;
}

// What the apply was refused for stands there.
static void give_up_emptying(struct apply_op *o, const struct client_result *res)
{
    if (res->failure != NULL && res->failure->http != 404)
        apply_op_fail(o, res->failure);
    apply_op_end(o, NULL);
}

static void on_emptied(struct apply_op *o, struct client_result *res)
{
    if (res->failure != NULL) {
        give_up_emptying(o, res);
        return;
    }
    o->remedy = NULL;
    apply_fields_send(o);
}

static void on_to_be_emptied(struct apply_op *o, struct client_result *res)
{
    struct json_doc *desired = NULL;
    struct buf body;
    buf_init(&body, 4 << 20);
    bool found = res->failure == NULL && json_parse(o->op->body, o->op->body_len, &desired, NULL) == 0 &&
                 emptied_write_patch(json_root(res->doc), o->op->manager, o->op->subresource,
                                     json_root(desired), &body);
    if (found) {
        char *query = apply_request_query(o->op, false);
        apply_request_patch(o, query, "application/json-patch+json", body.data, body.len, on_emptied);
        free(query);
    } else {
        give_up_emptying(o, res);
    }
    buf_fini(&body);
    json_doc_free(desired);
}

bool apply_empty_helps(struct apply_op *o, const struct client_result *res)
{
    if (!is_hole(res->failure) || o->emptied ||
        o->op->uid == NULL) // NULL: it is to be made, nothing is there
        return false;
    o->emptied = true;
    apply_op_fail_but_try(o, res->failure, "nor could its containers be emptied first");
    apply_request_get(o, o->op->subresource, on_to_be_emptied);
    return true;
}
