#include "script/str_build.h"

#include <lauxlib.h>
#include <stdint.h>
#include <string.h>

#include "script/base_lib.h"

void str_build_init(struct str_build *b, lua_State *L)
{
    luaL_checkstack(L, 4, "too many values");
    lua_pushnil(L);
    b->L = L;
    b->slot = lua_gettop(L);
    b->data = b->small;
    b->len = 0;
    b->cap = sizeof(b->small);
}

static void grow(struct str_build *b, size_t more)
{
    if (more > SIZE_MAX / 4 - b->len)
        luaL_error(b->L, "resulting string too large");
    size_t cap = b->cap * 2;
    while (cap < b->len + more)
        cap *= 2;
    char *data = lua_newuserdata(b->L, cap);
    memcpy(data, b->data, b->len);
    lua_replace(b->L, b->slot);
    b->data = data;
    b->cap = cap;
}

void str_build_add(struct str_build *b, const char *s, size_t n)
{
    if (n > b->cap - b->len)
        grow(b, n);
    memcpy(b->data + b->len, s, n);
    b->len += n;
}

void str_build_add_value(struct str_build *b)
{
    size_t n;
    if (lua_type(b->L, -1) == LUA_TNUMBER) {
        base_lib_push_number(b->L, lua_tonumber(b->L, -1));
        lua_replace(b->L, -2);
    }
    const char *s = lua_tolstring(b->L, -1, &n);
    if (n > b->cap - b->len)
        grow(b, n);
    memcpy(b->data + b->len, s, n);
    b->len += n;
    lua_pop(b->L, 1);
}

void str_build_push(struct str_build *b)
{
    lua_pushlstring(b->L, b->data, b->len);
}
