#include "kube/discovery_parse.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strset.h"

enum {
    VERSIONS_MAX = 10000, // groups times versions
    RESOURCES_MAX = 2000, // of one version
};

static const struct {
    const char *name;
    enum resource_verb verb;
} verbs[] = {
    {"get", RESOURCE_GET},       {"list", RESOURCE_LIST},     {"watch", RESOURCE_WATCH},
    {"create", RESOURCE_CREATE}, {"update", RESOURCE_UPDATE}, {"patch", RESOURCE_PATCH},
    {"delete", RESOURCE_DELETE},
};

static unsigned read_verbs(const json *array)
{
    unsigned set = 0;
    for (struct json_iter i = json_iter(array); json_next(&i);)
        for (size_t k = 0; k < sizeof(verbs) / sizeof(verbs[0]); k++)
            if (str_eq(json_str(i.value), verbs[k].name))
                set |= verbs[k].verb;
    return set;
}

struct resources {
    struct resource *items;
    size_t count;
};

static struct resource *find_plural(struct resources *l, const char *plural, size_t n)
{
    for (size_t i = 0; i < l->count; i++)
        if (strncmp(l->items[i].plural, plural, n) == 0 && l->items[i].plural[n] == '\0')
            return &l->items[i];
    return NULL;
}

static bool has_kind(const struct resources *l, const struct gvk *gvk)
{
    for (size_t i = 0; i < l->count; i++)
        if (l->items[i].gvk == gvk)
            return true;
    return false;
}

// The first entry of a kind stands. NULL: not usable.
static struct resource *add(struct resources *l, const char *api_version, const char *kind,
                            const char *plural)
{
    if (kind == NULL || plural == NULL || !resource_name_ok(plural) || l->count == RESOURCES_MAX)
        return NULL;
    const struct gvk *gvk = gvk_of(api_version, kind, NULL);
    const char *name = resource_intern(plural);
    if (gvk == NULL || name == NULL || has_kind(l, gvk))
        return NULL;
    if ((l->count & (l->count - 1)) == 0) // a power of two: full
        l->items = xreallocarray(l->items, l->count == 0 ? 1 : 2 * l->count, sizeof(*l->items));
    struct resource *r = &l->items[l->count++];
    *r = (struct resource){.gvk = gvk, .plural = name};
    return r;
}

static void note_subresource(struct resource *r, const char *name)
{
    r->has_status |= str_eq(name, "status");
    r->has_scale |= str_eq(name, "scale");
}

// ---- aggregated

static void read_resource(struct resources *l, const char *api_version, const json *node)
{
    const char *kind = json_get_str(json_get(node, "responseKind"), "kind");
    struct resource *r = add(l, api_version, kind, json_get_str(node, "resource"));
    if (r == NULL)
        return;
    r->namespaced = str_eq(json_get_str(node, "scope"), "Namespaced");
    r->verbs = read_verbs(json_get(node, "verbs"));
    for (struct json_iter i = json_iter(json_get(node, "subresources")); json_next(&i);)
        note_subresource(r, json_get_str(i.value, "subresource"));
}

// Room for one more version of the group; NULL: the name is not usable.
static struct discovery_version *add_version(struct discovery_list *l, const char *group, const char *version)
{
    if (version == NULL || *version == '\0' || l->count == VERSIONS_MAX)
        return NULL;
    char *text = *group == '\0' ? xstrdup(version) : xasprintf("%s/%s", group, version);
    const char *api_version = resource_intern(text), *interned_group = resource_intern(group);
    free(text);
    if (api_version == NULL || interned_group == NULL)
        return NULL;
    if ((l->count & (l->count - 1)) == 0)
        l->items = xreallocarray(l->items, l->count == 0 ? 1 : 2 * l->count, sizeof(*l->items));
    struct discovery_version *v = &l->items[l->count++];
    *v = (struct discovery_version){.group = interned_group, .api_version = api_version};
    return v;
}

