// Whose child of a script an object is, for people. Pure; any thread.
#ifndef RUN_PLAN_CHILD_OWNER_H
#define RUN_PLAN_CHILD_OWNER_H

#include "data/json.h"

// Why another subject of the script can not have this child, with the name of the one that has it; free().
char *child_owner_refusal(const json *object);

#endif
