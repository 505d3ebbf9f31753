// Small allocations, which abort when memory is out: a pod is killed by the kernel before malloc fails.
// Never for a size that the network or a script decides: those use struct buf with its cap. Any thread.
#ifndef BASE_ALLOC_H
#define BASE_ALLOC_H

#include <stddef.h>

void *xmalloc(size_t size);
void *xcalloc(size_t count, size_t size);
void *xrealloc(void *p, size_t size);
void *xreallocarray(void *p, size_t count, size_t size); // checks the product
char *xstrdup(const char *s);                            // NULL gives NULL
char *xstrndup(const char *s, size_t n);
void *xmemdup(const void *p, size_t n); // NUL is put behind it
char *xasprintf(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

// Frees go back to the system: a block above 1 MiB at once, of a thread's free memory all but 1 MiB. glibc
// would raise both limits to what the largest block freed had, up to 64 MiB a thread, so that one large
// document would cost that for ever. First thing in a program; has no effect on other allocators.
void alloc_give_back(void);

#endif
