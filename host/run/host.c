#include "run/host.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/log.h"
#include "kube/discovery.h"
#include "kube/informers.h"
#include "kube/schemas.h"
#include "kube/terminating.h"
#include "run/release/leftovers.h"
#include "run/scripts.h"
#include "run/source/marks.h"
#include "run/workqueue/workers.h"

enum { NAMESPACE_RETRY_MS = 5000, STUCK_MAX = 4 };

struct host {
    struct host_options o;
    struct script_host script_host;
    struct discovery *discovery;
    struct schemas *schemas;
    struct host_key *host_key;
    struct leftovers *leftovers;
    struct terminating *terminating;
    struct store_clock *store_clock;
    struct informers *informers;
    struct deps *deps;
    struct learned *learned;
    struct applier *applier;
    struct recorder *recorder;
    struct workers *workers;
    struct scripts *scripts;
    struct source_folder *folder;
    struct informer_use *config_maps; // that hold scripts
    struct pass_env pass_env;
    struct controller_env controller_env;
    struct call *namespace_call;
    struct loop_timer *namespace_timer;
    bool namespace_missing, discovered, stopping, fatal;
    bool told_forbidden;   // namespaces can not be read
    struct err last_error; // of discovery, said once
    void (*on_stopped)(void *ud);
    void *stopped_ud;
};

// ---- what the informers and others tell

static void wake(void *ud, void *owner, const char *key)
{
    (void)ud;
    controller_wake(owner, key);
}

struct change {
    struct informer *informer;
    struct object *old, *new;
};

static void tell_controller(void *ud, struct controller *c)
{
    struct change *x = ud;
    controller_on_change(c, x->informer, x->old, x->new);
}

static void on_config_map(struct host *h, struct object *old, struct object *new)
{
    struct source_bundle *b;
    struct err e;
    if (new == NULL) {
        char *origin = xasprintf("ConfigMap %s/%s", object_namespace(old), object_name(old));
        scripts_remove(h->scripts, origin);
        free(origin);
    } else if (old != NULL && object_content_hash(old) == object_content_hash(new)) {
        return;
    } else if (source_from_config_map(new, &b, &e) == 0) {
        scripts_put(h->scripts, b);
    } else {
        log_error("scripts can not be read", F_STR("namespace", object_namespace(new)),
                  F_STR("name", object_name(new)), F_STR("error", e.text));
        recorder_event(h->recorder, new, "Warning", "ScriptInvalid", "Load", e.text);
    }
}

static void on_change(void *ud, struct informer *informer, struct object *old, struct object *new,
                      uint64_t revision)
{
    struct host *h = ud;
    (void)revision;
    if (h->stopping) {
        own_writes_came(applier_own_writes(h->applier), old, new);
        return;
    }
    if (new == NULL)
        learned_forget(h->learned, object_uid(old));
    struct change x = {informer, old, new};
    deps_on_change(h->deps, informer, old, new);
    scripts_each(h->scripts, tell_controller, &x);
    own_writes_came(applier_own_writes(h->applier), old, new);
    if (h->config_maps != NULL && informer_use_get(h->config_maps) == informer)
        on_config_map(h, old, new);
}

static void tell_state(void *ud, struct controller *c)
{
    (void)ud;
    controller_on_state(c);
}

static void on_state(void *ud, struct informer *informer)
{
    struct host *h = ud;
    (void)informer;
    if (h->stopping || h->scripts == NULL)
        return;
    deps_on_state(h->deps);
    scripts_each(h->scripts, tell_state, NULL);
}

// ---- the server

static void on_namespace(void *ud, struct client_result *res)
{
    struct host *h = ud;
    h->namespace_call = NULL;
    bool missing = res->failure != NULL && res->failure->http == 404;
    if (missing && !h->namespace_missing)
        log_error(
            "the scripts namespace does not exist", F_STR("namespace", h->o.scripts_namespace),
            F_STR("error", "create it (kubectl create namespace), or name another with --scripts-namespace"));
    h->namespace_missing = missing;
    // Without the right to read it, nothing is known: the informer will tell.
    if (res->failure != NULL && res->failure->http != 403)
        loop_timer_start(h->namespace_timer, NAMESPACE_RETRY_MS);
}

