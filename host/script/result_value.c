#include "script/result_value.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <lauxlib.h>

#include "base/nearest.h"
#include "base/strset.h"
#include "script/boxed.h"
#include "script/convert.h"
#include "script/convert_internal.h"
#include "script/sandbox.h"

static int complain(struct result_checker *c, enum err_code code, const struct value_path *path,
                    const char *fmt, va_list ap)
{
    char where[VALUE_PATH_TEXT_MAX];
    char what[ERR_TEXT_MAX - VALUE_PATH_TEXT_MAX - 8];
    value_path_format(where, path);
    vsnprintf(what, sizeof(what), fmt, ap);
    return err_set(c->e, code, where[0] != 0 ? "%s: %s" : "%s%s", where, what);
}

int result_bad(struct result_checker *c, const struct value_path *path, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int r = complain(c, ERR_INVALID, path, fmt, ap);
    va_end(ap);
    return r;
}

int result_over(struct result_checker *c, const struct value_path *path, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int r = complain(c, ERR_LIMIT, path, fmt, ap);
    va_end(ap);
    return r;
}

static void describe_text(lua_State *L, int idx, char out[RESULT_TEXT_MAX])
{
    enum { SHOWN_MAX = 60 };
    size_t n;
    const char *s = lua_tolstring(L, idx, &n);
    size_t shown = str_utf8_cut(s, n, SHOWN_MAX);
    if (!str_is_utf8(s, shown) || strlen(s) < shown)
        snprintf(out, RESULT_TEXT_MAX, "text of %zu bytes", n);
    else
        snprintf(out, RESULT_TEXT_MAX, "\"%.*s%s\"", (int)shown, s, shown < n ? "..." : "");
}

void result_describe(lua_State *L, int idx, char out[RESULT_TEXT_MAX])
{
    switch (lua_type(L, idx)) {
    case LUA_TNIL:
        strcpy(out, "nothing");
        break;
    case LUA_TBOOLEAN:
        strcpy(out, lua_toboolean(L, idx) ? "true" : "false");
        break;
    case LUA_TNUMBER:
        snprintf(out, RESULT_TEXT_MAX, "%.14g", lua_tonumber(L, idx));
        break;
    case LUA_TSTRING:
        describe_text(L, idx, out);
        break;
    case LUA_TTABLE:
        strcpy(out, convert_is_array(L, idx) ? "a list" : "a table");
        break;
    default:
        if (convert_is_null(L, idx))
            strcpy(out, "k8s.null");
        else if (boxed_get(L, idx) != NULL)
            strcpy(out, "a 64-bit integer");
        else
            snprintf(out, RESULT_TEXT_MAX, "a %s", luaL_typename(L, idx));
    }
}

int result_wrong_type(struct result_checker *c, const struct value_path *path, const char *wanted)
{
    char got[RESULT_TEXT_MAX];
    result_describe(c->L, -1, got);
    return result_bad(c, path, "expected %s, got %s", wanted, got);
}

struct value_path result_member(const struct value_path *parent, const char *name)
{
    return (struct value_path){.parent = parent, .key = name, .key_len = strlen(name)};
}

void result_get(struct result_checker *c, const char *name)
{
    luaL_checkstack(c->L, 8, "result nested too deep");
    lua_pushstring(c->L, name);
    lua_rawget(c->L, -2);
}

bool result_has(struct result_checker *c, const char *name)
{
    result_get(c, name);
    bool has = !lua_isnil(c->L, -1);
    lua_pop(c->L, 1);
    return has;
}

enum { ENTRIES_MAX = 5000 }; // a plan, which has no budget, of so many takes a tenth of a second

