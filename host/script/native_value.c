// Values for the bundled modules: marks, comparison, and the encodings.
#include "script/native.h"

#include <math.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "data/digest.h"
#include "data/yaml.h"
#include "script/boxed.h"
#include "script/convert.h"
#include "script/convert_internal.h"
#include "script/native_quantity.h"
#include "script/own.h"
#include "script/plain_text.h"
#include "script/sandbox.h"

enum {
    TEXT_MAX = 8 << 20, // what an encoder makes of a value
    NODE_WORK = 50,     // instructions that reading a node of YAML is as long as, about
    YAML_MAX = 1 << 20, // YAML is slow: about as much as a pass has time for, and as a ConfigMap holds
};

// --- marks ---

static int on_array(lua_State *L)
{
    if (lua_isnoneornil(L, 1)) {
        lua_settop(L, 0);
        lua_newtable(L);
    }
    luaL_checktype(L, 1, LUA_TTABLE);
    convert_mark_array(L, 1);
    lua_settop(L, 1);
    return 1;
}

static int on_is_array(lua_State *L)
{
    luaL_checkany(L, 1);
    lua_pushboolean(L, convert_is_array(L, 1));
    return 1;
}

static int on_mark_like(lua_State *L)
{
    luaL_checktype(L, 1, LUA_TTABLE);
    luaL_checktype(L, 2, LUA_TTABLE);
    convert_mark_like(L, 1, 2);
    lua_settop(L, 1);
    return 1;
}

static int on_force(lua_State *L)
{
    luaL_checkany(L, 1);
    convert_force(L, 1);
    lua_settop(L, 1);
    return 1;
}

// --- comparison and durations ---

static int on_compare(lua_State *L)
{
    int r = boxed_compare(L, 1, 2);
    if (r == 2 && lua_type(L, 1) == LUA_TSTRING && lua_type(L, 2) == LUA_TSTRING)
        r = lua_lessthan(L, 1, 2) ? -1 : !lua_rawequal(L, 1, 2);
    if (r == 2)
        return luaL_error(L, "k8s.compare: two integers, numbers or texts are wanted, got %s and %s",
                          luaL_typename(L, 1), luaL_typename(L, 2));
    lua_pushinteger(L, r);
    return 1;
}

// A Go duration or seconds, as microseconds.
static int on_duration(lua_State *L)
{
    int64_t us = 0;
    const char *text = plain_text(L, 1);
    lua_Number seconds = lua_type(L, 1) == LUA_TNUMBER ? lua_tonumber(L, 1) : 0;
    if (text != NULL ? duration_parse(text, &us) < 0
                     : lua_type(L, 1) != LUA_TNUMBER || !(fabs(seconds) < 1e12))
        return luaL_error(L, "expected a Go duration such as \"30s\" or \"1h30m\", or seconds");
    if (lua_type(L, 1) == LUA_TNUMBER)
        us = (int64_t)ceil(seconds * 1e6);
    lua_pushnumber(L, (lua_Number)us);
    return 1;
}

// --- times: RFC 3339 and seconds since 1970 ---

static int on_time_parse(lua_State *L)
{
    int64_t us;
    const char *text = luaL_checkstring(L, 1);
    if (clock_parse_time(text, &us) < 0)
        return luaL_error(L, "\"%s\" is not a time such as \"2026-01-02T03:04:05Z\"", text);
    lua_pushnumber(L, (lua_Number)us / 1e6);
    return 1;
}

static int on_time_format(lua_State *L)
{
    char text[CLOCK_TEXT_MAX];
    lua_Number seconds = luaL_checknumber(L, 1);
    if (!(fabs(seconds) < 1e11)) // years of four digits
        return luaL_error(L, "seconds since 1970 are wanted");
    clock_format_time(text, (int64_t)floor(seconds * 1e6));
    lua_pushstring(L, text);
    return 1;
}

// --- encodings ---

