#include "run/workqueue/pass_job.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "run/workqueue/predicate.h"

static enum outcome_kind before_pass(const struct outcome *o)
{
    if (o->view->children == NULL || !child_stores_synced(o->view->children))
        return OUTCOME_PARKED;
    if (o->subject == NULL)
        return OUTCOME_GONE;
    if (o->given_up != GIVEN_UP_ALL && (o->view->paused || predicate_is_paused(o->subject)))
        return OUTCOME_PAUSED;
    if (object_is_deleting(o->subject) && !plan_has_finalizer(o->view->script, o->subject))
        return OUTCOME_DELETING;
    return OUTCOME_PLANNED;
}

static void take_failure(struct outcome *o, struct pass_output *out)
{
    o->kind = out->end == PASS_PARKED ? OUTCOME_PARKED : OUTCOME_FAILED;
    o->err = out->err;
    memcpy(o->reason, out->reason, sizeof o->reason);
    o->retry_after_us = out->retry_after_us;
    if (out->traceback.len > 0)
        o->traceback = buf_take(&out->traceback, NULL);
}

static void make_plan(const struct pass_env *env, struct outcome *o, struct world_view *world,
                      const struct pass_output *out)
{
    struct json_doc *doc = NULL;
    int r = out == NULL ? 0 : json_parse(out->result.data, out->result.len, &doc, &o->err);
    if (r == 0) {
        struct plan_types types = {.schemas = env->schemas};
        o->schema_sequence = env->schemas == NULL ? 0 : schemas_sequence(env->schemas);
        o->hook_done = out == NULL || json_true(json_get(json_root(doc), "done"));
        struct plan_input in = {.result = json_root(doc),
                                .types = &types,
                                .world = world,
                                .learned = env->learned,
                                .now_us = clock_wall_us(env->clock),
                                .finalizing = o->finalizing,
                                .leaving = o->leaving,
                                .given_up = o->given_up == GIVEN_UP_ALL,
                                .done = o->hook_done};
        r = plan_make(&in, &o->plan, &o->err);
        o->awaits_schema = types.awaited;
        plan_types_fini(&types);
        json_doc_free(doc);
    }
    if (r < 0)
        o->kind = r == -ERR_PARKED ? OUTCOME_PARKED : OUTCOME_FAILED;
}

static void take_output(const struct pass_env *env, struct outcome *o, struct world_view *world,
                        struct pass_output *out)
{
    o->ran = true;
    o->end = out->end;
    o->cpu_us = out->cpu_us;
    o->memory_peak = out->memory_peak;
    if (out->end == PASS_OK && o->canceled != NULL && __atomic_load_n(o->canceled, __ATOMIC_ACQUIRE))
        o->kind = OUTCOME_FAILED; // nothing may be read any more, and nobody waits for it
    else if (out->end == PASS_OK)
        make_plan(env, o, world, out);
    else if (out->end == PASS_NIL)
        o->kind = OUTCOME_NIL;
    else
        take_failure(o, out);
}

static void run_entry(const struct pass_env *env, struct pass_runner *runner, struct outcome *o,
                      struct world_view *world)
{
    struct script *script = o->view->script;
    struct pass_input in = {.program = script->program,
                            .entry = o->finalizing ? "finalize" : "reconcile",
                            .env_json = script->host->env_json,
                            .now_us = clock_wall_us(env->clock),
                            .world = env->world_ops != NULL ? env->world_ops : &world_view_ops,
                            .ud = world,
                            .limits = env->limits};
    struct pass_output out;
    in.object_json = object_json(o->subject, &in.object_len);
    pass_run(runner, &in, &out);
    take_output(env, o, world, &out);
    pass_output_fini(&out);
}

static void run_script(const struct pass_env *env, struct pass_runner *runner, struct outcome *o)
{
    struct script *script = o->view->script;
    struct world_view world = {.informers = env->informers,
                               .discovery = env->discovery,
                               .script = script,
                               .subject = o->subject,
                               .children = o->view->children,
                               .host_key = env->host_key,
                               .revision = o->revision,
                               .canceled = o->canceled};
    o->finalizing = object_is_deleting(o->subject) || o->leaving;
    // One that is leaving may never have been under it.
    bool has_finalize = program_spec(script->program)->has_finalize && o->given_up == GIVEN_UP_NOTHING &&
                        (!o->leaving || plan_has_finalizer(script, o->subject));
    if (o->finalizing && !has_finalize)
        make_plan(env, o, &world, NULL);
    else
        run_entry(env, runner, o, &world);
    o->read_children = world.read_children;
    o->awaits_key = world.wants_key && o->kind == OUTCOME_PARKED;
    o->reads = world.reads;
    world.reads = (struct reads){0};
    world_view_fini(&world);
}

void pass_job_run(const struct pass_env *env, struct pass_runner *runner, struct controller_view *view,
                  const char *key, struct outcome *ret)
{
    ret->start_us = clock_now_us(env->clock);
    ret->key = xstrdup(key);
    ret->view = view;
    ret->revision = store_snapshot(env->store_clock);
    ret->subject = controller_view_subject(view, ret->revision, ret->key);
    if (ret->subject == NULL) {
        ret->subject = controller_view_leaver(view, ret->key);
        ret->leaving = ret->subject != NULL;
    }
    if (ret->subject != NULL)
        ret->given_up = given_up_of(view->given_up, object_uid(ret->subject));
    ret->kind = before_pass(ret);
    if (ret->kind == OUTCOME_PLANNED && program_spec(view->script->program)->changed != NULL)
        ret->changed_hash = predicate_changed_hash(view->script, ret->subject);
    if (ret->kind == OUTCOME_PLANNED)
        run_script(env, runner, ret);
}

void outcome_free(struct outcome *o)
{
    if (o == NULL)
        return;
    controller_view_unref(o->view);
    object_unref(o->subject);
    reads_fini(&o->reads);
    plan_free(o->plan);
    free(o->traceback);
    free(o->key);
    free(o);
}
