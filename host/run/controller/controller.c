#include "run/controller/controller.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "run/controller/controller_internal.h"
#include "run/report/reconciled.h"
#include "run/workqueue/predicate.h"

enum {
    HELD_MS = 10 * 1000, // a script that is held looks again
    KEYS_AT_ONCE = 256,  // of a script that sets no `workers`
};

static const char *const state_names[] = {
    [CONTROLLER_WAITING] = "waiting for its kind",
    [CONTROLLER_SYNCING] = "syncing",
    [CONTROLLER_RUNNING] = "running",
    [CONTROLLER_FORBIDDEN] = "forbidden",
    [CONTROLLER_HELD] = "held",
};

const char *controller_state_name(enum controller_state s)
{
    return state_names[s];
}

const struct script *controller_script(const struct controller *c)
{
    return c->script;
}

static struct limiter limiter_of(const struct script *s)
{
    const struct program_spec *spec = program_spec(s->program);
    struct limiter l = limiter_default;
    const char *kind = spec->retry.kind;
    if (kind != NULL && strcmp(kind, "fast_slow") == 0)
        l = (struct limiter){
            .kind = LIMITER_FAST_SLOW, .base_ms = 1000, .max_ms = 10 * 1000, .fast_attempts = 3};
    else if (kind != NULL && strcmp(kind, "fixed") == 0)
        l = (struct limiter){.kind = LIMITER_FIXED, .base_ms = 5000, .max_ms = 5000};
    if (spec->retry.base_us > 0)
        l.base_ms = (uint64_t)(spec->retry.base_us + 999) / 1000;
    if (spec->retry.max_us > 0)
        l.max_ms = (uint64_t)(spec->retry.max_us + 999) / 1000;
    if (spec->retry.fast_attempts > 0)
        l.fast_attempts = (unsigned)spec->retry.fast_attempts;
    if (l.max_ms < l.base_ms)
        l.max_ms = l.base_ms; // only one of them was given
    l.jitter = spec->retry.jitter;
    return l;
}

static void wake_subject(struct controller *c, struct object *o)
{
    if (!predicate_selects(c->script, o))
        return;
    char *key = controller_key(object_namespace(o), object_name(o));
    controller_know_subject(c, o);
    queue_add(c->queue, key);
    free(key);
}

// A new version, or a new start: no key waits for an old error's back-off.
static void restart_subject(struct controller *c, struct object *o)
{
    if (!predicate_selects(c->script, o))
        return;
    char *key = controller_key(object_namespace(o), object_name(o));
    queue_forget(c->queue, key);
    struct key_state *k = key_states_get(c->keys, key, object_uid(o));
    key_state_no_problem(k);
    key_state_failed(k); // what the version before saw says nothing about this one
    free(key);
    wake_subject(c, o);
}

static void wake_parked(struct controller *c)
{
    struct strset keys = c->parked;
    strset_init(&c->parked);
    for (size_t i = 0; i < keys.count; i++)
        queue_add(c->queue, keys.items[i]);
    strset_fini(&keys);
}

void controller_on_key(struct controller *c)
{
    if (!c->stopping)
        wake_parked(c);
}

bool controller_await_key(struct controller *c)
{
    uint8_t key[SECRET_VALUE_KEY];
    bool there = host_key_try(c->env->host_key, key);
    explicit_bzero(key, sizeof key);
    if (!there)
        host_key_want(c->env->host_key);
    return !there;
}

void controller_on_schemas(struct controller *c)
{
    if (c->stopping)
        return;
    wake_parked(c);
    reconciled_on_schemas(c->reconciled);
}

static bool is_ready(const struct controller *c)
{
    for (size_t i = 0; i < c->subject_count; i++)
        if (informer_use_state(c->subjects[i], NULL) != INFORMER_SYNCED)
            return false;
    return inventory_is_loaded(c->inventory) && !controller_is_held(c, NULL);
}

// Says a state once.
static void tell_state(struct controller *c)
{
    struct err why = {0};
    char text[ERR_TEXT_MAX];
    enum controller_state state = controller_state(c, &why);
    snprintf(text, sizeof text, "%s: %.900s", controller_state_name(state), why.text);
    if (strcmp(text, c->said) == 0)
        return;
    memcpy(c->said, text, sizeof text);
    if (state == CONTROLLER_WAITING || state == CONTROLLER_FORBIDDEN || state == CONTROLLER_HELD)
        log_warn("script waits", F_STR("script", c->script->name), F_STR("subject", c->script->subject->text),
                 F_STR("state", controller_state_name(state)), F_STR("error", why.text));
    if (c->on_state_change != NULL)
        c->on_state_change(c->state_ud, c);
}

