#include "script/base_lib.h"

#include <lauxlib.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>

#include "script/convert.h"
#include "script/sandbox.h"
#include "script/traceback.h"

enum { ERROR_LEVELS_MAX = 1000000 }; // more than the stack has

static void check_table(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    convert_force(L, 1);
}

int base_lib_rawget(lua_State *L)
{
    check_table(L);
    luaL_checkany(L, 2);
    lua_settop(L, 2);
    lua_rawget(L, 1);
    return 1;
}

int base_lib_rawset(lua_State *L)
{
    check_table(L);
    luaL_checkany(L, 2);
    luaL_checkany(L, 3);
    lua_settop(L, 3);
    lua_rawset(L, 1);
    return 1;
}

int base_lib_rawlen(lua_State *L)
{
    int type = lua_type(L, 1);
    luaL_argcheck(L, type == LUA_TTABLE || type == LUA_TSTRING, 1, "table or string expected");
    lua_pushinteger(L, (lua_Integer)lua_objlen(L, 1));
    return 1;
}

static char metatables_key; // in the registry: the set of those that scripts gave to setmetatable, weak

static void push_metatables(lua_State *L)
{
    lua_pushlightuserdata(L, &metatables_key);
    lua_rawget(L, LUA_REGISTRYINDEX);
}

// Takes the __mode out of the metatables and pushes a table of those that had one.
static void take_modes(lua_State *L)
{
    lua_newtable(L);
    int taken = lua_gettop(L);
    push_metatables(L);
    lua_getmetatable(L, -1); // so that what is taken from holds on to nothing either
    lua_setmetatable(L, taken);
    lua_pushnil(L);
    while (lua_next(L, taken + 1)) {
        lua_pop(L, 1);
        lua_pushliteral(L, "__mode");
        lua_rawget(L, -2);
        if (lua_isnil(L, -1)) {
            lua_pop(L, 1);
            continue;
        }
        lua_pushvalue(L, -2);
        lua_insert(L, -2);
        lua_rawset(L, taken);
        lua_pushliteral(L, "__mode");
        lua_pushnil(L);
        lua_rawset(L, -3);
    }
    lua_settop(L, taken);
}

static void give_modes_back(lua_State *L)
{
    int taken = lua_gettop(L);
    lua_pushnil(L);
    while (lua_next(L, taken)) {
        lua_pushliteral(L, "__mode");
        lua_insert(L, -2);
        lua_rawset(L, -3);
    }
    lua_settop(L, taken - 1);
}

void base_lib_collect(lua_State *L)
{
    luaL_checkstack(L, 8, "too many values");
    take_modes(L);
    lua_gc(L, LUA_GCCOLLECT, 0);
    lua_gc(L, LUA_GCSTOP, 0);
    give_modes_back(L);
}

static void remember_metatable(lua_State *L, int metatable)
{
    push_metatables(L);
    lua_pushvalue(L, metatable);
    lua_pushboolean(L, 1);
    lua_rawset(L, -3);
    lua_pop(L, 1);
}

