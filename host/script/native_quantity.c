#include "script/native_quantity.h"

#include <ctype.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <lauxlib.h>

#include "base/err.h"
#include "data/quantity.h"
#include "script/plain_text.h"

static char metatable_key;

struct quantity {
    char text[QUANTITY_TEXT_MAX]; // canonical
};

static const struct {
    const char *name;
    int bits;    // a power of two
    int decimal; // or of ten
} suffixes[] = {
    {"Ki", 10, 0}, {"Mi", 20, 0}, {"Gi", 30, 0}, {"Ti", 40, 0}, {"Pi", 50, 0}, {"Ei", 60, 0},
    {"n", 0, -9},  {"u", 0, -6},  {"m", 0, -3},  {"", 0, 0},    {"k", 0, 3},   {"M", 0, 6},
    {"G", 0, 9},   {"T", 0, 12},  {"P", 0, 15},  {"E", 0, 18},
};

static void push_metatable(lua_State *L)
{
    lua_pushlightuserdata(L, &metatable_key);
    lua_rawget(L, LUA_REGISTRYINDEX);
}

static struct quantity *get(lua_State *L, int idx)
{
    if (lua_type(L, idx) != LUA_TUSERDATA || !lua_getmetatable(L, idx))
        return NULL;
    push_metatable(L);
    bool same = lua_rawequal(L, -1, -2);
    lua_pop(L, 2);
    return same ? lua_touserdata(L, idx) : NULL;
}

const char *native_quantity_text(lua_State *L, int idx)
{
    const struct quantity *q = get(L, idx);
    return q != NULL ? q->text : NULL;
}

static int push_text(lua_State *L, const char *text)
{
    struct err e;
    char canonical[QUANTITY_TEXT_MAX];
    if (quantity_canonical(text, canonical, &e) < 0)
        return luaL_error(
            L, "\"%s\" is not a quantity: write a number with a suffix such as \"500m\", \"2\" or \"1Gi\"",
            text);
    struct quantity *q = lua_newuserdata(L, sizeof(*q));
    memcpy(q->text, canonical, sizeof(canonical));
    push_metatable(L);
    lua_setmetatable(L, -2);
    return 1;
}

// Numbers are taken as they would be written: 1, 0.5.
static int push_any(lua_State *L, int idx)
{
    if (get(L, idx) != NULL) {
        lua_pushvalue(L, idx);
        return 1;
    }
    if (lua_type(L, idx) == LUA_TNUMBER) {
        char text[32];
        lua_Number n = lua_tonumber(L, idx);
        snprintf(text, sizeof(text), "%.15g", isnan(n) ? fabs(n) : n); // of NaN the sign is chance
        return push_text(L, text);
    }
    const char *text = plain_text(L, idx);
    if (text == NULL)
        return luaL_error(L, "a quantity is made of text or a number, not of a %s",
                          lua_type(L, idx) == LUA_TSTRING ? "text with a NUL" : luaL_typename(L, idx));
    return push_text(L, text);
}

int native_quantity_new(lua_State *L)
{
    lua_settop(L, 1);
    return push_any(L, 1);
}

// --- exact arithmetic in units of 1n ---

static bool power(__int128 *v, int base, int times)
{
    for (; times > 0; times--) {
        if (__builtin_mul_overflow(*v, (__int128)base, v))
            return false;
    }
    return true;
}

struct parts {
    __int128 digits; // all of them, without the point
    int scale;       // how many stand behind the point
    bool negative;
    const char *suffix;
};

static bool split(const char *text, struct parts *ret)
{
    struct parts p = {.negative = *text == '-'};
    bool point = false;
    if (*text == '-' || *text == '+')
        text++;
    for (; isdigit((unsigned char)*text) || *text == '.'; text++) {
        if (*text == '.') {
            point = true;
            continue;
        }
        if (!power(&p.digits, 10, 1) || __builtin_add_overflow(p.digits, (__int128)(*text - '0'), &p.digits))
            return false;
        p.scale += point;
    }
    p.suffix = text;
    *ret = p;
    return true;
}

static bool is_exponent(const char *suffix)
{
    return (suffix[0] == 'e' || suffix[0] == 'E') &&
           (isdigit((unsigned char)suffix[1]) || suffix[1] == '-' || suffix[1] == '+');
}

static bool read_exponent(const char *digits, int *ret)
{
    int value;
    if (sscanf(digits, "%4d", &value) != 1 || value > 100 || value < -100)
        return false;
    *ret = value;
    return true;
}

// Nano units, rounded away from zero as the API server does; false beyond about 10^29.
static bool to_nanos(const char *text, __int128 *ret)
{
    struct parts p;
    if (!split(text, &p))
        return false;
    int bits = 0;
    int decimal = 0;
    if (is_exponent(p.suffix)) {
        if (!read_exponent(p.suffix + 1, &decimal))
            return false;
    } else {
        for (size_t i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
            if (strcmp(suffixes[i].name, p.suffix) == 0) {
                bits = suffixes[i].bits;
                decimal = suffixes[i].decimal;
            }
        }
    }
    __int128 v = p.digits;
    int exponent = decimal + 9 - p.scale;
    if (!power(&v, 2, bits) || !power(&v, 10, exponent))
        return false;
    for (; exponent < 0 && v > 0; exponent++)
        v = v / 10 + (v % 10 != 0);
    *ret = p.negative ? -v : v;
    return true;
}

