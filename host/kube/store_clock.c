// The revision counter of all stores and the pinned snapshots.
#include "kube/store_impl.h"

#include <string.h>

#include "base/assert.h"

struct pin {
    uint64_t revision;
    size_t count;
};

struct store_clock {
    pthread_mutex_t lock;
    uint64_t now;
    struct pin *pins; // ascending: a pin is always of the present
    size_t pin_count;
    size_t pin_cap;
    LIST_HEAD(, store) stores;
    size_t store_count;
};

struct store_clock *store_clock_new(void)
{
    struct store_clock *c = xcalloc(1, sizeof(*c));
    pthread_mutex_init(&c->lock, NULL);
    LIST_INIT(&c->stores);
    return c;
}

void store_clock_free(struct store_clock *c)
{
    if (c == NULL)
        return;
    ASSERT(LIST_EMPTY(&c->stores));
    pthread_mutex_destroy(&c->lock);
    free(c->pins);
    free(c);
}

static uint64_t floor_of(const struct store_clock *c)
{
    return c->pin_count > 0 ? c->pins[0].revision : c->now;
}

uint64_t store_clock_now(struct store_clock *c)
{
    pthread_mutex_lock(&c->lock);
    uint64_t now = c->now;
    pthread_mutex_unlock(&c->lock);
    return now;
}

uint64_t store_clock_next(struct store_clock *c)
{
    return store_clock_now(c) + 1;
}

uint64_t store_clock_publish(struct store_clock *c, uint64_t revision)
{
    pthread_mutex_lock(&c->lock);
    ASSERT(revision == c->now + 1); // one writer
    c->now = revision;
    uint64_t floor = floor_of(c);
    pthread_mutex_unlock(&c->lock);
    return floor;
}

uint64_t store_snapshot(struct store_clock *c)
{
    pthread_mutex_lock(&c->lock);
    uint64_t now = c->now;
    if (c->pin_count > 0 && c->pins[c->pin_count - 1].revision == now) {
        c->pins[c->pin_count - 1].count++;
    } else {
        if (c->pin_count == c->pin_cap) {
            c->pin_cap = c->pin_cap > 0 ? 2 * c->pin_cap : 16;
            c->pins = xreallocarray(c->pins, c->pin_cap, sizeof(c->pins[0]));
        }
        c->pins[c->pin_count++] = (struct pin){now, 1};
    }
    pthread_mutex_unlock(&c->lock);
    return now;
}

static size_t find_pin(const struct store_clock *c, uint64_t revision)
{
    size_t lo = 0;
    size_t hi = c->pin_count;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (c->pins[mid].revision < revision)
            lo = mid + 1;
        else
            hi = mid;
    }
    ASSERT(lo < c->pin_count && c->pins[lo].revision == revision); // was pinned
    return lo;
}

// A store whose last reference is just going stays in the list for a moment: it is passed over.
static bool try_ref(struct store *s)
{
    unsigned n = atomic_load(&s->refs);
    while (n > 0) {
        if (atomic_compare_exchange_weak(&s->refs, &n, n + 1))
            return true;
    }
    return false;
}

static size_t collect_stores(struct store_clock *c, struct store ***ret)
{
    size_t n = 0;
    struct store *s;
    *ret = xreallocarray(NULL, c->store_count, sizeof(struct store *));
    LIST_FOREACH (s, &c->stores, in_clock) {
        if (try_ref(s))
            (*ret)[n++] = s;
    }
    return n;
}

void store_snapshot_release(struct store_clock *c, uint64_t revision)
{
    struct store **stores = NULL;
    size_t n = 0;
    pthread_mutex_lock(&c->lock);
    size_t i = find_pin(c, revision);
    if (--c->pins[i].count == 0) {
        memmove(&c->pins[i], &c->pins[i + 1], (c->pin_count - i - 1) * sizeof(c->pins[0]));
        c->pin_count--;
        if (i == 0) // the floor rises
            n = collect_stores(c, &stores);
    }
    uint64_t floor = floor_of(c);
    pthread_mutex_unlock(&c->lock);
    for (size_t k = 0; k < n; k++) {
        store_prune(stores[k], floor);
        store_unref(stores[k]);
    }
    free(stores);
}

void store_clock_attach(struct store_clock *c, struct store *s)
{
    pthread_mutex_lock(&c->lock);
    LIST_INSERT_HEAD(&c->stores, s, in_clock);
    c->store_count++;
    pthread_mutex_unlock(&c->lock);
}

void store_clock_detach(struct store_clock *c, struct store *s)
{
    pthread_mutex_lock(&c->lock);
    LIST_REMOVE(s, in_clock);
    c->store_count--;
    pthread_mutex_unlock(&c->lock);
}
