// Secrets that are made, not kept: the same for the same host key, subject and name. Pure; any thread.
#ifndef RUN_WORLD_SECRET_VALUE_H
#define RUN_WORLD_SECRET_VALUE_H

#include <stdint.h>

#include "base/err.h"

enum { SECRET_VALUE_KEY = 32, SECRET_VALUE_MAX = 1024, SECRET_VALUE_NAME_MAX = 253 };

// Is the request in order? charset NULL: letters and digits. 0 or -ERR_INVALID with what to change; never a
// part of a value.
int secret_value_check(const char *name, int length, const char *charset, struct err *e);
// HMAC-SHA-256 over the subject's UID and the name, expanded to `length` characters of the charset, each as
// likely as the others. A shorter value is the beginning of a longer one. The request must be in order; out
// has length + 1 bytes.
void secret_value_make(const uint8_t key[SECRET_VALUE_KEY], const char *uid, const char *name, int length,
                       const char *charset, char *out);

#endif
