#include "run/apply/apply_op.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/strset.h"
#include "data/json_write.h"
#include "kube/emptied.h"
#include "kube/fields.h"
#include "run/apply/adopt.h"
#include "run/apply/apply_fight.h"
#include "run/plan/hand_over.h"

static void send_apply(struct apply_op *o);
static void send_delete(struct apply_op *o);

static void finish(struct apply_op *o)
{
    if (o->in_gate)
        write_gate_leave(o->applier->gate);
    o->in_gate = false;
    o->on_done(o);
}

// The object as the store has it by now, +1 reference, or NULL.
static struct object *stored_object(const struct apply_op *o)
{
    const struct op *op = o->op;
    if (op->kind == OP_STATUS || op->kind == OP_FINALIZER || op->kind == OP_UNFINALIZE)
        return controller_view_subject(o->in->view, UINT64_MAX, o->in->key);
    if (op->kind != OP_PATCH && op->kind != OP_RELEASE && !op->by_reference)
        return child_stores_get(o->in->view->children, UINT64_MAX, op->resource.gvk, op->ns, op->name);
    struct object *object = NULL;
    struct store *store = NULL;
    struct informer_scope scope = {
        .gvk = op->resource.gvk, .ns = op->resource.namespaced ? op->ns : NULL, .name = op->name};
    if (informers_find(o->applier->o.informers, &scope, &store, NULL) == INFORMER_SYNCED)
        object = store_get(store, UINT64_MAX, op->ns, op->name);
    store_unref(store);
    return object;
}

// Its resourceVersion, "" if there is none; free().
static char *stored_version(const struct apply_op *o)
{
    struct object *object = stored_object(o);
    char *rv = xstrdup(object == NULL ? "" : object_resource_version(object));
    object_unref(object);
    return rv;
}

static bool is_about_subject(const struct op *op)
{
    return op->kind == OP_STATUS || op->kind == OP_FINALIZER || op->kind == OP_UNFINALIZE;
}

static bool is_unseen(const struct apply_op *o)
{
    return o->in->unseen && is_about_subject(o->op);
}

// The write was answered; rv as for own_writes_end.
static void end_write(struct apply_op *o, const char *rv)
{
    const struct op *op = o->op;
    if (is_unseen(o))
        return;
    o->foreign |= own_writes_end(o->applier->own, op->resource.gvk, op->ns, op->name, rv);
    if (rv == NULL)
        return;
    char *stored = stored_version(o);
    if (stored[0] != '\0' || op->kind == OP_DELETE)
        own_writes_store_has(o->applier->own, op->resource.gvk, op->ns, op->name, stored);
    free(stored);
}

static void count(const struct apply_op *o, const struct client_result *res)
{
    char code[12];
    snprintf(code, sizeof code, "%d", res->status);
    series_inc(metric_series(o->applier->writes, o->in->view->script->name, op_kind_name(o->op->kind), code));
    log_debug("write", F_STR("script", o->in->view->script->name), F_STR("key", o->in->key),
              F_STR("op", op_kind_name(o->op->kind)), F_STR("kind", o->op->resource.gvk->text),
              F_STR("namespace", o->op->ns), F_STR("name", o->op->name), F_INT("code", res->status),
              F_STR("error", res->failure == NULL ? NULL : res->failure->err.text));
}

// What the server warns of with a write is said once.
static void note_warning(struct apply_op *o, const struct client_result *res)
{
    enum { WARNINGS_MAX = 1000 };
    struct strset *said = &o->applier->warnings;
    if (res->warning == NULL || said->count >= WARNINGS_MAX || !strset_add(said, res->warning))
        return;
    log_warn("the server warns", F_STR("script", o->in->view->script->name), F_STR("key", o->in->key),
             F_STR("kind", o->op->resource.gvk->text), F_STR("name", o->op->name),
             F_STR("warning", res->warning));
}

