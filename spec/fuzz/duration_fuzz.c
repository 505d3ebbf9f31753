// Durations and times: what parses is printed as text that parses to the same.
#include <stdlib.h>

#include "fuzz.h"

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    char *text = xmemdup(data, n);
    char out[CLOCK_TEXT_MAX];
    int64_t us, again;
    if (duration_parse(text, &us) == 0) {
        duration_format(out, us);
        ASSERT(duration_parse(out, &again) == 0 && again == us);
    }
    if (clock_parse_time(text, &us) == 0) {
        clock_format_micro_time(out, us);
        ASSERT(clock_parse_time(out, &again) == 0);
        // An offset may lead out of the years 0000 to 9999, which the text can not show.
        ASSERT(again == us || us < -62167219200LL * 1000000 || us >= 253402300800LL * 1000000);
    }
    free(text);
    return 0;
}
