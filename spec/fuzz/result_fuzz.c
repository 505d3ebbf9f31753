// Any Lua value as a script's result: it is refused with a reason, or what is written is JSON. The input is a
// program for a small machine that makes tables.
#include <string.h>

#include "fuzz.h"

#include <lauxlib.h>
#include <lua.h>

#include "base/assert.h"
#include "data/json.h"
#include "script/boxed.h"
#include "script/convert.h"
#include "script/native_quantity.h"
#include "script/result.h"
#include "script/sandbox.h"

enum { DEPTH_MAX = 220, VALUES_MAX = 5000, TEXT_MAX = 40, RESULT_MAX = 64 * 1024 };

struct input {
    const uint8_t *data;
    size_t left;
    int values;
    struct buf out;
};

static const char *const names[] = {
    "apply",   "patch",    "delete",  "status",    "events",       "requeue_after", "done",  "object",
    "once",    "keep",     "replace", "adopt",     "after",        "ready",         "force", "apiVersion",
    "kind",    "metadata", "name",    "namespace", "generateName", "uid",           "type",  "reason",
    "message", "Normal",   "Warning", "v1",        "ConfigMap",    "30s",           "Ready", "conditions",
};

static const char lazy_text[] =
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"x\"},\"n\":null}";
static const char bad_text[] = "{\"a\":";

static uint8_t take(struct input *in)
{
    if (in->left == 0)
        return 0;
    in->left--;
    return *in->data++;
}

static void push_text(lua_State *L, struct input *in)
{
    size_t n = take(in) % TEXT_MAX;
    if (n > in->left)
        n = in->left;
    lua_pushlstring(L, (const char *)in->data, n);
    in->data += n;
    in->left -= n;
}

static void push_number(lua_State *L, struct input *in)
{
    double n = 0;
    uint8_t bytes[sizeof(n)];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = take(in);
    memcpy(&n, bytes, sizeof(n));
    lua_pushnumber(L, n);
}

static void push_value(lua_State *L, struct input *in, int depth);

static void push_quantity(lua_State *L)
{
    lua_pushcfunction(L, native_quantity_new);
    lua_pushliteral(L, "1500m");
    lua_call(L, 1, 1);
}

// Up to 15 members: names, texts, positions or any value as keys.
static void fill(lua_State *L, struct input *in, int depth, uint8_t count)
{
    for (int i = 1; i <= (count & 15); i++) {
        uint8_t how = take(in);
        if (how < 96)
            lua_pushstring(L, names[how % (sizeof(names) / sizeof(names[0]))]);
        else if (how < 192)
            lua_pushinteger(L, i);
        else
            push_value(L, in, depth + 1);
        if (lua_isnil(L, -1) ||
            (lua_type(L, -1) == LUA_TNUMBER && lua_tonumber(L, -1) != lua_tonumber(L, -1))) {
            lua_pop(L, 1);
            continue;
        }
        push_value(L, in, depth + 1);
        lua_rawset(L, -3);
    }
}

static void push_table(lua_State *L, struct input *in, int depth)
{
    uint8_t how = take(in);
    lua_newtable(L);
    if (depth >= DEPTH_MAX)
        return;
    luaL_checkstack(L, 10, "deep");
    fill(L, in, depth, how);
    if (how & 16)
        convert_mark_array(L, -1);
    if ((how & 96) == 96) { // itself, and a metatable that would never come back
        lua_pushvalue(L, -1);
        lua_setmetatable(L, -2);
        lua_pushvalue(L, -1);
        lua_rawseti(L, -2, 1);
    }
}

static void push_value(lua_State *L, struct input *in, int depth)
{
    uint8_t how = take(in);
    if (in->left == 0 || ++in->values > VALUES_MAX)
        how = 0;
    switch (how % 16) {
    case 0:
        lua_pushnil(L);
        break;
    case 1:
        lua_pushboolean(L, how & 16);
        break;
    case 2:
        lua_pushinteger(L, take(in) - 100);
        break;
    case 3:
        push_number(L, in);
        break;
    case 4:
        push_text(L, in);
        break;
    case 5:
        boxed_push_uint(L, UINT64_MAX - take(in));
        break;
    case 6:
        boxed_push_int(L, INT64_MIN + take(in));
        break;
    case 7:
        convert_push_null(L);
        break;
    case 8:
        convert_push_lazy(L, how & 16 ? bad_text : lazy_text,
                          (how & 16 ? sizeof(bad_text) : sizeof(lazy_text)) - 1);
        break;
    case 9:
        lua_pushcfunction(L, native_quantity_new);
        break;
    case 10:
        push_quantity(L);
        break;
    case 11:
        lua_newuserdata(L, 4);
        break;
    case 12: // one from before, so that tables are shared
        lua_pushvalue(L, 1 + take(in) % lua_gettop(L));
        break;
    default:
        push_table(L, in, depth);
    }
}

static void write(lua_State *L, void *ud)
{
    struct input *in = ud;
    struct err e = {0};
    struct json_doc *doc;
    uint8_t how = take(in);
    struct pass_limits limits = {.events = 3};
    lua_newtable(L);
    if (how & 1)
        push_value(L, in, 0);
    else
        fill(L, in, 0, how >> 4);
    int top = lua_gettop(L);
    int r = result_write(L, -1, &limits, how & 2 ? "finalize" : "reconcile", &in->out, &e);
    ASSERT(lua_gettop(L) == top);
    if (r < 0) {
        ASSERT(e.text[0] != 0);
        return;
    }
    ASSERT(json_parse(in->out.data, in->out.len, &doc, &e) == 0);
    ASSERT(json_is_object(json_root(doc)));
    json_doc_free(doc);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct sandbox *s;
    if (s == NULL)
        s = sandbox_new(NULL);
    struct input in = {.data = data, .left = n};
    buf_init(&in.out, RESULT_MAX);
    struct sandbox_outcome outcome = {.end = PASS_OK};
    struct sandbox_job job = {.fn = write, .ud = &in, .cpu_us = 20000, .memory = 4 << 20};
    buf_init(&outcome.traceback, 4096);
    sandbox_run(s, &job, &outcome);
    ASSERT(outcome.end == PASS_OK || outcome.err.text[0] != 0);
    buf_fini(&outcome.traceback);
    buf_fini(&in.out);
    return 0;
}
