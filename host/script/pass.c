#include "script/pass.h"

#include <lauxlib.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "script/convert.h"
#include "script/program_code.h"
#include "script/ready.h"
#include "script/result.h"
#include "script/sandbox.h"
#include "script/world_lib.h"

enum {
    RESULT_MAX = 8 * 1024 * 1024,
    EVENTS_MAX = 100,
    LOG_LINES_MAX = 1000,
    LOG_BYTES_MAX = 256 * 1024,
    TRACEBACK_MAX = 4096,
    SCRATCH_MAX = 64 * 1024,
};

struct pass_runner {
    struct sandbox *sandbox;
    struct buf scratch;
};

// What the functions of a pass find; the world first, since that is what its library looks for.
struct pass {
    struct world_lib world;
    const struct pass_input *in;
    const struct pass_limits *limits;
    struct buf *result;
    bool verdict;
    char at[READY_PATH_MAX]; // the `ready` function that was running, or ""
    enum pass_end end;       // of a job that raised nothing
    struct err err;
};

const char *pass_end_name(enum pass_end e)
{
    static const char *const names[] = {
        [PASS_OK] = "ok",
        [PASS_NIL] = "nil",
        [PASS_RAISED] = "raised",
        [PASS_RETRY] = "retry",
        [PASS_INVALID] = "invalid",
        [PASS_RESULT] = "result",
        [PASS_DEADLINE] = "deadline",
        [PASS_MEMORY] = "memory",
        [PASS_LIMIT] = "limit",
        [PASS_PARKED] = "parked",
        [PASS_CANCELED] = "canceled",
    };
    ASSERT((size_t)e < sizeof(names) / sizeof(names[0]));
    return names[e];
}

struct pass_runner *pass_runner_new(struct watchdog *w)
{
    struct pass_runner *r = xcalloc(1, sizeof(*r));
    r->sandbox = sandbox_new(w);
    buf_init(&r->scratch, SCRATCH_MAX);
    return r;
}

void pass_runner_free(struct pass_runner *r)
{
    if (r == NULL)
        return;
    sandbox_free(r->sandbox);
    buf_fini(&r->scratch);
    free(r);
}

size_t pass_runner_memory(const struct pass_runner *r)
{
    return sandbox_memory(r->sandbox);
}

struct sandbox *pass_runner_sandbox(struct pass_runner *r)
{
    return r->sandbox;
}

const struct budget *pass_runner_budget(const struct pass_runner *r)
{
    return sandbox_budget(r->sandbox);
}

static struct pass_limits fill_limits(const struct pass_limits *given, const struct program_spec *spec)
{
    struct pass_limits l = *given;
    uint64_t cpu_us = spec->limits.cpu_us != 0 ? spec->limits.cpu_us : PROGRAM_CPU_US;
    size_t memory = spec->limits.memory != 0 ? spec->limits.memory : PROGRAM_MEMORY;
    l.cpu_us = l.cpu_us != 0 ? l.cpu_us : cpu_us;
    l.memory = l.memory != 0 ? l.memory : memory;
    l.result = l.result != 0 ? l.result : RESULT_MAX;
    l.events = l.events != 0 ? l.events : EVENTS_MAX;
    l.log_lines = l.log_lines != 0 ? l.log_lines : LOG_LINES_MAX;
    l.log_bytes = l.log_bytes != 0 ? l.log_bytes : LOG_BYTES_MAX;
    return l;
}

// Runs the main chunk and leaves the entry function on the stack.
static void push_entry(lua_State *L, const struct pass *p)
{
    const struct program_code *code = program_code(p->in->program);
    code_push(L, code->main);
    sandbox_call(L, 0, 1, code->main->name);
    if (!lua_istable(L, -1))
        luaL_error(L,
                   "%s: returned no table this time; a script's table must not depend on what it runs with",
                   code->main->name);
    lua_pushstring(L, p->in->entry);
    lua_rawget(L, -2);
    if (!lua_isfunction(L, -1))
        luaL_error(L, "%s: has no function '%s'", code->main->name, p->in->entry);
    lua_replace(L, 1);
    lua_settop(L, 1);
}

