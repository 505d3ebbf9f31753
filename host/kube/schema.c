#include "kube/schema.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kube/schema_impl.h"

enum { CHUNK = 4096 };

void *schema_alloc(struct schema *s, size_t n)
{
    n = (n + 7) & ~(size_t)7;
    struct schema_chunk *c = SLIST_FIRST(&s->chunks);
    if (c == NULL || c->size - c->used < n) {
        size_t size = n > CHUNK ? n : CHUNK;
        c = xcalloc(1, sizeof(*c) + size);
        c->size = size;
        s->bytes += sizeof(*c) + size;
        SLIST_INSERT_HEAD(&s->chunks, c, link);
    }
    void *p = c->data + c->used;
    c->used += n;
    return p;
}

struct schema *schema_ref(struct schema *s)
{
    atomic_fetch_add_explicit(&s->refs, 1, memory_order_relaxed);
    return s;
}

void schema_unref(struct schema *s)
{
    if (s == NULL || atomic_fetch_sub_explicit(&s->refs, 1, memory_order_acq_rel) != 1)
        return;
    struct schema_chunk *c;
    while ((c = SLIST_FIRST(&s->chunks)) != NULL) {
        SLIST_REMOVE_HEAD(&s->chunks, link);
        free(c);
    }
    if (s->defaults != NULL)
        json_doc_free(s->defaults);
    free(s);
}

size_t schema_bytes(const struct schema *s)
{
    return s->bytes + sizeof(*s);
}

int schema_field_by_name(const void *left, const void *right)
{
    const struct schema_field *a = left, *b = right;
    return strcmp(a->name, b->name);
}

static const struct schema_field *find(const struct schema_field *fields, size_t count, const char *name,
                                       size_t n)
{
    size_t low = 0, high = count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int c = strncmp(name, fields[middle].name, n);
        if (c == 0)
            c = fields[middle].name[n] == '\0' ? 0 : -1;
        if (c == 0)
            return &fields[middle];
        if (c < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const struct schema_node *schema_kind(const struct schema *s, const char *kind)
{
    const struct schema_field *f = find(s->kinds, s->kind_count, kind, strlen(kind));
    return f == NULL ? NULL : f->type;
}

const struct schema_node *schema_member(const struct schema_node *object, const char *name, size_t n,
                                        const json **ret_fallback)
{
    if (ret_fallback != NULL)
        *ret_fallback = NULL;
    if (object == NULL || object->type != SCHEMA_OBJECT)
        return NULL;
    const struct schema_field *f = find(object->fields, object->field_count, name, n);
    if (f == NULL)
        return object->items;
    if (ret_fallback != NULL)
        *ret_fallback = f->fallback;
    return f->type;
}

bool schema_has_member(const struct schema_node *object, const char *name, size_t n)
{
    return find(object->fields, object->field_count, name, n) != NULL;
}
