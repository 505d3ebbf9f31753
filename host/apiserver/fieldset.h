// Sets of field paths, as metadata.managedFields writes them (FieldsV1). A node is a path element in its
// written form
// ("f:name", "k:{...}", "v:...", "i:0"); `member` says that the path up to here is in the set itself.
// Children are sorted. All nodes live in the arena given; sets are never changed once they are shared.
#ifndef APISERVER_FIELDSET_H
#define APISERVER_FIELDSET_H

#include <stdbool.h>
#include <stddef.h>

#include "apiserver/tree.h"
#include "base/buf.h"

struct fieldset {
    const char *key; // NULL at the root
    size_t key_len;
    bool member;
    struct fieldset *first, *last; // children
    struct fieldset *next;         // sibling
};

struct fieldset_path {
    const struct fieldset_path *before; // NULL at the root, which itself is no element
    const char *key;
    size_t key_len;
};

struct fieldset *fieldset_new(struct arena *a);
void fieldset_insert(struct arena *a, struct fieldset *s,
                     const struct fieldset_path *path); // the empty path is nothing
const struct fieldset *fieldset_find(const struct fieldset *s, const char *key, size_t n);
bool fieldset_is_empty(const struct fieldset *s); // NULL is empty
// New sets; either may be NULL. Difference: parent - child = parent, child - parent = child.
struct fieldset *fieldset_union(struct arena *a, const struct fieldset *x, const struct fieldset *y);
struct fieldset *fieldset_difference(struct arena *a, const struct fieldset *x, const struct fieldset *y);
struct fieldset *fieldset_intersection(struct arena *a, const struct fieldset *x, const struct fieldset *y);

struct fieldset *fieldset_from_tree(struct arena *a,
                                    const struct tree *fields_v1); // anything odd reads as empty
struct tree *fieldset_to_tree(struct arena *a, const struct fieldset *s);

// Each path in the set, members of a level before what lies deeper, as text: `.spec.ports[port=80].name`.
void fieldset_each(const struct fieldset *s, void (*fn)(void *ud, const char *path), void *ud);
void fieldset_add_element_text(struct buf *out, const char *key, size_t n);

#endif
