// Timers of both kinds of loop. Not libevent's, which do not keep the order of equal times.
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "io/loop_impl.h"

struct loop_timer {
    struct heap_node node; // first; due in us
    struct loop *loop;
    void (*fn)(void *ud);
    void *ud;
};

struct loop_timer *loop_timer_new(struct loop *l, void (*fn)(void *ud), void *ud)
{
    struct loop_timer *t = xcalloc(1, sizeof(*t));
    t->loop = l;
    t->fn = fn;
    t->ud = ud;
    return t;
}

void loop_timer_start(struct loop_timer *t, uint64_t ms)
{
    struct loop *l = t->loop;
    DASSERT(loop_is_current(l));
    loop_timer_stop(t);
    uint64_t now = clock_now_us(l->clock);
    t->node.due = ms < (UINT64_MAX - 1 - now) / 1000 ? now + ms * 1000 : UINT64_MAX - 1;
    heap_add(&l->timers, &t->node);
}

void loop_timer_stop(struct loop_timer *t)
{
    if (heap_has(&t->node))
        heap_remove(&t->loop->timers, &t->node);
}

bool loop_timer_active(const struct loop_timer *t)
{
    return heap_has(&t->node);
}

void loop_timer_free(struct loop_timer *t)
{
    if (t == NULL)
        return;
    loop_timer_stop(t);
    free(t);
}

uint64_t loop_next_due_us(const struct loop *l)
{
    const struct heap_node *first = heap_first(&l->timers);
    return first != NULL ? first->due : UINT64_MAX;
}

void loop_run_timer(struct loop *l)
{
    struct loop_timer *t = (struct loop_timer *)heap_first(&l->timers);
    heap_remove(&l->timers, &t->node);
    t->fn(t->ud); // may free t
}

void loop_run_due(struct loop *l)
{
    const struct heap_node *first = heap_first(&l->timers);
    if (first == NULL)
        return;
    uint64_t now = clock_now_us(l->clock);
    uint64_t added = l->timers.added;
    while ((first = heap_first(&l->timers)) != NULL && first->due <= now && first->order <= added)
        loop_run_timer(l);
}
