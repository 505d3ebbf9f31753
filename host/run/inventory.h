// What the host remembers of a script across restarts: the kinds it has children of and the kinds it has
// patched. One small ConfigMap a script in the host's namespace, written before the first child of a new
// group/Kind. Loop thread.
#ifndef RUN_INVENTORY_H
#define RUN_INVENTORY_H

#include <stdbool.h>
#include <stddef.h>

#include "kube/client.h"
#include "run/script.h"

struct inventory;

struct inventory_kind {
    char *group, *kind;
    bool patched; // of objects it patched, not of children
};

// `on_change` tells that the kinds are there (the first time: loaded, perhaps with none) or more have come.
// Loading is retried with back-off until it works; `on_trouble` tells why it does not.
struct inventory *inventory_new(struct client *c, const struct script *script, uint64_t seed,
                                void (*on_change)(void *ud),
                                void (*on_trouble)(void *ud, const struct err *e), void *ud);
void inventory_free(struct inventory *i); // waiting callers of inventory_add get -ERR_CANCELED
bool inventory_is_loaded(const struct inventory *i);
size_t inventory_kinds(const struct inventory *i, const struct inventory_kind **ret);
bool inventory_has(const struct inventory *i, const char *group, const char *kind, bool patched);

// Makes sure that the kinds stand in there; on_done comes from a later turn, or at once when nothing is
// missing. The strings are copied.
void inventory_add(struct inventory *i, const struct inventory_kind *kinds, size_t count,
                   void (*on_done)(void *ud, int r, const struct err *e), void *ud);

#endif
