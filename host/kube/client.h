// The typed client: requests for resources, parsed answers, credentials that rotate. Loop thread.
// One 401 makes it reread its credentials and repeat the request once; nothing else is repeated here: callers own the back-off.
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
int client_new(struct loop *l, const struct kube_config *cfg, struct metrics *m, struct client **ret, struct err *e);
// Over any transport (tests, embedded API server); takes it.
struct client *client_new_with(struct loop *l, struct transport *t, struct metrics *m);
void client_free(struct client *c);
struct loop *client_loop(struct client *c);
// True after the first answer below 400 (or 403/404): credentials and address are right.
bool client_was_accepted(const struct client *c);

struct client_request {
    enum transport_method method;
    const char *path;             // as from resource_path(); copied
    const char *content_type;     // NULL: application/json
    const char *accept;           // NULL: application/json
    const char *body;             // copied, or NULL
    size_t body_len;
    const struct identity *as;    // required: &identity_host or a script's
    uint32_t timeout_ms;          // 0: 30 s
    bool raw;                     // do not parse the body
};

struct client_result {
    int status;
    struct json_doc *doc;         // parsed body of a 2xx, borrowed (client_result_take_doc); NULL if raw or empty
    const char *body;             // borrowed
    size_t body_len;
    const char *warning;          // Warning header's text or NULL
    const struct api_status *failure; // NULL on 2xx
};

struct call *client_send(struct client *c, const struct client_request *r,
                         void (*on_done)(void *ud, struct client_result *res), void *ud);
struct json_doc *client_result_take_doc(struct client_result *res);
void call_cancel(struct call *x); // no callback after this

// A watch stream: lines (JSON frames) as they come; frames cut anywhere are put together, at most max_frame bytes each.
struct client_stream_callbacks {
    void (*on_start)(void *ud);                               // 200 came
    int (*on_frame)(void *ud, const char *json, size_t n);    // one complete JSON text; non-zero ends the stream
    void (*on_end)(void *ud, const struct api_status *why);   // why: NULL for an orderly end
    void *ud;
};
struct client_stream;
struct client_stream *client_watch(struct client *c, const char *path, const struct identity *as, uint32_t idle_ms, size_t max_frame,
                                   const struct client_stream_callbacks *cb);
void client_stream_close(struct client_stream *s); // no callback after this

#endif
