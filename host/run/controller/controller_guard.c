// What keeps one script from hurting the others: its share of CPU time, and its quarantine.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "run/controller/controller_internal.h"
#include "run/controller/quarantine.h"
#include "run/controller/share.h"

struct guard {
    struct share share;
    struct quarantine passes, questions; // a script's `when` that overruns is a failure of its own
    struct series *quarantined, *slowed;
    bool slow; // over its share
    char why[ERR_TEXT_MAX];
    void (*tell)(void *ud, const char *type, const char *reason, const char *text);
    void *ud;
};

static const struct metric_def def_quarantined = {
    "tidelock_script_quarantined", "1: the script is left alone for a while, since its passes failed.",
    METRIC_GAUGE, "script"};
static const struct metric_def def_slowed = {
    "tidelock_script_slowed_total", "How often a script had used up its share of CPU time and had to wait.",
    METRIC_COUNTER, "script"};

static uint64_t now_ms(const struct controller *c)
{
    return loop_now_ms(c->env->loop);
}

void controller_guard_open(struct controller *c)
{
    struct guard *g = c->guard = xcalloc(1, sizeof *g);
    uint64_t cpu_us = c->env->script_cpu_us;
    share_init(&g->share, cpu_us == 0 ? CONTROLLER_SCRIPT_CPU_US : cpu_us, now_ms(c));
    g->quarantined = metric_series(metrics_add(c->env->metrics, &def_quarantined), c->script->name);
    g->slowed = metric_series(metrics_add(c->env->metrics, &def_slowed), c->script->name);
    series_set(g->quarantined, 0);
}

void controller_guard_close(struct controller *c)
{
    series_set(c->guard->quarantined, 0);
    free(c->guard);
}

void controller_on_notice(struct controller *c,
                          void (*fn)(void *ud, const char *type, const char *reason, const char *text),
                          void *ud)
{
    c->guard->tell = fn;
    c->guard->ud = ud;
}

static void tell(const struct guard *g, const char *type, const char *reason, const char *text)
{
    if (g->tell != NULL)
        g->tell(g->ud, type, reason, text);
}

// The one that keeps the script waiting; NULL: none.
static const struct quarantine *active(const struct guard *g)
{
    if (g->passes.on && g->questions.on)
        return g->passes.until_ms > g->questions.until_ms ? &g->passes : &g->questions;
    return g->passes.on ? &g->passes : g->questions.on ? &g->questions : NULL;
}

bool controller_quarantined(const struct controller *c, struct err *why)
{
    const struct guard *g = c->guard;
    if (active(g) != NULL && why != NULL)
        err_set(why, ERR_LIMIT, "%s", g->why);
    return active(g) != NULL;
}

// Lets the queue give out what it may now.
static void apply(struct controller *c)
{
    struct guard *g = c->guard;
    const struct quarantine *q = active(g);
    uint64_t now = now_ms(c), due = share_due_ms(&g->share, now);
    if (due > now && !g->slow) {
        series_inc(g->slowed);
        log_info("script has used up its share of CPU time", F_STR("script", c->script->name),
                 F_INT("waits_ms", (int64_t)(due - now)));
    }
    g->slow = due > now;
    series_set(g->quarantined, q != NULL);
    const char *goes = q != NULL || g->slow ? controller_deletion_waiting(c) : NULL;
    if (goes != NULL) {
        queue_put_first(c->queue, goes);
        queue_hold(c->queue, 0, true);
    } else if (q != NULL) {
        queue_hold(c->queue, q->until_ms > due ? q->until_ms : due, true);
    } else if (due > now) {
        queue_hold(c->queue, due, false);
    } else {
        queue_release(c->queue);
    }
}

