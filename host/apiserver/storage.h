// The objects of one resource and what happened to them. Versions are immutable, refcounted JSON texts; an
// object's key is "namespace/name" ("/name" when cluster-scoped). The log of events lets a watch resume and a
// list be continued at the state it began with. Loop thread.
#ifndef APISERVER_STORAGE_H
#define APISERVER_STORAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "data/json.h"

struct storage_version {
    unsigned refs;
    uint64_t resource_version;
    char *json; // the object without apiVersion and kind; never empty of members
    size_t len;
};

enum storage_event_type { STORAGE_ADDED, STORAGE_MODIFIED, STORAGE_DELETED };

struct storage_event {
    enum storage_event_type type;
    uint64_t resource_version;
    char *key;
    struct storage_version *old; // NULL: the object is new
    struct storage_version *new; // DELETED: the last state, under the resource version of the deletion
};

enum { STORAGE_LOG_MAX = 4096 };

struct storage;

struct storage *storage_new(void);
void storage_free(struct storage *s);

// `json` is taken (free()).
struct storage_version *storage_version_new(uint64_t resource_version, char *json, size_t len);
struct storage_version *storage_version_ref(struct storage_version *v);
void storage_version_unref(struct storage_version *v);

struct storage_version *storage_get(const struct storage *s, const char *key); // borrowed, or NULL
// Takes the version; the event is valid until the next change.
const struct storage_event *storage_put(struct storage *s, const char *key, struct storage_version *v);
const struct storage_event *storage_remove(struct storage *s, const char *key, struct storage_version *last);
size_t storage_count(const struct storage *s);

// All objects whose key starts with prefix ("ns/" or ""), sorted by key, as they were at `resource_version`
// (0: now).
struct storage_entry {
    const char *key; // borrowed from the storage: valid until the next change
    struct storage_version *version;
};
struct storage_list {
    struct storage_entry *items;
    size_t count;
};
// False: the log does not reach back that far.
bool storage_list(const struct storage *s, const char *prefix, uint64_t resource_version,
                  struct storage_list *ret);
void storage_list_fini(struct storage_list *l);

// The oldest resource version a watch may resume from.
uint64_t storage_oldest(const struct storage *s);
void storage_compact(struct storage *s, uint64_t resource_version); // forgets the log up to and including it
void storage_each_event_after(const struct storage *s, uint64_t resource_version,
                              void (*fn)(void *ud, const struct storage_event *ev), void *ud);

#endif
