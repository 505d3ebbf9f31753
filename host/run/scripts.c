#include "run/scripts.h"

#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/log.h"
#include "base/strset.h"
#include "run/controller/share.h"
#include "run/script_load.h"

// A script of a bundle. It runs, or waits: its identity is taken by another, or an older controller of it is
// still ending.
struct entry {
    struct scripts *set;
    struct script *script;
    char *file;
    char *retry; // value of the annotation, or NULL: another one ends a quarantine
    struct origin *origin;
    struct controller *controller; // NULL: waits
    bool stopping;                 // the controller is on its way out; the entry waits
    bool gone;                     // the bundle lacks it by now: freed when the controller has ended
    bool refused;                  // told that another has its identity
    TAILQ_ENTRY(entry) all;
};
TAILQ_HEAD(entries, entry);

struct origin {
    char *name;
    struct source_bundle *bundle; // the latest
    uint64_t generation;          // of the latest; older compilations are dropped
    uint64_t loading;             // the generation that is being compiled, or 0: one at a time
    struct scripts *set;
    struct share share;       // of CPU time for that
    struct loop_timer *later; // when it is overdrawn
    bool removed;
    TAILQ_ENTRY(origin) all;
};
TAILQ_HEAD(origins, origin);

struct scripts {
    const struct controller_env *env;
    const struct script_host *host;
    struct entries entries;
    struct origins origins;
    size_t loading, ending;
    uint64_t generation;
    bool stopped;
    void (*on_gone)(void *ud);
    void *ud;
    void (*on_removed)(void *ud);
    void *removed_ud;
};

struct scripts *scripts_new(const struct controller_env *env, const struct script_host *host)
{
    struct scripts *s = xcalloc(1, sizeof *s);
    s->env = env;
    s->host = host;
    TAILQ_INIT(&s->entries);
    TAILQ_INIT(&s->origins);
    return s;
}

static void origin_free(struct scripts *s, struct origin *o)
{
    TAILQ_REMOVE(&s->origins, o, all);
    source_bundle_free(o->bundle);
    loop_timer_free(o->later);
    free(o->name);
    free(o);
}

static void entry_free(struct scripts *s, struct entry *e)
{
    TAILQ_REMOVE(&s->entries, e, all);
    script_unref(e->script);
    free(e->file);
    free(e->retry);
    free(e);
}

void scripts_free(struct scripts *s)
{
    if (s == NULL)
        return;
    ASSERT(s->ending == 0);
    while (!TAILQ_EMPTY(&s->entries))
        entry_free(s, TAILQ_FIRST(&s->entries));
    while (!TAILQ_EMPTY(&s->origins))
        origin_free(s, TAILQ_FIRST(&s->origins));
    free(s);
}

static struct origin *find_origin(struct scripts *s, const char *name)
{
    struct origin *o;
    TAILQ_FOREACH (o, &s->origins, all) {
        if (!o->removed && strcmp(o->name, name) == 0)
            return o;
    }
    return NULL;
}

static void tell(struct scripts *s, const struct origin *o, const char *type, const char *reason,
                 const char *text)
{
    if (o->bundle->about != NULL)
        recorder_event(s->env->recorder, o->bundle->about, type, reason, "Load", text);
}

// ---- who runs

static bool is_older(const struct entry *a, const struct entry *b)
{
    int64_t x = a->origin->bundle->created_us, y = b->origin->bundle->created_us;
    return x != y ? x < y : strcmp(a->origin->name, b->origin->name) < 0;
}

static struct entry *rival_of(struct scripts *s, const struct entry *e)
{
    struct entry *other;
    TAILQ_FOREACH (other, &s->entries, all) {
        if (other != e && strcmp(other->script->hash, e->script->hash) == 0 &&
            (other->controller != NULL || (!other->gone && is_older(other, e))))
            return other;
    }
    return NULL;
}

static void check_stopped(struct scripts *s);
static void settle(struct scripts *s);

struct ending {
    struct scripts *scripts;
    struct entry *entry;
};

