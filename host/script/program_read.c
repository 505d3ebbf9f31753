#include "script/program_read.h"

#include <ctype.h>
#include <lauxlib.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/nearest.h"
#include "data/quantity.h"
#include "script/order.h"
#include "script/plain_text.h"
#include "script/selector_text.h"

enum {
    NAME_MAX_LEN = 63,
    INDEX_MAX = 100,
    LIST_MAX = 1000,
    WORKERS_MAX = 1000,
    FAST_ATTEMPTS_MAX = 1000,
    TEXT_MAX = 1024,
    SELECTOR_MAX = 64 * 1024
};

static const char *const known_keys[] = {
    "name",
    "subject",
    "selector",
    "fields",
    "namespaces",
    "changed",
    "when",
    "reconcile",
    "finalize",
    "validate",
    "mutate",
    "convert",
    "crd",
    "index",
    "workers",
    "resync",
    "retry",
    "service_account",
    "http",
    "finalize_timeout",
    "finalize_abandon",
    "limits",
    NULL,
};
static const char *const limits_keys[] = {"cpu", "memory", NULL};
static const char *const retry_keys[] = {"kind", "base", "max", "fast_attempts", "jitter", NULL};
static const char *const retry_kinds[] = {"exponential", "fast_slow", "fixed", NULL};

static void free_list(char **list)
{
    for (char **p = list; p != NULL && *p != NULL; p++)
        free(*p);
    free(list);
}

void program_texts_fini(struct program_texts *t)
{
    free(t->name);
    free(t->subject);
    free(t->selector);
    free(t->fields);
    free(t->service_account);
    free(t->retry_kind);
    free_list(t->namespaces);
    free_list(t->changed);
    free_list(t->index);
    free(t->indexes);
    *t = (struct program_texts){0};
}

// Pushes a member without metamethods.
static void push_member(lua_State *L, int idx, const char *name)
{
    lua_pushstring(L, name);
    lua_rawget(L, idx);
}

bool program_read_is_script(lua_State *L, int idx)
{
    if (!lua_istable(L, idx))
        return false;
    push_member(L, idx, "subject");
    bool found = !lua_isnil(L, -1);
    lua_pop(L, 1);
    return found;
}

// All keys are known; the first wrong one in order is named, with the nearest known.
static void check_keys(lua_State *L, int idx, const char *const *known, const char *prefix)
{
    int top = lua_gettop(L);
    order_push(L, idx);
    size_t n = order_count(L, top + 2);
    for (size_t i = 0; i < n; i++) {
        order_push_key(L, top + 1, top + 2, i);
        if (lua_type(L, -1) != LUA_TSTRING)
            luaL_error(L, "%s[...]: a key that is no name (a %s) is not known", prefix, luaL_typename(L, -1));
        const char *key = lua_tostring(L, -1);
        bool found = false;
        for (int k = 0; known[k] != NULL; k++)
            found = found || strcmp(known[k], key) == 0;
        const char *near = found ? NULL : nearest_name(key, known);
        if (near != NULL)
            luaL_error(L, "%s%s: unknown key; did you mean '%s'?", prefix, key, near);
        if (!found)
            luaL_error(L, "%s%s: unknown key; remove it, or keep it in a local variable", prefix, key);
        lua_pop(L, 1);
    }
    lua_settop(L, top);
}

// The value at the top. The host keeps it, beyond the budget of the script that made it: so it has a limit.
static const char *check_text(lua_State *L, const char *where)
{
    size_t n;
    if (lua_type(L, -1) != LUA_TSTRING)
        luaL_error(L, "%s: expected a text, got a %s", where, luaL_typename(L, -1));
    const char *text = lua_tolstring(L, -1, &n);
    if (n == 0 || strlen(text) != n)
        luaL_error(L, "%s: must not be empty or hold NUL", where);
    if (n > TEXT_MAX)
        luaL_error(L, "%s: is longer than %d bytes", where, TEXT_MAX);
    return text;
}

// The member as a text in *slot, or NULL when it is absent.
static const char *read_text(lua_State *L, int idx, const char *name, const char *where, char **slot)
{
    push_member(L, idx, name);
    if (!lua_isnil(L, -1))
        *slot = xstrdup(check_text(L, where));
    lua_pop(L, 1);
    return *slot;
}

static const char *read_selector(lua_State *L, int idx, const char *name, enum selector_text_kind kind,
                                 char **slot)
{
    push_member(L, idx, name);
    if (!lua_isnil(L, -1)) {
        selector_text_push(L, -1, kind, name);
        const char *text = lua_tostring(L, -1);
        if (lua_objlen(L, -1) > SELECTOR_MAX)
            luaL_error(L, "%s: is longer than %d bytes", name, SELECTOR_MAX);
        if (text[0] != 0)
            *slot = xstrdup(text);
        lua_pop(L, 1);
    }
    lua_pop(L, 1);
    return *slot;
}

