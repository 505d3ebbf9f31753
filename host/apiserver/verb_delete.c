// DELETE of one object.
#include <stdlib.h>
#include <string.h>

#include "apiserver/builtin.h"
#include "apiserver/impl.h"
#include "apiserver/mutate.h"
#include "base/clock.h"
#include "base/strset.h"
#include "data/json_write.h"

enum { POD_GRACE_SECONDS = 30 };

struct delete_options {
    const char *propagation; // NULL: the kind's default, which here is to leave finalizers alone
    const char *uid, *resource_version;
    int64_t grace; // -1: not given
};

static int read_delete_options(struct request *q, struct delete_options *o, struct response *r)
{
    struct err e;
    struct tree *body = q->body_len == 0 ? NULL : tree_parse(&q->arena, q->body, q->body_len, &e);
    const char *grace = route_param(&q->route, "gracePeriodSeconds");
    if (q->body_len > 0 && !tree_is_map(body))
        return failure_bad_request(r, "couldn't read the DeleteOptions: %s",
                                   body == NULL ? e.text : "no JSON object");
    const struct tree *seconds = tree_get(body, "gracePeriodSeconds");
    *o = (struct delete_options){
        .propagation = tree_get_str(body, "propagationPolicy"),
        .uid = tree_text(tree_path(body, "preconditions", "uid", NULL)),
        .resource_version = tree_text(tree_path(body, "preconditions", "resourceVersion", NULL)),
        .grace = seconds != NULL && seconds->type == TREE_INT ? seconds->num : -1,
    };
    if (body == NULL) {
        o->propagation = route_param(&q->route, "propagationPolicy");
        o->grace = grace == NULL ? -1 : strtoll(grace, NULL, 10);
    }
    if (tree_count(tree_get(body, "dryRun")) > 0)
        return failure_not_implemented(r, "dry run");
    if (o->propagation == NULL || str_eq(o->propagation, "Background") ||
        str_eq(o->propagation, "Foreground") || str_eq(o->propagation, "Orphan"))
        return 0;
    return failure_invalid(
        r, "meta.k8s.io", "DeleteOptions", "", "propagationPolicy", "FieldValueNotSupported",
        arena_printf(&q->arena,
                     "Unsupported value: \"%s\": supported values: \"Foreground\", \"Background\", "
                     "\"Orphan\", \"nil\"",
                     o->propagation));
}

static int refuse(struct request *q, const char *why, struct response *r)
{
    const char *kind = q->kind->group[0] == '\0'
                           ? q->kind->kind
                           : arena_printf(&q->arena, "%s.%s", q->kind->kind, q->kind->group);
    return failure_write(
        r, &(struct failure){
               .code = 409,
               .reason = "Conflict",
               .message = arena_printf(&q->arena, "Operation cannot be fulfilled on %s \"%s\": %s", kind,
                                       q->at.name, why),
               .has_details = true,
               .name = q->at.name,
               .group = q->kind->group,
               .kind = q->kind->kind,
           });
}

static int check_preconditions(struct request *q, const struct delete_options *o, const struct tree *metadata,
                               struct response *r)
{
    const char *uid = tree_get_str(metadata, "uid"), *rv = tree_get_str(metadata, "resourceVersion");
    if (o->uid != NULL && !str_eq(o->uid, uid))
        return refuse(
            q,
            arena_printf(
                &q->arena,
                "the UID in the precondition (%s) does not match the UID in record (%s). The object might "
                "have been deleted and then recreated",
                o->uid, uid),
            r);
    if (o->resource_version != NULL && !str_eq(o->resource_version, rv))
        return refuse(
            q,
            arena_printf(
                &q->arena,
                "the ResourceVersion in the precondition (%s) does not match the ResourceVersion in record "
                "(%s). The object might have been modified",
                o->resource_version, rv),
            r);
    return 0;
}

static void drop_finalizer(struct tree *list, const char *name)
{
    for (size_t i = 0; i < tree_count(list);) {
        if (str_eq(tree_text(tree_at(list, i)), name))
            tree_remove_at(list, i);
        else
            i++;
    }
}

// The garbage collector's own finalizers follow the policy asked for.
static bool set_collector_finalizers(struct request *q, const char *propagation, struct tree *metadata)
{
    struct arena *a = &q->arena;
    if (propagation == NULL)
        return false;
    struct tree *list = tree_copy(a, tree_get(metadata, "finalizers"));
    if (!tree_is_list(list))
        list = tree_list(a);
    drop_finalizer(list, "foregroundDeletion");
    drop_finalizer(list, "orphan");
    if (strcmp(propagation, "Background") != 0)
        tree_add(a, list, tree_str(a, strcmp(propagation, "Orphan") == 0 ? "orphan" : "foregroundDeletion"));
    const struct tree *old = tree_get(metadata, "finalizers");
    bool changed = tree_count(old) != tree_count(list) || (tree_count(list) > 0 && !tree_equal(old, list));
    tree_set(a, metadata, "finalizers", tree_count(list) == 0 ? NULL : list);
    return changed;
}

