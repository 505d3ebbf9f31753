// Global functions that are ours instead of LuaJIT's. May raise.
#ifndef SCRIPT_BASE_LIB_H
#define SCRIPT_BASE_LIB_H

#include <lua.h>

// The text of a number as tostring has it: a whole one with all its digits, where LuaJIT rounds to 14.
void base_lib_push_number(lua_State *L, lua_Number n);

void base_lib_open(lua_State *L); // before setmetatable is called
// Collects garbage; the collector must run nowhere else. Tables of scripts are strong: what goes of a weak
// one and when would tell a script of the order of hashes. A metatable may get its __mode at any time, so it
// is taken out for as long as this takes.
void base_lib_collect(lua_State *L);

int base_lib_error(lua_State *L);  // a level that is none has the script's line, too
int base_lib_pcall(lua_State *L);  // catches no stop of the pass
int base_lib_rawget(lua_State *L); // these four make lazy tables whole first
int base_lib_rawlen(lua_State *L);
int base_lib_rawset(lua_State *L);
int base_lib_setmetatable(lua_State *L);
int base_lib_tostring(lua_State *L); // no addresses; integral numbers as integers
int base_lib_xpcall(lua_State *L);   // the handler runs after the error, protected

#endif
