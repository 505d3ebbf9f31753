// Memory of one request (or of one kind's schema): allocated piece by piece, given back all at once. One
// owner thread.
#ifndef APISERVER_ARENA_H
#define APISERVER_ARENA_H

#include <stddef.h>

struct arena_chunk;

struct arena {
    struct arena_chunk *chunks;
    size_t left; // bytes unused at the end of the newest chunk
    char *next;
};

void arena_init(struct arena *a);
void arena_fini(struct arena *a);
void *arena_zalloc(struct arena *a, size_t n); // aligned for any type, zeroed
char *arena_strndup(struct arena *a, const char *s, size_t n);
char *arena_strdup(struct arena *a, const char *s); // NULL gives NULL
char *arena_printf(struct arena *a, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
