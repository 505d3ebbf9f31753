#include "script/sandbox.h"

#include <lauxlib.h>
#include <luajit.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "script/allow.h"
#include "script/arena.h"
#include "script/base_lib.h"
#include "script/convert.h"
#include "script/failure.h"
#include "script/own.h"
#include "script/program_code.h"
#include "script/textsafe.h"
#include "script/traceback.h"

enum {
    TABLE_TEXT_MAX = 1000,        // of an error that is a table
    KEEP_BYTES = 8 * 1024 * 1024, // memory of the arena that stays for the next pass
    COLLECT_FROM = 1024 * 1024,   // below that many live bytes the collector does not run
    SOFT_MIN = 256 * 1024,
    HARD_FACTOR = 4,
    PCALL_WORK = 20, // instructions that one is as long as, about
    HARD_MIN = 4 * 1024 * 1024,
};

#define FAR_BEYOND "the script uses far more than its memory budget of %zu KiB"

struct sandbox {
    lua_State *L;
    struct arena *arena;
    struct budget *budget;
    const struct sandbox_job *job;
    struct err *err;       // the outcome's
    struct buf *traceback; // the outcome's
    enum pass_end stop;    // PASS_OK: goes on
    int nest;
    bool memory_due; // a limit was passed: the hook looks at it
    size_t soft;
    lua_CFunction raise; // what `error` is
    char where[128];     // "t.lua:2: " of an error that did not come from `error`, or ""
    jmp_buf exhausted;
};

static char stop_tag; // its address is the error value of sandbox_stop

struct sandbox *sandbox_of(lua_State *L)
{
    void *arena;
    lua_getallocf(L, &arena);
    return arena_owner(arena);
}

void *sandbox_ud(lua_State *L)
{
    return sandbox_of(L)->job->ud;
}

const struct program_code *sandbox_code(lua_State *L)
{
    const struct sandbox *s = sandbox_of(L);
    return s->job != NULL ? s->job->code : NULL;
}

// --- stopping ---

static void raise_stop(lua_State *L) __attribute__((noreturn));
static void raise_stop(lua_State *L)
{
    lua_pushlightuserdata(L, &stop_tag);
    lua_error(L);
    __builtin_unreachable();
}

static void set_stop(struct sandbox *s, enum pass_end end, const char *fmt, va_list ap)
{
    if (s->stop != PASS_OK)
        return;
    char text[ERR_TEXT_MAX];
    vsnprintf(text, sizeof(text), fmt, ap);
    s->stop = end;
    err_set(s->err,
            end == PASS_PARKED     ? ERR_PARKED
            : end == PASS_CANCELED ? ERR_CANCELED
                                   : ERR_LIMIT,
            "%s", text);
}

void sandbox_stop(lua_State *L, enum pass_end end, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    set_stop(sandbox_of(L), end, fmt, ap);
    va_end(ap);
    raise_stop(L);
}

// The script line that runs now, for the stops that come from the hook.
static void stop_here(struct sandbox *s, enum pass_end end, const char *what)
{
    char where[128];
    traceback_where(s->L, where, sizeof(where));
    if (s->traceback->len == 0)
        traceback_add(s->L, s->traceback);
    sandbox_stop(s->L, end, "%s%s", where, what);
}

static void stop_deadline(struct sandbox *s)
{
    char text[128];
    snprintf(text, sizeof(text), "the script used up its CPU budget of %llu ms",
             (unsigned long long)(s->job->cpu_us / 1000));
    stop_here(s, PASS_DEADLINE, text);
}

static void on_soft(void *ud)
{
    struct sandbox *s = ud;
    s->memory_due = true;
    budget_arm(s->budget);
}

// The next look at memory is at so many live bytes, or when the budget is reached.
static void limit_memory(struct sandbox *s, size_t at)
{
    size_t hard = s->soft * HARD_FACTOR;
    arena_limit(s->arena, at < s->soft ? at : s->soft, hard < HARD_MIN ? HARD_MIN : hard, on_soft, s);
}

// The collector runs nowhere but here, each time that what the state holds may have doubled.
static void look_at_memory(struct sandbox *s)
{
    bool is_reached = arena_live(s->arena) >= s->soft;
    s->memory_due = false;
    base_lib_collect(s->L);
    size_t live = arena_live(s->arena), held = (size_t)lua_gc(s->L, LUA_GCCOUNT, 0) * 1024;
    limit_memory(s, live + (held > COLLECT_FROM ? held : COLLECT_FROM));
    if (!is_reached || live <= s->soft - s->soft / 4)
        return;
    char text[128];
    snprintf(text, sizeof(text), "the script uses more than its memory budget of %zu KiB", s->soft / 1024);
    stop_here(s, PASS_MEMORY, text);
}

