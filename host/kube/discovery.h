// kind -> resource, as the server says: aggregated discovery, or the legacy documents a group where the
// server has none. A broken APIService hides only its own kinds, whose last good entries stay. The loop
// thread refreshes; any thread finds.
#ifndef KUBE_DISCOVERY_H
#define KUBE_DISCOVERY_H

#include <stddef.h>

#include "kube/client.h"
#include "kube/resource.h"

struct discovery;

enum discovery_answer {
    DISCOVERY_FOUND,
    DISCOVERY_UNKNOWN,     // the server knows no such kind (now)
    DISCOVERY_UNAVAILABLE, // its group does not answer: neither known nor unknown
    DISCOVERY_NOT_LOADED,  // nothing was fetched yet
};

struct discovery *discovery_new(struct client *c);
// Before the client.
void discovery_free(struct discovery *d);
// Fetches now (while a fetch is under way: once more after it), then every 10 min with jitter (a periodic
// refresh; 30 s while a group is unavailable; with back-off from 1 to 30 s while the server does not answer).
void discovery_refresh(struct discovery *d);
// A kind was asked for that is unknown: refresh soon, at most every 2 s for the first minute a kind is
// missed, then every 10 s. Goes on until the kind is found, or nobody missed it for 10 min. (CRD appearance
// is normally learned from a watch on CRDs by the caller, which then calls discovery_refresh.)
void discovery_miss(struct discovery *d, const struct gvk *gvk);
// What the server did does not go with what it told of a kind: refresh soon, at most every 10 s.
void discovery_doubt(struct discovery *d);
// Adds a listener, called on the loop after each fetch that changed anything, and after the first; `e` is set
// when a fetch failed (then it is called too). With a legacy server whose groups hang it is called before the
// last of them. It must not free the discovery.
void discovery_on_change(struct discovery *d, void (*fn)(void *ud, const struct err *e), void *ud);

enum discovery_answer discovery_find(struct discovery *d, const struct gvk *gvk,
                                     struct resource *ret); // any thread
// The first (preferred) served version of group/kind; any thread.
enum discovery_answer discovery_find_group_kind(struct discovery *d, const char *group, const char *kind,
                                                struct resource *ret);
size_t discovery_count(struct discovery *d); // kinds known

#endif
