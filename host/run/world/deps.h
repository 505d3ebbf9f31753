// The dependency index: which keys a change concerns. A pass's reads are installed after it; a change that
// matches one wakes the key. List reads match by the object before the change or after it. Also holds the
// informers the reads need. Loop thread.
#ifndef RUN_WORLD_DEPS_H
#define RUN_WORLD_DEPS_H

#include <stdbool.h>
#include <stdint.h>

#include "kube/informers.h"
#include "run/world/reads.h"

struct deps;

// `wake` is called for each key a change concerns (perhaps more than once); `owner` is the pointer given to
// deps_install.
struct deps *deps_new(struct informers *informers, void (*wake)(void *ud, void *owner, const char *key),
                      void *ud);
void deps_free(struct deps *d);

// Replaces what (owner, key) depends on by `reads` (taken). True: something read has changed since `revision`
// (pinned), or an informer that it waited for can answer by now: run the key again.
bool deps_install(struct deps *d, void *owner, const char *key, struct reads *reads, uint64_t revision,
                  const struct identity *as);
void deps_forget(struct deps *d, void *owner, const char *key);
void deps_forget_owner(struct deps *d, void *owner);

// To be called from informers' callbacks.
void deps_on_change(struct deps *d, struct informer *informer, struct object *old, struct object *new);
void deps_on_state(struct deps *d);

#endif
