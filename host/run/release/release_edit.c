#include "run/release/release_edit.h"

#include <stdio.h>
#include <string.h>

#include "base/strset.h"
#include "data/json_write.h"
#include "run/source/marks.h"

enum { HASH_LEN = MARKS_HASH_MAX - 1 };

static const char *const labels[] = {MARKS_LABEL_SCRIPT, MARKS_LABEL_OWNER, MARKS_LABEL_ORDER,
                                     MARKS_LABEL_KEEP};
static const char *const label_paths[] = {
    "/metadata/labels/tidelock.dev~1script", "/metadata/labels/tidelock.dev~1owner-uid",
    "/metadata/labels/tidelock.dev~1order", "/metadata/labels/tidelock.dev~1keep"};
enum { LABELS = sizeof labels / sizeof labels[0] };

void release_identity_init(struct release_identity *i, const char *instance, const char *ns, const char *name)
{
    marks_script_hash(i->hash, instance, ns, name);
    marks_manager(i->manager, name, i->hash);
    marks_finalizer(i->finalizer, i->hash);
    marks_report_manager(i->report, i->hash);
}

// ---- managers

// What follows the script's manager in the name: "", "-status", "-finalizer", "-16 hex digits"; NULL: it is
// not the script's.
static const char *suffix_of(const struct release_identity *from, const char *manager)
{
    size_t n = strlen(from->manager);
    if (manager == NULL || strncmp(manager, from->manager, n) != 0)
        return NULL;
    const char *rest = manager + n;
    bool hash =
        rest[0] == '-' && strlen(rest) == HASH_LEN + 1 && strspn(rest + 1, "0123456789abcdef") == HASH_LEN;
    bool known = rest[0] == '\0' || strcmp(rest, "-status") == 0 || strcmp(rest, "-finalizer") == 0;
    return hash || known ? rest : NULL;
}

const char *release_edit_patch_manager(const struct release_identity *from, const json *entry)
{
    const char *manager = json_get_str(entry, "manager");
    const char *rest = suffix_of(from, manager);
    return rest != NULL && strlen(rest) == HASH_LEN + 1 && json_get_str(entry, "subresource") == NULL
               ? manager
               : NULL;
}

static bool is_ours(const struct release_identity *from, const json *entry)
{
    const char *manager = json_get_str(entry, "manager");
    return suffix_of(from, manager) != NULL || str_eq(manager, from->report);
}

static void rename_manager(const struct release_identity *from, const struct release_identity *to,
                           const char *manager, char out[MARKS_MANAGER_MAX])
{
    const char *rest = suffix_of(from, manager);
    if (rest == NULL)
        snprintf(out, MARKS_MANAGER_MAX, "%s", to->report);
    else
        snprintf(out, MARKS_MANAGER_MAX, "%.100s%s", to->manager, rest);
}

static bool has_manager(const json *entries, const char *manager, const char *subresource)
{
    for (struct json_iter i = json_iter(entries); json_next(&i);)
        if (str_eq(json_get_str(i.value, "manager"), manager) &&
            str_eq(json_get_str(i.value, "operation"), "Apply") &&
            str_eq(json_get_str(i.value, "subresource"), subresource))
            return true;
    return false;
}

static void write_renamed(struct json_writer *w, const json *entry, const char *manager)
{
    jw_object(w);
    for (struct json_iter i = json_iter(entry); json_next(&i);) {
        if (strcmp(i.key, "manager") == 0)
            jw_member_str(w, "manager", manager);
        else
            jw_member(w, i.key, i.value);
    }
    jw_object_end(w);
}

// All entries, ours left out or renamed. An empty list would mean "as it was": [{}] means none.
static void write_entries(struct json_writer *w, const struct release_identity *from,
                          const struct release_identity *to, const json *entries)
{
    char name[MARKS_MANAGER_MAX];
    size_t n = 0;
    jw_array(w);
    for (struct json_iter i = json_iter(entries); json_next(&i);) {
        if (!is_ours(from, i.value)) {
            jw_value(w, i.value);
            n++;
        } else if (to != NULL) {
            rename_manager(from, to, json_get_str(i.value, "manager"), name);
            if (has_manager(entries, name, json_get_str(i.value, "subresource")))
                continue; // he holds something of it already: that stays
            write_renamed(w, i.value, name);
            n++;
        }
    }
    if (n == 0) {
        jw_object(w);
        jw_object_end(w);
    }
    jw_array_end(w);
}

// ---- the patch

