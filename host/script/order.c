#include "script/order.h"

#include <lauxlib.h>
#include <stdint.h>
#include <string.h>

#include "script/convert.h"
#include "script/merge_sort.h"
#include "script/sandbox.h"

enum kind { KIND_NUMBER, KIND_STRING, KIND_BOOLEAN, KIND_OBJECT };

struct key {
    enum kind kind;
    unsigned place; // in the table of keys
    union {
        double number;
        uint64_t ordinal; // objects; false and true
        struct {
            const char *text; // anchored by the table of keys
            size_t len;
        } string;
    } as;
};

struct order {
    size_t count;
    struct key keys[];
};

enum { STEP = 1024 }; // keys between two looks at the budget

static char cache_key; // in the registry: {table, keys, order} of the last walk by next

static int absolute(lua_State *L, int idx)
{
    return idx < 0 && idx > LUA_REGISTRYINDEX ? lua_gettop(L) + idx + 1 : idx;
}

static void read_key(lua_State *L, int idx, struct key *ret)
{
    switch (lua_type(L, idx)) {
    case LUA_TNUMBER:
        ret->kind = KIND_NUMBER;
        ret->as.number = lua_tonumber(L, idx);
        break;
    case LUA_TSTRING:
        ret->kind = KIND_STRING;
        ret->as.string.text = lua_tolstring(L, idx, &ret->as.string.len);
        break;
    case LUA_TBOOLEAN:
        ret->kind = KIND_BOOLEAN;
        ret->as.ordinal = (uint64_t)lua_toboolean(L, idx);
        break;
    case LUA_TLIGHTUSERDATA: // null is the only one a script has
        ret->kind = KIND_OBJECT;
        ret->as.ordinal = 0;
        break;
    default:
        ret->kind = KIND_OBJECT;
        ret->as.ordinal = 1 + sandbox_ordinal(L, lua_topointer(L, idx));
    }
}

static int compare(const struct key *a, const struct key *b)
{
    if (a->kind != b->kind)
        return a->kind < b->kind ? -1 : 1;
    if (a->kind == KIND_NUMBER)
        return (a->as.number > b->as.number) - (a->as.number < b->as.number);
    if (a->kind != KIND_STRING)
        return (a->as.ordinal > b->as.ordinal) - (a->as.ordinal < b->as.ordinal);
    size_t common = a->as.string.len < b->as.string.len ? a->as.string.len : b->as.string.len;
    int r = memcmp(a->as.string.text, b->as.string.text, common);
    if (r != 0)
        return r;
    return (a->as.string.len > b->as.string.len) - (a->as.string.len < b->as.string.len);
}

// The budget is looked at now and then, n keys on. They are charged when all of them are seen: how many are
// until then may depend on the order of the hash.
static void look(lua_State *L, size_t n)
{
    if (n % STEP == STEP - 1)
        sandbox_poll(L, 0);
}

struct sorting {
    lua_State *L;
    size_t compared;
};

static bool less(void *ud, const void *a, const void *b)
{
    struct sorting *s = ud;
    look(s->L, ++s->compared);
    return compare(a, b) < 0;
}

static size_t count_keys(lua_State *L, int idx)
{
    size_t n = 0;
    lua_pushnil(L);
    while (lua_next(L, idx)) {
        lua_pop(L, 1);
        look(L, ++n);
    }
    return n;
}

void order_push(lua_State *L, int idx)
{
    idx = absolute(L, idx);
    luaL_checkstack(L, 8, "too many values");
    size_t n = count_keys(L, idx);
    lua_createtable(L, (int)n, 0);
    int keys = lua_gettop(L);
    size_t spare = n / 2 + 1; // for the sort
    struct order *o = lua_newuserdata(L, sizeof(*o) + (n + spare) * sizeof(o->keys[0]));
    o->count = 0;
    lua_pushnil(L);
    while (lua_next(L, idx)) {
        lua_pop(L, 1);
        o->keys[o->count].place = (unsigned)o->count + 1;
        read_key(L, -1, &o->keys[o->count]);
        o->count++;
        lua_pushvalue(L, -1);
        lua_rawseti(L, keys, (int)o->count);
        look(L, o->count);
    }
    struct sorting sorting = {.L = L};
    struct merge_sort by_key = {sizeof(o->keys[0]), less, &sorting, (char *)&o->keys[n]};
    merge_sort(&by_key, (char *)o->keys, o->count);
    sandbox_charge(L, 8 * n);
}

size_t order_count(lua_State *L, int order)
{
    const struct order *o = lua_touserdata(L, order);
    return o->count;
}

void order_push_key(lua_State *L, int keys, int order, size_t i)
{
    const struct order *o = lua_touserdata(L, order);
    lua_rawgeti(L, keys, (int)o->keys[i].place);
}

