// The plan of a pass: the writes that turn live into desired. Computed by the worker against the pass's
// snapshot, carried out by the loop (run/apply/apply.h). One owner at a time.
#ifndef RUN_PLAN_PLAN_H
#define RUN_PLAN_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/strset.h"
#include "data/json.h"
#include "kube/resource.h"
#include "run/plan/learned.h"
#include "run/plan/plan_types.h"
#include "run/source/script.h"
#include "run/world/world_view.h"

enum op_kind {
    OP_CREATE,     // a child that is not there: the server makes it, or refuses (see desired.h)
    OP_APPLY,      // a child of ours that differs: forced, with its UID
    OP_DELETE,     // a child that is no longer desired
    OP_STATUS,     // the subject's status
    OP_PATCH,      // fields of an object that is not ours
    OP_RELEASE,    // give such fields up
    OP_FINALIZER,  // put our finalizer on the subject: before anything that needs it
    OP_UNFINALIZE, // take it off: after everything else, if all went well
};
const char *op_kind_name(enum op_kind k);

struct op {
    enum op_kind kind;
    struct resource resource;
    char *ns; // "" for cluster-scoped
    char *name;
    char *uid;     // of the live object; NULL for OP_CREATE
    char *live_rv; // its resourceVersion in the snapshot; NULL for OP_CREATE
    char manager[MARKS_MANAGER_MAX];
    char *body; // apply configuration, JSON; NULL for OP_DELETE
    size_t body_len;
    const char *subresource; // "status" or NULL
    bool force;
    bool known_absent;   // OP_CREATE: a complete store proves it, no GET is needed
    struct strset adopt; // OP_CREATE: managers whose objects may be taken over
    bool once;           // OP_CREATE: what is there already is left as it is
    bool replace;        // an immutable field may be changed by deleting it and creating it anew
    bool by_reference;   // OP_DELETE: not a child
    bool hands_over;     // OP_APPLY: the replicas, which the body lacks: see run/plan/hand_over.h
    bool settled;        // so it does, and nothing else is to be written
    bool drops_status;   // the script gave a status, which an apply of the object does not set
    char *learn_id;      // for run/plan/learned.h
    char *path;          // where live is not what is desired, the first place; NULL: nothing was compared
    uint64_t desired_hash;
};

struct plan_event {
    char *type, *reason, *message;
};

struct plan {
    struct op *ops;
    size_t count, cap;
    struct plan_event *events;
    size_t event_count;
    size_t pruned;      // children that are deleted because they are no longer returned
    bool unreachable;   // there are children that the garbage collector does not reach
    bool ordered;       // there are children that waited for others
    bool finalizing;    // the subject is being deleted
    bool last;          // with this nothing is left of a subject that is leaving
    bool unfinished;    // its writes may be all that others wait for: look again when they are through
    int64_t requeue_us; // 0: none
    bool errors;        // some entries could not be planned: `err` names them, the others are there
    struct err err;     // the first; more are counted in its text
    size_t error_count;
};

struct plan_input {
    const json *result; // the document pass_run gave
    struct world_view *world;
    struct learned *learned;
    struct plan_types *types; // NULL: there are no schemas
    int64_t now_us;
    bool finalizing; // the subject is being deleted; result is that of `finalize`, or NULL
    bool leaving;    // it is not being deleted, but no longer the script's: nothing of ours is to stay
    bool given_up;   // its end waits for nothing: children go all at once, and so does the finalizer
    bool
        done; // nothing more is to be done for the script: it said so, has no `finalize`, or its time is over
};

// Never fails as a whole: what can not be planned is in plan.err. -ERR_PARKED: a store is not synced
// (recorded in the world's reads).
int plan_make(const struct plan_input *in, struct plan **ret, struct err *e);
void plan_free(struct plan *p);

// ---- for the files plan_*.c
struct op *plan_add(struct plan *p, enum op_kind kind, const struct resource *resource, const char *ns,
                    const char *name);
void plan_error(struct plan *p, const char *where, const struct err *e); // NULL: the text says it
// Of an entry of `list` (from 0): apply[2] (Deployment web): ..., or apply[2].spec.x: ... (Deployment web)
// where the text tells the place.
void plan_error_in(struct plan *p, const char *list, size_t index, const json *object, const struct err *e);
void plan_children(struct plan *p, const struct plan_input *in, const json *apply);
struct child_set;
// Deletes the live children that are not among `wanted` (NULL: all), in reverse order; how many are still
// there.
size_t plan_delete_children(struct plan *p, const struct plan_input *in, const struct child_set *wanted,
                            bool unreachable_only);
void plan_finalizer(struct plan *p, const struct plan_input *in);
void plan_finalization(struct plan *p, const struct plan_input *in);
bool plan_has_finalizer(const struct script *script, const struct object *subject);
// The type of the kind that `object` is going to be written as; NULL: unknown. Notes when a schema on its way
// is needed to write it.
const struct schema_node *plan_type_to_write(const struct plan_input *in, const struct gvk *gvk,
                                             const json *object);
int plan_patches(struct plan *p, const struct plan_input *in, struct err *e);
int plan_deletes(struct plan *p, const struct plan_input *in, struct err *e);
// The store of the kind, recorded as a read: `name` of one object, or NULL for what was patched before in the
// subject's namespace (that read wakes nobody: no object has the owner "-"). -ERR_PARKED when it is not
// synced.
int plan_open_store(const struct plan_input *in, const struct gvk *gvk, const char *ns, const char *name,
                    struct store **ret, struct err *e);
void plan_status_release(struct plan *p, const struct plan_input *in);
void plan_status(struct plan *p, const struct plan_input *in);
// Is `desired` what `live` already is, as far as manager owns it? Fills desired_hash. `learn_id` see struct
// op.
bool plan_is_noop(const struct plan_input *in, const struct object *live, const char *manager,
                  const char *subresource, const json *desired, const char *learn_id,
                  uint64_t *ret_desired_hash, char **ret_path /* free(); NULL when it is */);

#endif
