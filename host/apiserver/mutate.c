#include "apiserver/mutate.h"

#include <stdlib.h>
#include <string.h>

#include "apiserver/builtin.h"
#include "apiserver/names.h"
#include "apiserver/nulls.h"
#include "apiserver/typed.h"
#include "apiserver/watch_hub.h"
#include "base/alloc.h"
#include "base/strset.h"

struct tree *mutate_load(struct request *q, const struct storage_version *v)
{
    struct tree *t = tree_parse(&q->arena, v->json, v->len, NULL);
    tree_set_str(&q->arena, t, "apiVersion", q->version->api_version);
    tree_set_str(&q->arena, t, "kind", q->kind->kind);
    return t;
}

struct managed_writer mutate_writer(struct request *q)
{
    const char *manager = route_param(&q->route, "fieldManager");
    if (manager == NULL || manager[0] == '\0')
        manager = arena_strndup(&q->arena, q->user, strcspn(q->user, "/"));
    return (struct managed_writer){
        .arena = &q->arena,
        .type = q->version->type,
        .manager = manager,
        .api_version = q->version->api_version,
        .subresource = q->at.subresource == NULL ? "" : q->at.subresource,
        .time = handle_time(q),
        .force = route_flag(&q->route, "force"),
    };
}

struct tree *mutate_take_managed(struct tree *object)
{
    struct tree *metadata = tree_get(object, "metadata"), *list = tree_get(metadata, "managedFields");
    tree_remove(metadata, "managedFields");
    return list;
}

// ---- storing

static char *print_stored(struct request *q, const struct tree *object, uint64_t rv, size_t *ret_len)
{
    struct arena *a = &q->arena;
    struct tree stored = *object;
    struct tree *metadata = tree_copy(a, tree_get(object, "metadata"));
    stored.box.items = xcalloc(stored.box.count + 1, sizeof(*stored.box.items));
    size_t n = 0;
    tree_set_str(a, metadata, "resourceVersion", arena_printf(a, "%llu", (unsigned long long)rv));
    for (size_t i = 0; i < object->box.count; i++) {
        struct tree_item it = object->box.items[i];
        if (strcmp(it.key, "apiVersion") == 0 || strcmp(it.key, "kind") == 0)
            continue;
        if (strcmp(it.key, "metadata") == 0)
            it.value = metadata;
        stored.box.items[n++] = it;
    }
    stored.box.count = n;
    struct buf out;
    struct json_writer w;
    buf_init(&out, 64 * 1024 * 1024);
    jw_init(&w, &out);
    tree_write(&w, &stored);
    free(stored.box.items);
    if (out.failed || w.failed) {
        buf_fini(&out);
        return NULL;
    }
    return buf_take(&out, ret_len);
}

// A patch can nest a value deeper than any reader takes.
static bool readable(const char *text, size_t len)
{
    struct json_doc *doc;
    if (json_parse(text, len, &doc, NULL) < 0)
        return false;
    json_doc_free(doc);
    return true;
}

const struct storage_version *mutate_store(struct request *q, struct kind *k, const char *key,
                                           struct tree *object, struct response *r)
{
    struct apiserver *s = q->server;
    size_t len = 0;
    char *text = print_stored(q, object, s->resource_version + 1, &len);
    if (text == NULL || len > MUTATE_OBJECT_MAX) {
        free(text);
        failure_plain(r, 500, NULL, "etcdserver: request is too large");
        return NULL;
    }
    if (!readable(text, len)) {
        free(text);
        failure_bad_request(r, "the object nests too deep");
        return NULL;
    }
    struct storage_version *v = storage_version_new(++s->resource_version, text, len);
    const struct storage_event *ev = storage_put(k->storage, key, v);
    watch_hub_publish(s->hub, k, ev);
    builtin_stored(q, k, object);
    return v;
}

