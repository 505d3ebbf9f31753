// CPU budgets. Threads: a watchdog thread signals a worker whose pass overran its CPU time (or ten times that in wall time); the handler arms
// a Lua hook that raises, again every 5 ms until the pass has ended. Inline: an instruction count, so that runs are deterministic.
#ifndef SCRIPT_BUDGET_H
#define SCRIPT_BUDGET_H

#include <stdbool.h>
#include <stdint.h>

struct watchdog; // one a process, its own thread
struct budget;   // one a worker; begin/end by the worker

struct watchdog *watchdog_new(void);
void watchdog_free(struct watchdog *w);
// `on_stuck` (watchdog thread) is called when a worker has not ended 2 s after its wall limit: a C function is stuck.
void watchdog_on_stuck(struct watchdog *w, void (*fn)(void *ud, struct budget *b), void *ud);

struct budget *budget_new(struct watchdog *w); // NULL: inline mode, counts instructions. Called by the worker's own thread
void budget_free(struct budget *b);

struct lua_State;
// From now on the pass on L may use cpu_us (inline: cpu_us x 50 instructions). budget_end stops the watch and gives the CPU time used (inline:
// instructions / 50). Between them budget_expired tells whether it was overrun.
void budget_begin(struct budget *b, struct lua_State *L, uint64_t cpu_us);
uint64_t budget_end(struct budget *b);
bool budget_expired(const struct budget *b);

#endif
