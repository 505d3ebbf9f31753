#include "base/hash.h"

#include <string.h>

uint64_t hash_fnv1a(uint64_t h, const void *data, size_t n)
{
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i++)
        h = (h ^ p[i]) * 0x100000001b3ULL;
    return h;
}

uint64_t hash_str(const char *s)
{
    return hash_fnv1a(HASH_FNV_START, s, strlen(s));
}
