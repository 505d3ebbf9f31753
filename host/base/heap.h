// A binary min-heap of embedded nodes, ordered by `due`, equal ones by the order of adding. One owner; the
// heap owns only its array.
#ifndef BASE_HEAP_H
#define BASE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct heap_node {
    uint64_t due;
    uint64_t order; // set by heap_add: counts up
    size_t place;   // 1-based place in the array; 0: not in a heap
};

struct heap {
    struct heap_node **nodes;
    size_t count, cap;
    uint64_t added; // so far
};

void heap_fini(struct heap *h);
void heap_add(struct heap *h, struct heap_node *n); // n->due is set; n is not in a heap
void heap_remove(struct heap *h, struct heap_node *n);
struct heap_node *heap_first(const struct heap *h); // the least due, or NULL

static inline bool heap_has(const struct heap_node *n)
{
    return n->place != 0;
}

#endif
