// What becomes of a pass: reads installed, plan carried out, key given back.

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/strset.h"
#include "run/controller/controller_internal.h"
#include "run/report/reconciled.h"

#define REASON_TERMINATING "NamespaceTerminating"
enum {
    LASTING_MS = 1000,    // a failure that is retried later than that is worth a condition at once
    FIGHT_MS = 60 * 1000, // a fight that was not seen for so long is over
};

static const double second_buckets[] = {
    .005, .01, .025, .05, .1,  .15, .2,  .25, .3, .35, .4, .45, .5, .6, .7, .8, .9, 1,  1.25, 1.5,
    1.75, 2,   2.5,  3,   3.5, 4,   4.5, 5,   6,  7,   8,  9,   10, 15, 20, 25, 30, 40, 50,   60};
static const double cpu_buckets[] = {25e-6,  50e-6, 100e-6, 200e-6, 400e-6, 800e-6,
                                     1.6e-3, 5e-3,  20e-3,  100e-3, .25,    1};
static const double memory_buckets[] = {256 << 10, 512 << 10, 1 << 20,  2 << 20,  4 << 20,
                                        8 << 20,   16 << 20,  32 << 20, 64 << 20, 128 << 20};

#define COUNT(a) (sizeof(a) / sizeof(a)[0])
static const struct metric_def def_total = {"controller_runtime_reconcile_total", "Passes by result.",
                                            METRIC_COUNTER, "controller,result"};
static const struct metric_def def_errors = {"controller_runtime_reconcile_errors_total",
                                             "Passes that failed.", METRIC_COUNTER, "controller"};
static const struct metric_def def_terminal = {
    "controller_runtime_terminal_reconcile_errors_total",
    "Passes that failed and are not retried until an input changes.", METRIC_COUNTER, "controller"};
static const struct metric_def def_seconds = {"controller_runtime_reconcile_time_seconds",
                                              "Time of a pass, its writes included.",
                                              METRIC_HISTOGRAM,
                                              "controller",
                                              second_buckets,
                                              COUNT(second_buckets)};
static const struct metric_def def_cpu = {"tidelock_pass_cpu_seconds",
                                          "CPU time of a script's evaluation.",
                                          METRIC_HISTOGRAM,
                                          "controller",
                                          cpu_buckets,
                                          COUNT(cpu_buckets)};
static const struct metric_def def_memory = {"tidelock_pass_memory_bytes",
                                             "Most memory that a script's evaluation had at once.",
                                             METRIC_HISTOGRAM,
                                             "controller",
                                             memory_buckets,
                                             COUNT(memory_buckets)};
static const struct metric_def def_parked = {"tidelock_passes_parked_total",
                                             "Passes that waited for a kind to be synced.", METRIC_COUNTER,
                                             "controller"};
static const struct metric_def def_workers = {"controller_runtime_max_concurrent_reconciles",
                                              "Workers a script may use at once.", METRIC_GAUGE,
                                              "controller"};

void controller_open_metrics(struct controller *c)
{
    struct metrics *m = c->env->metrics;
    struct metric *total = metrics_add(m, &def_total);
    const char *name = c->script->name;
    int workers = program_spec(c->script->program)->workers;
    c->m.success = metric_series(total, name, "success");
    c->m.error = metric_series(total, name, "error");
    c->m.requeue_after = metric_series(total, name, "requeue_after");
    c->m.errors = metric_series(metrics_add(m, &def_errors), name);
    c->m.terminal = metric_series(metrics_add(m, &def_terminal), name);
    c->m.seconds = metric_series(metrics_add(m, &def_seconds), name);
    c->m.cpu = metric_series(metrics_add(m, &def_cpu), name);
    c->m.memory = metric_series(metrics_add(m, &def_memory), name);
    c->m.parked = metric_series(metrics_add(m, &def_parked), name);
    series_set(metric_series(metrics_add(m, &def_workers), name),
               workers > 0 ? (double)workers : (double)c->env->workers);
}

// A key's way through the writes.
struct under_way {
    struct controller *c;
    struct outcome *o;
};

