#include "run/plan/desired.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/strset.h"
#include "data/json_write.h"
#include "kube/empties.h"
#include "kube/meaning.h"
#include "kube/schema_check.h"
#include "run/source/marks.h"

// metadata that the server or the host owns: an object that was read and returned carries them
static const char *const server_owned[] = {
    "name",     "namespace",         "uid",           "resourceVersion",   "generation",
    "selfLink", "creationTimestamp", "managedFields", "deletionTimestamp", "deletionGracePeriodSeconds",
};

// Server-side apply has no "create only". But an apply with a resourceVersion is refused (409, nothing is
// written) when the object has another one, and makes it when there is none. No object has this version:
// it is that of an empty etcd.
static const char absent_version[] = "1";

static bool is_server_owned(const char *key)
{
    for (size_t i = 0; i < sizeof server_owned / sizeof server_owned[0]; i++)
        if (str_eq(key, server_owned[i]))
            return true;
    return false;
}

static void write_labels(struct json_writer *w, const struct desired *d, const json *labels)
{
    jw_key(w, "labels");
    jw_object(w);
    for (struct json_iter i = json_iter(labels); json_next(&i);) {
        if (str_eq(i.key, MARKS_LABEL_SCRIPT) || str_eq(i.key, MARKS_LABEL_OWNER) ||
            str_eq(i.key, MARKS_LABEL_KEEP) || str_eq(i.key, MARKS_LABEL_ORDER))
            continue;
        jw_keyn(w, i.key, i.key_len);
        jw_value(w, i.value);
    }
    if (d->keep)
        jw_member_str(w, MARKS_LABEL_KEEP, "true");
    if (d->order > 0) {
        char order[16];
        snprintf(order, sizeof order, "%u", d->order);
        jw_member_str(w, MARKS_LABEL_ORDER, order);
    }
    jw_member_str(w, MARKS_LABEL_OWNER, object_uid(d->owner));
    jw_member_str(w, MARKS_LABEL_SCRIPT, d->script_hash);
    jw_object_end(w);
}

static void write_owners(struct json_writer *w, const struct desired *d, const json *owners)
{
    jw_key(w, "ownerReferences");
    jw_array(w);
    for (struct json_iter i = json_iter(owners); json_next(&i);)
        if (!str_eq(json_get_str(i.value, "uid"), object_uid(d->owner)))
            jw_value(w, i.value);
    if (d->owned) {
        jw_object(w);
        jw_member_str(w, "apiVersion", object_gvk(d->owner)->api_version);
        jw_member_str(w, "kind", object_gvk(d->owner)->kind);
        jw_member_str(w, "name", object_name(d->owner));
        jw_member_str(w, "uid", object_uid(d->owner));
        jw_member_bool(w, "controller", true);
        jw_object_end(w);
    }
    jw_array_end(w);
}

// One member of an object that the script gave.
static int write_member(struct json_writer *w, const struct schema_node *type, const struct step *at,
                        const struct json_iter *i, struct err *e)
{
    struct step below = {.up = at, .name = i->key};
    jw_keyn(w, i->key, i->key_len);
    return empties_write(w, schema_member(type, i->key, i->key_len, NULL), i->value, &below, e);
}

static const struct step *place(const struct desired *d)
{
    static const struct step root;
    return d->at == NULL ? &root : d->at;
}

static int write_metadata(struct json_writer *w, const struct desired *d, const json *metadata, struct err *e)
{
    const struct step at = {.up = place(d), .name = "metadata"};
    const struct schema_node *type = schema_member(d->type, "metadata", 8, NULL);
    int r = 0;
    jw_key(w, "metadata");
    jw_object(w);
    jw_member_str(w, "name", d->name);
    if (d->ns[0] != '\0')
        jw_member_str(w, "namespace", d->ns);
    jw_member_str(w, "uid", d->uid);
    jw_member_str(w, "resourceVersion", d->creates ? absent_version : NULL);
    for (struct json_iter i = json_iter(metadata); r == 0 && json_next(&i);) {
        bool ours = d->owner != NULL && (str_eq(i.key, "labels") || str_eq(i.key, "ownerReferences"));
        if (!ours && !is_server_owned(i.key))
            r = write_member(w, type, &at, &i, e);
    }
    if (d->owner != NULL) {
        write_labels(w, d, json_get(metadata, "labels"));
        const json *owners = json_get(metadata, "ownerReferences");
        if (d->owned || json_count(owners) > 0)
            write_owners(w, d, owners);
    }
    jw_object_end(w);
    return r;
}

int desired_check(const struct schema_node *type, const json *body, const struct step *at, struct err *e)
{
    int r = schema_check(type, body, at, e);
    return r < 0 ? r : meaning_check(type, body, at, e);
}

// The server says of such a key that its YAML reader found no ':', and not where.
static int refuse_long_key(const json *v, const struct step *at, struct err *e)
{
    enum { SHOWN = 60 };
    for (struct json_iter i = json_iter(v); json_next(&i);) {
        struct step below = {.up = at, .name = i.key, .index = i.index};
        if (i.key == NULL || !json_is_long_key(i.key, i.key_len)) {
            int r = refuse_long_key(i.value, &below, e);
            if (r < 0)
                return r;
            continue;
        }
        struct buf path;
        buf_init(&path, 4096);
        step_path(at, &path);
        int r = err_set(
            e, ERR_INVALID,
            "%s%sthe key \"%.*s...\" (%zu bytes) is longer than 1024 bytes, which the API server's YAML "
            "reader refuses: shorten it",
            path.len == 0 ? "" : path.data, path.len == 0 ? "" : ": ",
            (int)str_utf8_cut(i.key, i.key_len, SHOWN), i.key, i.key_len);
        buf_fini(&path);
        return r;
    }
    return 0;
}

