#include "script/allow.h"

#include <lauxlib.h>
#include <lualib.h>
#include <stdbool.h>
#include <string.h>

#include "script/base_lib.h"
#include "script/order.h"
#include "script/require.h"
#include "script/str_format.h"
#include "script/str_lib.h"
#include "script/table_lib.h"

#define KEEP NULL // LuaJIT's own: bounded work, no way out of the state

static const struct allowed {
    const char *library; // "": a global
    const char *name;
    lua_CFunction own;
} allowed[] = {
    {"", "_VERSION", KEEP},
    {"", "assert", KEEP},
    {"", "error", base_lib_error},
    {"", "getmetatable", KEEP},
    {"", "ipairs", KEEP},
    {"", "next", order_next},
    {"", "pairs", order_pairs},
    {"", "pcall", base_lib_pcall},
    {"", "rawequal", KEEP},
    {"", "rawget", base_lib_rawget},
    {"", "rawlen", base_lib_rawlen},
    {"", "rawset", base_lib_rawset},
    {"", "require", require_module},
    {"", "select", KEEP},
    {"", "setmetatable", base_lib_setmetatable},
    {"", "tonumber", KEEP},
    {"", "tostring", base_lib_tostring},
    {"", "type", KEEP},
    {"", "unpack", KEEP},
    {"", "xpcall", base_lib_xpcall},
    {"string", "byte", KEEP},
    {"string", "char", KEEP},
    {"string", "find", str_lib_find},
    {"string", "format", str_format},
    {"string", "gmatch", str_lib_gmatch},
    {"string", "gsub", str_lib_gsub},
    {"string", "len", KEEP},
    {"string", "lower", KEEP},
    {"string", "match", str_lib_match},
    {"string", "rep", str_lib_rep},
    {"string", "reverse", KEEP},
    {"string", "sub", KEEP},
    {"string", "upper", KEEP},
    {"table", "concat", table_lib_concat},
    {"table", "getn", KEEP},
    {"table", "insert", table_lib_insert},
    {"table", "maxn", KEEP},
    {"table", "remove", KEEP},
    {"table", "sort", table_lib_sort},
    {"math", "abs", KEEP},
    {"math", "acos", KEEP},
    {"math", "asin", KEEP},
    {"math", "atan", KEEP},
    {"math", "atan2", KEEP},
    {"math", "ceil", KEEP},
    {"math", "cos", KEEP},
    {"math", "cosh", KEEP},
    {"math", "deg", KEEP},
    {"math", "exp", KEEP},
    {"math", "floor", KEEP},
    {"math", "fmod", KEEP},
    {"math", "frexp", KEEP},
    {"math", "huge", KEEP},
    {"math", "ldexp", KEEP},
    {"math", "log", KEEP},
    {"math", "log10", KEEP},
    {"math", "max", KEEP},
    {"math", "min", KEEP},
    {"math", "modf", KEEP},
    {"math", "pi", KEEP},
    {"math", "pow", KEEP},
    {"math", "rad", KEEP},
    {"math", "sin", KEEP},
    {"math", "sinh", KEEP},
    {"math", "sqrt", KEEP},
    {"math", "tan", KEEP},
    {"math", "tanh", KEEP},
    {"bit", "arshift", KEEP},
    {"bit", "band", KEEP},
    {"bit", "bnot", KEEP},
    {"bit", "bor", KEEP},
    {"bit", "bswap", KEEP},
    {"bit", "bxor", KEEP},
    {"bit", "lshift", KEEP},
    {"bit", "rol", KEEP},
    {"bit", "ror", KEEP},
    {"bit", "rshift", KEEP},
    {"bit", "tobit", KEEP},
    {"bit", "tohex", KEEP},
};

enum { ALLOWED_COUNT = sizeof(allowed) / sizeof(allowed[0]) };

static char library_env_key;

void allow_each(void (*fn)(void *ud, const char *library, const char *name), void *ud)
{
    for (int i = 0; i < ALLOWED_COUNT; i++)
        fn(ud, allowed[i].library, allowed[i].name);
}

void allow_push_tostring(lua_State *L, int idx)
{
    lua_pushvalue(L, idx);
    lua_pushcfunction(L, base_lib_tostring);
    lua_insert(L, -2);
    lua_call(L, 1, 1);
}

static void open_library(lua_State *L, const char *name, lua_CFunction open)
{
    lua_pushcfunction(L, open);
    lua_pushstring(L, name);
    lua_call(L, 1, 0);
}

// Our functions have LuaJIT's of the same name as upvalue 1, if there is one.
static void push_allowed(lua_State *L, const struct allowed *a, int from)
{
    lua_getfield(L, from, a->name);
    if (a->own != KEEP)
        lua_pushcclosure(L, a->own, 1);
}

// The table of a library within the globals that are being made.
static void push_library(lua_State *L, int globals, const char *name)
{
    lua_getfield(L, globals, name);
    if (lua_istable(L, -1))
        return;
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushvalue(L, -1);
    lua_setfield(L, globals, name);
}

static void fill(lua_State *L, int globals)
{
    for (int i = 0; i < ALLOWED_COUNT; i++) {
        const struct allowed *a = &allowed[i];
        if (a->library[0] == 0) {
            push_allowed(L, a, LUA_GLOBALSINDEX);
            lua_setfield(L, globals, a->name);
            continue;
        }
        lua_getfield(L, LUA_GLOBALSINDEX, a->library);
        push_library(L, globals, a->library);
        push_allowed(L, a, lua_gettop(L) - 1);
        lua_setfield(L, -2, a->name);
        lua_pop(L, 2);
    }
}

// ("text"):upper() goes to the table of the list; nobody gets at the metatable.
static void close_string_metatable(lua_State *L, int globals)
{
    lua_pushliteral(L, "");
    ((void)lua_getmetatable(L, -1));
    lua_getfield(L, globals, "string");
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pop(L, 2);
}

// What the libraries left in the registry (loaded modules, file handles) goes.
static void clear_registry(lua_State *L)
{
    static const char *const names[] = {"_LOADED", "_LOADLIB", "_PRELOAD"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        lua_pushnil(L);
        lua_setfield(L, LUA_REGISTRYINDEX, names[i]);
    }
}

void allow_open(lua_State *L)
{
    open_library(L, "", luaopen_base);
    open_library(L, LUA_TABLIBNAME, luaopen_table);
    open_library(L, LUA_STRLIBNAME, luaopen_string);
    open_library(L, LUA_MATHLIBNAME, luaopen_math);
    open_library(L, LUA_BITLIBNAME, luaopen_bit);
    lua_newtable(L);
    int globals = lua_gettop(L);
    fill(L, globals);
    close_string_metatable(L, globals);
    clear_registry(L);
    base_lib_open(L);

    lua_pushlightuserdata(L, &library_env_key);
    lua_newtable(L);
    fill(L, lua_gettop(L));
    lua_pushboolean(L, 1);
    lua_pushcclosure(L, require_module, 1);
    lua_setfield(L, -2, "require");
    lua_rawset(L, LUA_REGISTRYINDEX);

    lua_pushvalue(L, globals);
    lua_setfield(L, globals, "_G");
    lua_replace(L, LUA_GLOBALSINDEX);
    lua_settop(L, 0);
}

void allow_set_library_env(lua_State *L)
{
    lua_pushlightuserdata(L, &library_env_key);
    lua_rawget(L, LUA_REGISTRYINDEX);
    lua_setfenv(L, -2);
}
