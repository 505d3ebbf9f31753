// Replicas on their way to another writer (run/plan/hand_over.h). Private to apply*.c. Loop thread.
#ifndef RUN_APPLY_APPLY_HAND_OVER_H
#define RUN_APPLY_APPLY_HAND_OVER_H

#include "run/apply/apply_op.h"

// Asks whose they are, then applies.
void apply_hand_over_ask(struct apply_op *o);
// Did somebody write between the question and the apply? He may have set them: it is to be asked again.
bool apply_hand_over_is_due_again(const struct apply_op *o, const struct client_result *res);

#endif
