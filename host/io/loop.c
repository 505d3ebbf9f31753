#include "io/loop.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "io/loop_impl.h"

struct deferred {
    struct message message;
    struct loop *loop;
    void (*fn)(void *ud);
    void *ud;
};

static void wake(void *ud)
{
    struct loop *l = ud;
    l->ops->wake(l);
}

// The address of a variable each thread has its own of names the thread.
static uintptr_t current_thread(void)
{
    static _Thread_local char self;
    return (uintptr_t)&self;
}

struct loop *loop_new(struct clock *clock)
{
    return clock_is_virtual(clock) ? loop_virtual_new(clock) : loop_real_new(clock);
}

void loop_init(struct loop *l, const struct loop_ops *ops, struct clock *clock)
{
    l->ops = ops;
    l->clock = clock;
    l->box = mailbox_new(wake, l);
}

void loop_fini(struct loop *l)
{
    mailbox_free(l->box);
    ASSERT(heap_first(&l->timers) == NULL); // whoever started one frees it first
    heap_fini(&l->timers);
}

void loop_free(struct loop *l)
{
    if (l == NULL)
        return;
    DASSERT(loop_is_current(l));
    l->closing = true;
    while (loop_fill_ready(l))
        loop_run_ready(l);
    l->ops->free(l);
}

struct clock *loop_clock(struct loop *l)
{
    return l->clock;
}

uint64_t loop_now_ms(struct loop *l)
{
    return clock_now_ms(l->clock);
}

bool loop_is_current(const struct loop *l)
{
    uintptr_t runner = atomic_load_explicit(&l->runner, memory_order_relaxed);
    return runner == 0 || runner == current_thread();
}

uintptr_t loop_enter(struct loop *l)
{
    ASSERT(loop_is_current(l));
    return atomic_exchange(&l->runner, current_thread());
}

void loop_leave(struct loop *l, uintptr_t previous)
{
    atomic_store(&l->runner, previous);
}

void loop_run(struct loop *l)
{
    uintptr_t previous = loop_enter(l);
    l->ops->run(l);
    atomic_store(&l->stopping, false);
    loop_leave(l, previous);
}

void loop_stop(struct loop *l)
{
    atomic_store(&l->stopping, true);
    l->ops->wake(l);
}

void loop_post(struct loop *l, struct message *m)
{
    mailbox_post(l->box, m);
}

bool loop_fill_ready(struct loop *l)
{
    if (l->ready == NULL)
        l->ready = mailbox_take(l->box);
    return l->ready != NULL;
}

void loop_run_ready(struct loop *l)
{
    struct message *m = l->ready;
    l->ready = m->next;
    m->run(m);
}

static void run_deferred(struct message *m)
{
    struct deferred *d = (struct deferred *)m;
    void (*fn)(void *ud) = d->fn;
    void *ud = d->ud;
    bool drop = d->loop->closing;
    free(d);
    if (!drop)
        fn(ud);
}

void loop_defer(struct loop *l, void (*fn)(void *ud), void *ud)
{
    DASSERT(loop_is_current(l));
    struct deferred *d = xmalloc(sizeof(*d));
    *d = (struct deferred){.message.run = run_deferred, .loop = l, .fn = fn, .ud = ud};
    loop_post(l, &d->message);
}
