// The error object of k8s.retry and k8s.invalid: a userdata that stays what it is when it is caught and
// raised again. The pass's thread.
#ifndef SCRIPT_FAILURE_H
#define SCRIPT_FAILURE_H

#include <lua.h>
#include <stddef.h>
#include <stdint.h>

enum failure_kind { FAILURE_RETRY, FAILURE_INVALID };
enum { FAILURE_REASON_MAX = 63 };

struct failure {
    enum failure_kind kind;
    char reason[FAILURE_REASON_MAX + 1];
    int64_t after_us; // 0: not given
    size_t message_len;
    char message[]; // NUL-terminated
};

// Makes the metatable in the registry of a fresh state. May raise.
void failure_open(lua_State *L);
// Reasons and messages that are too long are cut. May raise.
void failure_push(lua_State *L, enum failure_kind kind, const char *reason, size_t reason_len,
                  const char *message, size_t message_len, int64_t after_us);
const struct failure *failure_get(lua_State *L, int idx); // NULL: the value is something else

#endif
