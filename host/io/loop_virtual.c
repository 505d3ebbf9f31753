// The deterministic loop: one thread, no file descriptors, time moves only when nothing else is left to do.
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "io/loop_impl.h"

static void virtual_run(struct loop *l)
{
    while (!atomic_load(&l->stopping) && loop_step(l, UINT64_MAX))
        ;
}

static void virtual_wake(struct loop *l)
{
    (void)l; // each step looks by itself
}

static void virtual_free(struct loop *l)
{
    loop_fini(l);
    free(l);
}

static const struct loop_ops virtual_ops = {virtual_run, virtual_wake, virtual_free};

struct loop *loop_virtual_new(struct clock *clock)
{
    struct loop *l = xcalloc(1, sizeof(*l));
    loop_init(l, &virtual_ops, clock);
    return l;
}

bool loop_step(struct loop *l, uint64_t until_ms)
{
    ASSERT(l->ops == &virtual_ops);
    uintptr_t previous = loop_enter(l);
    bool some = true;
    uint64_t due = loop_next_due_us(l);
    if (loop_fill_ready(l)) {
        loop_run_ready(l);
    } else if (due != UINT64_MAX && due / 1000 <= until_ms) {
        if (due > clock_now_us(l->clock))
            clock_advance_to(l->clock, due / 1000); // whole milliseconds: a virtual clock has no others
        loop_run_timer(l);
    } else {
        some = false;
    }
    loop_leave(l, previous);
    return some;
}

uint64_t loop_run_until(struct loop *l, uint64_t until_ms)
{
    uint64_t count = 0;
    while (!atomic_load(&l->stopping) && loop_step(l, until_ms))
        count++;
    if (!atomic_exchange(&l->stopping, false) && until_ms > clock_now_ms(l->clock))
        clock_advance_to(l->clock, until_ms);
    return count;
}