// What malloc gave. It is on the list of script/own.h while Lua is called, and freed before a raise goes on.
static void free_buf(void *p)
{
    buf_fini(p);
    free(p);
}

// At most `max` bytes, and `left` that the script has memory for.
static struct buf *hold_buf(size_t max, size_t left)
{
    struct buf *b = xmalloc(sizeof(*b));
    buf_init(b, left < max ? left : max);
    own_push(b, free_buf);
    return b;
}

// Lets go of the buffer held last, which was too small.
static void stop_if_short(lua_State *L, const struct buf *b, size_t max)
{
    if (!b->failed || b->max >= max)
        return;
    own_pop();
    sandbox_out_of_memory(L);
}

static void push_bytes(lua_State *L, void *ud)
{
    const struct buf *b = ud;
    lua_pushlstring(L, b->data != NULL ? b->data : "", b->len);
}

// What an encoder or a decoder said; or the end of the pass, for which it stopped.
static int raise_error(lua_State *L, int r, const struct err *e)
{
    if (r == -ERR_CANCELED)
        sandbox_poll(L, 0);
    return luaL_error(L, "%s", e->text);
}

// Pushes the bytes of the buffer held last and lets go of it; or, when r is an error, raises that.
static int finish(lua_State *L, struct buf *b, int r, const struct err *e)
{
    stop_if_short(L, b, TEXT_MAX);
    size_t left = sandbox_memory_left(L), taken = b->cap < left ? b->cap : left;
    sandbox_memory_add(L, taken);
    int failed = r == 0 ? convert_protected(L, 0, push_bytes, b) : 0;
    own_pop();
    sandbox_memory_sub(L, taken);
    if (r < 0)
        return raise_error(L, r, e);
    return failed ? lua_error(L) : 1;
}

static int write_json(lua_State *L, struct buf *out, struct err *e)
{
    struct json_writer w;
    jw_init(&w, out);
    return convert_write(L, 1, &w, "", e);
}

static int on_json_encode(lua_State *L)
{
    struct err e;
    luaL_checkany(L, 1);
    struct buf *out = hold_buf(TEXT_MAX, sandbox_memory_left(L));
    return finish(L, out, write_json(L, out, &e), &e);
}

static int on_json_decode(lua_State *L)
{
    size_t n;
    struct err e;
    const char *text = luaL_checklstring(L, 1, &n);
    if (n > TEXT_MAX)
        return luaL_error(L, "JSON: the text is longer than %d bytes", TEXT_MAX);
    if (convert_push_text(L, text, n, &e) < 0)
        return luaL_error(L, "%s", e.text);
    return 1;
}

static bool is_over(void *L, uint64_t nodes)
{
    return sandbox_is_over(L, nodes * NODE_WORK);
}

static int on_yaml_encode(lua_State *L)
{
    struct err e;
    luaL_checkany(L, 1);
    size_t part = sandbox_memory_left(L) / 3; // for each of the two texts and the document
    struct yaml_limits limits = {.memory = part, .is_over = is_over, .ud = L};
    struct buf *yaml = hold_buf(TEXT_MAX, part);
    struct buf *text = hold_buf(YAML_MAX, part);
    int r = write_json(L, text, &e);
    if (r == 0)
        r = yaml_from_json_within(text->data, text->len, &limits, yaml, &e);
    bool is_short = limits.took > part || (text->failed && text->max < YAML_MAX);
    own_pop();
    if (is_short) {
        own_pop();
        sandbox_out_of_memory(L);
    }
    return finish(L, yaml, r, &e);
}

static int too_large(const struct buf *list, struct err *e)
{
    return err_set(e, ERR_LIMIT, "YAML: the documents are larger than %zu bytes", list->max);
}

static int add_document(void *ud, const char *text, size_t text_len, size_t line, struct err *e)
{
    struct buf *list = ud;
    (void)line;
    buf_add_char(list, list->len == 0 ? '[' : ',');
    return buf_add(list, text, text_len) < 0 ? too_large(list, e) : 0;
}

