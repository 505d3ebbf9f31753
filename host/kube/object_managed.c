#include "kube/object_managed.h"

#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "base/strset.h"
#include "data/json_write.h"
#include "kube/object.h"

#define uthash_malloc(size) xmalloc(size)
#define uthash_free(p, size) free(p)
#include "base/hash_table.h"

enum { MANAGED_MAX = 4 << 20 };

struct object_managed {
    UT_hash_handle hh; // by text
    size_t refs;       // under the table's lock
    size_t len;
    size_t name_count;
    const char **names; // behind the text, in the same block
    char text[];
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct object_managed *table;
static size_t table_bytes;

static bool is_ours(const json *entry)
{
    const char *manager = json_get_str(entry, "manager");
    return manager != NULL && str_has_prefix(manager, "tidelock") &&
           strlen(manager) == json_str_len(json_get(entry, "manager"));
}

// Applied as a whole: the manager that the store's index is about.
static bool is_applied(const json *entry)
{
    const char *subresource = json_get_str(entry, "subresource");
    return is_ours(entry) && str_eq(json_get_str(entry, "operation"), "Apply") &&
           (subresource == NULL || subresource[0] == 0);
}

static void write_entry(struct json_writer *w, const json *entry)
{
    jw_object(w);
    jw_member_str(w, "manager", json_get_str(entry, "manager"));
    jw_member_str(w, "operation", json_get_str(entry, "operation"));
    const char *subresource = json_get_str(entry, "subresource");
    if (subresource != NULL && subresource[0] != 0)
        jw_member_str(w, "subresource", subresource);
    const json *fields = json_get(entry, "fieldsV1");
    if (json_is_object(fields))
        jw_member(w, "fieldsV1", fields);
    jw_object_end(w);
}

static struct object_managed *build(const json *entries, const struct buf *text)
{
    size_t names = 0;
    size_t bytes = 0;
    for (struct json_iter i = json_iter(entries); json_next(&i);) {
        if (is_applied(i.value)) {
            names++;
            bytes += json_str_len(json_get(i.value, "manager")) + 1;
        }
    }
    size_t at_names = (text->len + 1 + sizeof(char *) - 1) / sizeof(char *) * sizeof(char *);
    // text[] starts where the struct ends only because its size is a multiple of the alignment of a pointer.
    struct object_managed *m = xmalloc(sizeof(*m) + at_names + names * sizeof(char *) + bytes);
    memset(m, 0, sizeof(*m));
    memcpy(m->text, text->data, text->len + 1);
    m->len = text->len;
    m->names = (const char **)(void *)(m->text + at_names);
    char *s = (char *)(m->names + names);
    for (struct json_iter i = json_iter(entries); json_next(&i);) {
        if (is_applied(i.value)) {
            const json *manager = json_get(i.value, "manager");
            size_t n = json_str_len(manager) + 1;
            m->names[m->name_count++] = memcpy(s, json_str(manager), n);
            s += n;
        }
    }
    return m;
}

static struct object_managed *intern(const json *entries, const struct buf *text)
{
    struct object_managed *m;
    pthread_mutex_lock(&lock);
    HASH_FIND(hh, table, text->data, text->len, m);
    if (m == NULL) {
        m = build(entries, text);
        HASH_ADD_KEYPTR(hh, table, m->text, m->len, m);
        table_bytes += malloc_usable_size(m) + sizeof(size_t);
    }
    m->refs++;
    pthread_mutex_unlock(&lock);
    return m;
}

int object_managed_intern(const json *managed_fields, struct object_managed **ret, struct err *e)
{
    struct object_managed *m = NULL;
    struct buf text;
    struct json_writer w;
    size_t ours = 0;
    if (!json_is_array(managed_fields)) {
        *ret = NULL;
        return 0;
    }
    buf_init(&text, MANAGED_MAX);
    jw_init(&w, &text);
    jw_array(&w);
    for (struct json_iter i = json_iter(managed_fields); json_next(&i);) {
        if (is_ours(i.value)) {
            write_entry(&w, i.value);
            ours++;
        }
    }
    jw_array_end(&w);
    int r = 0;
    if (w.failed || text.failed)
        r = err_set(e, ERR_LIMIT, "metadata.managedFields: our entries take more than %d bytes", MANAGED_MAX);
    else if (ours > 0)
        m = intern(managed_fields, &text);
    buf_fini(&text);
    if (r == 0)
        *ret = m;
    return r;
}

void object_managed_unref(struct object_managed *m)
{
    if (m == NULL)
        return;
    pthread_mutex_lock(&lock);
    bool last = --m->refs == 0;
    if (last) {
        table_bytes -= malloc_usable_size(m) + sizeof(size_t);
        HASH_DEL(table, m);
    }
    pthread_mutex_unlock(&lock);
    if (last)
        free(m);
}

const char *object_managed_text(const struct object_managed *m, size_t *ret_len)
{
    if (ret_len != NULL)
        *ret_len = m != NULL ? m->len : 2;
    return m != NULL ? m->text : "[]";
}

size_t object_managed_names(const struct object_managed *m, const char *const **ret)
{
    if (ret != NULL)
        *ret = m != NULL ? m->names : NULL;
    return m != NULL ? m->name_count : 0;
}

size_t object_interned_bytes(void)
{
    pthread_mutex_lock(&lock);
    size_t n = table_bytes;
    if (table != NULL)
        n += sizeof(UT_hash_table) + table->hh.tbl->num_buckets * sizeof(UT_hash_bucket);
    pthread_mutex_unlock(&lock);
    return n;
}
