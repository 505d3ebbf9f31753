// Compiling a bundle, on a worker, within a budget: which of its files are scripts, which are modules, which
// are wrong. The result comes back to the loop.
#ifndef RUN_SCRIPT_LOAD_H
#define RUN_SCRIPT_LOAD_H

#include "run/source/source.h"
#include "run/workqueue/dispatch.h"
#include "script/program.h"

struct script_load_file {
    char *name;
    struct program *program; // NULL: see err; -ERR_NOT_FOUND means that it is a module
    struct err err;
};

struct script_load {
    char *origin;
    uint64_t generation;
    struct script_load_file *files; // the .lua files that are no specs
    size_t count;
    uint64_t cpu_us; // that it took, about
};

// Copies what it needs of the bundle. on_done (loop) takes the result.
void script_load_start(struct dispatcher *d, const struct source_bundle *b, uint64_t generation,
                       void (*on_done)(void *ud, struct script_load *load), void *ud);
void script_load_free(struct script_load *load); // programs that are still there too

// Does the bundle still stand for the script `name` that came from `file`: by a file that is broken now, or
// by a program of that name?
bool script_load_keeps(const struct script_load *load, const char *file, const char *name);

#endif