void controller_on_state_change(struct controller *c, void (*fn)(void *ud, struct controller *c), void *ud)
{
    c->on_state_change = fn;
    c->state_ud = ud;
    fn(ud, c);
}

void controller_pause(struct controller *c, bool paused)
{
    if (c->paused == paused)
        return;
    c->paused = paused;
    controller_refresh_view(c);
    log_info("script paused or resumed", F_STR("script", c->script->name), F_BOOL("paused", paused));
    if (!paused && c->ready)
        controller_each_subject(c, wake_subject);
}

void controller_on_state(struct controller *c)
{
    struct resource r;
    if (c->stopping)
        return;
    if (!c->scope_known && discovery_find(c->env->discovery, c->script->subject, &r) == DISCOVERY_FOUND)
        controller_open_subjects(c);
    controller_check_fields(c);
    if (inventory_is_loaded(c->inventory))
        controller_open_kinds(c);
    controller_refresh_view(c);
    controller_deletions_begin(c, false);
    if (controller_is_held(c, NULL))
        inventory_look_again(c->inventory, HELD_MS);
    bool ready = is_ready(c);
    bool began = ready && !c->ready;
    c->ready = ready;
    if (began) {
        log_info("script runs", F_STR("script", c->script->name), F_STR("subject", c->script->subject->text),
                 F_STR("version", program_hash(c->script->program)), F_STR("from", c->script->where));
        controller_each_subject(c, wake_subject);
        controller_goings_begin(c);
    }
    if (ready && child_stores_synced(c->view->children))
        wake_parked(c);
    tell_state(c);
}

static void on_inventory(void *ud)
{
    struct controller *c = ud;
    c->trouble = (struct err){0};
    controller_on_state(c);
}

static void on_inventory_trouble(void *ud, const struct err *e)
{
    struct controller *c = ud;
    if (strcmp(c->trouble.text, e->text) != 0)
        log_warn("script waits", F_STR("script", c->script->name), F_STR("error", e->text));
    c->trouble = *e;
}

static void look_again(void *ud, const char *key, uint64_t ms)
{
    struct controller *c = ud;
    queue_add_after(c->queue, key, ms);
}

// A plan waits in memory for its turn to write: passes that run far ahead of the writes help nobody.
static int keys_at_once(const struct script *script)
{
    int workers = program_spec(script->program)->workers;
    return workers != 0 ? workers : KEYS_AT_ONCE;
}

struct controller *controller_new(const struct controller_env *env, struct script *script)
{
    struct controller *c = xcalloc(1, sizeof *c);
    uint64_t seed = env->seed ^ hash_str(script->hash);
    c->env = env;
    c->script = script;
    pthread_mutex_init(&c->view_lock, NULL);
    c->keys = key_states_new();
    strset_init(&c->parked);
    controller_deletions_open(c);
    controller_open_metrics(c);
    c->queue = queue_new(&(struct queue_options){.loop = env->loop,
                                                 .dispatcher = env->dispatcher,
                                                 .metrics = env->metrics,
                                                 .name = script->name,
                                                 .limiter = limiter_of(script),
                                                 .max_active = keys_at_once(script),
                                                 .seed = seed,
                                                 .owner = c});
    controller_guard_open(c);
    STAILQ_INIT(&c->asked);
    c->reconciled = reconciled_new(&(struct reconciled_options){.client = env->client,
                                                                .discovery = env->discovery,
                                                                .schemas = env->schemas,
                                                                .own = applier_own_writes(env->applier),
                                                                .clock = loop_clock(env->loop),
                                                                .script = script->hash,
                                                                .again = look_again,
                                                                .ud = c});
    controller_goings_open(c, seed);
    c->inventory = inventory_new(env->client, script, seed, on_inventory, on_inventory_trouble, c);
    controller_open_subjects(c);
    controller_on_state(c);
    return c;
}

void controller_swap(struct controller *c, struct script *script)
{
    struct script *old = c->script;
    struct limiter l = limiter_of(script);
    c->script = script;
    c->fields_refused = false;
    queue_set_limiter(c->queue, &l, keys_at_once(script));
    controller_forget_subjects(c);
    controller_open_subjects(c);
    controller_refresh_view(c);
    controller_deletions_begin(c, true);
    script_unref(old);
    controller_guard_reset(c, "a new version has come");
    c->ready = is_ready(c);
    if (c->ready) {
        controller_each_subject(c, restart_subject);
        controller_goings_begin(c);
    }
    log_info("script swapped", F_STR("script", script->name), F_STR("version", program_hash(script->program)),
             F_STR("from", script->where));
}

