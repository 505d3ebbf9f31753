// What is changed on one object when a script hands it back: which of its managers, labels, owner references
// and finalizers are the script's, and the JSON patch that takes them off, or makes them another script's.
// Pure.
#ifndef RUN_RELEASE_RELEASE_EDIT_H
#define RUN_RELEASE_RELEASE_EDIT_H

#include <stdbool.h>

#include "base/buf.h"
#include "data/json.h"
#include "run/source/marks.h"

struct release_identity {
    char hash[MARKS_HASH_MAX];
    char manager[MARKS_MANAGER_MAX];
    char finalizer[MARKS_FINALIZER_MAX];
    char report[MARKS_MANAGER_MAX]; // manager of the condition Reconciled
};
void release_identity_init(struct release_identity *i, const char *instance, const char *ns,
                           const char *name);

enum release_role { RELEASE_CHILD, RELEASE_PATCHED, RELEASE_SUBJECT };

// Is there anything of the script's on it? metadata: of the object.
bool release_edit_concerns(enum release_role role, const struct release_identity *from, const json *metadata);
// The patch manager's name, when the entry of managedFields is one of the script's for a patch; else NULL.
const char *release_edit_patch_manager(const struct release_identity *from, const json *entry);
// Writes the whole patch; `to` NULL: handed to nobody. It holds for this version of the object only.
void release_edit_write(enum release_role role, const struct release_identity *from,
                        const struct release_identity *to, const json *metadata, struct buf *out);
// To another script: changing a label made it the editor's, so the entries as they are to be are written once
// more on what the first patch was answered with. `metadata`: as before; `now`: of the answer.
void release_edit_write_entries(const struct release_identity *from, const struct release_identity *to,
                                const json *metadata, const json *now, struct buf *out);

#endif
