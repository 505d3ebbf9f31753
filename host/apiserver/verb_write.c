// POST, PUT and PATCH.
#include <stdlib.h>
#include <string.h>

#include "apiserver/builtin.h"
#include "apiserver/impl.h"
#include "apiserver/mutate.h"
#include "apiserver/patch_body.h"
#include "apiserver/typed.h"
#include "base/strset.h"
#include "data/yaml.h"

static const char *version_only(const struct request *q)
{
    return q->version->name;
}

// The body's apiVersion and kind are those of the URL.
static int check_type(struct request *q, const struct tree *object, struct response *r)
{
    const char *api_version = tree_get_str(object, "apiVersion"), *kind = tree_get_str(object, "kind");
    if (kind == NULL || kind[0] == '\0')
        return failure_bad_request(
            r,
            "the object provided is unrecognized (must be of type %s): Object 'Kind' is missing in "
            "'%.*s'",
            q->kind->kind, q->body_len > 200 ? 200 : (int)q->body_len, q->body);
    if (api_version == NULL)
        api_version = "";
    if (strcmp(api_version, q->version->api_version) != 0) {
        if (q->kind->custom)
            return failure_bad_request(
                r, "the API version in the data (%s) does not match the expected API version (%s)",
                api_version, q->version->api_version);
        return failure_bad_request(
            r,
            "%s in version \"%s\" cannot be handled as a %s: no kind \"%s\" is registered for "
            "version \"%s\"",
            kind, api_version, q->kind->kind, kind, api_version);
    }
    if (strcmp(kind, q->kind->kind) == 0)
        return 0;
    const char *name = tree_text(tree_path(object, "metadata", "name", NULL));
    if (q->kind->custom)
        return failure_invalid(
            r, q->kind->group, kind, name == NULL ? "" : name, "kind", "FieldValueInvalid",
            arena_printf(&q->arena, "Invalid value: \"%s\": must be %s", kind, q->kind->kind));
    return failure_bad_request(r, "%s in version \"%s\" cannot be handled as a %s", kind, version_only(q),
                               q->kind->kind);
}

static int check_address(struct request *q, const struct tree *object, bool name_needed, struct response *r)
{
    const struct tree *metadata = tree_get(object, "metadata");
    const char *name = tree_get_str(metadata, "name"), *ns = tree_get_str(metadata, "namespace");
    if (ns != NULL && ns[0] != '\0' && strcmp(ns, q->at.ns) != 0)
        return failure_bad_request(
            r, "the namespace of the provided object does not match the namespace sent on the request");
    if (q->at.name == NULL || (!name_needed && (name == NULL || name[0] == '\0')))
        return 0;
    if (!str_eq(name, q->at.name))
        return failure_bad_request(r, "the name of the object (%s) does not match the name on the URL (%s)",
                                   name == NULL ? "" : name, q->at.name);
    return 0;
}

// An object as POST and PUT send it; NULL with a failure in r.
static struct tree *read_object(struct request *q, struct response *r)
{
    struct err e;
    struct tree *t = tree_parse(&q->arena, q->body, q->body_len, &e);
    if (t == NULL) {
        failure_bad_request(
            r,
            "the object provided is unrecognized (must be of type %s): couldn't get version/kind; json "
            "parse error: %s",
            q->kind->kind, e.text);
        return NULL;
    }
    if (!tree_is_map(t)) {
        failure_bad_request(r,
                            "the object provided is unrecognized (must be of type %s): it is no JSON object",
                            q->kind->kind);
        return NULL;
    }
    const struct tree *metadata = tree_get(t, "metadata");
    if (!tree_is_null(metadata) && !tree_is_map(metadata)) {
        failure_bad_request(r, "%s in version \"%s\" cannot be handled as a %s: metadata is no JSON object",
                            q->kind->kind, version_only(q), q->kind->kind);
        return NULL;
    }
    return check_type(q, t, r) < 0 || check_address(q, t, true, r) < 0 ? NULL : t;
}