static void give_back(struct controller *c, struct outcome *o)
{
    uint64_t now = clock_now_us(loop_clock(c->env->loop));
    series_observe(c->m.seconds, (double)(now - o->start_us) / 1e6);
    if (o->subject != NULL && !c->stopping)
        controller_ask_after_pass(c, o->key, o->subject);
    queue_done(c->queue, o->key);
    outcome_free(o);
}

static void set_timer(struct controller *c, const struct outcome *o, int64_t requeue_us)
{
    int64_t resync = program_spec(o->view->script->program)->resync_us;
    if (o->kind == OUTCOME_GONE) {
        queue_cancel_timer(c->queue, o->key);
        return;
    }
    if (resync > 0 && (requeue_us == 0 || resync < requeue_us))
        requeue_us = resync;
    if (requeue_us > 0) // a timer of an older pass stays when it is earlier
        queue_add_after(c->queue, o->key, (uint64_t)(requeue_us + 999) / 1000);
}

// Says on the subject how the pass went. While something is being undone by somebody else it is not
// reconciled, and some time after the last such pass: in ms, 0 when nothing of that kind is known.
static uint64_t report_success(struct controller *c, const struct outcome *o, struct key_state *k,
                               const struct apply_result *result)
{
    uint64_t now = loop_now_ms(c->env->loop);
    bool fought = result != NULL && result->fight[0] != '\0';
    if (fought)
        k->fight_until_ms = now + FIGHT_MS;
    if (!o->ran || o->leaving)
        return 0;
    if (fought)
        reconciled_failing(c->reconciled, o->key, o->subject, result->fight_reason, result->fight);
    else if (now >= k->fight_until_ms)
        reconciled_healed(c->reconciled, o->key, o->subject);
    return now < k->fight_until_ms ? k->fight_until_ms - now : 0;
}

// result: of its writes; NULL: there was nothing to write.
static void succeed(struct controller *c, struct outcome *o, int64_t requeue_us,
                    const struct apply_result *result)
{
    bool asks = program_spec(c->script->program)->has_when;
    queue_forget(c->queue, o->key);
    bool asked = requeue_us > 0;
    if (o->subject != NULL) {
        struct key_state *k = key_states_get(c->keys, o->key, object_uid(o->subject));
        key_state_no_problem(k);
        if (o->kind != OUTCOME_PAUSED)
            key_state_went_through(k, asks ? o->subject : NULL, o->changed_hash);
        int64_t fight_us = (int64_t)report_success(c, o, k, result) * 1000;
        if (fight_us > 0 && (requeue_us == 0 || fight_us < requeue_us))
            requeue_us = fight_us;
    }
    set_timer(c, o, requeue_us);
    series_inc(asked ? c->m.requeue_after : c->m.success);
    give_back(c, o);
}

// Nothing of ours is left of a subject that was not deleted.
static void leave(struct controller *c, struct outcome *o)
{
    char *key = xstrdup(o->key);
    succeed(c, o, 0, NULL);
    controller_left(c, key);
    free(key);
}

// Is a failure worth a condition? Not one that may be over in a moment.
static bool is_lasting(const struct controller *c, const struct outcome *o, uint64_t retry_ms)
{
    return retry_ms == 0 || retry_ms >= LASTING_MS || queue_failures(c->queue, o->key) > 1;
}

// Says a key's problem once, until it changes. retry_ms 0: it is not retried.
static void report(struct controller *c, const struct outcome *o, const char *reason, const struct err *e,
                   uint64_t retry_ms)
{
    bool terminating = strcmp(reason, REASON_TERMINATING) == 0; // takes neither Events nor anything else new
    struct key_state *k = key_states_get(c->keys, o->key, object_uid(o->subject));
    bool new = key_state_problem(k, e->text);
    enum log_level level = new ? LOG_WARN : LOG_DEBUG;
    LOG_(level, "pass failed", F_STR("script", c->script->name), F_STR("key", o->key),
         F_STR("reason", reason), F_STR("error", e->text), F_STR("traceback", o->traceback),
         F_INT("retry_ms", (int64_t)retry_ms));
    key_state_failed(k);
    if (new && !terminating)
        recorder_event(c->env->recorder, o->subject, "Warning", reason, "Reconcile", e->text);
    if (!terminating && !o->leaving && is_lasting(c, o, retry_ms))
        reconciled_failing(c->reconciled, o->key, o->subject, reason, e->text);
}

