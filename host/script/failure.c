#include "script/failure.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>

#include "base/strset.h"

enum { MESSAGE_MAX = 4096 };

static char metatable_key;

static void push_metatable(lua_State *L)
{
    lua_pushlightuserdata(L, &metatable_key);
    lua_rawget(L, LUA_REGISTRYINDEX);
}

const struct failure *failure_get(lua_State *L, int idx)
{
    if (lua_type(L, idx) != LUA_TUSERDATA || !lua_getmetatable(L, idx))
        return NULL;
    push_metatable(L);
    bool same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return same ? lua_touserdata(L, idx) : NULL;
}

void failure_push(lua_State *L, enum failure_kind kind, const char *reason, size_t reason_len,
                  const char *message, size_t message_len, int64_t after_us)
{
    reason_len = str_utf8_cut(reason, reason_len, FAILURE_REASON_MAX);
    message_len = str_utf8_cut(message, message_len, MESSAGE_MAX);
    struct failure *f = lua_newuserdata(L, sizeof(*f) + message_len + 1);
    *f = (struct failure){.kind = kind, .after_us = after_us, .message_len = message_len};
    memcpy(f->reason, reason, reason_len);
    memcpy(f->message, message, message_len);
    f->message[message_len] = 0;
    push_metatable(L);
    lua_setmetatable(L, -2);
}

static int on_tostring(lua_State *L)
{
    const struct failure *f = failure_get(L, 1);
    if (f == NULL)
        return luaL_error(L, "not an error of k8s.retry or k8s.invalid");
    lua_pushfstring(L, "%s: %s", f->reason, f->message);
    return 1;
}

static int on_index(lua_State *L)
{
    const struct failure *f = failure_get(L, 1);
    const char *key = lua_type(L, 2) == LUA_TSTRING ? lua_tostring(L, 2) : "";
    if (f == NULL)
        return 0;
    if (strcmp(key, "kind") == 0)
        lua_pushstring(L, f->kind == FAILURE_RETRY ? "retry" : "invalid");
    else if (strcmp(key, "reason") == 0)
        lua_pushstring(L, f->reason);
    else if (strcmp(key, "message") == 0)
        lua_pushlstring(L, f->message, f->message_len);
    else
        return 0;
    return 1;
}

void failure_open(lua_State *L)
{
    lua_pushlightuserdata(L, &metatable_key);
    lua_createtable(L, 0, 3);
    lua_pushcfunction(L, on_tostring);
    lua_setfield(L, -2, "__tostring");
    lua_pushcfunction(L, on_index);
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_rawset(L, LUA_REGISTRYINDEX);
}
