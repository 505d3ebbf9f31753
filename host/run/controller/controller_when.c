// The script's own predicate, when(old, new), evaluated on a worker: old is the subject as of the last pass
// that went through. One question a key at a time, a few a script. Whatever is not a clear "no" is followed
// by a pass, and so is a change of a script that has to wait.

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "run/controller/controller_internal.h"
#include "run/workqueue/predicate.h"
#include "run/workqueue/workers.h"

enum { ASKED_MAX = 4 }; // at once by one script: tasks come before all scripts' keys

struct question {
    struct dispatch_task task;   // first: the dispatcher knows it by this
    STAILQ_ENTRY(question) next; // while it waits
    struct clock *clock;
    bool given_up;
    struct controller *controller;
    struct script *script;    // +1
    struct object *old, *new; // +1 each
    char *key;
    bool yes;
    struct err err; // why it could not be answered
    enum pass_end end;
    uint64_t start_ms, cpu_us;
};

static void question_free(struct question *q)
{
    script_unref(q->script);
    object_unref(q->old);
    object_unref(q->new);
    free(q->key);
    free(q);
}

// ---- the answer, on the loop

static void complain(struct controller *c, const struct question *q, struct key_state *k)
{
    uint64_t problem = hash_str(q->err.text) | 1;
    enum log_level level = k->when_problem == problem ? LOG_DEBUG : LOG_WARN;
    LOG_(level, "when failed: the pass is run", F_STR("script", c->script->name), F_STR("key", q->key),
         F_STR("error", q->err.text));
    if (k->when_problem != problem)
        recorder_event(c->env->recorder, q->new, "Warning", "PredicateError", "Reconcile", q->err.text);
    k->when_problem = problem;
}

// The subject as it is now (+1), or NULL.
static struct object *current(struct controller *c, const char *key, const char *uid)
{
    struct object *o = controller_view_subject(c->view, UINT64_MAX, key);
    if (o != NULL && strcmp(object_uid(o), uid) == 0)
        return o;
    object_unref(o);
    return NULL;
}

static void take_answer(struct controller *c, const struct question *q)
{
    struct key_state *k = key_states_find(c->keys, q->key, object_uid(q->new));
    if (k == NULL || c->script != q->script)
        return; // another object, or a version that runs all keys again anyway
    bool again = k->ask_again;
    k->asking = k->ask_again = false;
    if (q->err.code != 0)
        complain(c, q, k);
    else
        k->when_problem = 0;
    if (q->yes) {
        controller_add(c, q->key);
        return;
    }
    struct object *now = again ? current(c, q->key, object_uid(q->new)) : NULL;
    if (now != NULL)
        controller_ask_when(c, q->key, now);
    object_unref(now);
}

static void ask_waiting(struct controller *c);

static void answered(struct controller *c, const struct question *q, bool stuck)
{
    c->questions--;
    if (!c->stopping) {
        if (c->script == q->script)
            controller_guard_question(c, &(struct question_cost){.key = q->key,
                                                                 .start_ms = q->start_ms,
                                                                 .cpu_us = q->cpu_us,
                                                                 .end = q->end,
                                                                 .err = &q->err,
                                                                 .stuck = stuck});
        take_answer(c, q);
        ask_waiting(c);
    }
    controller_end_if_idle(c);
}

static void deliver(struct message *m)
{
    struct question *q = (struct question *)((char *)m - offsetof(struct question, task.message));
    if (!q->given_up)
        answered(q->controller, q, false);
    question_free(q);
}

// What the worker may still write is left alone.
static void give_up(struct dispatch_task *t)
{
    struct question *q = (struct question *)t;
    struct question answer = {.controller = q->controller,
                              .script = q->script,
                              .old = q->old,
                              .new = q->new,
                              .key = q->key,
                              .yes = true,
                              .end = PASS_CANCELED};
    q->given_up = true;
    err_set(&answer.err, ERR_CANCELED, "when: it is stuck in a function; its worker was given up");
    answered(q->controller, &answer, true);
}

