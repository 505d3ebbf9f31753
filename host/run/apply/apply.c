#include "run/apply/apply.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/strset.h"
#include "run/apply/apply_fight.h"
#include "run/apply/apply_op.h"
#include "run/apply/seen.h"

enum phase {
    PHASE_INVENTORY,
    PHASE_FINALIZER,
    PHASE_OBJECTS,
    PHASE_DELETES,
    PHASE_STATUS,
    PHASE_UNFINALIZE,
    PHASE_SEEN,
    PHASE_DONE
};

struct job {
    struct applier *applier;
    struct apply_input in;
    enum phase phase;
    struct apply_op *ops; // one for each of the plan's
    size_t left;          // of the current phase
    bool starting;        // operations of the phase are still being started
    struct seen *seen;
    struct apply_result result;
};

static const struct metric_def def_writes = {"tidelock_writes_total", "Writes to the API server.",
                                             METRIC_COUNTER, "script,op,code"};
static const struct metric_def def_fought = {
    "tidelock_field_fights_total", "Fields found to flip between a script and another field manager.",
    METRIC_COUNTER, "script,manager"};

static const struct metric_def def_deleted = {"tidelock_child_fights_total",
                                              "Children found to be deleted by others again and again.",
                                              METRIC_COUNTER, "script"};

struct applier *applier_new(const struct applier_options *o)
{
    struct applier *a = xcalloc(1, sizeof *a);
    a->o = *o;
    a->own = own_writes_new(seen_by_all, o->informers);
    a->claims = claims_new();
    a->gate = write_gate_new(o->max_writes == 0 ? 64 : o->max_writes);
    a->fights = fights_new();
    strset_init(&a->warnings);
    a->writes = metrics_add(o->metrics, &def_writes);
    a->fought = metrics_add(o->metrics, &def_fought);
    a->deleted = metrics_add(o->metrics, &def_deleted);
    return a;
}

void applier_free(struct applier *a)
{
    if (a == NULL)
        return;
    ASSERT(a->active == 0);
    own_writes_free(a->own);
    claims_free(a->claims);
    write_gate_free(a->gate);
    fights_free(a->fights);
    strset_fini(&a->warnings);
    free(a);
}

struct own_writes *applier_own_writes(struct applier *a)
{
    return a->own;
}

size_t applier_active(const struct applier *a)
{
    return a->active;
}

void applier_hurry(struct applier *a)
{
    a->hurry = true;
}

static void release_claims(struct job *j)
{
    for (size_t i = 0; i < j->in.plan->count; i++) {
        const struct op *op = &j->in.plan->ops[i];
        if (j->ops[i].claimed)
            claims_release(j->applier->claims, op->resource.gvk, op->ns, op->name, object_uid(j->in.subject));
    }
}

static void finish(void *ud)
{
    struct job *j = ud;
    size_t plan_ops = j->in.plan->count; // the plan goes with on_done
    release_claims(j);
    seen_free(j->seen);
    j->applier->active--;
    j->in.on_done(j->in.ud, &j->result);
    for (size_t i = 0; i < plan_ops; i++)
        apply_op_fini(&j->ops[i]);
    free(j->ops);
    free(j);
}

static void on_seen(void *ud)
{
    struct job *j = ud;
    j->phase = PHASE_DONE;
    loop_defer(j->applier->o.loop, finish, j);
}

static enum phase phase_of(const struct op *op)
{
    switch (op->kind) {
    case OP_DELETE:
        return PHASE_DELETES;
    case OP_STATUS:
        return PHASE_STATUS;
    case OP_FINALIZER:
        return PHASE_FINALIZER;
    case OP_UNFINALIZE:
        return PHASE_UNFINALIZE;
    default:
        return PHASE_OBJECTS;
    }
}

static void next_phase(struct job *j);

static void take_fight(struct apply_result *r, const struct apply_op *o)
{
    const char *reason, *text = apply_fight_text(o, &reason);
    if (text == NULL || r->fight[0] != '\0')
        return;
    size_t n = str_utf8_cut(text, strlen(text), sizeof r->fight - 1);
    memcpy(r->fight, text, n);
    r->fight[n] = '\0';
    r->fight_reason = reason;
}