static void print_int128(char out[48], __int128 v)
{
    char reversed[48];
    size_t n = 0;
    unsigned __int128 u = v < 0 ? -(unsigned __int128)v : (unsigned __int128)v;
    do {
        reversed[n++] = (char)('0' + (int)(u % 10));
        u /= 10;
    } while (u > 0);
    if (v < 0)
        *out++ = '-';
    while (n > 0)
        *out++ = reversed[--n];
    *out = 0;
}

// In the family of `like`: binary suffixes when it has one and the value is whole Ki, else decimal ones.
static int push_nanos(lua_State *L, __int128 v, const char *like)
{
    enum { KI = 1024 };
    __int128 unit = (__int128)KI * 1000000000;
    char text[56];
    bool binary = strchr(like, 'i') != NULL && v % unit == 0;
    print_int128(text, binary ? v / unit : v);
    strcat(text, binary ? "Ki" : "n");
    return push_text(L, text);
}

static int too_large(lua_State *L)
{
    return luaL_error(L, "quantity: the amount is too large");
}

// Both operands as quantities at 3 and 4, in nano units.
static void operands(lua_State *L, __int128 *a, __int128 *b)
{
    lua_settop(L, 2);
    push_any(L, 1);
    push_any(L, 2);
    if (!to_nanos(get(L, 3)->text, a) || !to_nanos(get(L, 4)->text, b))
        too_large(L);
}

static int on_sum(lua_State *L, int sign)
{
    __int128 a = 0;
    __int128 b = 0;
    operands(L, &a, &b);
    if (__builtin_add_overflow(a, b * sign, &a))
        return too_large(L);
    // Zero has no family of its own.
    const char *like = strcmp(get(L, 3)->text, "0") == 0 ? get(L, 4)->text : get(L, 3)->text;
    return push_nanos(L, a, like);
}

static int on_add(lua_State *L)
{
    return on_sum(L, 1);
}

static int on_sub(lua_State *L)
{
    return on_sum(L, -1);
}

static int on_unm(lua_State *L)
{
    lua_settop(L, 1);
    __int128 a = 0;
    if (!to_nanos(get(L, 1)->text, &a))
        return too_large(L);
    return push_nanos(L, -a, get(L, 1)->text);
}

static int on_mul(lua_State *L)
{
    int q = get(L, 1) != NULL ? 1 : 2;
    int factor = 3 - q;
    lua_Number n = lua_type(L, factor) == LUA_TNUMBER ? lua_tonumber(L, factor) : NAN;
    if (!(n == floor(n) && fabs(n) <= 0x1p53))
        return luaL_error(L, "a quantity can be multiplied by a whole number only");
    __int128 a = 0;
    if (!to_nanos(get(L, q)->text, &a) || __builtin_mul_overflow(a, (__int128)n, &a))
        return too_large(L);
    return push_nanos(L, a, get(L, q)->text);
}

static int compare(lua_State *L)
{
    lua_settop(L, 2);
    push_any(L, 1);
    push_any(L, 2);
    return quantity_compare(get(L, 3)->text, get(L, 4)->text);
}

static int on_eq(lua_State *L)
{
    lua_pushboolean(L, compare(L) == 0);
    return 1;
}

static int on_lt(lua_State *L)
{
    lua_pushboolean(L, compare(L) < 0);
    return 1;
}

static int on_le(lua_State *L)
{
    lua_pushboolean(L, compare(L) <= 0);
    return 1;
}

static int on_compare(lua_State *L)
{
    lua_pushinteger(L, compare(L));
    return 1;
}

static int on_tostring(lua_State *L)
{
    const struct quantity *q = get(L, 1);
    if (q == NULL)
        return luaL_argerror(L, 1, "quantity expected");
    lua_pushstring(L, q->text);
    return 1;
}

// As a plain number, in units of one: may round, as a Lua number does.
static int on_tonumber(lua_State *L)
{
    const struct quantity *q = get(L, 1);
    __int128 v = 0;
    if (q == NULL)
        return luaL_argerror(L, 1, "quantity expected");
    if (!to_nanos(q->text, &v))
        return too_large(L);
    lua_pushnumber(L, (lua_Number)(v / 1000000000) + (lua_Number)(v % 1000000000) / 1e9);
    return 1;
}

static int on_concat(lua_State *L)
{
    for (int i = 1; i <= 2; i++) {
        const char *text = native_quantity_text(L, i);
        if (text != NULL)
            lua_pushstring(L, text);
        else if (lua_isstring(L, i))
            lua_pushvalue(L, i);
        else
            return luaL_error(L, "attempt to concatenate a %s value", luaL_typename(L, i));
    }
    lua_concat(L, 2);
    return 1;
}

static void set_functions(lua_State *L, const luaL_Reg *functions)
{
    for (const luaL_Reg *f = functions; f->name != NULL; f++) {
        lua_pushcfunction(L, f->func);
        lua_setfield(L, -2, f->name);
    }
}

void native_quantity_open(lua_State *L)
{
    static const luaL_Reg methods[] = {{"compare", on_compare}, {"tonumber", on_tonumber}, {NULL, NULL}};
    static const luaL_Reg meta[] = {
        {"__eq", on_eq},         {"__lt", on_lt},   {"__le", on_le},   {"__add", on_add},
        {"__sub", on_sub},       {"__mul", on_mul}, {"__unm", on_unm}, {"__tostring", on_tostring},
        {"__concat", on_concat}, {NULL, NULL}};
    lua_pushlightuserdata(L, &metatable_key);
    lua_newtable(L);
    set_functions(L, meta);
    lua_newtable(L);
    set_functions(L, methods);
    lua_setfield(L, -2, "__index");
    lua_pushboolean(L, 0);
    lua_setfield(L, -2, "__metatable");
    lua_rawset(L, LUA_REGISTRYINDEX);
}
