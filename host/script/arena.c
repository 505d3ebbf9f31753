#include "script/arena.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/assert.h"

enum {
    GRAIN = 16, // alignment and step of the small classes
    BIRTH_GRAINS = 4,
    SMALL_MAX = 512,   // classes of 16, 32 .. 512
    BLOCK_MAX = 65536, // above SMALL_MAX four classes for each power of two, up to this
    CLASSES = SMALL_MAX / GRAIN + 4 * 7,
    CHUNK_FIRST = 512 * 1024,
    CHUNK_MAX = 4 * 1024 * 1024, // and what each is aligned to
};
_Static_assert(ARENA_IMAGE_MAX == CHUNK_FIRST / 4 * 3, "an image fits into the blocks of the first chunk");

// A quarter of it says of each grain when the block in it was made; the blocks stand behind that.
struct chunk {
    TAILQ_ENTRY(chunk) link;
    char *base;
    size_t size;
};

// A block above BLOCK_MAX: malloc's, so that it grows by remapping and goes back at once.
struct large {
    LIST_ENTRY(large) link;
    size_t size;
    char pad[8];
    char data[] __attribute__((aligned(GRAIN)));
};

struct free_block {
    struct free_block *next;
};

// What a reset has to put back.
struct position {
    struct chunk *chunk; // bytes are cut from here
    char *next;
    char *end;
    struct free_block *free[CLASSES];
    size_t live;
    uint32_t births; // blocks made
};

struct arena {
    struct position at;
    TAILQ_HEAD(chunk_list, chunk) chunks;
    LIST_HEAD(, large) larges;
    size_t mapped;
    size_t in_use; // of mapped: the blocks of chunks entered since the reset, and large ones; what was added
    size_t peak;
    size_t soft, hard;
    bool soft_told;
    void (*on_soft)(void *ud);
    void (*on_hard)(void *ud);
    void *limit_ud;
    void *owner;
    struct position saved;
    char *image; // the blocks, then their births
    size_t image_len;
};

static int class_of(size_t size)
{
    if (size <= SMALL_MAX)
        return (int)((size - 1) / GRAIN);
    int power = 63 - __builtin_clzll(size - 1); // size is in (2^power, 2^(power+1)]
    size_t quarter = ((size - 1) >> (power - 2)) & 3;
    return SMALL_MAX / GRAIN + 4 * (power - 9) + (int)quarter;
}

static size_t class_size(int class)
{
    if (class < SMALL_MAX / GRAIN)
        return (size_t)(class + 1) * GRAIN;
    int step = class - SMALL_MAX / GRAIN;
    int power = 9 + step / 4;
    return ((size_t)1 << power) + (size_t)(step % 4 + 1) * ((size_t)1 << (power - 2));
}

static char *blocks_of(const struct chunk *c)
{
    return c->base + c->size / 4;
}

static size_t blocks_size(size_t chunk_size)
{
    return chunk_size / 4 * 3;
}

// Where the birth of the block at p stands.
static uint32_t *birth_of(const void *p)
{
    size_t offset = (uintptr_t)p % CHUNK_MAX;
    return (uint32_t *)((char *)p - offset) + offset / GRAIN;
}

