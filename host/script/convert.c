#include "script/convert.h"

#include <lauxlib.h>

#include "base/assert.h"
#include "script/boxed.h"
#include "script/convert_internal.h"
#include "script/own.h"
#include "script/sandbox.h"

// Addresses: keys in the registry, in metatables, and null itself.
static char array_key, lazy_key, nulls_key, call_key, null_value;

static void push_registered(lua_State *L, char *key)
{
    lua_pushlightuserdata(L, key);
    lua_rawget(L, LUA_REGISTRYINDEX);
}

void convert_push_array_metatable(lua_State *L)
{
    push_registered(L, &array_key);
}

void convert_push_lazy_metatable(lua_State *L)
{
    push_registered(L, &lazy_key);
}

void convert_push_nulls(lua_State *L)
{
    lua_pushlightuserdata(L, &nulls_key);
    lua_rawget(L, -2);
    lua_remove(L, -2);
}

void convert_push_null(lua_State *L)
{
    lua_pushlightuserdata(L, &null_value);
}

int convert_is_null(lua_State *L, int idx)
{
    return lua_type(L, idx) == LUA_TLIGHTUSERDATA && lua_touserdata(L, idx) == &null_value;
}

static int absolute(lua_State *L, int idx)
{
    return idx < 0 && idx > LUA_REGISTRYINDEX ? lua_gettop(L) + idx + 1 : idx;
}

static bool has_metatable(lua_State *L, int idx, char *key)
{
    if (!lua_istable(L, idx) || !lua_getmetatable(L, idx))
        return false;
    push_registered(L, key);
    bool same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return same;
}

// --- JSON to Lua ---

struct pusher {
    lua_State *L;
    int array_metatable; // its index
    unsigned work;       // values since the last look at the budget
};

enum { WORK_STEP = 64 };

static void push_value(struct pusher *p, const json *v);

static void count_value(struct pusher *p)
{
    if (++p->work < WORK_STEP)
        return;
    p->work = 0;
    sandbox_poll(p->L, WORK_STEP);
}

static void push_array(struct pusher *p, const json *v)
{
    lua_State *L = p->L;
    lua_createtable(L, (int)json_count(v), 0);
    for (struct json_iter i = json_iter(v); json_next(&i);) {
        push_value(p, i.value);
        lua_rawseti(L, -2, (int)i.index + 1);
    }
    lua_pushvalue(L, p->array_metatable);
    lua_setmetatable(L, -2);
}

// Fills the table at the top. The set of names with a null is made when there is one.
static void fill_object(struct pusher *p, const json *v)
{
    lua_State *L = p->L;
    int table = lua_gettop(L);
    bool nulls = false;
    for (struct json_iter i = json_iter(v); json_next(&i);) {
        if (!json_is_null(i.value)) {
            lua_pushlstring(L, i.key, i.key_len);
            push_value(p, i.value);
            lua_rawset(L, table);
            continue;
        }
        if (!nulls)
            lua_newtable(L);
        nulls = true;
        count_value(p);
        lua_pushlstring(L, i.key, i.key_len);
        lua_pushboolean(L, 1);
        lua_rawset(L, table + 1);
    }
    if (!nulls)
        return;
    lua_createtable(L, 0, 2);
    lua_pushlightuserdata(L, &nulls_key);
    lua_pushvalue(L, table + 1);
    lua_rawset(L, -3);
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_setmetatable(L, table);
    lua_pop(L, 1);
}

static void push_number(lua_State *L, const json *v)
{
    if (yyjson_is_uint((yyjson_val *)v))
        boxed_push_uint(L, yyjson_get_uint((yyjson_val *)v));
    else if (yyjson_is_sint((yyjson_val *)v))
        boxed_push_int(L, yyjson_get_sint((yyjson_val *)v));
    else
        lua_pushnumber(L, yyjson_get_real((yyjson_val *)v));
}

// Recursion is bounded by JSON_DEPTH_MAX, which the parser checks.
static void push_value(struct pusher *p, const json *v)
{
    lua_State *L = p->L;
    luaL_checkstack(L, 8, "JSON nested too deep");
    count_value(p);
    switch (yyjson_get_type((yyjson_val *)v)) {
    case YYJSON_TYPE_OBJ:
        lua_createtable(L, 0, (int)json_count(v));
        fill_object(p, v);
        break;
    case YYJSON_TYPE_ARR:
        push_array(p, v);
        break;
    case YYJSON_TYPE_STR:
        lua_pushlstring(L, json_str(v), json_str_len(v));
        break;
    case YYJSON_TYPE_NUM:
        push_number(L, v);
        break;
    case YYJSON_TYPE_BOOL:
        lua_pushboolean(L, json_true(v));
        break;
    default:
        convert_push_null(L);
    }
}

