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

// That there is such a child. It is this subject's: another that comes under the same name makes its own.
static char *child_id_of(const struct apply_op *o)
{
    const struct op *op = o->op;
    return xasprintf("%s/%s|%s|%s|%s", op->resource.gvk->group, op->resource.gvk->kind, op->ns, op->name,
                     object_uid(o->in->subject));
}

static uint64_t now_of(const struct apply_op *o)
{
    return loop_now_ms(o->applier->o.loop);
}

static char *object_text(const struct op *op)
{
    return xasprintf("%s %s%s%s", op->resource.gvk->kind, op->ns, op->ns[0] == '\0' ? "" : "/", op->name);
}

bool apply_fight_holds_back(struct apply_op *o)
{
    const struct op *op = o->op;
    struct fights *f = o->applier->fights;
    o->move = FIGHTS_WRITE;
    if (op->kind == OP_CREATE) {
        char *id = child_id_of(o);
        o->move = fights_ask_to_make(f, id, now_of(o), &o->again_ms);
        free(id);
    } else if (op->path != NULL && op->force) {
        char *id = id_of(o);
        o->move = fights_ask(f, id, op->path, op->desired_hash, now_of(o), &o->again_ms);
        free(id);
    }
    return o->move == FIGHTS_WAIT;
}

const char *apply_fight_text(const struct apply_op *o, const char **ret_reason)
{
    const struct op *op = o->op;
    bool made = op->kind == OP_CREATE;
    if (!made && (op->path == NULL || !op->force))
        return NULL;
    char *id = made ? child_id_of(o) : id_of(o);
    const char *text = fights_text(o->applier->fights, id, made ? "" : op->path);
    free(id);
    *ret_reason = made ? FIGHT_CHILD : FIGHT_FIELD;
    return text;
}

// ---- children

void apply_fight_made(struct apply_op *o)
{
    char *id = child_id_of(o), *object = object_text(o->op);
    char *text = xasprintf("%s is deleted by somebody again and again", object);
    if (fights_made(o->applier->fights, id, text, now_of(o))) {
        char *whole =
            xasprintf("%s: stop who deletes it, or leave it out of the script; until then it is made "
                      "again less and less often",
                      text);
        series_inc(metric_series(o->applier->deleted, o->in->view->script->name));
        if (o->in->on_conflict != NULL)
            o->in->on_conflict(o->in->ud, FIGHT_CHILD, whole);
        free(whole);
    }
    free(text);
    free(object);
    free(id);
}

void apply_fight_deleted(struct apply_op *o)
{
    char *id = child_id_of(o);
    fights_calm(o->applier->fights, id, "");
    free(id);
}

// ---- fields

static void report(struct apply_op *o, const struct conflict *c, const struct object *stored)
{
    const struct op *op = o->op;
    struct json_doc *wanted = NULL, *live = stored == NULL ? NULL : object_parse(stored);
    json_parse(op->body, op->body_len, &wanted, NULL);
    char *text =
        conflict_text(c, conflict_find(json_root(live), c->path), op->manager,
                      conflict_find(json_root(wanted), c->path), str_eq(op->resource.gvk->kind, "Secret"));
    char *object = object_text(op), *whole = xasprintf("%s: %s", object, text);
    series_inc(metric_series(o->applier->fought, o->in->view->script->name, c->manager));
    if (o->in->on_conflict != NULL)
        o->in->on_conflict(o->in->ud, FIGHT_FIELD, whole);
    free(object);
    free(whole);
    free(text);
    json_doc_free(wanted);
    json_doc_free(live);
}

static void found(struct apply_op *o, const char *id, const struct conflict *c, const struct object *stored)
{
    bool known = c->manager[0] != '\0';
    char *object = object_text(o->op);
    char *text =
        xasprintf("%s: field %s is changed again and again by %s%s%s", object, c->path,
                  known ? "manager \"" : "", known ? c->manager : "somebody else", known ? "\"" : "");
    if (fights_found(o->applier->fights, id, o->op->path, text, now_of(o)))
        report(o, c, stored);
    free(text);
    free(object);
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
