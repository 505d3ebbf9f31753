#include "io/loop_rest.h"

uint64_t loop_rest_before_wait(struct loop_rest *r, uint64_t now_us, uint64_t due_us)
{
    if (now_us - r->window_us > LOOP_REST_IN_US) {
        r->window_us = now_us;
        r->waits = 0;
    }
    uint64_t since = now_us - r->waited_us;
    r->waited_us = now_us;
    if (++r->waits <= LOOP_REST_WAITS || since >= LOOP_REST_US || due_us <= now_us)
        return 0;
    uint64_t until = now_us - since + LOOP_REST_US;
    if (until > due_us)
        until = due_us;
    r->waits = LOOP_REST_WAITS; // busy until nothing comes for a while
    r->window_us = r->waited_us = until;
    return until - now_us;
}
