#include "apiserver/builtin.h"

#include <string.h>

#include "apiserver/mutate.h"
#include "apiserver/watch_hub.h"
#include "base/strset.h"
#include "data/digest.h"

bool builtin_is(const struct kind *k, const char *group, const char *name)
{
    return !k->custom && strcmp(k->group, group) == 0 && strcmp(k->kind, name) == 0;
}

static bool is_definition(const struct kind *k)
{
    return builtin_is(k, "apiextensions.k8s.io", "CustomResourceDefinition");
}

// Typed kinds have these structs even when nobody wrote them.
struct tree *builtin_blank(struct request *q)
{
    struct tree *t = tree_map(&q->arena);
    if (q->kind->custom)
        return t;
    tree_set(&q->arena, t, "metadata", tree_map(&q->arena));
    if (q->version->has_status) {
        tree_set(&q->arena, t, "spec", tree_map(&q->arena));
        tree_set(&q->arena, t, "status", tree_map(&q->arena));
    }
    struct tree *spec = tree_get(t, "spec");
    if (is_definition(q->kind))
        tree_set(&q->arena, spec, "names", tree_map(&q->arena));
    if (builtin_is(q->kind, "apps", "Deployment"))
        tree_set(&q->arena, spec, "strategy", tree_map(&q->arena));
    if (strcmp(q->kind->group, "apps") == 0) {
        struct tree *template = tree_need_map(&q->arena, spec, "template");
        tree_set(&q->arena, template, "metadata", tree_map(&q->arena));
        tree_set(&q->arena, template, "spec", tree_map(&q->arena));
    }
    return t;
}

static void encode_secret(struct request *q, struct tree *object)
{
    struct arena *a = &q->arena;
    struct tree *texts = tree_get(object, "stringData");
    for (size_t i = 0; i < tree_count(texts); i++) {
        const struct tree_item *it = &texts->box.items[i];
        struct buf out;
        if (it->value->type != TREE_STRING)
            continue;
        buf_init(&out, 4 * MUTATE_OBJECT_MAX);
        base64_encode(it->value->str.bytes, it->value->str.len, &out);
        tree_set_str(a, tree_need_map(a, object, "data"), it->key, out.data == NULL ? "" : out.data);
        buf_fini(&out);
    }
    tree_remove(object, "stringData");
}

// ---- CRDs

static int check_definition(struct request *q, struct tree *object, struct response *r)
{
    struct arena *a = &q->arena;
    struct tree *spec = tree_get(object, "spec"), *names = tree_get(spec, "names");
    const char *name = tree_text(tree_path(object, "metadata", "name", NULL)),
               *group = tree_get_str(spec, "group"), *plural = tree_get_str(names, "plural"),
               *kind = tree_get_str(names, "kind");
    if (str_eq(tree_text(tree_path(spec, "conversion", "strategy", NULL)), "Webhook"))
        return failure_not_implemented(r, "conversion webhooks");
    const char *missing = group == NULL                                 ? "spec.group"
                          : plural == NULL                              ? "spec.names.plural"
                          : kind == NULL                                ? "spec.names.kind"
                          : tree_count(tree_get(spec, "versions")) == 0 ? "spec.versions"
                          : tree_get_str(spec, "scope") == NULL         ? "spec.scope"
                                                                        : NULL;
    if (missing != NULL)
        return failure_invalid(r, q->kind->group, q->kind->kind, name, missing, "FieldValueRequired",
                               "Required value");
    if (!str_eq(name, arena_printf(a, "%s.%s", plural, group)))
        return failure_invalid(
            r, q->kind->group, q->kind->kind, name, "metadata.name", "FieldValueInvalid",
            arena_printf(a, "Invalid value: \"%s\": must be spec.names.plural+\".\"+spec.group", name));
    const char *scope = tree_get_str(spec, "scope");
    const struct kind *there = kinds_find(q->server->kinds, group, plural);
    if ((!str_eq(scope, "Namespaced") && !str_eq(scope, "Cluster")) || (there != NULL && !there->custom))
        return failure_invalid(r, q->kind->group, q->kind->kind, name,
                               there != NULL ? "spec.names" : "spec.scope", "FieldValueNotSupported",
                               arena_printf(a, "Unsupported value: \"%s\"", there != NULL ? plural : scope));
    return 0;
}

static void default_definition(struct request *q, struct tree *object)
{
    struct arena *a = &q->arena;
    struct tree *spec = tree_get(object, "spec"), *names = tree_get(spec, "names");
    const char *kind = tree_get_str(names, "kind");
    if (tree_get(names, "listKind") == NULL)
        tree_set_str(a, names, "listKind", arena_printf(a, "%sList", kind));
    if (tree_get(names, "singular") == NULL) {
        char *singular = arena_strdup(a, kind);
        for (char *c = singular; *c != '\0'; c++)
            *c = *c >= 'A' && *c <= 'Z' ? (char)(*c - 'A' + 'a') : *c;
        tree_set_str(a, names, "singular", singular);
    }
    if (tree_get(spec, "conversion") == NULL)
        tree_set_str(a, tree_need_map(a, spec, "conversion"), "strategy", "None");
}

static void add_condition(struct request *q, struct tree *list, const char *type, const char *reason,
                          const char *message)
{
    struct arena *a = &q->arena;
    struct tree *c = tree_map(a);
    tree_set_str(a, c, "type", type);
    tree_set_str(a, c, "status", "True");
    tree_set_str(a, c, "lastTransitionTime", handle_time(q));
    tree_set_str(a, c, "reason", reason);
    tree_set_str(a, c, "message", message);
    tree_add(a, list, c);
}

