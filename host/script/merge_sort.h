// A merge sort: stable, no input makes it slow, and it owns nothing, so that the comparison may raise. In the
// header because with a constant size and comparison it is as fast as one written for them.
#ifndef SCRIPT_MERGE_SORT_H
#define SCRIPT_MERGE_SORT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

enum { MERGE_SORT_SHORT = 8 }; // so many are sorted by insertion

struct merge_sort {
    size_t size; // of an item
    bool (*less)(void *ud, const void *a, const void *b);
    void *ud;
    char *spare; // room for half of the items, and for one at least
};

static inline void merge_sort_insert(const struct merge_sort *s, char *items, size_t n)
{
    size_t size = s->size;
    for (size_t i = 1; i < n; i++) {
        size_t j = i;
        memcpy(s->spare, items + i * size, size);
        while (j > 0 && s->less(s->ud, s->spare, items + (j - 1) * size))
            j--;
        memmove(items + (j + 1) * size, items + j * size, (i - j) * size);
        memcpy(items + j * size, s->spare, size);
    }
}

static inline void merge_sort(const struct merge_sort *s, char *items, size_t n)
{
    size_t size = s->size, half = n / 2;
    if (n <= MERGE_SORT_SHORT) {
        merge_sort_insert(s, items, n);
        return;
    }
    merge_sort(s, items, half);
    merge_sort(s, items + half * size, n - half);
    if (!s->less(s->ud, items + half * size, items + (half - 1) * size))
        return; // in order already
    memcpy(s->spare, items, half * size);
    char *to = items;
    const char *a = s->spare, *a_end = s->spare + half * size;
    const char *b = items + half * size, *b_end = items + n * size;
    for (; a < a_end; to += size) {
        const char **from = b == b_end || !s->less(s->ud, b, a) ? &a : &b;
        memmove(to, *from, size);
        *from += size;
    }
}

#endif
