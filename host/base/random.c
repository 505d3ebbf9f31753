#include "base/random.h"

#include <errno.h>
#include <sys/random.h>

#include "base/assert.h"

// splitmix64, the usual way to fill a xoshiro state from one number.
static uint64_t seed_next(uint64_t *x)
{
    uint64_t z = (*x += 0x9e3779b97f4a7c15ULL);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ULL;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebULL;
    return z ^ (z >> 31);
}

void random_init(struct random *r, uint64_t seed)
{
    for (int i = 0; i < 4; i++)
        r->s[i] = seed_next(&seed);
}

void random_kernel_bytes(void *out, size_t n)
{
    for (size_t done = 0; done < n;) {
        ssize_t got = getrandom((char *)out + done, n - done, 0);
        ASSERT(got > 0 || (got < 0 && errno == EINTR));
        done += got > 0 ? (size_t)got : 0;
    }
}

void random_init_kernel(struct random *r)
{
    uint64_t seed = 0;
    random_kernel_bytes(&seed, sizeof seed);
    random_init(r, seed);
}

static uint64_t rotate(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

uint64_t random_u64(struct random *r)
{
    uint64_t *s = r->s;
    uint64_t result = rotate(s[1] * 5, 7) * 9;
    uint64_t t = s[1] << 17;
    s[2] ^= s[0];
    s[3] ^= s[1];
    s[1] ^= s[2];
    s[0] ^= s[3];
    s[2] ^= t;
    s[3] = rotate(s[3], 45);
    return result;
}

uint64_t random_below(struct random *r, uint64_t n)
{
    ASSERT(n > 0);
    uint64_t floor = -n % n; // 2^64 mod n: values below it would favour the small results
    uint64_t x;
    do
        x = random_u64(r);
    while (x < floor);
    return x % n;
}

double random_unit(struct random *r)
{
    return (double)(random_u64(r) >> 11) * 0x1.0p-53;
}

uint64_t random_jitter_ms(struct random *r, uint64_t ms, double fraction)
{
    double spread = (double)ms * fraction * (2 * random_unit(r) - 1);
    double result = (double)ms + spread;
    return result > 0 ? (uint64_t)(result + 0.5) : 0;
}
