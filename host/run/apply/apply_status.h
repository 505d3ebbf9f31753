// A status subresource that came or went since discovery. Private to apply*.c. Loop thread.
#ifndef RUN_APPLY_APPLY_STATUS_H
#define RUN_APPLY_APPLY_STATUS_H

#include "run/apply/apply_op.h"

// A kind that has it drops a status that is written to the object itself, and says nothing.
bool apply_status_is_dropped(const struct apply_op *o, const json *object);
void apply_status_refuse(struct apply_op *o); // discovery is asked again; ends the write
// Without the subresource its path is answered as if no object were there: is the subject?
void apply_status_ask(struct apply_op *o);

#endif
