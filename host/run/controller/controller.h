// One running script: its subject's informers, its children's, its queue, and what the host remembers of each
// key between passes. Loop thread, except controller_take_view. A new version is swapped in between passes;
// all keys run again.
#ifndef RUN_CONTROLLER_CONTROLLER_H
#define RUN_CONTROLLER_CONTROLLER_H

#include "base/metrics.h"
#include "kube/terminating.h"
#include "run/apply/apply.h"
#include "run/report/recorder.h"
#include "run/source/script.h"
#include "run/workqueue/pass_job.h"
#include "run/world/deps.h"

struct controller;

#define CONTROLLER_SCRIPT_CPU_US (10ull * 1000 * 1000) // a minute, by default

struct controller_env { // the same for all; outlives them
    struct loop *loop;
    struct client *client;
    struct discovery *discovery;
    struct informers *informers;
    struct schemas *schemas;
    struct host_key *host_key;
    struct store_clock *store_clock;
    struct dispatcher *dispatcher;
    struct deps *deps;
    struct applier *applier;
    struct recorder *recorder;
    struct terminating *terminating;
    struct metrics *metrics;
    const struct strset *namespaces; // the host is confined to these; NULL or empty: to none
    uint64_t seed;
    unsigned workers;       // of the host, for a metric
    uint64_t script_cpu_us; // that a script may use a minute, over all workers; 0: 10 s
};

struct controller *controller_new(const struct controller_env *env, struct script *script /* taken */);
// May this be its next version? -ERR_CONFLICT: its subject is another kind, and the script has left something
// on or for subjects of this one.
int controller_may_swap(const struct controller *c, const struct script *script, struct err *e);
// The next version of the same script; taken.
void controller_swap(struct controller *c, struct script *script);
// Stops passes, not watching; all keys run when it ends.
void controller_pause(struct controller *c, bool paused);
// fn is told now, and each time the state or the reason for it has changed.
void controller_on_state_change(struct controller *c, void (*fn)(void *ud, struct controller *c), void *ud);
// As after a new version: no quarantine, no back-off, all keys run.
void controller_retry(struct controller *c);
// Is the script left alone for a while, and why? `fn` is told when that begins, lasts or ends, as a text for
// an Event about the script.
bool controller_quarantined(const struct controller *c, struct err *why /* may be NULL */);
void controller_on_notice(struct controller *c,
                          void (*fn)(void *ud, const char *type, const char *reason, const char *text),
                          void *ud);
// No new passes; frees itself when the last plan is through, then calls on_gone. Children stay.
void controller_stop(struct controller *c, void (*on_gone)(void *ud), void *ud);
const struct script *controller_script(const struct controller *c);

enum controller_state {
    CONTROLLER_WAITING, // its subject's kind is unknown to the server
    CONTROLLER_SYNCING, // lists are not complete yet
    CONTROLLER_RUNNING,
    CONTROLLER_FORBIDDEN, // the host may not list and watch the subject, or a kind of its children
    CONTROLLER_HELD, // it has left something on subjects of another kind, which is to be given back first
};
enum controller_state controller_state(const struct controller *c, struct err *e /* why; may be NULL */);
const char *controller_state_name(enum controller_state s);
size_t controller_pending(const struct controller *c); // keys that wait or are in process

// ---- hooks for the host
void controller_wake(struct controller *c, const char *key);
// A change in any store: is it about our subject or a child? The echo of a key's own write does not wake it.
void controller_on_change(struct controller *c, struct informer *informer, struct object *old,
                          struct object *new);
void controller_on_state(struct controller *c);                     // some informer's state changed
void controller_on_key(struct controller *c);                       // the host's key is there
void controller_on_schemas(struct controller *c);                   // a schema is there, or will not come
void controller_on_namespace(struct controller *c, const char *ns); // an answer of env->terminating
void controller_on_outcome(struct outcome *o);                      // takes it
// On a worker: the view for a pass, +1 reference.
struct controller_view *controller_take_view(void *controller);

#endif
