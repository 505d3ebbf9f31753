#include "base/buf.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"

void buf_init(struct buf *b, size_t max)
{
    *b = (struct buf){.max = max};
}

void buf_fini(struct buf *b)
{
    free(b->data);
    *b = (struct buf){.max = b->max};
}

void buf_reset(struct buf *b)
{
    b->len = 0;
    b->failed = false;
    if (b->data != NULL)
        b->data[0] = 0;
}

// Doubles, but never to more than the cap needs; a size that malloc refuses is like one beyond the cap.
int buf_reserve(struct buf *b, size_t more)
{
    if (more > b->max || b->len > b->max - more || b->len + more == SIZE_MAX) {
        b->failed = true;
        return -ERR_LIMIT;
    }
    size_t need = b->len + more + 1;
    if (need <= b->cap)
        return 0;
    size_t cap = b->cap < 64 ? 64 : b->cap;
    while (cap < need)
        cap = cap > SIZE_MAX / 2 ? need : cap * 2;
    if (b->max < SIZE_MAX && cap > b->max + 1)
        cap = b->max + 1;
    char *data = realloc(b->data, cap);
    if (data == NULL) {
        b->failed = true;
        return -ERR_LIMIT;
    }
    b->data = data;
    b->cap = cap;
    b->data[b->len] = 0;
    return 0;
}

int buf_add(struct buf *b, const void *data, size_t n)
{
    if (b->failed)
        return -ERR_LIMIT;
    int r = buf_reserve(b, n);
    if (r < 0)
        return r;
    if (n > 0)
        memcpy(b->data + b->len, data, n);
    b->len += n;
    b->data[b->len] = 0;
    return 0;
}

int buf_add_str(struct buf *b, const char *s)
{
    return buf_add(b, s, strlen(s));
}

int buf_add_char(struct buf *b, char c)
{
    return buf_add(b, &c, 1);
}

int buf_addf(struct buf *b, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int r = buf_vaddf(b, fmt, ap);
    va_end(ap);
    return r;
}

int buf_vaddf(struct buf *b, const char *fmt, va_list ap)
{
    if (b->failed)
        return -ERR_LIMIT;
    char small[256];
    va_list again;
    va_copy(again, ap);
    int n = vsnprintf(small, sizeof(small), fmt, ap);
    int r;
    if (n < 0) {
        b->failed = true;
        r = -ERR_LIMIT;
    } else if ((size_t)n < sizeof(small)) {
        r = buf_add(b, small, (size_t)n);
    } else {
        r = buf_reserve(b, (size_t)n);
        if (r == 0) {
            vsnprintf(b->data + b->len, (size_t)n + 1, fmt, again);
            b->len += (size_t)n;
        }
    }
    va_end(again);
    return r;
}

void buf_consume(struct buf *b, size_t n)
{
    ASSERT(n <= b->len);
    if (n == 0)
        return;
    memmove(b->data, b->data + n, b->len - n);
    b->len -= n;
    b->data[b->len] = 0;
}

char *buf_take(struct buf *b, size_t *ret_len)
{
    char *data = b->data != NULL ? b->data : xstrdup("");
    if (ret_len != NULL)
        *ret_len = b->len;
    *b = (struct buf){.max = b->max};
    return data;
}
