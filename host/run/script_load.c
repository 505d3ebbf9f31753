#include "run/script_load.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "run/workqueue/workers.h"

// CPU time of the main chunks: all of them, and one; and what compiling counts for inline, where no clock is
// read.
enum { BUDGET_US = 1000 * 1000, FILE_US = 100 * 1000, BYTES_A_US = 20 };

struct job {
    struct dispatch_task task;  // first: the dispatcher knows it by this
    struct program_file *files; // copies of all .lua files that are no specs
    struct program_file *texts; // and of those that are no Lua
    size_t count, text_count;
    struct script_load *load;
    bool given_up;
    void (*on_done)(void *ud, struct script_load *load);
    void *ud;
};

static void free_files(struct program_file *files, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        free((char *)files[i].name);
        free((char *)files[i].text);
    }
    free(files);
}

static void deliver(struct message *m)
{
    struct job *j = (struct job *)((char *)m - offsetof(struct job, task.message));
    free_files(j->files, j->count);
    free_files(j->texts, j->text_count);
    if (j->given_up)
        script_load_free(j->load);
    else
        j->on_done(j->ud, j->load);
    free(j);
}

static struct script_load *load_new(const struct job *j, const char *origin, uint64_t generation)
{
    struct script_load *load = xcalloc(1, sizeof *load);
    load->origin = xstrdup(origin);
    load->generation = generation;
    load->count = j->count;
    load->files = xcalloc(j->count + 1, sizeof load->files[0]);
    for (size_t i = 0; i < j->count; i++)
        load->files[i].name = xstrdup(j->files[i].name);
    return load;
}

static void compile_one(struct script_load *load, struct program_files *files, size_t i,
                        struct pass_runner *runner)
{
    struct script_load_file *f = &load->files[i];
    uint64_t left = load->cpu_us < BUDGET_US ? BUDGET_US - load->cpu_us : 0, used;
    if (left == 0) {
        err_set(
            &f->err, ERR_LIMIT,
            "%s: the files before it took %d ms of CPU time to be read, which is all that a bundle may use: "
            "let main chunks only build their tables",
            f->name, BUDGET_US / 1000);
        return;
    }
    int r = program_of_files(files, i, runner, left < FILE_US ? left : FILE_US, &f->program, &used, &f->err);
    if (r < 0)
        f->err.code = r;
    load->cpu_us += used;
}

static uint64_t compile_us(const struct job *j, const struct program_files *files,
                           const struct pass_runner *runner)
{
    uint64_t bytes = 0;
    if (!budget_is_inline(pass_runner_budget(runner)))
        return program_files_cpu_us(files);
    for (size_t i = 0; i < j->count; i++)
        bytes += j->files[i].len;
    return bytes / BYTES_A_US;
}

static void compile_all(struct dispatch_task *t, void *worker)
{
    struct job *j = (struct job *)t;
    struct program_files *files = program_files_new(j->files, j->count, j->texts, j->text_count);
    for (size_t i = 0; i < j->count; i++)
        compile_one(j->load, files, i, worker_runner(worker));
    j->load->cpu_us += compile_us(j, files, worker_runner(worker));
    program_files_unref(files);
}

static void give_up(struct dispatch_task *t)
{
    struct job *j = (struct job *)t;
    struct script_load *load = load_new(j, j->load->origin, j->load->generation);
    for (size_t i = 0; i < load->count; i++)
        err_set(
            &load->files[i].err, ERR_LIMIT,
            "%s: the bundle can not be read: one of its main chunks is stuck in a function that does not end",
            load->files[i].name);
    j->given_up = true;
    j->on_done(j->ud, load);
}

static struct program_file copy_of(const struct source_file *f)
{
    return (struct program_file){xstrdup(f->name), xmemdup(f->text, f->len), f->len};
}

void script_load_start(struct dispatcher *d, const struct source_bundle *b, uint64_t generation,
                       void (*on_done)(void *ud, struct script_load *load), void *ud)
{
    struct job *j = xcalloc(1, sizeof *j);
    j->task = (struct dispatch_task){.run = compile_all, .message = {.run = deliver}, .give_up = give_up};
    j->on_done = on_done;
    j->ud = ud;
    j->files = xcalloc(b->count + 1, sizeof j->files[0]);
    j->texts = xcalloc(b->count + 1, sizeof j->texts[0]);
    for (size_t i = 0; i < b->count; i++) {
        const struct source_file *f = &b->files[i];
        if (!source_is_lua(f->name))
            j->texts[j->text_count++] = copy_of(f);
        else if (!source_is_spec(f->name))
            j->files[j->count++] = copy_of(f);
    }
    j->load = load_new(j, b->origin, generation);
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