// So is that a status which was given goes nowhere.
static void note_dropped_status(struct apply_op *o)
{
    const char *script = o->in->view->script->name, *kind = o->op->resource.gvk->text;
    char *once = xasprintf("%s status of %s", script, kind);
    if (o->op->drops_status && strset_add(&o->applier->warnings, once))
        log_warn(
            "a status in apply or patch is not set: it belongs to the controller of that kind, leave it out",
            F_STR("script", script), F_STR("key", o->in->key), F_STR("kind", kind),
            F_STR("name", o->op->name));
    free(once);
}

static void fail(struct apply_op *o, const struct api_status *why)
{
    o->ok = false;
    o->retry_after_ms = why->retry_after_ms;
    o->terminating = str_eq(why->cause, "NamespaceTerminating");
    if (o->remedy != NULL) { // what it was for stands there already
        char *text = xasprintf("%s: %s", o->remedy, why->err.text);
        o->err.code = why->code;
        err_join(&o->err, 1, text);
        free(text);
        return;
    }
    err_set(&o->err, (enum err_code) - why->code, "%s %s %s%s%s: %s", op_kind_name(o->op->kind),
            o->op->resource.gvk->text, o->op->ns, o->op->ns[0] == '\0' ? "" : "/", o->op->name,
            why->err.text);
}

// The server refused, and what comes next is to help: if that fails, both is told. `remedy` says what it is.
static void fail_but_try(struct apply_op *o, const struct api_status *why, const char *remedy)
{
    fail(o, why);
    o->remedy = remedy;
}

static void refuse(struct apply_op *o, enum err_code code, const char *text)
{
    o->ok = false;
    err_set(&o->err, code, "%s %s %s%s%s: %s", op_kind_name(o->op->kind), o->op->resource.gvk->text,
            o->op->ns, o->op->ns[0] == '\0' ? "" : "/", o->op->name, text);
}

static void on_answer(void *ud, struct client_result *res)
{
    struct apply_op *o = ud;
    if (o->writes) {
        count(o, res);
        o->written |= res->failure == NULL;
    }
    o->then(o, res);
}

// Every request goes out here, one at a time.
static void send(struct apply_op *o, const char *subresource, const char *query,
                 const struct client_request *request,
                 void (*then)(struct apply_op *o, struct client_result *res))
{
    const struct op *op = o->op;
    struct client_request r = *request;
    struct buf path;
    buf_init(&path, 64 << 10);
    resource_path(&op->resource, op->ns, op->name, subresource, query, &path);
    r.path = path.data;
    r.as = &o->in->view->script->as;
    o->writes = r.method != METHOD_GET;
    o->then = then;
    client_send(o->applier->o.client, &r, on_answer, o);
    buf_fini(&path);
}

static void get(struct apply_op *o, const char *subresource,
                void (*then)(struct apply_op *o, struct client_result *res))
{
    send(o, subresource, NULL, &(struct client_request){.method = METHOD_GET}, then);
}

static void patch(struct apply_op *o, const char *query, const char *content_type, const char *body,
                  size_t body_len, void (*then)(struct apply_op *o, struct client_result *res))
{
    send(o, o->op->subresource, query,
         &(struct client_request){
             .method = METHOD_PATCH, .content_type = content_type, .body = body, .body_len = body_len},
         then);
}

static char *manager_query(const struct op *op, bool force)
{
    struct buf query;
    buf_init(&query, 4096);
    resource_query_add(&query, "fieldManager", op->manager);
    if (force)
        resource_query_add(&query, "force", "true");
    return buf_take(&query, NULL);
}

// ---- what the server holds already

static bool is_tidelock(const char *manager)
{
    return manager != NULL && str_has_prefix(manager, "tidelock");
}

