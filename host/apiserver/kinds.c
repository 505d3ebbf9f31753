#include "apiserver/kinds.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strset.h"

struct kinds {
    struct kind *first;
};

struct builtin {
    const char *group, *version, *kind, *plural, *short_name, *category;
    bool cluster, status, generation, generation_annotations, returns_deleted, service_names;
};

static const struct builtin builtins[] = {
    {.group = "", .version = "v1", .kind = "ConfigMap", .plural = "configmaps", .short_name = "cm"},
    {.group = "", .version = "v1", .kind = "Event", .plural = "events", .short_name = "ev"},
    {.group = "",
     .version = "v1",
     .kind = "Namespace",
     .plural = "namespaces",
     .short_name = "ns",
     .cluster = true,
     .status = true,
     .service_names = true},
    {.group = "",
     .version = "v1",
     .kind = "Pod",
     .plural = "pods",
     .short_name = "po",
     .category = "all",
     .status = true,
     .generation = true,
     .returns_deleted = true},
    {.group = "", .version = "v1", .kind = "Secret", .plural = "secrets"},
    {.group = "",
     .version = "v1",
     .kind = "Service",
     .plural = "services",
     .short_name = "svc",
     .category = "all",
     .status = true,
     .returns_deleted = true,
     .service_names = true},
    {.group = "",
     .version = "v1",
     .kind = "ServiceAccount",
     .plural = "serviceaccounts",
     .short_name = "sa",
     .returns_deleted = true},
    {.group = "apps",
     .version = "v1",
     .kind = "Deployment",
     .plural = "deployments",
     .short_name = "deploy",
     .category = "all",
     .status = true,
     .generation = true,
     .generation_annotations = true},
    {.group = "apps",
     .version = "v1",
     .kind = "ReplicaSet",
     .plural = "replicasets",
     .short_name = "rs",
     .category = "all",
     .status = true,
     .generation = true},
    {.group = "events.k8s.io", .version = "v1", .kind = "Event", .plural = "events", .short_name = "ev"},
    {.group = "coordination.k8s.io", .version = "v1", .kind = "Lease", .plural = "leases"},
    {.group = "apiextensions.k8s.io",
     .version = "v1",
     .kind = "CustomResourceDefinition",
     .plural = "customresourcedefinitions",
     .short_name = "crd",
     .category = "api-extensions",
     .cluster = true,
     .status = true,
     .generation = true},
};

static char *lower(struct arena *a, const char *s)
{
    char *out = arena_strdup(a, s);
    for (char *c = out; *c != '\0'; c++) {
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c - 'A' + 'a');
    }
    return out;
}

static void name_kind(struct kind *k)
{
    k->resource = k->group[0] == '\0' ? k->plural : arena_printf(&k->arena, "%s.%s", k->plural, k->group);
}

static const char *api_version_of(struct kind *k, const char *version)
{
    return k->group[0] == '\0' ? version : arena_printf(&k->arena, "%s/%s", k->group, version);
}

static struct kind *new_kind(void)
{
    struct kind *k = xcalloc(1, sizeof(*k));
    arena_init(&k->arena);
    k->storage = storage_new();
    return k;
}

static void append(struct kinds *ks, struct kind *k)
{
    struct kind **at = &ks->first;
    while (*at != NULL)
        at = &(*at)->next;
    *at = k;
}

static void add_builtin(struct kinds *ks, const struct builtin *b)
{
    struct kind *k = new_kind();
    k->group = b->group;
    k->kind = b->kind;
    k->plural = b->plural;
    k->singular = lower(&k->arena, b->kind);
    k->list_kind = arena_printf(&k->arena, "%sList", b->kind);
    k->short_names[0] = b->short_name;
    k->categories[0] = b->category;
    k->namespaced = !b->cluster;
    k->generation = b->generation;
    k->generation_annotations = b->generation_annotations;
    k->returns_deleted = b->returns_deleted;
    k->service_names = b->service_names;
    k->unconditional_update =
        strcmp(b->plural, "leases") != 0 && strcmp(b->plural, "customresourcedefinitions") != 0;
    name_kind(k);
    k->versions[0] = (struct kind_version){
        .name = b->version,
        .api_version = api_version_of(k, b->version),
        .served = true,
        .has_status = b->status,
        .type = listtype_of_builtin(b->group, b->kind),
    };
    k->version_count = 1;
    append(ks, k);
}

struct kinds *kinds_new(void)
{
    struct kinds *ks = xcalloc(1, sizeof(*ks));
    for (size_t i = 0; i < sizeof(builtins) / sizeof(builtins[0]); i++)
        add_builtin(ks, &builtins[i]);
    return ks;
}

static void kind_free(struct kind *k)
{
    storage_free(k->storage);
    arena_fini(&k->arena);
    free(k);
}

void kinds_free(struct kinds *ks)
{
    if (ks == NULL)
        return;
    while (ks->first != NULL)
        kinds_remove(ks, ks->first);
    free(ks);
}

