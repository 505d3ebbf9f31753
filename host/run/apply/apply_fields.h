// An apply (or the patch that takes the finalizer off) is sent, and its answer judged. Private to apply*.c.
// Loop thread.
#ifndef RUN_APPLY_APPLY_FIELDS_H
#define RUN_APPLY_APPLY_FIELDS_H

#include "run/apply/apply_op.h"

void apply_fields_send(struct apply_op *o);
// The server has answered with this object: what it made of what was sent (run/plan/learned.h).
void apply_fields_learn(const struct apply_op *o, const json *object);

#endif
