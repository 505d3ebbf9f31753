// Runs scripts that try to outlive their limits on threads with a stack of 1 MiB and the real watchdog, and
// looks at how each ends and what it leaves. Header only.
#ifndef SPEC_SCRIPT_HOSTILE_SUPPORT_H
#define SPEC_SCRIPT_HOSTILE_SUPPORT_H

#include <malloc.h>
#include <pthread.h>
#include <unistd.h>

#include "script/script_support.h"
#include "script/witness.h"

enum {
    STACK_BYTES = 1024 * 1024,
    CPU_US = 100000,
    // CPU time of the thread beyond the budget until a script is stopped: time that others have the processor
    // is not the script's, nor the watchdog's (witness.h). overrun_test.c looks at the wall's clock.
    LATE_US = 50000,
    TRIES = 3,                      // what others do with caches and memory makes one pass longer, not each
    PATIENT_US = 20000000,          // a budget that none needs that ends for another reason
    ALIVE_MAX = 8 * 1024 * 1024,    // of the arena between passes
    HEAP_LEFT_MAX = 32 * 1024,      // of all of them together, when the threads are gone
    RSS_LEFT_MAX = 4 * 1024 * 1024, // alloc_give_back leaves 1 MiB to each of the three threads
};

// Bytes allocated in the process.
#ifdef __SANITIZE_ADDRESS__
size_t __sanitizer_get_current_allocated_bytes(void);
static inline size_t heap_bytes(void)
{
    return __sanitizer_get_current_allocated_bytes();
}
#else
static inline size_t heap_bytes(void)
{
    struct mallinfo2 m = mallinfo2();
    return m.uordblks + m.hblkhd;
}
#endif

// Bytes of the process that are in memory. A sanitizer keeps what was freed for a while.
static inline size_t resident_bytes(void)
{
    unsigned long total = 0, resident = 0;
    malloc_trim(0);
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%lu %lu", &total, &resident), 2);
    fclose(f);
    return resident * (size_t)sysconf(_SC_PAGESIZE);
}

// How a script ends, and what its result or error has in it.
#define OK(result) PASS_OK, result
#define NIL PASS_NIL, ""
#define RAISED(text) PASS_RAISED, text
#define RETRY(text) PASS_RETRY, text
#define INVALID(text) PASS_INVALID, text
#define RESULT(text) PASS_RESULT, text
#define LIMIT(text) PASS_LIMIT, text
#define DEADLINE PASS_DEADLINE, "used up its CPU budget of "
#define MEMORY PASS_MEMORY, "the script uses more than its memory budget of 16384 KiB"
#define FAR_MEMORY PASS_MEMORY, "the script uses far more than its memory budget of 16384 KiB"
#define OVERFLOW RAISED("stack overflow: a function calls itself without end, directly or through others")

enum { ANY_END = -1 };

struct hostile {
    const char *name;
    int end; // given the time it takes; within CPU_US it may end by its deadline instead
    const char *says;
    const char *body;
    const char *module; // text of the file m.lua beside it, or NULL
};

struct outcome {
    char problem[2048];
};

// NULL when it does not load.
static inline struct program *hostile_program(const struct hostile *h)
{
    static const char back[] = "return require 'm'";
    if (h->module == NULL)
        return support_program(h->body);
    char *text =
        xasprintf("return {subject = 'v1/ConfigMap', reconcile = function(object, world)\n%s\nend}", h->body);
    struct program_file files[] = {{"m.lua", h->module, strlen(h->module)},
                                   {"back.lua", back, sizeof(back) - 1}};
    struct program_options o = {.main = {"t.lua", text, strlen(text)}, .modules = files, .module_count = 2};
    struct program *p = NULL;
    struct err e = {0};
    if (program_new(&o, &p, &e) < 0)
        print_error("%s: %s\n", h->name, e.text);
    free(text);
    return p;
}

// A result begins with what is said (all of it, when that is whole), an error has it somewhere.
static inline bool says(const struct hostile *h, const struct pass_output *out)
{
    if (out->end == PASS_NIL)
        return true;
    if (out->end == PASS_OK)
        return strncmp(out->result.data, h->says, strlen(h->says)) == 0;
    return out->err.text[0] != '\0' && strstr(out->err.text, h->says) != NULL;
}

// Runs it within CPU_US. How late it ended, in us, but for what the watchdog may have waited for a processor.
static inline uint64_t run_timed(struct pass_runner *r, struct witness *witness, const struct program *p,
                                 struct pass_output *ret)
{
    struct fake_world w = {0};
    struct witness_pass watched;
    witness_begin(witness, &watched, CPU_US);
    support_run(r, p, &w, &(struct pass_limits){.cpu_us = CPU_US}, ret);
    uint64_t allowed = CPU_US + witness_end(witness, &watched);
    return ret->cpu_us > allowed ? ret->cpu_us - allowed : 0;
}

