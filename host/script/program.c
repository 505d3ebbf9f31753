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

enum { CPU_US = 100000, MEMORY = 16 * 1024 * 1024, HASH_DIGITS = 16, TRACEBACK_MAX = 4096 };

struct program {
    atomic_uint refs;
    struct program_code code;
    struct program_texts texts;
    char hash[HASH_DIGITS + 1];
    struct text *files; // sorted by name
    size_t file_count;
};

struct text {
    char *name, *data;
    size_t len;
};

static void free_program(struct program *p)
{
    code_fini(&p->code.main);
    for (size_t i = 0; i < p->code.module_count; i++)
        code_fini(&p->code.modules[i]);
    free(p->code.modules);
    for (size_t i = 0; i < p->file_count; i++) {
        free(p->files[i].name);
        free(p->files[i].data);
    }
    free(p->files);
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
    for (size_t i = 0; i < c->module_count; i++) {
        const char *file = c->modules[i].name;
        if (strcmp(file, name) == 0 || (strncmp(file, name, n) == 0 && strcmp(file + n, ".lua") == 0))
            return &c->modules[i];
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
    int r = check_file_name(f->name, e);
    if (r == 0)
        r = code_compile(f->name, f->text, f->len, &code, e);
    if (r < 0)
        return r;
    code_fini(&code);
    return 0;
}

static int compile_all(struct program *p, const struct program_options *o, struct err *e)
{
    int r = check_file_name(o->main.name, e);
    if (r == 0)
        r = code_compile(o->main.name, o->main.text, o->main.len, &p->code.main, e);
    p->code.modules = xcalloc(o->module_count + 1, sizeof(*p->code.modules));
    for (size_t i = 0; r == 0 && i < o->module_count; i++) {
        const struct program_file *f = &o->modules[i];
        r = check_file_name(f->name, e);
        if (r == 0)
            r = code_compile(f->name, f->text, f->len, &p->code.modules[i], e);
        if (r == 0)
            p->code.module_count++;
    }
    return r;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct text *)a)->name, ((const struct text *)b)->name);
}

static void keep_texts(struct program *p, const struct program_options *o)
{
    p->files = xcalloc(o->text_count + 1, sizeof(*p->files));
    for (size_t i = 0; i < o->text_count; i++) {
        const struct program_file *f = &o->texts[i];
        p->files[i] = (struct text){xstrdup(f->name), xmemdup(f->text, f->len), f->len};
    }
    p->file_count = o->text_count;
    qsort(p->files, p->file_count, sizeof(*p->files), by_name);
}

const char *program_text(const struct program *p, const char *name, size_t *ret_len)
{
    const struct text key = {.name = (char *)name};
    const struct text *t = bsearch(&key, p->files, p->file_count, sizeof(key), by_name);
    if (t != NULL)
        *ret_len = t->len;
    return t != NULL ? t->data : NULL;
}

static void add_file(struct buf *b, const struct program_file *f)
{
    uint8_t digest[DIGEST_SHA256_LEN];
    digest_sha256(f->text, f->len, digest);
    buf_add(b, f->name, strlen(f->name) + 1);
    buf_add(b, digest, sizeof(digest));
}

static int compare_files(const void *a, const void *b)
{
    const struct program_file *const *x = a;
    const struct program_file *const *y = b;
    return strcmp((*x)->name, (*y)->name);
}

// Over the files' names and digests, modules and then texts in the order of their names.
static void make_hash(struct program *p, const struct program_options *o)
{
    struct buf b;
    buf_init(&b, SIZE_MAX);
    add_file(&b, &o->main);
    const struct program_file **sorted = xcalloc(o->module_count + 1, sizeof(struct program_file *));
    for (size_t i = 0; i < o->module_count; i++)
        sorted[i] = &o->modules[i];
    qsort(sorted, o->module_count, sizeof(struct program_file *), compare_files);
    for (size_t i = 0; i < o->module_count; i++)
        add_file(&b, sorted[i]);
    for (size_t i = 0; i < p->file_count; i++)
        add_file(&b, &(struct program_file){p->files[i].name, p->files[i].data, p->files[i].len});
    char hex[DIGEST_SHA256_HEX];
    digest_sha256_hex(b.data, b.len, hex);
    memcpy(p->hash, hex, HASH_DIGITS);
    free(sorted);
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
    const struct code *main = &r->program->code.main;
    code_push(L, main);
    sandbox_call(L, 0, 1, main->name);
    r->read = true;
    r->is_script = program_read_is_script(L, 1);
    if (r->is_script)
        program_read(L, 1, r->stem, &r->program->texts);
}

static int run_main(struct program *p, const struct program_options *o, struct err *e)
{
    struct reading reading = {.program = p};
    size_t n = strlen(o->main.name);
    if (str_has_suffix(o->main.name, ".lua"))
        n -= 4;
    const char *slash = memrchr(o->main.name, '/', n);
    const char *stem = slash != NULL ? slash + 1 : o->main.name;
    snprintf(reading.stem, sizeof(reading.stem), "%.*s", (int)(n - (size_t)(stem - o->main.name)), stem);

    struct sandbox_outcome outcome = {.end = PASS_OK};
    struct sandbox_job job = {
        .fn = read_table,
        .ud = &reading,
        .code = &p->code,
        .cpu_us = o->cpu_us != 0 ? o->cpu_us : CPU_US,
        .memory = o->memory != 0 ? o->memory : MEMORY,
    };
    buf_init(&outcome.traceback, TRACEBACK_MAX);
    struct sandbox *s = sandbox_new(NULL);
    sandbox_run(s, &job, &outcome);
    sandbox_free(s);
    buf_fini(&outcome.traceback);
    if (outcome.end != PASS_OK) {
        int code = outcome.end == PASS_RAISED ? reading.read ? ERR_INVALID : ERR_SCRIPT
                   : outcome.end == PASS_DEADLINE || outcome.end == PASS_MEMORY ? ERR_LIMIT
                                                                                : ERR_SCRIPT;
        err_set(e, code, "%s", outcome.err.text);
        if (reading.read || !str_has_prefix(outcome.err.text, o->main.name))
            err_prefix(e, "%s", o->main.name);
        return -code;
    }
    if (!reading.is_script)
        return err_set(e, ERR_NOT_FOUND, "%s: returns no table with a subject: it is a module, not a script",
                       o->main.name);
    return 0;
}

int program_new(const struct program_options *o, struct program **ret, struct err *e)
{
    struct program *p = xcalloc(1, sizeof(*p));
    atomic_init(&p->refs, 1);
    int r = compile_all(p, o, e);
    if (r == 0) {
        keep_texts(p, o);
        make_hash(p, o);
        r = run_main(p, o, e);
    }
    if (r < 0) {
        free_program(p);
        return r;
    }
    *ret = p;
    return 0;
}