void base_lib_open(lua_State *L)
{
    lua_pushlightuserdata(L, &metatables_key);
    lua_newtable(L);
    lua_createtable(L, 0, 1);
    lua_pushliteral(L, "k");
    lua_setfield(L, -2, "__mode");
    lua_setmetatable(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
}

int base_lib_setmetatable(lua_State *L)
{
    int type = lua_type(L, 2);
    check_table(L);
    lua_settop(L, 2);
    // What getmetatable gives of a list or an object that was read: copies made by hand pass it on.
    if (type == LUA_TBOOLEAN && !lua_toboolean(L, 2)) {
        lua_pop(L, 1);
        return 1;
    }
    luaL_argcheck(L, type == LUA_TNIL || type == LUA_TTABLE, 2, "nil or table expected");
    if (luaL_getmetafield(L, 1, "__metatable"))
        return luaL_error(L,
                          "cannot change a protected metatable (lists and objects that were read have one of "
                          "their own: copy them first)");
    if (type == LUA_TTABLE)
        remember_metatable(L, 2);
    lua_setmetatable(L, 1);
    return 1;
}

void base_lib_push_number(lua_State *L, lua_Number n)
{
    char text[64];
    if (n == floor(n) && fabs(n) <= 9007199254740992.0)
        snprintf(text, sizeof(text), "%.0f", n == 0 ? 0 : n);
    else if (n != n)
        snprintf(text, sizeof(text), "nan");
    else
        snprintf(text, sizeof(text), LUA_NUMBER_FMT, n);
    lua_pushstring(L, text);
}

int base_lib_tostring(lua_State *L)
{
    luaL_checkany(L, 1);
    lua_settop(L, 1);
    if (luaL_getmetafield(L, 1, "__tostring")) {
        lua_pushvalue(L, 1);
        sandbox_call(L, 1, 1, "tostring");
        if (lua_type(L, -1) == LUA_TNUMBER)
            lua_tostring(L, -1);
        if (lua_type(L, -1) != LUA_TSTRING)
            return luaL_error(L, "'__tostring' must return a string, got %s", luaL_typename(L, -1));
        return 1;
    }
    switch (lua_type(L, 1)) {
    case LUA_TSTRING:
        break;
    case LUA_TNUMBER:
        base_lib_push_number(L, lua_tonumber(L, 1));
        break;
    case LUA_TBOOLEAN:
        lua_pushstring(L, lua_toboolean(L, 1) ? "true" : "false");
        break;
    default:
        lua_pushstring(L, luaL_typename(L, 1)); // nil; an address would differ from run to run
    }
    return 1;
}

static int bad_level(lua_State *L)
{
    return luaL_error(L, "bad argument #2 to 'error' (number expected, got %s)", lua_tostring(L, 1));
}

int base_lib_error(lua_State *L)
{
    if (!lua_isnoneornil(L, 2) && !lua_isnumber(L, 2)) {
        // By another function: an error of `error` itself has the place that the script gave it (sandbox.c).
        lua_pushcfunction(L, bad_level);
        lua_pushstring(L, luaL_typename(L, 2));
        lua_call(L, 1, 0);
    }
    lua_Number level = luaL_optnumber(L, 2, 1);
    lua_settop(L, 1);
    if (lua_isstring(L, 1) && level >= 1) {
        luaL_where(L, level < ERROR_LEVELS_MAX ? (int)level : ERROR_LEVELS_MAX);
        lua_insert(L, 1);
        lua_concat(L, 2);
    }
    return lua_error(L);
}

// The error at the top: one that names a line of the library gets the line of the script that is running.
static void give_script_line(lua_State *L)
{
    size_t len;
    char where[128];
    const char *text = lua_type(L, -1) == LUA_TSTRING ? lua_tolstring(L, -1, &len) : "";
    const char *rest = traceback_skip_library(text);
    if (rest == text)
        return;
    traceback_where(L, where, sizeof(where));
    lua_pushstring(L, where);
    lua_pushlstring(L, rest, len - (size_t)(rest - text));
    lua_concat(L, 2);
    lua_replace(L, -2);
}

int base_lib_pcall(lua_State *L)
{
    luaL_checkany(L, 1);
    int failed = sandbox_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, "pcall");
    luaL_checkstack(L, 4, "too many results");
    if (failed)
        give_script_line(L);
    lua_pushboolean(L, !failed);
    lua_insert(L, 1);
    return lua_gettop(L);
}

int base_lib_xpcall(lua_State *L)
{
    luaL_checkany(L, 1);
    luaL_checkany(L, 2);
    lua_pushvalue(L, 1);
    lua_pushvalue(L, 2);
    lua_replace(L, 1); // 1: handler
    lua_replace(L, 2); // 2: function, 3..: arguments
    int failed = sandbox_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, "xpcall");
    if (failed) {
        luaL_checkstack(L, 4, "too many results");
        give_script_line(L);
        // The error object is at 2; as LuaJIT does, a handler that fails gives its own error.
        lua_pushvalue(L, 1);
        lua_insert(L, 2);
        sandbox_pcall(L, 1, LUA_MULTRET, "xpcall");
    }
    luaL_checkstack(L, 1, "too many results");
    lua_pushboolean(L, !failed);
    lua_replace(L, 1);
    return lua_gettop(L);
}
