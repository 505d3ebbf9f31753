// What documents of schemas refused, by the words it was told in, and whether they have been looked at anew
// since. A look counts for what was refused before it began. No thread of its own: the schemas' lock.
#ifndef KUBE_REFUSALS_H
#define KUBE_REFUSALS_H

#include <stdbool.h>
#include <stdint.h>

struct refusals;

struct refusals *refusals_new(void);
void refusals_free(struct refusals *r);
// This is refused now. True: so it was by documents that were looked at for it, less than a minute ago.
bool refusals_sure(struct refusals *r, const char *what, uint64_t now_ms);
bool refusals_want_look(const struct refusals *r); // one that has not begun
void refusals_look_begins(struct refusals *r);
void refusals_look_ends(struct refusals *r);
void refusals_forget(struct refusals *r); // a document is another one now

#endif
