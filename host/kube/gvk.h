// Kinds, interned: group/version/Kind. Two equal kinds are one pointer, for the process's life. Any thread.
#ifndef KUBE_GVK_H
#define KUBE_GVK_H

#include <stdbool.h>

#include "base/err.h"

struct gvk {
    const char *group;       // "" for core
    const char *version;     // "v1"
    const char *kind;        // "Pod"
    const char *api_version; // "apps/v1", "v1"
    const char *text;        // "apps/v1/Deployment", "v1/Pod": how scripts and messages name it
};

// "group/version/Kind", core "v1/Pod". NULL with -ERR_INVALID text that says what is wrong: lower-case kind,
// missing version ("apps/Deployment"), extra parts. At most 20,000 kinds are interned; beyond that NULL
// (ERR_LIMIT).
const struct gvk *gvk_parse(const char *text, struct err *e);
// From an object's apiVersion and kind.
const struct gvk *gvk_of(const char *api_version, const char *kind, struct err *e);
// The same for what a script names, which may not exist: half of the table is out of its reach, so that kinds
// which servers name find a place whatever scripts make up.
const struct gvk *gvk_parse_asked(const char *text, struct err *e);
const struct gvk *gvk_of_asked(const char *api_version, const char *kind, struct err *e);
bool gvk_same_group_kind(const struct gvk *a, const struct gvk *b);

#endif
