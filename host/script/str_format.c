#include "script/str_format.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "script/allow.h"
#include "script/boxed.h"
#include "script/sandbox.h"
#include "script/str_build.h"

enum { NUMBER_TEXT_MAX = 512, SPEC_MAX = 16 }; // %99.99f of the largest double has 409 characters

struct spec {
    char text[SPEC_MAX]; // "%-5.2", then the length modifier and the letter
    size_t len;
    char letter;
    bool plain; // no flags, width or precision
};

static const char *skip_digits(lua_State *L, const char *p, const char *end, const char *what)
{
    for (int i = 0; p < end && *p >= '0' && *p <= '9'; i++, p++) {
        if (i == 2)
            luaL_error(L, "string.format: the %s has more than two digits", what);
    }
    return p;
}

// Reads what follows a '%'; returns what follows the letter.
static const char *read_spec(lua_State *L, const char *p, const char *end, struct spec *ret)
{
    const char *from = p;
    while (p < end && *p != 0 && strchr("-+ #0", *p) != NULL)
        p++;
    if (p - from > 5)
        luaL_error(L, "string.format: too many flags");
    p = skip_digits(L, p, end, "width");
    if (p < end && *p == '.')
        p = skip_digits(L, p + 1, end, "precision");
    if (p == end)
        luaL_error(L, "string.format: the format ends in the middle of a %% directive");
    ret->len = 0;
    ret->text[ret->len++] = '%';
    memcpy(ret->text + 1, from, (size_t)(p - from));
    ret->len += (size_t)(p - from);
    ret->plain = p == from;
    ret->letter = *p;
    return p + 1;
}

static void finish_spec(struct spec *s, const char *modifier, char letter)
{
    snprintf(s->text + s->len, sizeof(s->text) - s->len, "%s%c", modifier, letter);
}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral" // the directive was checked and rebuilt

// The integer at arg; beyond INT64_MAX it is one without a sign.
static uint64_t check_integer(lua_State *L, int arg, bool *ret_unsigned)
{
    const struct boxed *boxed = boxed_get(L, arg);
    if (boxed != NULL) {
        *ret_unsigned = !boxed->negative && boxed->magnitude > INT64_MAX;
        return boxed->negative ? -boxed->magnitude : boxed->magnitude;
    }
    lua_Number v = luaL_checknumber(L, arg);
    *ret_unsigned = v >= 0x1p63 && v < 0x1p64;
    if (*ret_unsigned)
        return (uint64_t)v;
    if (!(v >= -0x1p63 && v < 0x1p63))
        luaL_argerror(L, arg, "the number has no integer representation");
    return (uint64_t)(int64_t)v;
}

static void add_integer(struct str_build *b, struct spec *s, int arg)
{
    char text[NUMBER_TEXT_MAX];
    bool is_unsigned;
    uint64_t v = check_integer(b->L, arg, &is_unsigned);
    finish_spec(s, "ll", is_unsigned && (s->letter == 'd' || s->letter == 'i') ? 'u' : s->letter);
    int n = snprintf(text, sizeof(text), s->text, (unsigned long long)v);
    str_build_add(b, text, (size_t)n);
}

static void add_character(struct str_build *b, struct spec *s, int arg)
{
    char text[NUMBER_TEXT_MAX];
    int c = (int)luaL_checkinteger(b->L, arg);
    finish_spec(s, "", 'c');
    int n = snprintf(text, sizeof(text), s->text, c);
    str_build_add(b, text, (size_t)n);
}

static void add_double(struct str_build *b, struct spec *s, int arg)
{
    char text[NUMBER_TEXT_MAX];
    lua_Number v = luaL_checknumber(b->L, arg);
    finish_spec(s, "", s->letter);
    if (v != v)
        v = __builtin_nan(""); // no "-nan": its sign differs from machine to machine
    int n = snprintf(text, sizeof(text), s->text, v);
    str_build_add(b, text, (size_t)n);
}