// Names of the managers in an object's managedFields other than ours, for messages: "kubectl, argocd".
static char *foreign_managers(const json *object, const char *ours)
{
    struct buf names;
    struct strset seen;
    buf_init(&names, 512);
    strset_init(&seen);
    for (struct json_iter i = json_iter(json_path(object, "metadata", "managedFields", NULL));
         json_next(&i);) {
        const char *manager = json_get_str(i.value, "manager");
        if (manager == NULL || str_eq(manager, ours) || json_get_str(i.value, "subresource") != NULL ||
            !strset_add(&seen, manager))
            continue;
        buf_addf(&names, "%s%s", names.len == 0 ? "" : ", ", manager);
    }
    strset_fini(&seen);
    return buf_take(&names, NULL);
}

// Whose fields an object has, but for those of subresources.
struct holders {
    bool ours, named, others; // named: by adopt
};

static struct holders holders_of(const struct op *op, const json *object)
{
    struct holders h = {0};
    for (struct json_iter i = json_iter(json_path(object, "metadata", "managedFields", NULL));
         json_next(&i);) {
        const char *manager = json_get_str(i.value, "manager");
        if (manager == NULL || json_get_str(i.value, "subresource") != NULL)
            continue;
        bool ours = str_eq(manager, op->manager), named = strset_has(&op->adopt, manager);
        h.ours |= ours;
        h.named |= !ours && named;
        h.others |= !ours && !named;
    }
    return h;
}

// May an object that is there be taken over? A manager that is named must have had it; what others set in it
// stays theirs.
static bool may_adopt(const struct op *op, const json *object)
{
    struct holders h = holders_of(op, object);
    return op->adopt.count > 0 && (h.ours || h.named || !h.others);
}

// It carries our labels, and we applied it, as far as it can be told: people do take managedFields away.
static bool is_our_child(const struct apply_op *o, const json *object)
{
    const json *labels = json_path(object, "metadata", "labels", NULL);
    const json *managed = json_path(object, "metadata", "managedFields", NULL);
    return str_eq(json_get_str(labels, MARKS_LABEL_SCRIPT), o->in->view->script->hash) &&
           str_eq(json_get_str(labels, MARKS_LABEL_OWNER), object_uid(o->in->subject)) &&
           (json_count(managed) == 0 || fields_of_manager(managed, o->op->manager, NULL) != NULL);
}

static void refuse_foreign(struct apply_op *o, const json *object)
{
    char *managers = foreign_managers(object, o->op->manager);
    char *text = xasprintf("it is there already and not this subject's (managers: %s): rename the child, "
                           "delete the object, or take it over with "
                           "adopt = {...} naming these managers",
                           managers[0] == '\0' ? "none" : managers);
    refuse(o, ERR_EXISTS, text);
    free(managers);
    free(text);
}

// ---- creating

static void on_undone(struct apply_op *o, struct client_result *res)
{
    if (res->failure != NULL)
        fail(o, res->failure);
    end_write(o, NULL);
    finish(o);
}

// The controller that an object has, when it is not our subject.
static const char *other_controller(const struct apply_op *o, const json *object)
{
    for (struct json_iter i = json_iter(json_path(object, "metadata", "ownerReferences", NULL));
         json_next(&i);)
        if (json_true(json_get(i.value, "controller")) &&
            !str_eq(json_get_str(i.value, "uid"), object_uid(o->in->subject)))
            return json_get_str(i.value, "name");
    return NULL;
}

static void refuse_controlled(struct apply_op *o, const char *controller)
{
    char *text = xasprintf("it is there already and %s is its controller, which an object has but one of: "
                           "rename the child, or take that ownerReference away",
                           controller);
    refuse(o, ERR_EXISTS, text);
    free(text);
}

// Somebody was faster: our fields are taken off his object again.
static void undo(struct apply_op *o, const json *object)
{
    struct buf body;
    struct json_writer w;
    const json *metadata = json_get(object, "metadata");
    refuse_foreign(o, object);
    o->remedy = "nor could our fields be taken off it again";
    buf_init(&body, 64 << 10);
    jw_init(&w, &body);
    jw_object(&w);
    jw_member_str(&w, "apiVersion", o->op->resource.gvk->api_version);
    jw_member_str(&w, "kind", o->op->resource.gvk->kind);
    jw_key(&w, "metadata");
    jw_object(&w);
    jw_member(&w, "name", json_get(metadata, "name"));
    jw_member(&w, "namespace", json_get(metadata, "namespace"));
    jw_member(&w, "uid", json_get(metadata, "uid"));
    jw_object_end(&w);
    jw_object_end(&w);
    char *query = manager_query(o->op, false);
    patch(o, query, "application/apply-patch+yaml", body.data, body.len, on_undone);
    free(query);
    buf_fini(&body);
}

