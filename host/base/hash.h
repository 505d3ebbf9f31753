// 64-bit FNV-1a (also what Kubernetes' shard selectors use). For hash tables and stable spreading, not for
// security.
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stddef.h>
#include <stdint.h>

#define HASH_FNV_START 0xcbf29ce484222325ULL
uint64_t hash_fnv1a(uint64_t h, const void *data, size_t n); // start with HASH_FNV_START
uint64_t hash_str(const char *s);

#endif
