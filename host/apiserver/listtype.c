#include "apiserver/listtype.h"

#include <string.h>

#include "base/strset.h"

#define FIELDS(...)                                                                                          \
    (const struct listtype_field[])                                                                          \
    {                                                                                                        \
        __VA_ARGS__,                                                                                         \
        {                                                                                                    \
            NULL, NULL                                                                                       \
        }                                                                                                    \
    }
#define STRUCT(...)                                                                                          \
    {                                                                                                        \
        .kind = LISTTYPE_MAP, .fields = FIELDS(__VA_ARGS__), .other = &plain, .other_named = true,           \
        .builtin = true                                                                                      \
    }
#define KEYED(item, ...)                                                                                     \
    {                                                                                                        \
        .kind = LISTTYPE_KEYED, .other = (item), .keys = {__VA_ARGS__}, .shape = 'l', .builtin = true        \
    }

const struct listtype listtype_any = {.kind = LISTTYPE_MAP, .other = &listtype_any};

// A struct without special fields, all the way down.
static const struct listtype plain = {
    .kind = LISTTYPE_MAP, .other = &plain, .other_named = true, .builtin = true};
static const struct listtype text = {.kind = LISTTYPE_ATOMIC, .shape = 's', .builtin = true};
static const struct listtype quantity = {.kind = LISTTYPE_ATOMIC, .builtin = true};
static const struct listtype atomic = {.kind = LISTTYPE_ATOMIC, .builtin = true};
static const struct listtype text_map = {.kind = LISTTYPE_MAP, .other = &text, .shape = 'm', .builtin = true};
static const struct listtype quantity_map = {
    .kind = LISTTYPE_MAP, .other = &quantity, .shape = 'm', .builtin = true};
static const struct listtype text_set = {.kind = LISTTYPE_SET, .other = &text, .shape = 'l', .builtin = true};

static const struct listtype by_uid = KEYED(&atomic, "uid");
static const struct listtype by_name = KEYED(&plain, "name");
static const struct listtype refs_by_name = KEYED(&atomic, "name");
static const struct listtype by_type = KEYED(&plain, "type");
static const struct listtype by_ip = KEYED(&plain, "ip");

static const struct listtype metadata = STRUCT({"annotations", &text_map}, {"labels", &text_map},
                                               {"finalizers", &text_set}, {"ownerReferences", &by_uid});

static const struct listtype env_source =
    STRUCT({"configMapKeyRef", &atomic}, {"fieldRef", &atomic}, {"fileKeyRef", &atomic},
           {"resourceFieldRef", &atomic}, {"secretKeyRef", &atomic});
static const struct listtype env_var = STRUCT({"valueFrom", &env_source});
static const struct listtype env = KEYED(&env_var, "name");
static const struct listtype container_ports = {.kind = LISTTYPE_KEYED,
                                                .other = &plain,
                                                .keys = {"containerPort", "protocol"},
                                                .key_defaults = {"0", "\"TCP\""},
                                                .shape = 'l',
                                                .builtin = true};
static const struct listtype mounts = KEYED(&plain, "mountPath");
static const struct listtype devices = KEYED(&plain, "devicePath");
static const struct listtype resources =
    STRUCT({"claims", &by_name}, {"limits", &quantity_map}, {"requests", &quantity_map});
static const struct listtype container =
    STRUCT({"env", &env}, {"ports", &container_ports}, {"resources", &resources}, {"volumeDevices", &devices},
           {"volumeMounts", &mounts});
static const struct listtype containers = KEYED(&container, "name");

static const struct listtype secret_ref = STRUCT({"secretRef", &atomic});
static const struct listtype csi = STRUCT({"volumeAttributes", &text_map}, {"nodePublishSecretRef", &atomic});
static const struct listtype flex = STRUCT({"options", &text_map}, {"secretRef", &atomic});
static const struct listtype claim_spec =
    STRUCT({"dataSource", &atomic}, {"resources", &resources}, {"selector", &atomic});
static const struct listtype claim_template = STRUCT({"metadata", &metadata}, {"spec", &claim_spec});
static const struct listtype ephemeral = STRUCT({"volumeClaimTemplate", &claim_template});
static const struct listtype volume =
    STRUCT({"cephfs", &secret_ref}, {"cinder", &secret_ref}, {"csi", &csi}, {"ephemeral", &ephemeral},
           {"flexVolume", &flex}, {"iscsi", &secret_ref}, {"rbd", &secret_ref}, {"scaleIO", &secret_ref},
           {"storageos", &secret_ref});
static const struct listtype volumes = KEYED(&volume, "name");
static const struct listtype node_affinity =
    STRUCT({"requiredDuringSchedulingIgnoredDuringExecution", &atomic});