static char *map_aligned(size_t size)
{
    char *p = mmap(NULL, size + CHUNK_MAX, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
    size_t before = -(uintptr_t)p % CHUNK_MAX;
    if (before > 0)
        munmap(p, before);
    munmap(p + before + size, CHUNK_MAX - before);
    return p + before;
}

static struct chunk *chunk_add(struct arena *a, size_t size)
{
    char *base = map_aligned(size);
    if (base == NULL)
        return NULL;
    struct chunk *c = xmalloc(sizeof(*c));
    c->base = base;
    c->size = size;
    TAILQ_INSERT_TAIL(&a->chunks, c, link);
    a->mapped += size;
    return c;
}

static void enter_chunk(struct arena *a, struct chunk *c)
{
    a->in_use += blocks_size(c->size);
    a->at.chunk = c;
    a->at.next = blocks_of(c);
    a->at.end = c->base + c->size;
}

struct arena *arena_new(void)
{
    struct arena *a = xcalloc(1, sizeof(*a));
    TAILQ_INIT(&a->chunks);
    LIST_INIT(&a->larges);
    struct chunk *c = chunk_add(a, CHUNK_FIRST);
    ASSERT(c != NULL);
    enter_chunk(a, c);
    return a;
}

static void free_larges(struct arena *a)
{
    struct large *l;
    while ((l = LIST_FIRST(&a->larges)) != NULL) {
        LIST_REMOVE(l, link);
        a->mapped -= l->size;
        a->in_use -= l->size;
        free(l);
    }
}

// Chunks behind the first `keep` bytes; the first one always stays.
static void free_chunks(struct arena *a, size_t keep)
{
    struct chunk *last = TAILQ_FIRST(&a->chunks);
    size_t sum = last->size;
    while (TAILQ_NEXT(last, link) != NULL && sum + TAILQ_NEXT(last, link)->size <= keep) {
        last = TAILQ_NEXT(last, link);
        sum += last->size;
    }
    struct chunk *c;
    while ((c = TAILQ_NEXT(last, link)) != NULL) {
        TAILQ_REMOVE(&a->chunks, c, link);
        munmap(c->base, c->size);
        a->mapped -= c->size;
        free(c);
    }
}

void arena_free(struct arena *a)
{
    if (a == NULL)
        return;
    free_larges(a);
    free_chunks(a, 0);
    struct chunk *c = TAILQ_FIRST(&a->chunks);
    munmap(c->base, c->size);
    free(c);
    free(a->image);
    free(a);
}

void arena_limit(struct arena *a, size_t soft, size_t hard, void (*on_soft)(void *ud), void *ud)
{
    a->soft = soft;
    a->hard = hard;
    a->on_soft = on_soft;
    a->limit_ud = ud;
    a->soft_told = false;
}

void arena_on_hard(struct arena *a, void (*on_hard)(void *ud))
{
    a->on_hard = on_hard;
}

// Is there room for so many more bytes, live and in use?
static bool within_hard(const struct arena *a, size_t live, size_t in_use)
{
    if (a->hard == 0)
        return true;
    return live <= a->hard - (a->at.live < a->hard ? a->at.live : a->hard) &&
           in_use <= a->hard - (a->in_use < a->hard ? a->in_use : a->hard);
}

size_t arena_left(const struct arena *a)
{
    size_t most = a->at.live > a->in_use ? a->at.live : a->in_use;
    return a->hard == 0 ? SIZE_MAX : a->hard - (most < a->hard ? most : a->hard);
}

static void *refuse(struct arena *a)
{
    if (a->on_hard != NULL)
        a->on_hard(a->limit_ud);
    return NULL;
}

static void count(struct arena *a, size_t more)
{
    a->at.live += more;
    if (a->at.live > a->peak)
        a->peak = a->at.live;
    if (a->soft != 0 && a->at.live > a->soft && !a->soft_told) {
        a->soft_told = true;
        if (a->on_soft != NULL)
            a->on_soft(a->limit_ud);
    }
}

static void uncount(struct arena *a, size_t less)
{
    a->at.live -= less;
    if (a->soft_told && a->at.live < a->soft - a->soft / 4)
        a->soft_told = false;
}

void arena_add(struct arena *a, size_t n)
{
    a->in_use += n;
    count(a, n);
}

void arena_sub(struct arena *a, size_t n)
{
    a->in_use -= n;
    uncount(a, n);
}

// The next chunk: one kept from before, or a new one twice as large as the last.
static bool next_chunk(struct arena *a)
{
    struct chunk *c = TAILQ_NEXT(a->at.chunk, link);
    size_t size = a->at.chunk->size * 2 > CHUNK_MAX ? CHUNK_MAX : a->at.chunk->size * 2;
    if (!within_hard(a, 0, blocks_size(c != NULL ? c->size : size)))
        return false;
    if (c == NULL && (c = chunk_add(a, size)) == NULL)
        return false;
    enter_chunk(a, c);
    return true;
}

// In each of the block's first grains: what is asked for may be the address behind a header.
static void give_birth(struct arena *a, const void *p, size_t size)
{
    uint32_t *birth = birth_of(p);
    a->at.births++;
    for (size_t i = 0; i < BIRTH_GRAINS && i * GRAIN < size; i++)
        birth[i] = a->at.births;
}

static void *take(struct arena *a, size_t size)
{
    int class = class_of(size);
    size = class_size(class);
    if (!within_hard(a, size, 0))
        return NULL;
    struct free_block *b = a->at.free[class];
    if (b != NULL) {
        a->at.free[class] = b->next;
    } else {
        if ((size_t)(a->at.end - a->at.next) < size && !next_chunk(a))
            return NULL;
        b = (struct free_block *)a->at.next;
        a->at.next += size;
    }
    count(a, size);
    give_birth(a, b, size);
    return b;
}

static void give(struct arena *a, void *p, size_t size)
{
    int class = class_of(size);
    struct free_block *b = p;
    b->next = a->at.free[class];
    a->at.free[class] = b;
    uncount(a, class_size(class));
}

static struct large *large_of(void *p)
{
    return (struct large *)((char *)p - offsetof(struct large, data));
}

// A new large block, or `old` with another size; its contents come along.
static void *take_large(struct arena *a, struct large *old, size_t size)
{
    size_t had = old != NULL ? old->size : 0;
    size_t more = size > had ? size - had : 0;
    if (!within_hard(a, more, more) || size > SIZE_MAX - sizeof(*old))
        return NULL;
    if (old != NULL)
        LIST_REMOVE(old, link);
    struct large *l = realloc(old, sizeof(*l) + size);
    if (l == NULL) {
        if (old != NULL)
            LIST_INSERT_HEAD(&a->larges, old, link);
        return NULL;
    }
    l->size = size;
    LIST_INSERT_HEAD(&a->larges, l, link);
    a->mapped += size - had;
    a->in_use += size - had;
    if (size < had)
        uncount(a, had - size);
    else
        count(a, more);
    return l->data;
}

static void give_large(struct arena *a, struct large *l)
{
    LIST_REMOVE(l, link);
    a->mapped -= l->size;
    a->in_use -= l->size;
    uncount(a, l->size);
    free(l);
}

static void give_any(struct arena *a, void *p, size_t size)
{
    if (size > BLOCK_MAX)
        give_large(a, large_of(p));
    else if (size > 0)
        give(a, p, size);
}

void *arena_alloc(void *ud, void *ptr, size_t osize, size_t nsize)
{
    struct arena *a = ud;
    if (nsize == 0) {
        if (ptr != NULL)
            give_any(a, ptr, osize);
        return NULL;
    }
    if (ptr != NULL && osize <= BLOCK_MAX && nsize <= BLOCK_MAX && osize > 0 &&
        class_of(osize) == class_of(nsize))
        return ptr;
    bool grown_large = ptr != NULL && osize > BLOCK_MAX && nsize > BLOCK_MAX;
    void *p = nsize > BLOCK_MAX ? take_large(a, grown_large ? large_of(ptr) : NULL, nsize) : take(a, nsize);
    if (p == NULL)
        return refuse(a);
    if (ptr != NULL && !grown_large) {
        memcpy(p, ptr, osize < nsize ? osize : nsize);
        give_any(a, ptr, osize);
    }
    return p;
}

size_t arena_live(const struct arena *a)
{
    return a->at.live;
}

size_t arena_peak(const struct arena *a)
{
    return a->peak;
}

size_t arena_mapped(const struct arena *a)
{
    return a->mapped;
}

void arena_reset(struct arena *a, size_t keep)
{
    free_larges(a);
    free_chunks(a, keep);
    memset(&a->at, 0, sizeof(a->at));
    a->in_use = 0;
    enter_chunk(a, TAILQ_FIRST(&a->chunks));
    a->peak = 0;
    a->soft = a->hard = 0;
    a->soft_told = false;
}

// The births of the blocks in an image, as many bytes as returned.
static size_t image_births(const struct arena *a, void **ret)
{
    *ret = birth_of(blocks_of(TAILQ_FIRST(&a->chunks)));
    return a->image_len / GRAIN * sizeof(uint32_t);
}

void arena_save(struct arena *a)
{
    struct chunk *first = TAILQ_FIRST(&a->chunks);
    void *births;
    ASSERT(a->at.chunk == first && LIST_EMPTY(&a->larges));
    a->saved = a->at;
    a->image_len = (size_t)(a->at.next - blocks_of(first));
    size_t births_len = image_births(a, &births);
    free(a->image);
    a->image = xmalloc(a->image_len + births_len);
    memcpy(a->image, blocks_of(first), a->image_len);
    memcpy(a->image + a->image_len, births, births_len);
}

void arena_restore(struct arena *a, size_t keep)
{
    void *births;
    ASSERT(a->image != NULL);
    arena_reset(a, keep);
    a->at = a->saved;
    a->peak = a->at.live;
    size_t births_len = image_births(a, &births);
    memcpy(blocks_of(a->at.chunk), a->image, a->image_len);
    memcpy(births, a->image + a->image_len, births_len);
}

void arena_set_owner(struct arena *a, void *owner)
{
    a->owner = owner;
}

void *arena_owner(const struct arena *a)
{
    return a->owner;
}

uint64_t arena_ordinal(const struct arena *a, const void *p)
{
    struct chunk *c;
    TAILQ_FOREACH (c, &a->chunks, link) {
        if ((const char *)p >= c->base && (const char *)p < c->base + c->size)
            return *birth_of(p);
    }
    return 0;
}
