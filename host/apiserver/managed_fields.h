// metadata.managedFields: who owns which field, and what an apply or an update does to that. Pure but for the
// arena.
#ifndef APISERVER_MANAGED_FIELDS_H
#define APISERVER_MANAGED_FIELDS_H

#include <stdbool.h>
#include <stddef.h>

#include "apiserver/fieldset.h"
#include "apiserver/listtype.h"
#include "apiserver/tree.h"
#include "apiserver/typed.h"

// One entry. Appliers are told apart by manager and subresource, updaters by API version too.
struct managed_entry {
    const char *manager;
    bool apply;
    const char *api_version;
    const char *subresource; // "" for none
    const char *time;        // or NULL
    struct fieldset *set;
};

struct managed_fields {
    struct managed_entry *items;
    size_t count, cap;
};

// Who writes, as what, when.
struct managed_writer {
    struct arena *arena;
    const struct listtype *type;
    const char *manager;
    const char *api_version;
    const char *subresource; // "" for none
    const char *time;
    bool force;
};

// A field that an apply wants and another manager has.
struct managed_conflict {
    const char *manager; // as messages name it: `"m1"`, `"kubectl" using v1`
    const char *path;
};

struct managed_conflicts {
    struct managed_conflict *items; // sorted by manager
    size_t count, cap;
};

// 0, or -1 when the list is not what the server writes; then the result is empty.
int managed_fields_read(struct arena *a, const struct tree *list, struct managed_fields *ret);
struct tree *managed_fields_write(struct arena *a, const struct managed_fields *m); // NULL: no entries
// The list that asks for ownership to be forgotten: [] or [{}].
bool managed_fields_is_reset(const struct tree *list);

// `live` and `patch` are without managedFields. *ret is the merged object, or `live` itself when nothing
// changed. False: there are conflicts.
bool managed_fields_apply(const struct managed_writer *w, struct tree *live, struct tree *patch, bool exists,
                          struct managed_fields *m, struct tree **ret, struct managed_conflicts *conflicts);
void managed_fields_update(const struct managed_writer *w, const struct tree *live, const struct tree *new,
                           bool exists, struct managed_fields *m);

#endif
