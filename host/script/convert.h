// JSON <-> Lua values, inside script/ only. The rules of "Values": a decoded array carries the array metatable; k8s.null is a light userdata; integers to
// 2^53 are numbers, beyond that boxed int64/uint64 (userdata; equality and order between boxed values, tostring, arithmetic is an error).
#ifndef SCRIPT_CONVERT_H
#define SCRIPT_CONVERT_H

#include <lua.h>

#include "base/err.h"
#include "data/json.h"
#include "data/json_write.h"

enum { CONVERT_DEPTH_MAX = 200 }; // of what a script returns or encodes; what it reads may nest as deep as JSON_DEPTH_MAX

// Makes the metatables in the registry of a fresh state. May raise (memory).
void convert_open(lua_State *L);
// Pushes a decoded value. May raise (memory, depth).
void convert_push(lua_State *L, const json *v);
// Pushes a table that decodes itself from this text when a field is first touched (list items). `text` must stay valid for the pass. May raise.
void convert_push_lazy(lua_State *L, const char *text, size_t len);
// Makes a lazy table at idx whole (for pairs, next, rawget, the encoder). No-op on anything else. May raise.
void convert_force(lua_State *L, int idx);
void convert_push_null(lua_State *L);
int convert_is_null(lua_State *L, int idx);
// Marks the table at idx as an array (k8s.array).
void convert_mark_array(lua_State *L, int idx);
int convert_is_array(lua_State *L, int idx); // by mark, or by content (a non-empty sequence)

// Encodes the value at idx with sorted keys into w; raises nothing. An empty table without a mark is written as {} . 0, or an error whose text starts with
// the value's path ("status.items[2]: ..."): holes, mixed or odd keys, functions, NaN, too deep, contains itself, invalid UTF-8, the buffer's cap (-ERR_LIMIT).
int convert_write(lua_State *L, int idx, struct json_writer *w, const char *path, struct err *e);

#endif
