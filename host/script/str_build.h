// A string that grows during a call: first on the C stack, then in a userdata at a fixed place of the Lua
// stack, so that a raise loses nothing. Adding may raise (memory) and never moves other values of the stack.
#ifndef SCRIPT_STR_BUILD_H
#define SCRIPT_STR_BUILD_H

#include <lua.h>
#include <stddef.h>

struct str_build {
    lua_State *L;
    int slot;
    char *data;
    size_t len;
    size_t cap;
    char small[256];
};

void str_build_init(struct str_build *b, lua_State *L); // takes one place on the stack
void str_build_add(struct str_build *b, const char *s, size_t n);
void str_build_add_value(struct str_build *b); // pops a string or number
void str_build_push(struct str_build *b);      // pushes the result

#endif
