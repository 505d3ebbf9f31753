// An API server inside the process: objects in memory, watches, server-side apply, CRDs. Reached through a
// transport, so that the client above can not tell it from the network. Everything runs on the loop thread,
// nothing is re-entrant, and with a virtual clock and a seeded random source the same requests give the same
// bytes. What it does not do it answers with 501 and says so.
//
// Served: core v1 ConfigMap, Event, Namespace, Pod, Secret, Service, ServiceAccount; apps/v1 Deployment,
// ReplicaSet; events.k8s.io/v1 Event; coordination.k8s.io/v1 Lease; apiextensions.k8s.io/v1
// CustomResourceDefinition and what these define. There is no schema validation, no defaulting and no
// controller. Namespaces default, kube-system and tidelock-system exist. The loop must outlive the server.
#ifndef APISERVER_APISERVER_H
#define APISERVER_APISERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/random.h"
#include "data/json.h"
#include "io/loop.h"
#include "io/transport.h"

struct apiserver;

// One handled request, in order of handling. Borrowed for the call.
struct apiserver_trace {
    const char *method, *path; // path with query
    const char *user;
    const char *body; // "" when none
    size_t body_len;
    int status; // of the answer; a watch: 200 when it opens
};

struct apiserver_options {
    struct loop *loop;
    struct clock *clock;   // NULL: the loop's
    struct random *random; // borrowed: UIDs, generated names, lengths of watches
    void (*on_request)(void *ud, const struct apiserver_trace *t); // or NULL
    void *ud;
};

struct apiserver *apiserver_new(const struct apiserver_options *o);
// Ends every transfer without a callback. Transports made from it may be freed before or after.
void apiserver_free(struct apiserver *s);

// A client's way in. `user` is who it is (and, up to a '/', the field manager of writes that name none); a
// request's as_user replaces it.
struct transport *apiserver_transport(struct apiserver *s, const char *user);

// Called for each request of any transport: ms until it reaches the server (half) and the answer is back
// (half). NULL: no time.
void apiserver_set_latency(struct apiserver *s, uint64_t (*fn)(void *ud, const struct transport_request *r),
                           void *ud);
// Faults on the way, for tests. fn is asked for each request of any transport when it reaches the server, and
// once more (`answered` true) after it was handled.
enum apiserver_fault {
    APISERVER_PASS,   // go on
    APISERVER_DROP,   // the connection breaks, whatever the server did
    APISERVER_HANG,   // no answer ever comes: the client's time runs out
    APISERVER_ANSWER, // before it was handled only: the server does not see it, *ret_answer is the answer
};
struct apiserver_answer {
    int status;
    int64_t retry_after_s; // 0: none
    const char *body;      // JSON, borrowed until the next call
};
struct apiserver_passage {
    const char *method, *path, *user; // path with query
    const char *body;
    size_t body_len;
    bool answered;
    int status; // of the answer, when answered
};
void apiserver_set_fault(struct apiserver *s,
                         enum apiserver_fault (*fn)(void *ud, const struct apiserver_passage *p,
                                                    struct apiserver_answer *ret_answer),
                         void *ud);
// Forgets the past: a watch or a list that goes on from an older resource version gets 410.
void apiserver_compact(struct apiserver *s);
// Ends every open watch in order, as a server does that shuts down.
void apiserver_close_watches(struct apiserver *s);
uint64_t apiserver_resource_version(const struct apiserver *s);
// An object as stored (core: apiVersion "v1"), regardless of rights; NULL: there is none. The caller frees
// the document.
struct json_doc *apiserver_get_json(struct apiserver *s, const char *api_version, const char *plural,
                                    const char *ns, const char *name);
// One request straight through, for tests and set-up; never a watch. Returns the status; *ret_body (may be
// NULL): free().
int apiserver_request(struct apiserver *s, const char *user, const char *method, const char *target,
                      const char *content_type, const char *body, char **ret_body);
// Forced apply of one object with `user` as field manager; the kind must be served. Returns the status (404:
// kind unknown).
int apiserver_apply_json(struct apiserver *s, const char *user, const char *json, char **ret_body);

#endif
