#include "base/assert.h"

#include <stdio.h>
#include <stdlib.h>

void assert_fail(const char *what, const char *file, int line, const char *func)
{
    fprintf(stderr, "tidelock: bug: %s:%d: %s: assertion \"%s\" does not hold\n", file, line, func, what);
    fflush(stderr);
    abort();
}
