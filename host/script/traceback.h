// Where a script is, without the host's frames: C functions and the library's modules, whose chunks are named
// "[...]". The pass's thread; raises nothing.
#ifndef SCRIPT_TRACEBACK_H
#define SCRIPT_TRACEBACK_H

#include <lua.h>
#include <stddef.h>

#include "base/buf.h"

// "memcached.lua:12: " of the innermost script frame, or "".
void traceback_where(lua_State *L, char *out, size_t cap);
// What stands behind "[tidelock.json]:12: ", where a text begins with a line of the library; else the text.
const char *traceback_skip_library(const char *text);
// One line a frame, innermost first: "memcached.lua:12: in function 'deployment'".
void traceback_add(lua_State *L, struct buf *out);

#endif
