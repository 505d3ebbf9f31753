// What convert.c and convert_write.c tell each other, and result.c, about the tables they make.
#ifndef SCRIPT_CONVERT_INTERNAL_H
#define SCRIPT_CONVERT_INTERNAL_H

#include <stddef.h>

#include <lua.h>

#include "base/err.h"
#include "data/json_write.h"
#include "script/value_path.h"

// Pushes the metatable of arrays, or of lazy tables; raises nothing.
void convert_push_array_metatable(lua_State *L);
void convert_push_lazy_metatable(lua_State *L);
// Replaces the metatable at the top by its set of names whose null was read ({name = true}), or by nil.
void convert_push_nulls(lua_State *L);
// Calls fn protected, the value at idx (0: nil) alone on its stack. Pushes what fn leaves at the top, or the
// error; gives lua_pcall's status. Raises nothing; needs three free slots.
int convert_protected(lua_State *L, int idx, void (*fn)(lua_State *L, void *ud), void *ud);
// convert_write below a path that is a chain of links (or NULL).
int convert_write_at(lua_State *L, int idx, struct json_writer *w, const struct value_path *path,
                     struct err *e);
// The number of elements of the list (a table, not lazy) at the top; -ERR_INVALID when it has gaps, text keys
// or odd keys. Raises nothing.
int convert_list_count(lua_State *L, const struct value_path *path, size_t *ret, struct err *e);

#endif
