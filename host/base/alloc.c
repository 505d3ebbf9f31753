#include "base/alloc.h"

#include <malloc.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

// No stdio: it may allocate.
static void *checked(void *p)
{
    if (p == NULL) {
        static const char text[] = "tidelock: out of memory\n";
        ssize_t n = write(STDERR_FILENO, text, sizeof(text) - 1);
        (void)n;
        abort();
    }
    return p;
}

void *xmalloc(size_t size)
{
    return checked(malloc(size > 0 ? size : 1));
}

void *xcalloc(size_t count, size_t size)
{
    return checked(count > 0 && size > 0 ? calloc(count, size) : calloc(1, 1));
}

void *xrealloc(void *p, size_t size)
{
    return checked(realloc(p, size > 0 ? size : 1));
}

void *xreallocarray(void *p, size_t count, size_t size)
{
    size_t total;
    if (__builtin_mul_overflow(count, size, &total))
        return checked(NULL);
    return xrealloc(p, total);
}

char *xstrdup(const char *s)
{
    return s != NULL ? xmemdup(s, strlen(s)) : NULL;
}

char *xstrndup(const char *s, size_t n)
{
    return xmemdup(s, strnlen(s, n));
}

void *xmemdup(const void *p, size_t n)
{
    char *copy = checked(n < SIZE_MAX ? malloc(n + 1) : NULL);
    if (n > 0)
        memcpy(copy, p, n);
    copy[n] = 0;
    return copy;
}

char *xasprintf(const char *fmt, ...)
{
    char *text;
    va_list ap;
    va_start(ap, fmt);
    int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    return checked(n >= 0 ? text : NULL);
}

void alloc_give_back(void)
{
    enum { KEEP = 1 << 20 };
    mallopt(M_MMAP_THRESHOLD, KEEP);
    mallopt(M_TRIM_THRESHOLD, KEEP);
}