static void accept_definition(struct request *q, struct tree *object)
{
    struct arena *a = &q->arena;
    struct tree *status = tree_map(a), *conditions = tree_list(a), *stored = tree_list(a);
    struct tree *spec = tree_get(object, "spec"), *versions = tree_get(spec, "versions");
    for (size_t i = 0; i < tree_count(versions); i++) {
        const struct tree *storage = tree_get(tree_at(versions, i), "storage");
        const char *name = tree_get_str(tree_at(versions, i), "name");
        if (storage != NULL && storage->type == TREE_BOOL && storage->flag && name != NULL)
            tree_add(a, stored, tree_str(a, name));
    }
    add_condition(q, conditions, "NamesAccepted", "NoConflicts", "no conflicts found");
    add_condition(q, conditions, "Established", "InitialNamesAccepted",
                  "the initial names have been accepted");
    tree_set(a, status, "conditions", conditions);
    tree_set(a, status, "acceptedNames", tree_copy(a, tree_get(spec, "names")));
    tree_set(a, status, "storedVersions", stored);
    tree_set(a, object, "status", status);
}

// With its definition go the objects of a custom kind.
static void remove_custom_kind(struct request *q, const struct tree *crd)
{
    struct tree *spec = tree_get(crd, "spec");
    const char *group = tree_get_str(spec, "group"),
               *plural = tree_text(tree_path(spec, "names", "plural", NULL));
    struct kind *k = kinds_find(q->server->kinds, group, plural);
    struct storage_list l;
    if (k == NULL || !k->custom)
        return;
    storage_list(k->storage, "", 0, &l);
    for (size_t i = 0; i < l.count; i++)
        mutate_remove(q, k, arena_strdup(&q->arena, l.items[i].key));
    storage_list_fini(&l);
    watch_hub_end_kind(q->server->hub, k);
    kinds_remove(q->server->kinds, k);
}

// ---- namespaces

static bool namespace_is_empty(struct request *q, const char *ns)
{
    char *prefix = arena_printf(&q->arena, "%s/", ns);
    for (struct kind *k = kinds_first(q->server->kinds); k != NULL; k = k->next) {
        struct storage_list l;
        if (!k->namespaced || !storage_list(k->storage, prefix, 0, &l))
            continue;
        size_t n = l.count;
        storage_list_fini(&l);
        if (n > 0)
            return false;
    }
    return true;
}

// The last object of a namespace that is going takes it along.
void builtin_finish_namespace(struct request *q, const char *ns)
{
    struct kind *namespaces = kinds_find(q->server->kinds, "", "namespaces");
    char *key = handle_key(&q->arena, "", ns);
    const struct storage_version *v = storage_get(namespaces->storage, key);
    if (v == NULL)
        return;
    struct tree *object = tree_parse(&q->arena, v->json, v->len, NULL);
    if (tree_path(object, "metadata", "deletionTimestamp", NULL) == NULL ||
        tree_count(tree_path(object, "metadata", "finalizers", NULL)) > 0 || !namespace_is_empty(q, ns))
        return;
    mutate_remove(q, namespaces, key);
}

// ---- hooks

int builtin_prepare_create(struct request *q, struct tree *object, struct response *r)
{
    struct arena *a = &q->arena;
    const char *name = tree_text(tree_path(object, "metadata", "name", NULL));
    if (builtin_is(q->kind, "", "Secret")) {
        encode_secret(q, object);
        if (tree_get(object, "type") == NULL)
            tree_set_str(a, object, "type", "Opaque");
    } else if (builtin_is(q->kind, "", "Namespace")) {
        struct tree *labels = tree_need_map(a, tree_get(object, "metadata"), "labels");
        tree_set_str(a, labels, "kubernetes.io/metadata.name", name);
    } else if (is_definition(q->kind)) {
        if (check_definition(q, object, r) < 0)
            return -1;
        default_definition(q, object);
    }
    return 0;
}

int builtin_prepare_update(struct request *q, const struct tree *live, struct tree *new, struct response *r)
{
    if (builtin_is(q->kind, "", "Secret")) {
        encode_secret(q, new);
    } else if (builtin_is(q->kind, "", "Namespace")) {
        tree_set(&q->arena, new, "spec", tree_get(live, "spec"));
    } else if (is_definition(q->kind)) {
        if (check_definition(q, new, r) < 0)
            return -1;
        default_definition(q, new);
    }
    return 0;
}

void builtin_fill(struct request *q, struct tree *object)
{
    struct arena *a = &q->arena;
    if (builtin_is(q->kind, "", "Namespace")) {
        struct tree *finalizers = tree_list(a);
        tree_add(a, finalizers, tree_str(a, "kubernetes"));
        tree_set(a, tree_need_map(a, object, "spec"), "finalizers", finalizers);
        tree_set_str(a, tree_need_map(a, object, "status"), "phase", "Active");
    } else if (builtin_is(q->kind, "", "Pod")) {
        tree_set_str(a, tree_need_map(a, object, "status"), "phase", "Pending");
    } else if (is_definition(q->kind)) {
        accept_definition(q, object);
    } else if (!q->kind->custom && q->version->has_status) {
        tree_need_map(a, object, "status");
    }
}

bool builtin_holds(const struct kind *k, const struct tree *object)
{
    return builtin_is(k, "", "Namespace") && tree_count(tree_path(object, "spec", "finalizers", NULL)) > 0;
}

void builtin_stored(struct request *q, struct kind *k, const struct tree *object)
{
    const char *why;
    if (is_definition(k))
        kinds_define(q->server->kinds, object, &why);
    (void)q;
}

void builtin_removed(struct request *q, struct kind *k, const struct tree *object)
{
    const char *ns = tree_text(tree_path(object, "metadata", "namespace", NULL));
    if (is_definition(k))
        remove_custom_kind(q, object);
    else if (k->namespaced && ns != NULL)
        builtin_finish_namespace(q, ns);
}
