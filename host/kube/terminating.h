// Which namespaces are going away? Asked by a GET when somebody wants to know, a few at once, and remembered
// for a while. A host without the right to GET namespaces (said once, with what to grant) knows only what a
// refusal told it. Loop thread.
#ifndef KUBE_TERMINATING_H
#define KUBE_TERMINATING_H

#include "kube/client.h"
#include "kube/object.h"

struct terminating;

// on_answer: the question about `ns` was answered; failure: why not, or NULL.
struct terminating *
terminating_new(struct client *client,
                void (*on_answer)(void *ud, const char *ns, const struct api_status *failure), void *ud);
void terminating_free(struct terminating *t); // cancels

enum terminating_answer {
    TERMINATING_NO,    // or there is no such namespace, or the server does not tell
    TERMINATING_YES,   // it is being deleted
    TERMINATING_ASKED, // the question is on its way: on_answer follows
};

// What is known, if that is not older than max_age_ms; else it is asked. ns "" (cluster-scoped): NO.
enum terminating_answer terminating_is(struct terminating *t, const char *ns, uint64_t max_age_ms);
// The server has refused something, as this namespace is going away. Counts where a GET is forbidden.
void terminating_tell(struct terminating *t, const char *ns);
// The Namespace, for Events about it: borrowed until the loop's next turn; NULL: not known. Without the right
// to GET it has a name only.
const struct object *terminating_object(const struct terminating *t, const char *ns);

#endif
