#include "script/world_lib.h"

#include <lauxlib.h>
#include <stdbool.h>
#include <string.h>

#include "base/nearest.h"
#include "script/convert.h"
#include "script/order.h"
#include "script/plain_text.h"
#include "script/sandbox.h"
#include "script/selector_text.h"

enum {
    SECRET_LENGTH_MAX = 1024,
    SECRET_LENGTH = 32,
    LOG_MESSAGE_MAX = 8 * 1024, // the log cuts longer values
    LOG_FIELDS_MAX = 8 * 1024,
    READ_COST = 256,
    OBJECT_WORK = 500,    // instructions that parsing one is as long as, about
    NAME_MAX_BYTES = 512, // more than any kind, name, namespace or UID has
    OBJECT_COST = sizeof(struct world_object) + 2 * sizeof(void *),
};

static struct world_lib *lib_of(lua_State *L)
{
    return sandbox_ud(L);
}

// --- arguments ---

static const char *ordinal(int arg)
{
    static const char *const names[] = {"1st", "2nd", "3rd"};
    return names[arg - 1];
}

static const char *check_text(lua_State *L, int arg, const char *function, const char *what)
{
    if (lua_type(L, arg) != LUA_TSTRING)
        luaL_error(L, "%s: %s argument must be %s, got %s", function, ordinal(arg), what,
                   luaL_typename(L, arg));
    return lua_tostring(L, arg);
}

// A text that nothing of is lost as a C string.
static const char *check_word(lua_State *L, int arg, const char *function, const char *what)
{
    const char *text = check_text(L, arg, function, what);
    if (strlen(text) != lua_objlen(L, arg))
        luaL_error(L, "%s: %s argument must be %s, got a text with a NUL", function, ordinal(arg), what);
    return text;
}

static const char *opt_word(lua_State *L, int arg, const char *function, const char *what)
{
    return lua_isnoneornil(L, arg) ? NULL : check_word(L, arg, function, what);
}

static bool is_known(const char *const *known, const char *name)
{
    while (*known != NULL && strcmp(*known, name) != 0)
        known++;
    return *known != NULL;
}

// Options are absent or a table whose keys are all known.
static bool check_options(lua_State *L, int arg, const char *function, const char *const *known)
{
    if (lua_isnoneornil(L, arg))
        return false;
    if (!lua_istable(L, arg))
        luaL_error(L, "%s: %s argument must be a table of options, got %s", function, ordinal(arg),
                   luaL_typename(L, arg));
    convert_force(L, arg);
    bool list = false;
    const char *unknown = NULL; // the first, whatever the order of the table's hash
    lua_pushnil(L);
    while (lua_next(L, arg)) {
        lua_pop(L, 1);
        const char *key = lua_type(L, -1) == LUA_TSTRING ? lua_tostring(L, -1) : NULL;
        list = list || key == NULL;
        if (key != NULL && !is_known(known, key) && (unknown == NULL || strcmp(key, unknown) < 0))
            unknown = key; // held by the table
    }
    if (list)
        luaL_error(L, "%s: options are named, got a list; write {labels = {app = \"web\"}}", function);
    const char *near = unknown != NULL ? nearest_name(unknown, known) : NULL;
    if (unknown != NULL)
        luaL_error(L, "%s: unknown option '%s'%s%s%s", function, unknown,
                   near != NULL ? "; did you mean '" : "", near != NULL ? near : "",
                   near != NULL ? "'?" : "");
    return true;
}

// Pushes a member without metamethods: a script's __index must not run from here.
static void push_member(lua_State *L, int idx, const char *name)
{
    if (idx < 0)
        idx = lua_gettop(L) + idx + 1;
    lua_pushstring(L, name);
    lua_rawget(L, idx);
}

// Pushes the option; a text or NULL when it is absent.
static const char *option_text(lua_State *L, int arg, const char *function, const char *name)
{
    push_member(L, arg, name);
    if (lua_isnil(L, -1))
        return NULL;
    if (lua_type(L, -1) != LUA_TSTRING)
        luaL_error(L, "%s: %s must be a text, got %s", function, name, luaL_typename(L, -1));
    if (plain_text(L, -1) == NULL)
        luaL_error(L, "%s: %s must be a text without a NUL", function, name);
    return lua_tostring(L, -1);
}

