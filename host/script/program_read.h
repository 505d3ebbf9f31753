// The table of a script, checked and copied into a program_spec. May raise (an error text without a
// position); the thread of program_new.
#ifndef SCRIPT_PROGRAM_READ_H
#define SCRIPT_PROGRAM_READ_H

#include <lua.h>
#include <stdbool.h>

#include "base/strset.h"
#include "script/program.h"

// Owns what a spec points to.
struct program_texts {
    struct program_spec spec;
    char *name, *subject, *selector, *fields, *service_account, *retry_kind;
    char **namespaces; // NULL-terminated
    char **changed;
    char **index; // name, path, name, path ...
    struct program_index *indexes;
};

void program_texts_fini(struct program_texts *t);

// Is the value at idx a script's table, with a subject?
bool program_read_is_script(lua_State *L, int idx);
// Reads it; `stem` is the name by default. Texts are copied to t as they are found good: program_texts_fini
// also after a raise.
void program_read(lua_State *L, int idx, const char *stem, struct program_texts *t);

#endif
