// The typed client: requests for resources, parsed answers, credentials that rotate. Loop thread.
// One 401 makes it reread its credentials and repeat the request once (with unchanged credentials at most
// every 10 s); nothing else is repeated here: callers own the back-off. Callbacks come in a later turn than
// the call.
#ifndef KUBE_CLIENT_H
#define KUBE_CLIENT_H

#include <stdbool.h>
#include <stddef.h>

#include "base/metrics.h"
#include "base/random.h"
#include "io/loop.h"
#include "io/transport.h"
#include "kube/api_status.h"
#include "kube/config.h"
#include "kube/identity.h"
#include "kube/resource.h"

struct client;
struct call; // one request under way

// Over the network. `cfg` is borrowed for the client's life.
int client_new(struct loop *l, const struct kube_config *cfg, struct metrics *m, struct client **ret,
               struct err *e);
// Over any transport (tests, embedded API server); takes it. `m` may be NULL.
struct client *client_new_with(struct loop *l, struct transport *t, struct metrics *m);
// The same with cfg's credentials watched (cfg borrowed); they change by rereading, but only transport_curl
// asks for them.
struct client *client_new_with_credentials(struct loop *l, struct transport *t, const struct kube_config *cfg,
                                           struct metrics *m);
// Cancels all that is under way, without callbacks. Not from inside a stream's callback.
void client_free(struct client *c);
struct loop *client_loop(struct client *c);
// True after the first answer below 400 (or 403/404): credentials and address are right.
bool client_was_accepted(const struct client *c);

struct client_request {
    enum transport_method method;
    const char *path;         // as from resource_path(); copied
    const char *content_type; // NULL: application/json
    const char *accept;       // NULL: application/json
    const char *body;         // copied, or NULL
    size_t body_len;
    const struct identity *as; // required: &identity_host or a script's
    uint32_t timeout_ms;       // 0: 30 s
    bool raw;                  // do not parse the body
};

struct client_result {
    int status;
    struct json_doc *doc; // parsed body of a 2xx, borrowed (client_result_take_doc); NULL if raw or empty
    const char *body;     // borrowed
    size_t body_len;
    const char *warning;              // Warning header's text or NULL
    const struct api_status *failure; // NULL on a 2xx whose body could be parsed
};

struct call *client_send(struct client *c, const struct client_request *r,
                         void (*on_done)(void *ud, struct client_result *res), void *ud);
struct json_doc *client_result_take_doc(struct client_result *res);
void call_cancel(struct call *x); // no callback after this

// A watch stream: JSON frames as they come; frames cut anywhere are put together, at most max_frame bytes
// each (0: 32 MiB; a longer one ends the stream with ERR_LIMIT). A half frame at the end is dropped.
struct client_stream_callbacks {
    void (*on_start)(void *ud); // 200 came
    // One complete JSON text, borrowed, not NUL-terminated. Non-zero ends the stream: on_end follows with
    // ERR_CANCELED.
    int (*on_frame)(void *ud, const char *json, size_t n);
    void (*on_end)(void *ud, const struct api_status *why); // why: NULL for an orderly end
    void *ud;
};
struct client_stream;
struct client_stream *client_watch(struct client *c, const char *path, const struct identity *as,
                                   uint32_t idle_ms, size_t max_frame,
                                   const struct client_stream_callbacks *cb);
void client_stream_close(
    struct client_stream *s); // no callback after this; not after on_end; may be called in on_start, on_frame

#endif
