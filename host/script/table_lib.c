#include "script/table_lib.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>

#include "script/boxed.h"
#include "script/convert.h"
#include "script/merge_sort.h"
#include "script/sandbox.h"
#include "script/str_build.h"

// Elements are sorted by place: the values stay in a table of their own, where neither a comparison nor the
// collector moves them.
struct item {
    unsigned place;
    unsigned len;
    union {
        double number;
        const char *text;
    } as;
};

enum order_by { BY_NUMBER, BY_TEXT, BY_CALL };

enum { POLL_BYTES = 1 << 20, POLL_ELEMENTS = 1024 };

struct sort {
    lua_State *L;
    size_t compared; // bytes of texts since the last look at the budget
    enum order_by by;
    bool has_function; // at index 2; the values at 3
};

// Are the two values at the top ordered by <, with a metamethod or without? The message of LuaJIT would lack
// the line.
static void check_comparable(lua_State *L)
{
    int type = lua_type(L, -2);
    if (type == lua_type(L, -1)) {
        if (type == LUA_TNUMBER || type == LUA_TSTRING)
            return;
        if (luaL_getmetafield(L, -2, "__lt")) {
            lua_pop(L, 1);
            return;
        }
    }
    luaL_error(L,
               "table.sort: elements can not be compared: %s with %s; give it a function that compares them",
               luaL_typename(L, -2), luaL_typename(L, -1));
}

static bool less_text(struct sort *s, const struct item *a, const struct item *b)
{
    if (a->as.text == b->as.text) // equal texts are one object
        return false;
    size_t n = a->len < b->len ? a->len : b->len;
    s->compared += n;
    if (s->compared > POLL_BYTES) {
        sandbox_poll(s->L, s->compared / 32);
        s->compared = 0;
    }
    int r = memcmp(a->as.text, b->as.text, n);
    return r != 0 ? r < 0 : a->len < b->len;
}

// Is a < b? May raise.
static bool less(void *ud, const void *x, const void *y)
{
    struct sort *s = ud;
    const struct item *a = x, *b = y;
    if (s->by == BY_NUMBER)
        return a->as.number < b->as.number;
    if (s->by == BY_TEXT)
        return less_text(s, a, b);
    lua_State *L = s->L;
    sandbox_poll(L, 0); // the function may be one in C
    bool result;
    if (s->has_function) {
        lua_pushvalue(L, 2);
        lua_rawgeti(L, 3, (int)a->place);
        lua_rawgeti(L, 3, (int)b->place);
        lua_call(L, 2, 1);
        result = lua_toboolean(L, -1);
        lua_pop(L, 1);
    } else {
        lua_rawgeti(L, 3, (int)a->place);
        lua_rawgeti(L, 3, (int)b->place);
        check_comparable(L);
        result = lua_lessthan(L, -2, -1);
        lua_pop(L, 2);
    }
    return result;
}

// Copies the elements to the table at 3 and says how they compare.
static enum order_by read_items(lua_State *L, struct item *items, size_t n)
{
    bool numbers = true;
    bool texts = true;
    for (size_t i = 0; i < n; i++) {
        struct item *item = &items[i];
        *item = (struct item){.place = (unsigned)i + 1};
        lua_rawgeti(L, 1, (int)i + 1);
        int type = lua_type(L, -1);
        numbers = numbers && type == LUA_TNUMBER;
        texts = texts && type == LUA_TSTRING;
        if (type == LUA_TNUMBER) {
            item->as.number = lua_tonumber(L, -1);
            numbers = numbers && item->as.number == item->as.number;
        } else if (type == LUA_TSTRING) {
            size_t len;
            item->as.text = lua_tolstring(L, -1, &len);
            item->len = (unsigned)len;
        }
        lua_rawseti(L, 3, (int)i + 1);
    }
    return numbers ? BY_NUMBER : texts ? BY_TEXT : BY_CALL;
}

