// The compiled files of a program, as a running pass sees them. Immutable; any thread.
#ifndef SCRIPT_PROGRAM_CODE_H
#define SCRIPT_PROGRAM_CODE_H

#include <stddef.h>

#include "script/code.h"

struct program_code {
    const struct code *main;
    const struct code *files; // the main one among them
    size_t count;
};

struct program;
const struct program_code *program_code(const struct program *p);

// The module that require means by name: "lib" or "lib.lua". NULL: none.
const struct code *program_code_find(const struct program_code *c, const char *name);

#endif
