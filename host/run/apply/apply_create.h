// Is the object that is to be made there already, and whose is it? Private to apply*.c. Loop thread.
#ifndef RUN_APPLY_APPLY_CREATE_H
#define RUN_APPLY_APPLY_CREATE_H

#include "run/apply/apply_op.h"

// Asks the server, then goes on: creates it, takes it over, or ends.
void apply_create_guard(struct apply_op *o);
bool apply_create_is_foreign(const json *object); // somebody else has fields in it
// Somebody was faster: our fields are taken off his object again.
void apply_create_undo(struct apply_op *o, const json *object);

#endif
