#include "run/apply/adopt.h"

#include "data/json_write.h"

enum { MERGED_MAX = 64 }; // entries of one object that are taken over; more stay with their managers

// The union of sets, member by member.
static void write_union(struct json_writer *w, const json *const *sets, size_t n)
{
    jw_object(w);
    for (size_t i = 0; i < n; i++) {
        for (struct json_iter it = json_iter(sets[i]); json_next(&it);) {
            const json *same[MERGED_MAX];
            size_t count = 0;
            bool written = false; // by an earlier set
            for (size_t k = 0; k < i; k++)
                written |= json_getn(sets[k], it.key, it.key_len) != NULL;
            for (size_t k = i; !written && k < n; k++)
                if (json_getn(sets[k], it.key, it.key_len) != NULL)
                    same[count++] = json_getn(sets[k], it.key, it.key_len);
            if (written)
                continue;
            jw_keyn(w, it.key, it.key_len);
            write_union(w, same, count);
        }
    }
    jw_object_end(w);
}

static bool is_taken(const json *entry, const struct strset *managers, const char *manager)
{
    const char *name = json_get_str(entry, "manager");
    const char *subresource = json_get_str(entry, "subresource");
    return name != NULL && (subresource == NULL || subresource[0] == '\0') &&
           (str_eq(name, manager) || strset_has(managers, name));
}

static void write_entries(struct json_writer *w, const json *entries, const struct strset *managers,
                          const char *manager, const char *api_version)
{
    const json *sets[MERGED_MAX];
    size_t n = 0;
    jw_array(w);
    for (struct json_iter i = json_iter(entries); json_next(&i);) {
        if (n < MERGED_MAX && is_taken(i.value, managers, manager))
            sets[n++] = json_get(i.value, "fieldsV1");
        else
            jw_value(w, i.value);
    }
    jw_object(w);
    jw_member_str(w, "manager", manager);
    jw_member_str(w, "operation", "Apply");
    jw_member_str(w, "apiVersion", api_version);
    jw_member_str(w, "fieldsType", "FieldsV1");
    jw_key(w, "fieldsV1");
    write_union(w, sets, n);
    jw_object_end(w);
    jw_array_end(w);
}

void adopt_write_patch(const json *object, const struct strset *managers, const char *manager,
                       const char *api_version, struct buf *out)
{
    struct json_writer w;
    const json *metadata = json_get(object, "metadata");
    jw_init(&w, out);
    jw_array(&w);
    jw_object(&w);
    jw_member_str(&w, "op", "replace");
    jw_member_str(&w, "path", "/metadata/managedFields");
    jw_key(&w, "value");
    write_entries(&w, json_get(metadata, "managedFields"), managers, manager, api_version);
    jw_object_end(&w);
    jw_object(&w);
    jw_member_str(&w, "op", "replace"); // a precondition
    jw_member_str(&w, "path", "/metadata/resourceVersion");
    jw_member(&w, "value", json_get(metadata, "resourceVersion"));
    jw_object_end(&w);
    jw_array_end(&w);
}
