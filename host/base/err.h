// Errors: functions return 0 or a negative code (-ERR_...) and take an optional `struct err *` last for the
// text. Any thread. An err is a plain value: nothing to free.
#ifndef BASE_ERR_H
#define BASE_ERR_H

#include <stdbool.h>
#include <stddef.h>

// X(code, name, HTTP status it stands for or 0). `name` is what logs, metrics and Lua show.
#define ERR_LIST(X)                                                                                          \
    X(ERR_INVALID, "Invalid", 422) /* input that can not be used; waiting does not help */                   \
    X(ERR_PARSE, "Parse", 400)     /* text that is not what it claims to be */                               \
    X(ERR_NOT_FOUND, "NotFound", 404)                                                                        \
    X(ERR_EXISTS, "AlreadyExists", 409)                                                                      \
    X(ERR_CONFLICT, "Conflict", 409)                                                                         \
    X(ERR_UNAUTHORIZED, "Unauthorized", 401)                                                                 \
    X(ERR_FORBIDDEN, "Forbidden", 403)                                                                       \
    X(ERR_GONE, "Expired", 410) /* resourceVersion or continue token too old */                              \
    X(ERR_TOO_LARGE, "RequestEntityTooLarge", 413)                                                           \
    X(ERR_TOO_MANY, "TooManyRequests", 429)                                                                  \
    X(ERR_TIMEOUT, "Timeout", 504)                                                                           \
    X(ERR_UNAVAILABLE, "ServiceUnavailable", 503)                                                            \
    X(ERR_INTERNAL, "InternalError", 500)                                                                    \
    X(ERR_BAD_REQUEST, "BadRequest", 400)                                                                    \
    X(ERR_UNSUPPORTED, "NotSupported", 501)                                                                  \
    X(ERR_NETWORK, "Network", 0)     /* no HTTP answer: resolve, connect, TLS, reset */                      \
    X(ERR_TLS, "TLS", 0)             /* certificate or key is wrong: a person has to act */                  \
    X(ERR_IO, "IO", 0)               /* file system */                                                       \
    X(ERR_LIMIT, "LimitExceeded", 0) /* one of our own caps */                                               \
    X(ERR_CANCELED, "Canceled", 0)                                                                           \
    X(ERR_SCRIPT, "ScriptError", 0) /* a script raised */                                                    \
    X(ERR_RETRY, "Retry", 0)        /* a script asked to be run again (k8s.retry) */                         \
    X(ERR_TERMINAL, "Terminal", 0)  /* a script gave up until an input changes (k8s.invalid) */              \
    X(ERR_PARKED, "Parked", 0)      /* a pass waits for a kind to be synced */

enum err_code {
    ERR_NONE = 0,
#define X(code, name, http) code,
    ERR_LIST(X)
#undef X
        ERR_COUNT
};

enum { ERR_TEXT_MAX = 1024 };

struct err {
    int code; // negative, as returned
    char text[ERR_TEXT_MAX];
};

// Sets *e (may be NULL) and returns -code, so that `return err_set(e, ERR_INVALID, "...")` reads well.
// Text that is too long is cut at a UTF-8 border.
int err_set(struct err *e, enum err_code code, const char *fmt, ...) __attribute__((format(printf, 3, 4)));

// Puts "prefix: " before the text that *e already has; returns e->code.
int err_prefix(struct err *e, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

// Adds "; " and the text of another error to *e, which holds those of `parts` and keeps its code. What is
// wrong stands at a text's end: of a long one the middle is left out. Without room for it nothing is added.
void err_join(struct err *e, size_t parts, const char *text);

// Name of a code, given as returned (negative) or positive: "NotFound". Never NULL.
const char *err_name(int code);

// The code for an HTTP status (>= 400), e.g. 404 -> ERR_NOT_FOUND; 5xx unknown -> ERR_INTERNAL.
enum err_code err_from_http(int status);

#endif
