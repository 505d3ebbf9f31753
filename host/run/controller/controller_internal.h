// The inside of a controller, shared by controller*.c only. Loop thread, except view and its lock.
#ifndef RUN_CONTROLLER_CONTROLLER_INTERNAL_H
#define RUN_CONTROLLER_CONTROLLER_INTERNAL_H

#include <pthread.h>
#include <sys/queue.h>

#include "run/controller/controller.h"
#include "run/controller/key_state.h"
#include "run/workqueue/queue.h"

struct controller_kind { // children of one kind in one namespace (or all)
    const struct gvk *gvk;
    struct informer_use *use;
};

struct controller_metrics {
    struct series *success, *error, *requeue_after, *errors, *terminal, *seconds, *cpu, *memory, *parked;
};

struct reconciled;
struct guard;
struct question;
struct subject_id; // UID -> key
struct namespace_check;
struct comings_and_goings;

struct controller {
    const struct controller_env *env;
    struct script *script;
    struct queue *queue;
    struct inventory *inventory;
    struct informer_use **subjects;
    size_t subject_count;
    bool scope_known; // subjects were acquired with the kind's scope known
    struct controller_kind *kinds;
    size_t kind_count;
    const struct gvk **patch_kinds;
    size_t patch_count;
    struct key_states *keys;
    struct subject_id *ids;
    struct strset parked;    // keys that wait for the children's stores
    struct strset abandoned; // keys whose subjects go whatever `finalize` says: their namespace goes
    bool ready;              // subjects are synced and the inventory is loaded
    bool stopping;
    bool paused;             // by the ConfigMap's annotation
    char said[ERR_TEXT_MAX]; // the last state that was told
    struct err trouble;      // why the inventory is not there
    void (*on_gone)(void *ud);
    void *gone_ud;
    void (*on_state_change)(void *ud, struct controller *c);
    void *state_ud;
    struct controller_metrics m;
    struct reconciled *reconciled; // reports failing keys on their subjects
    struct guard *guard;
    size_t questions;                  // evaluations of `when` under way
    STAILQ_HEAD(, question) asked;     // those that wait until fewer are
    bool drained;                      // stopping, and no key is in process
    bool fields_refused;               // the server can not select by the script's fields: the host does
    struct comings_and_goings *goings; // what became of subjects that are no longer there
    struct namespace_check *check;     // is a subject's namespace going away?
    pthread_mutex_t view_lock;
    struct controller_view *view; // what workers take
};

// controller.c
// The host's key is asked for; false when it is there.
bool controller_await_key(struct controller *c);
void controller_end_if_idle(struct controller *c);

// controller_scope.c: informers and the view made of them
void controller_open_subjects(struct controller *c);
void controller_check_fields(struct controller *c); // when an informer's state has changed
void controller_open_kinds(struct controller *c);
void controller_close_informers(struct controller *c);
void controller_refresh_view(struct controller *c);
bool controller_is_subject_informer(const struct controller *c, const struct informer *i);
bool controller_is_child_informer(const struct controller *c, const struct informer *i);
void controller_each_subject(struct controller *c, void (*fn)(struct controller *c, struct object *o));

// controller_subjects.c: which key a subject's UID is, and which changes matter
void controller_know_subject(struct controller *c, const struct object *o);
void controller_forget_subject(struct controller *c, const char *uid);
const char *controller_key_of_uid(const struct controller *c, const char *uid);
void controller_forget_subjects(struct controller *c);
void controller_each_uid(const struct controller *c, void (*fn)(void *arg, const char *uid), void *arg);
void controller_on_subject(struct controller *c, struct object *old, struct object *new, bool echo);

// controller_when.c: the script's `when`, evaluated on a worker
void controller_ask_when(struct controller *c, const char *key, struct object *new);
void controller_when_close(struct controller *c);
// A pass of the key has ended: what changed while it ran is judged now.
void controller_ask_after_pass(struct controller *c, const char *key, const struct object *subject);

// controller_departures.c: subjects that are no longer the script's
void controller_goings_open(struct controller *c, uint64_t seed);
void controller_goings_close(struct controller *c);
void controller_goings_begin(struct controller *c); // it is known (anew) which subjects there are
void controller_went(struct controller *c, struct object *last);
void controller_came_back(struct controller *c, const struct object *subject);
void controller_left(struct controller *c, const char *key);           // all is given back
void controller_leaving_failed(struct controller *c, const char *key); // not yet
void controller_view_leavers(const struct controller *c, struct controller_view *v);

// controller_kind.c: a script's subjects are of one kind
bool controller_is_held(const struct controller *c, struct err *e /* why; may be NULL */);

// controller_finalize.c
void controller_finalize_failed(struct controller *c, const struct outcome *o, bool terminating);
void controller_finalize_tell(struct controller *c, const struct outcome *o);
void controller_finalize_close(struct controller *c);

// controller_guard.c: what keeps one script from hurting the others
struct question_cost { // of an evaluation of `when`
    const char *key;
    uint64_t start_ms, cpu_us;
    enum pass_end end;
    const struct err *err;
    bool stuck;
};
void controller_guard_open(struct controller *c);
void controller_guard_close(struct controller *c);
void controller_guard_pass(struct controller *c, const struct outcome *o);
void controller_guard_question(struct controller *c, const struct question_cost *cost);
bool controller_guard_may_ask(const struct controller *c); // `when`
void controller_guard_reset(struct controller *c, const char *why);
// An input of the key has changed: queue_add, and a script that is in quarantine for nothing but errors gets
// a pass for it.
void controller_add(struct controller *c, const char *key);

// controller_outcome.c
void controller_open_metrics(struct controller *c);

#endif
