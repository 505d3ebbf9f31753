// The memory of one Lua state: a region of the worker's own with size-class free lists, so that a collection
// gives bytes back, and reset as a whole in O(chunks) after the pass (no lua_close). Counts live bytes. One
// owner thread.
//
// Limits: past `soft` live bytes `on_soft` is called once until live falls below 75 % again (it arms the hook
// that collects and then raises). Past `hard` (live bytes, or bytes taken for them, which fragmentation can
// make more) `on_hard` is called, which must not return; without one the allocator answers NULL, which LuaJIT
// does not survive everywhere.
//
// An image: what the arena holds after a state's set-up is saved once and put back before each pass by one
// copy. The addresses stay the same, so the state in it is as it was.
#ifndef SCRIPT_ARENA_H
#define SCRIPT_ARENA_H

#include <stddef.h>
#include <stdint.h>

struct arena;

struct arena *arena_new(void);
void arena_free(struct arena *a);
void arena_limit(struct arena *a, size_t soft, size_t hard, void (*on_soft)(void *ud), void *ud);
void arena_on_hard(struct arena *a,
                   void (*on_hard)(void *ud)); // with the ud of arena_limit; NULL: the allocator answers NULL
void *arena_alloc(void *ud, void *ptr, size_t osize, size_t nsize); // lua_Alloc; ud is the arena
// Memory that the state's functions have from elsewhere: it counts as live, within the same limits, until it
// is given back or all is reset. arena_add: n is at most arena_left, what there is up to the hard limit.
size_t arena_left(const struct arena *a);
void arena_add(struct arena *a, size_t n);
void arena_sub(struct arena *a, size_t n);
size_t arena_live(const struct arena *a);
size_t arena_peak(const struct arena *a);   // most live bytes since the last reset or restore
size_t arena_mapped(const struct arena *a); // taken from the system
// Everything is gone at once; memory beyond `keep` bytes goes back to the system. Limits are lifted.
void arena_reset(struct arena *a, size_t keep);

enum {
    ARENA_IMAGE_MAX = 384 * 1024
}; // an arena that is saved may hold at most this much, and no block above 64 KiB
void arena_save(struct arena *a);
void arena_restore(struct arena *a, size_t keep); // as arena_reset, then the image

// Whose memory it is: free for the user of the arena.
void arena_set_owner(struct arena *a, void *owner);
void *arena_owner(const struct arena *a);
// A number that grows from block to block in the order in which they were made, wherever they are: of the
// block below 64 KiB that begins at p, or up to 63 bytes before it.
uint64_t arena_ordinal(const struct arena *a, const void *p);

#endif
