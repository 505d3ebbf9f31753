// Where in a value something is wrong: "apply[2].spec.replicas". Links live on the C stack of who walks the
// value; text is made only for an error.
#ifndef SCRIPT_VALUE_PATH_H
#define SCRIPT_VALUE_PATH_H

#include <stddef.h>

struct value_path {
    const struct value_path *parent; // NULL: the start
    const char *key;                 // NULL: an index
    size_t key_len;
    size_t index; // from 1, as Lua counts
};

enum { VALUE_PATH_TEXT_MAX = 400 };

// A path that is too long is cut in its middle.
void value_path_format(char out[VALUE_PATH_TEXT_MAX], const struct value_path *p);

#endif
