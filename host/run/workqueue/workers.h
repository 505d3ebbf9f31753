// The workers: threads that take work from the dispatcher, or inline on the loop, one item a turn, for
// deterministic runs. Loop thread.
//
// A worker that does not come back from a pass, long after the watchdog has told it to stop, is stuck in a
// function that never looks. It is given up: another thread takes its place, its pass counts as failed with
// its snapshot released, and what it reads from then on is refused. Nothing that it may still touch is freed
// before it comes back, which it may never do: then neither the workers nor what they were given is freed.
#ifndef RUN_WORKQUEUE_WORKERS_H
#define RUN_WORKQUEUE_WORKERS_H

#include "base/metrics.h"
#include "io/loop.h"
#include "run/workqueue/dispatch.h"
#include "run/workqueue/pass_job.h"

struct workers;

struct workers_options {
    struct loop *loop;
    unsigned threads; // 0: inline
    const struct pass_env *env;
    struct metrics *metrics; // or NULL
    // On the worker: which view to use for a key of this queue (+1 reference), and where its outcome goes
    // (runs on the loop, owns it).
    struct controller_view *(*view)(void *owner);
    void (*on_outcome)(struct outcome *o);
};

struct workers *workers_new(const struct workers_options *o);
struct dispatcher *workers_dispatcher(struct workers *w);
void workers_start(struct workers *w);
// Ends the threads: those in a pass finish it first. Outcomes they posted are still to be run by the loop.
void workers_stop(struct workers *w);
// With workers that are still stuck, memory stays: see workers_stuck.
void workers_free(struct workers *w);
// So many were given up and have not come back. While there is one, nothing of what the workers were given
// may be freed; the process can only exit.
unsigned workers_stuck(const struct workers *w);

// For tasks of the dispatcher: the worker's place for passes.
struct pass_runner *worker_runner(void *worker);

#endif
