// Takes a finalizer of ours off a subject outside any plan: what is left when no plan can do it. Loop thread.
#ifndef RUN_APPLY_UNFINALIZE_H
#define RUN_APPLY_UNFINALIZE_H

#include "kube/client.h"

// metadata: of the object as it was seen last; a changed one is answered with 404, 409 or 422. NULL: there is
// no such finalizer on it.
struct call *unfinalize_send(struct client *client, const struct resource *resource, const json *metadata,
                             const char *finalizer, void (*on_done)(void *ud, struct client_result *res),
                             void *ud);

#endif
