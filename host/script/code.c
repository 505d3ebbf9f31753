#include "script/code.h"

#include <lauxlib.h>
#include <lua.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/buf.h"
#include "base/clock.h"
#include "script/bundle.h"

enum {
    CODE_BYTES_MAX = 64 * 1024 * 1024,
    PIECE = 1024, // of source between two looks at the limits: some programs take the parser quadratic time
    BUNDLE_MAX = 64,
};

struct source {
    const char *chunk;
    const char *text; // what is left of it
    size_t len;
    uint64_t end_us;  // of the thread's CPU time
    size_t memory;    // of the state
    const char *over; // the limit that was passed, or NULL
    struct buf *out;
};

static void *allocate(void *ud, void *p, size_t old, size_t n)
{
    struct source *s = ud;
    if (n == 0) {
        free(p);
        s->memory -= old;
        return NULL;
    }
    void *moved = realloc(p, n);
    s->memory += moved != NULL ? n - old : 0;
    return moved;
}

// Gives the parser the next piece.
static const char *read_piece(lua_State *L, void *ud, size_t *ret_len)
{
    struct source *s = ud;
    const char *piece = s->text;
    if (clock_thread_cpu_us() > s->end_us)
        s->over = "CPU time";
    else if (s->memory > CODE_MEMORY_MAX)
        s->over = "memory";
    if (s->over != NULL) {
        lua_pushnil(L);
        lua_error(L);
    }
    *ret_len = s->len < PIECE ? s->len : PIECE;
    s->text += *ret_len;
    s->len -= *ret_len;
    return piece;
}

static int write_bytes(lua_State *L, const void *p, size_t n, void *ud)
{
    (void)L;
    return buf_add(ud, p, n) < 0;
}

// Literals such as 1LL, 1ULL and 2i are values of C types: the parser loads the foreign function interface
// for them, which shows here.
static bool has_c_number(lua_State *L)
{
    lua_getfield(L, LUA_REGISTRYINDEX, "_LOADED");
    lua_getfield(L, -1, "ffi");
    bool loaded = !lua_isnil(L, -1);
    lua_pop(L, 2);
    return loaded;
}

static int compile_protected(lua_State *L)
{
    struct source *s = lua_touserdata(L, 1);
    lua_newtable(L);
    lua_setfield(L, LUA_REGISTRYINDEX, "_LOADED");
    if (lua_loadx(L, read_piece, s, s->chunk, "t") != 0)
        return lua_error(L);
    if (has_c_number(L))
        return luaL_error(L,
                          "%s: number literals ending in LL, ULL or i are not supported: write the number "
                          "without a suffix",
                          s->chunk + 1);
    if (lua_dump(L, write_bytes, s->out) != 0)
        return luaL_error(L, "%s: the compiled script is larger than %d MiB", s->chunk + 1,
                          CODE_BYTES_MAX / 1024 / 1024);
    return 0;
}

// What the parser said, or the limit that it would have passed.
static int refuse(lua_State *L, const char *name, const struct source *s, struct err *e)
{
    if (s->over != NULL)
        return err_set(e, ERR_LIMIT,
                       "%s: compiling it takes more %s than a script may use: make the file, and the longest "
                       "of its expressions and functions, smaller",
                       name, s->over);
    const char *message = lua_tostring(L, -1);
    return err_set(e, ERR_PARSE, "%s", message != NULL ? message : "does not compile");
}

int code_compile(const char *name, const char *text, size_t len, uint64_t *cpu_us, struct code *ret,
                 struct err *e)
{
    if (len > CODE_SOURCE_MAX)
        return err_set(e, ERR_LIMIT, "%s: %zu bytes of source, at most %d are allowed", name, len,
                       CODE_SOURCE_MAX);
    if (len > 0 && text[0] == '\033')
        return err_set(e, ERR_PARSE, "%s:1: this is bytecode; only source text is accepted", name);
    struct buf out;
    buf_init(&out, CODE_BYTES_MAX);
    char *chunk = xasprintf("=%s", name);
    uint64_t start_us = clock_thread_cpu_us();
    struct source s = {.chunk = chunk, .text = text, .len = len, .end_us = start_us + *cpu_us, .out = &out};
    lua_State *L = lua_newstate(allocate, &s);
    if (L == NULL) {
        free(chunk);
        return err_set(e, ERR_LIMIT, "%s: out of memory while compiling", name);
    }
    int r = 0;
    if (lua_cpcall(L, compile_protected, &s) != 0) {
        r = refuse(L, name, &s, e);
        buf_fini(&out);
    } else {
        ret->name = xstrdup(name);
        ret->bytes = buf_take(&out, &ret->len);
    }
    lua_close(L);
    free(chunk);
    uint64_t used_us = clock_thread_cpu_us() - start_us;
    *cpu_us -= used_us < *cpu_us ? used_us : *cpu_us;
    return r;
}

void code_fini(struct code *c)
{
    free(c->name);
    free(c->bytes);
    *c = (struct code){0};
}

void code_push(struct lua_State *L, const struct code *c)
{
    char chunk[128];
    size_t n = strlen(c->name);
    if (n > sizeof(chunk) - 2)
        n = sizeof(chunk) - 2;
    chunk[0] = '=';
    memcpy(chunk + 1, c->name, n);
    chunk[n + 1] = 0;
    if (luaL_loadbufferx(L, c->bytes, c->len, chunk, "b") != 0)
        lua_error(L);
}

static pthread_mutex_t bundled_lock = PTHREAD_MUTEX_INITIALIZER;
static struct code bundled[BUNDLE_MAX];
static int bundled_count;

static const struct code *find_bundled(const char *name)
{
    for (int i = 0; i < bundled_count; i++) {
        if (strcmp(bundled[i].name, name) == 0)
            return &bundled[i];
    }
    return NULL;
}

const struct code *code_bundled(const char *module)
{
    const struct bundle_file *f = bundle_find(module);
    if (f == NULL)
        return NULL;
    char name[64];
    snprintf(name, sizeof(name), "[%s]", module);
    pthread_mutex_lock(&bundled_lock);
    const struct code *c = find_bundled(name);
    if (c == NULL) {
        struct err e;
        uint64_t cpu_us = UINT64_MAX / 2;
        ASSERT(bundled_count < BUNDLE_MAX);
        ASSERT(code_compile(name, f->text, f->len, &cpu_us, &bundled[bundled_count], &e) == 0);
        c = &bundled[bundled_count++];
    }
    pthread_mutex_unlock(&bundled_lock);
    return c;
}

void code_free_bundled(void)
{
    while (bundled_count > 0)
        code_fini(&bundled[--bundled_count]);
}
