#include "run/workqueue/dispatch.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "run/workqueue/queue.h"

struct turn { // a queue that waits for its turn
    struct turn *next;
    struct queue *queue;
};

struct dispatcher {
    pthread_mutex_t lock;
    pthread_cond_t ready;
    struct turn *turns, **turns_end;
    struct dispatch_task *tasks, **tasks_end;
    bool keys_paused;
    bool shut;
    bool trial; // a key that is tried is in process
    void (*on_ready)(void *ud);
    void *ud;
};

struct dispatcher *dispatch_new(void (*on_ready)(void *ud), void *ud)
{
    struct dispatcher *d = xcalloc(1, sizeof *d);
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->ready, NULL);
    d->turns_end = &d->turns;
    d->tasks_end = &d->tasks;
    d->on_ready = on_ready;
    d->ud = ud;
    return d;
}

void dispatch_free(struct dispatcher *d)
{
    if (d == NULL)
        return;
    ASSERT(d->turns == NULL);
    ASSERT(d->tasks == NULL);
    pthread_cond_destroy(&d->ready);
    pthread_mutex_destroy(&d->lock);
    free(d);
}

void dispatch_lock(struct dispatcher *d)
{
    pthread_mutex_lock(&d->lock);
}

void dispatch_unlock(struct dispatcher *d)
{
    pthread_mutex_unlock(&d->lock);
}

void dispatch_wake(struct dispatcher *d)
{
    if (d->on_ready != NULL)
        d->on_ready(d->ud);
    else
        dispatch_signal(d);
}

void dispatch_signal(struct dispatcher *d)
{
    pthread_cond_signal(&d->ready);
}

void dispatch_submit(struct dispatcher *d, struct dispatch_task *t)
{
    t->next = NULL;
    dispatch_lock(d);
    *d->tasks_end = t;
    d->tasks_end = &t->next;
    dispatch_unlock(d);
    dispatch_wake(d);
}

static struct turn **find_turn(struct dispatcher *d, const struct queue *q)
{
    struct turn **at = &d->turns;
    while (*at != NULL && (*at)->queue != q)
        at = &(*at)->next;
    return at;
}

static void append_turn(struct dispatcher *d, struct turn *t)
{
    t->next = NULL;
    *d->turns_end = t;
    d->turns_end = &t->next;
}

static struct turn *unlink_turn(struct dispatcher *d, struct turn **at)
{
    struct turn *t = *at;
    *at = t->next;
    if (*at == NULL)
        d->turns_end = at;
    return t;
}

void dispatch_ready_locked(struct dispatcher *d, struct queue *q)
{
    if (!queue_has_ready_locked(q) || *find_turn(d, q) != NULL)
        return;
    struct turn *t = xcalloc(1, sizeof *t);
    t->queue = q;
    append_turn(d, t);
}

void dispatch_forget_locked(struct dispatcher *d, struct queue *q)
{
    struct turn **at = find_turn(d, q);
    if (*at != NULL)
        free(unlink_turn(d, at));
}

static bool take_task(struct dispatcher *d, struct dispatch_item *ret)
{
    struct dispatch_task *t = d->tasks;
    if (t == NULL)
        return false;
    d->tasks = t->next;
    if (d->tasks == NULL)
        d->tasks_end = &d->tasks;
    *ret = (struct dispatch_item){.task = t};
    return true;
}

void dispatch_trial_ended_locked(struct dispatcher *d)
{
    ASSERT(d->trial);
    d->trial = false;
}

static bool take_key(struct dispatcher *d, struct dispatch_item *ret)
{
    struct turn **at = &d->turns;
    while (!d->keys_paused && *at != NULL) {
        bool tried = queue_is_tried_locked((*at)->queue);
        if (tried && d->trial) {
            at = &(*at)->next;
            continue;
        }
        struct turn *t = unlink_turn(d, at);
        const char *key = queue_pop_locked(t->queue);
        d->trial |= tried && key != NULL;
        if (key != NULL)
            *ret = (struct dispatch_item){.queue = t->queue, .key = key};
        if (key != NULL && queue_has_ready_locked(t->queue))
            append_turn(d, t); // the others come first
        else
            free(t);
        if (key != NULL)
            return true;
    }
    return false;
}

bool dispatch_try_take(struct dispatcher *d, struct dispatch_item *ret)
{
    dispatch_lock(d);
    bool got = take_task(d, ret) || take_key(d, ret);
    dispatch_unlock(d);
    return got;
}

bool dispatch_take(struct dispatcher *d, struct dispatch_item *ret)
{
    dispatch_lock(d);
    bool got;
    while (!(got = take_task(d, ret) || take_key(d, ret)) && !d->shut)
        pthread_cond_wait(&d->ready, &d->lock);
    if (got && (d->turns != NULL || d->tasks != NULL))
        pthread_cond_signal(
            &d->ready); // much may have become ready at once: the next one is woken by this one
    dispatch_unlock(d);
    return got;
}

void dispatch_pause_keys(struct dispatcher *d)
{
    dispatch_lock(d);
    d->keys_paused = true;
    dispatch_unlock(d);
}

void dispatch_shut(struct dispatcher *d)
{
    dispatch_lock(d);
    d->keys_paused = true;
    d->shut = true;
    pthread_cond_broadcast(&d->ready);
    dispatch_unlock(d);
}