static const struct listtype affinity = STRUCT({"nodeAffinity", &node_affinity});
static const struct listtype spread = STRUCT({"labelSelector", &atomic});
static const struct listtype spreads = KEYED(&spread, "topologyKey", "whenUnsatisfiable");

static const struct listtype pod_spec =
    STRUCT({"affinity", &affinity}, {"containers", &containers}, {"ephemeralContainers", &containers},
           {"hostAliases", &by_ip}, {"imagePullSecrets", &refs_by_name}, {"initContainers", &containers},
           {"nodeSelector", &atomic}, {"overhead", &quantity_map}, {"resourceClaims", &by_name},
           {"resources", &resources}, {"schedulingGates", &by_name}, {"topologySpreadConstraints", &spreads},
           {"volumes", &volumes});
static const struct listtype pod_status =
    STRUCT({"allocatedResources", &quantity_map}, {"conditions", &by_type}, {"podIPs", &by_ip},
           {"resourceClaimStatuses", &by_name}, {"resources", &resources});
static const struct listtype pod_template = STRUCT({"metadata", &metadata}, {"spec", &pod_spec});
static const struct listtype workload_spec = STRUCT({"selector", &atomic}, {"template", &pod_template});
static const struct listtype with_conditions = STRUCT({"conditions", &by_type});
static const struct listtype service_ports = {.kind = LISTTYPE_KEYED,
                                              .other = &plain,
                                              .keys = {"port", "protocol"},
                                              .key_defaults = {"0", "\"TCP\""},
                                              .shape = 'l',
                                              .builtin = true};
static const struct listtype service_spec = STRUCT({"ports", &service_ports}, {"selector", &atomic});
static const struct listtype object_refs = KEYED(&atomic, "name");

const struct listtype listtype_builtin = STRUCT({"metadata", &metadata});
static const struct listtype config_map =
    STRUCT({"metadata", &metadata}, {"data", &text_map}, {"binaryData", &text_map});
static const struct listtype secret =
    STRUCT({"metadata", &metadata}, {"data", &text_map}, {"stringData", &text_map});
static const struct listtype service =
    STRUCT({"metadata", &metadata}, {"spec", &service_spec}, {"status", &with_conditions});
static const struct listtype pod =
    STRUCT({"metadata", &metadata}, {"spec", &pod_spec}, {"status", &pod_status});
static const struct listtype namespace_ = STRUCT({"metadata", &metadata}, {"status", &with_conditions});
static const struct listtype account =
    STRUCT({"metadata", &metadata}, {"imagePullSecrets", &refs_by_name}, {"secrets", &object_refs});
static const struct listtype workload =
    STRUCT({"metadata", &metadata}, {"spec", &workload_spec}, {"status", &with_conditions});
static const struct listtype event = STRUCT({"metadata", &metadata}, {"involvedObject", &atomic},
                                            {"regarding", &atomic}, {"related", &atomic});

const struct listtype *listtype_of_builtin(const char *group, const char *kind)
{
    static const struct {
        const char *group, *kind;
        const struct listtype *type;
    } table[] = {
        {"", "ConfigMap", &config_map},
        {"", "Secret", &secret},
        {"", "Service", &service},
        {"", "Pod", &pod},
        {"", "Namespace", &namespace_},
        {"", "ServiceAccount", &account},
        {"", "Event", &event},
        {"apps", "Deployment", &workload},
        {"apps", "ReplicaSet", &workload},
        {"events.k8s.io", "Event", &event},
        {"apiextensions.k8s.io", "CustomResourceDefinition", &namespace_},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++) {
        if (str_eq(table[i].group, group) && str_eq(table[i].kind, kind))
            return table[i].type;
    }
    return &listtype_builtin;
}

const struct listtype *listtype_member(const struct listtype *t, const char *key, bool *ret_named)
{
    bool named = t->other_named;
    const struct listtype *type = t->other == NULL ? &atomic : t->other;
    for (const struct listtype_field *f = t->fields; f != NULL && f->name != NULL; f++) {
        if (strcmp(f->name, key) == 0) {
            named = true;
            type = f->type;
            break;
        }
    }
    if (ret_named != NULL)
        *ret_named = named;
    return type;
}

static const struct listtype *of_schema(struct arena *a, const struct tree *schema);