static bool has_foreign_manager(const json *object)
{
    for (struct json_iter i = json_iter(json_path(object, "metadata", "managedFields", NULL)); json_next(&i);)
        if (!is_tidelock(json_get_str(i.value, "manager")) && json_get_str(i.value, "subresource") == NULL)
            return true;
    return false;
}

// The entries of the managers that are taken over from become ours, so that what they set and the script does
// not want can go.
static void on_adopted(struct apply_op *o, struct client_result *res)
{
    if (res->failure == NULL) {
        send_apply(o);
        return;
    }
    fail(o, res->failure);
    end_write(o, NULL);
    finish(o);
}

static void adopt(struct apply_op *o, const json *object)
{
    struct buf body;
    struct holders h = holders_of(o->op, object);
    o->adopted = true;
    o->op->force = !h.others; // where the script wants what somebody else sets, the server tells
    free(o->op->uid);
    o->op->uid = xstrdup(json_str(json_path(object, "metadata", "uid", NULL)));
    if (!h.named) {
        send_apply(o);
        return;
    }
    buf_init(&body, 4 << 20);
    adopt_write_patch(object, &o->op->adopt, o->op->manager, o->op->resource.gvk->api_version, &body);
    patch(o, NULL, "application/json-patch+json", body.data, body.len, on_adopted);
    buf_fini(&body);
}

static void on_guard(struct apply_op *o, struct client_result *res)
{
    bool is_absent = res->failure != NULL && res->failure->http == 404;
    if (is_absent && (o->op->ns[0] == '\0' || !str_eq(res->failure->details_kind, "namespaces"))) {
        send_apply(o); // it is the object that is missing, not its namespace
        return;
    }
    const json *object = json_root(res->doc);
    const char *controller = other_controller(o, object);
    if (res->failure != NULL) {
        fail(o, res->failure);
    } else if (is_our_child(o, object)) {
        o->op->force = true; // the store lags
        free(o->op->uid);
        o->op->uid = xstrdup(json_str(json_path(object, "metadata", "uid", NULL)));
        send_apply(o);
        return;
    } else if (!may_adopt(o->op, object)) {
        refuse_foreign(o, object);
    } else if (controller != NULL) {
        refuse_controlled(o, controller);
    } else {
        adopt(o, object);
        return;
    }
    end_write(o, NULL);
    finish(o);
}

// ---- applying

static void learn(const struct apply_op *o, const json *object)
{
    const char *uid = json_str(json_path(object, "metadata", "uid", NULL));
    const char *id = o->op->learn_id != NULL ? o->op->learn_id : uid;
    if (id == NULL || o->op->kind == OP_RELEASE || o->op->desired_hash == 0)
        return;
    const json *owned = fields_of_manager(json_path(object, "metadata", "managedFields", NULL),
                                          o->op->manager, o->op->subresource);
    learned_put(o->applier->o.learned, id, o->op->desired_hash, fields_hash_owned(owned, object));
}

// The object that the body names by its UID is not there, or is another by now.
static bool is_other_object(const struct api_status *why)
{
    return why->http == 404 || strstr(why->err.text, "uid mismatch") != NULL ||
           strstr(why->err.text, "UID in precondition") != NULL;
}