void kinds_remove(struct kinds *ks, struct kind *kind)
{
    struct kind **at = &ks->first;
    while (*at != kind)
        at = &(*at)->next;
    *at = kind->next;
    kind_free(kind);
}

struct kind *kinds_first(struct kinds *ks)
{
    return ks->first;
}

struct kind *kinds_find(struct kinds *ks, const char *group, const char *plural)
{
    for (struct kind *k = ks->first; k != NULL; k = k->next) {
        if (strcmp(k->group, group) == 0 && strcmp(k->plural, plural) == 0)
            return k;
    }
    return NULL;
}

const struct kind_version *kind_find_version(const struct kind *k, const char *version)
{
    for (size_t i = 0; i < k->version_count; i++) {
        if (k->versions[i].served && strcmp(k->versions[i].name, version) == 0)
            return &k->versions[i];
    }
    return NULL;
}

bool kinds_has_group(struct kinds *ks, const char *group)
{
    for (struct kind *k = ks->first; k != NULL; k = k->next) {
        if (strcmp(k->group, group) == 0)
            return true;
    }
    return false;
}

// ---- custom kinds

static void copy_words(struct arena *a, const struct tree *list, const char **ret)
{
    memset(ret, 0, KIND_WORDS_MAX * sizeof(*ret));
    for (size_t i = 0, n = 0; i < tree_count(list) && n < KIND_WORDS_MAX; i++) {
        const char *word = tree_text(tree_at(list, i));
        if (word != NULL)
            ret[n++] = arena_strdup(a, word);
    }
}

static bool is_true(const struct tree *t)
{
    return t != NULL && t->type == TREE_BOOL && t->flag;
}

static void define_versions(struct kind *k, const struct tree *versions)
{
    k->version_count = 0;
    for (size_t i = 0; i < tree_count(versions) && k->version_count < KIND_VERSIONS_MAX; i++) {
        const struct tree *v = tree_at(versions, i);
        const char *name = tree_get_str(v, "name");
        if (name == NULL)
            continue;
        k->versions[k->version_count++] = (struct kind_version){
            .name = arena_strdup(&k->arena, name),
            .api_version = api_version_of(k, arena_strdup(&k->arena, name)),
            .served = is_true(tree_get(v, "served")),
            .has_status = tree_is_map(tree_path(v, "subresources", "status", NULL)),
            .has_scale = tree_is_map(tree_path(v, "subresources", "scale", NULL)),
            .type = listtype_of_schema(&k->arena, tree_path(v, "schema", "openAPIV3Schema", NULL)),
        };
    }
}

static const char *check_definition(const struct tree *crd)
{
    const struct tree *spec = tree_get(crd, "spec");
    const char *scope = tree_get_str(spec, "scope");
    if (tree_get_str(spec, "group") == NULL)
        return "spec.group";
    if (!str_eq(scope, "Namespaced") && !str_eq(scope, "Cluster"))
        return "spec.scope";
    if (tree_text(tree_path(spec, "names", "plural", NULL)) == NULL)
        return "spec.names.plural";
    if (tree_text(tree_path(spec, "names", "kind", NULL)) == NULL)
        return "spec.names.kind";
    if (tree_count(tree_get(spec, "versions")) == 0)
        return "spec.versions";
    return NULL;
}

struct kind *kinds_define(struct kinds *ks, const struct tree *crd, const char **ret_why)
{
    *ret_why = check_definition(crd);
    if (*ret_why != NULL)
        return NULL;
    const struct tree *spec = tree_get(crd, "spec"), *names = tree_get(spec, "names");
    const char *group = tree_get_str(spec, "group"), *plural = tree_get_str(names, "plural");
    struct kind *k = kinds_find(ks, group, plural);
    if (k != NULL && !k->custom) {
        *ret_why = "spec.names.plural";
        return NULL;
    }
    if (k == NULL) {
        k = new_kind();
        append(ks, k);
    }
    struct arena before = k->arena; // its strings may still be needed to find the kind: freed last
    arena_init(&k->arena);
    const char *kind = tree_get_str(names, "kind"), *singular = tree_get_str(names, "singular"),
               *list_kind = tree_get_str(names, "listKind");
    k->custom = true;
    k->generation = true;
    k->group = arena_strdup(&k->arena, group);
    k->plural = arena_strdup(&k->arena, plural);
    k->kind = arena_strdup(&k->arena, kind);
    k->singular = singular != NULL ? arena_strdup(&k->arena, singular) : lower(&k->arena, kind);
    k->list_kind =
        list_kind != NULL ? arena_strdup(&k->arena, list_kind) : arena_printf(&k->arena, "%sList", kind);
    k->namespaced = str_eq(tree_get_str(spec, "scope"), "Namespaced");
    copy_words(&k->arena, tree_get(names, "shortNames"), k->short_names);
    copy_words(&k->arena, tree_get(names, "categories"), k->categories);
    name_kind(k);
    define_versions(k, tree_get(spec, "versions"));
    arena_fini(&before);
    return k;
}
