// string.format: %c %d %i %u %o %x %X %a %A %e %E %f %g %G %q %s %%, width and precision of at most two
// digits. May raise.
#ifndef SCRIPT_STR_FORMAT_H
#define SCRIPT_STR_FORMAT_H

#include <lua.h>

int str_format(lua_State *L);

#endif