// The server has no reason of its own for "this can not be changed": its texts tell.
static bool is_immutable_change(const struct api_status *why)
{
    static const char *const texts[] = {"immutable",
                                        "may not be changed",
                                        "cannot be changed",
                                        "cannot change",
                                        "may not change",
                                        "updates to statefulset spec",
                                        "can not be less than previous value"};
    for (size_t i = 0; why->http == 422 && i < sizeof texts / sizeof texts[0]; i++)
        if (strstr(why->err.text, texts[i]) != NULL)
            return true;
    return false;
}

static void replace(struct apply_op *o, const struct api_status *why)
{
    fail_but_try(o, why, "nor could it be deleted, to be created anew");
    send_delete(o);
}

static bool is_fought_over(struct apply_op *o, const struct client_result *res)
{
    struct object *stored = o->move == FIGHTS_PROBE ? stored_object(o) : NULL;
    bool again = apply_fight_answered(o, res, stored);
    object_unref(stored);
    return again;
}

// ---- emptied containers (kube/emptied.h)

static bool is_hole(const struct api_status *why)
{
    return why != NULL && why->http == 422 && strstr(why->err.text, "Invalid value: \"null\"") != NULL;
}

// What the apply was refused for stands there.
static void give_up_emptying(struct apply_op *o, const struct client_result *res)
{
    if (res->failure != NULL && res->failure->http != 404)
        fail(o, res->failure);
    end_write(o, NULL);
    finish(o);
}

static void on_emptied(struct apply_op *o, struct client_result *res)
{
    if (res->failure != NULL) {
        give_up_emptying(o, res);
        return;
    }
    o->remedy = NULL;
    send_apply(o);
}

static void on_to_be_emptied(struct apply_op *o, struct client_result *res)
{
    struct json_doc *desired = NULL;
    struct buf body;
    buf_init(&body, 4 << 20);
    bool found = res->failure == NULL && json_parse(o->op->body, o->op->body_len, &desired, NULL) == 0 &&
                 emptied_write_patch(json_root(res->doc), o->op->manager, o->op->subresource,
                                     json_root(desired), &body);
    if (found) {
        char *query = manager_query(o->op, false);
        patch(o, query, "application/json-patch+json", body.data, body.len, on_emptied);
        free(query);
    } else {
        give_up_emptying(o, res);
    }
    buf_fini(&body);
    json_doc_free(desired);
}

// True: another request is on its way.
static bool empties(struct apply_op *o, const struct client_result *res)
{
    if (!is_hole(res->failure) || o->emptied ||
        o->op->uid == NULL) // NULL: it is to be made, nothing is there
        return false;
    o->emptied = true;
    fail_but_try(o, res->failure, "nor could its containers be emptied first");
    get(o, o->op->subresource, on_to_be_emptied);
    return true;
}

// ---- replicas on their way to another writer (run/plan/hand_over.h)

static bool write_kept(struct apply_op *o, const json *object)
{
    struct json_doc *body;
    struct buf out;
    bool taken = hand_over_is_taken(object, o->op->manager);
    if (json_parse(o->op->body, o->op->body_len, &body, NULL) < 0)
        return false;
    buf_init(&out, 4 << 20);
    bool ok = hand_over_write(json_root(body), taken ? NULL : json_path(object, "spec", "replicas", NULL),
                              taken ? NULL : json_path(object, "metadata", "resourceVersion", NULL), &out);
    json_doc_free(body);
    if (ok) {
        free(o->op->body);
        o->op->body = buf_take(&out, &o->op->body_len);
    }
    buf_fini(&out);
    return ok;
}

static void on_to_be_handed_over(struct apply_op *o, struct client_result *res)
{
    const json *object = json_root(res->doc);
    if (res->failure == NULL && o->op->settled && !hand_over_is_taken(object, o->op->manager)) {
        // What was compared is this version; another is to be compared first.
        o->ok = true;
        if (str_eq(json_str(json_path(object, "metadata", "resourceVersion", NULL)), o->op->live_rv))
            learn(o, object);
        else
            o->foreign = true;
    } else if (res->failure != NULL) {
        fail(o, res->failure);
    } else if (!write_kept(o, object)) {
        refuse(o, ERR_LIMIT, "it is larger than 4 MiB with the replicas it has");
    } else {
        send_apply(o);
        return;
    }
    end_write(o, NULL);
    finish(o);
}

