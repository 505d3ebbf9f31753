// The keys of a table in an order that is the same in every process: numbers ascending, strings by bytes,
// false, true, then objects by age. LuaJIT's own order of a table's hash part is by a seed. May raise; the
// pass's thread.
#ifndef SCRIPT_ORDER_H
#define SCRIPT_ORDER_H

#include <lua.h>
#include <stddef.h>

// Pushes two values: the keys (a table) and their order (a userdata), both only for the functions below.
void order_push(lua_State *L, int idx);
size_t order_count(lua_State *L, int order);
// Pushes the i-th key (from 0).
void order_push_key(lua_State *L, int keys, int order, size_t i);
// The place of the first key behind the key at idx.
size_t order_after(lua_State *L, int order, int idx);

// pairs and next of the allow-list.
int order_pairs(lua_State *L);
int order_next(lua_State *L);

#endif
