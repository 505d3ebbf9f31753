// A Lua state for passes in an arena: what a script may call, how it is stopped, how its memory is limited.
// The state is set up once and put back from an image before each pass, so that nothing of a pass survives.
// One owner thread, the one that made it.
//
// How a script is stopped: sandbox_stop raises a value that no pcall of a script catches (pcall and xpcall
// are ours). The budget and the soft memory limit do it in the hook; the hard memory limit leaves all frames
// at once (script/own.h).
//
// Functions of the allow-list may raise and own nothing across a raise. Each call from C into Lua goes
// through sandbox_call or sandbox_pcall, which count the nesting: the C stack is finite.
#ifndef SCRIPT_SANDBOX_H
#define SCRIPT_SANDBOX_H

#include <lua.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "script/budget.h"
#include "script/pass.h"

enum { SANDBOX_NEST_MAX = 100 }; // calls from C into Lua within each other

struct program_code; // script/program_code.h
struct sandbox;

struct sandbox *sandbox_new(struct watchdog *w); // NULL: inline
void sandbox_free(struct sandbox *s);
size_t sandbox_memory(const struct sandbox *s); // bytes held between jobs

const struct budget *sandbox_budget(const struct sandbox *s);
struct sandbox *pass_runner_sandbox(struct pass_runner *r); // for other jobs between its passes

// Runs fn(L, ud) protected, in a fresh state, within the limits; what it pushes is lost. PASS_OK, or why it
// was stopped, or PASS_RAISED, PASS_RETRY, PASS_INVALID after an error. Texts go into *ret.
struct sandbox_job {
    void (*fn)(lua_State *L, void *ud);
    void *ud;
    const struct program_code *code; // what require finds; may be NULL
    uint64_t cpu_us;
    size_t memory;
};
struct sandbox_outcome {
    enum pass_end end;
    struct err err;
    char reason[64];
    int64_t retry_after_us;
    struct buf traceback; // the caller's; initialised by it
    uint64_t cpu_us;
    size_t memory_peak;
};
void sandbox_run(struct sandbox *s, const struct sandbox_job *job, struct sandbox_outcome *ret);

// --- within a job ---

struct sandbox *sandbox_of(lua_State *L);
void *sandbox_ud(lua_State *L); // the job's
const struct program_code *sandbox_code(lua_State *L);
// Ends the pass: no script catches this.
void sandbox_stop(lua_State *L, enum pass_end end, const char *fmt, ...)
    __attribute__((noreturn, format(printf, 3, 4)));
// As lua_call, lua_pcall. `what` names the function for the error about nesting.
void sandbox_call(lua_State *L, int nargs, int nresults, const char *what);
int sandbox_pcall(lua_State *L, int nargs, int nresults, const char *what);
// Around API calls that may run a metamethod.
void sandbox_enter(lua_State *L, const char *what);
void sandbox_leave(lua_State *L);
// Work done in C, in about instructions; only inline budgets count it.
void sandbox_charge(lua_State *L, uint64_t work);
// For loops in C that may be long, or that call functions which may be C too: the hook sees bytecode only.
// Ends the pass when its budget is used up, and collects when memory is due. Nothing in a state that is no
// sandbox (the test kit's own).
void sandbox_poll(lua_State *L, uint64_t work);
// For code that knows no Lua: shall it come back? Then sandbox_poll ends the pass.
bool sandbox_is_over(lua_State *L, uint64_t work);
// Memory that a function has from malloc counts as the script's: as much as is left up to the hard limit,
// given back as soon as it is free. In a state that is no sandbox there is no limit.
size_t sandbox_memory_left(lua_State *L);
void sandbox_memory_add(lua_State *L, size_t n); // at most what is left
void sandbox_memory_sub(lua_State *L, size_t n);
void sandbox_out_of_memory(lua_State *L)
    __attribute__((noreturn)); // ends the pass: more is wanted than is left
uint64_t sandbox_ordinal(lua_State *L,
                         const void *p); // an order for objects that is the same in every process

#endif
