#include "script/program.h"

#include <lauxlib.h>
#include <lua.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/strset.h"
#include "data/digest.h"
#include "script/program_code.h"
#include "script/program_read.h"
#include "script/sandbox.h"

enum { HASH_DIGITS = 16, TRACEBACK_MAX = 4096 };

struct text {
    char *name, *data;
    size_t len;
    uint8_t digest[DIGEST_SHA256_LEN];
};

struct lua_file {
    char *name;
    uint8_t digest[DIGEST_SHA256_LEN];
    struct err *err; // does not compile; or NULL
};

struct program_files {
    atomic_uint refs;
    struct code *code;
    struct lua_file *lua; // one each
    size_t count;
    const struct lua_file **sorted; // by name
    const struct err *err;          // the first one's that does not compile, or NULL
    uint64_t cpu_left_us;           // of CODE_CPU_US
    struct text *texts;             // sorted by name
    size_t text_count;
};

struct program {
    atomic_uint refs;
    struct program_files *files; // +1
    struct program_code code;
    struct program_texts texts;
    char hash[HASH_DIGITS + 1];
};

void program_files_unref(struct program_files *f)
{
    if (f == NULL || atomic_fetch_sub(&f->refs, 1) > 1)
        return;
    for (size_t i = 0; i < f->count; i++) {
        code_fini(&f->code[i]);
        free(f->lua[i].name);
        free(f->lua[i].err);
    }
    for (size_t i = 0; i < f->text_count; i++) {
        free(f->texts[i].name);
        free(f->texts[i].data);
    }
    free(f->code);
    free(f->lua);
    free(f->sorted);
    free(f->texts);
    free(f);
}

static void free_program(struct program *p)
{
    program_files_unref(p->files);
    program_texts_fini(&p->texts);
    free(p);
}

struct program *program_ref(struct program *p)
{
    atomic_fetch_add(&p->refs, 1);
    return p;
}

void program_unref(struct program *p)
{
    if (p != NULL && atomic_fetch_sub(&p->refs, 1) == 1)
        free_program(p);
}

const struct program_spec *program_spec(const struct program *p)
{
    return &p->texts.spec;
}

const char *program_file_name(const struct program *p)
{
    return p->code.main->name;
}

const char *program_hash(const struct program *p)
{
    return p->hash;
}

const struct program_code *program_code(const struct program *p)
{
    return &p->code;
}

const struct code *program_code_find(const struct program_code *c, const char *name)
{
    size_t n = strlen(name);
    for (size_t i = 0; i < c->count; i++) {
        const char *file = c->files[i].name;
        if (file == NULL || &c->files[i] == c->main)
            continue;
        if (strcmp(file, name) == 0 || (strncmp(file, name, n) == 0 && strcmp(file + n, ".lua") == 0))
            return &c->files[i];
    }
    return NULL;
}

// --- making one ---

// A chunk's name that begins with a bracket would pass for one of the host's (script/traceback.h).
static int check_file_name(const char *name, struct err *e)
{
    if (name[0] == '[' || name[0] == 0 || strlen(name) > 253)
        return err_set(e, ERR_INVALID, "'%s' can not be the name of a script file", name);
    return 0;
}

int program_check(const struct program_file *f, struct err *e)
{
    struct code code;
    uint64_t cpu_us = CODE_CPU_US;
    int r = check_file_name(f->name, e);
    if (r == 0)
        r = code_compile(f->name, f->text, f->len, &cpu_us, &code, e);
    if (r < 0)
        return r;
    code_fini(&code);
    return 0;
}

static void compile(struct program_files *f, const struct program_file *in, size_t i)
{
    f->lua[i].name = xstrdup(in->name);
    digest_sha256(in->text, in->len, f->lua[i].digest);
    struct err e;
    int r = check_file_name(in->name, &e);
    if (r == 0)
        r = code_compile(in->name, in->text, in->len, &f->cpu_left_us, &f->code[i], &e);
    if (r == 0)
        return;
    f->lua[i].err = xmemdup(&e, sizeof(e));
    if (f->err == NULL)
        f->err = f->lua[i].err;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct text *)a)->name, ((const struct text *)b)->name);
}