static void on_controller_gone(void *ud)
{
    struct ending *x = ud;
    struct scripts *s = x->scripts;
    struct entry *e = x->entry;
    free(x);
    s->ending--;
    e->controller = NULL;
    e->stopping = false;
    bool removed = e->gone && !s->stopped;
    if (e->gone || s->stopped)
        entry_free(s, e);
    if (removed && s->on_removed != NULL)
        s->on_removed(s->removed_ud);
    settle(s);
    check_stopped(s);
}

static void stop_entry(struct scripts *s, struct entry *e)
{
    if (e->controller == NULL || e->stopping)
        return;
    struct ending *x = xcalloc(1, sizeof *x);
    *x = (struct ending){s, e};
    e->stopping = true;
    s->ending++;
    log_info("script stops", F_STR("script", e->script->name), F_STR("from", e->script->where));
    controller_stop(e->controller, on_controller_gone, x);
}

static void drop_entry(struct scripts *s, struct entry *e)
{
    e->gone = true;
    if (e->controller == NULL)
        entry_free(s, e);
    else
        stop_entry(s, e);
}

static void refuse(struct scripts *s, struct entry *e, const struct entry *rival)
{
    if (e->refused)
        return;
    e->refused = true;
    char *text =
        xasprintf("script %s of %s is not run: %s has the same name and is older; rename one of them",
                  e->script->name, e->script->where, rival->script->where);
    log_warn("two scripts with one identity", F_STR("script", e->script->name), F_STR("error", text));
    tell(s, e->origin, "Warning", "ScriptRefused", text);
    free(text);
}

static void on_state_change(void *ud, struct controller *c)
{
    struct entry *e = ud;
    struct err why = {0};
    enum controller_state state = controller_state(c, &why);
    const char *reason = state == CONTROLLER_FORBIDDEN ? "Forbidden"
                         : state == CONTROLLER_WAITING ? "KindMissing"
                         : state == CONTROLLER_HELD    ? "SubjectChanged"
                                                       : NULL;
    if (reason != NULL)
        tell(e->set, e->origin, "Warning", reason, why.text);
}

static void on_notice(void *ud, const char *type, const char *reason, const char *text)
{
    struct entry *e = ud;
    tell(e->set, e->origin, type, reason, text);
}

static void start_entry(struct scripts *s, struct entry *e)
{
    e->refused = false;
    e->controller = controller_new(s->env, script_ref(e->script));
    controller_pause(e->controller, e->origin->bundle->paused);
    controller_on_state_change(e->controller, on_state_change, e);
    controller_on_notice(e->controller, on_notice, e);
    char *text = xasprintf("script %s, version %s, subject %s", e->script->name,
                           program_hash(e->script->program), e->script->subject->text);
    tell(s, e->origin, "Normal", "ScriptLoaded", text);
    free(text);
}

static void sweep_origins(struct scripts *s)
{
    struct origin *o, *next;
    for (o = TAILQ_FIRST(&s->origins); o != NULL; o = next) {
        const struct entry *e;
        next = TAILQ_NEXT(o, all);
        TAILQ_FOREACH (e, &s->entries, all) {
            if (e->origin == o)
                break;
        }
        if (o->removed && e == NULL)
            origin_free(s, o);
    }
}

// Starts what waits and may run; an older script with the same identity takes over from a younger one.
static void settle(struct scripts *s)
{
    struct entry *e;
    if (s->stopped)
        return;
    TAILQ_FOREACH (e, &s->entries, all) {
        if (e->controller != NULL || e->gone)
            continue;
        struct entry *rival = rival_of(s, e);
        if (rival == NULL)
            start_entry(s, e);
        else if (rival->controller != NULL && !rival->gone && is_older(e, rival))
            stop_entry(s, rival); // its end comes back here
        else if (!rival->gone && !rival->stopping)
            refuse(s, e, rival);
    }
    sweep_origins(s);
}

// ---- what a bundle holds

// Has a person asked for another try?
static bool is_retry(struct entry *e, const char *retry)
{
    bool other = !str_eq(e->retry, retry);
    free(e->retry);
    e->retry = xstrdup(retry);
    return other;
}