// What is due: the end of the pass, or a look at its memory.
static void act(struct sandbox *s, bool expired)
{
    if (s->stop != PASS_OK)
        raise_stop(s->L);
    if (expired)
        stop_deadline(s);
    if (s->memory_due)
        look_at_memory(s);
}

static void on_hook(lua_State *L, lua_Debug *ar)
{
    (void)ar;
    struct sandbox *s = sandbox_of(L);
    act(s, budget_check(s->budget, s->stop != PASS_OK));
}

static void on_hard(void *ud)
{
    struct sandbox *s = ud;
    longjmp(s->exhausted, 1);
}

// NULL: a state that is no sandbox.
static struct arena *arena_of(lua_State *L)
{
    void *arena;
    return lua_getallocf(L, &arena) == arena_alloc ? arena : NULL;
}

// --- calls from C into Lua ---

void sandbox_enter(lua_State *L, const char *what)
{
    struct sandbox *s = sandbox_of(L);
    if (s->nest >= SANDBOX_NEST_MAX)
        luaL_error(L, "%s: calls nest too deep (more than %d)", what, SANDBOX_NEST_MAX);
    s->nest++;
}

void sandbox_leave(lua_State *L)
{
    sandbox_of(L)->nest--;
}

void sandbox_call(lua_State *L, int nargs, int nresults, const char *what)
{
    sandbox_enter(L, what);
    lua_call(L, nargs, nresults);
    sandbox_leave(L);
}

int sandbox_pcall(lua_State *L, int nargs, int nresults, const char *what)
{
    struct sandbox *s = sandbox_of(L);
    int nest = s->nest;
    sandbox_enter(L, what);
    budget_charge(s->budget, PCALL_WORK);
    int r = lua_pcall(L, nargs, nresults, 0);
    s->nest = nest;
    if (s->stop != PASS_OK)
        raise_stop(L);
    return r;
}

void sandbox_charge(lua_State *L, uint64_t work)
{
    budget_charge(sandbox_of(L)->budget, work);
}

bool sandbox_is_over(lua_State *L, uint64_t work)
{
    if (arena_of(L) == NULL)
        return false;
    struct sandbox *s = sandbox_of(L);
    if (work > 0)
        budget_charge(s->budget, work);
    return s->stop != PASS_OK || budget_expired(s->budget);
}

void sandbox_poll(lua_State *L, uint64_t work)
{
    bool over = sandbox_is_over(L, work);
    if (arena_of(L) != NULL)
        act(sandbox_of(L), over);
}

size_t sandbox_memory_left(lua_State *L)
{
    const struct arena *a = arena_of(L);
    return a != NULL ? arena_left(a) : SIZE_MAX;
}

void sandbox_memory_add(lua_State *L, size_t n)
{
    struct arena *a = arena_of(L);
    if (a != NULL)
        arena_add(a, n);
}

void sandbox_memory_sub(lua_State *L, size_t n)
{
    struct arena *a = arena_of(L);
    if (a != NULL)
        arena_sub(a, n);
}

void sandbox_out_of_memory(lua_State *L)
{
    if (arena_of(L) == NULL)
        luaL_error(L, "out of memory");
    sandbox_stop(L, PASS_MEMORY, FAR_BEYOND, sandbox_of(L)->soft / 1024);
}

uint64_t sandbox_ordinal(lua_State *L, const void *p)
{
    return arena_ordinal(sandbox_of(L)->arena, p);
}

// --- set-up ---

// The library's main module is in nearly every script: it is run once, and its result is part of the image.
static void preload(lua_State *L)
{
    lua_getglobal(L, "require");
    lua_pushliteral(L, "tidelock");
    lua_call(L, 1, 0);
}

static int open_protected(lua_State *L)
{
    luaJIT_setmode(L, 0, LUAJIT_MODE_ENGINE | LUAJIT_MODE_OFF);
    convert_open(L);
    failure_open(L);
    allow_open(L);
    preload(L);
    lua_gc(L, LUA_GCCOLLECT, 0);
    lua_gc(L, LUA_GCSTOP, 0);
    return 0;
}

