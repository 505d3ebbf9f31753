// Inside of the set of informers: informers.c (the set: uses, covering, discovery), informers_find.c (reads
// from any thread, numbers), informer.c (one informer).
#ifndef KUBE_INFORMERS_IMPL_H
#define KUBE_INFORMERS_IMPL_H

#include <pthread.h>
#include <sys/queue.h>

#include "kube/informers.h"

enum {
    INFORMERS_OBJECTS_MAX =
        4, // informers of single objects in a namespace, before the namespace's replaces them
    INFORMERS_OBJECTS_TOTAL = 16, // of a kind, before the cluster's does
    INFORMERS_NAMESPACES_MAX = 4, // informers of namespaces of a kind, before the cluster's does
    INFORMERS_LINGER_MS = 60 * 1000,
    INFORMERS_CONFIRM_MS = 3 * 1000, // between two looks at a kind that vanished
    INFORMERS_PATROL_MS = 60 * 1000, // kinds that are waited for are told to discovery
};

// The series of one kind; they stay when its informers go.
struct informer_kind {
    LIST_ENTRY(informer_kind) link;
    const struct gvk *gvk;
    struct series *objects, *bytes, *relists, *events;
};

struct informer {
    TAILQ_ENTRY(informer) link;
    struct informers *set;
    struct informer_scope scope; // its strings are owned
    struct identity as;          // its string, too
    struct resource resource;
    struct store *store;
    struct watch *watch; // NULL: drained
    struct loop_timer *linger;
    struct informer_kind *kind; // NULL without metrics
    size_t uses;
    enum informer_answer state; // this, `why` and `synced_at` under the set's lock
    char *why;
    uint64_t synced_at;     // revision at which the first list was complete; UINT64_MAX: it is not
    bool widened;           // wider than anybody asked for
    bool doomed;            // out of the set, freed in a later turn
    bool appeared;          // started because discovery changed: on_state is due
    uint64_t missing_since; // discovery does not know the kind; 0: it does
};
TAILQ_HEAD(informer_list, informer);

struct informer_use {
    TAILQ_ENTRY(informer_use) link;
    struct informers *set; // NULL: it is gone
    struct informer_scope scope;
    struct identity as;
    struct informer *informer;   // NULL: none, or parts
    struct informer_use **parts; // one a namespace, where the whole is not allowed
    size_t part_count;
};
TAILQ_HEAD(informer_uses, informer_use);

struct informers {
    struct informers_options o;
    struct loop *loop;
    pthread_rwlock_t lock; // the list, states, kinds: written by the loop thread
    struct informer_list informers;
    LIST_HEAD(, informer_kind) kinds;
    struct informer_list doomed;
    struct informer_uses uses;
    struct loop_timer *chores; // frees the doomed
    struct loop_timer *patrol;
    struct metric *objects, *bytes, *relists, *events;
    const struct gvk **unwidened; // kinds whose wider informers were forbidden
    size_t unwidened_count;
    uint64_t made; // for seeds
    bool drained;
};

// informer.c
struct informer *informer_start(struct informers *s, const struct resource *r,
                                const struct informer_scope *scope, const struct identity *as, bool widened);
void informer_doom(struct informer *i); // out of the set at once, freed in a later turn
void informer_free(struct informer *i);
bool informer_set_state(struct informer *i, enum informer_answer state,
                        const char *why); // true: it is another one
void informer_notify(struct informer *i); // on_state
void informer_scope_copy(struct informer_scope *to, const struct informer_scope *from);
void informer_scope_fini(struct informer_scope *scope);

// informers.c
void informers_on_synced(struct informer *i);    // uses of narrower ones move here
void informers_on_forbidden(struct informer *i); // users that need less of it try with just that
bool informers_covers(const struct informer_scope *wide, const struct informer_scope *narrow);
bool informers_is_confined(const struct informers *s);
bool informers_is_narrower(const struct informer_scope *a,
                           const struct informer_scope *b); // within b, and not the same
unsigned informers_narrowness(const struct informer_scope *scope);

// informers_find.c
// Why no informer serves the scope; any thread.
enum informer_answer informers_absent(struct informers *s, const struct informer_scope *scope, struct err *e);
bool informers_must_split(const struct informers *s, const struct informer_scope *scope,
                          const struct resource *r);
void informers_add_metrics(struct informers *s);
struct informer_kind *informers_kind(struct informers *s, const struct gvk *gvk);

#endif
