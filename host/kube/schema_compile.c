#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/hash_table.h"
#include "base/strset.h"
#include "data/json_write.h"
#include "kube/schema_impl.h"

// Defaults of built-in types that their documents do not tell, where a list or structure is owned as a whole:
// elsewhere a field that the server fills in is not ours.
static const struct {
    const char *component, *field, *value;
} known_defaults[] = {
    {"io.k8s.api.admissionregistration.v1.MatchResources", "matchPolicy", "\"Equivalent\""},
    {"io.k8s.api.admissionregistration.v1.MatchResources", "namespaceSelector", "{}"},
    {"io.k8s.api.admissionregistration.v1.MatchResources", "objectSelector", "{}"},
    {"io.k8s.api.admissionregistration.v1.NamedRuleWithOperations", "scope", "\"*\""},
    {"io.k8s.api.admissionregistration.v1.RuleWithOperations", "scope", "\"*\""},
    {"io.k8s.api.batch.v1.PodFailurePolicyOnPodConditionsPattern", "status", "\"True\""},
    {"io.k8s.api.core.v1.EndpointPort", "protocol", "\"TCP\""},
    {"io.k8s.api.core.v1.ObjectFieldSelector", "apiVersion", "\"v1\""},
    {"io.k8s.api.core.v1.PersistentVolumeClaim", "apiVersion", "\"v1\""},
    {"io.k8s.api.core.v1.PersistentVolumeClaim", "kind", "\"PersistentVolumeClaim\""},
    {"io.k8s.api.core.v1.PersistentVolumeClaimSpec", "volumeMode", "\"Filesystem\""},
    {"io.k8s.api.core.v1.PersistentVolumeClaimStatus", "phase", "\"Pending\""},
    {"io.k8s.api.core.v1.PodCertificateProjection", "maxExpirationSeconds", "86400"},
    {"io.k8s.api.core.v1.ResourceFieldSelector", "divisor", "\"0\""},
    {"io.k8s.api.core.v1.ServiceAccountTokenProjection", "expirationSeconds", "3600"},
    {"io.k8s.api.discovery.v1.EndpointPort", "protocol", "\"TCP\""},
    {"io.k8s.api.discovery.v1.EndpointPort", "name", "\"\""},
    {"io.k8s.api.networking.v1.NetworkPolicyPort", "protocol", "\"TCP\""},
    {"io.k8s.api.rbac.v1.RoleRef", "apiGroup", "\"rbac.authorization.k8s.io\""},
    {"io.k8s.api.rbac.v1.Subject", "apiGroup", "\"rbac.authorization.k8s.io\""},
};

// Pointers whose empty value is not the same as none, and which are kept.
static const struct {
    const char *component, *field;
} kept_when_empty[] = {
    {"io.k8s.api.core.v1.PersistentVolumeClaimSpec", "storageClassName"},
    {"io.k8s.api.discovery.v1.EndpointConditions", "ready"},
    {"io.k8s.api.discovery.v1.EndpointConditions", "serving"},
    {"io.k8s.api.discovery.v1.EndpointConditions", "terminating"},
};

#define META "io.k8s.apimachinery.pkg.apis.meta.v1."
static const struct {
    const char *component;
    struct schema_node node;
} special[] = {
    {"io.k8s.apimachinery.pkg.api.resource.Quantity",
     {.type = SCHEMA_ANY, .meaning = SCHEMA_QUANTITY, .builtin = true}},
    {"io.k8s.apimachinery.pkg.util.intstr.IntOrString", {.type = SCHEMA_ANY, .builtin = true}},
    {META "Time", {.type = SCHEMA_STRING, .meaning = SCHEMA_TIME, .builtin = true}},
    {META "MicroTime", {.type = SCHEMA_STRING, .meaning = SCHEMA_MICRO_TIME, .builtin = true}},
    {META "Duration", {.type = SCHEMA_STRING, .meaning = SCHEMA_DURATION, .builtin = true}},
};