static void fail(struct controller *c, struct outcome *o, const char *reason, const struct err *e,
                 int64_t at_least_ms)
{
    uint64_t ms = queue_retry(c->queue, o->key, at_least_ms > 0 ? (uint64_t)at_least_ms : 0);
    series_inc(c->m.error);
    if (o->leaving)
        controller_leaving_failed(c, o->key);
    series_inc(c->m.errors);
    report(c, o, reason, e, ms);
    controller_deletion_failed(c, o, e->text, strcmp(reason, REASON_TERMINATING) == 0, false);
    give_back(c, o);
}

static void fail_pass(struct controller *c, struct outcome *o)
{
    static const char *const reasons[] = {[PASS_RAISED] = "ScriptError",
                                          [PASS_RESULT] = "InvalidResult",
                                          [PASS_DEADLINE] = "ScriptOverrun",
                                          [PASS_MEMORY] = "ScriptOverrun",
                                          [PASS_LIMIT] = "ScriptOverrun"};
    const char *reason = o->stuck                                                     ? "ScriptStuck"
                         : (size_t)o->end < COUNT(reasons) && reasons[o->end] != NULL ? reasons[o->end]
                                                                                      : "ReconcileError";
    if (o->reason[0] != '\0')
        reason = o->reason;
    if (o->end != PASS_INVALID) {
        fail(c, o, reason, &o->err, (o->retry_after_us + 999) / 1000);
        return;
    }
    queue_forget(c->queue, o->key); // terminal: only a changed input runs it again
    queue_cancel_timer(c->queue, o->key);
    series_inc(c->m.terminal);
    report(c, o, reason, &o->err, 0);
    controller_deletion_failed(c, o, o->err.text, false, true);
    give_back(c, o);
}

struct emission {
    struct controller *c;
    const struct object *about;
};

static void emit(void *ud, const struct plan_event *ev)
{
    const struct emission *e = ud;
    recorder_event(e->c->env->recorder, e->about, ev->type, ev->reason, "Reconcile", ev->message);
}

// When the key is to be looked at again without a change: as the script asked, or when a fought-over field is
// to be set again.
static int64_t next_look(const struct outcome *o, const struct apply_result *result)
{
    int64_t us = o->plan->requeue_us, again_us = (int64_t)result->again_ms * 1000;
    return again_us > 0 && (us == 0 || again_us < us) ? again_us : us;
}

static void on_conflict(void *ud, const char *reason, const char *text)
{
    const struct under_way *u = ud;
    log_warn("somebody undoes what is written", F_STR("script", u->c->script->name), F_STR("key", u->o->key),
             F_STR("reason", reason), F_STR("error", text));
    recorder_event(u->c->env->recorder, u->o->subject, "Warning", reason, "Apply", text);
}

// Own writes wake nobody; a script that looked at its children wants to see what has become of them.
static bool changed_what_it_read(const struct outcome *o, const struct apply_result *result)
{
    bool children = false;
    for (size_t i = 0; i < o->plan->count; i++) {
        enum op_kind kind = o->plan->ops[i].kind;
        children |= kind == OP_CREATE || kind == OP_APPLY || kind == OP_DELETE;
    }
    return o->read_children && children && result->writes > 0 && result->failures == 0;
}

// What they tell of a subject's deletion.
static void note_writes(struct controller *c, const struct outcome *o, const struct apply_result *result)
{
    if (result->subject_namespace_goes)
        terminating_tell(c->env->terminating, object_namespace(o->subject));
    if (result->writes > 0)
        controller_deletion_moved(c, o->key);
}

