#include "io/loop_rest.h"

uint64_t loop_rest_before_wait(struct loop_rest *r, uint64_t now_us, uint64_t due_us, unsigned done)
{
    uint64_t since = now_us - r->waited_us;
    bool busy = r->waits >= LOOP_REST_WAITS;
    bool in_a_row = since < (busy ? LOOP_REST_QUIET_US : LOOP_REST_GAP_US);
    bool paid = !r->rested || done >= LOOP_REST_PAYS;
    r->waits = in_a_row && paid ? r->waits + 1 : 0;
    r->waited_us = now_us;
    r->rested = false;
    if (r->waits < LOOP_REST_WAITS || since >= LOOP_REST_US || due_us <= now_us)
        return 0;
    uint64_t until = now_us - since + LOOP_REST_US;
    r->rested = until <= due_us; // a shorter one proves nothing
    if (until > due_us)
        until = due_us;
    r->waited_us = until;
    return until - now_us;
}
