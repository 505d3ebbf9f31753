#include "run/workqueue/limiter.h"

const struct limiter limiter_default = {.kind = LIMITER_EXPONENTIAL, .base_ms = 5, .max_ms = 1000 * 1000};

static uint64_t exponential(const struct limiter *l, unsigned failures)
{
    uint64_t delay = l->base_ms;
    for (unsigned i = 0; i < failures && delay < l->max_ms; i++)
        delay *= 2;
    return delay < l->max_ms ? delay : l->max_ms;
}

static uint64_t plain(const struct limiter *l, unsigned failures)
{
    switch (l->kind) {
    case LIMITER_FAST_SLOW:
        return failures < l->fast_attempts ? l->base_ms : l->max_ms;
    case LIMITER_FIXED:
        return l->base_ms;
    case LIMITER_EXPONENTIAL:
        break;
    }
    return exponential(l, failures);
}

uint64_t limiter_delay_ms(const struct limiter *l, unsigned failures, struct random *r)
{
    uint64_t delay = plain(l, failures);
    if (l->jitter && delay > 1)
        delay = delay / 2 + random_below(r, delay - delay / 2 + 1);
    return delay;
}
