// Functions of string that search and build, with bounded work (script/pattern.h). As in the Lua 5.1 manual.
// May raise.
#ifndef SCRIPT_STR_LIB_H
#define SCRIPT_STR_LIB_H

#include <lua.h>

enum { STR_LIB_REP_MAX = 1024 * 1024 };

int str_lib_find(lua_State *L);
int str_lib_match(lua_State *L);
int str_lib_gmatch(lua_State *L);
int str_lib_gsub(lua_State *L);
int str_lib_rep(lua_State *L);

#endif
