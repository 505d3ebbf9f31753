#include "run/controller/share.h"

enum { MINUTE_MS = 60 * 1000 };

void share_init(struct share *s, uint64_t per_minute_us, uint64_t now_ms)
{
    if (per_minute_us > INT64_MAX / MINUTE_MS)
        per_minute_us = INT64_MAX / MINUTE_MS;
    *s = (struct share){per_minute_us, (int64_t)per_minute_us, now_ms};
}

// What has come in since.
static void refill(struct share *s, uint64_t now_ms)
{
    uint64_t passed = now_ms > s->at_ms ? now_ms - s->at_ms : 0;
    if (passed > 2 * MINUTE_MS) // enough to fill it, see share_spend
        passed = 2 * MINUTE_MS;
    uint64_t gain = s->per_minute_us * passed / MINUTE_MS;
    if (gain == 0 && passed < 2 * MINUTE_MS)
        return; // too short a time: it is counted with the next
    s->left_us += (int64_t)gain;
    if (s->left_us > (int64_t)s->per_minute_us)
        s->left_us = (int64_t)s->per_minute_us;
    s->at_ms = now_ms;
}

void share_spend(struct share *s, uint64_t cpu_us, uint64_t now_ms)
{
    if (s->per_minute_us == 0)
        return;
    refill(s, now_ms);
    // Nobody waits longer than a minute, however much it was.
    int64_t least = -(int64_t)s->per_minute_us;
    s->left_us = cpu_us > (uint64_t)(s->left_us - least) ? least : s->left_us - (int64_t)cpu_us;
}

uint64_t share_due_ms(struct share *s, uint64_t now_ms)
{
    if (s->per_minute_us == 0)
        return now_ms;
    refill(s, now_ms);
    if (s->left_us >= 0)
        return now_ms;
    uint64_t owed = (uint64_t)-s->left_us;
    return s->at_ms + (owed * MINUTE_MS + s->per_minute_us - 1) / s->per_minute_us;
}