static bool has_file(struct scripts *s, const struct origin *o, const char *file)
{
    const struct entry *e;
    TAILQ_FOREACH (e, &s->entries, all) {
        if (e->origin == o && !e->gone && strcmp(e->file, file) == 0)
            return true;
    }
    return false;
}

static void complain(struct scripts *s, const struct origin *o, const char *file, const struct err *why)
{
    bool running = has_file(s, o, file);
    log_error("script is not usable", F_STR("from", o->name), F_STR("file", file), F_STR("error", why->text),
              F_STR("kept", running ? "the version before goes on" : NULL));
    char *text = xasprintf("%s%s", why->text, running ? " (the version before goes on)" : "");
    tell(s, o, "Warning", "ScriptInvalid", text);
    free(text);
}

static void put_script(struct scripts *s, struct origin *o, const char *file, struct script *script)
{
    struct entry *e;
    TAILQ_FOREACH (e, &s->entries, all) {
        if (e->origin == o && !e->gone && strcmp(e->script->hash, script->hash) == 0)
            break;
    }
    if (e == NULL) {
        e = xcalloc(1, sizeof *e);
        e->set = s;
        e->script = script;
        e->file = xstrdup(file);
        e->origin = o;
        is_retry(e, o->bundle->retry);
        TAILQ_INSERT_TAIL(&s->entries, e, all);
        return;
    }
    struct err why;
    if (e->controller != NULL && !e->stopping && controller_may_swap(e->controller, script, &why) < 0) {
        complain(s, o, e->file, &why);
        script_unref(script);
        if (is_retry(e, o->bundle->retry))
            controller_retry(e->controller);
        controller_pause(e->controller, o->bundle->paused);
        return;
    }
    bool retry = is_retry(e, o->bundle->retry);
    bool same = strcmp(program_hash(e->script->program), program_hash(script->program)) == 0;
    free(e->file);
    e->file = xstrdup(file);
    if (!same) {
        script_unref(e->script);
        e->script = script;
        if (e->controller != NULL && !e->stopping) {
            controller_swap(e->controller, script_ref(script));
            char *text = xasprintf("script %s, version %s", script->name, program_hash(script->program));
            tell(s, o, "Normal", "ScriptSwapped", text);
            free(text);
        }
    } else {
        script_unref(script);
    }
    if (e->controller == NULL || e->stopping)
        return;
    if (same && retry)
        controller_retry(e->controller);
    controller_pause(e->controller, o->bundle->paused);
}

// Scripts that the bundle no longer has. One whose file is there but broken stays.
static void drop_missing(struct scripts *s, const struct origin *o, const struct script_load *load)
{
    struct entry *e, *next;
    for (e = TAILQ_FIRST(&s->entries); e != NULL; e = next) {
        next = TAILQ_NEXT(e, all);
        if (e->origin == o && !e->gone && !script_load_keeps(load, e->file, e->script->name))
            drop_entry(s, e);
    }
}

static void compile(struct origin *o);

static void on_loaded(void *ud, struct script_load *load)
{
    struct scripts *s = ud;
    struct origin *o = find_origin(s, load->origin);
    s->loading--;
    if (o != NULL && o->loading == load->generation) {
        o->loading = 0;
        share_spend(&o->share, load->cpu_us, loop_now_ms(s->env->loop));
        if (o->generation != load->generation)
            compile(o);
    }
    if (s->stopped || o == NULL || o->generation != load->generation) {
        script_load_free(load);
        check_stopped(s);
        return;
    }
    drop_missing(s, o, load);
    for (size_t i = 0; i < load->count; i++) {
        struct script_load_file *f = &load->files[i];
        struct err why = f->err;
        struct script *script = NULL;
        char *where = xasprintf("%s, file %s", o->name, f->name);
        if (f->program != NULL && script_new(s->host, o->bundle->ns, where, f->program, &script, &why) == 0)
            put_script(s, o, f->name, script);
        else if (f->program != NULL || f->err.code != -ERR_NOT_FOUND) // a module is none
            complain(s, o, f->name, &why);
        f->program = NULL; // script_new took it
        free(where);
    }
    script_load_free(load);
    settle(s);
}