void mutate_remove(struct request *q, struct kind *k, const char *key)
{
    struct apiserver *s = q->server;
    struct storage_version *v = storage_get(k->storage, key);
    struct tree *last = tree_parse(&q->arena, v->json, v->len, NULL);
    size_t len = 0;
    char *text = print_stored(q, last, ++s->resource_version, &len);
    const struct storage_event *ev =
        storage_remove(k->storage, key, storage_version_new(s->resource_version, text, len));
    watch_hub_publish(s->hub, k, ev);
    builtin_removed(q, k, last);
}

static void answer_version(struct request *q, int status, const struct storage_version *v, struct response *r)
{
    if (v == NULL)
        return;
    r->status = status;
    handle_write_object(&r->body, q->kind, q->version, v);
}

static int refuse_null(struct request *q, const struct tree *object, const struct nulls_fault *fault,
                       struct response *r)
{
    // What is written through /status is checked as a value of its own.
    bool status = q->at.subresource != NULL && str_has_prefix(fault->path, "status.");
    const char *in_body = status ? fault->path + strlen("status.") : fault->path;
    return failure_invalid(
        r, q->kind->group, q->kind->kind, tree_get_str(tree_get(object, "metadata"), "name"), fault->path,
        "FieldValueTypeInvalid",
        arena_printf(&q->arena, "Invalid value: \"null\": %s in body must be of type %s: \"null\"", in_body,
                     fault->type));
}

// Metadata is typed in every kind.
static int normalize(struct request *q, struct tree *object, bool applied, struct response *r)
{
    const struct listtype *type = q->version->type;
    typed_normalize(&q->arena, type, object);
    if (!q->kind->custom)
        return 0;
    typed_normalize(&q->arena, listtype_member(type, "metadata", NULL), tree_get(object, "metadata"));
    nulls_settle(&q->arena, type, object, !applied);
    const struct nulls_fault *fault = nulls_find(&q->arena, type, object);
    return fault == NULL ? 0 : refuse_null(q, object, fault, r);
}

// ---- create

static int check_namespace(struct request *q, const char *name, struct response *r)
{
    if (!q->kind->namespaced)
        return 0;
    struct kind *namespaces = kinds_find(q->server->kinds, "", "namespaces");
    const struct storage_version *v = storage_get(namespaces->storage, handle_key(&q->arena, "", q->at.ns));
    if (v == NULL)
        return failure_not_found(r, namespaces, q->at.ns);
    struct tree *ns = tree_parse(&q->arena, v->json, v->len, NULL);
    if (tree_path(ns, "metadata", "deletionTimestamp", NULL) == NULL)
        return 0;
    struct failure_cause cause = {"NamespaceTerminating",
                                  arena_printf(&q->arena, "namespace %s is being terminated", q->at.ns),
                                  "metadata.namespace"};
    return failure_write(
        r, &(struct failure){
               .code = 403,
               .reason = "Forbidden",
               .message = arena_printf(&q->arena,
                                       "%s \"%s\" is forbidden: unable to create new content in namespace "
                                       "%s because it is being terminated",
                                       q->kind->resource, name, q->at.ns),
               .has_details = true,
               .name = name,
               .group = q->kind->group,
               .kind = q->kind->plural,
               .causes = &cause,
               .cause_count = 1,
           });
}

static int check_name(struct request *q, struct tree *metadata, struct response *r)
{
    const char *name = tree_get_str(metadata, "name"), *prefix = tree_get_str(metadata, "generateName");
    bool named = name != NULL && name[0] != '\0';
    if (!named && prefix != NULL && prefix[0] != '\0') {
        name = names_generate(&q->arena, q->server->options.random, prefix);
        tree_set_str(&q->arena, metadata, "name", name);
    } else if (!named) {
        return failure_invalid(r, q->kind->group, q->kind->kind, "", "metadata.name", "FieldValueRequired",
                               "Required value: name or generateName is required");
    }
    const char *why = names_check(&q->arena, name, q->kind->service_names);
    if (why == NULL)
        return 0;
    return failure_invalid(r, q->kind->group, q->kind->kind, name, "metadata.name", "FieldValueInvalid",
                           arena_printf(&q->arena, "Invalid value: %s: %s",
                                        tree_print(&q->arena, tree_str(&q->arena, name)), why));
}