// ---- the question

static void evaluate(struct dispatch_task *t, void *worker)
{
    struct question *q = (struct question *)t;
    struct pass_input in = {.program = q->script->program, .entry = "when", .world = &world_view_ops};
    struct world_view world = {.script = q->script, .subject = q->new};
    struct pass_output out;
    in.ud = &world;
    q->start_ms = clock_now_ms(q->clock);
    in.old_json = object_json(q->old, &in.old_len);
    in.object_json = object_json(q->new, &in.object_len);
    pass_run(worker_runner(worker), &in, &out);
    q->yes = out.end != PASS_OK || out.verdict;
    q->err = out.err;
    if (out.end == PASS_OK)
        q->err = (struct err){0};
    else if (q->err.code == 0)
        err_set(&q->err, ERR_SCRIPT, "when: %s", pass_end_name(out.end));
    q->end = out.end;
    q->cpu_us = out.cpu_us;
    pass_output_fini(&out);
}

static void submit(struct controller *c, struct question *q)
{
    c->questions++;
    dispatch_submit(c->env->dispatcher, &q->task);
}

static struct question *take_waiting(struct controller *c)
{
    struct question *q = STAILQ_FIRST(&c->asked);
    if (q != NULL)
        STAILQ_REMOVE_HEAD(&c->asked, next);
    return q;
}

// A script that has to wait gets no answers either: its keys are queued.
static void ask_waiting(struct controller *c)
{
    struct question *q;
    while ((c->questions < ASKED_MAX || !controller_guard_may_ask(c)) && (q = take_waiting(c)) != NULL) {
        if (controller_guard_may_ask(c)) {
            submit(c, q);
            continue;
        }
        q->yes = true;
        take_answer(c, q);
        question_free(q);
    }
}

void controller_when_close(struct controller *c)
{
    struct question *q;
    while ((q = take_waiting(c)) != NULL)
        question_free(q);
}

static void ask(struct controller *c, const char *key, struct key_state *k, struct object *new)
{
    struct question *q = xcalloc(1, sizeof *q);
    *q = (struct question){.task = {.run = evaluate, .message = {.run = deliver}, .give_up = give_up},
                           .clock = loop_clock(c->env->loop),
                           .controller = c,
                           .script = script_ref(c->script),
                           .old = object_ref(k->last),
                           .new = object_ref(new),
                           .key = xstrdup(key)};
    k->asking = true;
    k->ask_again = false;
    STAILQ_INSERT_TAIL(&c->asked, q, next);
    ask_waiting(c);
}

void controller_ask_when(struct controller *c, const char *key, struct object *new)
{
    struct key_state *k = key_states_find(c->keys, key, object_uid(new));
    enum queue_place place = queue_place(c->queue, key);
    if (place == QUEUE_WAITING)
        return; // the pass will see it
    if (place == QUEUE_ACTIVE) {
        if (k == NULL) // its first pass
            k = key_states_get(c->keys, key, object_uid(new));
        k->ask_again = true; // the pass may have begun before it
        return;
    }
    if (k == NULL || k->last == NULL || k->failed)
        controller_add(c, key);
    else if (k->asking)
        k->ask_again = true;
    else
        ask(c, key, k, new);
}

void controller_ask_after_pass(struct controller *c, const char *key, const struct object *subject)
{
    struct key_state *k = key_states_find(c->keys, key, object_uid(subject));
    if (k == NULL || !k->ask_again || k->asking)
        return;
    struct object *now = current(c, key, object_uid(subject));
    k->ask_again = false;
    if (now == NULL || !predicate_content_differs(c->script, subject, now)) {
        object_unref(now);
        return;
    }
    if (k->failed || k->last == NULL)
        queue_add(c->queue, key);
    else
        ask(c, key, k, now);
    object_unref(now);
}
