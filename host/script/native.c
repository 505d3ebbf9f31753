#include "script/native.h"

#include <ctype.h>
#include <stdbool.h>
#include <string.h>

#include "script/failure.h"

// As the API wants reasons: letters, digits, '_', ',' and ':', beginning with a letter.
static bool is_reason(const char *s, size_t n)
{
    if (n == 0 || !isalpha((unsigned char)s[0]))
        return false;
    for (size_t i = 0; i < n; i++) {
        if (!isalnum((unsigned char)s[i]) && (s[i] == 0 || strchr("_,:", s[i]) == NULL))
            return false;
    }
    return true;
}

int native_fail(lua_State *L)
{
    static const char *const kinds[] = {"retry", "invalid", NULL};
    int kind = luaL_checkoption(L, 1, NULL, kinds);
    size_t reason_len;
    size_t message_len;
    const char *reason = luaL_checklstring(L, 2, &reason_len);
    const char *message = luaL_checklstring(L, 3, &message_len);
    lua_Number after_us = luaL_optnumber(L, 4, 0);
    if (!(after_us >= 0 && after_us < 1e15))
        return luaL_error(L, "the time after which to retry must be between 0 and 30 years");
    if (!is_reason(reason, reason_len))
        return luaL_error(L, "k8s.%s: the reason must be one word in CamelCase such as \"WaitingForPods\"",
                          kinds[kind]);
    failure_push(L, kind == 0 ? FAILURE_RETRY : FAILURE_INVALID, reason, reason_len, message, message_len,
                 (int64_t)after_us);
    return lua_error(L);
}

void native_push(lua_State *L)
{
    lua_newtable(L);
    lua_pushcfunction(L, native_fail);
    lua_setfield(L, -2, "fail");
    for (const luaL_Reg *f = native_value_functions; f->name != NULL; f++) {
        lua_pushcfunction(L, f->func);
        lua_setfield(L, -2, f->name);
    }
    native_value_open(L);
}
