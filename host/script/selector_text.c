#include "script/selector_text.h"

#include <lauxlib.h>
#include <stdio.h>
#include <string.h>

#include "script/convert.h"
#include "script/order.h"
#include "script/str_build.h"

enum { NAME_MAX_LEN = 63, PREFIX_MAX_LEN = 253 };

static bool is_alnum(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

// Letters and digits at both ends, '-', '_' and '.' between.
static bool is_name(const char *s, size_t n)
{
    if (n == 0 || n > NAME_MAX_LEN || !is_alnum(s[0]) || !is_alnum(s[n - 1]))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!is_alnum(s[i]) && (s[i] == 0 || strchr("-_.", s[i]) == NULL))
            return false;
    }
    return true;
}

static bool is_prefix(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!is_alnum(s[i]) && s[i] != '-' && s[i] != '.')
            return false;
    }
    return n > 0 && n <= PREFIX_MAX_LEN;
}

static bool is_label_key(const char *s, size_t n)
{
    const char *slash = memchr(s, '/', n);
    if (slash == NULL)
        return is_name(s, n);
    size_t prefix = (size_t)(slash - s);
    return is_prefix(s, prefix) && is_name(slash + 1, n - prefix - 1);
}

bool selector_text_is_path(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        if (!is_alnum(s[i]) && s[i] != '.' && s[i] != '_' && s[i] != '-' && s[i] != '/')
            return false;
    }
    return n > 0;
}

static void add_label(struct str_build *b, const char *what, const char *key, const char *value, size_t len)
{
    if (len > 0 && !is_name(value, len))
        luaL_error(b->L, "%s.%s: '%s' is no label value (at most 63 letters, digits, '-', '_', '.')", what,
                   key, value);
    str_build_add(b, value, len);
}

static void add_field(struct str_build *b, const char *value, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (value[i] == '\\' || value[i] == ',' || value[i] == '=')
            str_build_add(b, "\\", 1);
        str_build_add(b, value + i, 1);
    }
}

static void add_entry(lua_State *L, struct str_build *b, enum selector_text_kind kind, const char *what)
{
    if (lua_type(L, -2) != LUA_TSTRING)
        luaL_error(L, "%s: expected a map of names to texts, got a list; write {app = \"web\"}", what);
    size_t key_len;
    size_t len;
    const char *key = lua_tolstring(L, -2, &key_len);
    if (kind == SELECTOR_TEXT_LABELS ? !is_label_key(key, key_len) : !selector_text_is_path(key, key_len))
        luaL_error(L, "%s: '%s' is no %s", what, key,
                   kind == SELECTOR_TEXT_LABELS ? "label key" : "field path");
    if (lua_type(L, -1) != LUA_TSTRING)
        luaL_error(L, "%s.%s: expected a text, got a %s%s", what, key, luaL_typename(L, -1),
                   lua_type(L, -1) == LUA_TNUMBER || lua_type(L, -1) == LUA_TBOOLEAN ? "; use tostring()"
                                                                                     : "");
    const char *value = lua_tolstring(L, -1, &len);
    if (b->len > 0)
        str_build_add(b, ",", 1);
    str_build_add(b, key, key_len);
    str_build_add(b, "=", 1);
    if (kind == SELECTOR_TEXT_LABELS)
        add_label(b, what, key, value, len);
    else
        add_field(b, value, len);
}

// Pushes the text of the map at idx.
static void push_map(lua_State *L, int idx, enum selector_text_kind kind, const char *what)
{
    convert_force(L, idx);
    int top = lua_gettop(L);
    struct str_build b;
    str_build_init(&b, L);
    order_push(L, idx);
    size_t n = order_count(L, top + 3);
    for (size_t i = 0; i < n; i++) {
        order_push_key(L, top + 2, top + 3, i);
        lua_pushvalue(L, -1);
        lua_rawget(L, idx);
        add_entry(L, &b, kind, what);
        lua_settop(L, top + 3);
    }
    str_build_push(&b);
    lua_replace(L, top + 1);
    lua_settop(L, top + 1);
}

void selector_text_push(lua_State *L, int idx, enum selector_text_kind kind, const char *what)
{
    int type = lua_type(L, idx);
    if (type != LUA_TSTRING && type != LUA_TTABLE)
        luaL_error(L, "%s: expected a map or a selector text, got a %s", what, luaL_typename(L, idx));
    if (type == LUA_TSTRING)
        lua_pushvalue(L, idx);
    else
        push_map(L, idx < 0 ? lua_gettop(L) + idx + 1 : idx, kind, what);
    if (strlen(lua_tostring(L, -1)) != lua_objlen(L, -1))
        luaL_error(L, "%s: a selector is text without a NUL", what);
}