static inline void run_hostile(struct pass_runner *r, struct witness *witness, const struct hostile *h,
                               struct outcome *ret)
{
    struct program *p = hostile_program(h);
    struct fake_world w = {0};
    struct pass_output out;
    if (p == NULL) {
        snprintf(ret->problem, sizeof(ret->problem), "%s: does not load", h->name);
        return;
    }
    uint64_t late = run_timed(r, witness, p, &out);
    for (int tries = 1; tries < TRIES && late > LATE_US; tries++) {
        pass_output_fini(&out);
        late = run_timed(r, witness, p, &out);
    }
    if (late > LATE_US)
        snprintf(ret->problem, sizeof(ret->problem), "%s: ended %llu us late, %d times", h->name,
                 (unsigned long long)late, TRIES);
    if (out.end == PASS_DEADLINE && h->end != PASS_DEADLINE && h->end != ANY_END) {
        pass_output_fini(&out);
        support_run(r, p, &w, &(struct pass_limits){.cpu_us = PATIENT_US}, &out);
    }
    if ((h->end != ANY_END && h->end != (int)out.end) || !says(h, &out))
        snprintf(ret->problem, sizeof(ret->problem), "%s: ended %s: %s", h->name, pass_end_name(out.end),
                 out.end == PASS_OK ? out.result.data : out.err.text);
    if (pass_runner_memory(r) > ALIVE_MAX)
        snprintf(ret->problem, sizeof(ret->problem), "%s: leaves %zu bytes", h->name, pass_runner_memory(r));
    pass_output_fini(&out);
    program_unref(p);
}

// The same well-behaved pass must cost the same before and after.
static inline size_t run_good(struct pass_runner *r, const struct program *p)
{
    struct fake_world w = {0};
    struct pass_output out;
    support_run(r, p, &w, NULL, &out);
    size_t peak =
        out.end == PASS_OK && strcmp(out.result.data, "{\"status\":{\"n\":3}}") == 0 ? out.memory_peak : 0;
    pass_output_fini(&out);
    return peak;
}

struct batch {
    struct watchdog *w;
    struct witness *witness;
    const struct hostile *hostile;
    int count;
    struct outcome *outcomes;
    int first, step;
};

static inline void *run_batch(void *arg)
{
    struct batch *b = arg;
    struct pass_runner *r = pass_runner_new(b->w);
    struct program *good = support_program("local t = {1, 2, 3} return {status = {n = #t}}");
    size_t before = run_good(r, good);
    for (int i = b->first; i < b->count; i += b->step) {
        run_hostile(r, b->witness, &b->hostile[i], &b->outcomes[i]);
        size_t after = run_good(r, good);
        if (before == 0 || after != before)
            snprintf(b->outcomes[i].problem, sizeof(b->outcomes[i].problem),
                     "%s: a good pass after it had a peak of %zu, before it %zu", b->hostile[i].name, after,
                     before);
    }
    program_unref(good);
    pass_runner_free(r);
    return NULL;
}

static inline void hostile_run_batches(const struct hostile *hostile, int count, struct outcome *outcomes)
{
    enum { WORKERS = 2 };
    struct watchdog *w = watchdog_new();
    struct witness *witness = witness_new();
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    pthread_attr_setstacksize(&attr, STACK_BYTES);
    pthread_t threads[WORKERS];
    struct batch batches[WORKERS];
    for (int i = 0; i < WORKERS; i++) {
        batches[i] = (struct batch){w, witness, hostile, count, outcomes, i, WORKERS};
        assert_int_equal(pthread_create(&threads[i], &attr, run_batch, &batches[i]), 0);
    }
    for (int i = 0; i < WORKERS; i++)
        pthread_join(threads[i], NULL);
    pthread_attr_destroy(&attr);
    witness_free(witness);
    watchdog_free(w);
}

// Runs them all, shared out to two threads that have a small stack.
static inline void hostile_run_all(const struct hostile *hostile, int count)
{
    support_skip_without_signals();
    alloc_give_back();
    struct outcome *outcomes = calloc((size_t)count, sizeof(*outcomes));
    hostile_run_batches(hostile, 1, outcomes); // what is made once is there
    size_t heap = heap_bytes(), resident = resident_bytes();
    hostile_run_batches(hostile, count, outcomes);
    size_t heap_left = heap_bytes() - heap, resident_left = resident_bytes() - resident;
    int problems = 0;
    for (int i = 0; i < count; i++) {
        if (outcomes[i].problem[0] != 0)
            print_error("%s\n", outcomes[i].problem);
        problems += outcomes[i].problem[0] != 0;
    }
    free(outcomes);
    assert_int_equal(problems, 0);
    print_message("%d scripts left %zd bytes allocated, %zd more in memory\n", count, (ssize_t)heap_left,
                  (ssize_t)resident_left);
    assert_true((ssize_t)heap_left < HEAP_LEFT_MAX);
#ifndef TIDELOCK_SANITIZED
    assert_true((ssize_t)resident_left < RSS_LEFT_MAX);
#endif
}

#endif
