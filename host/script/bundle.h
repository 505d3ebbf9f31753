// The Lua library (lua/tidelock/) as it is built into the program. Constant data; any thread.
#ifndef SCRIPT_BUNDLE_H
#define SCRIPT_BUNDLE_H

#include <stddef.h>

struct bundle_file {
    const char *module; // "tidelock", "tidelock.json": what require is given
    const char *text;
    size_t len;
};

const struct bundle_file *bundle_find(const char *module); // NULL: no such module

#endif
