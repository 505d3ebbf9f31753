// A worker's part of reconciling a key: snapshot, pass, plan. The outcome goes to the loop, which installs
// the reads and carries the plan out.
#ifndef RUN_WORKQUEUE_PASS_JOB_H
#define RUN_WORKQUEUE_PASS_JOB_H

#include "base/mailbox.h"
#include "run/plan/learned.h"
#include "run/plan/plan.h"
#include "run/workqueue/controller_view.h"
#include "script/pass.h"

enum outcome_kind {
    OUTCOME_PLANNED,
    OUTCOME_NIL,      // the script has no opinion
    OUTCOME_GONE,     // there is no such subject
    OUTCOME_DELETING, // being deleted, and the script has no finalize: nothing is done
    OUTCOME_PAUSED,   // by annotation
    OUTCOME_PARKED,   // a read waits for its kind, or the children's stores are not synced
    OUTCOME_FAILED,   // see end and err
};

struct outcome {
    struct message message;             // first: it is posted to the loop
    void (*deliver)(struct outcome *o); // runs there and owns it
    void *owner;                        // whose key
    char *key;
    const bool *canceled; // atomic, of the worker: it was given up; NULL: it can not be
    enum outcome_kind kind;
    struct controller_view *view; // +1
    struct object *subject;       // +1 or NULL
    uint64_t changed_hash;        // of the values at the script's `changed` paths; 0: it has none
    struct reads reads;
    uint64_t revision;  // pinned until the loop releases it
    struct plan *plan;  // PLANNED
    bool awaits_key;    // PARKED: until the host's key is there
    bool awaits_schema; // PARKED: until schemas_sequence is not this any more
    uint64_t schema_sequence;
    enum pass_end end;
    struct err err;
    char reason[64];
    char *traceback; // or NULL
    int64_t retry_after_us;
    bool ran;               // the script was run
    bool finalizing;        // the subject is being deleted: what ran was `finalize`, if anything
    bool read_children;     // by world.children
    bool leaving;           // it is no longer selected, and given up as if it was being deleted
    enum given_up given_up; // of what its end should wait for
    bool hook_done;         // `finalize` has nothing more to do
    uint64_t start_us;      // on the host's clock
    uint64_t cpu_us;
    uint64_t spent_us; // the worker's CPU time for all of it, the plan included
    size_t memory_peak;
    bool stuck; // the worker did not come back from it: see run/workqueue/workers.h
};

struct pass_env { // the same for all workers; outlives them
    struct clock *clock;
    struct store_clock *store_clock;
    struct informers *informers;
    struct discovery *discovery;
    struct learned *learned;
    struct schemas *schemas;
    struct host_key *host_key;
    const struct world_ops *world_ops; // NULL: world_view_ops; for tests
    struct pass_limits limits;
};

// Fills all but message, deliver, owner and canceled. Takes the view's reference.
void pass_job_run(const struct pass_env *env, struct pass_runner *runner, struct controller_view *view,
                  const char *key, struct outcome *ret);
// Frees what it holds; the pinned revision must have been released.
void outcome_free(struct outcome *o);

#endif