struct decode {
    const struct buf *list;
    struct err e;
    int result;
};

static void push_list(lua_State *L, void *ud)
{
    struct decode *d = ud;
    d->result = convert_push_text(L, d->list->data, d->list->len, &d->e);
    if (d->result < 0)
        lua_pushnil(L);
}

// All documents of the text as one list.
static int on_yaml_decode(lua_State *L)
{
    size_t n;
    const char *text = luaL_checklstring(L, 1, &n);
    if (n > YAML_MAX)
        return luaL_error(L, "YAML: the text is longer than %d bytes", YAML_MAX);
    size_t part = sandbox_memory_left(L) / 2; // for the texts, and what is needed to read them
    struct yaml_limits limits = {.memory = part, .is_over = is_over, .ud = L};
    struct buf *list = hold_buf(TEXT_MAX, part);
    struct decode d = {.list = list};
    int failed = 0;
    d.result = yaml_to_json_within(text, n, &limits, add_document, list, &d.e);
    if (d.result == 0 && buf_add_str(list, list->len == 0 ? "[]" : "]") < 0)
        d.result = too_large(list, &d.e);
    stop_if_short(L, list, TEXT_MAX);
    if (limits.took > part) {
        own_pop();
        sandbox_out_of_memory(L);
    }
    size_t taken = list->cap;
    sandbox_memory_add(L, taken + limits.took); // the peak is told
    sandbox_memory_sub(L, limits.took);
    if (d.result == 0)
        failed = convert_protected(L, 0, push_list, &d);
    own_pop();
    sandbox_memory_sub(L, taken);
    if (d.result < 0)
        return raise_error(L, d.result, &d.e);
    return failed ? lua_error(L) : 1;
}

static int on_base64_encode(lua_State *L)
{
    size_t n;
    struct err e;
    const char *bytes = luaL_checklstring(L, 1, &n);
    struct buf *out = hold_buf(TEXT_MAX, sandbox_memory_left(L));
    int r = base64_encode(bytes, n, out);
    if (r < 0)
        err_set(&e, ERR_LIMIT, "base64: the text is longer than %d bytes", TEXT_MAX);
    return finish(L, out, r, &e);
}

static int on_base64_decode(lua_State *L)
{
    size_t n;
    struct err e;
    const char *text = luaL_checklstring(L, 1, &n);
    if (n > TEXT_MAX)
        return luaL_error(L, "base64: the text is longer than %d bytes", TEXT_MAX);
    struct buf *out = hold_buf(TEXT_MAX, sandbox_memory_left(L));
    return finish(L, out, base64_decode(text, n, out, &e), &e);
}

static int on_sha256(lua_State *L)
{
    size_t n;
    char hex[DIGEST_SHA256_HEX];
    const char *bytes = luaL_checklstring(L, 1, &n);
    digest_sha256_hex(bytes, n, hex);
    lua_pushstring(L, hex);
    return 1;
}

const luaL_Reg native_value_functions[] = {
    {"array", on_array},
    {"is_array", on_is_array},
    {"mark_like", on_mark_like},
    {"force", on_force},
    {"compare", on_compare},
    {"duration", on_duration},
    {"time_parse", on_time_parse},
    {"time_format", on_time_format},
    {"quantity", native_quantity_new},
    {"json_encode", on_json_encode},
    {"json_decode", on_json_decode},
    {"yaml_encode", on_yaml_encode},
    {"yaml_decode", on_yaml_decode},
    {"base64_encode", on_base64_encode},
    {"base64_decode", on_base64_decode},
    {"sha256", on_sha256},
    {NULL, NULL},
};

void native_value_open(lua_State *L)
{
    native_quantity_open(L);
    convert_push_null(L);
    lua_setfield(L, -2, "null");
}
