// uthash with a hash that is keyed by the process: names of objects, keys of documents and whatever else
// comes from outside can not be chosen to fall into one bucket. The order in which a table is walked is that
// of insertion, whatever the hash. Any thread. Include this in place of <uthash.h>.
#ifndef BASE_HASH_TABLE_H
#define BASE_HASH_TABLE_H

#include <stddef.h>
#include <stdint.h>

// SipHash-1-3 (Aumasson, Bernstein), as the hash tables of several languages have it: a cryptographic
// library's takes a microsecond to begin.
uint64_t hash_table_siphash13(const uint64_t key[2], const void *bytes, size_t n);

// With the key of this process, made at its first use.
unsigned hash_table_hash(const void *bytes, size_t n);

#define HASH_FUNCTION(bytes, n, ret) ((ret) = hash_table_hash((bytes), (n)))
#include <uthash.h>

#endif
