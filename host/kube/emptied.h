// Containers that an apply would empty and leave behind. Where the last member of a map or list is taken away
// and the container itself stays, the server writes null, which the schemas of custom kinds refuse. What goes
// can be taken away by a JSON patch before. Pure; any thread.
#ifndef KUBE_EMPTIED_H
#define KUBE_EMPTIED_H

#include <stdbool.h>

#include "base/buf.h"
#include "data/json.h"

// Writes a JSON patch of `object` (as the server gave it) that empties them: of those maps and lists in it of
// which nothing would be left by an apply of `desired` as `manager` (with that subresource, NULL: none), and
// which stay because it is desired empty or somebody else owns it. It takes away nothing that the apply would
// not, and holds only for the object's current resourceVersion (409). False: there are none.
bool emptied_write_patch(const json *object, const char *manager, const char *subresource,
                         const json *desired, struct buf *out);

#endif