static int by_file_name(const void *a, const void *b)
{
    const struct lua_file *const *x = a;
    const struct lua_file *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

static void keep_texts(struct program_files *f, const struct program_file *texts, size_t count)
{
    f->texts = xcalloc(count + 1, sizeof(*f->texts));
    for (size_t i = 0; i < count; i++) {
        struct text *t = &f->texts[i];
        *t = (struct text){.name = xstrdup(texts[i].name), .len = texts[i].len};
        t->data = xmemdup(texts[i].text, texts[i].len);
        digest_sha256(t->data, t->len, t->digest);
    }
    f->text_count = count;
    qsort(f->texts, count, sizeof(*f->texts), by_name);
}

struct program_files *program_files_new(const struct program_file *lua, size_t lua_count,
                                        const struct program_file *texts, size_t text_count)
{
    struct program_files *f = xcalloc(1, sizeof(*f));
    atomic_init(&f->refs, 1);
    f->count = lua_count;
    f->cpu_left_us = CODE_CPU_US;
    f->code = xcalloc(lua_count + 1, sizeof(*f->code));
    f->lua = xcalloc(lua_count + 1, sizeof(*f->lua));
    f->sorted = xcalloc(lua_count + 1, sizeof(*f->sorted));
    for (size_t i = 0; i < lua_count; i++) {
        compile(f, &lua[i], i);
        f->sorted[i] = &f->lua[i];
    }
    qsort(f->sorted, lua_count, sizeof(*f->sorted), by_file_name);
    keep_texts(f, texts, text_count);
    return f;
}

uint64_t program_files_cpu_us(const struct program_files *f)
{
    return CODE_CPU_US - f->cpu_left_us;
}

const char *program_text(const struct program *p, const char *name, size_t *ret_len)
{
    const struct text key = {.name = (char *)name};
    const struct text *t = bsearch(&key, p->files->texts, p->files->text_count, sizeof(key), by_name);
    if (t != NULL)
        *ret_len = t->len;
    return t != NULL ? t->data : NULL;
}

static void add_digest(struct buf *b, const char *name, const uint8_t digest[DIGEST_SHA256_LEN])
{
    buf_add(b, name, strlen(name) + 1);
    buf_add(b, digest, DIGEST_SHA256_LEN);
}

// Over the files' names and digests: the main one, modules and then texts in the order of their names.
static void make_hash(struct program *p, size_t main)
{
    const struct program_files *f = p->files;
    struct buf b;
    buf_init(&b, SIZE_MAX);
    add_digest(&b, f->lua[main].name, f->lua[main].digest);
    for (size_t i = 0; i < f->count; i++) {
        if (f->sorted[i] != &f->lua[main])
            add_digest(&b, f->sorted[i]->name, f->sorted[i]->digest);
    }
    for (size_t i = 0; i < f->text_count; i++)
        add_digest(&b, f->texts[i].name, f->texts[i].digest);
    char hex[DIGEST_SHA256_HEX];
    digest_sha256_hex(b.data, b.len, hex);
    memcpy(p->hash, hex, HASH_DIGITS);
    buf_fini(&b);
}

// --- reading its table ---

struct reading {
    struct program *program;
    char stem[64];
    bool is_script;
    bool read; // the table was reached: errors are about it
};

static void read_table(lua_State *L, void *ud)
{
    struct reading *r = ud;
    const struct code *main = r->program->code.main;
    code_push(L, main);
    sandbox_call(L, 0, 1, main->name);
    r->read = true;
    r->is_script = program_read_is_script(L, 1);
    if (r->is_script)
        program_read(L, 1, r->stem, &r->program->texts);
}

// The file's name without its folder and ".lua".
static void take_stem(struct reading *r, const char *name)
{
    size_t n = strlen(name);
    if (str_has_suffix(name, ".lua"))
        n -= 4;
    const char *slash = memrchr(name, '/', n);
    const char *stem = slash != NULL ? slash + 1 : name;
    snprintf(r->stem, sizeof(r->stem), "%.*s", (int)(n - (size_t)(stem - name)), stem);
}

static int main_failed(const struct reading *r, const char *name, const struct sandbox_outcome *o,
                       struct err *e)
{
    int code = o->end == PASS_RAISED                              ? r->read ? ERR_INVALID : ERR_SCRIPT
               : o->end == PASS_DEADLINE || o->end == PASS_MEMORY ? ERR_LIMIT
                                                                  : ERR_SCRIPT;
    bool over = o->end == PASS_DEADLINE || o->end == PASS_MEMORY;
    err_set(e, code, "%s%s", o->err.text,
            over ? ": a main chunk has the same budget in every script; let it only build its table" : "");
    if (r->read || !str_has_prefix(o->err.text, name))
        err_prefix(e, "%s", name);
    return -code;
}

struct main_run {
    struct pass_runner *runner; // or NULL
    uint64_t cpu_us, used_us;
    size_t memory;
};

static int run_main(struct program *p, struct main_run *run, struct err *e)
{
    const char *name = p->code.main->name;
    struct reading reading = {.program = p};
    take_stem(&reading, name);
    struct sandbox_outcome outcome = {.end = PASS_OK};
    struct sandbox_job job = {
        .fn = read_table,
        .ud = &reading,
        .code = &p->code,
        .cpu_us = run->cpu_us != 0 ? run->cpu_us : PROGRAM_CPU_US,
        .memory = run->memory != 0 ? run->memory : PROGRAM_MEMORY,
    };
    buf_init(&outcome.traceback, TRACEBACK_MAX);
    struct sandbox *own = run->runner == NULL ? sandbox_new(NULL) : NULL;
    sandbox_run(own != NULL ? own : pass_runner_sandbox(run->runner), &job, &outcome);
    sandbox_free(own);
    buf_fini(&outcome.traceback);
    run->used_us = outcome.cpu_us;
    if (outcome.end != PASS_OK)
        return main_failed(&reading, name, &outcome, e);
    if (!reading.is_script)
        return err_set(e, ERR_NOT_FOUND, "%s: returns no table with a subject: it is a module, not a script",
                       name);
    return 0;
}

static int make(struct program_files *f, size_t main, struct main_run *run, struct program **ret,
                struct err *e)
{
    const struct err *broken = f->lua[main].err != NULL ? f->lua[main].err : f->err;
    if (broken != NULL) {
        if (e != NULL)
            *e = *broken;
        return broken->code;
    }
    struct program *p = xcalloc(1, sizeof(*p));
    atomic_init(&p->refs, 1);
    atomic_fetch_add(&f->refs, 1);
    p->files = f;
    p->code = (struct program_code){&f->code[main], f->code, f->count};
    make_hash(p, main);
    int r = run_main(p, run, e);
    if (r < 0) {
        free_program(p);
        return r;
    }
    *ret = p;
    return 0;
}

int program_of_files(struct program_files *f, size_t main, struct pass_runner *runner, uint64_t cpu_us,
                     struct program **ret, uint64_t *ret_cpu_us, struct err *e)
{
    struct main_run run = {.runner = runner, .cpu_us = cpu_us};
    int r = make(f, main, &run, ret, e);
    *ret_cpu_us = run.used_us;
    return r;
}

int program_new(const struct program_options *o, struct program **ret, struct err *e)
{
    struct program_file *lua = xcalloc(o->module_count + 1, sizeof(*lua));
    lua[0] = o->main;
    for (size_t i = 0; i < o->module_count; i++)
        lua[i + 1] = o->modules[i];
    struct program_files *f = program_files_new(lua, o->module_count + 1, o->texts, o->text_count);
    struct main_run run = {.cpu_us = o->cpu_us, .memory = o->memory};
    int r = make(f, 0, &run, ret, e);
    program_files_unref(f);
    free(lua);
    return r;
}
