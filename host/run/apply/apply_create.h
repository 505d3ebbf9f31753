// Is the object that is to be made there already, and whose is it? Private to apply*.c. Loop thread.
#ifndef RUN_APPLY_APPLY_CREATE_H
#define RUN_APPLY_APPLY_CREATE_H

#include "run/apply/apply_op.h"

// Asks the server, then goes on: creates it, takes it over, or ends.
void apply_create_guard(struct apply_op *o);
// Was a creation refused because an object of that name is there? Then it is looked whose it is. True:
// another request is on its way.
bool apply_create_lost(struct apply_op *o, const struct client_result *res);

#endif
