// The allow-list: every global and library function that a script has, as data. What is not in the table of
// allow.c does not exist in the state.
#ifndef SCRIPT_ALLOW_H
#define SCRIPT_ALLOW_H

#include <lua.h>

// Opens the libraries in a fresh state and replaces its globals by those of the list. May raise.
void allow_open(lua_State *L);
// Calls fn for each name: library is "" for globals.
void allow_each(void (*fn)(void *ud, const char *library, const char *name), void *ud);
// Sets the environment of the library's chunk on top of the stack: the same functions, out of a script's
// reach, and a require that finds "tidelock.native".
void allow_set_library_env(lua_State *L);
// Pushes what tostring gives for the value at idx, always a string. May raise.
void allow_push_tostring(lua_State *L, int idx);

#endif