static void hand_over(struct apply_op *o)
{
    o->asked++;
    get(o, NULL, on_to_be_handed_over);
}

// Somebody wrote between the question and the apply: he may have set them.
static bool is_overtaken(const struct apply_op *o, const struct client_result *res)
{
    enum { ASKED_MAX = 10 };
    return o->op->hands_over && o->asked < ASKED_MAX && res->failure != NULL && res->failure->http == 409 &&
           !api_status_is_conflict_with_manager(res->failure) && !is_other_object(res->failure);
}

// ---- a status subresource that came or went since discovery

static const char changed_kind[] =
    "the kind has changed: whether it has the status subresource is asked again";

// A kind that has it drops a status that is written to the object itself, and says nothing.
static bool is_status_dropped(const struct apply_op *o, const json *object)
{
    struct json_doc *body = NULL;
    if (o->op->kind != OP_STATUS || o->op->subresource != NULL ||
        fields_of_manager(json_path(object, "metadata", "managedFields", NULL), o->op->manager, NULL) != NULL)
        return false;
    bool given = json_parse(o->op->body, o->op->body_len, &body, NULL) == 0 &&
                 json_count(json_get(json_root(body), "status")) > 0;
    json_doc_free(body);
    return given;
}

static void refuse_changed_kind(struct apply_op *o)
{
    discovery_doubt(o->applier->o.discovery);
    refuse(o, ERR_UNAVAILABLE, changed_kind);
    end_write(o, NULL);
    finish(o);
}

static void on_is_subject_there(struct apply_op *o, struct client_result *res)
{
    const char *uid = json_str(json_path(json_root(res->doc), "metadata", "uid", NULL));
    const struct api_status *why = res->failure;
    bool gone = why == NULL ? !str_eq(uid, o->op->uid) : why->http == 404;
    if (!gone && (why == NULL || why->http == 403)) { // 403: it may be there, so discovery is asked
        refuse_changed_kind(o);
        return;
    }
    if (gone)
        o->ok = true; // its status has nowhere to go
    else
        fail(o, why);
    end_write(o, NULL);
    finish(o);
}

// ---- the answer

// True: another request is on its way.
static bool goes_on(struct apply_op *o, const struct client_result *res)
{
    if (empties(o, res))
        return true;
    if (is_overtaken(o, res))
        hand_over(o);
    else if (is_fought_over(o, res))
        send_apply(o);
    else if (res->failure != NULL && o->op->replace && is_immutable_change(res->failure))
        replace(o, res->failure);
    else if (res->failure != NULL && res->failure->http == 404 && o->op->kind == OP_STATUS &&
             o->op->subresource != NULL)
        get(o, NULL,
            on_is_subject_there); // without the subresource its path is answered as if none were there
    else
        return false;
    return true;
}

static void on_applied(struct apply_op *o, struct client_result *res)
{
    const json *object = json_root(res->doc);
    note_warning(o, res);
    note_dropped_status(o);
    if (res->failure == NULL)
        apply_fight_written(o, res->status == 201);
    if (goes_on(o, res))
        return;
    if (res->failure == NULL && is_status_dropped(o, object)) {
        refuse_changed_kind(o);
        return;
    }
    if (res->failure != NULL) {
        // The subject is gone: its status has nowhere to go, and the deletion comes through the watch. So has
        // a field that was to be given up.
        bool gone = (is_about_subject(o->op) || o->op->kind == OP_RELEASE) && is_other_object(res->failure);
        if (gone)
            o->ok = true;
        else
            fail(o, res->failure);
        end_write(o, NULL);
    } else if (o->op->kind == OP_CREATE && !o->op->force && !o->adopted && res->status == 200 &&
               has_foreign_manager(object)) {
        undo(o, object);
        return;
    } else {
        const char *rv = json_str(json_path(object, "metadata", "resourceVersion", NULL));
        o->ok = true;
        learn(o, object);
        end_write(o, rv == NULL || str_eq(rv, o->op->live_rv) ? NULL : rv);
    }
    finish(o);
}