static void read_group(struct discovery_list *l, const json *item)
{
    const char *group = json_str(json_path(item, "metadata", "name", NULL));
    for (struct json_iter i = json_iter(json_get(item, "versions")); json_next(&i);) {
        struct discovery_version *v =
            add_version(l, group == NULL ? "" : group, json_get_str(i.value, "version"));
        if (v == NULL)
            continue;
        struct resources r = {0};
        for (struct json_iter k = json_iter(json_get(i.value, "resources")); json_next(&k);)
            read_resource(&r, v->api_version, k.value);
        v->resources = r.items;
        v->count = r.count;
        v->stale = str_eq(json_get_str(i.value, "freshness"), "Stale");
    }
}

// ---- legacy

static void read_legacy_version(struct discovery_list *l, const char *group, const char *version)
{
    struct discovery_version *v = add_version(l, group, version);
    if (v != NULL)
        v->listed_only = true;
}

static void read_legacy_group(struct discovery_list *l, const json *item)
{
    const char *group = json_get_str(item, "name");
    if (group == NULL || *group == '\0')
        return;
    const char *preferred = json_str(json_path(item, "preferredVersion", "version", NULL));
    read_legacy_version(l, group, preferred);
    for (struct json_iter i = json_iter(json_get(item, "versions")); json_next(&i);) {
        const char *version = json_get_str(i.value, "version");
        if (!str_eq(version, preferred))
            read_legacy_version(l, group, version);
    }
}

int discovery_parse_list(const json *root, struct discovery_list *ret, struct err *e)
{
    struct discovery_list l = {0};
    const char *kind = json_get_str(root, "kind");
    if (str_eq(kind, "APIGroupDiscoveryList")) {
        for (struct json_iter i = json_iter(json_get(root, "items")); json_next(&i);)
            read_group(&l, i.value);
    } else if (str_eq(kind, "APIGroupList")) {
        for (struct json_iter i = json_iter(json_get(root, "groups")); json_next(&i);)
            read_legacy_group(&l, i.value);
    } else if (str_eq(kind, "APIVersions")) {
        for (struct json_iter i = json_iter(json_get(root, "versions")); json_next(&i);)
            read_legacy_version(&l, "", json_str(i.value));
    } else {
        return err_set(e, ERR_PARSE,
                       "the answer is no list of API groups (its kind is %.60s): is the address right?",
                       kind == NULL ? "missing" : kind);
    }
    *ret = l;
    return 0;
}

void discovery_list_fini(struct discovery_list *l)
{
    for (size_t i = 0; i < l->count; i++)
        free(l->items[i].resources);
    free(l->items);
    *l = (struct discovery_list){0};
}

// "pods/status" says that pods has a status; its kind is not looked at.
static void read_subresource(struct resources *l, const char *name)
{
    const char *slash = strchr(name, '/');
    struct resource *r = slash == NULL ? NULL : find_plural(l, name, (size_t)(slash - name));
    if (r != NULL)
        note_subresource(r, slash + 1);
}

int discovery_parse_resources(const json *root, const char *api_version, struct resource **ret,
                              size_t *ret_count, struct err *e)
{
    if (!str_eq(json_get_str(root, "kind"), "APIResourceList"))
        return err_set(e, ERR_PARSE, "the answer is no APIResourceList");
    struct resources l = {0};
    for (struct json_iter i = json_iter(json_get(root, "resources")); json_next(&i);) {
        struct resource *r =
            add(&l, api_version, json_get_str(i.value, "kind"), json_get_str(i.value, "name"));
        if (r == NULL)
            continue;
        r->namespaced = json_true(json_get(i.value, "namespaced"));
        r->verbs = read_verbs(json_get(i.value, "verbs"));
    }
    for (struct json_iter i = json_iter(json_get(root, "resources")); json_next(&i);) {
        const char *name = json_get_str(i.value, "name");
        if (name != NULL)
            read_subresource(&l, name);
    }
    *ret = l.items;
    *ret_count = l.count;
    return 0;
}
