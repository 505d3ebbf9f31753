// A text for functions that take it up to a NUL: what stands behind one must not get lost in silence. Raises
// nothing.
#ifndef SCRIPT_PLAIN_TEXT_H
#define SCRIPT_PLAIN_TEXT_H

#include <lua.h>
#include <string.h>

// The text at idx, the state's; NULL when it is none or has a NUL.
static inline const char *plain_text(lua_State *L, int idx)
{
    if (lua_type(L, idx) != LUA_TSTRING)
        return NULL;
    const char *text = lua_tostring(L, idx);
    return strlen(text) == lua_objlen(L, idx) ? text : NULL;
}

#endif