// How controller-gen writes resource.Quantity into a CRD; such a field keeps the spelling it was given.
#define QUANTITY_PATTERN                                                                                     \
    "^(\\+|-)?(([0-9]+(\\.[0-9]*)?)|(\\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\\+|-)?(([0-9]+(\\.[0-9]*)?)" \
    "|(\\.[0-9]+))))?$"

struct component {
    const char *name; // key
    const json *node;
    struct schema_node *type;
    struct component *next; // to be filled in
    UT_hash_handle hh;
};

struct text {
    const char *text; // key; in the schema's memory for names, own for defaults
    size_t index;
    UT_hash_handle hh;
};

struct leaf { // types without anything below, made once
    struct schema_node node;
    const struct schema_node *kept;
    struct leaf *next;
};

struct fallback { // of a field, until all are read
    struct schema_field *field;
    size_t index;
};

struct compiler {
    struct schema *schema;
    const json *schemas;
    struct component *components, *open;
    struct text *names, *defaults;
    struct leaf *leaves;
    struct buf default_text; // a JSON array
    struct fallback *fallbacks;
    size_t fallback_count;
};

// ---- texts

static const char *keep_name(struct compiler *c, const char *name, size_t n)
{
    struct text *t;
    HASH_FIND(hh, c->names, name, n, t);
    if (t != NULL)
        return t->text;
    char *copy = schema_alloc(c->schema, n + 1);
    memcpy(copy, name, n);
    t = xcalloc(1, sizeof(*t));
    t->text = copy;
    HASH_ADD_KEYPTR(hh, c->names, t->text, n, t);
    return copy;
}

static void set_fallback_text(struct compiler *c, struct schema_field *f, const char *text)
{
    struct text *t;
    HASH_FIND_STR(c->defaults, text, t);
    if (t == NULL) {
        t = xcalloc(1, sizeof(*t));
        t->text = xstrdup(text);
        t->index = HASH_COUNT(c->defaults);
        buf_addf(&c->default_text, "%s%s", t->index == 0 ? "" : ",", text);
        HASH_ADD_KEYPTR(hh, c->defaults, t->text, strlen(t->text), t);
    }
    c->fallbacks = xreallocarray(c->fallbacks, c->fallback_count + 1, sizeof(*c->fallbacks));
    c->fallbacks[c->fallback_count++] = (struct fallback){f, t->index};
}

static void set_fallback(struct compiler *c, struct schema_field *f, const json *value)
{
    char *text;
    if (value == NULL || json_print(value, SCHEMA_DOCUMENT_MAX, &text, NULL, NULL) < 0)
        return;
    set_fallback_text(c, f, text);
    free(text);
}

// ---- types

static const struct schema_node *type_of(struct compiler *c, const json *node, bool builtin);

static const struct schema_node *keep_leaf(struct compiler *c, struct schema_node n)
{
    for (struct leaf *l = c->leaves; l != NULL; l = l->next)
        if (l->node.type == n.type && l->node.meaning == n.meaning && l->node.builtin == n.builtin &&
            l->node.nullable == n.nullable && l->node.granular == n.granular &&
            l->node.by_type == n.by_type && l->node.items == n.items)
            return l->kept;
    struct leaf *l = xcalloc(1, sizeof(*l));
    struct schema_node *kept = schema_alloc(c->schema, sizeof(*kept));
    *kept = n;
    *l = (struct leaf){n, kept, c->leaves};
    c->leaves = l;
    return kept;
}

// `name` is the document's text.
static const struct schema_node *component_type(struct compiler *c, const char *name)
{
    struct component *k = NULL;
    for (size_t i = 0; i < sizeof(special) / sizeof(*special); i++)
        if (strcmp(special[i].component, name) == 0)
            return keep_leaf(c, special[i].node);
    HASH_FIND_STR(c->components, name, k);
    if (k != NULL)
        return k->type;
    const json *node = json_get(c->schemas, name);
    if (node == NULL)
        return NULL;
    k = xcalloc(1, sizeof(*k));
    *k = (struct component){.name = name, .node = node, .type = schema_alloc(c->schema, sizeof(*k->type))};
    k->next = c->open;
    c->open = k;
    HASH_ADD_KEYPTR(hh, c->components, k->name, strlen(k->name), k);
    return k->type;
}

