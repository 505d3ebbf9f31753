#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/alloc.h"
#include "base/strset.h"
#include "run/controller_internal.h"

struct subject_id {
    char *uid;
    char *key;
    UT_hash_handle hh;
};

static struct subject_id *find(const struct controller *c, const char *uid)
{
    struct subject_id *s;
    HASH_FIND_STR(c->ids, uid, s);
    return s;
}

void controller_know_subject(struct controller *c, const struct object *o)
{
    if (find(c, object_uid(o)) != NULL)
        return;
    struct subject_id *s = xcalloc(1, sizeof *s);
    s->uid = xstrdup(object_uid(o));
    s->key = controller_key(object_namespace(o), object_name(o));
    HASH_ADD_KEYPTR(hh, c->ids, s->uid, strlen(s->uid), s);
}

static void drop(struct controller *c, struct subject_id *s)
{
    HASH_DEL(c->ids, s);
    free(s->uid);
    free(s->key);
    free(s);
}

void controller_forget_subject(struct controller *c, const char *uid)
{
    struct subject_id *s = find(c, uid);
    if (s != NULL)
        drop(c, s);
}

const char *controller_key_of_uid(const struct controller *c, const char *uid)
{
    const struct subject_id *s = find(c, uid);
    return s == NULL ? NULL : s->key;
}

void controller_forget_subjects(struct controller *c)
{
    struct subject_id *s, *tmp;
    HASH_ITER (hh, c->ids, s, tmp) {
        drop(c, s);
    }
}

static bool paths_differ(const char *const *paths, const struct object *old, const struct object *new)
{
    struct json_doc *a = object_parse(old), *b = object_parse(new);
    bool differ = false;
    for (; !differ && *paths != NULL; paths++) {
        const json *x = json_dotted(json_root(a), *paths), *y = json_dotted(json_root(b), *paths);
        differ = json_is_null(x) ? !json_is_null(y) : json_is_null(y) || !json_equal(x, y);
    }
    json_doc_free(a);
    json_doc_free(b);
    return differ;
}

// The predicate. Creation, deletion, the begin of deletion and another UID always matter.
bool controller_cares(const struct controller *c, const struct object *old, const struct object *new)
{
    const struct program_spec *spec = program_spec(c->script->program);
    if (old == NULL || new == NULL || !str_eq(object_uid(old), object_uid(new)) ||
        object_is_deleting(old) != object_is_deleting(new))
        return true;
    if (object_content_hash(old) == object_content_hash(new))
        return false; // managedFields and resourceVersion only
    return spec->changed == NULL || paths_differ(spec->changed, old, new);
}