struct sandbox *sandbox_new(struct watchdog *w)
{
    struct sandbox *s = xcalloc(1, sizeof(*s));
    s->arena = arena_new();
    arena_set_owner(s->arena, s);
    s->budget = budget_new(w);
    budget_set_hook(s->budget, on_hook);
    s->L = lua_newstate(arena_alloc, s->arena);
    ASSERT(s->L != NULL);
    ASSERT(lua_cpcall(s->L, open_protected, NULL) == 0);
    lua_getglobal(s->L, "error");
    s->raise = lua_tocfunction(s->L, -1);
    ASSERT(s->raise != NULL);
    lua_settop(s->L, 0);
    arena_save(s->arena);
    return s;
}

void sandbox_free(struct sandbox *s)
{
    if (s == NULL)
        return;
    budget_free(s->budget);
    arena_free(s->arena); // the state is in it
    free(s);
}

size_t sandbox_memory(const struct sandbox *s)
{
    return arena_mapped(s->arena);
}

const struct budget *sandbox_budget(const struct sandbox *s)
{
    return s->budget;
}

// --- a job ---

static int run_protected(lua_State *L)
{
    struct sandbox *s = sandbox_of(L);
    lua_settop(L, 0);
    s->job->fn(L, s->job->ud);
    return 0;
}

// Does the error say where on its own: raised by `error`, where the script decides that, or by the host's own
// code, not a function that a script calls?
static bool has_its_own_place(lua_State *L, const struct sandbox *s)
{
    lua_Debug ar;
    if (!lua_getstack(L, 1, &ar) || !lua_getinfo(L, "f", &ar))
        return false;
    lua_CFunction from = lua_tocfunction(L, -1);
    lua_pop(L, 1);
    return from == s->raise || from == run_protected;
}

// A text that begins with a line of the library, or what is no text, which `error` gives no line.
static bool lacks_a_line(lua_State *L)
{
    if (lua_type(L, 1) == LUA_TSTRING) {
        const char *text = lua_tostring(L, 1);
        return traceback_skip_library(text) != text;
    }
    return lua_type(L, 1) != LUA_TNUMBER;
}

// The innermost script line; the script's file when all its functions have returned by calling another.
static void find_where(struct sandbox *s)
{
    traceback_where(s->L, s->where, sizeof(s->where));
    if (s->where[0] == '\0' && s->job->code != NULL)
        snprintf(s->where, sizeof(s->where), "%.100s: ", s->job->code->main->name);
}

// The message handler: runs where the error was raised, calls nothing of the script.
static int on_error(lua_State *L)
{
    struct sandbox *s = sandbox_of(L);
    s->where[0] = '\0';
    if (s->stop == PASS_OK && (!has_its_own_place(L, s) || lacks_a_line(L)))
        find_where(s);
    if (s->stop == PASS_OK && s->traceback->len == 0)
        traceback_add(L, s->traceback);
    return 1;
}

// The text of an error that did not come from `error` begins with the script's line: some have no position
// (functions that were called as a return), some that of a library's.
static void set_message(struct sandbox *s, const char *text, size_t len)
{
    size_t n = strlen(s->where);
    if (strcmp(text, "stack overflow") == 0) { // LuaJIT calls no handler then: the line is not known
        const char *file = s->job->code != NULL ? s->job->code->main->name : "the script";
        err_set(s->err, ERR_SCRIPT,
                "%s: stack overflow: a function calls itself without end, directly or through others", file);
        return;
    }
    if (n > 0) {
        const char *rest = traceback_skip_library(text);
        len -= (size_t)(rest - text);
        text = rest;
    }
    textsafe_err(s->err, ERR_SCRIPT, text, len);
    if (n > 0 && strncmp(text, s->where, n) != 0) {
        struct err said = *s->err;
        err_set(s->err, ERR_SCRIPT, "%s%s", s->where, said.text);
    }
}

// Of a table that says nothing by __tostring: what is in it.
static bool tell_table(lua_State *L, struct sandbox *s)
{
    struct buf text;
    struct json_writer w;
    struct err why;
    if (!lua_istable(L, 1) || luaL_getmetafield(L, 1, "__tostring"))
        return false;
    buf_init(&text, TABLE_TEXT_MAX);
    jw_init(&w, &text);
    bool told = convert_write(L, 1, &w, "", &why) == 0;
    err_set(s->err, ERR_SCRIPT, "%sthe script raised a table%s%.*s: give error() a text", s->where,
            told ? ", " : "", told ? (int)text.len : 0, told ? text.data : "");
    buf_fini(&text);
    return true;
}

