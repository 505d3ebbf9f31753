// How long does a subject that is being deleted wait for what should be done before? The one place that
// decides it: for ever, unless the script's finalize_timeout and finalize_abandon say otherwise, or its
// namespace is being deleted too. A namespace does not get stuck on us, so there it waits
//   - while its hook works, as long as finalize_timeout says; without one until nothing has moved (no write,
//   no
//     change of what it reads) for 30 s, and 5 minutes in all;
//   - while nothing is going to be done (it is paused, its passes wait for a kind, the script is in
//   quarantine,
//     held or gone, it said k8s.invalid), for 10 s;
//   - for five failures in a row: not at all where the namespace refuses what is new, and without a
//     finalize_timeout for 10 s.
// Then nothing is waited for any more, and if that does not help within 30 s (children that can not be known
// or deleted) the finalizer is taken off without. Pure; no clock of its own.
#ifndef RUN_CONTROLLER_DELETION_H
#define RUN_CONTROLLER_DELETION_H

#include <stdbool.h>
#include <stdint.h>

#include "base/metrics.h"
#include "run/workqueue/given_up.h"

enum {
    DELETION_TRIES = 5,
    DELETION_IDLE_MS = 10 * 1000,     // nothing is going to be done
    DELETION_STILL_MS = 30 * 1000,    // nothing has moved
    DELETION_MOST_MS = 5 * 60 * 1000, // in all
};

struct deletion_facts { // times in ms of one monotonic clock
    uint64_t now_ms;
    uint64_t seen_ms;        // since when it is known to be deleted
    uint64_t terminating_ms; // since when its namespace is known to be; 0: it is not, as far as is known
    uint64_t moved_ms;       // something was done or changed last, or `works` changed
    enum given_up given_up;
    uint64_t given_up_ms; // since when
    bool ran;             // a pass of it has ended since
    bool works;           // passes come, and the last one is not the last word
    unsigned failures;    // in a row
    bool refused;         // the last one, by the namespace
    int64_t left_us;      // of finalize_timeout: 0 or less: it is over; INT64_MAX: there is none
    bool abandon;         // finalize_abandon
};

struct deletion_verdict {
    enum given_up given_up;
    bool overdue;      // finalize_timeout is over
    bool last_resort;  // the finalizer is to be taken off here and now
    uint64_t again_ms; // when to look again, unless something changes; UINT64_MAX: never
};

struct deletion_verdict deletion_judge(const struct deletion_facts *f);

extern const struct metric_def deletion_given_up; // counts them

#endif
