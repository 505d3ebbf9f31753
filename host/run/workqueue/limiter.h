// Per-item back-off, as client-go's ItemExponentialFailureRateLimiter and ItemFastSlowRateLimiter. Pure: the
// queue keeps the count.
#ifndef RUN_WORKQUEUE_LIMITER_H
#define RUN_WORKQUEUE_LIMITER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"

enum limiter_kind { LIMITER_EXPONENTIAL, LIMITER_FAST_SLOW, LIMITER_FIXED };

struct limiter {
    enum limiter_kind kind;
    uint64_t base_ms;       // exponential: first delay; fast_slow: the fast one; fixed: the delay
    uint64_t max_ms;        // exponential: the cap; fast_slow: the slow one
    unsigned fast_attempts; // fast_slow only
    bool jitter;            // each delay is spread over [delay/2, delay]
};

// 5 ms doubling to 1000 s, client-go's default.
extern const struct limiter limiter_default;

// The delay before attempt number `failures` + 1; failures counts those before this one (0 for the first).
// Never overflows.
uint64_t limiter_delay_ms(const struct limiter *l, unsigned failures, struct random *r);

#endif