// Compiles the latest of the bundle; not at once if one is being compiled, or too much CPU time went into it.
static void compile(struct origin *o)
{
    struct scripts *s = o->set;
    uint64_t now = loop_now_ms(s->env->loop), due = share_due_ms(&o->share, now);
    if (s->stopped || o->removed || o->loading != 0)
        return;
    if (due > now) {
        log_warn("scripts change too often: compiling them takes too much CPU time", F_STR("from", o->name),
                 F_INT("waits_ms", (int64_t)(due - now)));
        loop_timer_start(o->later, due - now);
        return;
    }
    s->loading++;
    o->loading = o->generation;
    script_load_start(s->env->dispatcher, o->bundle, o->generation, on_loaded, s);
}

static void compile_later(void *ud)
{
    compile(ud);
}

static struct origin *add_origin(struct scripts *s, const char *name)
{
    struct origin *o = xcalloc(1, sizeof *o);
    uint64_t cpu_us = s->env->script_cpu_us;
    o->name = xstrdup(name);
    o->set = s;
    share_init(&o->share, cpu_us == 0 ? CONTROLLER_SCRIPT_CPU_US : cpu_us, loop_now_ms(s->env->loop));
    o->later = loop_timer_new(s->env->loop, compile_later, o);
    TAILQ_INSERT_TAIL(&s->origins, o, all);
    return o;
}

void scripts_put(struct scripts *s, struct source_bundle *b)
{
    if (s->stopped) {
        source_bundle_free(b);
        return;
    }
    struct origin *o = find_origin(s, b->origin);
    if (o == NULL)
        o = add_origin(s, b->origin);
    source_bundle_free(o->bundle);
    o->bundle = b;
    o->generation = ++s->generation;
    compile(o);
}

void scripts_remove(struct scripts *s, const char *name)
{
    struct origin *o = find_origin(s, name);
    struct entry *e, *next;
    if (o == NULL)
        return;
    for (e = TAILQ_FIRST(&s->entries); e != NULL; e = next) {
        next = TAILQ_NEXT(e, all);
        if (e->origin == o && !e->gone)
            drop_entry(s, e);
    }
    o->removed = true; // kept for entries that are on their way out
    settle(s);
}

// ---- all together

static void check_stopped(struct scripts *s)
{
    if (s->stopped && s->ending == 0 && s->loading == 0 && s->on_gone != NULL) {
        void (*on_gone)(void *) = s->on_gone;
        s->on_gone = NULL;
        on_gone(s->ud);
    }
}

void scripts_stop(struct scripts *s, void (*on_gone)(void *ud), void *ud)
{
    struct entry *e, *next;
    s->stopped = true;
    s->on_gone = on_gone;
    s->ud = ud;
    for (e = TAILQ_FIRST(&s->entries); e != NULL; e = next) {
        next = TAILQ_NEXT(e, all);
        drop_entry(s, e);
    }
    check_stopped(s);
}

void scripts_each(struct scripts *s, void (*fn)(void *ud, struct controller *c), void *ud)
{
    struct entry *e, *next;
    for (e = TAILQ_FIRST(&s->entries); e != NULL; e = next) {
        next = TAILQ_NEXT(e, all);
        if (e->controller != NULL)
            fn(ud, e->controller);
    }
}

size_t scripts_count(const struct scripts *s)
{
    const struct entry *e;
    size_t n = 0;
    TAILQ_FOREACH (e, &s->entries, all) {
        n += e->controller != NULL && !e->stopping;
    }
    return n;
}

void scripts_on_removed(struct scripts *s, void (*fn)(void *ud), void *ud)
{
    s->on_removed = fn;
    s->removed_ud = ud;
}

const struct gvk *scripts_subject(const struct scripts *s, const char *hash)
{
    const struct entry *e;
    TAILQ_FOREACH (e, &s->entries, all) {
        if (e->controller != NULL && strcmp(e->script->hash, hash) == 0)
            return e->script->subject;
    }
    return NULL;
}

bool scripts_loading(const struct scripts *s)
{
    return s->loading > 0;
}
