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
struct deletions;
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
    struct strset parked;          // keys that wait for the children's stores
    struct deletions *deletions;   // subjects that are being deleted and carry the finalizer
    struct given_up_set *given_up; // +1: those of them whose end does not wait for all it should; NULL: none
    bool ready;                    // subjects are synced and the inventory is loaded
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
void controller_on_subject(struct controller *c, struct informer *informer, struct object *old,
                           struct object *new);
// Is this change only the echo of a write of that key? None is while the kind is listed: others may have
// written before that write, or after the last change that was told.
bool controller_is_echo(const struct controller *c, struct informer *informer, const char *key,
                        const struct object *old, const struct object *new);

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

// controller_deletions.c: subjects that are being deleted and carry the script's finalizer
void controller_deletions_open(struct controller *c);
void controller_deletions_close(struct controller *c);
void controller_deletions_stop(struct controller *c); // nothing more is decided
// It may be known which subjects there are; anew: with another version of the script.
void controller_deletions_begin(struct controller *c, bool anew);
void controller_deletion_note(struct controller *c, struct object *subject, bool leaving); // as it is now
void controller_deletion_forget(struct controller *c, const char *key);                    // it is gone
void controller_deletion_moved(struct controller *c, const char *key); // something was done, or has changed
// A pass has ended; it failed: refused by a namespace that goes, or for good (terminal).
void controller_deletion_pass(struct controller *c, const struct outcome *o);
void controller_deletion_failed(struct controller *c, const struct outcome *o, const char *why, bool refused,
                                bool terminal);
// The key of one that something was given up of, and that waits to be given out: none of the script's code is
// run for it. NULL: there is none.
const char *controller_deletion_waiting(const struct controller *c);

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
void controller_guard_look(struct controller *c); // whether one of controller_deletion_waiting is to go first
// An input of the key has changed: queue_add, and a script that is in quarantine for nothing but errors gets
// a pass for it.
void controller_add(struct controller *c, const char *key);

// controller_outcome.c
void controller_open_metrics(struct controller *c);

#endif