int result_write_list(struct result_checker *c, const struct value_path *path, result_write_fn *write)
{
    lua_State *L = c->L;
    if (!lua_istable(L, -1))
        return result_wrong_type(c, path, "a list");
    convert_force(L, -1);
    if (result_has(c, "apiVersion"))
        return result_bad(c, path, "is one object, but must be a list of them: write { object }");
    size_t count;
    int r = convert_list_count(L, path, &count, c->e);
    if (r < 0)
        return r;
    if (count > ENTRIES_MAX)
        return result_over(c, path, "has %zu entries, more than the limit of %d a list", count, ENTRIES_MAX);
    jw_array(&c->w);
    for (size_t i = 1; i <= count && r == 0; i++) {
        struct value_path at = {.parent = path, .index = i};
        sandbox_poll(L, 0); // many small entries take long, too
        luaL_checkstack(L, 8, "result nested too deep");
        lua_rawgeti(L, -1, (int)i);
        r = write(c, &at);
        lua_pop(L, 1);
    }
    jw_array_end(&c->w);
    return r;
}

static const struct result_field *find_field(const struct result_field *fields, const char *name)
{
    for (; fields->name != NULL; fields++) {
        if (strcmp(fields->name, name) == 0)
            return fields;
    }
    return NULL;
}

static int unknown_field(struct result_checker *c, const struct value_path *path, const char *name,
                         const struct result_field *fields, const struct result_alias *aliases)
{
    enum { FIELDS_MAX = 16 };
    const char *known[FIELDS_MAX] = {NULL};
    char list[200] = "";
    for (size_t i = 0; fields[i].name != NULL && i + 1 < FIELDS_MAX; i++) {
        known[i] = fields[i].name;
        size_t n = strlen(list);
        snprintf(list + n, sizeof(list) - n, "%s%s", i > 0 ? ", " : "", fields[i].name);
    }
    const char *meant = nearest_name(name, known);
    for (; aliases->name != NULL; aliases++) {
        if (strcmp(aliases->name, name) == 0)
            meant = aliases->meant;
    }
    struct value_path at = result_member(path, name);
    if (!str_is_utf8(name, strlen(name)))
        at = (struct value_path){.parent = path, .key = "?", .key_len = 1};
    if (meant != NULL)
        return result_bad(c, &at, "is not a field here: did you mean \"%s\"?", meant);
    return result_bad(c, &at, "is not a field here: there are %s", list);
}

// The wrong field that comes first, so that the same table always gives the same error.
static int check_names(struct result_checker *c, const struct value_path *path,
                       const struct result_field *fields, const struct result_alias *aliases)
{
    lua_State *L = c->L;
    const char *unknown = NULL;
    int odd = LUA_TNIL; // the least type of keys that are no names
    luaL_checkstack(L, 8, "result nested too deep");
    lua_pushnil(L);
    while (lua_next(L, -2)) {
        lua_pop(L, 1);
        int type = lua_type(L, -1);
        if (type != LUA_TSTRING) {
            odd = odd == LUA_TNIL || type < odd ? type : odd;
            continue;
        }
        const char *name = lua_tostring(L, -1); // held by the table
        if (find_field(fields, name) == NULL && (unknown == NULL || strcmp(name, unknown) < 0))
            unknown = name;
    }
    if (odd != LUA_TNIL)
        return result_bad(c, path, "%shas a key of type %s: only field names belong here",
                          path == NULL ? "the result " : "", lua_typename(L, odd));
    return unknown != NULL ? unknown_field(c, path, unknown, fields, aliases) : 0;
}

int result_write_fields(struct result_checker *c, const struct value_path *path,
                        const struct result_field *fields, const struct result_alias *aliases)
{
    convert_force(c->L, -1);
    int r = check_names(c, path, fields, aliases);
    jw_object(&c->w);
    for (const struct result_field *f = fields; f->name != NULL && r == 0; f++) {
        struct value_path at = result_member(path, f->name);
        result_get(c, f->name);
        if (!lua_isnil(c->L, -1)) {
            jw_key(&c->w, f->as != NULL ? f->as : f->name);
            r = f->write(c, &at);
        } else if (f->required) {
            r = result_bad(c, &at, "is missing");
        }
        lua_pop(c->L, 1);
    }
    jw_object_end(&c->w);
    return r;
}
