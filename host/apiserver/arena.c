#include "apiserver/arena.h"

#include <stdalign.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"

enum { CHUNK_BYTES = 16 * 1024 };

struct arena_chunk {
    struct arena_chunk *before;
    alignas(max_align_t) char bytes[];
};

void arena_init(struct arena *a)
{
    *a = (struct arena){0};
}

void arena_fini(struct arena *a)
{
    while (a->chunks != NULL) {
        struct arena_chunk *c = a->chunks;
        a->chunks = c->before;
        free(c);
    }
    arena_init(a);
}

void *arena_zalloc(struct arena *a, size_t n)
{
    n = (n + alignof(max_align_t) - 1) & ~(alignof(max_align_t) - 1);
    if (n > a->left) {
        size_t size = n > CHUNK_BYTES ? n : CHUNK_BYTES;
        struct arena_chunk *c = xcalloc(1, sizeof(*c) + size);
        c->before = a->chunks;
        a->chunks = c;
        a->next = c->bytes;
        a->left = size;
    }
    void *p = a->next;
    a->next += n;
    a->left -= n;
    return p;
}

char *arena_strndup(struct arena *a, const char *s, size_t n)
{
    char *copy = arena_zalloc(a, n + 1);
    memcpy(copy, s, n);
    return copy;
}

char *arena_strdup(struct arena *a, const char *s)
{
    return s == NULL ? NULL : arena_strndup(a, s, strlen(s));
}

char *arena_printf(struct arena *a, const char *fmt, ...)
{
    va_list ap, again;
    va_start(ap, fmt);
    va_copy(again, ap);
    int n = vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    char *text = arena_zalloc(a, (size_t)n + 1);
    vsnprintf(text, (size_t)n + 1, fmt, again);
    va_end(again);
    return text;
}
