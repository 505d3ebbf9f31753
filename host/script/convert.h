// JSON <-> Lua values, inside script/ only. The rules of "Values": a decoded array carries the array
// metatable; k8s.null is a light userdata; integers to 2^53 are numbers, beyond that boxed int64/uint64
// (script/boxed.h). A null in an object reads as nil and is written again as long as the script gives that
// field no value; a null in an array is k8s.null.
//
// Nothing is owned across a raise: a function here that parses text pushes the values within a protected
// call, frees the document and raises again. What malloc gave is on the list of script/own.h meanwhile.
#ifndef SCRIPT_CONVERT_H
#define SCRIPT_CONVERT_H

#include <stdbool.h>

#include <lua.h>

#include "base/err.h"
#include "data/json.h"
#include "data/json_write.h"

enum {
    CONVERT_DEPTH_MAX = 200
}; // of what a script returns or encodes; what it reads may nest as deep as JSON_DEPTH_MAX

// Makes the metatables in the registry of a fresh state. May raise (memory).
void convert_open(lua_State *L);
// Pushes a decoded value. May raise (memory, depth).
void convert_push(lua_State *L, const json *v);
// Decodes a text: 0 and one value pushed, or -ERR_PARSE, -ERR_LIMIT and nothing pushed. May raise (memory).
int convert_push_text(lua_State *L, const char *text, size_t len, struct err *e);
// Pushes a table that decodes itself from this text when a field is first touched (list items). `text` must
// stay valid for the pass. May raise. Until then `#`, ipairs, rawget, rawset, next and pairs see nothing of
// it: the sandbox's own versions of the last four call convert_force; list items are objects, to which the
// first two do not apply.
void convert_push_lazy(lua_State *L, const char *text, size_t len);
// Makes a lazy table at idx whole (for pairs, next, rawget, the encoder). No-op on anything else. May raise.
void convert_force(lua_State *L, int idx);
// Forces both and lets the table at `to` be what the one at `from` is: array mark and remembered nulls
// (copies). May raise (memory).
void convert_mark_like(lua_State *L, int to, int from);
void convert_push_null(lua_State *L);
int convert_is_null(lua_State *L, int idx);
// Marks the table at idx as an array (k8s.array).
void convert_mark_array(lua_State *L, int idx);
int convert_is_array(lua_State *L, int idx); // by mark, or by content (a non-empty sequence)

// Encodes the value at idx with sorted keys into w; raises nothing, calls no metamethod, and leaves the stack
// as it was. An empty table without a mark is written as {} . 0, or an error whose text starts with the
// value's path ("status.items[2]: ..."): holes, mixed or odd keys, functions, NaN, too deep, contains itself,
// invalid UTF-8, the buffer's cap (-ERR_LIMIT). Integral doubles are written as integers up to 2^63.
int convert_write(lua_State *L, int idx, struct json_writer *w, const char *path, struct err *e);

#endif
