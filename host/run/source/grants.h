// Rights inside the host: which kinds a script may touch at all. Secrets, RBAC, webhook configurations, CRDs,
// impersonation and the like are denied unless granted by the host's configuration (--grant
// SCRIPT=group/Kind). Immutable after start; any thread.
#ifndef RUN_SOURCE_GRANTS_H
#define RUN_SOURCE_GRANTS_H

#include "base/err.h"
#include "kube/gvk.h"

struct grants;

struct grants *grants_new(void);
void grants_free(struct grants *g);
// "SCRIPT=group/Kind" or "SCRIPT=Kind" for core; SCRIPT "*" is all scripts. 0 or -ERR_INVALID.
int grants_add(struct grants *g, const char *text, struct err *e);
// 0, or -ERR_FORBIDDEN with what to change.
int grants_check(const struct grants *g, const char *script, const struct gvk *gvk, struct err *e);

#endif
