// The watchdog with several workers at once.
// ctest-labels: thread
#include <lauxlib.h>
#include <lua.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include "script/script_support.h"

#include "script/budget.h"

enum { WORKERS = 3, ROUNDS = 400 };

// Short passes, whose begin and end race with the watchdog: none is ended before its time.
static void *run_short_passes(void *arg)
{
    struct pass_runner *r = pass_runner_new(arg);
    struct program *p =
        support_program("local n = 0 for i = 1, 100 do n = n + i end return {status = {n = n}}");
    struct fake_world w = {0};
    uintptr_t bad = 0;
    for (int i = 0; i < ROUNDS; i++) {
        struct pass_output out;
        support_run(r, p, &w, &(struct pass_limits){.cpu_us = 10000000}, &out);
        bad += out.end != PASS_OK;
        pass_output_fini(&out);
    }
    program_unref(p);
    pass_runner_free(r);
    return (void *)bad;
}

static void test_short_passes_are_left_alone(void **state)
{
    (void)state;
    struct watchdog *w = watchdog_new();
    pthread_t threads[WORKERS];
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_short_passes, w), 0);
    for (int i = 0; i < WORKERS; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
    watchdog_free(w);
}

static void *run_long_passes(void *arg)
{
    struct pass_runner *r = pass_runner_new(arg);
    struct program *p = support_program("while true do pcall(function() while true do end end) end");
    struct fake_world w = {0};
    uintptr_t bad = 0;
    for (int i = 0; i < 10; i++) {
        struct pass_output out;
        support_run(r, p, &w, &(struct pass_limits){.cpu_us = 3000}, &out);
        bad += out.end != PASS_DEADLINE; // on a busy machine by the wall limit, with less CPU used
        pass_output_fini(&out);
    }
    program_unref(p);
    pass_runner_free(r);
    return (void *)bad;
}

static void test_long_passes_are_stopped(void **state)
{
    (void)state;
    support_skip_without_signals();
    struct watchdog *w = watchdog_new();
    pthread_t threads[WORKERS];
    for (int i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, run_long_passes, w), 0);
    for (int i = 0; i < WORKERS; i++) {
        void *bad;
        pthread_join(threads[i], &bad);
        assert_null(bad);
    }
    watchdog_free(w);
}

static sem_t stuck;
static _Atomic(struct budget *) stuck_budget;

static void on_stuck(void *ud, struct budget *b)
{
    (void)ud;
    atomic_store(&stuck_budget, b);
    sem_post(&stuck);
}

static void on_hook(lua_State *L, lua_Debug *ar)
{
    (void)L, (void)ar;
}

// A worker that is in C and never comes back to Lua is told about, once.
static void test_a_stuck_worker_is_reported(void **state)
{
    (void)state;
    support_skip_without_signals();
    assert_int_equal(sem_init(&stuck, 0, 0), 0);
    struct watchdog *w = watchdog_new();
    watchdog_on_stuck(w, on_stuck, NULL);
    struct budget *b = budget_new(w);
    budget_set_hook(b, on_hook);
    lua_State *L = lua_open();
    budget_begin(b, L, 1000);
    while (sem_wait(&stuck) != 0) // the signals of the watchdog interrupt it
        ;
    assert_ptr_equal(atomic_load(&stuck_budget), b);
    assert_true(budget_expired(b));
    budget_end(b);
    budget_free(b);
    watchdog_free(w);
    lua_close(L);
    sem_destroy(&stuck);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_short_passes_are_left_alone),
        cmocka_unit_test(test_long_passes_are_stopped),
        cmocka_unit_test(test_a_stuck_worker_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
