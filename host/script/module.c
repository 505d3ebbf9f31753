// tidelock_native.so: what the test kit (lua/tidelock/kit.lua) needs to run a script in the real sandbox,
// within the Lua state of a test runner. Not part of the host. Everything here runs on the test's thread.
//
//   native.values           the functions of script/native.h, usable in the test's own state
//   native.load{main = {name=, text=}, modules = {{name=, text=}, ...}}  -> program, or nil and an error
//   program.spec            name, subject, ...
//   program:run{entry=, object=, now_us=, env=, world=, limits=}         -> what came of the pass
//
// The world is a table of functions that answer in JSON texts: get(kind, name, ns) -> text or nil,
// list(query) -> texts, children(kind) -> texts, data(key) -> text or nil, log(level, message, fields),
// secret_value(name, length, charset) -> text. An answer nil, code, message is an error; code is "Forbidden",
// "Parked", "Invalid" or another name of base/err.h.
#include <stdlib.h>
#include <string.h>

#include <lauxlib.h>
#include <lua.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "script/code.h"
#include "script/convert.h"
#include "script/failure.h"
#include "script/native.h"
#include "script/pass.h"
#include "script/program.h"
#include "script/world.h"

int luaopen_tidelock_native(lua_State *L);

// --- world: the pass calls, functions of the test answer ---

struct kit_world {
    lua_State *L;
    int world; // registry references: the functions,
    int keep;  // and what their answers are held by until the pass has ended
};

// One call of a function of the world; runs protected in the test's state, so that nothing raises through the
// pass.
struct kit_call {
    struct kit_world *world;
    const char *function;
    void (*push)(lua_State *L, const void *args); // the arguments
    const void *args;
    int count;
    int (*take)(struct kit_call *c, lua_State *L); // reads the answer at index -3, -2, -1 (three values)
    void *answer;
    struct err *e;
    int result;
};

static void keep(struct kit_world *w, lua_State *L, int idx)
{
    if (idx < 0)
        idx = lua_gettop(L) + idx + 1;
    lua_rawgeti(L, LUA_REGISTRYINDEX, w->keep);
    lua_pushvalue(L, idx);
    lua_rawseti(L, -2, (int)lua_objlen(L, -2) + 1);
    lua_pop(L, 1);
}

static enum err_code code_by_name(const char *name)
{
    for (int code = ERR_NONE + 1; code < ERR_COUNT; code++) {
        if (strcmp(err_name(code), name) == 0)
            return (enum err_code)code;
    }
    return ERR_INVALID;
}

static int call_protected(lua_State *L)
{
    struct kit_call *c = lua_touserdata(L, 1);
    lua_rawgeti(L, LUA_REGISTRYINDEX, c->world->world);
    lua_getfield(L, -1, c->function);
    c->push(L, c->args);
    lua_call(L, c->count, 3);
    if (lua_isnil(L, -3) && lua_isstring(L, -2))
        c->result = err_set(c->e, code_by_name(lua_tostring(L, -2)), "%s",
                            lua_isstring(L, -1) ? lua_tostring(L, -1) : "failed");
    else
        c->result = c->take(c, L);
    return 0;
}

static int call(struct kit_call *c)
{
    lua_State *L = c->world->L;
    if (lua_cpcall(L, call_protected, c) != 0) {
        const char *why = lua_tostring(L, -1);
        c->result = err_set(c->e, ERR_INTERNAL, "world.%s of the test: %s", c->function,
                            why != NULL ? why : "failed");
        lua_pop(L, 1);
    }
    return c->result;
}

static void push_text(lua_State *L, const char *s)
{
    if (s != NULL)
        lua_pushstring(L, s);
    else
        lua_pushnil(L);
}

static int take_object(struct kit_call *c, lua_State *L)
{
    struct world_object *o = c->answer;
    if (!lua_isnil(L, -3)) {
        o->json = luaL_checklstring(L, -3, &o->len);
        keep(c->world, L, -3);
    }
    return 0;
}

static int take_list(struct kit_call *c, lua_State *L)
{
    struct world_list *list = c->answer;
    int texts = lua_gettop(L) - 2;
    luaL_checktype(L, texts, LUA_TTABLE);
    size_t count = lua_objlen(L, texts);
    struct world_object *items = lua_newuserdata(L, (count + 1) * sizeof(*items));
    keep(c->world, L, -1);
    keep(c->world, L, texts);
    for (size_t i = 0; i < count; i++) {
        lua_rawgeti(L, texts, (int)i + 1);
        items[i].json = luaL_checklstring(L, -1, &items[i].len);
        lua_pop(L, 1);
    }
    list->items = items;
    list->count = count;
    return 0;
}

