// One version of a script: compiled once, immutable, refcounted, run by any worker.
#ifndef SCRIPT_PROGRAM_H
#define SCRIPT_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct pass_runner; // script/pass.h
struct program;
struct program_files;

enum {
    PROGRAM_CPU_US = 100 * 1000, // of a pass whose script asks for no other budget, and of a main chunk
    PROGRAM_CPU_MIN_US = 1000,
    PROGRAM_MEMORY = 16 * 1024 * 1024,
    PROGRAM_MEMORY_MIN = 1024 * 1024,
};

struct program_file {
    const char *name; // "memcached.lua": what errors show
    const char *text;
    size_t len;
};

struct program_index { // list(kind, {index = {NAME = value}}) asks for objects with that value at PATH
    const char *name;
    const char *path; // dotted
};

// What the script's table says; strings are owned by the program.
struct program_spec {
    const char *name;                  // DNS label; default: the file's stem
    const char *subject;               // "cache.example.com/v1alpha1/Memcached", as written
    const char *selector;              // label selector text or NULL
    const char *fields;                // field selector text or NULL
    const char *const *namespaces;     // NULL-terminated, or NULL: all
    const char *const *changed;        // predicate: dotted paths, NULL-terminated, or NULL
    const struct program_index *index; // sorted by name
    size_t index_count;
    bool has_when, has_finalize, has_validate, has_mutate, has_convert;
    int64_t resync_us;           // 0: none
    int64_t finalize_timeout_us; // 0: none
    bool finalize_abandon;
    int workers;                 // 0: no limit of its own
    const char *service_account; // or NULL
    struct {
        bool given;              // the table has a `retry`
        const char *kind;        // "exponential", "fast_slow", "fixed", or NULL: the default
        int64_t base_us, max_us; // 0: the default
        int fast_attempts;
        bool jitter;
    } retry;
    struct {
        uint64_t cpu_us; // of a pass; 0: PROGRAM_CPU_US
        size_t memory;   // 0: PROGRAM_MEMORY
    } limits;
};

struct program_options {
    struct program_file main;
    const struct program_file *modules; // other .lua files, for require by stem ("lib" or "lib.lua")
    size_t module_count;
    const struct program_file *texts; // the files that are no Lua, for world.data; they count for the hash
    size_t text_count;
    uint64_t cpu_us; // for running the main chunk once; 0: PROGRAM_CPU_US, whatever its table asks for
    size_t memory;   // 0: PROGRAM_MEMORY
};

// The files of a bundle, each compiled once, for all the programs among them, in CODE_CPU_US at most.
// Immutable, refcounted, any thread. What does not compile is an error of the programs made of it.
struct program_files *program_files_new(const struct program_file *lua, size_t lua_count,
                                        const struct program_file *texts, size_t text_count);
void program_files_unref(struct program_files *f);
uint64_t program_files_cpu_us(const struct program_files *f); // that compiling them took
// The program whose main file is lua[main], as program_new. Its main chunk runs in `runner` (NULL: a place of
// its own, with an instruction count for a budget) for at most cpu_us (0: 100 ms); *ret_cpu_us is what it
// took, on failure too.
int program_of_files(struct program_files *f, size_t main, struct pass_runner *runner, uint64_t cpu_us,
                     struct program **ret, uint64_t *ret_cpu_us, struct err *e);

// Compiles all files and runs the main chunk once in a sandbox to read its table. 0, or an error with
// file:line, what is wrong and what to change: syntax, no table returned, no subject, no reconcile, unknown
// keys (a misspelt one is named with the nearest known). A file whose chunk returns no table with `subject`
// gives -ERR_NOT_FOUND: it is a module, not a script.
int program_new(const struct program_options *o, struct program **ret, struct err *e);
struct program *program_ref(struct program *p);
void program_unref(struct program *p);
const struct program_spec *program_spec(const struct program *p);
const char *program_file_name(const struct program *p); // of its main file, as it was given
const char *
program_hash(const struct program *p); // hex SHA-256 over all its files, first 16 digits: the version

// The text of that name, borrowed; NULL: there is none.
const char *program_text(const struct program *p, const char *name, size_t *ret_len);

// Any text: does it compile? For modules and specs. 0 or -ERR_PARSE with file:line.
int program_check(const struct program_file *f, struct err *e);

#endif
