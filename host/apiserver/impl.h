// The inside of the server, shared by the files of this folder only.
#ifndef APISERVER_IMPL_H
#define APISERVER_IMPL_H

#include <sys/queue.h>

#include "apiserver/apiserver.h"
#include "apiserver/arena.h"
#include "apiserver/failure.h"
#include "apiserver/kinds.h"
#include "apiserver/response.h"
#include "apiserver/route.h"
#include "apiserver/tree.h"

struct watch_hub;
struct local_transport;

struct apiserver {
    struct apiserver_options options;
    struct kinds *kinds;
    struct watch_hub *hub;
    uint64_t resource_version; // the newest
    uint64_t (*latency)(void *ud, const struct transport_request *r);
    void *latency_ud;
    enum apiserver_fault (*fault)(void *ud, const struct apiserver_passage *p,
                                  struct apiserver_answer *ret_answer);
    void *fault_ud;
    LIST_HEAD(, local_transport) transports;
};

// One request. Texts are borrowed for the call.
struct request {
    struct apiserver *server;
    struct arena arena;
    const char *method, *target, *user, *content_type, *accept, *body;
    size_t body_len;
    struct route route;
    // of a resource request
    struct route_resource at;
    struct kind *kind;
    const struct kind_version *version;
};

void handle_request(struct request *q, struct response *r);
char *handle_time(struct request *q); // now, as metav1.Time
// "ns/name"
char *handle_key(struct arena *a, const char *ns, const char *name);
// Writes the object of a version as the client sees it.
void handle_write_object(struct buf *out, const struct kind *k, const struct kind_version *as,
                         const struct storage_version *v);

// Handlers. The status and body of r are set in any case.
void discovery_doc_handle(struct request *q, struct response *r);
void openapi_doc_handle(struct request *q, struct response *r);
void verb_get(struct request *q, struct response *r);
void verb_list(struct request *q, struct response *r);
void verb_create(struct request *q, struct response *r);
void verb_update(struct request *q, struct response *r);
void verb_patch(struct request *q, struct response *r);
void verb_delete(struct request *q, struct response *r);

#endif
