// The inside of a schema, for kube/schema.c and kube/schema_compile.c.
#ifndef KUBE_SCHEMA_IMPL_H
#define KUBE_SCHEMA_IMPL_H

#include <stdatomic.h>
#include <sys/queue.h>

#include "kube/schema.h"

struct schema_chunk {
    SLIST_ENTRY(schema_chunk) link;
    size_t used, size;
    _Alignas(max_align_t) char data[];
};

struct schema {
    atomic_uint refs;
    SLIST_HEAD(, schema_chunk) chunks; // all of its memory but the defaults
    struct json_doc *defaults;         // NULL: none
    struct schema_field *kinds;        // sorted by name
    size_t kind_count;
    size_t bytes;
};

void *schema_alloc(struct schema *s, size_t n); // zeroed
int schema_field_by_name(const void *left, const void *right);

#endif
