#include "run/controller/deletion.h"

const struct metric_def deletion_given_up = {
    "tidelock_deletions_given_up_total",
    "Subjects whose finalizer was taken off although something was left to do.", METRIC_COUNTER, "script"};

static uint64_t later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

// When finalize_timeout is over; the hook has its chance first, also when the host starts long after.
static uint64_t timeout_ms(const struct deletion_facts *f)
{
    if (f->left_us == INT64_MAX)
        return UINT64_MAX;
    if (f->left_us > 0)
        return f->now_ms + (uint64_t)(f->left_us + 999) / 1000;
    return f->ran ? f->now_ms : later(f->now_ms, f->seen_ms + DELETION_IDLE_MS);
}

// Until when a subject in a namespace that goes waits.
static uint64_t deadline_ms(const struct deletion_facts *f)
{
    uint64_t since = later(f->terminating_ms, f->moved_ms), most = f->terminating_ms + DELETION_MOST_MS;
    bool fails = f->failures >= DELETION_TRIES, timed = f->left_us != INT64_MAX;
    if (fails && f->refused)
        return f->now_ms;
    if (f->works && timed)
        return timeout_ms(f);
    uint64_t due = since + (f->works && !fails ? DELETION_STILL_MS : DELETION_IDLE_MS);
    return due < most ? due : most;
}

struct deletion_verdict deletion_judge(const struct deletion_facts *f)
{
    struct deletion_verdict v = {.given_up = f->given_up, .overdue = f->left_us <= 0, .again_ms = UINT64_MAX};
    enum given_up next = f->terminating_ms != 0 ? GIVEN_UP_ALL
                         : f->abandon           ? GIVEN_UP_HOOK
                                                : GIVEN_UP_NOTHING;
    if (f->given_up == GIVEN_UP_ALL) {
        v.again_ms = f->given_up_ms + DELETION_STILL_MS;
        v.last_resort = f->now_ms >= v.again_ms;
        return v;
    }
    uint64_t due = f->terminating_ms != 0 ? deadline_ms(f) : timeout_ms(f);
    if (due > f->now_ms)
        v.again_ms = due;
    else if (next > f->given_up)
        v.given_up = next;
    return v;
}