static enum schema_type read_type(const json *node)
{
    static const char *const names[] = {
        [SCHEMA_OBJECT] = "object",   [SCHEMA_ARRAY] = "array",   [SCHEMA_STRING] = "string",
        [SCHEMA_INTEGER] = "integer", [SCHEMA_NUMBER] = "number", [SCHEMA_BOOLEAN] = "boolean"};
    const char *type = json_get_str(node, "type");
    for (size_t i = SCHEMA_OBJECT; i <= SCHEMA_BOOLEAN; i++)
        if (str_eq(type, names[i]))
            return (enum schema_type)i;
    return SCHEMA_ANY;
}

static enum schema_meaning read_meaning(const json *node)
{
    const char *format = json_get_str(node, "format"), *pattern = json_get_str(node, "pattern");
    if (str_eq(format, "byte"))
        return SCHEMA_BYTES;
    if (str_eq(format, "date-time") || str_eq(format, "datetime"))
        return SCHEMA_MICRO_TIME;
    if (str_eq(format, "duration"))
        return SCHEMA_DURATION;
    return str_eq(pattern, QUANTITY_PATTERN) ? SCHEMA_QUANTITY : SCHEMA_PLAIN;
}

static void read_fields(struct compiler *c, const json *properties, bool builtin, struct schema_node *n)
{
    size_t count = json_count(properties);
    if (!json_is_object(properties) || count == 0 || count > UINT16_MAX)
        return;
    struct schema_field *fields = schema_alloc(c->schema, count * sizeof(*fields));
    for (struct json_iter i = json_iter(properties); json_next(&i);)
        fields[i.index] = (struct schema_field){.name = keep_name(c, i.key, i.key_len), .fallback = i.value};
    qsort(fields, count, sizeof(*fields), schema_field_by_name);
    for (size_t k = 0; k < count; k++) {
        const json *p = fields[k].fallback; // stood there for the sorting only
        fields[k].fallback = NULL;
        fields[k].type = type_of(c, p, builtin);
        set_fallback(c, &fields[k], json_get(p, "default"));
    }
    n->fields = fields;
    n->field_count = (uint16_t)count;
}

// An object of which nothing is known but that it is one is atomic, and so is an array that says nothing.
static bool is_granular(const json *node, enum schema_type type)
{
    const char *list = json_get_str(node, "x-kubernetes-list-type");
    const char *map = json_get_str(node, "x-kubernetes-map-type");
    if (type == SCHEMA_ARRAY)
        return str_eq(list, "set") || str_eq(list, "map");
    return type == SCHEMA_OBJECT && !str_eq(map, "atomic") &&
           (json_get(node, "properties") != NULL || json_get(node, "additionalProperties") != NULL ||
            json_true(json_get(node, "x-kubernetes-preserve-unknown-fields")));
}

static bool is_by_type(const json *node)
{
    const json *keys = json_get(node, "x-kubernetes-list-map-keys");
    return str_eq(json_get_str(node, "x-kubernetes-list-type"), "map") && json_count(keys) == 1 &&
           str_eq(json_str(json_at(keys, 0)), "type");
}

// What stands in `node` itself.
static void read_node(struct compiler *c, const json *node, bool builtin, struct schema_node *n)
{
    *n = (struct schema_node){.type = (uint8_t)read_type(node),
                              .meaning = (uint8_t)read_meaning(node),
                              .builtin = builtin,
                              .nullable = json_true(json_get(node, "nullable"))};
    if (n->type == SCHEMA_ANY && json_is_object(json_get(node, "properties")))
        n->type = SCHEMA_OBJECT;
    n->granular = is_granular(node, (enum schema_type)n->type);
    n->by_type = n->type == SCHEMA_ARRAY && is_by_type(node);
    if (n->type == SCHEMA_ARRAY)
        n->items = type_of(c, json_get(node, "items"), builtin);
    if (n->type != SCHEMA_OBJECT)
        return;
    const json *other = json_get(node, "additionalProperties");
    if (json_is_object(other)) {
        struct schema_node value;
        n->items = type_of(c, other, builtin);
        if (n->items != NULL && n->items->meaning == SCHEMA_QUANTITY && n->items->builtin) {
            value = *n->items;
            value.meaning = SCHEMA_RESOURCE;
            n->items = keep_leaf(c, value);
        }
    }
    read_fields(c, json_get(node, "properties"), builtin, n);
    n->closed = n->field_count > 0 && (other == NULL || json_is_bool(other)) && !json_true(other) &&
                !json_true(json_get(node, "x-kubernetes-preserve-unknown-fields"));
}

