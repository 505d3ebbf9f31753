// One evaluation of a script for one key, in a fresh Lua state inside the worker's arena. Nothing survives it
// but its output.
#ifndef SCRIPT_PASS_H
#define SCRIPT_PASS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "script/budget.h"
#include "script/program.h"
#include "script/world.h"

// Every way a pass can end; one place handles them.
enum pass_end {
    PASS_OK,       // result holds the desired state
    PASS_NIL,      // the script returned nil: no opinion
    PASS_RAISED,   // error(...): retried with back-off
    PASS_RETRY,    // k8s.retry(reason, message [, after])
    PASS_INVALID,  // k8s.invalid(reason, message): terminal until an input changes
    PASS_RESULT,   // what it returned is not a result; err names the path
    PASS_DEADLINE, // CPU budget overrun
    PASS_MEMORY,   // memory budget overrun
    PASS_LIMIT,    // another cap: result size, events, log lines, nesting
    PASS_PARKED,   // a read has to wait for its kind
    PASS_CANCELED, // given up from outside
};
const char *pass_end_name(enum pass_end e);

struct pass_limits {
    uint64_t cpu_us;    // 0: what the script asks for, or PROGRAM_CPU_US
    size_t memory;      // soft limit; 0: what the script asks for, or PROGRAM_MEMORY. The hard one is 4 x
    size_t result;      // bytes of result text; 0: 8 MiB
    unsigned events;    // 0: 100
    unsigned log_lines; // 0: 1,000
    size_t log_bytes;   // 0: 256 KiB
};

struct pass_input {
    const struct program *program;
    const char *entry;       // "reconcile" or "finalize": called with the object and the world. "when": with
                             // the old object and the new one
    const char *object_json; // the subject
    size_t object_len;
    const char *old_json; // "when": the subject before
    size_t old_len;
    const char *env_json; // world.env: a JSON object text, or NULL
    int64_t now_us;       // world.now(): wall time
    const struct world_ops *world;
    void *ud;
    struct pass_limits limits;
};

struct pass_output {
    enum pass_end end;
    struct err err;         // for PASS_RAISED ... : "memcached.lua:12: ..." without host frames
    char reason[64];        // PASS_RETRY, PASS_INVALID: CamelCase
    int64_t retry_after_us; // PASS_RETRY: 0 when not given
    struct buf traceback;   // Lua frames of the script, or empty
    // PASS_OK: one JSON object, keys sorted, checked:
    //   {"apply":[{"object":{..},"once":true,"keep":true,"replace":true,"adopt":["kubectl"],"after":[..],
    //    "ready":true}],
    //    "patch":[{"object":{..},"force":true}], "delete":[{"apiVersion":..,"kind":..,"metadata":{..}}],
    //    "status":{..}, "events":[{"type":"Normal","reason":"..","message":".."}],
    //    "requeue_after_us":30000000, "done":true}
    // "ready" is what the entry's function said of the live child.
    // A member stands there only if the script gave it (so {"apply":[]} prunes all, {} leaves children
    // alone). Every object has string apiVersion, kind and metadata.name. Pure JSON: k8s.null is null, boxed
    // integers are exact.
    struct buf result;
    bool verdict; // PASS_OK of "when": what it returned
    uint64_t cpu_us;
    size_t memory_peak;
};

// A worker's place for passes: its arena and budget. One owner thread.
struct pass_runner;
struct pass_runner *pass_runner_new(struct watchdog *w /* NULL: inline, deterministic */);
void pass_runner_free(struct pass_runner *r);
size_t pass_runner_memory(const struct pass_runner *r); // bytes of its arena, between passes
const struct budget *
pass_runner_budget(const struct pass_runner *r); // tells whose it is to watchdog_on_stuck
// The output is filled in all cases; pass_output_fini frees it.
void pass_run(struct pass_runner *r, const struct pass_input *in, struct pass_output *ret);
void pass_output_fini(struct pass_output *o);

#endif