// Arguments that are texts, or absent.
struct texts {
    const char *items[4];
    int count;
};

static void push_all(lua_State *L, const void *args)
{
    const struct texts *t = args;
    for (int i = 0; i < t->count; i++)
        push_text(L, t->items[i]);
}

static int world_get(void *ud, const char *kind, const char *name, const char *ns, struct world_object *ret,
                     struct err *e)
{
    struct texts args = {{kind, name, ns}, 3};
    struct world_object o = {0};
    struct kit_call c = {ud, "get", push_all, &args, 3, take_object, &o, e, 0};
    int r = call(&c);
    if (r == 0)
        *ret = o;
    return r;
}

static void push_query(lua_State *L, const void *args)
{
    const struct world_query *q = args;
    const struct {
        const char *name, *value;
    } members[] = {{"kind", q->kind},
                   {"namespace", q->ns},
                   {"labels", q->labels},
                   {"fields", q->fields},
                   {"owner", q->owner_uid}};
    lua_newtable(L);
    for (size_t i = 0; i < sizeof(members) / sizeof(members[0]); i++) {
        push_text(L, members[i].value);
        lua_setfield(L, -2, members[i].name);
    }
    lua_pushboolean(L, q->metadata_only);
    lua_setfield(L, -2, "metadata");
}

static int world_list(void *ud, const struct world_query *q, struct world_list *ret, struct err *e)
{
    struct kit_call c = {ud, "list", push_query, q, 1, take_list, ret, e, 0};
    return call(&c);
}

static int world_children(void *ud, const char *kind, struct world_list *ret, struct err *e)
{
    struct texts args = {{kind}, 1};
    struct kit_call c = {ud, "children", push_all, &args, 1, take_list, ret, e, 0};
    return call(&c);
}

static int world_child(void *ud, const char *api_version, const char *kind, const char *ns, const char *name,
                       struct world_object *ret, struct err *e)
{
    struct texts args = {{api_version, kind, ns, name}, 4};
    struct world_object o = {0};
    struct kit_call c = {ud, "child", push_all, &args, 4, take_object, &o, e, 0};
    int r = call(&c);
    if (r == 0)
        *ret = o;
    return r;
}

static const char *world_data(void *ud, const char *key, size_t *ret_len)
{
    struct texts args = {{key}, 1};
    struct world_object o = {0};
    struct err e;
    struct kit_call c = {ud, "data", push_all, &args, 1, take_object, &o, &e, 0};
    call(&c);
    *ret_len = o.len;
    return o.json;
}

static int take_nothing(struct kit_call *c, lua_State *L)
{
    (void)c;
    (void)L;
    return 0;
}

static void world_log(void *ud, const char *level, const char *message, const char *fields)
{
    struct texts args = {{level, message, fields}, 3};
    struct err e;
    struct kit_call c = {ud, "log", push_all, &args, 3, take_nothing, NULL, &e, 0};
    call(&c);
}

struct secret {
    const char *name, *charset;
    int length;
    char *out;
};

static void push_secret(lua_State *L, const void *args)
{
    const struct secret *s = args;
    lua_pushstring(L, s->name);
    lua_pushinteger(L, s->length);
    push_text(L, s->charset);
}

static int take_secret(struct kit_call *c, lua_State *L)
{
    const struct secret *s = c->answer;
    size_t n;
    const char *text = luaL_checklstring(L, -3, &n);
    if (n != (size_t)s->length)
        return err_set(c->e, ERR_INTERNAL, "secret_value gave %zu characters, not %d", n, s->length);
    memcpy(s->out, text, n + 1);
    return 0;
}

static int world_secret_value(void *ud, const char *name, int length, const char *charset, char *out,
                              struct err *e)
{
    struct secret s = {name, charset, length, out};
    struct kit_call c = {ud, "secret_value", push_secret, &s, 3, take_secret, &s, e, 0};
    return call(&c);
}

static const struct world_ops world_ops = {
    .get = world_get,
    .list = world_list,
    .children = world_children,
    .data = world_data,
    .log = world_log,
    .secret_value = world_secret_value,
    .child = world_child,
};

