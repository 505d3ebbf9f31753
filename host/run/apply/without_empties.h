// An apply configuration without its empty maps and lists. Pure.
#ifndef RUN_APPLY_WITHOUT_EMPTIES_H
#define RUN_APPLY_WITHOUT_EMPTIES_H

#include "base/buf.h"
#include "data/json.h"

// Writes `body` without members that hold nothing. False: there are none.
bool without_empties_write(const json *body, struct buf *out);

#endif
