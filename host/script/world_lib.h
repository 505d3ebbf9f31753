// The `world` table of a pass: arguments checked in words an author understands, answers turned into tables.
// May raise; the pass's thread.
#ifndef SCRIPT_WORLD_LIB_H
#define SCRIPT_WORLD_LIB_H

#include <lua.h>

#include "base/buf.h"
#include "script/world.h"

// What the functions find as sandbox_ud(L).
struct world_lib {
    const struct world_ops *ops;
    void *ud;
    const char *env_json; // or NULL
    int64_t now_us;
    unsigned log_lines; // that may still be written
    unsigned log_max;
    struct buf scratch; // of the caller
};

void world_lib_push(lua_State *L);

#endif
