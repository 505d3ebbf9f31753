// How much CPU time somebody may use a minute: a token bucket. It holds a minute's worth at most, so that a
// burst passes; what overdraws it is waited for. Plain value, one owner; times are those of the owner's
// clock.
#ifndef RUN_CONTROLLER_SHARE_H
#define RUN_CONTROLLER_SHARE_H

#include <stdint.h>

struct share {
    uint64_t per_minute_us; // 0: no limit
    int64_t left_us;        // negative: overdrawn
    uint64_t at_ms;         // when that was true
};

void share_init(struct share *s, uint64_t per_minute_us, uint64_t now_ms);
void share_spend(struct share *s, uint64_t cpu_us, uint64_t now_ms);
// When it is no longer overdrawn: now_ms or later.
uint64_t share_due_ms(struct share *s, uint64_t now_ms);

#endif