// A pod that runs somewhere gets time to stop.
static int64_t grace_of(const struct kind *k, const struct tree *object, int64_t asked)
{
    const char *phase = tree_text(tree_path(object, "status", "phase", NULL));
    const struct tree *own = tree_path(object, "spec", "terminationGracePeriodSeconds", NULL);
    if (!builtin_is(k, "", "Pod") || tree_text(tree_path(object, "spec", "nodeName", NULL)) == NULL ||
        str_eq(phase, "Succeeded") || str_eq(phase, "Failed"))
        return 0;
    if (asked >= 0)
        return asked;
    return own != NULL && own->type == TREE_INT ? own->num : POD_GRACE_SECONDS;
}

static void mark_deleted(struct request *q, const struct kind *k, struct tree *object, int64_t grace)
{
    struct arena *a = &q->arena;
    struct tree *metadata = tree_get(object, "metadata"), *generation = tree_get(metadata, "generation");
    char text[CLOCK_TEXT_MAX];
    clock_format_time(text, clock_wall_us(q->server->options.clock) + grace * 1000000);
    tree_set_str(a, metadata, "deletionTimestamp", text);
    if (builtin_is(k, "", "Namespace"))
        tree_set_str(a, tree_need_map(a, object, "status"), "phase", "Terminating");
    else
        tree_set(a, metadata, "deletionGracePeriodSeconds", tree_int(a, grace));
    if (generation != NULL && generation->type == TREE_INT)
        tree_set(a, metadata, "generation", tree_int(a, generation->num + 1));
}

// Everything in a namespace that goes is deleted, too; what has finalizers stays until they are gone.
static void drain_namespace(struct request *q, const char *ns)
{
    struct response ignored;
    response_init(&ignored);
    for (struct kind *k = kinds_first(q->server->kinds); k != NULL; k = k->next) {
        struct storage_list l;
        if (!k->namespaced || !storage_list(k->storage, arena_printf(&q->arena, "%s/", ns), 0, &l))
            continue;
        for (size_t i = 0; i < l.count; i++) {
            char *key = arena_strdup(&q->arena, l.items[i].key);
            struct tree *object =
                tree_parse(&q->arena, l.items[i].version->json, l.items[i].version->len, NULL);
            if (tree_count(tree_path(object, "metadata", "finalizers", NULL)) == 0) {
                mutate_remove(q, k, key);
            } else if (tree_path(object, "metadata", "deletionTimestamp", NULL) == NULL) {
                mark_deleted(q, k, object, 0);
                mutate_store(q, k, key, object, &ignored);
            }
        }
        storage_list_fini(&l);
    }
    builtin_finish_namespace(q, ns);
    response_fini(&ignored);
}

static void answer_success(struct request *q, const struct tree *object, struct response *r)
{
    struct json_writer w;
    jw_init(&w, &r->body);
    if (q->kind->returns_deleted) {
        tree_write(&w, object);
        return;
    }
    jw_object(&w);
    jw_member_str(&w, "kind", "Status");
    jw_member_str(&w, "apiVersion", "v1");
    jw_key(&w, "metadata");
    jw_object(&w);
    jw_object_end(&w);
    jw_member_str(&w, "status", "Success");
    jw_key(&w, "details");
    jw_object(&w);
    jw_member_str(&w, "name", q->at.name);
    if (q->kind->group[0] != '\0')
        jw_member_str(&w, "group", q->kind->group);
    jw_member_str(&w, "kind", q->kind->plural);
    jw_member_str(&w, "uid", tree_text(tree_path(object, "metadata", "uid", NULL)));
    jw_object_end(&w);
    jw_object_end(&w);
}

static void delete_later(struct request *q, const char *key, struct tree *object, bool changed, int64_t grace,
                         struct response *r)
{
    bool deleting = tree_path(object, "metadata", "deletionTimestamp", NULL) != NULL;
    const struct storage_version *v = storage_get(q->kind->storage, key);
    if (!deleting)
        mark_deleted(q, q->kind, object, grace);
    if (!deleting || changed)
        v = mutate_store(q, q->kind, key, object, r);
    if (v == NULL)
        return;
    handle_write_object(&r->body, q->kind, q->version, v);
    if (!deleting && builtin_is(q->kind, "", "Namespace"))
        drain_namespace(q, q->at.name);
}

void verb_delete(struct request *q, struct response *r)
{
    struct delete_options o;
    const char *key = handle_key(&q->arena, q->at.ns, q->at.name);
    if (read_delete_options(q, &o, r) < 0)
        return;
    const struct storage_version *v = storage_get(q->kind->storage, key);
    if (v == NULL) {
        failure_not_found(r, q->kind, q->at.name);
        return;
    }
    struct tree *object = mutate_load(q, v), *metadata = tree_get(object, "metadata");
    if (check_preconditions(q, &o, metadata, r) < 0)
        return;
    bool changed = set_collector_finalizers(q, o.propagation, metadata);
    int64_t grace = grace_of(q->kind, object, o.grace);
    if (tree_count(tree_get(metadata, "finalizers")) > 0 || grace > 0 || builtin_holds(q->kind, object)) {
        delete_later(q, key, object, changed, grace, r);
        return;
    }
    mutate_remove(q, q->kind, key);
    answer_success(q, object, r);
}
