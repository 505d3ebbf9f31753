// k8s.quantity: an amount such as "500m" or "2Gi" as a Lua value with exact order, sum, difference and
// product by a whole number.
#ifndef SCRIPT_NATIVE_QUANTITY_H
#define SCRIPT_NATIVE_QUANTITY_H

#include <lua.h>

// Makes the metatable in the registry of a fresh state. May raise (memory).
void native_quantity_open(lua_State *L);
// native.quantity(text or number) -> quantity
int native_quantity_new(lua_State *L);
// The canonical text of the quantity at idx, or NULL: the value is something else. Raises nothing.
const char *native_quantity_text(lua_State *L, int idx);

#endif