void verb_create(struct request *q, struct response *r)
{
    struct tree *object = read_object(q, r);
    if (object != NULL)
        mutate_create(q, object, NULL, r);
}

static const struct storage_version *find_object(struct request *q)
{
    return storage_get(q->kind->storage, handle_key(&q->arena, q->at.ns, q->at.name));
}

void verb_update(struct request *q, struct response *r)
{
    struct tree *object = read_object(q, r);
    if (object == NULL)
        return;
    const struct storage_version *old = find_object(q);
    if (old == NULL)
        failure_not_found(r, q->kind, q->at.name);
    else
        mutate_update(q, old, object, MUTATE_PUT, NULL, r);
}

// ---- merge patch, JSON patch

static int run_patch(struct request *q, struct tree **object, const struct tree *patch, bool merge,
                     struct response *r)
{
    struct err e;
    if (merge && !tree_is_map(patch))
        return failure_bad_request(r, "error decoding patch: a merge patch is a JSON object");
    if (merge) {
        *object = patch_body_merge(&q->arena, *object, patch);
        return 0;
    }
    switch (patch_body_json(&q->arena, object, patch, &e)) {
    case 0:
        return 0;
    case -ERR_BAD_REQUEST:
        return failure_bad_request(r, "%s", e.text);
    case -ERR_TOO_LARGE:
        return failure_plain(r, 413, "RequestEntityTooLarge", e.text);
    default:
        return failure_write(
            r, &(struct failure){.code = 422,
                                 .reason = "Invalid",
                                 .message = "the server rejected our request due to an error in our request",
                                 .has_details = true});
    }
}

static void patch_object(struct request *q, bool merge, struct response *r)
{
    struct err e;
    const struct storage_version *old = find_object(q);
    if (route_param(&q->route, "force") != NULL) {
        failure_invalid(r, "meta.k8s.io", "PatchOptions", "", "force", "FieldValueForbidden",
                        "Forbidden: may not be specified for non-apply patch");
        return;
    }
    if (old == NULL) {
        failure_not_found(r, q->kind, q->at.name);
        return;
    }
    struct tree *patch = tree_parse(&q->arena, q->body, q->body_len, &e), *object = mutate_load(q, old);
    if (patch == NULL) {
        failure_bad_request(r, "error decoding patch: %s", e.text);
        return;
    }
    if (run_patch(q, &object, patch, merge, r) < 0)
        return;
    if (!tree_is_map(object) || !tree_is_map(tree_get(object, "metadata")))
        failure_bad_request(r, "the patched object has no metadata");
    else if (check_address(q, object, true, r) == 0)
        mutate_update(q, old, object, MUTATE_PATCH, NULL, r);
}

// ---- server-side apply

struct first_document {
    struct request *request;
    struct tree *tree;
};

static int take_first(void *ud, const char *text, size_t len, size_t line, struct err *e)
{
    struct first_document *d = ud;
    (void)line;
    d->tree = tree_parse(&d->request->arena, text, len, e);
    return d->tree == NULL ? -ERR_PARSE : 1;
}

// The real server's YAML reader takes less than JSON allows: no escaped slash, no half of a surrogate pair,
// no control characters as they are. Our reader takes JSON for JSON; so what the other would say, or NULL.
static const char *escape_fault(const char *after)
{
    if (after[0] == '/')
        return "found unknown escape character";
    if (after[0] == 'u' && (after[1] == 'd' || after[1] == 'D') && strchr("89abABcdefCDEF", after[2]) != NULL)
        return "found invalid Unicode character escape code";
    return NULL;
}

static bool is_control(const unsigned char *at, const unsigned char *end)
{
    bool c1 = end - at > 1 && at[0] == 0xc2 && at[1] >= 0x80 && at[1] <= 0x9f && at[1] != 0x85;
    bool non_character = end - at > 2 && at[0] == 0xef && at[1] == 0xbf && at[2] >= 0xbe;
    return at[0] == 0x7f || c1 || non_character;
}