// The metatable of lists is pushed below what is made.
static struct pusher begin_push(lua_State *L)
{
    luaL_checkstack(L, 8, "JSON nested too deep");
    convert_push_array_metatable(L);
    return (struct pusher){.L = L, .array_metatable = lua_gettop(L)};
}

void convert_push(lua_State *L, const json *v)
{
    struct pusher p = begin_push(L);
    push_value(&p, v);
    lua_remove(L, -2);
}

struct protected_call {
    void (*fn)(lua_State *L, void *ud);
    void *ud;
};

// (value, call as light userdata) -> what fn leaves at the top
static int run_protected(lua_State *L)
{
    struct protected_call *call = lua_touserdata(L, 2);
    lua_settop(L, 1);
    call->fn(L, call->ud);
    return 1;
}

int convert_protected(lua_State *L, int idx, void (*fn)(lua_State *L, void *ud), void *ud)
{
    struct protected_call call = {fn, ud};
    if (idx != 0)
        idx = absolute(L, idx);
    push_registered(L, &call_key); // nothing here allocates in the state, so nothing can raise
    if (idx != 0)
        lua_pushvalue(L, idx);
    else
        lua_pushnil(L);
    lua_pushlightuserdata(L, &call);
    return lua_pcall(L, 2, 1, 0);
}

// With a table to fill at index 1, or nil.
static void push_node(lua_State *L, void *ud)
{
    const json *v = ud;
    if (!lua_istable(L, 1) || !json_is_object(v)) {
        convert_push(L, v);
        return;
    }
    struct pusher p = begin_push(L);
    lua_pushvalue(L, 1);
    fill_object(&p, v);
}

static void free_doc(void *doc)
{
    json_doc_free(doc);
}

// Pushes what the text means; `table` (or 0) is filled instead of a new one when that is an object.
static int push_text(lua_State *L, const char *text, size_t len, int table, struct err *e)
{
    luaL_checkstack(L, 8, "JSON nested too deep");
    struct json_doc *doc;
    size_t memory, left = sandbox_memory_left(L);
    int r = json_parse_within(text, len, left, &doc, &memory, e);
    if (r < 0 && memory > left)
        sandbox_out_of_memory(L);
    if (r < 0)
        return r;
    own_push(doc, free_doc);
    sandbox_memory_add(L, memory);
    int failed = convert_protected(L, table, push_node, (void *)json_root(doc));
    own_pop();
    sandbox_memory_sub(L, memory);
    return failed ? lua_error(L) : 0;
}

int convert_push_text(lua_State *L, const char *text, size_t len, struct err *e)
{
    return push_text(L, text, len, 0, e);
}

// --- lazy tables ---

// A lazy table holds one entry: [light userdata: the text] = its length.
void convert_push_lazy(lua_State *L, const char *text, size_t len)
{
    size_t start = 0;
    while (start < len &&
           (text[start] == ' ' || text[start] == '\t' || text[start] == '\n' || text[start] == '\r'))
        start++;
    if (start == len ||
        text[start] != '{') { // only an object can be filled in later: arrays are used by # and ipairs
        struct err e;
        if (push_text(L, text, len, 0, &e) < 0)
            luaL_error(L, "%s", e.text);
        return;
    }
    luaL_checkstack(L, 4, "too many values");
    lua_createtable(L, 0, 1);
    lua_pushlightuserdata(L, (void *)text);
    lua_pushnumber(L, (lua_Number)len);
    lua_rawset(L, -3);
    convert_push_lazy_metatable(L);
    lua_setmetatable(L, -2);
}

// The text of the lazy table at idx, found by its key.
static const char *find_text(lua_State *L, int idx, size_t *ret_len)
{
    lua_pushnil(L);
    while (lua_next(L, idx)) {
        if (lua_type(L, -2) == LUA_TLIGHTUSERDATA && !convert_is_null(L, -2)) {
            const char *text = lua_touserdata(L, -2);
            *ret_len = (size_t)lua_tonumber(L, -1);
            lua_pop(L, 2);
            return text;
        }
        lua_pop(L, 1);
    }
    return NULL;
}

