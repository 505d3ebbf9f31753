// Random hostile scripts from a small grammar: none may crash the process, leak, hang, hurt the next pass, or
// end without a word. Even ones have a counted budget, odd ones the real watchdog; each half runs in a
// process of its own, which tells by a shared page what it is at, so a mutation that kills it is known.
//
// TIDELOCK_MUTATIONS=N: that many; TIDELOCK_SEED=N: from that seed; TIDELOCK_MUTATION=I: that one alone.
// ctest-labels: thread
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "script/script_support.h"

#include "script/grammar.h"
#include "script/seed.h"

#if defined(__SANITIZE_THREAD__) // which defers the watchdog's signals, too
enum { ROUNDS = 1500, HAS_WATCHDOG = 0 };
#elif defined(NDEBUG) || defined(TIDELOCK_SANITIZED)
enum { ROUNDS = 20000, HAS_WATCHDOG = 1 };
#else
enum { ROUNDS = 1500, HAS_WATCHDOG = 1 };
#endif
enum {
    STACK_BYTES = 1024 * 1024,
    WORKERS = 2,
    SOURCE_MAX = 64 * 1024,
    HANG_SECONDS = 60,
    ENDS = PASS_CANCELED + 1
};

// What a worker tells: what it is at, and how it went.
struct worker {
    uint64_t seed, first, step, rounds;
    bool watched;
    uint64_t at; // the number of the mutation whose text is `source`
    uint64_t done;
    char source[SOURCE_MAX];
    char problem[512];
    unsigned ends[ENDS];
};

// The memory that a well-behaved pass takes, which never changes; 0: it went wrong.
static size_t run_good(struct pass_runner *r, const struct program *p)
{
    struct fake_world w = {0};
    struct pass_output out;
    support_run(r, p, &w, NULL, &out);
    size_t peak = out.end == PASS_OK && strcmp(out.result.data, "{\"status\":{\"n\":\"xx\"}}") == 0
                      ? out.memory_peak
                      : 0;
    pass_output_fini(&out);
    return peak;
}

static void run_one(struct worker *worker, struct pass_runner *r, struct grammar *g)
{
    static const int answers[] = {0, 0, 0, 0, 0, -ERR_PARKED, -ERR_FORBIDDEN};
    static const struct pass_limits limits = {
        .cpu_us = 2000, .memory = 1 << 20, .result = 20000, .events = 3, .log_lines = 20};
    struct program_options o = {.main = {"m.lua", g->out.data, g->out.len}};
    struct program *p;
    struct err e = {0};
    if (program_new(&o, &p, &e) < 0) { // the grammar makes nothing that does not compile
        snprintf(worker->problem, sizeof(worker->problem), "does not load: %.400s", e.text);
        return;
    }
    struct fake_world w = {.answer = answers[random_below(&g->r, sizeof(answers) / sizeof(answers[0]))]};
    struct pass_output out;
    support_run(r, p, &w, &limits, &out);
    worker->ends[out.end]++;
    if (out.end > PASS_NIL && out.err.text[0] == 0)
        snprintf(worker->problem, sizeof(worker->problem), "ended %s without a word", pass_end_name(out.end));
    pass_output_fini(&out);
    program_unref(p);
}

static void *run_all(void *arg)
{
    struct worker *worker = arg;
    struct grammar g;
    buf_init(&g.out, SOURCE_MAX - 1);
    struct watchdog *w = worker->watched ? watchdog_new() : NULL;
    struct pass_runner *r = pass_runner_new(w);
    struct program *good = support_program("return {status = {n = string.rep('x', 2)}}");
    size_t before = run_good(r, good);
    if (before == 0)
        snprintf(worker->problem, sizeof(worker->problem), "the well-behaved pass fails before all");
    for (uint64_t i = worker->first; i < worker->rounds && worker->problem[0] == 0; i += worker->step) {
        grammar_make(&g, worker->seed + i);
        worker->at = i;
        memcpy(worker->source, g.out.data, g.out.len + 1);
        alarm(HANG_SECONDS); // what nothing stops ends the process
        run_one(worker, r, &g);
        if (worker->problem[0] == 0 && run_good(r, good) != before)
            snprintf(worker->problem, sizeof(worker->problem), "the next pass is another one");
        worker->done++;
    }
    alarm(0);
    program_unref(good);
    pass_runner_free(r);
    watchdog_free(w);
    buf_fini(&g.out);
    return NULL;
}

