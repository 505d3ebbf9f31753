// Bytecode made by the host from source text; never read from outside. Immutable once made; any thread.
#ifndef SCRIPT_CODE_H
#define SCRIPT_CODE_H

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

enum {
    CODE_SOURCE_MAX = 4 * 1024 * 1024,
    CODE_CPU_US = 1000 * 1000, // for the files of a bundle together: a megabyte of plain code takes a tenth
    CODE_MEMORY_MAX = 64 * 1024 * 1024, // for one file, about: looked at between two pieces of it
};

struct code {
    char *name; // what errors show
    char *bytes;
    size_t len;
};

// Compiles source text within *cpu_us of this thread's CPU time and takes off what it used. 0; -ERR_PARSE
// with file:line (bytecode, a syntax error, a number literal that would be a C type); -ERR_LIMIT.
int code_compile(const char *name, const char *text, size_t len, uint64_t *cpu_us, struct code *ret,
                 struct err *e);
void code_fini(struct code *c);

struct lua_State;
// Pushes the chunk as a function. May raise (memory).
void code_push(struct lua_State *L, const struct code *c);

// A module of the library, compiled at its first use and kept for the process; NULL: there is none of that
// name. Its chunk is named
// "[tidelock.json]": by the bracket, frames of the host are told from frames of a script.
const struct code *code_bundled(const char *module);
// For a module of Lua that is unloaded: frees what code_bundled keeps. Nobody uses it any more.
void code_free_bundled(void);

#endif
