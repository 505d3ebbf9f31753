// When a busy loop rests. A loop that is woken for each little thing does each with cold caches, a system
// call or two and a hand-over to a worker of its own; what comes within a few milliseconds is done in one go
// for much less. So a loop that waits often sleeps a little before it waits again, as network cards hold back
// interrupts. One that wakes now and then never does: a single change is never kept waiting. Pure; loop
// thread.
#ifndef IO_LOOP_REST_H
#define IO_LOOP_REST_H

#include <stdint.h>

enum {
    LOOP_REST_US = 5000,    // from one wait to the next, at least
    LOOP_REST_WAITS = 8,    // so many waits
    LOOP_REST_IN_US = 16000 // in this time, and the loop is busy
};

struct loop_rest { // starts zeroed
    uint64_t window_us;
    uint64_t waited_us;
    unsigned waits;
};

// The loop is about to wait, for `due_us` at most (a point in time like now_us). How long to sleep before, in
// us: 0 unless it is busy, and never beyond due_us.
uint64_t loop_rest_before_wait(struct loop_rest *r, uint64_t now_us, uint64_t due_us);

#endif
