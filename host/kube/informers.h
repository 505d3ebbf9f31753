// The set of informers (reflector + store): one a scope. A scope is a kind, a namespace or all, an object's
// name or all, and a label selector or none. A reader acquires the scope it needs and gets the narrowest
// informer that covers it, which may be wider; when a kind has more than 4 objects' informers in a namespace
// they are replaced by the namespace's, and more than 4 namespaces' by the cluster's (unless confined to
// namespaces or the server forbids the wider one); more than 16 objects' informers of a kind count as many
// namespaces. The narrower ones live on until the wider is synced; then their users are moved to it and they
// stop: what a user holds is told by informer_use_get, not remembered. Meanwhile on_change comes from both,
// and the wider one's first list tells objects that are known already as new ones (old is NULL, same
// resourceVersion). An informer without users stops after a linger of 60 s; its pointer is good until
// on_change or on_state has returned, and as long as a use holds it. Loop thread, except informers_find* and
// the reads of a store.
//
// Under --namespaces a use of all namespaces of a namespaced kind holds one informer for each allowed
// namespace (informer_use_get gives NULL, informer_use_state the worst of them), and is read by
// informers_find_all.
#ifndef KUBE_INFORMERS_H
#define KUBE_INFORMERS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/strset.h"
#include "kube/discovery.h"
#include "kube/store.h"
#include "kube/watch.h"

struct informers;
struct informer;
struct informer_use; // one user's hold on a scope

struct informer_scope {
    const struct gvk *gvk;
    const char *ns;     // NULL: all namespaces (or cluster-scoped)
    const char *name;   // NULL: all
    const char *labels; // canonical selector text; NULL: all
    const char *fields; // canonical field selector text; NULL: all
};

enum informer_answer {
    INFORMER_SYNCED,
    INFORMER_SYNCING,      // started (or would have to be), the first list is not complete
    INFORMER_UNKNOWN_KIND, // discovery does not know it
    INFORMER_FORBIDDEN,    // the server refuses list or watch; retried with back-off
    INFORMER_UNAVAILABLE,  // discovery can not tell, the kind can not be listed and watched, or the server
                           // does not take the field selector; see the err
};

struct informers_options {
    struct client *client;
    struct discovery *discovery;
    struct store_clock *clock;
    struct metrics *metrics;
    const struct strset
        *namespaces; // --namespaces: never wider than these; NULL or empty: no limit. Outlives the set
    const char *own_namespace; // may be read although it is not among them (the host's own), or NULL
    uint64_t seed;
    // Every change of every store, after it is in. Loop thread. `informer` tells which; old and new as
    // store_event_fn.
    void (*on_change)(void *ud, struct informer *informer, struct object *old, struct object *new,
                      uint64_t revision);
    // An informer became synced, forbidden, its kind appeared or vanished: whoever waits looks again. A
    // vanished one (informer_state is INFORMER_UNKNOWN_KIND) is gone after the call, without deletes for its
    // objects; its uses wait for the kind to come back.
    void (*on_state)(void *ud, struct informer *informer);
    void *ud;
};

struct informers *informers_new(const struct informers_options *o);
// When the loop runs no more (discovery's listener and the metrics' hook point here). Uses may be released
// after it.
void informers_free(struct informers *s);
void informers_drain(struct informers *s); // closes all streams, keeps the stores

// Holds a scope (starting an informer if none covers it). Never fails: an unknown kind is retried when
// discovery changes.
struct informer_use *informers_acquire(struct informers *s, const struct informer_scope *scope,
                                       const struct identity *as);
void informer_use_release(struct informer_use *u);
struct informer *
informer_use_get(struct informer_use *u); // which covers it now; NULL: none yet (unknown kind)
enum informer_answer informer_use_state(struct informer_use *u, struct err *e /* may be NULL */);

// Any thread: the synced store that covers the scope (+1 reference; it may hold more than the scope: ask it
// for the scope's part), or why not.
enum informer_answer informers_find(struct informers *s, const struct informer_scope *scope,
                                    struct store **ret, struct err *e);
// The same for a reader of a pinned revision. A store whose first list was completed after that revision
// shows only a part of it then: that is INFORMER_SYNCING, although the informer's state may be SYNCED already
// (so a pass parked by it is to be repeated at once, on a new snapshot). Passes read through this one.
// UINT64_MAX: the latest.
enum informer_answer informers_find_at(struct informers *s, const struct informer_scope *scope,
                                       uint64_t revision, struct store **ret, struct err *e);
// The same where the answer may be spread over several stores (all namespaces under --namespaces): *ret is an
// array of *ret_count references, freed by the caller, when all are synced; else the worst answer.
enum informer_answer informers_find_all(struct informers *s, const struct informer_scope *scope,
                                        uint64_t revision, struct store ***ret, size_t *ret_count,
                                        struct err *e);

const struct informer_scope *informer_scope(const struct informer *i);
struct store *informer_store(struct informer *i);
enum informer_answer informer_state(const struct informer *i, struct err *e);
const char *informer_resource_version(const struct informer *i); // its store is at; "" if not known
// Is its store being brought up to date by a list? What happened in between is not told one by one then.
bool informer_is_listing(const struct informer *i);
void informer_relist(struct informer *i);
bool informers_all_synced(
    const struct informers *s); // no use waits for a first list (forbidden and unknown ones do not count)
// Largest time since a stream of a synced informer gave a sign of life, ms (for /readyz).
uint64_t informers_quiet_ms(const struct informers *s);
void informers_each(struct informers *s, void (*fn)(void *ud, struct informer *i), void *ud);

#endif
