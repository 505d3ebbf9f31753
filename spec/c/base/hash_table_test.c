#include "unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash_table.h"

struct name {
    UT_hash_handle hh;
    char text[16];
};

// The values are CPython's (its hash of bytes is this one) with both halves of the key 0.
static void test_siphash13(void **state)
{
    static const struct {
        const char *text;
        uint64_t hash;
    } cases[] = {
        {"a", 0x407448d2b89b1813},
        {"abc", 0xc03bc3a0042630f2},
        {"0123456", 0x810aaf7acf670379},
        {"01234567", 0xda3dcedf84ea6cc6},
        {"default/some-config-map-name", 0xf18e111038efd3bf},
    };
    const uint64_t key[2] = {0, 0}, other[2] = {1, 0};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        size_t n = strlen(cases[i].text);
        assert_true(hash_table_siphash13(key, cases[i].text, n) == cases[i].hash);
        assert_true(hash_table_siphash13(other, cases[i].text, n) != cases[i].hash);
    }
}

// Texts that the usual function of uthash, which has no key, puts into one bucket are spread.
static void test_uthash_is_keyed(void **state)
{
    enum { WANTED = 2000 };
    struct name *names = NULL, *n, *next;
    (void)state;
    for (unsigned i = 0, found = 0; found < WANTED; i++) {
        char text[sizeof n->text];
        unsigned bucket;
        int length = snprintf(text, sizeof text, "%x", i);
        HASH_JEN(text, (unsigned)length, bucket);
        if ((bucket & 0x3ff) != 0)
            continue;
        n = xcalloc(1, sizeof *n);
        memcpy(n->text, text, sizeof text);
        HASH_ADD_STR(names, text, n);
        found++;
    }
    unsigned longest = 0;
    for (unsigned i = 0; i < names->hh.tbl->num_buckets; i++)
        if (names->hh.tbl->buckets[i].count > longest)
            longest = names->hh.tbl->buckets[i].count;
    assert_in_range(longest, 1, 40); // all in one would be 2,000; spread, a bucket has 8 on average
    HASH_ITER (hh, names, n, next) {
        HASH_DEL(names, n);
        free(n);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_siphash13),
        cmocka_unit_test(test_uthash_is_keyed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
