// Integers that a Lua number can not hold exactly (beyond 2^53) as userdata: equality, order, tostring and ..
// work, arithmetic raises. Inside script/ only; owner is the Lua state.
#ifndef SCRIPT_BOXED_H
#define SCRIPT_BOXED_H

#include <stdbool.h>
#include <stdint.h>

#include <lua.h>

// Sign and magnitude: INT64_MIN to UINT64_MAX.
struct boxed {
    bool negative;
    uint64_t magnitude;
};

#define BOXED_EXACT_MAX (1ULL << 53) // up to here (included) an integer is a plain number

enum { BOXED_TEXT_MAX = 24 };

void boxed_open(lua_State *L);                // makes the metatable; may raise (memory)
void boxed_push_int(lua_State *L, int64_t v); // a number when that is exact; may raise (memory)
void boxed_push_uint(lua_State *L, uint64_t v);
const struct boxed *boxed_get(lua_State *L, int idx); // NULL unless boxed; raises nothing
void boxed_format(char out[BOXED_TEXT_MAX], const struct boxed *b);
// -1, 0, 1 for two values that are numbers or boxed, exact; 2 when one is neither (or NaN).
int boxed_compare(lua_State *L, int a, int b);

#endif
