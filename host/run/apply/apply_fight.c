#include "run/apply/apply_fight.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/strset.h"
#include "run/apply/conflict.h"

static char *id_of(const struct apply_op *o)
{
    const struct op *op = o->op;
    return xasprintf("%s/%s|%s|%s|%s", op->resource.gvk->group, op->resource.gvk->kind, op->ns, op->name,
                     op->manager);
}

bool apply_fight_holds_back(struct apply_op *o)
{
    const struct op *op = o->op;
    o->move = FIGHTS_WRITE;
    if (op->path == NULL || !op->force)
        return false;
    char *id = id_of(o);
    o->move = fights_ask(o->applier->fights, id, op->path, op->desired_hash, loop_now_ms(o->applier->o.loop),
                         &o->again_ms);
    free(id);
    return o->move == FIGHTS_WAIT;
}

static void report(struct apply_op *o, const struct conflict *c, const struct object *stored)
{
    const struct op *op = o->op;
    struct json_doc *wanted = NULL, *live = stored == NULL ? NULL : object_parse(stored);
    json_parse(op->body, op->body_len, &wanted, NULL);
    char *text =
        conflict_text(c, conflict_find(json_root(live), c->path), op->manager,
                      conflict_find(json_root(wanted), c->path), str_eq(op->resource.gvk->kind, "Secret"));
    char *whole = xasprintf("%s %s%s%s: %s", op->resource.gvk->kind, op->ns, op->ns[0] == '\0' ? "" : "/",
                            op->name, text);
    series_inc(metric_series(o->applier->fought, o->in->view->script->name, c->manager));
    if (o->in->on_conflict != NULL)
        o->in->on_conflict(o->in->ud, whole);
    free(whole);
    free(text);
    json_doc_free(wanted);
    json_doc_free(live);
}

static void found(struct apply_op *o, const char *id, const struct conflict *c, const struct object *stored)
{
    if (fights_found(o->applier->fights, id, o->op->path, loop_now_ms(o->applier->o.loop)))
        report(o, c, stored);
}

bool apply_fight_answered(struct apply_op *o, const struct client_result *res, const struct object *stored)
{
    const struct op *op = o->op;
    if (o->move != FIGHTS_PROBE)
        return false;
    o->move = FIGHTS_WRITE;
    bool again = false;
    char *id = id_of(o);
    if (res->failure != NULL && api_status_is_conflict_with_manager(res->failure)) {
        struct json_doc *status = NULL;
        json_parse(res->body, res->body_len, &status, NULL);
        struct conflict c = conflict_read(json_root(status));
        found(o, id, &c, stored);
        json_doc_free(status);
        again = true;
    } else if (res->failure == NULL && fights_same_desire(o->applier->fights, id, op->path)) {
        // Nobody holds the field, and yet what we set does not stay: it is taken away.
        struct conflict c = conflict_guess(json_root(res->doc), op->manager, op->subresource, op->path);
        found(o, id, &c, stored);
    } else if (res->failure == NULL) {
        fights_calm(o->applier->fights, id, op->path);
    }
    free(id);
    return again;
}