static const char *yaml_fault(const char *text, size_t n)
{
    const char *fault = NULL, *end = text + n;
    for (const char *at = text; n > 0 && text[0] == '{' && at < end && fault == NULL; at++) {
        if (is_control((const unsigned char *)at, (const unsigned char *)end))
            fault = "control characters are not allowed";
        else if (*at == '\\' && end - at > 3)
            fault = escape_fault(++at);
    }
    return fault;
}

// U+0085 as it is ends a line there, which is read as a blank.
static const char *fold_lines(struct arena *a, const char *text, size_t *n)
{
    static const char next_line[] = "\302\205";
    if (*n == 0 || text[0] != '{' || memmem(text, *n, next_line, 2) == NULL)
        return text;
    char *out = arena_zalloc(a, *n + 1);
    size_t length = 0;
    for (size_t i = 0; i < *n; i++) {
        bool ends = i + 1 < *n && memcmp(text + i, next_line, 2) == 0;
        out[length++] = ends ? ' ' : text[i];
        i += ends;
    }
    *n = length;
    return out;
}

static struct tree *read_applied(struct request *q, struct response *r)
{
    struct err e = {0};
    struct first_document d = {q, NULL};
    const char *fault = yaml_fault(q->body, q->body_len);
    if (fault != NULL) {
        failure_bad_request(r, "error decoding YAML: error converting YAML to JSON: yaml: %s", fault);
        return NULL;
    }
    size_t n = q->body_len;
    const char *body = fold_lines(&q->arena, q->body, &n);
    int done = yaml_to_json(body, n, take_first, &d, &e);
    if (done < 0) {
        failure_bad_request(r, "error decoding YAML: %s", e.text);
        return NULL;
    }
    struct tree *t = d.tree == NULL ? tree_map(&q->arena) : d.tree;
    const struct tree *metadata = tree_get(t, "metadata");
    if (!tree_is_map(t) || (!tree_is_null(metadata) && !tree_is_map(metadata))) {
        failure_bad_request(r, "error decoding YAML: the body is no object with metadata");
        return NULL;
    }
    return t;
}

static int check_applied(struct request *q, const struct tree *patch, bool exists, struct response *r)
{
    const char *api_version = tree_get_str(patch, "apiVersion"), *kind = tree_get_str(patch, "kind"),
               *uid = tree_text(tree_path(patch, "metadata", "uid", NULL));
    if (!str_eq(api_version, q->version->api_version) || !str_eq(kind, q->kind->kind))
        return failure_bad_request(r, "invalid object type: %s%s, Kind=%s",
                                   api_version != NULL && strchr(api_version, '/') == NULL ? "/" : "",
                                   api_version == NULL ? "/" : api_version, kind == NULL ? "" : kind);
    if (check_address(q, patch, false, r) < 0)
        return -1;
    if (!tree_is_null(tree_path(patch, "metadata", "managedFields", NULL)))
        return failure_bad_request(r, "metadata.managedFields must be nil");
    const char *fault = typed_check(&q->arena, q->version->type, patch);
    if (fault != NULL) {
        const char *ns = tree_text(tree_path(patch, "metadata", "namespace", NULL)),
                   *name = tree_text(tree_path(patch, "metadata", "name", NULL));
        return failure_plain(r, 500, NULL,
                             arena_printf(&q->arena,
                                          "failed to create typed patch object (%s/%s; %s%s, Kind=%s): %s",
                                          ns == NULL ? "" : ns, name == NULL ? "" : name,
                                          q->kind->group[0] == '\0' ? "/" : "", api_version, kind, fault));
    }
    if (!exists && uid != NULL && uid[0] != '\0')
        return failure_conflict(
            r, q->kind, q->at.name,
            arena_printf(&q->arena,
                         "uid mismatch: the provided object specified uid %s, and no existing object "
                         "was found",
                         uid));
    return 0;
}

