// When a busy loop rests. A loop that is woken for each little thing does each with cold caches, a system
// call or two and a hand-over to a worker of its own; what comes within a few milliseconds is done in one go
// for much less. So a loop that waits often sleeps a little before it waits again, as network cards hold back
// interrupts. One that wakes now and then never does: a single change is not kept waiting. Where only one
// thing was there after a rest, as when each request waits for the answer to the last, rests become rare.
// Pure; loop thread.
#ifndef IO_LOOP_REST_H
#define IO_LOOP_REST_H

#include <stdbool.h>
#include <stdint.h>

enum {
    LOOP_REST_US = 5000,        // from one wait to the next, at least
    LOOP_REST_GAP_US = 2000,    // waits closer than this are in a row
    LOOP_REST_WAITS = 8,        // so many in a row, and the loop is busy,
    LOOP_REST_QUIET_US = 16000, // until it has not waited for so long
    LOOP_REST_PAYS = 3          // things to do after a rest that was worth it
};

struct loop_rest { // starts zeroed
    uint64_t waited_us;
    unsigned waits; // in a row
    bool rested;
};

// The loop is about to wait, for `due_us` at most (a point in time like now_us), and has done `done` things
// since the last wait. How long to sleep before, in us: 0 unless it is busy, and never beyond due_us.
uint64_t loop_rest_before_wait(struct loop_rest *r, uint64_t now_us, uint64_t due_us, unsigned done);

#endif
