// The walks over values with a merge type: which fields a value sets, merging two values, comparing them,
// taking fields out. Pure: inputs are not changed, results share nodes with them. All memory comes from the
// arena.
#ifndef APISERVER_TYPED_H
#define APISERVER_TYPED_H

#include "apiserver/fieldset.h"
#include "apiserver/listtype.h"
#include "apiserver/tree.h"

// What an applied value does wrong, as the API server words it (".spec.set: duplicate entries for key
// [=\"a\"]"); NULL: nothing.
const char *typed_check(struct arena *a, const struct listtype *type, const struct tree *value);

struct fieldset *typed_fields(struct arena *a, const struct listtype *type, const struct tree *value);
// `over` laid over `base`; either may be NULL.
struct tree *typed_merge(struct arena *a, const struct listtype *type, struct tree *base, struct tree *over);

struct typed_diff {
    struct fieldset *added, *modified, *removed;
};
void typed_compare(struct arena *a, const struct listtype *type, const struct tree *old,
                   const struct tree *new, struct typed_diff *ret);

// The value without the fields of the set. A container that was emptied becomes a hole, which
// typed_fill_holes takes out again.
struct tree *typed_remove(struct arena *a, const struct listtype *type, struct tree *value,
                          const struct fieldset *set);

// A hole becomes null. In built-in kinds typed_normalize then takes it out; the schema of a custom kind may
// forbid it (nulls.h).
struct tree *typed_fill_holes(struct arena *a, struct tree *value);

// The set together with the struct fields on the way to its members.
struct fieldset *typed_with_parents(struct arena *a, const struct listtype *type, const struct fieldset *set);

// What storing a typed (built-in) object does to nulls and empties: null in a struct and empty maps and lists
// go, null in a map of texts becomes "". Changes `value`, which must be a copy. Nothing for other types.
void typed_normalize(struct arena *a, const struct listtype *type, struct tree *value);

#endif
