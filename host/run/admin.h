// What the admin address serves: /metrics, /healthz, /livez, /readyz (?verbose). Loop thread.
#ifndef RUN_ADMIN_H
#define RUN_ADMIN_H

#include "base/metrics.h"
#include "io/server.h"
#include "run/host.h"

struct admin;

// host, loop and metrics are borrowed. 0, or -ERR_IO naming the address.
int admin_new(struct loop *l, const char *address, struct host *host, struct metrics *m, struct admin **ret,
              struct err *e);
unsigned admin_port(const struct admin *a);
void admin_free(struct admin *a);

#endif
