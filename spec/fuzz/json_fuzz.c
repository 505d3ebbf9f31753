// Whatever parses prints as text that parses again, to an equal value with an equal hash, and prints the
// same.
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#include "base/assert.h"
#include "data/json.h"
#include "data/json_write.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct json_doc *a, *b;
    struct err e;
    if (json_parse((const char *)data, n, &a, &e) < 0)
        return 0;
    char *first, *second;
    size_t first_len, second_len;
    ASSERT(json_print(json_root(a), SIZE_MAX, &first, &first_len, &e) == 0);
    ASSERT(json_parse(first, first_len, &b, &e) == 0);
    ASSERT(json_equal(json_root(a), json_root(b)) && json_equal(json_root(b), json_root(a)));
    ASSERT(json_hash(json_root(a)) == json_hash(json_root(b)));
    ASSERT(json_print(json_root(b), SIZE_MAX, &second, &second_len, &e) == 0);
    ASSERT(first_len == second_len && memcmp(first, second, first_len) == 0);
    json_has_long_key(json_root(a));
    free(first);
    free(second);
    json_doc_free(a);
    json_doc_free(b);
    return 0;
}
