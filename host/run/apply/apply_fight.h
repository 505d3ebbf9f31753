// The part of a write that is about what somebody else writes or deletes too (run/apply/fights.h). Private to
// apply*.c. Loop thread.
#ifndef RUN_APPLY_APPLY_FIGHT_H
#define RUN_APPLY_APPLY_FIGHT_H

#include "run/apply/apply_op.h"

// Decides o->move. True: the write is left out for now, o->again_ms says until when.
bool apply_fight_holds_back(struct apply_op *o);
// The server took the write; `created`: with 201.
void apply_fight_written(struct apply_op *o, bool created);
// The answer to a probe. True: our value is to be sent again, by force.
bool apply_fight_answered(struct apply_op *o, const struct client_result *res);
void apply_fight_deleted(struct apply_op *o); // a child, by us, so that its next creation is no fight
// The fight this write is in, for people; NULL: none that is known. Its reason, as for an Event, in
// *ret_reason.
const char *apply_fight_text(const struct apply_op *o, const char **ret_reason);

#endif
