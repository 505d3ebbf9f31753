// The `world` table of a pass: arguments checked in words an author understands, answers turned into tables.
// May raise; the pass's thread.
#ifndef SCRIPT_WORLD_LIB_H
#define SCRIPT_WORLD_LIB_H

#include <lua.h>

#include "base/buf.h"
#include "script/program.h"
#include "script/world.h"

// What the functions find as sandbox_ud(L).
struct world_lib {
    const struct world_ops *ops;
    void *ud;
    const char *env_json; // or NULL
    int64_t now_us;
    const struct program_spec *spec; // its index; NULL: none
    unsigned log_lines, lines_max;   // written, and that may be
    size_t log_bytes, log_max;       // of their messages and fields
    struct buf scratch;              // of the caller
};

void world_lib_push(lua_State *L);

#endif