// cmocka catches these, where the process shall end with the word of the sanitizer.
static const int fatal[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL};
enum { FATAL_COUNT = sizeof(fatal) / sizeof(fatal[0]) };
static struct sigaction fatal_action[FATAL_COUNT];

// A process with one small thread. It ends by exit, so that the leak checker looks.
static pid_t start(struct worker *worker)
{
    fflush(NULL);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid > 0)
        return pid;
    for (int i = 0; i < FATAL_COUNT; i++)
        sigaction(fatal[i], &fatal_action[i], NULL);
    pthread_attr_t attr;
    pthread_t thread;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    if (pthread_create(&thread, &attr, run_all, worker) != 0)
        exit(1);
    pthread_join(thread, NULL);
    pthread_attr_destroy(&attr);
    exit(0);
}

// False, and said how it can be repeated, when the worker's process did not end well.
static bool judge(const struct worker *worker, int status)
{
    char end[128] = "";
    if (WIFSIGNALED(status))
        snprintf(end, sizeof(end), "the process was killed by signal %d%s", WTERMSIG(status),
                 WTERMSIG(status) == SIGALRM ? ": nothing stopped it for a minute" : "");
    else if (WEXITSTATUS(status) != 0)
        snprintf(end, sizeof(end), "the process ended with code %d", WEXITSTATUS(status));
    if (end[0] == 0 && worker->problem[0] == 0)
        return true;
    unsigned long long at = worker->at;
    fprintf(stderr,
            "%s%s%s\nmutation %llu (or one before it: leaks are told at the end); this one alone:\n"
            "TIDELOCK_SEED=%llu TIDELOCK_MUTATION=%llu %s\n%s\n",
            worker->problem, worker->problem[0] != 0 && end[0] != 0 ? "; " : "", end, at,
            (unsigned long long)worker->seed, at, seed_program(), worker->source);
    return false;
}

static void print_ends(const struct worker *workers, uint64_t rounds)
{
    uint64_t done = 0;
    print_message("mutations run:");
    for (int i = 0; i < WORKERS; i++) {
        print_message(" %llu %s,", (unsigned long long)workers[i].done,
                      workers[i].watched ? "under the watchdog" : "with a counted budget");
        done += workers[i].done;
    }
    for (int end = 0; end < ENDS; end++)
        print_message(" %s %u", pass_end_name((enum pass_end)end),
                      workers[0].ends[end] + workers[1].ends[end]);
    print_message("\n");
    assert_int_equal(done, rounds);
}

static void test_mutations(void **state)
{
    (void)state;
    const uint64_t seed = seed_get();
    const uint64_t only = seed_setting("TIDELOCK_MUTATION", UINT64_MAX);
    const uint64_t rounds = only != UINT64_MAX ? only + 1 : seed_setting("TIDELOCK_MUTATIONS", ROUNDS);
    struct worker *workers =
        mmap(NULL, WORKERS * sizeof(*workers), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(workers != MAP_FAILED);
    seed_announce(seed, "TIDELOCK_MUTATIONS", rounds);
    pid_t pids[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        workers[i].seed = seed;
        workers[i].rounds = rounds;
        workers[i].first = only == UINT64_MAX ? (uint64_t)i : only % WORKERS == (uint64_t)i ? only : rounds;
        workers[i].step = WORKERS;
        workers[i].watched = i == 1 && HAS_WATCHDOG;
        pids[i] = start(&workers[i]);
    }
    bool good = true;
    for (int i = 0; i < WORKERS; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        good = judge(&workers[i], status) && good;
    }
    assert_true(good);
    print_ends(workers, only != UINT64_MAX ? 1 : rounds);
    munmap(workers, WORKERS * sizeof(*workers));
}

int main(void)
{
    for (int i = 0; i < FATAL_COUNT; i++)
        sigaction(fatal[i], NULL, &fatal_action[i]);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_mutations),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