int desired_write(const struct desired *d, struct buf *out, struct err *e)
{
    struct json_writer w;
    if (json_has_long_key(d->object))
        return refuse_long_key(d->object, place(d), e);
    jw_init(&w, out);
    jw_object(&w);
    jw_member_str(&w, "apiVersion", d->resource->gvk->api_version);
    jw_member_str(&w, "kind", d->resource->gvk->kind);
    int r = write_metadata(&w, d, json_get(d->object, "metadata"), e);
    for (struct json_iter i = json_iter(d->object); r == 0 && json_next(&i);) {
        if (str_eq(i.key, "apiVersion") || str_eq(i.key, "kind") || str_eq(i.key, "metadata") ||
            (str_eq(i.key, "status") && d->resource->has_status))
            continue; // an object that was read and returned carries its status
        r = write_member(&w, d->type, place(d), &i, e);
    }
    jw_object_end(&w);
    if (r < 0)
        return r;
    return w.failed || out->failed ? err_set(e, ERR_LIMIT, "the object is larger than 4 MiB") : 0;
}

bool desired_aim(const json *body, const char *uid, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    jw_members_without(&w, body, "metadata");
    jw_key(&w, "metadata");
    jw_object(&w);
    jw_members_without(&w, json_get(body, "metadata"), "resourceVersion");
    jw_member_str(&w, "uid", uid);
    jw_object_end(&w);
    jw_object_end(&w);
    return !w.failed && !out->failed;
}

static const json *find_condition(const json *conditions, const char *type)
{
    for (struct json_iter i = json_iter(conditions); json_next(&i);)
        if (type != NULL && str_eq(json_get_str(i.value, "type"), type))
            return i.value;
    return NULL;
}

static void write_condition(struct json_writer *w, const json *condition, const json *live, int64_t now_us)
{
    const char *since = json_get_str(live, "lastTransitionTime");
    char now[CLOCK_TEXT_MAX];
    if (since == NULL || !json_equal(json_get(live, "status"), json_get(condition, "status"))) {
        clock_format_time(now, now_us);
        since = now;
    }
    jw_object(w);
    for (struct json_iter i = json_iter(condition); json_next(&i);) {
        if (str_eq(i.key, "lastTransitionTime"))
            continue;
        jw_keyn(w, i.key, i.key_len);
        jw_value(w, i.value);
    }
    jw_member_str(w, "lastTransitionTime", since);
    jw_object_end(w);
}

static void write_conditions(struct json_writer *w, const json *conditions, const json *live, int64_t now_us)
{
    jw_array(w);
    for (struct json_iter i = json_iter(conditions); json_next(&i);) {
        const char *type = json_get_str(i.value, "type");
        if (type == NULL || json_get_str(i.value, "status") == NULL)
            jw_value(w, i.value); // not a condition as the API conventions know them
        else
            write_condition(w, i.value, find_condition(live, type), now_us);
    }
    jw_array_end(w);
}

static int write_status(struct json_writer *w, const struct schema_node *type, const json *status,
                        const json *live, int64_t now_us, struct err *e)
{
    static const struct step root, at = {.up = &root, .name = "status"};
    int r = 0;
    jw_object(w);
    for (struct json_iter i = json_iter(status); r == 0 && json_next(&i);) {
        if (!str_eq(i.key, "conditions") || !json_is_array(i.value)) {
            r = write_member(w, type, &at, &i, e);
            continue;
        }
        jw_key(w, "conditions");
        write_conditions(w, i.value, json_get(live, "conditions"), now_us);
    }
    jw_object_end(w);
    return r;
}

void desired_begin_identity(struct json_writer *w, const struct object *o)
{
    jw_member_str(w, "apiVersion", object_gvk(o)->api_version);
    jw_member_str(w, "kind", object_gvk(o)->kind);
    jw_key(w, "metadata");
    jw_object(w);
    jw_member_str(w, "name", object_name(o));
    if (object_namespace(o)[0] != '\0')
        jw_member_str(w, "namespace", object_namespace(o));
    jw_member_str(w, "uid", object_uid(o));
}

int desired_write_status(const struct object *subject, const struct schema_node *type, const json *live,
                         const json *status, int64_t now_us, struct buf *out, struct err *e)
{
    struct json_writer w;
    int r = 0;
    jw_init(&w, out);
    jw_object(&w);
    desired_begin_identity(&w, subject);
    jw_object_end(&w);
    if (status != NULL) {
        jw_key(&w, "status");
        r = write_status(&w, schema_member(type, "status", 6, NULL), status, json_get(live, "status"), now_us,
                         e);
    }
    jw_object_end(&w);
    if (r < 0)
        return r;
    return w.failed || out->failed ? err_set(e, ERR_LIMIT, "status is larger than 4 MiB") : 0;
}
