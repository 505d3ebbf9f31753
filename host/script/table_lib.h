// table.concat, table.insert and table.sort of our own: whole numbers keep their digits; bounded work; array
// marks stay, since only elements move. The rest of table is LuaJIT's, which moves elements only too.
#ifndef SCRIPT_TABLE_LIB_H
#define SCRIPT_TABLE_LIB_H

#include <lua.h>

enum { TABLE_LIB_SORT_MAX = 100000 };

int table_lib_concat(lua_State *L); // takes exact integers too
int table_lib_insert(lua_State *L);
int table_lib_sort(lua_State *L); // stable, n log n for any input and comparison

#endif
