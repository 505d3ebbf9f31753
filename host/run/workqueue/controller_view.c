#include "run/workqueue/controller_view.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strset.h"
#include "run/workqueue/predicate.h"

struct controller_view *controller_view_new(struct script *script, struct child_stores *children,
                                            struct store **stores, size_t count)
{
    struct controller_view *v = xcalloc(1, sizeof *v);
    v->refs = 1;
    v->script = script;
    v->children = children;
    v->stores = stores;
    v->store_count = count;
    return v;
}

struct controller_view *controller_view_ref(struct controller_view *v)
{
    __atomic_add_fetch(&v->refs, 1, __ATOMIC_RELAXED);
    return v;
}

void controller_view_unref(struct controller_view *v)
{
    if (v == NULL || __atomic_sub_fetch(&v->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    script_unref(v->script);
    child_stores_unref(v->children);
    for (size_t i = 0; i < v->store_count; i++)
        store_unref(v->stores[i]);
    for (size_t i = 0; i < v->leaving_count; i++)
        object_unref(v->leaving[i]);
    free(v->leaving);
    free(v->stores);
    given_up_set_unref(v->given_up);
    free(v);
}

struct object *controller_view_subject(const struct controller_view *v, uint64_t revision, const char *key)
{
    const char *name;
    char *ns = controller_key_split(key, &name);
    struct object *o = NULL;
    for (size_t i = 0; o == NULL && i < v->store_count; i++)
        o = store_get(v->stores[i], revision, ns, name);
    if (o != NULL && !predicate_selects(v->script, o)) {
        object_unref(o);
        o = NULL;
    }
    free(ns);
    return o;
}

struct object *controller_view_leaver(const struct controller_view *v, const char *key)
{
    const char *name;
    char *ns = controller_key_split(key, &name);
    struct object *o = NULL;
    for (size_t i = 0; o == NULL && i < v->leaving_count; i++)
        if (str_eq(object_name(v->leaving[i]), name) && str_eq(object_namespace(v->leaving[i]), ns))
            o = object_ref(v->leaving[i]);
    free(ns);
    return o;
}

char *controller_key(const char *ns, const char *name)
{
    return ns == NULL || ns[0] == '\0' ? xstrdup(name) : xasprintf("%s/%s", ns, name);
}

char *controller_key_split(const char *key, const char **ret_name)
{
    const char *slash = strchr(key, '/'); // neither namespaces nor names hold one
    *ret_name = slash == NULL ? key : slash + 1;
    return slash == NULL ? xstrdup("") : xstrndup(key, (size_t)(slash - key));
}