// What this endpoint does not write is not applied and not owned either.
static struct tree *own_half(struct request *q, struct tree *patch)
{
    struct arena *a = &q->arena;
    struct tree *out = tree_map(a);
    bool status = q->at.subresource != NULL;
    for (size_t i = 0; i < tree_count(patch); i++) {
        const struct tree_item *it = &patch->box.items[i];
        bool identity = strcmp(it->key, "apiVersion") == 0 || strcmp(it->key, "kind") == 0,
             is_status = strcmp(it->key, "status") == 0;
        if (identity || (status ? is_status : !is_status || !q->version->has_status))
            tree_set(a, out, it->key, it->value);
    }
    struct tree *from = tree_get(patch, "metadata"), *metadata = tree_need_map(a, out, "metadata");
    tree_set_str(a, metadata, "name", q->at.name);
    if (q->kind->namespaced)
        tree_set_str(a, metadata, "namespace", q->at.ns);
    if (status) {
        tree_set(a, metadata, "uid", tree_get(from, "uid"));
        tree_set(a, metadata, "resourceVersion", tree_get(from, "resourceVersion"));
    }
    if (tree_is_null(tree_get(metadata, "managedFields")))
        tree_remove(metadata, "managedFields");
    return out;
}

static struct tree *blank_object(struct request *q)
{
    struct tree *t = tree_map(&q->arena);
    tree_set_str(&q->arena, t, "apiVersion", q->version->api_version);
    tree_set_str(&q->arena, t, "kind", q->kind->kind);
    return t;
}

static void apply_object(struct request *q, struct response *r)
{
    const char *manager = route_param(&q->route, "fieldManager");
    if (manager == NULL || manager[0] == '\0') {
        failure_invalid(r, "meta.k8s.io", "PatchOptions", "", "fieldManager", "FieldValueRequired",
                        "Required value: is required for apply patch");
        return;
    }
    const struct storage_version *old = find_object(q);
    if (old == NULL && q->at.subresource != NULL) {
        failure_not_found(r, q->kind, q->at.name);
        return;
    }
    struct tree *patch = read_applied(q, r);
    if (patch == NULL || check_applied(q, patch, old != NULL, r) < 0)
        return;
    struct tree *live = old == NULL ? blank_object(q) : mutate_load(q, old), *merged;
    struct managed_fields m;
    struct managed_conflicts conflicts = {0};
    managed_fields_read(&q->arena, mutate_take_managed(live), &m);
    struct managed_writer w = mutate_writer(q);
    if (!managed_fields_apply(&w, live, own_half(q, patch), old != NULL, &m, &merged, &conflicts)) {
        failure_apply_conflict(r, &conflicts);
        return;
    }
    merged = tree_copy(&q->arena, merged);
    if (old == NULL)
        mutate_create(q, merged, &m, r);
    else
        mutate_update(q, old, merged, MUTATE_APPLY, &m, r);
}

static bool is_type(const char *content_type, const char *wanted)
{
    size_t n = strlen(wanted);
    return content_type != NULL && strncmp(content_type, wanted, n) == 0 &&
           (content_type[n] == '\0' || content_type[n] == ';' || content_type[n] == ' ');
}

void verb_patch(struct request *q, struct response *r)
{
    const char *type = q->content_type;
    if (is_type(type, "application/apply-patch+yaml") || is_type(type, "application/apply-patch+json"))
        apply_object(q, r);
    else if (is_type(type, "application/merge-patch+json"))
        patch_object(q, true, r);
    else if (is_type(type, "application/json-patch+json"))
        patch_object(q, false, r);
    else if (is_type(type, "application/strategic-merge-patch+json") && !q->kind->custom)
        failure_not_implemented(r, "strategic merge patch");
    else
        failure_write(r, &(struct failure){.code = 415,
                                           .reason = "UnsupportedMediaType",
                                           .message = "415: Unsupported Media Type",
                                           .has_details = true});
}
