// From what a script returned to the body of a server-side apply: marks and owner put in, what the server
// owns left out. Pure; worker.
#ifndef RUN_PLAN_DESIRED_H
#define RUN_PLAN_DESIRED_H

#include "base/buf.h"
#include "base/err.h"
#include "data/json.h"
#include "data/json_write.h"
#include "kube/object.h"
#include "kube/resource.h"
#include "kube/schema.h"
#include "kube/step.h"

enum { DESIRED_BODY_MAX = 4 << 20 }; // the server's own limit is 3 MiB

struct desired {
    const json *object; // as the script returned it; NULL: nothing but its identity
    const char *name;
    const struct resource *resource;
    const char *ns;  // resolved; "" for cluster-scoped
    const char *uid; // precondition, or NULL
    bool creates;    // precondition: it is not there. See desired.c
    // children only; NULL for patches
    const char *script_hash;
    const struct object *owner; // the subject; NULL: no ownerReference, no marks
    bool owned;                 // with ownerReference
    bool keep;
    unsigned order;
    const struct schema_node *type; // the kind's; NULL: unknown. It decides what an empty table is
    const struct step *at;          // the object's place in the result, for errors; NULL: not told
};

// Are the values in a body that was written what the kind's schema takes? The server's own words would not
// say where they are not. 0 or -ERR_INVALID.
int desired_check(const struct schema_node *type, const json *body, const struct step *at, struct err *e);
// Appends the body. 0, -ERR_INVALID (a key longer than the server's YAML reader takes, an empty list in a
// map's place), -ERR_LIMIT.
int desired_write(const struct desired *d, struct buf *out, struct err *e);

// Appends a body that was written with `creates` as one for the object with this UID. False: it is too large.
bool desired_aim(const json *body, const char *uid, struct buf *out);

// apiVersion, kind and the beginning of metadata (name, namespace, uid) of an object that is there, into an
// object that was begun; metadata is left open.
void desired_begin_identity(struct json_writer *w, const struct object *o);

// The body of a status apply: conditions keep lastTransitionTime while their status is what `live` (the
// subject's document) says, and get `now_us` otherwise. `status` NULL: a body without status, which gives up
// all our fields. `type`: the subject's kind, NULL: unknown.
int desired_write_status(const struct object *subject, const struct schema_node *type, const json *live,
                         const json *status, int64_t now_us, struct buf *out, struct err *e);

#endif
