#include "script/boxed.h"

#include <math.h>
#include <stdio.h>

#include <lauxlib.h>

static char metatable_key;

static void push_metatable(lua_State *L)
{
    lua_pushlightuserdata(L, &metatable_key);
    lua_rawget(L, LUA_REGISTRYINDEX);
}

static void push(lua_State *L, bool negative, uint64_t magnitude)
{
    struct boxed *b = lua_newuserdata(L, sizeof(*b));
    b->negative = negative;
    b->magnitude = magnitude;
    push_metatable(L);
    lua_setmetatable(L, -2);
}

void boxed_push_int(lua_State *L, int64_t v)
{
    uint64_t magnitude = v < 0 ? -(uint64_t)v : (uint64_t)v;
    if (magnitude <= BOXED_EXACT_MAX)
        lua_pushnumber(L, (lua_Number)v);
    else
        push(L, v < 0, magnitude);
}

void boxed_push_uint(lua_State *L, uint64_t v)
{
    if (v <= BOXED_EXACT_MAX)
        lua_pushnumber(L, (lua_Number)v);
    else
        push(L, false, v);
}

const struct boxed *boxed_get(lua_State *L, int idx)
{
    if (lua_type(L, idx) != LUA_TUSERDATA || !lua_getmetatable(L, idx))
        return NULL;
    push_metatable(L);
    bool same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return same ? lua_touserdata(L, idx) : NULL;
}

void boxed_format(char out[BOXED_TEXT_MAX], const struct boxed *b)
{
    snprintf(out, BOXED_TEXT_MAX, "%s%llu", b->negative ? "-" : "", (unsigned long long)b->magnitude);
}

static int order(uint64_t a, uint64_t b)
{
    return (a > b) - (a < b);
}

static int compare_boxed(const struct boxed *a, const struct boxed *b)
{
    if (a->negative != b->negative)
        return a->negative ? -1 : 1;
    return a->negative ? order(b->magnitude, a->magnitude) : order(a->magnitude, b->magnitude);
}

// A number against a boxed integer: its integral part is exact as a boxed one, a fraction only matters when
// those are equal, which beyond 2^53 no fraction is.
static int compare_number(lua_Number n, const struct boxed *b)
{
    if (n >= 0x1p64)
        return 1;
    if (n < -0x1p63)
        return -1;
    struct boxed whole = {.negative = n < 0, .magnitude = (uint64_t)fabs(n)};
    return compare_boxed(&whole, b);
}

int boxed_compare(lua_State *L, int a, int b)
{
    const struct boxed *x = boxed_get(L, a);
    const struct boxed *y = boxed_get(L, b);
    if (x != NULL && y != NULL)
        return compare_boxed(x, y);
    if ((x == NULL && lua_type(L, a) != LUA_TNUMBER) || (y == NULL && lua_type(L, b) != LUA_TNUMBER))
        return 2;
    lua_Number n = lua_tonumber(L, a);
    lua_Number m = lua_tonumber(L, b);
    if ((x == NULL && isnan(n)) || (y == NULL && isnan(m)))
        return 2;
    if (x != NULL)
        return -compare_number(m, x);
    return y != NULL ? compare_number(n, y) : (n > m) - (n < m);
}

static int on_compare(lua_State *L, const char *what)
{
    int r = boxed_compare(L, 1, 2);
    if (r == 2)
        return luaL_error(L, "attempt to %s a 64-bit integer and a %s: use k8s.compare(a, b)", what,
                          luaL_typename(L, boxed_get(L, 1) != NULL ? 2 : 1));
    return r;
}

static int on_eq(lua_State *L)
{
    lua_pushboolean(L, boxed_compare(L, 1, 2) == 0);
    return 1;
}

static int on_lt(lua_State *L)
{
    lua_pushboolean(L, on_compare(L, "compare") < 0);
    return 1;
}

static int on_le(lua_State *L)
{
    lua_pushboolean(L, on_compare(L, "compare") <= 0);
    return 1;
}

static int on_tostring(lua_State *L)
{
    const struct boxed *b = boxed_get(L, 1);
    if (b == NULL)
        return luaL_argerror(L, 1, "64-bit integer expected");
    char text[BOXED_TEXT_MAX];
    boxed_format(text, b);
    lua_pushstring(L, text);
    return 1;
}

static void push_operand(lua_State *L, int idx)
{
    const struct boxed *b = boxed_get(L, idx);
    char text[BOXED_TEXT_MAX];
    if (b != NULL) {
        boxed_format(text, b);
        lua_pushstring(L, text);
    } else if (lua_isstring(L, idx)) {
        lua_pushvalue(L, idx);
    } else {
        luaL_error(L, "attempt to concatenate a %s value", luaL_typename(L, idx));
    }
}

static int on_concat(lua_State *L)
{
    push_operand(L, 1);
    push_operand(L, 2);
    lua_concat(L, 2);
    return 1;
}

static int on_arithmetic(lua_State *L)
{
    const struct boxed *b = boxed_get(L, 1);
    if (b == NULL)
        b = boxed_get(L, 2);
    char text[BOXED_TEXT_MAX] = "a 64-bit integer";
    if (b != NULL)
        boxed_format(text, b);
    return luaL_error(L,
                      "arithmetic on %s: a Lua number would round it (exact up to 2^53); compare with "
                      "k8s.compare(a, b), show with tostring(), or keep such values as strings",
                      text);
}

static int on_index(lua_State *L)
{
    return luaL_error(L, "attempt to index a 64-bit integer");
}

void boxed_open(lua_State *L)
{
    static const luaL_Reg methods[] = {
        {"__eq", on_eq},
        {"__lt", on_lt},
        {"__le", on_le},
        {"__concat", on_concat},
        {"__tostring", on_tostring},
        {"__add", on_arithmetic},
        {"__sub", on_arithmetic},
        {"__mul", on_arithmetic},
        {"__div", on_arithmetic},
        {"__mod", on_arithmetic},
        {"__pow", on_arithmetic},
        {"__unm", on_arithmetic},
        {"__index", on_index},
        {"__newindex", on_index},
        {NULL, NULL},
    };
    lua_pushlightuserdata(L, &metatable_key);
    lua_newtable(L);
    for (const luaL_Reg *m = methods; m->name != NULL; m++) {
        lua_pushcfunction(L, m->func);
        lua_setfield(L, -2, m->name);
    }
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_rawset(L, LUA_REGISTRYINDEX);
}