// --- answers ---

// What a provider's error does to the pass.
static void check_answer(lua_State *L, int r, const struct err *e)
{
    if (r == 0)
        return;
    if (r == -ERR_PARKED)
        sandbox_stop(L, PASS_PARKED, "%s", e->text);
    if (r == -ERR_CANCELED)
        sandbox_stop(L, PASS_CANCELED, "%s", e->text);
    luaL_error(L, "%s", e->text);
}

static void count_memory(lua_State *L, size_t memory)
{
    if (memory > sandbox_memory_left(L))
        sandbox_out_of_memory(L);
    sandbox_memory_add(L, memory);
}

static size_t check_name(lua_State *L, const char *function, const char *what, const char *text)
{
    size_t n = text != NULL ? strlen(text) : 0;
    if (n > NAME_MAX_BYTES)
        luaL_error(L, "%s: the %s is longer than %d bytes: no %s is", function, what, NAME_MAX_BYTES, what);
    return n;
}

// What is asked is held until the pass has ended and as what it depends on after that, whatever the answer:
// so it is counted first.
static void count_query(lua_State *L, const char *function, const struct world_query *q, const char *name)
{
    size_t bytes = check_name(L, function, "kind", q->kind) + check_name(L, function, "name", name) +
                   check_name(L, function, "namespace", q->ns) +
                   check_name(L, function, "owner's UID", q->owner_uid);
    bytes += q->labels != NULL ? strlen(q->labels) : 0;
    bytes += q->fields != NULL ? strlen(q->fields) : 0;
    count_memory(L, READ_COST + 3 * bytes);
}

// And the place of each object that was read.
static void count_objects(lua_State *L, size_t objects)
{
    count_memory(L, objects * OBJECT_COST);
}

static int push_list(lua_State *L, const struct world_list *list)
{
    count_objects(L, list->count);
    lua_createtable(L, (int)list->count, 0);
    for (size_t i = 0; i < list->count; i++) {
        convert_push_lazy(L, list->items[i].json, list->items[i].len);
        lua_rawseti(L, -2, (int)i + 1);
    }
    convert_mark_array(L, -1);
    return 1;
}

static int on_get(lua_State *L)
{
    struct world_lib *w = lib_of(L);
    const char *kind = check_word(L, 1, "world.get", "a kind such as \"v1/Pod\"");
    const char *name = check_word(L, 2, "world.get", "a name");
    const char *ns = opt_word(L, 3, "world.get", "a namespace");
    struct world_object object = {0};
    struct err e = {0};
    count_query(L, "world.get", &(struct world_query){.kind = kind, .ns = ns}, name);
    check_answer(L, w->ops->get(w->ud, kind, name, ns, &object, &e), &e);
    count_objects(L, object.json != NULL);
    if (object.json == NULL)
        lua_pushnil(L);
    else
        convert_push_lazy(L, object.json, object.len);
    return 1;
}

// Pushes the UID that the owner option names: a text, or an object that was read.
static const char *option_owner(lua_State *L, int arg)
{
    push_member(L, arg, "owner");
    if (lua_isnil(L, -1))
        return NULL;
    if (lua_istable(L, -1)) {
        convert_force(L, -1);
        push_member(L, -1, "metadata");
        if (lua_istable(L, -1))
            push_member(L, -1, "uid");
    }
    if (lua_type(L, -1) != LUA_TSTRING)
        luaL_error(L, "world.list: owner must be an object that was read, with metadata.uid, or its UID");
    return lua_tostring(L, -1);
}

static const char *option_selector(lua_State *L, int arg, const char *name, enum selector_text_kind kind,
                                   const char *what)
{
    push_member(L, arg, name);
    if (lua_isnil(L, -1))
        return NULL;
    selector_text_push(L, -1, kind, what);
    const char *text = lua_tostring(L, -1);
    return text[0] != 0 ? text : NULL;
}

// The path that the script's table has for a name.
static const char *indexed_path(lua_State *L, const struct program_spec *spec, const char *name)
{
    size_t n = spec != NULL ? spec->index_count : 0;
    for (size_t i = 0; i < n; i++) {
        if (strcmp(spec->index[i].name, name) == 0)
            return spec->index[i].path;
    }
    luaL_error(L, "world.list: index.%s: the script's table has no index of that name", name);
    return NULL;
}

