// How the values of a kind are merged: which lists are keyed, which values are atomic, which members of a map
// are named fields. For built-in kinds a table of what differs from the rule "maps are structs, lists are
// atomic"; for custom resources it is read from the CRD's schema. Immutable once built; the maker of the
// arena owns it.
#ifndef APISERVER_LISTTYPE_H
#define APISERVER_LISTTYPE_H

#include <stdbool.h>
#include <stddef.h>

#include "apiserver/tree.h"

enum listtype_kind {
    LISTTYPE_MAP,    // merged member by member; anything but a map is a leaf
    LISTTYPE_ATOMIC, // a leaf, whatever it is
    LISTTYPE_KEYED,  // a list of maps, merged by key fields
    LISTTYPE_SET,    // a list of scalars, merged by value
};

struct listtype;

struct listtype_field {
    const char *name;
    const struct listtype *type;
};

enum { LISTTYPE_KEYS_MAX = 4 };

struct listtype {
    enum listtype_kind kind;
    const struct listtype_field
        *fields; // LISTTYPE_MAP: members with a type of their own; ends with a NULL name
    const struct listtype
        *other;       // LISTTYPE_MAP: type of the other members; NULL: atomic. KEYED, SET: of the items
    bool other_named; // the other members are fields of a struct, not keys of a map
    const char *keys[LISTTYPE_KEYS_MAX];         // KEYED, sorted
    const char *key_defaults[LISTTYPE_KEYS_MAX]; // KEYED: JSON text of a key's default or NULL
    char shape; // 'm' map, 'l' list, 's' string: anything else (but null) is refused in an apply; 0: not
                // checked
    const char *type_name;    // as the schema calls it; NULL: it does not say, or a built-in kind
    const char *default_json; // what null becomes, JSON text; NULL: nothing
    bool nullable;            // null is a legal value
    bool builtin; // null and empty values are left out when an object is stored, as typed kinds do
};

extern const struct listtype listtype_any; // untyped: maps by member, their members are keys; lists atomic
extern const struct listtype listtype_builtin; // a built-in kind without special fields, metadata apart

// The table of a built-in kind; listtype_builtin when there is nothing special.
const struct listtype *listtype_of_builtin(const char *group, const char *kind);
// From a version's openAPIV3Schema (may be NULL).
const struct listtype *listtype_of_schema(struct arena *a, const struct tree *schema);

// The type of a member; *ret_named (may be NULL): whether it is a field of a struct.
const struct listtype *listtype_member(const struct listtype *t, const char *key, bool *ret_named);

#endif
