#include "base/heap.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

void heap_fini(struct heap *h)
{
    free(h->nodes);
    *h = (struct heap){0};
}

static bool is_before(const struct heap_node *a, const struct heap_node *b)
{
    return a->due != b->due ? a->due < b->due : a->order < b->order;
}

static void put(struct heap *h, size_t i, struct heap_node *n)
{
    h->nodes[i] = n;
    n->place = i + 1;
}

static void rise(struct heap *h, size_t i)
{
    struct heap_node *n = h->nodes[i];
    for (; i > 0 && is_before(n, h->nodes[(i - 1) / 2]); i = (i - 1) / 2)
        put(h, i, h->nodes[(i - 1) / 2]);
    put(h, i, n);
}

static void sink(struct heap *h, size_t i)
{
    struct heap_node *n = h->nodes[i];
    for (size_t child; (child = 2 * i + 1) < h->count; i = child) {
        if (child + 1 < h->count && is_before(h->nodes[child + 1], h->nodes[child]))
            child++;
        if (!is_before(h->nodes[child], n))
            break;
        put(h, i, h->nodes[child]);
    }
    put(h, i, n);
}

void heap_add(struct heap *h, struct heap_node *n)
{
    DASSERT(!heap_has(n));
    if (h->count == h->cap) {
        h->cap = h->cap == 0 ? 16 : h->cap * 2;
        h->nodes = xreallocarray(h->nodes, h->cap, sizeof h->nodes[0]);
    }
    n->order = ++h->added;
    put(h, h->count++, n);
    rise(h, h->count - 1);
}

void heap_remove(struct heap *h, struct heap_node *n)
{
    DASSERT(heap_has(n));
    size_t i = n->place - 1;
    n->place = 0;
    struct heap_node *last = h->nodes[--h->count];
    if (last == n)
        return;
    put(h, i, last);
    rise(h, i);
    sink(h, last->place - 1);
}

struct heap_node *heap_first(const struct heap *h)
{
    return h->count == 0 ? NULL : h->nodes[0];
}