static char *new_uid(struct request *q)
{
    struct random *rnd = q->server->options.random;
    uint64_t a = random_u64(rnd), b = random_u64(rnd);
    return arena_printf(&q->arena, "%08x-%04x-4%03x-%04x-%012llx", (unsigned)(a >> 32),
                        (unsigned)(a >> 16 & 0xffff), (unsigned)(a & 0xfff),
                        (unsigned)((b >> 48 & 0x3fff) | 0x8000), (unsigned long long)(b & 0xffffffffffffULL));
}

static void own_metadata(struct request *q, struct tree *metadata)
{
    static const char *const servers[] = {"deletionTimestamp", "deletionGracePeriodSeconds", "selfLink",
                                          "resourceVersion", "generation"};
    struct arena *a = &q->arena;
    for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++)
        tree_remove(metadata, servers[i]);
    if (q->kind->namespaced)
        tree_set_str(a, metadata, "namespace", q->at.ns);
    else
        tree_remove(metadata, "namespace");
    tree_set_str(a, metadata, "uid", new_uid(q));
    tree_set_str(a, metadata, "creationTimestamp", handle_time(q));
    if (q->kind->generation)
        tree_set(a, metadata, "generation", tree_int(a, 1));
}

static bool has_version(const char *rv)
{
    return rv != NULL && rv[0] != '\0' && strcmp(rv, "0") != 0;
}

static void set_managed(struct request *q, struct tree *object, struct managed_fields *m)
{
    tree_set(&q->arena, tree_need_map(&q->arena, object, "metadata"), "managedFields",
             managed_fields_write(&q->arena, m));
}

void mutate_create(struct request *q, struct tree *object, struct managed_fields *applied, struct response *r)
{
    struct arena *a = &q->arena;
    struct tree *metadata = tree_need_map(a, object, "metadata");
    const char *asked = tree_get_str(metadata, "name");
    if (check_namespace(q, asked == NULL ? "" : asked, r) < 0 || check_name(q, metadata, r) < 0)
        return;
    if (applied == NULL && has_version(tree_get_str(metadata, "resourceVersion"))) {
        failure_plain(r, 500, NULL, "resourceVersion should not be set on objects to be created");
        return;
    }
    struct managed_fields own = {0}, *m = applied == NULL ? &own : applied;
    if (applied == NULL)
        managed_fields_read(a, mutate_take_managed(object), &own);
    if (q->version->has_status)
        tree_remove(object, "status");
    if (normalize(q, object, applied != NULL, r) < 0 || builtin_prepare_create(q, object, r) < 0)
        return;
    if (applied == NULL) {
        struct managed_writer w = mutate_writer(q);
        managed_fields_update(&w, builtin_blank(q), object, false, m);
    }
    builtin_fill(q, object);
    own_metadata(q, metadata);
    set_managed(q, object, m);
    const char *name = tree_get_str(metadata, "name"), *key = handle_key(a, q->at.ns, name);
    if (storage_get(q->kind->storage, key) != NULL) {
        failure_write(r, &(struct failure){
                             .code = 409,
                             .reason = "AlreadyExists",
                             .message = arena_printf(a, "%s \"%s\" already exists", q->kind->resource, name),
                             .has_details = true,
                             .name = name,
                             .group = q->kind->group,
                             .kind = q->kind->plural});
        return;
    }
    answer_version(q, 201, mutate_store(q, q->kind, key, object, r), r);
}

// ---- update