// A list of texts, NULL-terminated, in *slot.
static const char *const *read_list(lua_State *L, int idx, const char *name, char ***slot)
{
    push_member(L, idx, name);
    if (!lua_isnil(L, -1)) {
        if (!lua_istable(L, -1))
            luaL_error(L, "%s: expected a list of texts, got a %s", name, luaL_typename(L, -1));
        size_t n = lua_objlen(L, -1);
        if (n == 0 || n > LIST_MAX)
            luaL_error(L, "%s: expected a list of 1 to %d texts", name, LIST_MAX);
        *slot = xcalloc(n + 1, sizeof(**slot));
        for (size_t i = 0; i < n; i++) {
            char where[64];
            snprintf(where, sizeof(where), "%s[%zu]", name, i + 1);
            lua_rawgeti(L, -1, (int)i + 1);
            (*slot)[i] = xstrdup(check_text(L, where));
            lua_pop(L, 1);
        }
    }
    lua_pop(L, 1);
    return (const char *const *)*slot;
}

// The texts first: what raises leaves them to program_texts_fini.
static void read_index(lua_State *L, int idx, struct program_texts *t)
{
    int top = lua_gettop(L);
    push_member(L, idx, "index");
    if (lua_isnil(L, -1)) {
        lua_settop(L, top);
        return;
    }
    if (!lua_istable(L, -1))
        luaL_error(L, "index: expected names and paths such as { node = \"spec.nodeName\" }, got a %s",
                   luaL_typename(L, -1));
    order_push(L, top + 1);
    size_t n = order_count(L, top + 3);
    if (n > INDEX_MAX)
        luaL_error(L, "index: has %d names, more than the limit of %d", (int)n, INDEX_MAX);
    t->index = xcalloc(2 * n + 1, sizeof(t->index[0]));
    t->indexes = xcalloc(n + 1, sizeof(t->indexes[0]));
    for (size_t i = 0; i < n; i++) {
        order_push_key(L, top + 2, top + 3, i);
        lua_pushvalue(L, -1);
        lua_rawget(L, top + 1);
        if (lua_type(L, -2) != LUA_TSTRING)
            luaL_error(L, "index: expected names, got a list; write { node = \"spec.nodeName\" }");
        if (lua_type(L, -1) != LUA_TSTRING || !selector_text_is_path(lua_tostring(L, -1), lua_objlen(L, -1)))
            luaL_error(L, "index.%s: expected a dotted path such as \"spec.nodeName\"", lua_tostring(L, -2));
        if (lua_objlen(L, -2) > TEXT_MAX || lua_objlen(L, -1) > TEXT_MAX)
            luaL_error(L, "index: a name or path is longer than %d bytes", TEXT_MAX);
        t->index[2 * i] = xstrdup(lua_tostring(L, -2));
        t->index[2 * i + 1] = xstrdup(lua_tostring(L, -1));
        t->indexes[i] = (struct program_index){t->index[2 * i], t->index[2 * i + 1]};
        lua_settop(L, top + 3);
    }
    t->spec.index = t->indexes;
    t->spec.index_count = n;
    lua_settop(L, top);
}

// A Go duration or seconds; 0 when absent.
static int64_t read_duration(lua_State *L, int idx, const char *name, const char *prefix)
{
    int64_t us = 0;
    push_member(L, idx, name);
    int type = lua_type(L, -1);
    if (type == LUA_TNUMBER) {
        lua_Number seconds = lua_tonumber(L, -1);
        us = seconds > 0 && seconds < 1e9 ? (int64_t)(seconds * 1e6) : -1;
    } else if (type != LUA_TNIL) {
        const char *text = plain_text(L, -1);
        us = text != NULL && duration_parse(text, &us) == 0 ? us : -1;
    }
    if (type != LUA_TNIL && us <= 0)
        luaL_error(L, "%s%s: expected a duration above zero such as \"30s\" or \"1h30m\", or seconds", prefix,
                   name);
    lua_pop(L, 1);
    return us;
}

static int read_count(lua_State *L, int idx, const char *name, const char *prefix, int max)
{
    push_member(L, idx, name);
    lua_Number n = lua_tonumber(L, -1);
    if (!lua_isnil(L, -1) && (lua_type(L, -1) != LUA_TNUMBER || !(n >= 1 && n <= max) || n != (int)n))
        luaL_error(L, "%s%s: expected a whole number from 1 to %d", prefix, name, max);
    lua_pop(L, 1);
    return (int)n;
}