static void take_result(struct job *j, const struct apply_op *o)
{
    struct apply_result *r = &j->result;
    take_fight(r, o);
    r->foreign_change |= o->foreign;
    if (o->move == FIGHTS_WAIT && (r->again_ms == 0 || o->again_ms < r->again_ms))
        r->again_ms = o->again_ms;
    if (o->ok) {
        r->writes += o->written;
        return;
    }
    r->terminating = o->terminating && (r->failures == 0 || r->terminating);
    r->subject_namespace_goes |= o->terminating && str_eq(o->op->ns, object_namespace(j->in.subject));
    if (o->retry_after_ms > r->retry_after_ms)
        r->retry_after_ms = o->retry_after_ms;
    if (r->failures++ == 0) {
        r->err = o->err;
    } else {
        err_join(&r->err, r->failures - 1, o->err.text);
    }
}

static void on_op_done(struct apply_op *o)
{
    struct job *j = o->ud;
    take_result(j, o);
    if (--j->left == 0 && !j->starting)
        next_phase(j);
}

static void start_phase(struct job *j)
{
    j->starting = true;
    for (size_t i = 0; i < j->in.plan->count; i++) {
        if (phase_of(&j->in.plan->ops[i]) != j->phase)
            continue;
        j->ops[i] = (struct apply_op){.applier = j->applier,
                                      .in = &j->in,
                                      .op = &j->in.plan->ops[i],
                                      .waiter = seen_waiter(j->seen),
                                      .on_done = on_op_done,
                                      .ud = j};
        j->left++;
        apply_op_start(&j->ops[i]);
    }
    j->starting = false;
}

static void next_phase(struct job *j)
{
    while (j->left == 0 && j->phase < PHASE_SEEN) {
        j->phase++;
        bool failed = j->result.failures > 0;
        if (failed && j->phase == PHASE_OBJECTS) // without the finalizer nothing that needs it may be made
            j->phase = PHASE_SEEN;
        // A namespace that goes away refuses what is new: that must not hold its subjects.
        if (failed && !j->result.terminating && j->phase == PHASE_UNFINALIZE)
            j->phase = PHASE_SEEN;
        if (j->phase == PHASE_SEEN)
            seen_wait(j->seen);
        else
            start_phase(j);
    }
}

static void on_inventory(void *ud, int r, const struct err *e)
{
    struct job *j = ud;
    if (r < 0) { // without it nothing could be pruned after a restart, so nothing is written
        j->result.failures = 1;
        j->result.err = *e;
        j->phase = PHASE_DONE;
        loop_defer(j->applier->o.loop, finish, j);
        return;
    }
    next_phase(j);
}

static void start(void *ud)
{
    struct job *j = ud;
    const struct plan *p = j->in.plan;
    const struct gvk *subject = object_gvk(j->in.subject);
    struct inventory_kind *kinds = xcalloc(p->count + 2, sizeof kinds[0]);
    size_t n = 0;
    bool leaves = false; // something that has to be given back one day
    for (size_t i = 0; i < p->count; i++) {
        const struct op *op = &p->ops[i];
        leaves |= op->kind == OP_CREATE || op->kind == OP_PATCH || op->kind == OP_FINALIZER;
        if (op->kind == OP_CREATE || op->kind == OP_PATCH)
            kinds[n++] =
                (struct inventory_kind){(char *)op->resource.gvk->group, (char *)op->resource.gvk->kind,
                                        .patched = op->kind == OP_PATCH};
    }
    if (leaves)
        kinds[n++] = (struct inventory_kind){(char *)subject->group, (char *)subject->kind, .subject = true};
    inventory_add(j->in.inventory, kinds, n, on_inventory, j);
    free(kinds);
}

void apply_start(struct applier *a, const struct apply_input *in)
{
    struct job *j = xcalloc(1, sizeof *j);
    j->applier = a;
    j->in = *in;
    j->ops = xcalloc(in->plan->count + 1, sizeof j->ops[0]);
    j->result.retry_after_ms = -1;
    j->seen = seen_new(&(struct seen_options){.loop = a->o.loop,
                                              .informers = a->o.informers,
                                              .own = a->own,
                                              .hurry = &a->hurry,
                                              .on_seen = on_seen,
                                              .ud = j});
    a->active++;
    loop_defer(a->o.loop, start, j);
}
