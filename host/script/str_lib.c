#include "script/str_lib.h"

#include <lauxlib.h>
#include <math.h>
#include <stdbool.h>
#include <string.h>

#include "script/base_lib.h"
#include "script/pattern.h"
#include "script/sandbox.h"
#include "script/str_build.h"

static void check_error(lua_State *L, const struct pattern *p)
{
    if (p->error != NULL)
        luaL_error(L, "%s", p->error);
}

static void charge(lua_State *L, const struct pattern *p)
{
    sandbox_charge(L, (PATTERN_STEPS_MAX - p->steps) / 4);
}

// Capture i; the whole match [from, to) stands for the first one of a pattern without captures.
static void push_capture(lua_State *L, const struct pattern *p, int i, const char *from, const char *to)
{
    if (i >= p->count) {
        if (i > 0)
            luaL_error(L, "invalid capture index");
        lua_pushlstring(L, from, (size_t)(to - from));
        return;
    }
    const struct pattern_capture *c = &p->captures[i];
    if (c->len == PATTERN_POSITION)
        lua_pushinteger(L, c->start - p->subject + 1);
    else if (c->len == PATTERN_OPEN)
        luaL_error(L, "unfinished capture");
    else
        lua_pushlstring(L, c->start, (size_t)c->len);
}

// All captures; with `whole` a pattern without any gives the match.
static int push_captures(lua_State *L, const struct pattern *p, const char *from, const char *to, bool whole)
{
    int n = p->count == 0 && whole ? 1 : p->count;
    luaL_checkstack(L, n, "too many captures");
    for (int i = 0; i < n; i++)
        push_capture(L, p, i, from, to);
    return n;
}

// The optional start position, as an offset within the subject.
static size_t start_offset(lua_State *L, int arg, size_t len)
{
    lua_Integer i = luaL_optinteger(L, arg, 1);
    if (i < 0)
        i += (lua_Integer)len + 1;
    if (i <= 0)
        return 0;
    return (size_t)(i - 1) > len ? len : (size_t)(i - 1);
}

static int find_plain(lua_State *L, const char *subject, size_t len, size_t start, const char *text,
                      size_t text_len)
{
    const char *found =
        text_len == 0 ? subject + start : memmem(subject + start, len - start, text, text_len);
    sandbox_charge(L, (len - start) / 8); // its worst
    if (found == NULL) {
        lua_pushnil(L);
        return 1;
    }
    lua_pushinteger(L, found - subject + 1);
    lua_pushinteger(L, found - subject + (lua_Integer)text_len);
    return 2;
}

static int search(lua_State *L, bool find)
{
    size_t len;
    size_t text_len;
    const char *subject = luaL_checklstring(L, 1, &len);
    const char *text = luaL_checklstring(L, 2, &text_len);
    size_t start = start_offset(L, 3, len);
    if (find && (lua_toboolean(L, 4) || pattern_is_plain(text, text_len)))
        return find_plain(L, subject, len, start, text, text_len);
    struct pattern p;
    pattern_init(&p, subject, len);
    bool anchored = *text == '^';
    const char *at = subject + start;
    const char *end;
    do {
        end = pattern_match(&p, at, text + anchored);
    } while (end == NULL && p.error == NULL && !anchored && at++ < p.subject_end);
    charge(L, &p);
    check_error(L, &p);
    if (end == NULL) {
        lua_pushnil(L);
        return 1;
    }
    if (!find)
        return push_captures(L, &p, at, end, true);
    lua_pushinteger(L, at - subject + 1);
    lua_pushinteger(L, end - subject);
    return push_captures(L, &p, at, end, false) + 2;
}

int str_lib_find(lua_State *L)
{
    return search(L, true);
}

int str_lib_match(lua_State *L)
{
    return search(L, false);
}

// Upvalues: subject, pattern, the offset to go on from.
static int on_gmatch(lua_State *L)
{
    size_t len;
    const char *subject = lua_tolstring(L, lua_upvalueindex(1), &len);
    const char *text = lua_tostring(L, lua_upvalueindex(2));
    struct pattern p;
    pattern_init(&p, subject, len);
    for (const char *at = subject + (size_t)lua_tonumber(L, lua_upvalueindex(3)); at <= p.subject_end; at++) {
        const char *end = pattern_match(&p, at, text);
        if (p.error != NULL)
            break;
        if (end == NULL)
            continue;
        lua_pushnumber(L, (lua_Number)(end - subject + (end == at))); // an empty match moves on, too
        lua_replace(L, lua_upvalueindex(3));
        charge(L, &p);
        return push_captures(L, &p, at, end, true);
    }
    charge(L, &p);
    check_error(L, &p);
    return 0;
}

int str_lib_gmatch(lua_State *L)
{
    luaL_checkstring(L, 1);
    luaL_checkstring(L, 2);
    lua_settop(L, 2);
    lua_pushnumber(L, 0);
    lua_pushcclosure(L, on_gmatch, 3);
    return 1;
}

// --- gsub ---

enum { POLL_TURNS = 1024 };

struct gsub {
    lua_State *L;
    unsigned turns; // since the last look at the budget
    struct pattern p;
    struct str_build out;
    int type; // of the replacement, at index 3
};