// The component that `node` stands for, or NULL.
static const char *reference(const json *node)
{
    static const char prefix[] = "#/components/schemas/";
    const char *ref = json_get_str(node, "$ref");
    const json *all = json_get(node, "allOf");
    if (ref == NULL && json_count(all) == 1)
        ref = json_get_str(json_at(all, 0), "$ref");
    return ref != NULL && str_has_prefix(ref, prefix) ? ref + sizeof(prefix) - 1 : NULL;
}

// NULL: nothing is known of it.
static const struct schema_node *type_of(struct compiler *c, const json *node, bool builtin)
{
    struct schema_node n;
    if (!json_is_object(node))
        return NULL;
    if (reference(node) != NULL)
        return component_type(c, reference(node));
    read_node(c, node, builtin, &n);
    if (n.field_count == 0)
        return keep_leaf(c, n);
    struct schema_node *kept = schema_alloc(c->schema, sizeof(*kept));
    *kept = n;
    return kept;
}

static struct schema_field *own_field(struct schema_node *n, const char *name)
{
    for (size_t i = 0; i < n->field_count; i++)
        if (strcmp(n->fields[i].name, name) == 0)
            return (struct schema_field *)&n->fields[i];
    return NULL;
}

static void add_known(struct compiler *c, const char *component, struct schema_node *n)
{
    for (size_t i = 0; i < sizeof(known_defaults) / sizeof(*known_defaults); i++) {
        if (strcmp(known_defaults[i].component, component) != 0)
            continue;
        struct schema_field *f = own_field(n, known_defaults[i].field);
        if (f != NULL)
            set_fallback_text(c, f, known_defaults[i].value);
    }
    for (size_t i = 0; i < sizeof(kept_when_empty) / sizeof(*kept_when_empty); i++) {
        bool here = strcmp(kept_when_empty[i].component, component) == 0;
        struct schema_field *f = here ? own_field(n, kept_when_empty[i].field) : NULL;
        if (f != NULL && f->type != NULL)
            f->type = keep_leaf(c, (struct schema_node){.type = f->type->type});
    }
    struct schema_field *text =
        strcmp(component, "io.k8s.api.core.v1.Secret") == 0 ? own_field(n, "stringData") : NULL;
    if (text != NULL) {
        struct schema_node values = {.type = SCHEMA_OBJECT, .builtin = true};
        values.items = keep_leaf(
            c, (struct schema_node){.type = SCHEMA_STRING, .meaning = SCHEMA_SECRET_TEXT, .builtin = true});
        text->type = keep_leaf(c, values);
    }
}

static void fill_components(struct compiler *c)
{
    while (c->open != NULL) {
        struct component *k = c->open;
        c->open = k->next;
        read_node(c, k->node, str_has_prefix(k->name, "io.k8s."), k->type);
        add_known(c, k->name, k->type);
    }
}

// ---- a document

// The kind that a component is, if it is one of this group and version; types that all groups share carry
// many.
static const char *kind_of(const json *component, const char *api_version)
{
    const json *kinds = json_get(component, "x-kubernetes-group-version-kind"), *k = json_at(kinds, 0);
    const char *group = json_get_str(k, "group"), *version = json_get_str(k, "version"),
               *kind = json_get_str(k, "kind");
    if (json_count(kinds) != 1 || group == NULL || version == NULL || kind == NULL)
        return NULL;
    size_t n = strlen(group);
    bool same = n == 0 ? strcmp(api_version, version) == 0
                       : strncmp(api_version, group, n) == 0 && api_version[n] == '/' &&
                             strcmp(api_version + n + 1, version) == 0;
    bool list = str_has_suffix(kind, "List") && json_path(component, "properties", "items", NULL) != NULL;
    return same && !list ? kind : NULL;
}