// --- programs ---

#define PROGRAM "tidelock.program"
#define RUNNER "tidelock.runner"

static struct program *check_program(lua_State *L, int idx)
{
    return *(struct program **)luaL_checkudata(L, idx, PROGRAM);
}

static int on_program_gc(lua_State *L)
{
    program_unref(check_program(L, 1));
    return 0;
}

static int on_runner_gc(lua_State *L)
{
    pass_runner_free(*(struct pass_runner **)luaL_checkudata(L, 1, RUNNER));
    return 0;
}

static struct program_file check_file(lua_State *L, int idx)
{
    struct program_file f;
    luaL_checktype(L, idx, LUA_TTABLE);
    lua_getfield(L, idx, "name");
    lua_getfield(L, idx, "text");
    f.name = luaL_checkstring(L, -2);
    f.text = luaL_checklstring(L, -1, &f.len);
    lua_pop(L, 2); // the table holds them
    return f;
}

static int on_load(lua_State *L)
{
    struct program_options o = {0};
    struct err e;
    luaL_checktype(L, 1, LUA_TTABLE);
    lua_getfield(L, 1, "main");
    o.main = check_file(L, lua_gettop(L));
    lua_getfield(L, 1, "modules");
    o.module_count = lua_istable(L, -1) ? lua_objlen(L, -1) : 0;
    int modules = lua_gettop(L);
    struct program_file *files = lua_newuserdata(L, (o.module_count + 1) * sizeof(*files));
    for (size_t i = 0; i < o.module_count; i++) {
        lua_rawgeti(L, modules, (int)i + 1);
        files[i] = check_file(L, lua_gettop(L));
        lua_pop(L, 1);
    }
    o.modules = files;
    struct program **p = lua_newuserdata(L, sizeof(struct program *));
    *p = NULL;
    luaL_getmetatable(L, PROGRAM);
    lua_setmetatable(L, -2);
    if (program_new(&o, p, &e) == 0)
        return 1;
    lua_pushnil(L);
    lua_pushstring(L, e.text);
    return 2;
}

static int on_spec(lua_State *L)
{
    const struct program *p = check_program(L, 1);
    const struct program_spec *s = program_spec(p);
    lua_newtable(L);
    push_text(L, s->name);
    lua_setfield(L, -2, "name");
    push_text(L, s->subject);
    lua_setfield(L, -2, "subject");
    push_text(L, s->selector);
    lua_setfield(L, -2, "selector");
    lua_pushboolean(L, s->has_finalize);
    lua_setfield(L, -2, "has_finalize");
    push_text(L, program_hash(p));
    lua_setfield(L, -2, "hash");
    return 1;
}

// --- passes ---

static const char *field_text(lua_State *L, const char *name, size_t *ret_len)
{
    lua_getfield(L, 2, name);
    const char *s = lua_isnil(L, -1) ? NULL : luaL_checklstring(L, -1, ret_len);
    lua_pop(L, 1); // the table holds it
    return s;
}

static double field_number(lua_State *L, const char *name)
{
    lua_getfield(L, 2, name);
    double n = luaL_optnumber(L, -1, 0);
    lua_pop(L, 1);
    return n;
}

static void read_limits(lua_State *L, struct pass_limits *limits)
{
    lua_getfield(L, 2, "limits");
    if (!lua_istable(L, -1)) {
        lua_pop(L, 1);
        return;
    }
    lua_replace(L, 2); // the last thing that is read
    limits->cpu_us = (uint64_t)field_number(L, "cpu_us");
    limits->memory = (size_t)field_number(L, "memory");
    limits->result = (size_t)field_number(L, "result");
    limits->events = (unsigned)field_number(L, "events");
    limits->log_lines = (unsigned)field_number(L, "log_lines");
    limits->log_bytes = (size_t)field_number(L, "log_bytes");
}

static void set_text(lua_State *L, const char *name, const char *s, size_t n)
{
    if (n == 0)
        return;
    lua_pushlstring(L, s, n);
    lua_setfield(L, -2, name);
}

