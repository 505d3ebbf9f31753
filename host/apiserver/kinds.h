// The kinds the server serves: built-in ones from a table, custom ones from CustomResourceDefinitions. Loop
// thread; the registry owns all.
#ifndef APISERVER_KINDS_H
#define APISERVER_KINDS_H

#include <stdbool.h>
#include <stddef.h>

#include "apiserver/arena.h"
#include "apiserver/listtype.h"
#include "apiserver/storage.h"
#include "apiserver/tree.h"

struct kind_version {
    const char *name;        // "v1"
    const char *api_version; // "apps/v1"
    bool served;
    bool has_status; // the status subresource
    bool has_scale;
    const struct listtype *type;
};

enum { KIND_VERSIONS_MAX = 16, KIND_WORDS_MAX = 8 };

struct kind {
    const char *group; // "" for core
    const char *kind, *list_kind;
    const char *plural, *singular;
    const char *short_names[KIND_WORDS_MAX], *categories[KIND_WORDS_MAX]; // end with NULL unless full
    const char *resource; // "deployments.apps", "pods": how messages name it
    bool namespaced;
    bool custom;
    bool generation;             // metadata.generation is kept
    bool generation_annotations; // annotations count for it
    bool returns_deleted;        // DELETE answers with the object
    bool unconditional_update;   // PUT without resourceVersion is allowed
    bool service_names;          // names are DNS labels
    struct kind_version versions[KIND_VERSIONS_MAX];
    size_t version_count;
    struct storage *storage;
    struct arena arena; // of a custom kind's strings and types
    struct kind *next;
};

struct kinds;

struct kinds *kinds_new(void);
void kinds_free(struct kinds *k);
struct kind *
kinds_first(struct kinds *k); // walk with ->next; built-in ones first, then in order of appearance
struct kind *kinds_find(struct kinds *k, const char *group, const char *plural);
const struct kind_version *kind_find_version(const struct kind *k, const char *version); // served ones only
bool kinds_has_group(struct kinds *k, const char *group);

// Makes or remakes the kind of a CRD. NULL: the object is not a usable definition, `*why` says what is wrong.
struct kind *kinds_define(struct kinds *k, const struct tree *crd, const char **ret_why);
// Takes the kind out and frees it.
void kinds_remove(struct kinds *k, struct kind *kind);

#endif
