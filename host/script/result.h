// From the table that a script returned to the result's JSON text (script/pass.h says its form). One thread:
// the pass's.
#ifndef SCRIPT_RESULT_H
#define SCRIPT_RESULT_H

#include <lua.h>

#include "base/buf.h"
#include "base/err.h"
#include "script/pass.h"

// Checks the value at idx, which `entry` ("reconcile" or "finalize") returned, and writes it to out. Raises
// nothing. 0; -ERR_INVALID with the value's path; -ERR_LIMIT with the limit's name.
int result_write(lua_State *L, int idx, const struct pass_limits *limits, const char *entry, struct buf *out,
                 struct err *e);

#endif