static int check_preconditions(struct request *q, const struct tree *live, const struct tree *new,
                               enum mutate_how how, struct response *r)
{
    const struct tree *old_meta = tree_get(live, "metadata"), *new_meta = tree_get(new, "metadata");
    const char *uid = tree_get_str(new_meta, "uid"), *old_uid = tree_get_str(old_meta, "uid");
    const char *rv = tree_get_str(new_meta, "resourceVersion");
    if (uid != NULL && uid[0] != '\0' && !str_eq(uid, old_uid)) {
        if (how != MUTATE_PUT)
            return failure_invalid(r, q->kind->group, q->kind->kind, q->at.name, "metadata.uid",
                                   "FieldValueInvalid",
                                   arena_printf(&q->arena, "Invalid value: \"%s\": field is immutable", uid));
        return failure_conflict(
            r, q->kind, q->at.name,
            arena_printf(&q->arena, "Precondition failed: UID in precondition: %s, UID in object meta: %s",
                         uid, old_uid));
    }
    if (has_version(rv) && !str_eq(rv, tree_get_str(old_meta, "resourceVersion")))
        return failure_conflict(
            r, q->kind, q->at.name,
            "the object has been modified; please apply your changes to the latest version and try again");
    if (!has_version(rv) && !q->kind->unconditional_update)
        return failure_invalid(r, q->kind->group, q->kind->plural, q->at.name, "metadata.resourceVersion",
                               "FieldValueInvalid", "Invalid value: 0: must be specified for an update");
    return 0;
}

static bool list_has_text(const struct tree *list, const char *text)
{
    for (size_t i = 0; i < tree_count(list); i++) {
        if (str_eq(tree_text(tree_at(list, i)), text))
            return true;
    }
    return false;
}

static int check_finalizers(struct request *q, const struct tree *live, const struct tree *new,
                            struct response *r)
{
    if (tree_path(live, "metadata", "deletionTimestamp", NULL) == NULL)
        return 0;
    const struct tree *before = tree_path(live, "metadata", "finalizers", NULL),
                      *after = tree_path(new, "metadata", "finalizers", NULL);
    const char *added = "";
    for (size_t i = 0; i < tree_count(after); i++) {
        const char *it = tree_text(tree_at(after, i));
        if (it != NULL && !list_has_text(before, it))
            added = arena_printf(&q->arena, "%s%s\"%s\"", added, added[0] == '\0' ? "" : ", ", it);
    }
    if (added[0] == '\0')
        return 0;
    return failure_invalid(
        r, q->kind->group, q->kind->kind, q->at.name, "metadata.finalizers", "FieldValueForbidden",
        arena_printf(&q->arena,
                     "Forbidden: no new finalizers can be added if the object is being deleted, found "
                     "new finalizers []string{%s}",
                     added));
}

// What only the server sets stays as it is.
static void keep_metadata(struct request *q, const struct tree *live, struct tree *new)
{
    static const char *const servers[] = {"uid",
                                          "creationTimestamp",
                                          "deletionTimestamp",
                                          "deletionGracePeriodSeconds",
                                          "generation",
                                          "selfLink",
                                          "name",
                                          "namespace",
                                          "generateName",
                                          "resourceVersion"};
    struct tree *from = tree_get(live, "metadata"), *to = tree_need_map(&q->arena, new, "metadata");
    for (size_t i = 0; i < sizeof(servers) / sizeof(servers[0]); i++)
        tree_set(&q->arena, to, servers[i], tree_get(from, servers[i]));
    tree_set_str(&q->arena, new, "apiVersion", q->version->api_version);
    tree_set_str(&q->arena, new, "kind", q->kind->kind);
}

// The main resource keeps its status, /status keeps everything else.
static struct tree *keep_other_half(struct request *q, const struct tree *live, struct tree *new)
{
    if (q->at.subresource != NULL) {
        struct tree *status = tree_get(new, "status");
        new = tree_copy(&q->arena, live);
        tree_set(&q->arena, new, "status", tree_is_null(status) ? NULL : status);
    } else if (q->version->has_status) {
        tree_set(&q->arena, new, "status", tree_get(live, "status"));
    }
    return new;
}

static struct tree *content(struct request *q, const struct tree *object)
{
    struct tree *t = tree_map(&q->arena);
    for (size_t i = 0; i < tree_count(object); i++) {
        const struct tree_item *it = &object->box.items[i];
        if (strcmp(it->key, "metadata") != 0 && !(q->version->has_status && strcmp(it->key, "status") == 0))
            tree_set(&q->arena, t, it->key, it->value);
    }
    return t;
}

