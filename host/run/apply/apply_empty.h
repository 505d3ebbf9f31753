// Containers that an apply leaves empty (kube/emptied.h). Private to apply*.c. Loop thread.
#ifndef RUN_APPLY_APPLY_EMPTY_H
#define RUN_APPLY_APPLY_EMPTY_H

#include "run/apply/apply_op.h"

// Was the apply refused for the null that one would hold? Then they are emptied first, and it is sent again.
// True: another request is on its way.
bool apply_empty_helps(struct apply_op *o, const struct client_result *res);

#endif
