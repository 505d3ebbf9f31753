// What the host remembers of a script across restarts: the kinds it has children of, the kinds it has
// patched, and the kinds of its subjects (whose finalizers are to be handed back one day). One small
// ConfigMap a script in the host's namespace, written before the first child of a new group/Kind. Loop
// thread.
#ifndef RUN_APPLY_INVENTORY_H
#define RUN_APPLY_INVENTORY_H

#include <stdbool.h>
#include <stddef.h>

#include "kube/client.h"
#include "run/source/script.h"

struct inventory;

struct inventory_kind {
    char *group, *kind;
    bool patched; // of objects it patched, not of children
    bool subject; // of its subjects; then `patched` is false
};

// The ConfigMap of the script with this hash; free().
char *inventory_name(const char *script_hash);
// The kinds that stand in an inventory's document; *ret and its strings are the caller's
// (inventory_kinds_free).
size_t inventory_read(const json *config_map, struct inventory_kind **ret);
void inventory_kinds_free(struct inventory_kind *kinds, size_t count);
// Writes the body of its apply: kinds that are there more than once are written once. `script` is
// "namespace/name", for people.
void inventory_write(struct buf *out, const char *ns, const char *name, const char *script,
                     const struct inventory_kind *kinds, size_t count);

// `on_change` tells that the kinds are there (the first time: loaded, perhaps with none) or more have come.
// Loading is retried with back-off until it works; `on_trouble` tells why it does not.
struct inventory *inventory_new(struct client *c, const struct script *script, uint64_t seed,
                                void (*on_change)(void *ud),
                                void (*on_trouble)(void *ud, const struct err *e), void *ud);
void inventory_free(struct inventory *i); // waiting callers of inventory_add get -ERR_CANCELED
bool inventory_is_loaded(const struct inventory *i);
size_t inventory_kinds(const struct inventory *i, const struct inventory_kind **ret);
bool inventory_has(const struct inventory *i, const char *group, const char *kind, bool patched);
// Loads it once more after so long, unless that is under way: somebody else may have taken something out.
// Only while the script writes nothing. on_change tells.
void inventory_look_again(struct inventory *i, uint64_t ms);

// Makes sure that the kinds stand in there; on_done comes from a later turn, or at once when nothing is
// missing, or when it could not be written just now: that is tried at growing intervals only. The strings are
// copied.
void inventory_add(struct inventory *i, const struct inventory_kind *kinds, size_t count,
                   void (*on_done)(void *ud, int r, const struct err *e), void *ud);

#endif
