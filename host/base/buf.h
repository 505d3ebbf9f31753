// A growing byte buffer with a mandatory cap. Embedded by value; one owner; the bytes are always
// NUL-terminated. A write beyond the cap is dropped whole and sets `failed`, which stays set: check once at
// the end.
#ifndef BASE_BUF_H
#define BASE_BUF_H

#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>

struct buf {
    char *data; // NULL or NUL-terminated
    size_t len;
    size_t cap; // allocated
    size_t max; // never longer than this
    bool failed;
};

void buf_init(struct buf *b, size_t max);
void buf_fini(struct buf *b);
void buf_reset(struct buf *b);               // empties, keeps the memory, clears failed
int buf_reserve(struct buf *b, size_t more); // 0 or -ERR_LIMIT
int buf_add(struct buf *b, const void *data, size_t n);
int buf_add_str(struct buf *b, const char *s);
int buf_add_char(struct buf *b, char c);
int buf_addf(struct buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int buf_vaddf(struct buf *b, const char *fmt, va_list ap) __attribute__((format(printf, 2, 0)));
// Drops the first n bytes.
void buf_consume(struct buf *b, size_t n);
// Gives the bytes to the caller (free()) and leaves b empty; never NULL (an empty buffer gives "").
char *buf_take(struct buf *b, size_t *ret_len /* may be NULL */);

#endif