static void begin_op(struct json_writer *w, const char *op, const char *path)
{
    jw_object(w);
    jw_member_str(w, "op", op);
    jw_member_str(w, "path", path);
}

// Of this object in this version only.
static void write_preconditions(struct json_writer *w, const json *metadata)
{
    begin_op(w, "test", "/metadata/uid");
    jw_member(w, "value", json_get(metadata, "uid"));
    jw_object_end(w);
    begin_op(w, "replace", "/metadata/resourceVersion");
    jw_member(w, "value", json_get(metadata, "resourceVersion"));
    jw_object_end(w);
}

static void write_labels(struct json_writer *w, const struct release_identity *to, const json *metadata)
{
    if (to != NULL) {
        begin_op(w, "replace", label_paths[0]);
        jw_member_str(w, "value", to->hash);
        jw_object_end(w);
        return;
    }
    for (size_t i = 0; i < LABELS; i++)
        if (json_get(json_get(metadata, "labels"), labels[i]) != NULL) {
            begin_op(w, "remove", label_paths[i]);
            jw_object_end(w);
        }
}

static void write_owners(struct json_writer *w, const json *metadata)
{
    const json *owners = json_get(metadata, "ownerReferences");
    const char *subject = json_get_str(json_get(metadata, "labels"), MARKS_LABEL_OWNER);
    if (json_count(owners) == 0)
        return;
    begin_op(w, "replace", "/metadata/ownerReferences");
    jw_key(w, "value");
    jw_array(w);
    for (struct json_iter i = json_iter(owners); json_next(&i);)
        if (!str_eq(json_get_str(i.value, "uid"), subject))
            jw_value(w, i.value);
    jw_array_end(w);
    jw_object_end(w);
}

static void write_finalizers(struct json_writer *w, const struct release_identity *from,
                             const struct release_identity *to, const json *metadata)
{
    const json *finalizers = json_get(metadata, "finalizers");
    bool has_new = false;
    if (json_count(finalizers) == 0)
        return;
    for (struct json_iter i = json_iter(finalizers); json_next(&i);)
        has_new |= to != NULL && str_eq(json_str(i.value), to->finalizer);
    begin_op(w, "replace", "/metadata/finalizers");
    jw_key(w, "value");
    jw_array(w);
    for (struct json_iter i = json_iter(finalizers); json_next(&i);) {
        if (!str_eq(json_str(i.value), from->finalizer))
            jw_value(w, i.value);
        else if (to != NULL && !has_new)
            jw_str(w, to->finalizer);
    }
    jw_array_end(w);
    jw_object_end(w);
}

static void write_managers(struct json_writer *w, const struct release_identity *from,
                           const struct release_identity *to, const json *metadata)
{
    if (json_count(json_get(metadata, "managedFields")) == 0)
        return;
    begin_op(w, "replace", "/metadata/managedFields");
    jw_key(w, "value");
    write_entries(w, from, to, json_get(metadata, "managedFields"));
    jw_object_end(w);
}

void release_edit_write(enum release_role role, const struct release_identity *from,
                        const struct release_identity *to, const json *metadata, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_array(&w);
    write_preconditions(&w, metadata);
    if (role == RELEASE_CHILD)
        write_labels(&w, to, metadata);
    if (role == RELEASE_CHILD && to == NULL)
        write_owners(&w, metadata);
    if (role == RELEASE_SUBJECT)
        write_finalizers(&w, from, to, metadata);
    write_managers(&w, from, to, metadata);
    jw_array_end(&w);
}

void release_edit_write_entries(const struct release_identity *from, const struct release_identity *to,
                                const json *metadata, const json *now, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_array(&w);
    write_preconditions(&w, now);
    write_managers(&w, from, to, metadata);
    jw_array_end(&w);
}

bool release_edit_concerns(enum release_role role, const struct release_identity *from, const json *metadata)
{
    bool managed = false, patched = false, finalizer = false;
    for (struct json_iter i = json_iter(json_get(metadata, "managedFields")); json_next(&i);) {
        managed |= is_ours(from, i.value);
        patched |= release_edit_patch_manager(from, i.value) != NULL;
    }
    for (struct json_iter i = json_iter(json_get(metadata, "finalizers")); json_next(&i);)
        finalizer |= str_eq(json_str(i.value), from->finalizer);
    if (role == RELEASE_PATCHED)
        return patched;
    if (role == RELEASE_SUBJECT)
        return managed || finalizer;
    // Labels are copied by others: only what the script applied is its child.
    return managed && str_eq(json_get_str(json_get(metadata, "labels"), MARKS_LABEL_SCRIPT), from->hash);
}
