#include "run/script_load.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

struct job {
    struct dispatch_task task; // first: the dispatcher knows it by this
    struct message message;
    struct loop *loop;
    struct source_file *files; // copies of all .lua files that are no specs
    struct source_file *texts; // and of those that are no Lua
    size_t text_count;
    struct script_load *load;
    void (*on_done)(void *ud, struct script_load *load);
    void *ud;
};

static void deliver(struct message *m)
{
    struct job *j = (struct job *)((char *)m - offsetof(struct job, message));
    struct script_load *load = j->load;
    for (size_t i = 0; i < load->count; i++) {
        free(j->files[i].name);
        free(j->files[i].text);
    }
    for (size_t i = 0; i < j->text_count; i++) {
        free(j->texts[i].name);
        free(j->texts[i].text);
    }
    free(j->files);
    free(j->texts);
    j->on_done(j->ud, load);
    free(j);
}

static struct program_file program_file_of(const struct source_file *f)
{
    return (struct program_file){f->name, f->text, f->len};
}

static void compile_one(struct job *j, size_t i)
{
    struct script_load *load = j->load;
    struct program_file *modules = xcalloc(load->count, sizeof modules[0]);
    struct program_file *texts = xcalloc(j->text_count + 1, sizeof texts[0]);
    struct program_options o = {.main = program_file_of(&j->files[i]),
                                .modules = modules,
                                .texts = texts,
                                .text_count = j->text_count};
    for (size_t k = 0; k < j->text_count; k++)
        texts[k] = program_file_of(&j->texts[k]);
    for (size_t k = 0; k < load->count; k++)
        if (k != i)
            modules[o.module_count++] = program_file_of(&j->files[k]);
    int r = program_new(&o, &load->files[i].program, &load->files[i].err);
    if (r < 0)
        load->files[i].err.code = r;
    free(modules);
    free(texts);
}

static void compile_all(struct dispatch_task *t, void *worker)
{
    struct job *j = (struct job *)t;
    (void)worker;
    for (size_t i = 0; i < j->load->count; i++)
        compile_one(j, i);
    j->message.run = deliver;
    loop_post(j->loop, &j->message);
}

void script_load_start(struct loop *l, struct dispatcher *d, const struct source_bundle *b,
                       uint64_t generation, void (*on_done)(void *ud, struct script_load *load), void *ud)
{
    struct job *j = xcalloc(1, sizeof *j);
    struct script_load *load = xcalloc(1, sizeof *load);
    *j = (struct job){.task = {.run = compile_all}, .loop = l, .load = load, .on_done = on_done, .ud = ud};
    load->origin = xstrdup(b->origin);
    load->generation = generation;
    load->files = xcalloc(b->count + 1, sizeof load->files[0]);
    j->files = xcalloc(b->count + 1, sizeof j->files[0]);
    j->texts = xcalloc(b->count + 1, sizeof j->texts[0]);
    for (size_t i = 0; i < b->count; i++) {
        const struct source_file *f = &b->files[i];
        struct source_file copy = {xstrdup(f->name), xmemdup(f->text, f->len), f->len};
        if (!source_is_lua(f->name)) {
            j->texts[j->text_count++] = copy;
            continue;
        }
        if (source_is_spec(f->name)) {
            free(copy.name);
            free(copy.text);
            continue;
        }
        j->files[load->count] = copy;
        load->files[load->count++].name = xstrdup(f->name);
    }
    dispatch_submit(d, &j->task);
}

void script_load_free(struct script_load *load)
{
    for (size_t i = 0; i < load->count; i++) {
        free(load->files[i].name);
        program_unref(load->files[i].program);
    }
    free(load->files);
    free(load->origin);
    free(load);
}

bool script_load_keeps(const struct script_load *load, const char *file, const char *name)
{
    for (size_t i = 0; i < load->count; i++) {
        const struct script_load_file *f = &load->files[i];
        if (f->program != NULL ? strcmp(program_spec(f->program)->name, name) == 0
                               : f->err.code != -ERR_NOT_FOUND && strcmp(f->name, file) == 0)
            return true;
    }
    return false;
}
