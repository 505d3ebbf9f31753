// What a script sees of the cluster: a table of functions that the layer above provides, called on the pass's
// thread during the pass. They may not raise. Objects they give stay valid until the pass has ended (the
// provider holds them).
#ifndef SCRIPT_WORLD_H
#define SCRIPT_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

struct world_object {
    const char *json; // whole object as JSON text; NULL: absent
    size_t len;
};

struct world_query {
    const char *kind;      // as the script wrote it
    const char *ns;        // NULL: not given; "*": all
    const char *labels;    // selector text (maps are turned into it), or NULL
    const char *fields;    // field selector text, or NULL
    const char *owner_uid; // or NULL
    bool metadata_only;
    // Asked now and then, after so many more objects were parsed: shall it stop? Then the answer is not
    // looked at. Or NULL.
    bool (*is_over)(void *ud, uint64_t objects);
    void *is_over_ud;
};

struct world_list {
    const struct world_object *items; // sorted by namespace, name; owned by the provider
    size_t count;
};

// All return 0 or: -ERR_PARKED (the pass ends now, uncatchably, and runs again when the kind is synced),
// -ERR_FORBIDDEN, -ERR_INVALID and others (a Lua error with e's text, catchable by pcall), -ERR_CANCELED (the
// pass was given up: uncatchable).
struct world_ops {
    int (*get)(void *ud, const char *kind, const char *name, const char *ns, struct world_object *ret,
               struct err *e);
    int (*list)(void *ud, const struct world_query *q, struct world_list *ret, struct err *e);
    int (*children)(void *ud, const char *kind, struct world_list *ret, struct err *e);
    // A text key of the script's ConfigMap or folder that is not a .lua file; NULL when there is none.
    const char *(*data)(void *ud, const char *key, size_t *ret_len);
    // level: "error", "warn", "info", "debug"; fields: a JSON object text or NULL
    void (*log)(void *ud, const char *level, const char *message, const char *fields);
    int (*secret_value)(void *ud, const char *name, int length, const char *charset,
                        char *out /* length + 1 */, struct err *e);
    // The key's own live child, for its `ready` function; absent when it is another's. ns NULL: not given.
    int (*child)(void *ud, const char *api_version, const char *kind, const char *ns, const char *name,
                 struct world_object *ret, struct err *e);
};

#endif
