// Inside of the store: slots with their chains of versions, the index buckets. Private to store*.c.
//
// A slot is one object's place. It holds the latest version (a tombstone has no object); versions before it
// hang behind it as long as a pinned revision may see them, and stand in the store's queue of the superseded,
// in the order in which they were. A version that was superseded at revision r is of no use once the floor
// (the smallest pinned revision, or the present) has reached r.
#ifndef KUBE_STORE_IMPL_H
#define KUBE_STORE_IMPL_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "kube/store.h"

#define uthash_malloc(size) xmalloc(size)
#define uthash_free(p, size) free(p)
#include "base/hash_table.h"

struct old_version {
    STAILQ_ENTRY(old_version) superseded;
    struct slot *slot;
    struct old_version *older, *newer; // newer NULL: the slot's latest is next
    struct object *object;             // NULL: tombstone
    uint64_t revision;
    uint64_t until; // revision that superseded it
};
STAILQ_HEAD(old_versions, old_version);

// A slot's place in a bucket: some version of it belongs there.
struct posting {
    LIST_ENTRY(posting) in_bucket;
    struct posting *next; // of the same slot
    struct bucket *bucket;
    struct slot *slot;
};

enum index_kind {
    INDEX_NAMESPACE = 'n',
    INDEX_OWNER = 'o',
    INDEX_MANAGER = 'm',
    INDEX_LABEL = 'l',
    INDEX_FIELD = 'f'
};

struct bucket {
    UT_hash_handle hh;
    LIST_HEAD(, posting) postings;
    size_t count;
    size_t key_len;
    char key[]; // kind, text, NUL; labels, fields: kind, key or path, NUL, value, NUL
};

struct slot {
    UT_hash_handle hh;
    TAILQ_ENTRY(slot) recent;
    struct object *object; // latest; NULL: tombstone
    uint64_t revision;     // of the latest
    struct old_version *older;
    struct posting *postings;
    uint32_t epoch; // of the relist that saw it last
    uint32_t key_len;
    char key[]; // namespace, NUL, name, NUL
};
TAILQ_HEAD(slots, slot);

enum { STORE_ASKED_MAX = 8, STORE_KEY_MAX = 2 * 1024 + 8 };

// Label keys, or paths of fields, that lists asked for: by these there are buckets.
struct asked {
    char *names[STORE_ASKED_MAX];
    size_t count;
};

// What objects have at a path, NULL: nothing.
struct field_values {
    struct field_value {
        struct object *object; // +1 reference
        char *value;
    } * items; // sorted by object
    size_t count;
};

struct store {
    atomic_uint refs;
    struct store_clock *clock;
    const struct gvk *gvk;
    LIST_ENTRY(store) in_clock; // under the clock's lock
    pthread_rwlock_t lock; // all below; written by the loop thread, except that any thread prunes and builds
                           // indexes that were asked for
    struct slot *slots;
    struct slots recent; // by revision of the latest version, oldest first
    struct old_versions superseded;
    atomic_size_t superseded_count; // read without the lock, too
    struct bucket *buckets;
    struct asked labels, fields;
    size_t live;
    size_t bytes;
    uint32_t epoch;
    bool relisting;
};

// The size a block really takes.
size_t store_block_bytes(void *block);
struct slot *store_find_slot(struct store *s, const char *ns, const char *name);
struct object *slot_visible(const struct slot *slot, uint64_t revision); // borrowed

// store_clock.c
uint64_t store_clock_next(struct store_clock *c); // loop thread: the revision of a change about to be made
uint64_t store_clock_publish(struct store_clock *c, uint64_t revision); // after it is in; the floor
void store_clock_attach(struct store_clock *c, struct store *s);
void store_clock_detach(struct store_clock *c, struct store *s);

// Drops what nobody can see any more. Any thread, without the lock.
void store_prune(struct store *s, uint64_t floor);

// store_index.c; with the write lock
void store_index_add(struct store *s, struct slot *slot, const struct object *o);
void store_index_trim(struct store *s,
                      struct slot *slot); // drops postings that no version of the slot justifies
// By labels or fields of that name from now on; `known`: values that need not be looked up under the lock.
void store_index_ask(struct store *s, enum index_kind kind, const char *name,
                     const struct field_values *known);
// With the read lock.
bool store_index_is_asked(const struct store *s, enum index_kind kind, const char *name);
struct bucket *store_index_find(struct store *s, enum index_kind kind, const char *text,
                                const char *value /* labels, fields */);
bool store_index_has_room(const struct store *s, enum index_kind kind);

void store_index_take_objects(struct store *s, struct field_values *ret);
// Without the lock: objects are parsed, which takes its time.
void store_index_look_up(struct field_values *v, const char *path);
void store_index_forget(struct field_values *v);

#endif
