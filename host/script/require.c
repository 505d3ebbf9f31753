#include "script/require.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "script/allow.h"
#include "script/code.h"
#include "script/native.h"
#include "script/program_code.h"
#include "script/sandbox.h"

static char loaded_key; // in the registry: {code = value}
static char running;    // stands there while a module's chunk runs

// 1: the registry's table.
static void push_loaded(lua_State *L)
{
    lua_pushlightuserdata(L, &loaded_key);
    lua_rawget(L, LUA_REGISTRYINDEX);
    if (lua_istable(L, -1))
        return;
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushlightuserdata(L, &loaded_key);
    lua_pushvalue(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
}

static void push_key(lua_State *L, const struct code *code)
{
    lua_pushlightuserdata(L, (void *)(uintptr_t)code);
}

// Runs the chunk of `code` and pushes its value (true when it returned none).
static void run(lua_State *L, int loaded, const struct code *code, bool bundled)
{
    push_key(L, code);
    lua_pushlightuserdata(L, &running);
    lua_rawset(L, loaded);
    code_push(L, code);
    if (bundled)
        allow_set_library_env(L);
    lua_pushvalue(L, 1);
    sandbox_call(L, 1, 1, "require");
    if (lua_isnil(L, -1)) {
        lua_pop(L, 1);
        lua_pushboolean(L, 1);
    }
    push_key(L, code);
    lua_pushvalue(L, -2);
    lua_rawset(L, loaded);
}

static const char *check_name(lua_State *L)
{
    size_t n;
    const char *name = luaL_checklstring(L, 1, &n);
    luaL_argcheck(L, strlen(name) == n, 1, "the name of a module has no NUL");
    return name;
}

// (name, environment) -> the chunk of a file next to the script, not run yet; nil when there is none.
static int on_chunk(lua_State *L)
{
    const char *name = check_name(L);
    luaL_checktype(L, 2, LUA_TTABLE);
    const struct program_code *files = sandbox_code(L);
    const struct code *code = files != NULL ? program_code_find(files, name) : NULL;
    if (code == NULL)
        return 0;
    code_push(L, code);
    lua_pushvalue(L, 2);
    lua_setfenv(L, -2);
    return 1;
}

static int push_native(lua_State *L, int loaded)
{
    lua_pushlightuserdata(L, (void *)(uintptr_t)native_push);
    lua_rawget(L, loaded);
    if (!lua_isnil(L, -1))
        return 1;
    lua_pop(L, 1);
    native_push(L);
    lua_pushcfunction(L, on_chunk);
    lua_setfield(L, -2, "chunk");
    lua_pushcfunction(L, require_module);
    lua_setfield(L, -2, "require"); // as a script has it
    lua_pushlightuserdata(L, (void *)(uintptr_t)native_push);
    lua_pushvalue(L, -2);
    lua_rawset(L, loaded);
    return 1;
}

int require_module(lua_State *L)
{
    const char *name = check_name(L);
    lua_settop(L, 1);
    push_loaded(L);
    if (lua_toboolean(L, lua_upvalueindex(1)) && lua_isboolean(L, lua_upvalueindex(1)) &&
        strcmp(name, "tidelock.native") == 0)
        return push_native(L, 2);
    const struct code *code = code_bundled(name);
    bool bundled = code != NULL;
    if (code == NULL && sandbox_code(L) != NULL)
        code = program_code_find(sandbox_code(L), name);
    if (code == NULL)
        return luaL_error(
            L,
            "module '%s' not found: require finds the tidelock modules and the other .lua files next "
            "to the script",
            name);
    push_key(L, code);
    lua_rawget(L, 2);
    if (lua_touserdata(L, -1) == &running)
        return luaL_error(L,
                          "module '%s' requires itself, directly or through others, or has raised an error "
                          "before",
                          name);
    if (lua_isnil(L, -1))
        run(L, 2, code, bundled);
    return 1;
}