// (error object) -> its text, which may run the script's __tostring.
static int message_protected(lua_State *L)
{
    size_t len;
    const char *text;
    struct sandbox *s = sandbox_of(L);
    if (tell_table(L, s))
        return 0;
    if (lua_type(L, 1) == LUA_TSTRING) {
        text = lua_tolstring(L, 1, &len);
    } else {
        allow_push_tostring(L, 1);
        text = lua_tolstring(L, -1, &len);
    }
    int type = lua_type(L, 1);
    if (type == LUA_TBOOLEAN || type == LUA_TFUNCTION || type == LUA_TLIGHTUSERDATA)
        err_set(s->err, ERR_SCRIPT, "%sthe script raised %s%s: give error() a text", s->where,
                type == LUA_TFUNCTION ? "a " : "", text);
    else if (len == 0)
        err_set(s->err, ERR_SCRIPT, "%sthe script raised an empty text: say what is wrong", s->where);
    else
        set_message(s, text, len);
    return 0;
}

// What an error object says; on top of the stack.
static enum pass_end read_error(struct sandbox *s, struct sandbox_outcome *ret)
{
    lua_State *L = s->L;
    const struct failure *f = failure_get(L, -1);
    if (f != NULL) {
        textsafe_copy(ret->reason, sizeof(ret->reason), f->reason, strlen(f->reason));
        ret->retry_after_us = f->after_us;
        bool text = f->message_len > 0;
        textsafe_err(&ret->err, f->kind == FAILURE_RETRY ? ERR_RETRY : ERR_TERMINAL,
                     text ? f->message : f->reason, text ? f->message_len : strlen(f->reason));
        return f->kind == FAILURE_RETRY ? PASS_RETRY : PASS_INVALID;
    }
    const char *type = luaL_typename(L, -1);
    if (lua_isnil(L, -1)) {
        err_set(&ret->err, ERR_SCRIPT, "%sthe script raised nil: give error() a text", s->where);
        return PASS_RAISED;
    }
    s->nest = 0;
    lua_pushcfunction(L, message_protected);
    lua_insert(L, -2);
    if (lua_pcall(L, 1, 0, 0) != 0 && s->stop == PASS_OK)
        err_set(&ret->err, ERR_SCRIPT, "%sthe script raised a %s that can not be turned into text", s->where,
                type);
    return s->stop != PASS_OK ? s->stop : PASS_RAISED;
}

static enum pass_end run_job(struct sandbox *s, struct sandbox_outcome *ret)
{
    lua_State *L = s->L;
    lua_pushcfunction(L, on_error);
    lua_pushcfunction(L, run_protected);
    int r = lua_pcall(L, 0, 0, 1);
    if (s->stop != PASS_OK)
        return s->stop;
    if (r == 0)
        return PASS_OK;
    if (r ==
        LUA_ERRMEM) { // a request beyond what the allocator was ever asked for, e.g. a table of 2^27 slots
        err_set(&ret->err, ERR_LIMIT, "the script uses more than its memory budget of %zu KiB",
                s->soft / 1024);
        return PASS_MEMORY;
    }
    return read_error(s, ret);
}

static void begin(struct sandbox *s, const struct sandbox_job *job, struct sandbox_outcome *ret)
{
    s->job = job;
    s->err = &ret->err;
    s->traceback = &ret->traceback;
    s->stop = PASS_OK;
    s->nest = 0;
    s->where[0] = '\0';
    s->memory_due = false;
    s->soft = job->memory < SOFT_MIN ? SOFT_MIN : job->memory;
    arena_on_hard(s->arena, on_hard);
    limit_memory(s, COLLECT_FROM);
    budget_begin(s->budget, s->L, job->cpu_us);
}

void sandbox_run(struct sandbox *s, const struct sandbox_job *job, struct sandbox_outcome *ret)
{
    begin(s, job, ret);
    int mark = own_mark();
    if (setjmp(s->exhausted) == 0) {
        ret->end = run_job(s, ret);
    } else {
        own_unwind(mark);
        ret->end = PASS_MEMORY;
        err_set(&ret->err, ERR_LIMIT, FAR_BEYOND, s->soft / 1024);
    }
    ret->memory_peak = arena_peak(s->arena);
    ret->cpu_us = budget_end(s->budget);
    s->job = NULL;
    arena_restore(s->arena,
                  KEEP_BYTES); // the next job finds a fresh state, the system gets its memory back now
}