static void push_object(lua_State *L, const char *text, size_t len)
{
    struct err e;
    if (convert_push_text(L, text, len, &e) < 0)
        luaL_error(L, "the object can not be read: %s", e.text);
}

static void run_predicate(lua_State *L, void *ud)
{
    struct pass *p = ud;
    push_entry(L, p);
    push_object(L, p->in->old_json, p->in->old_len);
    push_object(L, p->in->object_json, p->in->object_len);
    sandbox_call(L, 2, 1, p->in->entry);
    if (!lua_isboolean(L, -1))
        luaL_error(L, "%s: must return true or false, got a %s", p->in->entry, luaL_typename(L, -1));
    p->verdict = lua_toboolean(L, -1);
}

static void run_entry(lua_State *L, void *ud)
{
    struct pass *p = ud;
    push_entry(L, p);
    push_object(L, p->in->object_json, p->in->object_len);
    world_lib_push(L);
    sandbox_call(L, 2, 1, p->in->entry);
    if (lua_isnil(L, -1)) {
        p->end = PASS_NIL;
        return;
    }
    ready_ask(L, lua_gettop(L), &p->world, p->at);
    p->result->max = p->limits->result;
    int r = result_write(L, lua_gettop(L), p->limits, p->in->entry, p->result, &p->err);
    if (r < 0)
        p->end = r == -ERR_LIMIT ? PASS_LIMIT : PASS_RESULT;
}

// Which `ready` function it was in, and what helps.
static void tell_more(struct err *e, const char *at, enum pass_end end)
{
    const char *advice =
        end == PASS_DEADLINE ? "do less in one pass, or ask for more by limits = { cpu = ... }"
        : end == PASS_MEMORY ? "use less at once, or ask for more by limits = { memory = ... }"
                             : "";
    if (end == PASS_OK)
        return;
    struct err said = *e;
    bool in_ready = at[0] != '\0' && end != PASS_PARKED && end != PASS_CANCELED;
    err_set(e, (enum err_code) - said.code, "%s%s%.800s%s%s", in_ready ? at : "", in_ready ? ": " : "",
            said.text, advice[0] != '\0' ? ": " : "", advice);
}

static void take_outcome(struct pass_output *ret, struct pass *p, const struct sandbox_outcome *outcome)
{
    ret->end = outcome->end;
    ret->err = outcome->err;
    ret->traceback = outcome->traceback;
    ret->cpu_us = outcome->cpu_us;
    ret->memory_peak = outcome->memory_peak;
    ret->retry_after_us = outcome->retry_after_us;
    ret->verdict = p->verdict;
    tell_more(&ret->err, p->at, outcome->end);
    memcpy(ret->reason, outcome->reason, sizeof(ret->reason));
    if (outcome->end == PASS_OK) {
        ret->end = p->end;
        ret->err = p->err;
    }
    if (ret->end != PASS_OK)
        buf_reset(&ret->result);
}

void pass_run(struct pass_runner *r, const struct pass_input *in, struct pass_output *ret)
{
    struct pass_limits limits = fill_limits(&in->limits, program_spec(in->program));
    *ret = (struct pass_output){0};
    buf_init(&ret->result, limits.result);
    struct pass p = {
        .world = {.ops = in->world,
                  .spec = program_spec(in->program),
                  .ud = in->ud,
                  .env_json = in->env_json,
                  .now_us = in->now_us,
                  .lines_max = limits.log_lines,
                  .log_max = limits.log_bytes,
                  .scratch = r->scratch},
        .in = in,
        .limits = &limits,
        .result = &ret->result,
        .end = PASS_OK,
    };
    struct sandbox_outcome outcome = {.end = PASS_OK};
    buf_init(&outcome.traceback, TRACEBACK_MAX);
    struct sandbox_job job = {.fn = in->old_json != NULL ? run_predicate : run_entry,
                              .ud = &p,
                              .code = program_code(in->program),
                              .cpu_us = limits.cpu_us,
                              .memory = limits.memory};
    sandbox_run(r->sandbox, &job, &outcome);
    r->scratch = p.world.scratch;
    take_outcome(ret, &p, &outcome);
}

void pass_output_fini(struct pass_output *o)
{
    buf_fini(&o->traceback);
    buf_fini(&o->result);
}
