// What a worker needs of a controller for one pass: immutable, refcounted, replaced as a whole by the loop.
// Any thread.
#ifndef RUN_WORKQUEUE_CONTROLLER_VIEW_H
#define RUN_WORKQUEUE_CONTROLLER_VIEW_H

#include "run/source/script.h"
#include "run/workqueue/given_up.h"
#include "run/world/child_stores.h"

struct controller_view {
    unsigned refs;                 // atomic
    struct script *script;         // +1
    bool paused;                   // by the ConfigMap's annotation
    struct given_up_set *given_up; // +1 or NULL: subjects whose end does not wait for all it should
    struct child_stores *children; // +1; NULL: the inventory is not loaded yet
    struct object **leaving;       // +1 each: subjects that are no longer selected, to be given up
    size_t leaving_count;
    size_t store_count;    // of the subject: one, or one a namespace
    struct store **stores; // +1 each; owned
};

// Takes the references it is given; paused is false.
struct controller_view *controller_view_new(struct script *script, struct child_stores *children,
                                            struct store **stores, size_t count);
struct controller_view *controller_view_ref(struct controller_view *v);
void controller_view_unref(struct controller_view *v);

// The subject at `revision`, +1, or NULL.
struct object *controller_view_subject(const struct controller_view *v, uint64_t revision, const char *key);

// The subject of the key among those that are leaving, +1, or NULL.
struct object *controller_view_leaver(const struct controller_view *v, const char *key);

// "namespace/name", or "name" for a cluster-scoped object; free().
char *controller_key(const char *ns, const char *name);
// The parts of a key; ns must be free()d, *ret_name points into key.
char *controller_key_split(const char *key, const char **ret_name);

#endif
