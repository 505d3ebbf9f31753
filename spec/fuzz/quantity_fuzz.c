// The canonical spelling is a quantity of the same amount, and so is its own. The second one stays: "62.5Ki"
// is written as "64000", which no longer says that it was a binary one and becomes "64k".
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "data/quantity.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *text = xmemdup(data, n);
    char once[QUANTITY_TEXT_MAX], twice[QUANTITY_TEXT_MAX], again[QUANTITY_TEXT_MAX];
    if (quantity_canonical(text, once, NULL) == 0) {
        ASSERT(quantity_valid(text) && quantity_valid(once));
        ASSERT(quantity_compare(text, once) == 0);
        ASSERT(quantity_canonical(once, twice, NULL) == 0 && quantity_compare(once, twice) == 0);
        ASSERT(quantity_canonical(twice, again, NULL) == 0 && strcmp(twice, again) == 0);
    }
    if (quantity_canonical_milli(text, once, NULL) == 0) {
        ASSERT(quantity_valid(once));
        ASSERT(quantity_canonical_milli(once, twice, NULL) == 0 && quantity_compare(once, twice) == 0);
        ASSERT(quantity_canonical_milli(twice, again, NULL) == 0 && strcmp(twice, again) == 0);
    }
    free(text);
    return 0;
}
