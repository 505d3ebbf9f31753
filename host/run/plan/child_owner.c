#include "run/plan/child_owner.h"

#include "base/alloc.h"
#include "base/strset.h"
#include "run/source/marks.h"

// By its ownerReference: children that the collector does not reach have none.
static const char *name_of_owner(const json *metadata, const char *uid)
{
    for (struct json_iter i = json_iter(json_get(metadata, "ownerReferences")); json_next(&i);)
        if (uid != NULL && str_eq(json_get_str(i.value, "uid"), uid))
            return json_get_str(i.value, "name");
    return NULL;
}

char *child_owner_refusal(const json *object)
{
    const json *metadata = json_get(object, "metadata");
    const char *uid = json_get_str(json_get(metadata, "labels"), MARKS_LABEL_OWNER);
    const char *name = name_of_owner(metadata, uid);
    bool kept = json_get(json_get(metadata, "labels"), MARKS_LABEL_KEEP) != NULL;
    return xasprintf("subject %s%sUID %s%s of this script has it: give the two children different names%s",
                     name == NULL ? "with " : name, name == NULL ? "" : " (", uid == NULL ? "unknown" : uid,
                     name == NULL ? "" : ")",
                     kept
                         ? ", or, if that subject is gone and left it by `keep`, take the object's labels "
                           "tidelock.dev/script and tidelock.dev/owner-uid off and take it over with adopt = "
                           "{...} naming its managers"
                         : "");
}