static void check_namespace(void *ud)
{
    struct host *h = ud;
    struct resource namespaces = {.gvk = gvk_parse("v1/Namespace", NULL), .plural = "namespaces"};
    struct buf path;
    buf_init(&path, 4096);
    resource_path(&namespaces, NULL, h->o.scripts_namespace, NULL, NULL, &path);
    h->namespace_call = client_send(
        h->o.client, &(struct client_request){.path = path.data, .as = &identity_host}, on_namespace, h);
    buf_fini(&path);
}

static void start_sources(struct host *h)
{
    struct informer_scope scope = {.gvk = gvk_parse("v1/ConfigMap", NULL),
                                   .ns = h->o.scripts_namespace,
                                   .labels = MARKS_LABEL_SCRIPTS "=true"};
    h->config_maps = informers_acquire(h->informers, &scope, &identity_host);
    check_namespace(h);
}

static void on_discovery(void *ud, const struct err *e)
{
    struct host *h = ud;
    if (h->stopping || h->fatal)
        return;
    if (e != NULL && strcmp(e->text, h->last_error.text) != 0) {
        bool accepted = client_was_accepted(h->o.client);
        h->fatal = !accepted && (e->code == -ERR_TLS || e->code == -ERR_UNAUTHORIZED);
        h->last_error = *e;
        if (h->fatal) {
            h->o.on_fatal(h->o.ud, e);
            return;
        }
        log_warn(accepted ? "part of discovery failed" : "the API server does not answer",
                 F_STR("error", e->text));
    }
    if (e == NULL)
        h->last_error = (struct err){0};
    if (!h->discovered && discovery_count(h->discovery) > 0) {
        h->discovered = true;
        log_info("discovery done", F_INT("kinds", (int64_t)discovery_count(h->discovery)));
        start_sources(h);
    }
    if (e == NULL)
        schemas_refresh(h->schemas); // kinds came, went or changed
    on_state(h, NULL);
}

static void tell_key(void *ud, struct controller *c)
{
    (void)ud;
    controller_on_key(c);
}

static void on_host_key(void *ud)
{
    struct host *h = ud;
    if (!h->stopping)
        scripts_each(h->scripts, tell_key, NULL);
}

static void tell_schemas(void *ud, struct controller *c)
{
    (void)ud;
    controller_on_schemas(c);
}

static void on_schemas(void *ud)
{
    struct host *h = ud;
    if (!h->stopping && h->scripts != NULL)
        scripts_each(h->scripts, tell_schemas, NULL);
}

static void tell_namespace(void *ns, struct controller *c)
{
    controller_on_namespace(c, ns);
}

// Something is known of a namespace that may be going away.
static void on_namespace_answer(void *ud, const char *ns, const struct api_status *failure)
{
    struct host *h = ud;
    if (h->stopping)
        return;
    if (failure != NULL && failure->http == 403 && !h->told_forbidden) {
        log_warn("namespaces can not be read", F_STR("error", failure->err.text),
                 F_STR("change",
                       "grant the host `get` on namespaces: without it a namespace that is being deleted "
                       "may wait for finalizers of scripts that can not finish"));
        h->told_forbidden = true;
    }
    scripts_each(h->scripts, tell_namespace, (void *)ns);
    leftovers_on_namespace(h->leftovers);
}

// ---- folders

static void on_bundle(void *ud, struct source_bundle *b)
{
    struct host *h = ud;
    scripts_put(h->scripts, b);
}

static void on_bundle_gone(void *ud, const char *origin)
{
    struct host *h = ud;
    scripts_remove(h->scripts, origin);
}

// ---- life

static void open_reading(struct host *h)
{
    const struct host_options *o = &h->o;
    h->discovery = discovery_new(o->client);
    h->schemas = schemas_new(o->client, on_schemas, h);
    h->terminating = terminating_new(o->client, on_namespace_answer, h);
    h->store_clock = store_clock_new();
    h->informers = informers_new(&(struct informers_options){.client = o->client,
                                                             .discovery = h->discovery,
                                                             .clock = h->store_clock,
                                                             .metrics = o->metrics,
                                                             .namespaces = o->namespaces,
                                                             .own_namespace = o->scripts_namespace,
                                                             .seed = o->seed,
                                                             .on_change = on_change,
                                                             .on_state = on_state,
                                                             .ud = h});
    h->deps = deps_new(h->informers, wake, h);
    discovery_on_change(h->discovery, on_discovery, h);
}