static int push_output(lua_State *L)
{
    const struct pass_output *o = lua_touserdata(L, 1);
    struct err e;
    lua_newtable(L);
    lua_pushstring(L, pass_end_name(o->end));
    lua_setfield(L, -2, "how");
    if (o->end != PASS_OK && o->end != PASS_NIL) {
        set_text(L, "error", o->err.text, strlen(o->err.text));
        set_text(L, "reason", o->reason, strlen(o->reason));
        set_text(L, "traceback", o->traceback.data, o->traceback.len);
    }
    if (o->retry_after_us > 0) {
        lua_pushnumber(L, (lua_Number)o->retry_after_us / 1e6);
        lua_setfield(L, -2, "retry_after");
    }
    lua_pushnumber(L, (lua_Number)o->cpu_us);
    lua_setfield(L, -2, "cpu_us");
    lua_pushnumber(L, (lua_Number)o->memory_peak);
    lua_setfield(L, -2, "memory_peak");
    set_text(L, "json", o->result.data, o->result.len);
    lua_pushboolean(L, o->verdict);
    lua_setfield(L, -2, "verdict");
    if (o->end == PASS_OK && o->result.len > 0) { // of `when` there is none
        if (convert_push_text(L, o->result.data, o->result.len, &e) < 0)
            return luaL_error(L, "%s", e.text);
        lua_setfield(L, -2, "result");
    }
    return 1;
}

// Leaves at the top what push_output made, or an error.
static int run(lua_State *L, struct pass_runner *runner, const struct pass_input *in)
{
    struct pass_output *out = xcalloc(1, sizeof(*out));
    pass_run(runner, in, out);
    lua_pushcfunction(L, push_output);
    lua_pushlightuserdata(L, out);
    int failed = lua_pcall(L, 1, 1, 0);
    pass_output_fini(out);
    free(out);
    return failed;
}

static int on_run(lua_State *L)
{
    struct pass_runner *runner = *(struct pass_runner **)luaL_checkudata(L, lua_upvalueindex(1), RUNNER);
    struct kit_world w = {.L = L};
    struct pass_input in = {.program = check_program(L, 1), .world = &world_ops, .ud = &w};
    size_t env_len = 0;
    luaL_checktype(L, 2, LUA_TTABLE);
    lua_getfield(L, 2, "world");
    luaL_checktype(L, -1, LUA_TTABLE);
    w.world = luaL_ref(L, LUA_REGISTRYINDEX);
    lua_newtable(L);
    w.keep = luaL_ref(L, LUA_REGISTRYINDEX);
    in.entry = field_text(L, "entry", &env_len);
    in.object_json = field_text(L, "object", &in.object_len);
    in.old_json = field_text(L, "old", &in.old_len);
    in.env_json = field_text(L, "env", &env_len);
    in.now_us = (int64_t)field_number(L, "now_us");
    lua_pushvalue(L, 2); // holds the texts while read_limits puts another table there
    read_limits(L, &in.limits);
    if (in.entry == NULL)
        in.entry = "reconcile";
    int failed = in.object_json != NULL ? run(L, runner, &in) : luaL_error(L, "run: object is missing");
    luaL_unref(L, LUA_REGISTRYINDEX, w.world);
    luaL_unref(L, LUA_REGISTRYINDEX, w.keep);
    return failed ? lua_error(L) : 1;
}

static void make_class(lua_State *L, const char *name, lua_CFunction gc)
{
    luaL_newmetatable(L, name);
    lua_pushcfunction(L, gc);
    lua_setfield(L, -2, "__gc");
    lua_newtable(L);
}

// When the module is unloaded, after the states that it made.
static void on_unload(void) __attribute__((destructor));
static void on_unload(void)
{
    code_free_bundled();
}

int luaopen_tidelock_native(lua_State *L)
{
    convert_open(L);
    failure_open(L);
    make_class(L, RUNNER, on_runner_gc);
    lua_pop(L, 2);
    struct pass_runner **runner = lua_newuserdata(L, sizeof(struct pass_runner *));
    *runner = pass_runner_new(NULL);
    luaL_getmetatable(L, RUNNER);
    lua_setmetatable(L, -2);
    make_class(L, PROGRAM, on_program_gc);
    lua_pushvalue(L, -3);
    lua_pushcclosure(L, on_run, 1);
    lua_setfield(L, -2, "run");
    lua_pushcfunction(L, on_spec);
    lua_setfield(L, -2, "spec");
    lua_setfield(L, -2, "__index");
    lua_pop(L, 1);
    lua_newtable(L);
    lua_pushcfunction(L, on_load);
    lua_setfield(L, -2, "load");
    native_push(L);
    lua_setfield(L, -2, "values");
    return 1;
}
