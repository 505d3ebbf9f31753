// A random source, passed in: seeded (deterministic) or from the kernel. One owner thread each.
#ifndef BASE_RANDOM_H
#define BASE_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct random {
    uint64_t s[4]; // xoshiro256**
};

void random_init(struct random *r, uint64_t seed);
void random_init_kernel(struct random *r);
void random_kernel_bytes(void *out, size_t n); // for keys
uint64_t random_u64(struct random *r);
uint64_t random_below(struct random *r, uint64_t n); // 0..n-1, unbiased; n > 0
double random_unit(struct random *r);                // [0, 1)
// ms spread by +-fraction: jitter(1000, 0.2) is 800..1200.
uint64_t random_jitter_ms(struct random *r, uint64_t ms, double fraction);

#endif
