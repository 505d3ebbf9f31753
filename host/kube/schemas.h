// The schemas of the server's kinds: fetched a group-version at a time from /openapi/v3 when one of its kinds
// is first asked for, compiled off the loop, kept until the server says by its hash that they changed. The
// loop thread fetches; any thread finds.
#ifndef KUBE_SCHEMAS_H
#define KUBE_SCHEMAS_H

#include <stdbool.h>
#include <stdint.h>

#include "kube/client.h"
#include "kube/schema.h"

struct schemas;

enum schemas_answer {
    SCHEMAS_FOUND,
    SCHEMAS_NOT_YET, // asked for now; on_change tells when there is more (bounded by the requests' time)
    SCHEMAS_NONE,    // the server has none, or can not give it now
};

// on_change is called on the loop when an answer may have changed from NOT_YET.
struct schemas *schemas_new(struct client *c, void (*on_change)(void *ud), void *ud);
// Before the client. Waits for a compilation under way (some ms).
void schemas_free(struct schemas *s);
// Any thread. With FOUND *ret is +1 reference, and *ret_node the kind's.
enum schemas_answer schemas_find(struct schemas *s, const struct gvk *gvk, struct schema **ret,
                                 const struct schema_node **ret_node);
// Looks for changes now (kinds came or changed); with nothing asked for yet it does nothing. Changes are also
// looked for every 5 min.
void schemas_refresh(struct schemas *s);
// The server refused what was written by a schema: perhaps that is an old one. Looks at most every 10 s.
void schemas_doubt(struct schemas *s);
// By the kind's document something is wrong, `what` in words. Is that so? A kind that changed just now takes
// what its document of before does not know, and the server's index tells of the new one a second later.
// False: on_change tells when it is worth to ask again: in 2 s, or 4 when others have asked. True for a
// minute after that. Any thread.
bool schemas_sure(struct schemas *s, const struct gvk *gvk, const char *what);
// Grows with each change of an answer: a reader that was told NOT_YET, or not sure, compares it. Any thread.
uint64_t schemas_sequence(struct schemas *s);
size_t schemas_bytes(struct schemas *s); // memory of what is compiled

#endif
