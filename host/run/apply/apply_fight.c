#include "run/apply/apply_fight.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/strset.h"
#include "run/apply/conflict.h"

// A field of an object, as our manager sets it.
static char *name_field(const struct apply_op *o)
{
    const struct op *op = o->op;
    return xasprintf("%s/%s|%s|%s|%s|%s", op->resource.gvk->group, op->resource.gvk->kind, op->ns, op->name,
                     op->manager, op->path);
}

// That there is such a child. It is this subject's: another that comes under the same name makes its own.
static char *name_child(const struct apply_op *o)
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
    o->move = FIGHTS_WRITE;
    if (op->kind == OP_CREATE)
        o->contested = name_child(o);
    else if (op->path != NULL && op->force)
        o->contested = name_field(o);
    if (o->contested == NULL)
        return false;
    o->move = fights_ask(o->applier->fights, o->contested, now_of(o), &o->again_ms);
    if (op->kind == OP_CREATE && o->move == FIGHTS_PROBE) { // nobody can be asked who it is
        o->often = true;
        o->move = FIGHTS_WRITE;
    }
    if (o->move == FIGHTS_PROBE)
        o->before = apply_op_stored(o);
    return o->move == FIGHTS_WAIT;
}

const char *apply_fight_text(const struct apply_op *o, const char **ret_reason)
{
    const struct fights *f = o->applier->fights;
    if (o->contested == NULL || (o->move != FIGHTS_WAIT && !fights_same_desire(f, o->contested)))
        return NULL; // a change of our own that went through is none
    *ret_reason = o->op->kind == OP_CREATE ? FIGHT_CHILD : FIGHT_FIELD;
    return fights_text(f, o->contested);
}

// ---- children

static void found_deleted(struct apply_op *o)
{
    char *object = object_text(o->op);
    char *text = xasprintf("%s is deleted by somebody again and again", object);
    if (fights_found(o->applier->fights, o->contested, text, now_of(o))) {
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
}

void apply_fight_deleted(struct apply_op *o)
{
    char *child = name_child(o);
    fights_calm(o->applier->fights, child);
    free(child);
}

void apply_fight_written(struct apply_op *o, bool created)
{
    bool child = o->op->kind == OP_CREATE;
    if (o->contested == NULL || (child && !created))
        return;
    fights_written(o->applier->fights, o->contested, child ? 0 : o->op->desired_hash, now_of(o));
    if (o->often)
        found_deleted(o);
}

// ---- fields

static void report(struct apply_op *o, const struct conflict *c)
{
    const struct op *op = o->op;
    struct json_doc *wanted = NULL, *live = o->before == NULL ? NULL : object_parse(o->before);
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

static void found(struct apply_op *o, const struct conflict *c)
{
    bool known = c->manager[0] != '\0';
    char *object = object_text(o->op);
    char *text =
        xasprintf("%s: field %s is changed again and again by %s%s%s", object, c->path,
                  known ? "manager \"" : "", known ? c->manager : "somebody else", known ? "\"" : "");
    if (fights_found(o->applier->fights, o->contested, text, now_of(o)))
        report(o, c);
    free(text);
    free(object);
}

bool apply_fight_answered(struct apply_op *o, const struct client_result *res)
{
    const struct op *op = o->op;
    if (o->move != FIGHTS_PROBE)
        return false;
    o->move = FIGHTS_WRITE;
    bool again = false;
    if (res->failure != NULL && api_status_is_conflict_with_manager(res->failure)) {
        struct json_doc *status = NULL;
        json_parse(res->body, res->body_len, &status, NULL);
        struct conflict c = conflict_read(json_root(status));
        found(o, &c);
        json_doc_free(status);
        again = true;
    } else if (res->failure == NULL && fights_same_desire(o->applier->fights, o->contested)) {
        // Nobody holds the field, and yet what we set does not stay: it is taken away.
        struct conflict c = conflict_guess(json_root(res->doc), op->manager, op->subresource, op->path);
        found(o, &c);
    } else if (res->failure == NULL) {
        fights_calm(o->applier->fights, o->contested);
    }
    return again;
}
