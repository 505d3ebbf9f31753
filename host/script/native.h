// require "tidelock.native": what the bundled Lua modules need from C. Only bundled modules reach it, never a
// script. Its functions follow the rules of every C function in a pass: arguments are checked, nothing that
// malloc gave is owned across a call that can raise (a raise or an exhausted arena may leave the frame at any
// Lua API call and no __gc ever runs), work is bounded.
#ifndef SCRIPT_NATIVE_H
#define SCRIPT_NATIVE_H

#include <lauxlib.h>
#include <lua.h>

// Pushes a new table: fail, and all that native_value.c has. May raise.
void native_push(lua_State *L);

// native.fail(kind, reason, message [, after_us]) raises: kind is "retry" or "invalid"; reason CamelCase, at
// most 63 bytes. The error object is a userdata that pcall may catch and error() may raise again; it has
// .kind, .reason, .message and tostring.
int native_fail(lua_State *L);

// native_value.c: arrays, null, boxed integers, comparison, JSON, YAML, base64, SHA-256, quantities.
// Terminated by {NULL, NULL}.
extern const luaL_Reg native_value_functions[];
// Adds members that are no functions (null) to the table on top of the stack.
void native_value_open(lua_State *L);

#endif
