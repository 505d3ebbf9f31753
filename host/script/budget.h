// CPU budgets. Threads: a watchdog thread signals a worker whose pass overran its CPU time (or ten times that
// in wall time); the handler arms a Lua hook that raises, again every 5 ms until the pass has ended. Inline:
// an instruction count, so that runs are deterministic.
#ifndef SCRIPT_BUDGET_H
#define SCRIPT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct watchdog; // one a process, its own thread
struct budget;   // one a worker; begin/end by the worker

struct watchdog *watchdog_new(void);
void watchdog_free(struct watchdog *w); // its budgets are freed before
// `on_stuck` (watchdog thread, no lock held) is called when a worker has not ended 2 s after its wall limit:
// a C function is stuck. `b` only tells which worker it is: it may have ended meanwhile.
void watchdog_on_stuck(struct watchdog *w, void (*fn)(void *ud, struct budget *b), void *ud);

struct budget *
budget_new(struct watchdog *w); // NULL: inline mode, counts instructions. Called by the worker's own thread
void budget_free(struct budget *b); // by the same thread
bool budget_is_inline(const struct budget *b);

struct lua_State;
struct lua_Debug;
// What the hook calls; it calls budget_check first. Set once, before the first budget_begin.
void budget_set_hook(struct budget *b, void (*hook)(struct lua_State *L, struct lua_Debug *ar));
// From now on the pass on L may use cpu_us (inline: cpu_us x 50 instructions). budget_end stops the watch and
// gives the CPU time used (inline: instructions / 50). Between them budget_expired tells whether it was
// overrun.
void budget_begin(struct budget *b, struct lua_State *L, uint64_t cpu_us);
uint64_t budget_end(struct budget *b);
bool budget_expired(const struct budget *b);

// The worker, during a pass: the hook shall be called at the next instruction.
void budget_arm(struct budget *b);
// In the hook: counts, and arms again for as long as `again` is set or the budget is expired. True when it is
// expired.
bool budget_check(struct budget *b, bool again);
// Inline: work of C functions counts as so many instructions. Else nothing.
void budget_charge(struct budget *b, uint64_t instructions);

#endif
