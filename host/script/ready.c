#include "script/ready.h"

#include <lauxlib.h>
#include <stdio.h>

#include "script/convert.h"
#include "script/sandbox.h"

// Pushes a member without metamethods; the table at the top is made whole first.
static void push_member(lua_State *L, const char *name)
{
    convert_force(L, -1);
    lua_pushstring(L, name);
    lua_rawget(L, -2);
}

// Pushes a member that is a text and gives it, or NULL and a nil.
static const char *push_text(lua_State *L, const char *name)
{
    push_member(L, name);
    if (lua_type(L, -1) == LUA_TSTRING)
        return lua_tostring(L, -1);
    lua_pop(L, 1);
    lua_pushnil(L);
    return NULL;
}

// The live child that the object at the top names; false when it is not there. An object without a name is
// told by the check of the result.
static bool find_child(lua_State *L, struct world_lib *w, struct world_object *ret)
{
    struct err e = {0};
    int top = lua_gettop(L);
    if (!lua_istable(L, -1))
        return false;
    const char *api_version = push_text(L, "apiVersion"); // each text stays on the stack while it is used
    lua_pushvalue(L, top);
    const char *kind = push_text(L, "kind");
    lua_pushvalue(L, top);
    push_member(L, "metadata");
    bool named = lua_istable(L, -1);
    const char *name = named ? push_text(L, "name") : NULL;
    if (named)
        lua_pushvalue(L, -2);
    const char *ns = named ? push_text(L, "namespace") : NULL;
    int r = 0;
    if (api_version != NULL && kind != NULL && name != NULL)
        r = w->ops->child(w->ud, api_version, kind, ns, name, ret, &e);
    if (r < 0)
        luaL_error(L, "%s", e.text);
    lua_settop(L, top);
    return ret->json != NULL;
}

// Calls the function at the top with the child; its verdict replaces it.
static void call(lua_State *L, const struct world_object *child, const char *at)
{
    struct err e;
    int function = lua_gettop(L);
    if (convert_push_text(L, child->json, child->len, &e) < 0)
        luaL_error(L, "the child can not be read: %s", e.text);
    sandbox_call(L, 1, LUA_MULTRET, at);
    if (lua_gettop(L) < function)
        luaL_error(L, "must return true or false, but returned nothing");
    lua_settop(L, function);
    if (!lua_isboolean(L, -1) && !lua_isnil(L, -1))
        luaL_error(L, "must return true or false, got a %s", luaL_typename(L, -1));
    lua_pushboolean(L, lua_toboolean(L, -1));
}

// The entry is at the top.
static void ask_entry(lua_State *L, struct world_lib *w, size_t index, char at[READY_PATH_MAX])
{
    int entry = lua_gettop(L);
    struct world_object child = {0};
    luaL_checkstack(L, 20, "too many values");
    push_member(L, "ready");
    if (lua_isfunction(L, -1)) {
        snprintf(at, READY_PATH_MAX, "apply[%zu].ready", index);
        lua_pushvalue(L, entry);
        push_member(L, "object");
        bool there = find_child(L, w, &child);
        lua_settop(L, entry + 1);
        if (there)
            call(L, &child, at);
        else
            lua_pushboolean(L, 0);
        lua_pushliteral(L, "ready");
        lua_insert(L, -2);
        lua_rawset(L, entry);
        at[0] = '\0';
    }
    lua_settop(L, entry);
}

void ready_ask(lua_State *L, int idx, struct world_lib *w, char at[READY_PATH_MAX])
{
    int top = lua_gettop(L);
    at[0] = '\0';
    lua_pushvalue(L, idx);
    if (lua_istable(L, -1))
        push_member(L, "apply");
    if (lua_istable(L, -1)) {
        convert_force(L, -1);
        size_t n = lua_objlen(L, -1); // a list with gaps is told by the check of the result
        for (size_t i = 1; i <= n; i++) {
            lua_rawgeti(L, -1, (int)i);
            if (lua_istable(L, -1))
                ask_entry(L, w, i, at);
            lua_pop(L, 1);
        }
    }
    lua_settop(L, top);
}
