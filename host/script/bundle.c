#include "script/bundle.h"

#include <string.h>

// Made by cmake/Bundle.cmake from lua/tidelock; ends with a NULL module.
extern const struct bundle_file bundle_files[];

const struct bundle_file *bundle_find(const char *module)
{
    for (const struct bundle_file *f = bundle_files; f->module != NULL; f++) {
        if (strcmp(f->module, module) == 0)
            return f;
    }
    return NULL;
}
