// The memory of one Lua state: a region of the worker's own with size-class free lists, so that a collection gives bytes back, and
// reset as a whole in O(chunks) after the pass (no lua_close). Counts live bytes. One owner thread.
//
// Limits: past `soft` live bytes `on_soft` is called once until live falls below 75 % again (it arms the hook that collects and then
// raises); past `hard` the allocator answers NULL, which LuaJIT does not survive everywhere: the soft limit keeps it out of reach.
#ifndef SCRIPT_ARENA_H
#define SCRIPT_ARENA_H

#include <stddef.h>

struct arena;

struct arena *arena_new(void);
void arena_free(struct arena *a);
void arena_limit(struct arena *a, size_t soft, size_t hard, void (*on_soft)(void *ud), void *ud);
void *arena_alloc(void *ud, void *ptr, size_t osize, size_t nsize); // lua_Alloc; ud is the arena
size_t arena_live(const struct arena *a);
size_t arena_peak(const struct arena *a);
// Everything is gone at once; memory beyond `keep` bytes goes back to the system.
void arena_reset(struct arena *a, size_t keep);

#endif