static void open_writing(struct host *h)
{
    const struct host_options *o = &h->o;
    h->learned = learned_new();
    h->host_key = host_key_new(&(struct host_key_options){.client = o->client,
                                                          .ns = o->namespace_,
                                                          .seed = o->seed,
                                                          .bytes = o->key_bytes,
                                                          .on_ready = on_host_key,
                                                          .ud = h});
    h->applier = applier_new(&(struct applier_options){.loop = o->loop,
                                                       .client = o->client,
                                                       .discovery = h->discovery,
                                                       .informers = h->informers,
                                                       .learned = h->learned,
                                                       .metrics = o->metrics,
                                                       .max_writes = o->max_writes});
    h->recorder = recorder_new(&(struct recorder_options){.loop = o->loop,
                                                          .client = o->client,
                                                          .discovery = h->discovery,
                                                          .metrics = o->metrics,
                                                          .instance = o->instance,
                                                          .seed = o->seed});
}

static bool scripts_are_settled(void *ud)
{
    struct host *h = ud;
    return !h->stopping && h->config_maps != NULL && !scripts_loading(h->scripts) &&
           informer_use_state(h->config_maps, NULL) == INFORMER_SYNCED;
}

static const struct gvk *subject_of(void *ud, const char *hash)
{
    struct host *h = ud;
    return scripts_subject(h->scripts, hash);
}

static void on_script_removed(void *ud)
{
    struct host *h = ud;
    if (!h->stopping)
        leftovers_look(h->leftovers);
}

static void open_running(struct host *h)
{
    const struct host_options *o = &h->o;
    h->script_host = (struct script_host){.instance = o->instance,
                                          .scripts_namespace = o->scripts_namespace,
                                          .host_namespace = o->namespace_,
                                          .grants = o->grants,
                                          .namespaces = o->namespaces,
                                          .env_json = o->env_json,
                                          .max_pass_cpu_us = o->max_pass_cpu_us,
                                          .max_pass_memory = o->max_pass_memory};
    h->pass_env = (struct pass_env){.clock = loop_clock(o->loop),
                                    .store_clock = h->store_clock,
                                    .informers = h->informers,
                                    .discovery = h->discovery,
                                    .schemas = h->schemas,
                                    .host_key = h->host_key,
                                    .learned = h->learned};
    h->workers = workers_new(&(struct workers_options){.loop = o->loop,
                                                       .threads = o->workers,
                                                       .env = &h->pass_env,
                                                       .metrics = o->metrics,
                                                       .view = controller_take_view,
                                                       .on_outcome = controller_on_outcome});
    h->controller_env = (struct controller_env){.loop = o->loop,
                                                .client = o->client,
                                                .discovery = h->discovery,
                                                .schemas = h->schemas,
                                                .host_key = h->host_key,
                                                .informers = h->informers,
                                                .store_clock = h->store_clock,
                                                .dispatcher = workers_dispatcher(h->workers),
                                                .deps = h->deps,
                                                .applier = h->applier,
                                                .recorder = h->recorder,
                                                .terminating = h->terminating,
                                                .metrics = o->metrics,
                                                .namespaces = o->namespaces,
                                                .seed = o->seed,
                                                .script_cpu_us = o->script_cpu_us,
                                                .workers = o->workers == 0 ? 1 : o->workers};
    h->scripts = scripts_new(&h->controller_env, &h->script_host);
    h->leftovers = leftovers_new(&(struct leftovers_options){.client = o->client,
                                                             .discovery = h->discovery,
                                                             .recorder = h->recorder,
                                                             .terminating = h->terminating,
                                                             .metrics = o->metrics,
                                                             .instance = o->instance,
                                                             .namespace_ = o->namespace_,
                                                             .namespaces = o->namespaces,
                                                             .seed = o->seed,
                                                             .settled = scripts_are_settled,
                                                             .subject = subject_of,
                                                             .ud = h});
    scripts_on_removed(h->scripts, on_script_removed, h);
}

int host_new(const struct host_options *o, struct host **ret, struct err *e)
{
    struct host *h = xcalloc(1, sizeof *h);
    h->o = *o;
    h->namespace_timer = loop_timer_new(o->loop, check_namespace, h);
    open_reading(h);
    open_writing(h);
    open_running(h);
    int r = o->scripts_folder == NULL
                ? 0
                : source_folder_new(o->loop, o->scripts_folder, on_bundle, on_bundle_gone, h, &h->folder, e);
    if (r < 0) {
        host_free(h);
        return r;
    }
    *ret = h;
    return 0;
}

