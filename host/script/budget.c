#include "script/budget.h"

#include <errno.h>
#include <lua.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <time.h>

#include "base/alloc.h"
#include "base/assert.h"

enum {
    WALL_FACTOR = 10,
    REPEAT_US = 5000, // an expired pass is signalled this often
    POLL_US = 20000,  // how long the watchdog sleeps while passes come and go
    POLLS_IDLE = 10,  // so many polls without a pass, and it sleeps until it is woken
    STUCK_US = 2000000,
    INLINE_RATE = 50,  // instructions a microsecond
    INLINE_STEP = 100, // instructions between two looks
    // Times the CPU time meant: some instructions take long, such as .. of two texts of megabytes. What else
    // takes long in C is charged.
    INLINE_GUARD = 50,
};
#define BUDGET_SIGNAL (SIGRTMIN + 5)

struct watchdog {
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    LIST_HEAD(, budget) budgets;
    uint64_t wake_at_us; // when the thread looks next; UINT64_MAX: when woken
    int idle_polls;
    bool stop;
    void (*on_stuck)(void *ud, struct budget *b);
    void *stuck_ud;
};

struct budget {
    struct watchdog *w; // NULL: inline
    LIST_ENTRY(budget) link;
    void (*hook)(struct lua_State *L, struct lua_Debug *ar);
    pthread_t thread;
    clockid_t cpu_clock;
    _Atomic(lua_State *) L; // of the running pass, or NULL
    atomic_bool expired;
    // Written by begin under the watchdog's lock.
    uint64_t cpu_us;
    uint64_t cpu_start_us;
    uint64_t wall_start_us;
    bool stuck_told;
    // Inline only.
    uint64_t used;
    uint64_t allowed;
    unsigned step; // instructions that the next call of the hook stands for
};

// The budget of this thread, for the signal handler.
static _Thread_local struct budget *current;

static uint64_t read_clock_us(clockid_t id)
{
    struct timespec t;
    if (clock_gettime(id, &t) != 0)
        return 0;
    return (uint64_t)t.tv_sec * 1000000 + (uint64_t)t.tv_nsec / 1000;
}

// Async-signal-safe: lua_sethook is made to be called from a handler of the thread that runs the state.
static void on_signal(int sig)
{
    (void)sig;
    struct budget *b = current;
    if (b == NULL)
        return;
    lua_State *L = atomic_load(&b->L);
    if (L != NULL)
        lua_sethook(L, b->hook, LUA_MASKCOUNT, 1);
}

// How long until b has to be looked at again, in us; signals it when it is due. Lock held.
static uint64_t watch_one(struct budget *b, struct budget **ret_stuck)
{
    uint64_t wall = read_clock_us(CLOCK_MONOTONIC) - b->wall_start_us;
    uint64_t wall_limit = b->cpu_us * WALL_FACTOR;
    if (!atomic_load(&b->expired)) {
        uint64_t cpu = read_clock_us(b->cpu_clock) - b->cpu_start_us;
        if (cpu < b->cpu_us && wall < wall_limit) {
            uint64_t left = b->cpu_us - cpu; // CPU time never runs faster than the wall's
            return left < wall_limit - wall ? left : wall_limit - wall;
        }
        atomic_store(&b->expired, true);
    }
    pthread_kill(b->thread, BUDGET_SIGNAL);
    if (wall > wall_limit + STUCK_US && !b->stuck_told && *ret_stuck == NULL) { // another one: the next time
        b->stuck_told = true;
        *ret_stuck = b;
    }
    return REPEAT_US;
}

