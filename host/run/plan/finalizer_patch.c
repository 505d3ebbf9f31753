#include "run/plan/finalizer_patch.h"

#include <stdio.h>

#include "base/strset.h"
#include "data/json_write.h"

int64_t finalizer_patch_index(const json *metadata, const char *finalizer)
{
    int64_t index = -1;
    for (struct json_iter i = json_iter(json_get(metadata, "finalizers")); json_next(&i);)
        if (str_eq(json_str(i.value), finalizer))
            index = (int64_t)i.index;
    return index;
}

static void write_op(struct json_writer *w, const char *op, const char *path, const char *value)
{
    jw_object(w);
    jw_member_str(w, "op", op);
    jw_member_str(w, "path", path);
    if (value != NULL)
        jw_member_str(w, "value", value);
    jw_object_end(w);
}

bool finalizer_patch_write(const json *metadata, const char *finalizer, struct buf *out)
{
    struct json_writer w;
    char place[64];
    int64_t index = finalizer_patch_index(metadata, finalizer);
    const char *uid = json_get_str(metadata, "uid");
    if (index < 0 || uid == NULL)
        return false;
    snprintf(place, sizeof place, "/metadata/finalizers/%lld", (long long)index);
    jw_init(&w, out);
    jw_array(&w);
    write_op(&w, "test", "/metadata/uid", uid);
    write_op(&w, "test", place, finalizer);
    write_op(&w, "remove", place, NULL);
    jw_array_end(&w);
    return true;
}
