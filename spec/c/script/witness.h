// A thread that wants a processor each millisecond, as the watchdog may: for how long it was kept waiting
// while a pass was past its budget is not the watchdog's doing, nor the script's. On an idle machine that is
// nothing. Header only.
#ifndef SPEC_SCRIPT_WITNESS_H
#define SPEC_SCRIPT_WITNESS_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/queue.h>
#include <time.h>

#include "base/alloc.h"
#include "base/assert.h"

enum { WITNESS_TICK_US = 1000, WITNESS_JITTER_US = 1000 };

struct witness_pass {
    LIST_ENTRY(witness_pass) link;
    clockid_t cpu;
    uint64_t budget_ends_us; // on that clock
    uint64_t waited_us;
};

struct witness {
    pthread_t thread;
    pthread_mutex_t lock;
    LIST_HEAD(, witness_pass) passes;
    uint64_t due_us;
    bool stop;
};

static inline uint64_t witness_clock_us(clockid_t id)
{
    struct timespec t;
    ASSERT(clock_gettime(id, &t) == 0);
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

// How long it has wanted to run. Lock held.
static inline uint64_t witness_late_us(const struct witness *w)
{
    uint64_t now = witness_clock_us(CLOCK_MONOTONIC);
    return now > w->due_us + WITNESS_JITTER_US ? now - w->due_us : 0;
}

static inline void *witness_main(void *arg)
{
    struct witness *w = arg;
    struct witness_pass *p;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        w->due_us = witness_clock_us(CLOCK_MONOTONIC) + WITNESS_TICK_US;
        struct timespec at = {(time_t)(w->due_us / 1000000), (long)(w->due_us % 1000000) * 1000};
        pthread_mutex_unlock(&w->lock);
        clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
        pthread_mutex_lock(&w->lock);
        uint64_t late = witness_late_us(w);
        LIST_FOREACH (p, &w->passes, link) {
            if (late > 0 && witness_clock_us(p->cpu) >= p->budget_ends_us)
                p->waited_us += late;
        }
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

static inline struct witness *witness_new(void)
{
    struct witness *w = xcalloc(1, sizeof(*w));
    pthread_mutex_init(&w->lock, NULL);
    LIST_INIT(&w->passes);
    ASSERT(pthread_create(&w->thread, NULL, witness_main, w) == 0);
    return w;
}

static inline void witness_free(struct witness *w)
{
    pthread_mutex_lock(&w->lock);
    w->stop = true;
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

// This thread runs a pass from now on.
static inline void witness_begin(struct witness *w, struct witness_pass *p, uint64_t budget_us)
{
    *p = (struct witness_pass){.budget_ends_us = witness_clock_us(CLOCK_THREAD_CPUTIME_ID) + budget_us};
    ASSERT(pthread_getcpuclockid(pthread_self(), &p->cpu) == 0);
    pthread_mutex_lock(&w->lock);
    LIST_INSERT_HEAD(&w->passes, p, link);
    pthread_mutex_unlock(&w->lock);
}

// It has ended: for how long the witness was kept waiting since the budget was used up.
static inline uint64_t witness_end(struct witness *w, struct witness_pass *p)
{
    pthread_mutex_lock(&w->lock);
    if (witness_clock_us(p->cpu) >= p->budget_ends_us)
        p->waited_us += witness_late_us(w);
    LIST_REMOVE(p, link);
    pthread_mutex_unlock(&w->lock);
    return p->waited_us;
}

#endif