size_t order_after(lua_State *L, int order, int idx)
{
    const struct order *o = lua_touserdata(L, order);
    struct key k;
    read_key(L, idx, &k);
    size_t low = 0;
    size_t high = o->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if (compare(&o->keys[middle], &k) <= 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

// Pushes the first key from place i on that still has a value, and the value; returns the place behind it, or
// 0 when there is none.
static size_t push_from(lua_State *L, int table, int keys, int order, size_t i)
{
    for (size_t n = order_count(L, order); i < n; i++) {
        look(L, i);
        order_push_key(L, keys, order, i);
        lua_pushvalue(L, -1);
        lua_rawget(L, table);
        if (!lua_isnil(L, -1))
            return i + 1;
        lua_pop(L, 2);
    }
    return 0;
}

// Upvalues: the table, keys, order, the place.
static int on_step(lua_State *L)
{
    lua_settop(L, 0);
    size_t i = (size_t)lua_tointeger(L, lua_upvalueindex(4));
    i = push_from(L, lua_upvalueindex(1), lua_upvalueindex(2), lua_upvalueindex(3), i);
    if (i == 0) {
        lua_pushnil(L);
        return 1;
    }
    lua_pushinteger(L, (lua_Integer)i);
    lua_replace(L, lua_upvalueindex(4));
    return 2;
}

// Upvalues: the table, how many it had when the walk began, the place. A script never gets LuaJIT's own next:
// that would show it the entry of a lazy table, and the order of hashes in a table that grows while it is
// walked through.
static int on_sequence_step(lua_State *L)
{
    lua_Integer n = lua_tointeger(L, lua_upvalueindex(2));
    lua_settop(L, 0);
    for (lua_Integer i = lua_tointeger(L, lua_upvalueindex(3)) + 1; i <= n; i++) {
        look(L, (size_t)i);
        lua_pushinteger(L, i);
        lua_rawgeti(L, lua_upvalueindex(1), (int)i);
        if (!lua_isnil(L, -1)) {
            lua_pushvalue(L, 1);
            lua_replace(L, lua_upvalueindex(3));
            return 2;
        }
        lua_settop(L, 0);
    }
    lua_pushnil(L);
    return 1;
}

// Are the keys of the table at 1 just 1 to n, and LuaJIT's own order of them that one?
static bool is_sequence(lua_State *L, size_t *ret_n)
{
    size_t n = 0;
    lua_pushnil(L);
    while (lua_next(L, 1)) {
        lua_pop(L, 1);
        look(L, ++n);
        if (lua_type(L, -1) != LUA_TNUMBER || lua_tonumber(L, -1) != (lua_Number)n) {
            lua_pop(L, 1);
            return false;
        }
    }
    *ret_n = n;
    sandbox_charge(L, n);
    return true;
}

int order_pairs(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    convert_force(L, 1);
    lua_settop(L, 1);
    size_t n;
    lua_pushvalue(L, 1);
    if (is_sequence(L, &n)) {
        lua_pushinteger(L, (lua_Integer)n);
        lua_pushinteger(L, 0);
        lua_pushcclosure(L, on_sequence_step, 3);
    } else {
        order_push(L, 1);
        lua_pushinteger(L, 0);
        lua_pushcclosure(L, on_step, 4);
    }
    lua_pushvalue(L, 1);
    lua_pushnil(L);
    return 3;
}

// The least key, by one look at each: next(t) as a test for emptiness makes nothing.
static int push_first(lua_State *L)
{
    struct key least;
    struct key k;
    bool found = false;
    size_t n = 0;
    lua_settop(L, 1);
    lua_pushlightuserdata(L, &cache_key); // a new walk begins
    lua_pushnil(L);
    lua_rawset(L, LUA_REGISTRYINDEX);
    lua_pushnil(L); // 2: the least so far
    lua_pushnil(L);
    while (lua_next(L, 1)) {
        lua_pop(L, 1);
        look(L, ++n);
        read_key(L, -1, &k);
        if (found && compare(&k, &least) >= 0)
            continue;
        least = k;
        found = true;
        lua_pushvalue(L, -1);
        lua_replace(L, 2);
    }
    sandbox_charge(L, n);
    if (!found)
        return 1;
    lua_pushvalue(L, 2);
    lua_rawget(L, 1);
    return 2;
}

// Pushes table, keys and order of the last walk if it was over the table at 1; else begins one.
static void push_walk(lua_State *L)
{
    lua_pushlightuserdata(L, &cache_key);
    lua_rawget(L, LUA_REGISTRYINDEX);
    if (lua_istable(L, -1)) {
        lua_rawgeti(L, -1, 1);
        bool same = lua_rawequal(L, -1, 1);
        lua_pop(L, 1);
        if (same) {
            lua_rawgeti(L, -1, 2);
            lua_rawgeti(L, -2, 3);
            return;
        }
    }
    order_push(L, 1); // 4: keys, 5: order
    lua_createtable(L, 3, 0);
    for (int i = 1; i <= 3; i++) {
        lua_pushvalue(L, i == 1 ? 1 : i + 2);
        lua_rawseti(L, -2, i);
    }
    lua_pushlightuserdata(L, &cache_key);
    lua_insert(L, -2);
    lua_rawset(L, LUA_REGISTRYINDEX);
}

int order_next(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    convert_force(L, 1);
    if (lua_isnoneornil(L, 2))
        return push_first(L);
    lua_settop(L, 2);
    push_walk(L); // 3: the walk, 4: keys, 5: order
    size_t i = order_after(L, 5, 2);
    if (push_from(L, 1, 4, 5, i) > 0)
        return 2;
    lua_pushlightuserdata(L, &cache_key); // the walk is over: let the table go
    lua_pushnil(L);
    lua_rawset(L, LUA_REGISTRYINDEX);
    lua_pushnil(L);
    return 1;
}