static void count_turn(struct gsub *g)
{
    if (++g->turns < POLL_TURNS)
        return;
    g->turns = 0;
    sandbox_poll(g->L, (uint64_t)POLL_TURNS * 8);
}

// The replacement text with %0 to %9 filled in.
static void add_template(struct gsub *g, const char *from, const char *to)
{
    size_t len;
    const char *text = lua_tolstring(g->L, 3, &len);
    for (size_t i = 0; i < len; i++) {
        const char *percent = memchr(text + i, '%', len - i);
        size_t plain = percent != NULL ? (size_t)(percent - text) - i : len - i;
        str_build_add(&g->out, text + i, plain);
        i += plain;
        if (percent == NULL)
            break;
        count_turn(g);
        i++; // at the end of the text this is its NUL, as in LuaJIT
        if (text[i] < '0' || text[i] > '9') {
            str_build_add(&g->out, text + i, 1);
        } else if (text[i] == '0') {
            str_build_add(&g->out, from, (size_t)(to - from));
        } else {
            push_capture(g->L, &g->p, text[i] - '1', from, to);
            str_build_add_value(&g->out);
        }
    }
}

static void add_replacement(struct gsub *g, const char *from, const char *to)
{
    lua_State *L = g->L;
    if (g->type == LUA_TFUNCTION) {
        sandbox_poll(L, 0); // it may be one in C
        lua_pushvalue(L, 3);
        int n = push_captures(L, &g->p, from, to, true);
        lua_call(L, n, 1);
    } else if (g->type == LUA_TTABLE) {
        sandbox_poll(L, 0); // __index, too
        push_capture(L, &g->p, 0, from, to);
        lua_gettable(L, 3);
    } else {
        add_template(g, from, to);
        return;
    }
    if (!lua_toboolean(L, -1)) {
        lua_pop(L, 1);
        str_build_add(&g->out, from, (size_t)(to - from));
    } else if (lua_isstring(L, -1)) {
        str_build_add_value(&g->out);
    } else {
        luaL_error(L, "invalid replacement value (a %s)", luaL_typename(L, -1));
    }
}

int str_lib_gsub(lua_State *L)
{
    size_t len;
    const char *subject = luaL_checklstring(L, 1, &len);
    const char *text = luaL_checkstring(L, 2);
    struct gsub g = {.L = L, .type = lua_type(L, 3)};
    luaL_argcheck(
        L, g.type == LUA_TNUMBER || g.type == LUA_TSTRING || g.type == LUA_TFUNCTION || g.type == LUA_TTABLE,
        3, "string/function/table expected");
    lua_Number most = floor(luaL_optnumber(L, 4, (lua_Number)len + 1));
    lua_settop(L, 3);
    if (g.type == LUA_TNUMBER) {
        base_lib_push_number(L, lua_tonumber(L, 3));
        lua_replace(L, 3);
    }
    bool anchored = *text == '^';
    text += anchored;
    str_build_init(&g.out, L);
    pattern_init(&g.p, subject, len);
    sandbox_enter(L, "string.gsub");
    const char *at = subject;
    const char *copied = subject; // up to here the subject is in the result, replaced or as it was
    lua_Integer n = 0;
    while ((lua_Number)n < most) {
        const char *end = pattern_match(&g.p, at, text);
        check_error(L, &g.p);
        if (end != NULL) {
            n++;
            count_turn(&g);
            str_build_add(&g.out, copied, (size_t)(at - copied));
            add_replacement(&g, at, end);
            copied = end;
        }
        if (end != NULL && end > at)
            at = end;
        else if (at < g.p.subject_end)
            at++;
        else
            break;
        if (anchored)
            break;
    }
    sandbox_leave(L);
    charge(L, &g.p);
    str_build_add(&g.out, copied, (size_t)(g.p.subject_end - copied));
    str_build_push(&g.out);
    lua_pushinteger(L, n);
    return 2;
}

int str_lib_rep(lua_State *L)
{
    size_t len;
    size_t sep_len;
    const char *s = luaL_checklstring(L, 1, &len);
    lua_Number times = luaL_checknumber(L, 2);
    const char *sep = luaL_optlstring(L, 3, "", &sep_len);
    if (!(times >= 1) || len + sep_len == 0) {
        lua_pushliteral(L, "");
        return 1;
    }
    if (times > STR_LIB_REP_MAX || (lua_Number)(len + sep_len) * times > STR_LIB_REP_MAX)
        return luaL_error(L, "string.rep: the result would be longer than %d bytes", STR_LIB_REP_MAX);
    // The text and its separator once, then what is there again and again.
    size_t unit = len + sep_len;
    size_t total = unit * (size_t)times;
    char *out = lua_newuserdata(L, total);
    memcpy(out, s, len);
    memcpy(out + len, sep, sep_len);
    for (size_t have = unit; have < total;) {
        size_t more = have < total - have ? have : total - have;
        memcpy(out + have, out, more);
        have += more;
    }
    sandbox_charge(L, total / 64);
    lua_pushlstring(L, out, total - sep_len);
    return 1;
}
