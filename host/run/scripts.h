// The scripts that run: bundles of files come from sources, are compiled on a worker, and become controllers.
// A version that does not compile or whose table is wrong leaves the running one in place. Loop thread.
#ifndef RUN_SCRIPTS_H
#define RUN_SCRIPTS_H

#include "run/controller/controller.h"
#include "run/source/source.h"

struct scripts;

struct scripts *scripts_new(const struct controller_env *env, const struct script_host *host);
// Only after scripts_stop has told that all are gone.
void scripts_free(struct scripts *s);

void scripts_put(struct scripts *s,
                 struct source_bundle *b); // takes it; replaces the bundle of the same origin
void scripts_remove(struct scripts *s, const char *origin); // its scripts stop; their children stay
void scripts_stop(struct scripts *s, void (*on_gone)(void *ud), void *ud);
void scripts_each(struct scripts *s, void (*fn)(void *ud, struct controller *c), void *ud);
size_t scripts_count(const struct scripts *s); // running
// The kind of its subjects, if the script with this hash runs; else NULL.
const struct gvk *scripts_subject(const struct scripts *s, const char *hash);
// fn is told when a script has ended because its source is gone.
void scripts_on_removed(struct scripts *s, void (*fn)(void *ud), void *ud);
bool scripts_loading(const struct scripts *s); // something is being compiled

#endif