static void bump_generation(struct request *q, const struct tree *live, struct tree *new)
{
    if (!q->kind->generation)
        return;
    bool annotations =
        q->kind->generation_annotations && !tree_equal(tree_path(live, "metadata", "annotations", NULL),
                                                       tree_path(new, "metadata", "annotations", NULL));
    if (!annotations && tree_equal(content(q, live), content(q, new)))
        return;
    struct tree *old = tree_path(live, "metadata", "generation", NULL);
    int64_t generation = old != NULL && old->type == TREE_INT ? old->num : 0;
    tree_set(&q->arena, tree_get(new, "metadata"), "generation", tree_int(&q->arena, generation + 1));
}

static struct tree *without_times(struct request *q, const struct managed_fields *m)
{
    struct managed_fields copy = *m;
    copy.items = arena_zalloc(&q->arena, (m->count + 1) * sizeof(*copy.items));
    for (size_t i = 0; i < m->count; i++) {
        copy.items[i] = m->items[i];
        copy.items[i].time = NULL;
    }
    return managed_fields_write(&q->arena, &copy);
}

// The owners to begin with: those the writer sent, if they make sense, else the live ones.
static void begin_managed(struct request *q, struct tree *live_list, struct tree *sent,
                          struct managed_fields *m)
{
    *m = (struct managed_fields){0};
    if (q->at.subresource == NULL && managed_fields_is_reset(sent))
        return;
    if (q->at.subresource != NULL || managed_fields_read(&q->arena, sent, m) < 0 || m->count == 0)
        managed_fields_read(&q->arena, live_list, m);
}

static bool may_go_now(const struct request *q, const struct tree *object)
{
    const struct tree *grace = tree_path(object, "metadata", "deletionGracePeriodSeconds", NULL);
    bool waiting = grace != NULL && grace->type == TREE_INT && grace->num > 0;
    return tree_path(object, "metadata", "deletionTimestamp", NULL) != NULL && !waiting &&
           tree_count(tree_path(object, "metadata", "finalizers", NULL)) == 0 &&
           !builtin_holds(q->kind, object);
}

static void answer_tree(struct request *q, struct tree *object, struct response *r)
{
    struct json_writer w;
    jw_init(&w, &r->body);
    tree_write(&w, object);
    (void)q;
}

// Stores what changed, or nothing at all when nothing did.
static void finish_update(struct request *q, const struct storage_version *old, struct tree *live,
                          struct tree *new, const struct managed_fields *live_m, struct managed_fields *m,
                          struct response *r)
{
    const char *key = handle_key(&q->arena, q->at.ns, q->at.name);
    if (tree_equal(live, new) && tree_equal(without_times(q, live_m), without_times(q, m))) {
        answer_version(q, 200, old, r);
        return;
    }
    bump_generation(q, live, new);
    set_managed(q, new, m);
    if (may_go_now(q, new)) {
        mutate_remove(q, q->kind, key);
        answer_tree(q, new, r);
        return;
    }
    answer_version(q, 200, mutate_store(q, q->kind, key, new, r), r);
}

void mutate_update(struct request *q, const struct storage_version *old, struct tree *new,
                   enum mutate_how how, struct managed_fields *applied, struct response *r)
{
    struct tree *live = mutate_load(q, old);
    if (check_preconditions(q, live, new, how, r) < 0)
        return;
    struct tree *live_list = mutate_take_managed(live), *sent = mutate_take_managed(new);
    struct managed_fields live_m, own, *m = applied;
    managed_fields_read(&q->arena, live_list, &live_m);
    new = keep_other_half(q, live, new);
    keep_metadata(q, live, new);
    if (normalize(q, new, applied != NULL, r) < 0 || check_finalizers(q, live, new, r) < 0 ||
        builtin_prepare_update(q, live, new, r) < 0)
        return;
    if (applied == NULL) {
        struct managed_writer w = mutate_writer(q);
        begin_managed(q, live_list, sent, &own);
        managed_fields_update(&w, live, new, true, &own);
        m = &own;
    }
    finish_update(q, old, live, new, &live_m, m, r);
}
