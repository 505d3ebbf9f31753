// Carries plans out: one state machine a plan, asynchronous. Kinds new to the inventory first, then
// creations, applies, patches and releases side by side, then deletions, then the status, and last the
// finalizer is taken off. One failing write does not stop its siblings. At the end the plan waits until the
// stores have seen its writes (run/apply/seen.h). Loop thread.
#ifndef RUN_APPLY_APPLY_H
#define RUN_APPLY_APPLY_H

#include "base/metrics.h"
#include "kube/client.h"
#include "kube/discovery.h"
#include "kube/informers.h"
#include "run/apply/claims.h"
#include "run/apply/inventory.h"
#include "run/apply/own_writes.h"
#include "run/apply/write_gate.h"
#include "run/plan/learned.h"
#include "run/plan/plan.h"
#include "run/workqueue/controller_view.h"

struct applier; // what all plans share

struct applier_options {
    struct loop *loop;
    struct client *client;
    struct discovery *discovery;
    struct informers *informers;
    struct learned *learned;
    struct metrics *metrics;
    unsigned max_writes; // in flight; 0: 64
};

struct applier *applier_new(const struct applier_options *o);
void applier_free(struct applier *a); // no plan is under way any more
struct own_writes *applier_own_writes(struct applier *a);
size_t applier_active(const struct applier *a); // plans under way
// From now on plans end with their last answer, without waiting for the stores.
void applier_hurry(struct applier *a);

struct apply_result {
    size_t
        writes; // operations that went well and had something written; many a one turns out to need nothing
    size_t failures;
    struct err err;              // the first failures' texts; code of the first
    int64_t retry_after_ms;      // the largest the server asked for; -1: none
    bool terminating;            // all failures are because the namespace is going away
    bool subject_namespace_goes; // something was refused because the subject's own namespace does
    uint64_t again_ms;           // a field that is fought over was left alone: look again then; 0: none
    bool foreign_change;         // somebody else changed one of the objects meanwhile: look again
    char fight[512];             // somebody undoes what is written, as far as is known; "": nobody
    const char *fight_reason;
};

#define FIGHT_FIELD "FieldConflict"
#define FIGHT_CHILD "ChildDeleted"

struct apply_input {
    struct controller_view *view; // borrowed until on_done
    struct inventory *inventory;
    const struct object *subject; // borrowed until on_done
    const char *key;
    bool unseen;       // the subject is in no store of the view: its own writes are not waited for
    struct plan *plan; // borrowed until on_done
    void (*on_done)(void *ud, const struct apply_result *result);
    // A field is fought over, or a child: said once; may be NULL.
    void (*on_conflict)(void *ud, const char *reason, const char *text);
    void *ud;
};

// on_done comes from a later turn of the loop, never from inside. An empty plan is done in a later turn too.
void apply_start(struct applier *a, const struct apply_input *in);

#endif
