// Values for the bundled modules.
#include "script/native.h"

const luaL_Reg native_value_functions[] = {
    {NULL, NULL},
};

void native_value_open(lua_State *L)
{
    (void)L;
}
