#include "base/hash_table.h"

#include <endian.h>
#include <pthread.h>
#include <string.h>

#include "base/random.h"

static pthread_once_t key_once = PTHREAD_ONCE_INIT;
static uint64_t process_key[2];

static void make_key(void)
{
    random_kernel_bytes(process_key, sizeof process_key);
}

static uint64_t rotate(uint64_t x, int k)
{
    return (x << k) | (x >> (64 - k));
}

static void mix(uint64_t v[4])
{
    v[0] += v[1];
    v[1] = rotate(v[1], 13) ^ v[0];
    v[0] = rotate(v[0], 32);
    v[2] += v[3];
    v[3] = rotate(v[3], 16) ^ v[2];
    v[0] += v[3];
    v[3] = rotate(v[3], 21) ^ v[0];
    v[2] += v[1];
    v[1] = rotate(v[1], 17) ^ v[2];
    v[2] = rotate(v[2], 32);
}

static void absorb(uint64_t v[4], uint64_t word)
{
    v[3] ^= word;
    mix(v);
    v[0] ^= word;
}

uint64_t hash_table_siphash13(const uint64_t key[2], const void *bytes, size_t n)
{
    uint64_t v[4] = {key[0] ^ 0x736f6d6570736575ULL, key[1] ^ 0x646f72616e646f6dULL,
                     key[0] ^ 0x6c7967656e657261ULL, key[1] ^ 0x7465646279746573ULL};
    const char *p = bytes;
    size_t left = n;
    for (; left >= 8; left -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        absorb(v, le64toh(word));
    }
    uint64_t last = 0;
    if (left > 0)
        memcpy(&last, p, left);
    absorb(v, le64toh(last) | (uint64_t)n << 56);
    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        mix(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

unsigned hash_table_hash(const void *bytes, size_t n)
{
    pthread_once(&key_once, make_key);
    return (unsigned)hash_table_siphash13(process_key, bytes, n);
}