static void send_apply(struct apply_op *o)
{
    char *query = manager_query(o->op, o->op->force && o->move != FIGHTS_PROBE);
    patch(o, query, "application/apply-patch+yaml", o->op->body, o->op->body_len, on_applied);
    free(query);
}

// ---- deleting

static void on_deleted(struct apply_op *o, struct client_result *res)
{
    const json *answer = json_root(res->doc);
    note_warning(o, res);
    if (res->failure != NULL && res->failure->http != 404 && res->failure->http != 409) {
        fail(o, res->failure);
        end_write(o, NULL);
    } else if (res->failure != NULL) {
        o->ok = true; // somebody deleted it, or it is another object by now
        end_write(o, NULL);
    } else {
        apply_fight_deleted(o);
        o->foreign |= o->op->kind != OP_DELETE; // replaced: its end is no news, but it has to be made again
        // With finalizers or a grace period the object is answered and stays for a while.
        const char *rv = json_str(json_path(answer, "metadata", "resourceVersion", NULL));
        bool stays = json_path(answer, "metadata", "deletionTimestamp", NULL) != NULL && rv != NULL;
        o->ok = true;
        end_write(o, stays ? rv : "");
    }
    finish(o);
}

static void send_delete(struct apply_op *o)
{
    struct buf body;
    struct json_writer w;
    buf_init(&body, 4096);
    jw_init(&w, &body);
    jw_object(&w);
    jw_member_str(&w, "apiVersion", "v1");
    jw_member_str(&w, "kind", "DeleteOptions");
    jw_member_str(&w, "propagationPolicy", "Background");
    jw_key(&w, "preconditions");
    jw_object(&w);
    jw_member_str(&w, "uid", o->op->uid);
    jw_object_end(&w);
    jw_object_end(&w);
    send(o, NULL, NULL,
         &(struct client_request){.method = METHOD_DELETE,
                                  .content_type = "application/json",
                                  .body = body.data,
                                  .body_len = body.len},
         on_deleted);
    buf_fini(&body);
}

static void go(struct write_waiter *w)
{
    struct apply_op *o = (struct apply_op *)w; // the waiter is its first member
    const struct op *op = o->op;
    o->in_gate = true;
    if (!is_unseen(o))
        own_writes_begin(o->applier->own, op->resource.gvk, op->ns, op->name, o->waiter);
    if (op->kind == OP_DELETE) {
        send_delete(o);
    } else if (op->kind == OP_UNFINALIZE) {
        patch(o, NULL, "application/json-patch+json", op->body, op->body_len, on_applied);
    } else if (op->hands_over) {
        hand_over(o);
    } else if (op->kind == OP_CREATE && !op->known_absent) {
        get(o, NULL, on_guard);
    } else {
        send_apply(o);
    }
}

void apply_op_fini(struct apply_op *o)
{
    free(o->contested);
}

void apply_op_start(struct apply_op *o)
{
    o->retry_after_ms = -1;
    o->gate.go = go;
    if (apply_fight_holds_back(o)) {
        o->ok = true;
        o->on_done(o);
        return;
    }
    if (o->op->kind == OP_CREATE) {
        const struct script *script = o->in->view->script;
        char *who = xasprintf("subject %s of script %s", o->in->key, script->name);
        const char *other = claims_take(o->applier->claims, o->op->resource.gvk, o->op->ns, o->op->name,
                                        object_uid(o->in->subject), who);
        free(who);
        if (other != NULL) {
            char *text = xasprintf("%s wants the same child: give them different names", other);
            refuse(o, ERR_CONFLICT, text);
            free(text);
            o->on_done(o);
            return;
        }
        o->claimed = true;
    }
    write_gate_enter(o->applier->gate, o->in->view->script->hash, &o->gate);
}
