// require: bundled modules and the script's siblings, each run at most once a pass.
#ifndef SCRIPT_REQUIRE_H
#define SCRIPT_REQUIRE_H

#include <lua.h>

int require_module(lua_State *L); // upvalue 1 true: "tidelock.native" is found too

#endif