static bool read_bool(lua_State *L, int idx, const char *name, const char *prefix)
{
    push_member(L, idx, name);
    if (!lua_isnil(L, -1) && !lua_isboolean(L, -1))
        luaL_error(L, "%s%s: expected true or false, got a %s", prefix, name, luaL_typename(L, -1));
    bool v = lua_toboolean(L, -1);
    lua_pop(L, 1);
    return v;
}

static bool read_function(lua_State *L, int idx, const char *name)
{
    push_member(L, idx, name);
    if (!lua_isnil(L, -1) && !lua_isfunction(L, -1))
        luaL_error(L, "%s: expected a function, got a %s", name, luaL_typename(L, -1));
    bool found = lua_isfunction(L, -1);
    lua_pop(L, 1);
    return found;
}

static void check_type(lua_State *L, int idx, const char *name, int type)
{
    push_member(L, idx, name);
    if (!lua_isnil(L, -1) && lua_type(L, -1) != type)
        luaL_error(L, "%s: expected a %s, got a %s", name, lua_typename(L, type), luaL_typename(L, -1));
    lua_pop(L, 1);
}

static bool is_dns_label(const char *s)
{
    size_t n = strlen(s);
    if (n == 0 || n > NAME_MAX_LEN || s[0] == '-' || s[n - 1] == '-')
        return false;
    for (; *s != 0; s++) {
        if (!(*s >= 'a' && *s <= 'z') && !(*s >= '0' && *s <= '9') && *s != '-')
            return false;
    }
    return true;
}

static void read_name(lua_State *L, int idx, const char *stem, struct program_texts *t)
{
    if (read_text(L, idx, "name", "name", &t->name) == NULL) {
        t->name = xstrdup(stem);
        if (!is_dns_label(t->name))
            luaL_error(
                L,
                "name: is missing, and the file's name '%s' can not stand for it; give the table a name of "
                "at most 63 lower-case letters, digits and '-'",
                stem);
    }
    if (!is_dns_label(t->name))
        luaL_error(L,
                   "name: '%s' must be at most 63 lower-case letters, digits and '-', with no '-' at an end",
                   t->name);
    t->spec.name = t->name;
}

// "group/version/Kind", or "version/Kind" of the core group.
static bool is_subject(const char *s)
{
    const char *last = strrchr(s, '/');
    if (last == NULL || !isupper((unsigned char)last[1]))
        return false;
    for (const char *p = last + 1; *p != 0; p++) {
        if (!isalnum((unsigned char)*p))
            return false;
    }
    const char *version = last;
    while (version > s && version[-1] != '/')
        version--;
    if (version[0] != 'v' || !isdigit((unsigned char)version[1]))
        return false;
    if (version == s)
        return true;
    for (const char *p = s; p < version - 1; p++) {
        if (!islower((unsigned char)*p) && !isdigit((unsigned char)*p) && *p != '-' && *p != '.')
            return false;
    }
    return version - 1 > s;
}

static void read_subject(lua_State *L, int idx, struct program_texts *t)
{
    t->spec.subject = read_text(L, idx, "subject", "subject", &t->subject);
    if (!is_subject(t->subject))
        luaL_error(L,
                   "subject: '%s' must be group/version/Kind such as \"apps/v1/Deployment\", or version/Kind "
                   "for the "
                   "core group such as \"v1/Pod\"",
                   t->subject);
}

// Says what would have no effect.
static void check_retry_kind(lua_State *L, const struct program_texts *t)
{
    const char *kind = t->retry_kind == NULL ? "exponential" : t->retry_kind;
    if (t->spec.retry.fast_attempts != 0 && strcmp(kind, "fast_slow") != 0)
        luaL_error(L, "retry.fast_attempts: is for kind = \"fast_slow\" only");
    if (t->spec.retry.max_us != 0 && strcmp(kind, "fixed") == 0)
        luaL_error(L, "retry.max: kind = \"fixed\" has one delay, retry.base");
}