static const struct listtype *of_list(struct arena *a, const struct tree *schema, struct listtype *t)
{
    const char *how = tree_get_str(schema, "x-kubernetes-list-type");
    const struct tree *items = tree_get(schema, "items");
    t->shape = 'l';
    t->kind = str_eq(how, "set") ? LISTTYPE_SET : LISTTYPE_ATOMIC;
    t->other = of_schema(a, items);
    const struct tree *keys = tree_get(schema, "x-kubernetes-list-map-keys");
    if (!str_eq(how, "map") || tree_count(keys) == 0 || tree_count(keys) > LISTTYPE_KEYS_MAX)
        return t;
    t->kind = LISTTYPE_KEYED;
    size_t n = 0;
    for (size_t i = 0; i < tree_count(keys); i++) { // few: inserted in order
        const char *key = tree_text(tree_at(keys, i));
        if (key == NULL)
            continue;
        size_t at = n++;
        for (; at > 0 && strcmp(t->keys[at - 1], key) > 0; at--)
            t->keys[at] = t->keys[at - 1];
        t->keys[at] = arena_strdup(a, key);
    }
    for (size_t i = 0; i < n; i++) {
        const struct tree *value = tree_path(items, "properties", t->keys[i], "default", NULL);
        t->key_defaults[i] = value == NULL ? NULL : tree_print(a, value);
    }
    return t;
}

static const struct listtype *of_map(struct arena *a, const struct tree *schema, struct listtype *t)
{
    const struct tree *properties = tree_get(schema, "properties"),
                      *more = tree_get(schema, "additionalProperties");
    size_t n = tree_count(properties);
    bool embedded = tree_get(schema, "x-kubernetes-embedded-resource") != NULL;
    struct listtype_field *fields = arena_zalloc(a, (n + 4) * sizeof(*fields));
    for (size_t i = 0; i < n; i++) {
        fields[i].name = arena_strdup(a, properties->box.items[i].key);
        fields[i].type = of_schema(a, properties->box.items[i].value);
    }
    if (embedded) {
        fields[n++] = (struct listtype_field){"apiVersion", &atomic};
        fields[n++] = (struct listtype_field){"kind", &atomic};
        fields[n++] = (struct listtype_field){"metadata", &metadata};
    }
    t->kind = LISTTYPE_MAP;
    t->shape = 'm';
    t->fields = fields;
    t->other = tree_is_map(more) ? of_schema(a, more) : &listtype_any;
    return t;
}

// As its messages call it; NULL: anything may stand there.
static const char *type_name(struct arena *a, const struct tree *schema)
{
    const struct tree *either = tree_get(schema, "x-kubernetes-int-or-string");
    if (either != NULL && either->type == TREE_BOOL && either->flag)
        return "integer,string";
    const char *type = tree_get_str(schema, "type");
    return type == NULL ? NULL : arena_strdup(a, type);
}

static const struct listtype *of_schema(struct arena *a, const struct tree *schema)
{
    struct listtype *t = arena_zalloc(a, sizeof(*t));
    const char *type = tree_get_str(schema, "type");
    const struct tree *nullable = tree_get(schema, "nullable"), *value = tree_get(schema, "default");
    t->nullable = nullable != NULL && nullable->type == TREE_BOOL && nullable->flag;
    t->type_name = type_name(a, schema);
    t->default_json = value == NULL ? NULL : tree_print(a, value);
    if (str_eq(type, "array"))
        return of_list(a, schema, t);
    if (str_eq(type, "object") || tree_get(schema, "properties") != NULL) {
        of_map(a, schema, t);
        if (str_eq(tree_get_str(schema, "x-kubernetes-map-type"), "atomic"))
            t->kind = LISTTYPE_ATOMIC;
        return t;
    }
    if (type == NULL && tree_get(schema, "x-kubernetes-preserve-unknown-fields") != NULL)
        return &listtype_any;
    t->kind = LISTTYPE_ATOMIC;
    t->shape = str_eq(type, "string") ? 's' : 0;
    return t;
}

const struct listtype *listtype_of_schema(struct arena *a, const struct tree *schema)
{
    struct listtype *t = arena_zalloc(a, sizeof(*t));
    of_map(a, schema, t);
    // The object's own metadata is typed whatever the schema says, and apiVersion and kind are fields.
    size_t n = 0;
    while (t->fields[n].name != NULL)
        n++;
    struct listtype_field *fields = arena_zalloc(a, (n + 4) * sizeof(*fields));
    size_t out = 0;
    fields[out++] = (struct listtype_field){"apiVersion", &atomic};
    fields[out++] = (struct listtype_field){"kind", &atomic};
    fields[out++] = (struct listtype_field){"metadata", &metadata};
    for (size_t i = 0; i < n; i++) {
        const char *name = t->fields[i].name;
        if (strcmp(name, "apiVersion") != 0 && strcmp(name, "kind") != 0 && strcmp(name, "metadata") != 0)
            fields[out++] = t->fields[i];
    }
    t->fields = fields;
    return t;
}