// Looks at all running passes; the time until the next look. Lock held, released around the callback.
static uint64_t watch_all(struct watchdog *w)
{
    uint64_t next = UINT64_MAX;
    struct budget *stuck = NULL;
    struct budget *b;
    LIST_FOREACH (b, &w->budgets, link) {
        if (atomic_load(&b->L) == NULL)
            continue;
        uint64_t left = watch_one(b, &stuck);
        if (left < next)
            next = left;
    }
    if (stuck != NULL && w->on_stuck != NULL) {
        pthread_mutex_unlock(&w->lock);
        w->on_stuck(w->stuck_ud, stuck);
        pthread_mutex_lock(&w->lock);
        return 0;
    }
    w->idle_polls = next == UINT64_MAX ? w->idle_polls + 1 : 0;
    if (next < POLL_US)
        return next;
    return w->idle_polls > POLLS_IDLE ? UINT64_MAX : POLL_US;
}

static void *watchdog_main(void *arg)
{
    struct watchdog *w = arg;
    pthread_mutex_lock(&w->lock);
    while (!w->stop) {
        uint64_t left = watch_all(w);
        if (left == UINT64_MAX) {
            w->wake_at_us = UINT64_MAX;
            pthread_cond_wait(&w->wake, &w->lock);
            w->idle_polls = 0;
        } else {
            w->wake_at_us = read_clock_us(CLOCK_MONOTONIC) + left;
            struct timespec at = {(time_t)(w->wake_at_us / 1000000), (long)(w->wake_at_us % 1000000) * 1000};
            pthread_cond_timedwait(&w->wake, &w->lock, &at);
        }
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

struct watchdog *watchdog_new(void)
{
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    ASSERT(sigaction(BUDGET_SIGNAL, &action, NULL) == 0);
    struct watchdog *w = xcalloc(1, sizeof(*w));
    LIST_INIT(&w->budgets);
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&w->wake, &attr);
    pthread_condattr_destroy(&attr);
    // The watchdog itself takes no signals: they are for the threads that expect them.
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    ASSERT(pthread_create(&w->thread, NULL, watchdog_main, w) == 0);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return w;
}

void watchdog_free(struct watchdog *w)
{
    if (w == NULL)
        return;
    pthread_mutex_lock(&w->lock);
    ASSERT(LIST_EMPTY(&w->budgets));
    w->stop = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    free(w);
}

void watchdog_on_stuck(struct watchdog *w, void (*fn)(void *ud, struct budget *b), void *ud)
{
    pthread_mutex_lock(&w->lock);
    w->on_stuck = fn;
    w->stuck_ud = ud;
    pthread_mutex_unlock(&w->lock);
}

struct budget *budget_new(struct watchdog *w)
{
    struct budget *b = xcalloc(1, sizeof(*b));
    b->w = w;
    if (w == NULL)
        return b;
    b->thread = pthread_self();
    ASSERT(pthread_getcpuclockid(b->thread, &b->cpu_clock) == 0);
    pthread_mutex_lock(&w->lock);
    LIST_INSERT_HEAD(&w->budgets, b, link);
    pthread_mutex_unlock(&w->lock);
    return b;
}

void budget_free(struct budget *b)
{
    if (b == NULL)
        return;
    if (b->w != NULL) {
        pthread_mutex_lock(&b->w->lock);
        LIST_REMOVE(b, link);
        pthread_mutex_unlock(&b->w->lock);
        if (current == b)
            current = NULL;
    }
    free(b);
}

bool budget_is_inline(const struct budget *b)
{
    return b->w == NULL;
}

void budget_set_hook(struct budget *b, void (*hook)(struct lua_State *L, struct lua_Debug *ar))
{
    b->hook = hook;
}

static void begin_inline(struct budget *b, lua_State *L, uint64_t cpu_us)
{
    b->used = 0;
    b->cpu_us = cpu_us;
    b->cpu_start_us = read_clock_us(CLOCK_THREAD_CPUTIME_ID);
    b->wall_start_us = read_clock_us(CLOCK_MONOTONIC);
    b->allowed = cpu_us > UINT64_MAX / INLINE_RATE ? UINT64_MAX : cpu_us * INLINE_RATE;
    b->step = INLINE_STEP;
    atomic_store(&b->expired, false);
    atomic_store(&b->L, L);
    lua_sethook(L, b->hook, LUA_MASKCOUNT, INLINE_STEP);
}

void budget_begin(struct budget *b, struct lua_State *L, uint64_t cpu_us)
{
    ASSERT(b->hook != NULL && atomic_load(&b->L) == NULL);
    if (b->w == NULL) {
        begin_inline(b, L, cpu_us);
        return;
    }
    ASSERT(pthread_equal(b->thread, pthread_self()));
    current = b;
    uint64_t cpu = read_clock_us(CLOCK_THREAD_CPUTIME_ID);
    uint64_t now = read_clock_us(CLOCK_MONOTONIC);
    pthread_mutex_lock(&b->w->lock);
    b->cpu_us = cpu_us;
    b->cpu_start_us = cpu;
    b->wall_start_us = now;
    b->stuck_told = false;
    atomic_store(&b->expired, false);
    atomic_store(&b->L, L);
    bool wake = b->w->wake_at_us > now + cpu_us;
    if (wake)
        b->w->wake_at_us = now;
    pthread_mutex_unlock(&b->w->lock);
    if (wake)
        pthread_cond_signal(&b->w->wake);
}

uint64_t budget_end(struct budget *b)
{
    lua_State *L = atomic_load(&b->L);
    ASSERT(L != NULL);
    uint64_t used;
    if (b->w == NULL) {
        atomic_store(&b->L, NULL);
        used = b->used / INLINE_RATE;
    } else {
        // After this the watchdog sends nothing more; a signal on its way finds no state.
        pthread_mutex_lock(&b->w->lock);
        atomic_store(&b->L, NULL);
        pthread_mutex_unlock(&b->w->lock);
        used = read_clock_us(CLOCK_THREAD_CPUTIME_ID) - b->cpu_start_us;
    }
    lua_sethook(L, NULL, 0, 0);
    return used;
}

bool budget_expired(const struct budget *b)
{
    return atomic_load(&b->expired);
}

void budget_arm(struct budget *b)
{
    lua_State *L = atomic_load(&b->L);
    if (L == NULL)
        return;
    if (b->w == NULL) {
        b->used += b->step == INLINE_STEP ? INLINE_STEP : 0; // the part of the step that ran is not known
        b->step = 1;
    }
    lua_sethook(L, b->hook, LUA_MASKCOUNT, 1);
}

// The wall's clock is asked first, as it takes next to no time; but what others do meanwhile is not the
// script's.
static bool is_past_guard(const struct budget *b)
{
    uint64_t guard = b->cpu_us * INLINE_GUARD;
    return read_clock_us(CLOCK_MONOTONIC) - b->wall_start_us > guard &&
           read_clock_us(CLOCK_THREAD_CPUTIME_ID) - b->cpu_start_us > guard;
}

static void count_inline(struct budget *b, uint64_t instructions)
{
    b->used += instructions;
    if (b->used > b->allowed || is_past_guard(b))
        atomic_store(&b->expired, true);
}

bool budget_check(struct budget *b, bool again)
{
    lua_State *L = atomic_load(&b->L);
    if (L == NULL)
        return false;
    if (b->w == NULL)
        count_inline(b, b->step);
    if (budget_expired(b) || again) {
        b->step = 1;
        lua_sethook(L, b->hook, LUA_MASKCOUNT, 1);
    } else if (b->w == NULL) {
        b->step = INLINE_STEP;
        lua_sethook(L, b->hook, LUA_MASKCOUNT, INLINE_STEP);
    } else {
        lua_sethook(L, NULL, 0, 0); // a signal in between is repeated
    }
    return budget_expired(b);
}

void budget_charge(struct budget *b, uint64_t instructions)
{
    lua_State *L = atomic_load(&b->L);
    if (b->w != NULL || L == NULL)
        return;
    count_inline(b, instructions);
    if (budget_expired(b)) {
        b->step = 1;
        lua_sethook(L, b->hook, LUA_MASKCOUNT, 1);
    }
}
