// The checks that result.c is made of: members, lists, and what is said when they are wrong. Within a
// protected call; nothing is owned.
#ifndef SCRIPT_RESULT_VALUE_H
#define SCRIPT_RESULT_VALUE_H

#include <stdbool.h>
#include <stddef.h>

#include <lua.h>

#include "base/err.h"
#include "data/json_write.h"
#include "script/pass.h"
#include "script/value_path.h"

struct result_checker {
    lua_State *L;
    struct err *e;
    struct json_writer w;
    const struct pass_limits *limits;
    const char *entry; // "reconcile" or "finalize"
    bool finalize;
    int result;
};

// Checks and writes the value at the top, which stays there. 0 or negative with c->e set.
typedef int result_write_fn(struct result_checker *c, const struct value_path *path);

struct result_field {
    const char *name;
    result_write_fn *write;
    bool required;
    const char *as; // its name in the output, when another
};

// What people also call a field.
struct result_alias {
    const char *name, *meant;
};

enum { RESULT_TEXT_MAX = 96 };

// "a table", "\"3\"", "nothing": the value at idx for an error.
void result_describe(lua_State *L, int idx, char out[RESULT_TEXT_MAX]);

int result_bad(struct result_checker *c, const struct value_path *path, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
int result_over(struct result_checker *c, const struct value_path *path, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
// "expected WANTED, got <the value at the top>"
int result_wrong_type(struct result_checker *c, const struct value_path *path, const char *wanted);

struct value_path result_member(const struct value_path *parent, const char *name);
// Pushes a member of the table at the top, without metamethods.
void result_get(struct result_checker *c, const char *name);
bool result_has(struct result_checker *c, const char *name);
int result_write_list(struct result_checker *c, const struct value_path *path, result_write_fn *write);
// The table at the top as an object of these fields (sorted, ends with a NULL name); any other field is an
// error that names the nearest.
int result_write_fields(struct result_checker *c, const struct value_path *path,
                        const struct result_field *fields, const struct result_alias *aliases);

#endif