// The table stays lazy until it is whole: when memory runs out half-way, the next touch fills it again.
void convert_force(lua_State *L, int idx)
{
    if (!has_metatable(L, idx, &lazy_key))
        return;
    idx = absolute(L, idx);
    luaL_checkstack(L, 8, "too many values");
    size_t len = 0;
    const char *text = find_text(L, idx, &len); // out of reach of a script: no function of ours shows it
    ASSERT(text != NULL);
    struct err e;
    if (push_text(L, text, len, idx, &e) < 0)
        luaL_error(L, "%s", e.text);
    lua_pop(L, 1);
    lua_pushlightuserdata(L, (void *)text);
    lua_pushnil(L);
    lua_rawset(L, idx);
    if (has_metatable(L, idx, &lazy_key)) { // else the one with remembered nulls stands there already
        lua_pushnil(L);
        lua_setmetatable(L, idx);
    }
}

static int on_lazy_index(lua_State *L)
{
    convert_force(L, 1);
    lua_settop(L, 2);
    lua_rawget(L, 1);
    return 1;
}

static int on_lazy_newindex(lua_State *L)
{
    convert_force(L, 1);
    lua_settop(L, 3);
    lua_rawset(L, 1);
    return 0;
}

// --- marks ---

void convert_mark_array(lua_State *L, int idx)
{
    idx = absolute(L, idx);
    convert_force(L, idx);
    convert_push_array_metatable(L);
    lua_setmetatable(L, idx);
}

int convert_is_array(lua_State *L, int idx)
{
    if (has_metatable(L, idx, &array_key))
        return 1;
    if (!lua_istable(L, idx) || has_metatable(L, idx, &lazy_key))
        return 0;
    idx = absolute(L, idx);
    size_t n = lua_objlen(L, idx);
    size_t count = 0;
    lua_pushnil(L);
    while (lua_next(L, idx)) {
        lua_pop(L, 1);
        if (lua_type(L, -1) != LUA_TNUMBER || ++count > n) {
            lua_pop(L, 1);
            return 0;
        }
    }
    return n > 0 && count == n;
}

void convert_mark_like(lua_State *L, int to, int from)
{
    to = absolute(L, to);
    from = absolute(L, from);
    convert_force(L, to);
    convert_force(L, from);
    if (!lua_getmetatable(L, from))
        return;
    lua_pushvalue(L, -1);
    convert_push_nulls(L);
    bool ours = lua_istable(L, -1) || has_metatable(L, from, &array_key);
    lua_pop(L, 1);
    if (ours)
        lua_setmetatable(L, to);
    else
        lua_pop(L, 1);
}

// --- set-up ---

static int on_null_tostring(lua_State *L)
{
    if (convert_is_null(L, 1))
        lua_pushliteral(L, "null");
    else
        lua_pushliteral(L, "userdata");
    return 1;
}

static int on_null_index(lua_State *L)
{
    return luaL_error(L, "attempt to index k8s.null");
}

static void register_metatable(lua_State *L, char *key, const luaL_Reg *methods)
{
    lua_newtable(L);
    for (const luaL_Reg *m = methods; m->name != NULL; m++) {
        lua_pushcfunction(L, m->func);
        lua_setfield(L, -2, m->name);
    }
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_pushlightuserdata(L, key);
    lua_pushvalue(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
    lua_pop(L, 1);
}

void convert_open(lua_State *L)
{
    static const luaL_Reg none[] = {{NULL, NULL}};
    static const luaL_Reg lazy[] = {
        {"__index", on_lazy_index}, {"__newindex", on_lazy_newindex}, {NULL, NULL}};
    static const luaL_Reg null[] = {{"__tostring", on_null_tostring},
                                    {"__index", on_null_index},
                                    {"__newindex", on_null_index},
                                    {NULL, NULL}};
    boxed_open(L);
    register_metatable(L, &array_key, none);
    register_metatable(L, &lazy_key, lazy);
    register_metatable(L, &null_value, null);
    lua_pushlightuserdata(L, &call_key);
    lua_pushcfunction(L, run_protected);
    lua_rawset(L, LUA_REGISTRYINDEX);
    convert_push_null(L); // all light userdata of a state share one metatable
    push_registered(L, &null_value);
    lua_setmetatable(L, -2);
    lua_pop(L, 1);
}