static void add_string(struct str_build *b, struct spec *s, int arg)
{
    lua_State *L = b->L;
    luaL_checkany(L, arg);
    allow_push_tostring(L, arg);
    size_t len;
    const char *text = lua_tolstring(L, -1, &len);
    if (s->plain || (len >= 100 && strchr(s->text, '.') == NULL)) {
        str_build_add_value(b); // a width of two digits does not matter for it
        return;
    }
    char out[NUMBER_TEXT_MAX];
    finish_spec(s, "", 's');
    int n = snprintf(out, sizeof(out), s->text, text);
    str_build_add(b, out, (size_t)n);
    lua_pop(L, 1);
}

#pragma GCC diagnostic pop

enum { POLL_BYTES = 64 << 10, POLL_PERCENTS = 1024 };

// A Lua literal that reads back as the string.
static void add_quoted(struct str_build *b, int arg)
{
    size_t len;
    const char *s = luaL_checklstring(b->L, arg, &len);
    str_build_add(b, "\"", 1);
    for (size_t i = 0; i < len; i++) {
        unsigned char c = (unsigned char)s[i];
        char escape[8];
        if (c == '"' || c == '\\' || c == '\n') {
            str_build_add(b, "\\", 1);
            str_build_add(b, s + i, 1);
        } else if (c < 32 || c == 127) {
            bool digit = i + 1 < len && s[i + 1] >= '0' && s[i + 1] <= '9';
            int n = snprintf(escape, sizeof(escape), digit ? "\\%03d" : "\\%d", c);
            str_build_add(b, escape, (size_t)n);
        } else {
            str_build_add(b, s + i, 1);
        }
        if (i % POLL_BYTES == POLL_BYTES - 1)
            sandbox_poll(b->L, POLL_BYTES / 32);
    }
    str_build_add(b, "\"", 1);
}

// A byte that can not be shown as Lua writes it in a text.
static void raise_unknown(lua_State *L, unsigned char letter)
{
    if (letter > ' ' && letter < 127)
        luaL_error(L, "string.format: unknown directive '%%%c'", letter);
    else
        luaL_error(L, "string.format: unknown directive '%%\\%d'", letter);
}

static void add_directive(struct str_build *b, struct spec *s, int arg)
{
    switch (s->letter) {
    case 'c':
        add_character(b, s, arg);
        break;
    case 'd':
    case 'i':
    case 'u':
    case 'o':
    case 'x':
    case 'X':
        add_integer(b, s, arg);
        break;
    case 'a':
    case 'A':
    case 'e':
    case 'E':
    case 'f':
    case 'g':
    case 'G':
        add_double(b, s, arg);
        break;
    case 'q':
        add_quoted(b, arg);
        break;
    case 's':
        add_string(b, s, arg);
        break;
    default:
        raise_unknown(b->L, (unsigned char)s->letter);
    }
}

int str_format(lua_State *L)
{
    size_t len;
    const char *p = luaL_checklstring(L, 1, &len);
    const char *end = p + len;
    int top = lua_gettop(L);
    int arg = 1;
    unsigned percents = 0;
    struct str_build b;
    str_build_init(&b, L);
    sandbox_enter(L, "string.format");
    while (p < end) {
        const char *percent = memchr(p, '%', (size_t)(end - p));
        if (percent == NULL)
            percent = end;
        str_build_add(&b, p, (size_t)(percent - p));
        if (percent == end)
            break;
        p = percent + 1;
        if (p < end && *p == '%') {
            str_build_add(&b, p++, 1);
            if (++percents % POLL_PERCENTS == 0)
                sandbox_poll(L, POLL_PERCENTS);
            continue;
        }
        struct spec spec;
        p = read_spec(L, p, end, &spec);
        if (++arg > top)
            return luaL_argerror(L, arg, "no value");
        size_t before = b.len;
        add_directive(&b, &spec, arg);
        sandbox_charge(L, strchr("aAeEfFgG", spec.letter) != NULL ? b.len - before : (b.len - before) / 64);
    }
    sandbox_leave(L);
    str_build_push(&b);
    return 1;
}
