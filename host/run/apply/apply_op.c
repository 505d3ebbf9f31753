#include "run/apply/apply_op.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/strset.h"
#include "run/apply/apply_create.h"
#include "run/apply/apply_delete.h"
#include "run/apply/apply_fields.h"
#include "run/apply/apply_fight.h"
#include "run/apply/apply_hand_over.h"

struct object *apply_op_stored(const struct apply_op *o)
{
    const struct op *op = o->op;
    if (op->kind == OP_STATUS || op->kind == OP_FINALIZER || op->kind == OP_UNFINALIZE)
        return controller_view_subject(o->in->view, UINT64_MAX, o->in->key);
    if (op->kind != OP_PATCH && op->kind != OP_RELEASE && !op->by_reference)
        return child_stores_get(o->in->view->children, UINT64_MAX, op->resource.gvk, op->ns, op->name);
    struct object *object = NULL;
    struct store *store = NULL;
    struct informer_scope scope = {
        .gvk = op->resource.gvk, .ns = op->resource.namespaced ? op->ns : NULL, .name = op->name};
    if (informers_find(o->applier->o.informers, &scope, &store, NULL) == INFORMER_SYNCED)
        object = store_get(store, UINT64_MAX, op->ns, op->name);
    store_unref(store);
    return object;
}

// Its resourceVersion, "" if there is none; free().
static char *stored_version(const struct apply_op *o)
{
    struct object *object = apply_op_stored(o);
    char *rv = xstrdup(object == NULL ? "" : object_resource_version(object));
    object_unref(object);
    return rv;
}

bool apply_op_is_about_subject(const struct op *op)
{
    return op->kind == OP_STATUS || op->kind == OP_FINALIZER || op->kind == OP_UNFINALIZE;
}

static bool is_unseen(const struct apply_op *o)
{
    return o->in->unseen && apply_op_is_about_subject(o->op);
}

static struct own_writer writer_of(const struct apply_op *o)
{
    return (struct own_writer){o->in->view->script->hash, o->in->key};
}

static void end_write(struct apply_op *o, const char *rv)
{
    const struct op *op = o->op;
    if (is_unseen(o))
        return;
    o->foreign |= own_writes_end(o->applier->own, writer_of(o), op->resource.gvk, op->ns, op->name, rv);
    if (rv == NULL)
        return;
    char *stored = stored_version(o);
    if (stored[0] != '\0' || op->kind == OP_DELETE)
        own_writes_store_has(o->applier->own, writer_of(o), op->resource.gvk, op->ns, op->name, stored);
    free(stored);
}

void apply_op_end(struct apply_op *o, const char *rv)
{
    end_write(o, rv);
    if (o->in_gate)
        write_gate_leave(o->applier->gate);
    o->in_gate = false;
    o->on_done(o);
}

void apply_op_fail(struct apply_op *o, const struct api_status *why)
{
    o->ok = false;
    o->retry_after_ms = why->retry_after_ms;
    o->terminating = str_eq(why->cause, "NamespaceTerminating");
    if (o->remedy != NULL) { // what it was for stands there already
        char *text = xasprintf("%s: %s", o->remedy, why->err.text);
        o->err.code = why->code;
        err_join(&o->err, 1, text);
        free(text);
        return;
    }
    err_set(&o->err, (enum err_code) - why->code, "%s %s %s%s%s: %s", op_kind_name(o->op->kind),
            o->op->resource.gvk->text, o->op->ns, o->op->ns[0] == '\0' ? "" : "/", o->op->name,
            why->err.text);
}

void apply_op_fail_but_try(struct apply_op *o, const struct api_status *why, const char *remedy)
{
    apply_op_fail(o, why);
    o->remedy = remedy;
}

void apply_op_refuse(struct apply_op *o, enum err_code code, const char *text)
{
    o->ok = false;
    err_set(&o->err, code, "%s %s %s%s%s: %s", op_kind_name(o->op->kind), o->op->resource.gvk->text,
            o->op->ns, o->op->ns[0] == '\0' ? "" : "/", o->op->name, text);
}

void apply_op_set_body(struct apply_op *o, struct buf *body)
{
    free(o->op->body);
    o->op->body = buf_take(body, &o->op->body_len);
}

static void go(struct write_waiter *w)
{
    struct apply_op *o = (struct apply_op *)w; // the waiter is its first member
    const struct op *op = o->op;
    o->in_gate = true;
    if (!is_unseen(o))
        own_writes_begin(o->applier->own, writer_of(o), op->resource.gvk, op->ns, op->name, o->waiter);
    if (op->kind == OP_DELETE) {
        apply_delete_send(o);
    } else if (op->hands_over) {
        apply_hand_over_ask(o);
    } else if (op->kind == OP_CREATE && !op->known_absent) {
        apply_create_guard(o);
    } else {
        apply_fields_send(o);
    }
}

void apply_op_fini(struct apply_op *o)
{
    free(o->contested);
    object_unref(o->before);
}

void apply_op_start(struct apply_op *o)
{
    o->retry_after_ms = -1;
    o->gate.go = go;
    if (apply_fight_holds_back(o)) {
        o->ok = true;
        o->on_done(o);
        return;
    }
    if (o->op->kind == OP_CREATE) {
        const struct script *script = o->in->view->script;
        char *who = xasprintf("subject %s of script %s", o->in->key, script->name);
        const char *other = claims_take(o->applier->claims, o->op->resource.gvk, o->op->ns, o->op->name,
                                        object_uid(o->in->subject), who);
        free(who);
        if (other != NULL) {
            char *text = xasprintf("%s wants the same child: give them different names", other);
            apply_op_refuse(o, ERR_CONFLICT, text);
            free(text);
            o->on_done(o);
            return;
        }
        o->claimed = true;
    }
    write_gate_enter(o->applier->gate, o->in->view->script->hash, &o->gate);
}
