// Deletions. Private to apply*.c. Loop thread.
#ifndef RUN_APPLY_APPLY_DELETE_H
#define RUN_APPLY_APPLY_DELETE_H

#include "run/apply/apply_op.h"

void apply_delete_send(struct apply_op *o);
// A change was refused for `why`, as the field can not be changed: the object is deleted, to be made anew.
void apply_delete_replace(struct apply_op *o, const struct api_status *why);

#endif
