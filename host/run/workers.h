// The workers: threads that take work from the dispatcher, or inline on the loop, one item a turn, for
// deterministic runs. Loop thread.
#ifndef RUN_WORKERS_H
#define RUN_WORKERS_H

#include "io/loop.h"
#include "run/dispatch.h"
#include "run/pass_job.h"

struct workers;

struct workers_options {
    struct loop *loop;
    unsigned threads; // 0: inline
    const struct pass_env *env;
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
void workers_free(struct workers *w);

// For tasks of the dispatcher: the worker's place for passes.
struct pass_runner *worker_runner(void *worker);

#endif