// The option as a field selector's text (left on the stack), with that of `fields` before it.
static const char *option_index(lua_State *L, int arg, const char *fields)
{
    push_member(L, arg, "index");
    if (lua_isnil(L, -1))
        return fields;
    int top = lua_gettop(L);
    if (!lua_istable(L, top))
        luaL_error(L, "world.list: index: expected names and values such as { node = \"n1\" }, got a %s",
                   luaL_typename(L, top));
    lua_newtable(L);
    convert_force(L, top);
    order_push(L, top);
    for (size_t i = 0, n = order_count(L, top + 3); i < n; i++) {
        order_push_key(L, top + 2, top + 3, i);
        if (lua_type(L, -1) != LUA_TSTRING)
            luaL_error(L, "world.list: index: expected names, got a list; write { node = \"n1\" }");
        lua_pushstring(L, indexed_path(L, lib_of(L)->spec, lua_tostring(L, -1)));
        lua_insert(L, -2);
        lua_rawget(L, top);
        lua_rawset(L, top + 1);
    }
    selector_text_push(L, top + 1, SELECTOR_TEXT_FIELDS, "world.list: index");
    if (fields == NULL)
        return lua_tostring(L, -1);
    lua_pushfstring(L, "%s,%s", fields, lua_tostring(L, -1));
    return lua_tostring(L, -1);
}

static void read_query(lua_State *L, struct world_query *q)
{
    static const char *const known[] = {"namespace", "labels", "fields", "index", "owner", "metadata", NULL};
    luaL_checkstack(L, 40, "too many values");
    if (!check_options(L, 2, "world.list", known))
        return;
    // Each option stays on the stack while its text is used.
    q->ns = option_text(L, 2, "world.list", "namespace");
    q->labels = option_selector(L, 2, "labels", SELECTOR_TEXT_LABELS, "world.list: labels");
    q->fields = option_selector(L, 2, "fields", SELECTOR_TEXT_FIELDS, "world.list: fields");
    q->fields = option_index(L, 2, q->fields);
    q->owner_uid = option_owner(L, 2);
    push_member(L, 2, "metadata");
    if (!lua_isnil(L, -1) && !lua_isboolean(L, -1))
        luaL_error(L, "world.list: metadata must be true or false, got %s", luaL_typename(L, -1));
    q->metadata_only = lua_toboolean(L, -1);
}

static bool is_over(void *L, uint64_t objects)
{
    return sandbox_is_over(L, objects * OBJECT_WORK);
}

static int on_list(lua_State *L)
{
    struct world_lib *w = lib_of(L);
    struct world_query q = {.kind = check_word(L, 1, "world.list", "a kind such as \"v1/Pod\""),
                            .is_over = is_over,
                            .is_over_ud = L};
    read_query(L, &q);
    count_query(L, "world.list", &q, NULL);
    struct world_list list = {0};
    struct err e = {0};
    int r = w->ops->list(w->ud, &q, &list, &e);
    sandbox_poll(L, 0);
    check_answer(L, r, &e);
    return push_list(L, &list);
}

static int on_children(lua_State *L)
{
    struct world_lib *w = lib_of(L);
    const char *kind = check_word(L, 1, "world.children", "a kind such as \"v1/Service\"");
    struct world_list list = {0};
    struct err e = {0};
    count_query(L, "world.children", &(struct world_query){.kind = kind}, NULL);
    check_answer(L, w->ops->children(w->ud, kind, &list, &e), &e);
    return push_list(L, &list);
}

static int on_now(lua_State *L)
{
    lua_pushnumber(L, (lua_Number)lib_of(L)->now_us / 1e6);
    return 1;
}

static int on_data(lua_State *L)
{
    struct world_lib *w = lib_of(L);
    const char *key = check_word(L, 1, "world.data", "a key of the script's ConfigMap");
    size_t len = 0;
    const char *text = w->ops->data != NULL ? w->ops->data(w->ud, key, &len) : NULL;
    if (text == NULL)
        lua_pushnil(L);
    else
        lua_pushlstring(L, text, len);
    return 1;
}