static void read_retry(lua_State *L, int idx, struct program_texts *t)
{
    check_type(L, idx, "retry", LUA_TTABLE);
    push_member(L, idx, "retry");
    if (!lua_isnil(L, -1)) {
        int at = lua_gettop(L);
        check_keys(L, at, retry_keys, "retry.");
        t->spec.retry.given = true;
        t->spec.retry.kind = read_text(L, at, "kind", "retry.kind", &t->retry_kind);
        bool known = t->retry_kind == NULL;
        for (int i = 0; retry_kinds[i] != NULL; i++)
            known = known || strcmp(retry_kinds[i], t->retry_kind) == 0;
        if (!known)
            luaL_error(L, "retry.kind: '%s' is none of exponential, fast_slow, fixed", t->retry_kind);
        t->spec.retry.base_us = read_duration(L, at, "base", "retry.");
        t->spec.retry.max_us = read_duration(L, at, "max", "retry.");
        if (t->spec.retry.max_us != 0 && t->spec.retry.max_us < t->spec.retry.base_us)
            luaL_error(L, "retry.max: must not be less than retry.base");
        t->spec.retry.fast_attempts = read_count(L, at, "fast_attempts", "retry.", FAST_ATTEMPTS_MAX);
        t->spec.retry.jitter = read_bool(L, at, "jitter", "retry.");
        check_retry_kind(L, t);
    }
    lua_pop(L, 1);
}

static size_t read_bytes(lua_State *L, int idx, const char *name, const char *prefix)
{
    uint64_t n = 0;
    push_member(L, idx, name);
    int type = lua_type(L, -1);
    if (type == LUA_TNUMBER) {
        lua_Number v = lua_tonumber(L, -1);
        n = v > 0 && v < 0x1p53 && v == floor(v) ? (uint64_t)v : 0;
    } else {
        const char *text = plain_text(L, -1);
        n = text != NULL && quantity_whole(text, &n) == 0 ? n : 0;
    }
    if (type != LUA_TNIL && n < PROGRAM_MEMORY_MIN)
        luaL_error(L, "%s%s: expected a size from \"1Mi\" such as \"32Mi\", or bytes", prefix, name);
    lua_pop(L, 1);
    return (size_t)n;
}

// What a pass may use; whether the host gives so much is not known here.
static void read_limits(lua_State *L, int idx, struct program_spec *spec)
{
    check_type(L, idx, "limits", LUA_TTABLE);
    push_member(L, idx, "limits");
    if (!lua_isnil(L, -1)) {
        int at = lua_gettop(L);
        check_keys(L, at, limits_keys, "limits.");
        spec->limits.cpu_us = (uint64_t)read_duration(L, at, "cpu", "limits.");
        if (spec->limits.cpu_us != 0 && spec->limits.cpu_us < PROGRAM_CPU_MIN_US)
            luaL_error(L, "limits.cpu: expected 1ms or more, such as \"250ms\"");
        spec->limits.memory = read_bytes(L, at, "memory", "limits.");
    }
    lua_pop(L, 1);
}

static void read_functions(lua_State *L, int idx, struct program_spec *spec)
{
    if (!read_function(L, idx, "reconcile"))
        luaL_error(L, "reconcile: is missing; a script needs reconcile = function(object, world) ... end");
    spec->has_when = read_function(L, idx, "when");
    spec->has_finalize = read_function(L, idx, "finalize");
    spec->has_validate = read_function(L, idx, "validate");
    spec->has_mutate = read_function(L, idx, "mutate");
    spec->has_convert = read_function(L, idx, "convert");
}

void program_read(lua_State *L, int idx, const char *stem, struct program_texts *t)
{
    struct program_spec *spec = &t->spec;
    luaL_checkstack(L, 20, "too many values");
    check_keys(L, idx, known_keys, "");
    read_name(L, idx, stem, t);
    read_subject(L, idx, t);
    read_functions(L, idx, spec);
    spec->selector = read_selector(L, idx, "selector", SELECTOR_TEXT_LABELS, &t->selector);
    spec->fields = read_selector(L, idx, "fields", SELECTOR_TEXT_FIELDS, &t->fields);
    spec->namespaces = read_list(L, idx, "namespaces", &t->namespaces);
    spec->changed = read_list(L, idx, "changed", &t->changed);
    if (spec->changed != NULL && spec->has_when)
        luaL_error(L, "changed: give either changed or when, not both");
    spec->resync_us = read_duration(L, idx, "resync", "");
    spec->finalize_timeout_us = read_duration(L, idx, "finalize_timeout", "");
    spec->finalize_abandon = read_bool(L, idx, "finalize_abandon", "");
    if (!spec->has_finalize && (spec->finalize_timeout_us != 0 || spec->finalize_abandon))
        luaL_error(L, "finalize_timeout, finalize_abandon: there is no finalize function they could be for");
    spec->workers = read_count(L, idx, "workers", "", WORKERS_MAX);
    spec->service_account = read_text(L, idx, "service_account", "service_account", &t->service_account);
    read_retry(L, idx, t);
    read_limits(L, idx, spec);
    check_type(L, idx, "crd", LUA_TTABLE);
    read_index(L, idx, t);
}
