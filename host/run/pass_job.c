#include "run/pass_job.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

static bool is_paused(const struct object *subject)
{
    // Annotations are not indexed; the text is looked at only when the word stands there at all.
    size_t n;
    const char *text = object_json(subject, &n);
    if (memmem(text, n, MARKS_ANNOTATION_PAUSED, sizeof MARKS_ANNOTATION_PAUSED - 1) == NULL)
        return false;
    struct json_doc *doc = object_parse(subject);
    const char *value =
        json_str(json_path(json_root(doc), "metadata", "annotations", MARKS_ANNOTATION_PAUSED, NULL));
    bool paused = value != NULL && strcmp(value, "true") == 0;
    json_doc_free(doc);
    return paused;
}

static enum outcome_kind before_pass(const struct outcome *o)
{
    if (o->view->children == NULL || !child_stores_synced(o->view->children))
        return OUTCOME_PARKED;
    if (o->subject == NULL)
        return OUTCOME_GONE;
    if (o->view->paused || is_paused(o->subject))
        return OUTCOME_PAUSED;
    if (object_is_deleting(o->subject))
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
    struct json_doc *doc;
    int r = json_parse(out->result.data, out->result.len, &doc, &o->err);
    if (r == 0) {
        struct plan_input in = {.result = json_root(doc),
                                .world = world,
                                .learned = env->learned,
                                .now_us = clock_wall_us(env->clock)};
        r = plan_make(&in, &o->plan, &o->err);
        json_doc_free(doc);
    }
    if (r < 0)
        o->kind = r == -ERR_PARKED ? OUTCOME_PARKED : OUTCOME_FAILED;
}

static void run_script(const struct pass_env *env, struct pass_runner *runner, struct outcome *o)
{
    struct script *script = o->view->script;
    struct world_view world = {.informers = env->informers,
                               .discovery = env->discovery,
                               .script = script,
                               .subject = o->subject,
                               .children = o->view->children,
                               .revision = o->revision};
    struct pass_input in = {.program = script->program,
                            .entry = "reconcile",
                            .env_json = script->host->env_json,
                            .now_us = clock_wall_us(env->clock),
                            .world = &world_view_ops,
                            .ud = &world,
                            .limits = env->limits};
    struct pass_output out;
    in.object_json = object_json(o->subject, &in.object_len);
    pass_run(runner, &in, &out);
    o->ran = true;
    o->end = out.end;
    o->cpu_us = out.cpu_us;
    o->memory_peak = out.memory_peak;
    if (out.end == PASS_OK)
        make_plan(env, o, &world, &out);
    else if (out.end == PASS_NIL)
        o->kind = OUTCOME_NIL;
    else
        take_failure(o, &out);
    o->reads = world.reads;
    world.reads = (struct reads){0};
    world_view_fini(&world);
    pass_output_fini(&out);
}

void pass_job_run(const struct pass_env *env, struct pass_runner *runner, struct controller_view *view,
                  const char *key, struct outcome *ret)
{
    ret->start_us = clock_now_us(env->clock);
    ret->key = key;
    ret->view = view;
    ret->revision = store_snapshot(env->store_clock);
    ret->subject = controller_view_subject(view, ret->revision, key);
    ret->kind = before_pass(ret);
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
    free(o);
}
