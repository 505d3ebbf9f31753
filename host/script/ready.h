// The `ready` functions of apply entries: asked at the pass's end, in the same state and budget, about the
// live child. May raise; the pass's thread.
#ifndef SCRIPT_READY_H
#define SCRIPT_READY_H

#include <lua.h>

#include "script/world_lib.h"

enum { READY_PATH_MAX = 48 };

// Replaces each function `apply[i].ready` of the result at idx by its verdict (a child that is not there is
// not ready, and the function is not called). `at` is the path of the function that runs, "" outside.
void ready_ask(lua_State *L, int idx, struct world_lib *w, char at[READY_PATH_MAX]);

#endif