void controller_retry(struct controller *c)
{
    log_info("script is tried again", F_STR("script", c->script->name));
    controller_guard_reset(c, "it was asked for");
    if (c->ready)
        controller_each_subject(c, restart_subject);
}

// ---- stopping

static void destroy(void *ud)
{
    struct controller *c = ud;
    void (*on_gone)(void *) = c->on_gone;
    void *gone_ud = c->gone_ud;
    controller_deletions_close(c);
    controller_when_close(c);
    controller_goings_close(c);
    reconciled_free(c->reconciled);
    queue_free(c->queue);
    controller_guard_close(c);
    deps_forget_owner(c->env->deps, c);
    controller_close_informers(c);
    inventory_free(c->inventory);
    controller_forget_subjects(c);
    key_states_free(c->keys);
    strset_fini(&c->parked);
    controller_view_unref(c->view);
    script_unref(c->script);
    pthread_mutex_destroy(&c->view_lock);
    free(c);
    on_gone(gone_ud);
}

void controller_end_if_idle(struct controller *c)
{
    if (c->drained && c->questions == 0)
        loop_defer(c->env->loop, destroy, c);
}

static void on_drained(void *ud)
{
    struct controller *c = ud;
    c->drained = true;
    controller_end_if_idle(c);
}

void controller_stop(struct controller *c, void (*on_gone)(void *ud), void *ud)
{
    c->stopping = true;
    controller_deletions_stop(c);
    c->on_gone = on_gone;
    c->gone_ud = ud;
    queue_shut(c->queue, on_drained, c);
}

// ---- what the host tells

// A script that never names the kind may wait for it.
static void say_whose_kind(struct err *e)
{
    struct err why = *e;
    if (why.code != 0)
        err_set(
            e, (enum err_code) - why.code,
            "%.700s: the script has made objects of this kind, and without the right to read them the host "
            "can not tell which of them to delete",
            why.text);
}

enum controller_state controller_state(const struct controller *c, struct err *e)
{
    struct err why = {0};
    for (size_t i = 0; i < c->subject_count; i++) {
        enum informer_answer answer = informer_use_state(c->subjects[i], &why);
        if (e != NULL)
            *e = why;
        if (answer == INFORMER_UNKNOWN_KIND)
            return CONTROLLER_WAITING;
        if (answer == INFORMER_FORBIDDEN)
            return CONTROLLER_FORBIDDEN;
        if (answer != INFORMER_SYNCED)
            return CONTROLLER_SYNCING;
    }
    for (size_t i = 0; i < c->kind_count; i++) {
        if (informer_use_state(c->kinds[i].use, e) != INFORMER_FORBIDDEN)
            continue;
        if (e != NULL)
            say_whose_kind(e);
        return CONTROLLER_FORBIDDEN;
    }
    if (e != NULL)
        *e = c->trouble;
    if (!inventory_is_loaded(c->inventory))
        return CONTROLLER_SYNCING;
    return controller_is_held(c, e) ? CONTROLLER_HELD : CONTROLLER_RUNNING;
}

size_t controller_pending(const struct controller *c)
{
    return queue_depth(c->queue) + queue_active(c->queue);
}

void controller_wake(struct controller *c, const char *key)
{
    if (!c->stopping)
        controller_add(c, key);
}

bool controller_is_echo(const struct controller *c, struct informer *informer, const char *key,
                        const struct object *old, const struct object *new)
{
    return !informer_is_listing(informer) &&
           own_writes_is_echo(applier_own_writes(c->env->applier), (struct own_writer){c->script->hash, key},
                              old, new);
}

static void on_child(struct controller *c, struct informer *informer, const struct object *old,
                     const struct object *new)
{
    const char *uid = object_label(new != NULL ? new : old, MARKS_LABEL_OWNER);
    const char *key = uid == NULL ? NULL : controller_key_of_uid(c, uid);
    if (key != NULL && !controller_is_echo(c, informer, key, old, new))
        controller_add(c, key);
}

void controller_on_change(struct controller *c, struct informer *informer, struct object *old,
                          struct object *new)
{
    if (c->stopping)
        return;
    if (controller_is_subject_informer(c, informer))
        controller_on_subject(c, informer, old, new);
    if (c->ready && controller_is_child_informer(c, informer))
        on_child(c, informer, old, new);
}

struct controller_view *controller_take_view(void *controller)
{
    struct controller *c = controller;
    pthread_mutex_lock(&c->view_lock);
    struct controller_view *v = controller_view_ref(c->view);
    pthread_mutex_unlock(&c->view_lock);
    return v;
}