static void on_applied(void *ud, const struct apply_result *result)
{
    struct under_way *u = ud;
    struct controller *c = u->c;
    struct outcome *o = u->o;
    struct key_state *k = key_states_get(c->keys, o->key, object_uid(o->subject));
    free(u);
    struct emission emission = {c, o->subject};
    key_state_events(k, o->plan, !k->completed && result->writes == 0, emit, &emission);
    bool again = result->foreign_change || changed_what_it_read(o, result) ||
                 (o->plan->unfinished && result->failures == 0 && result->writes > 0);
    if (again && !c->stopping)
        queue_add(c->queue, o->key);
    struct err e = o->plan->errors ? o->plan->err : result->err;
    if (o->plan->errors && result->failures > 0)
        err_join(&e, o->plan->error_count, result->err.text);
    if ((o->plan->errors || (result->failures > 0 && !result->terminating)) && !c->stopping)
        schemas_doubt(c->env->schemas);
    note_writes(c, o, result);
    if (o->plan->errors || result->failures > 0)
        fail(c, o, result->terminating ? REASON_TERMINATING : "ApplyFailed", &e, result->retry_after_ms);
    else if (o->plan->last)
        leave(c, o);
    else
        succeed(c, o, next_look(o, result), result);
}

static void carry_out(struct controller *c, struct outcome *o)
{
    struct under_way *u = xcalloc(1, sizeof *u);
    *u = (struct under_way){c, o};
    apply_start(c->env->applier, &(struct apply_input){.view = o->view,
                                                       .inventory = c->inventory,
                                                       .subject = o->subject,
                                                       .key = o->key,
                                                       .unseen = o->leaving,
                                                       .plan = o->plan,
                                                       .on_done = on_applied,
                                                       .on_conflict = on_conflict,
                                                       .ud = u});
}

static void park(struct controller *c, struct outcome *o)
{
    bool for_children = !o->ran;
    series_inc(c->m.parked);
    bool current = o->view == c->view; // otherwise the stores have changed meanwhile
    if (for_children && !current)
        queue_add(c->queue, o->key);
    else if (for_children || o->awaits_schema)
        strset_add(&c->parked,
                   o->key); // until controller_on_state finds them synced, or controller_on_schemas
    if (o->awaits_key && controller_await_key(c))
        strset_add(&c->parked, o->key); // until controller_on_key
    else if (o->awaits_key)
        queue_add(c->queue, o->key); // it came meanwhile
    if (o->awaits_schema && schemas_sequence(c->env->schemas) != o->schema_sequence)
        queue_add(c->queue, o->key); // it came meanwhile
    give_back(c, o);
}

static void install_reads(struct controller *c, struct outcome *o)
{
    if (o->kind == OUTCOME_GONE) {
        deps_forget(c->env->deps, c, o->key);
        key_states_forget(c->keys, o->key);
        reconciled_forget(c->reconciled, o->key);
        return;
    }
    if (!o->ran)
        return; // what the last pass read still counts
    if (deps_install(c->env->deps, c, o->key, &o->reads, o->revision, &o->view->script->as))
        queue_add(c->queue, o->key);
}

void controller_on_outcome(struct outcome *o)
{
    struct controller *c = o->owner;
    if (!c->stopping)
        install_reads(c, o);
    store_snapshot_release(c->env->store_clock, o->revision);
    if (o->cpu_us > 0)
        series_observe(c->m.cpu, (double)o->cpu_us / 1e6);
    if (o->memory_peak > 0)
        series_observe(c->m.memory, (double)o->memory_peak);
    if (c->stopping) {
        give_back(c, o);
        return;
    }
    controller_guard_pass(c, o);
    controller_deletion_pass(c, o);
    switch (o->kind) {
    case OUTCOME_PLANNED:
        carry_out(c, o);
        return;
    case OUTCOME_PARKED:
        park(c, o);
        return;
    case OUTCOME_FAILED:
        fail_pass(c, o);
        return;
    case OUTCOME_DELETING:
        if (o->leaving) {
            leave(c, o);
            return;
        }
        break;
    case OUTCOME_NIL:
    case OUTCOME_GONE:
    case OUTCOME_PAUSED:
        break;
    }
    succeed(c, o, 0, NULL);
}