void host_start(struct host *h)
{
    workers_start(h->workers);
    discovery_refresh(h->discovery);
    leftovers_look(h->leftovers);
}

static void on_scripts_gone(void *ud)
{
    struct host *h = ud;
    workers_stop(h->workers);
    h->on_stopped(h->stopped_ud);
}

void host_stop(struct host *h, void (*on_stopped)(void *ud), void *ud)
{
    h->stopping = true;
    h->on_stopped = on_stopped;
    h->stopped_ud = ud;
    dispatch_pause_keys(workers_dispatcher(h->workers));
    applier_hurry(h->applier);
    recorder_drain(h->recorder);
    leftovers_free(h->leftovers);
    h->leftovers = NULL;
    loop_timer_stop(h->namespace_timer);
    if (h->namespace_call != NULL)
        call_cancel(h->namespace_call);
    h->namespace_call = NULL;
    informers_drain(h->informers);
    scripts_stop(h->scripts, on_scripts_gone, h);
}

void host_free(struct host *h)
{
    if (h == NULL || host_stuck_workers(h) > 0)
        return;
    source_folder_free(h->folder);
    leftovers_free(h->leftovers);
    scripts_free(h->scripts);
    workers_free(h->workers);
    recorder_free(h->recorder);
    host_key_free(h->host_key);
    applier_free(h->applier);
    learned_free(h->learned);
    deps_free(h->deps);
    if (h->config_maps != NULL)
        informer_use_release(h->config_maps);
    informers_free(h->informers);
    store_clock_free(h->store_clock);
    schemas_free(h->schemas);
    terminating_free(h->terminating);
    discovery_free(h->discovery);
    loop_timer_free(h->namespace_timer);
    free(h);
}

// ---- what is seen from outside

unsigned host_stuck_workers(const struct host *h)
{
    return workers_stuck(h->workers);
}

bool host_is_alive(const struct host *h, struct buf *why)
{
    unsigned stuck = host_stuck_workers(h);
    if (stuck > STUCK_MAX)
        buf_addf(why, "%u workers are stuck in passes that do not end\n", stuck);
    return stuck <= STUCK_MAX;
}

struct readiness {
    struct buf *why;
    bool ready;
};

static void say(struct readiness *r, bool ok, const char *what, const char *why)
{
    r->ready &= ok;
    buf_addf(r->why, "[%c]%s %s%s%s\n", ok ? '+' : '-', what, ok ? "ok" : "not ready",
             why[0] == '\0' ? "" : ": ", why);
}

static void say_script(void *ud, struct controller *c)
{
    struct err why = {0};
    enum controller_state state = controller_state(c, &why);
    struct readiness *r = ud;
    bool quarantined = controller_quarantined(c, &why);
    char *what = xasprintf("script %s (%s)", controller_script(c)->name,
                           quarantined ? "quarantined" : controller_state_name(state));
    // A kind that is missing or forbidden, or a quarantine, is its script's trouble, not the host's.
    say(r, state != CONTROLLER_SYNCING, what, why.text);
    free(what);
}

bool host_is_ready(struct host *h, struct buf *why)
{
    struct readiness r = {why, true};
    struct err e = {0};
    say(&r, h->discovered, "discovery", h->last_error.text);
    say(&r, !h->namespace_missing, "scripts namespace", h->namespace_missing ? h->o.scripts_namespace : "");
    bool synced = h->config_maps != NULL && informer_use_state(h->config_maps, &e) == INFORMER_SYNCED;
    say(&r, synced, "scripts ConfigMaps", e.text);
    say(&r, !scripts_loading(h->scripts), "scripts compiled", "");
    scripts_each(h->scripts, say_script, &r);
    say(&r, !h->stopping, "running", "");
    return r.ready;
}

static void add_pending(void *ud, struct controller *c)
{
    size_t *n = ud;
    *n += controller_pending(c);
}

size_t host_pending(const struct host *h)
{
    size_t n = scripts_loading(h->scripts) ? 1 : 0;
    scripts_each(h->scripts, add_pending, &n);
    return n;
}