static void read_kinds(struct compiler *c, const char *api_version)
{
    struct schema *s = c->schema;
    size_t count = 0;
    for (struct json_iter i = json_iter(c->schemas); json_next(&i);)
        count += kind_of(i.value, api_version) != NULL;
    s->kinds = schema_alloc(s, (count + 1) * sizeof(*s->kinds));
    for (struct json_iter i = json_iter(c->schemas); json_next(&i);) {
        const char *kind = kind_of(i.value, api_version);
        if (kind == NULL)
            continue;
        s->kinds[s->kind_count++] =
            (struct schema_field){.name = keep_name(c, kind, strlen(kind)), .type = component_type(c, i.key)};
    }
    qsort(s->kinds, s->kind_count, sizeof(*s->kinds), schema_field_by_name);
}

static int finish_defaults(struct compiler *c, struct err *e)
{
    struct schema *s = c->schema;
    buf_add_char(&c->default_text, ']');
    if (c->fallback_count == 0)
        return 0;
    if (c->default_text.failed)
        return err_set(e, ERR_LIMIT, "its defaults are too large");
    int r = json_parse(c->default_text.data, c->default_text.len, &s->defaults, e);
    if (r < 0)
        return r;
    s->bytes += c->default_text.len + 16 * (HASH_COUNT(c->defaults) + 1);
    const json **values = xcalloc(HASH_COUNT(c->defaults), sizeof(*values));
    for (struct json_iter i = json_iter(json_root(s->defaults)); json_next(&i);)
        values[i.index] = i.value;
    for (size_t i = 0; i < c->fallback_count; i++)
        c->fallbacks[i].field->fallback = values[c->fallbacks[i].index];
    free(values);
    return 0;
}

static void compiler_fini(struct compiler *c)
{
    struct component *k, *next_k;
    struct text *t, *next_t;
    struct leaf *l;
    HASH_ITER (hh, c->components, k, next_k) {
        HASH_DEL(c->components, k);
        free(k);
    }
    HASH_ITER (hh, c->names, t, next_t) {
        HASH_DEL(c->names, t);
        free(t);
    }
    HASH_ITER (hh, c->defaults, t, next_t) {
        HASH_DEL(c->defaults, t);
        free((char *)t->text);
        free(t);
    }
    while ((l = c->leaves) != NULL) {
        c->leaves = l->next;
        free(l);
    }
    free(c->fallbacks);
    buf_fini(&c->default_text);
}

int schema_compile(const char *text, size_t n, const char *api_version, struct schema **ret, struct err *e)
{
    struct json_doc *doc;
    if (n > SCHEMA_DOCUMENT_MAX)
        return err_set(e, ERR_LIMIT, "an OpenAPI document of %zu bytes is too large", n);
    int r = json_parse(text, n, &doc, e);
    if (r < 0)
        return r;
    struct compiler c = {.schemas = json_path(json_root(doc), "components", "schemas", NULL)};
    if (!json_is_object(c.schemas)) {
        json_doc_free(doc);
        return err_set(e, ERR_INVALID, "not an OpenAPI v3 document: components.schemas is missing");
    }
    c.schema = xcalloc(1, sizeof(*c.schema));
    atomic_init(&c.schema->refs, 1);
    buf_init(&c.default_text, SCHEMA_DOCUMENT_MAX);
    buf_add_char(&c.default_text, '[');
    read_kinds(&c, api_version);
    fill_components(&c);
    r = finish_defaults(&c, e);
    compiler_fini(&c);
    json_doc_free(doc);
    if (r < 0) {
        schema_unref(c.schema);
        return r;
    }
    *ret = c.schema;
    return 0;
}