int table_lib_sort(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    convert_force(L, 1);
    lua_settop(L, 2);
    struct sort s = {.L = L, .has_function = !lua_isnil(L, 2)};
    if (s.has_function)
        luaL_checktype(L, 2, LUA_TFUNCTION);
    size_t n = lua_objlen(L, 1);
    if (n > TABLE_LIB_SORT_MAX)
        return luaL_error(L, "table.sort: at most %d elements, got %d", TABLE_LIB_SORT_MAX, (int)n);
    luaL_checkstack(L, 8, "too many values");
    lua_createtable(L, (int)n, 0);
    struct item *items = lua_newuserdata(L, (n + 1) * sizeof(*items));
    struct merge_sort sort = {sizeof(*items), less, &s, lua_newuserdata(L, (n / 2 + 1) * sizeof(*items))};
    s.by = read_items(L, items, n);
    if (s.has_function)
        s.by = BY_CALL;
    sandbox_enter(L, "table.sort");
    merge_sort(&sort, (char *)items, n);
    sandbox_leave(L);
    sandbox_charge(L, 8 * n);
    for (size_t i = 0; i < n; i++) {
        lua_rawgeti(L, 3, (int)items[i].place);
        lua_rawseti(L, 1, (int)i + 1);
    }
    return 0;
}

// LuaJIT's moves 2^31 elements for a position such as -math.huge, without an end in sight.
int table_lib_insert(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    convert_force(L, 1);
    lua_Integer end = (lua_Integer)lua_objlen(L, 1) + 1;
    int top = lua_gettop(L);
    if (top == 2) {
        lua_rawseti(L, 1, (int)end);
        return 0;
    }
    if (top != 3)
        return luaL_error(L, "wrong number of arguments to 'insert'");
    lua_Number position = luaL_checknumber(L, 2);
    if (!(position >= 1 && position <= (lua_Number)end) || position != (lua_Number)(int)position)
        return luaL_error(L, "bad argument #2 to 'insert' (the position must be a whole number from 1 to %d)",
                          (int)end);
    for (lua_Integer i = end; i > (lua_Integer)position; i--) {
        if (i % POLL_ELEMENTS == 0)
            sandbox_poll(L, 0);
        lua_rawgeti(L, 1, (int)i - 1);
        lua_rawseti(L, 1, (int)i);
    }
    sandbox_charge(L, (uint64_t)(end - (lua_Integer)position));
    lua_rawseti(L, 1, (int)position);
    return 0;
}

static void add_element(lua_State *L, struct str_build *b, lua_Integer at)
{
    char text[BOXED_TEXT_MAX];
    lua_rawgeti(L, 1, (int)at);
    const struct boxed *exact = boxed_get(L, -1);
    if (exact != NULL) {
        boxed_format(text, exact);
        lua_pop(L, 1);
        str_build_add(b, text, strlen(text));
        return;
    }
    if (!lua_isstring(L, -1))
        luaL_error(L, "invalid value (%s) at index %d in table for 'concat'", luaL_typename(L, -1), (int)at);
    str_build_add_value(b);
}

int table_lib_concat(lua_State *L)
{
    size_t n;
    struct str_build b;
    luaL_checktype(L, 1, LUA_TTABLE);
    convert_force(L, 1);
    const char *between = luaL_optlstring(L, 2, "", &n);
    lua_Integer from = luaL_optint(L, 3, 1);
    lua_Integer to = lua_isnoneornil(L, 4) ? (lua_Integer)lua_objlen(L, 1) : luaL_checkint(L, 4);
    lua_settop(L, 4);
    str_build_init(&b, L);
    for (lua_Integer i = from; i <= to; i++) {
        if (i > from)
            str_build_add(&b, between, n);
        add_element(L, &b, i);
        if ((i - from) % POLL_ELEMENTS == POLL_ELEMENTS - 1)
            sandbox_poll(L, POLL_ELEMENTS);
    }
    if (to >= from)
        sandbox_charge(L, (uint64_t)(to - from + 1) % POLL_ELEMENTS);
    str_build_push(&b);
    return 1;
}