static void say_quarantined(struct controller *c, const struct quarantine *q, const char *key,
                            const struct err *e)
{
    struct guard *g = c->guard;
    char until[CLOCK_TEXT_MAX];
    uint64_t ms = q->until_ms - q->since_ms;
    clock_format_time(until, clock_wall_us(loop_clock(c->env->loop)) + (int64_t)ms * 1000);
    snprintf(
        g->why, sizeof g->why,
        "quarantined until %s: %u %s in a row failed, the last one of %s: %.500s. One is tried then; a new "
        "version, or another value of the ConfigMap's annotation " MARKS_ANNOTATION_RETRY
        ", ends the quarantine at once",
        until, q->row, q->row == 1 ? "pass" : "passes", key, e->text);
    log_warn("script is quarantined", F_STR("script", c->script->name), F_STR("from", c->script->where),
             F_INT("for_ms", (int64_t)ms), F_STR("error", g->why));
    char *text = xasprintf("script %s is %s", c->script->name, g->why);
    tell(g, "Warning", "ScriptQuarantined", text);
    free(text);
}

static void say_ended(struct controller *c, const char *why)
{
    log_info("script's quarantine ends", F_STR("script", c->script->name), F_STR("reason", why));
    char *text = xasprintf("script %s is no longer quarantined: %s", c->script->name, why);
    tell(c->guard, "Normal", "ScriptReleased", text);
    free(text);
}

static void note(struct controller *c, struct quarantine *q, struct quarantine_pass *p, const char *key,
                 const struct err *e)
{
    bool was = series_value(c->guard->quarantined) > 0;
    p->key = hash_str(key);
    if (quarantine_note(q, p, now_ms(c)) == QUARANTINE_BEGINS)
        say_quarantined(c, q, key, e);
    else if (was && active(c->guard) == NULL)
        say_ended(c, "a pass went through");
    apply(c);
}

static enum quarantine_verdict verdict_of(enum pass_end end)
{
    switch (end) {
    case PASS_DEADLINE:
    case PASS_MEMORY:
    case PASS_LIMIT:
        return VERDICT_OVERRUN;
    case PASS_RAISED:
    case PASS_RESULT:
        return VERDICT_ERROR;
    case PASS_PARKED:
    case PASS_CANCELED:
        return VERDICT_NONE;
    case PASS_OK:
    case PASS_NIL:
    case PASS_RETRY:
    case PASS_INVALID:
        break;
    }
    return VERDICT_SUCCESS;
}

void controller_guard_pass(struct controller *c, const struct outcome *o)
{
    struct quarantine_pass p = {.verdict = o->stuck                       ? VERDICT_STUCK
                                           : !o->ran                      ? VERDICT_NONE
                                           : o->view->script != c->script ? VERDICT_NONE // an older version
                                                                          : verdict_of(o->end),
                                .begun_ms = o->start_us / 1000,
                                .paced = program_spec(c->script->program)->retry.given};
    struct guard *g = c->guard;
    share_spend(&g->share, o->spent_us, now_ms(c));
    if (p.verdict == VERDICT_SUCCESS && g->questions.on) // the pass was the one that was tried
        quarantine_note(&g->questions, &p, now_ms(c));
    note(c, &g->passes, &p, o->key, &o->err);
}

void controller_guard_question(struct controller *c, const struct question_cost *cost)
{
    enum quarantine_verdict v = cost->stuck ? VERDICT_STUCK : verdict_of(cost->end);
    struct quarantine_pass p = {.verdict =
                                    v == VERDICT_ERROR ? VERDICT_SUCCESS : v, // it is followed by a pass
                                .begun_ms = cost->start_ms};
    share_spend(&c->guard->share, cost->cpu_us, now_ms(c));
    note(c, &c->guard->questions, &p, cost->key, cost->err);
}

bool controller_guard_may_ask(const struct controller *c)
{
    return !queue_is_held(c->queue);
}

void controller_guard_look(struct controller *c)
{
    if ((active(c->guard) != NULL || c->guard->slow) && controller_deletion_waiting(c) != NULL)
        apply(c);
}

void controller_add(struct controller *c, const char *key)
{
    struct guard *g = c->guard;
    controller_deletion_moved(c, key);
    queue_add(c->queue, key);
    controller_guard_look(c);
    const struct quarantine *q = active(g);
    if (q == NULL || !quarantine_admits_changes(q) || g->slow)
        return;
    queue_put_first(c->queue, key);
    queue_hold(c->queue, 0, true);
}

void controller_guard_reset(struct controller *c, const char *why)
{
    struct guard *g = c->guard;
    bool was = active(g) != NULL;
    g->passes = g->questions = (struct quarantine){0};
    if (was)
        say_ended(c, why);
    apply(c);
}