// The optional table of fields as JSON in the scratch buffer, or NULL.
static const char *log_fields(lua_State *L, struct world_lib *w)
{
    if (lua_isnoneornil(L, 3))
        return NULL;
    if (!lua_istable(L, 3))
        luaL_error(L, "world.log: 3rd argument must be a table of fields, got %s", luaL_typename(L, 3));
    buf_reset(&w->scratch);
    w->scratch.max = LOG_FIELDS_MAX;
    struct json_writer writer;
    struct err e;
    jw_init(&writer, &w->scratch);
    if (convert_write(L, 3, &writer, "fields", &e) < 0)
        luaL_error(L, "world.log: %s", e.text);
    if (w->scratch.data[0] != '{')
        luaL_error(L, "world.log: fields are named, got a list; write {pod = name}");
    return w->scratch.data;
}

static int on_log(lua_State *L)
{
    static const char *const levels[] = {"error", "warn", "info", "debug", NULL};
    struct world_lib *w = lib_of(L);
    const char *level = check_word(L, 1, "world.log", "a level (\"error\", \"warn\", \"info\", \"debug\")");
    const char *message = check_text(L, 2, "world.log", "a text");
    bool known = false;
    for (int i = 0; levels[i] != NULL; i++)
        known = known || strcmp(levels[i], level) == 0;
    if (!known)
        return luaL_error(L, "world.log: unknown level '%s'; use \"error\", \"warn\", \"info\" or \"debug\"",
                          level);
    if (plain_text(L, 2) == NULL)
        return luaL_error(L, "world.log: the message has a NUL, which a log line can not hold");
    if (lua_objlen(L, 2) > LOG_MESSAGE_MAX)
        return luaL_error(L, "world.log: a message has at most %d bytes", LOG_MESSAGE_MAX);
    const char *fields = log_fields(L, w);
    size_t bytes = lua_objlen(L, 2) + (fields != NULL ? w->scratch.len : 0);
    if (w->log_lines == w->lines_max)
        sandbox_stop(L, PASS_LIMIT, "world.log: more than %u lines in one pass", w->lines_max);
    if (bytes > w->log_max - w->log_bytes)
        sandbox_stop(L, PASS_LIMIT, "world.log: more than %zu bytes in one pass", w->log_max);
    w->log_lines++;
    w->log_bytes += bytes;
    if (w->ops->log != NULL)
        w->ops->log(w->ud, level, message, fields);
    return 0;
}

static int on_secret_value(lua_State *L)
{
    static const char *const known[] = {"length", "charset", NULL};
    struct world_lib *w = lib_of(L);
    const char *name = check_word(L, 1, "world.secret_value", "a name for the value");
    const char *charset = NULL;
    lua_Number length = SECRET_LENGTH;
    if (check_options(L, 2, "world.secret_value", known)) {
        charset = option_text(L, 2, "world.secret_value", "charset");
        push_member(L, 2, "length");
        if (!lua_isnil(L, -1))
            length = lua_type(L, -1) == LUA_TNUMBER ? lua_tonumber(L, -1) : -1;
    }
    if (!(length >= 1 && length <= SECRET_LENGTH_MAX) || length != (int)length)
        return luaL_error(L, "world.secret_value: length must be a whole number from 1 to %d",
                          SECRET_LENGTH_MAX);
    if (w->ops->secret_value == NULL)
        return luaL_error(L, "world.secret_value: this host has no key to make secrets from");
    char out[SECRET_LENGTH_MAX + 1];
    struct err e = {0};
    check_answer(L, w->ops->secret_value(w->ud, name, (int)length, charset, out, &e), &e);
    lua_pushlstring(L, out, (size_t)length);
    return 1;
}

void world_lib_push(lua_State *L)
{
    static const luaL_Reg functions[] = {
        {"get", on_get},   {"list", on_list}, {"children", on_children},         {"now", on_now},
        {"data", on_data}, {"log", on_log},   {"secret_value", on_secret_value}, {NULL, NULL},
    };
    const struct world_lib *w = lib_of(L);
    lua_createtable(L, 0, 8);
    for (const luaL_Reg *f = functions; f->name != NULL; f++) {
        lua_pushcfunction(L, f->func);
        lua_setfield(L, -2, f->name);
    }
    struct err e;
    if (w->env_json == NULL)
        lua_newtable(L);
    else if (convert_push_text(L, w->env_json, strlen(w->env_json), &e) < 0)
        luaL_error(L, "world.env: %s", e.text);
    lua_setfield(L, -2, "env");
}
