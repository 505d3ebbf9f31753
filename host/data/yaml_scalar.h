// What a plain YAML scalar means: the rules of YAML 1.1 as Kubernetes' Go reader has them. Any thread.
#ifndef DATA_YAML_SCALAR_H
#define DATA_YAML_SCALAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum scalar_type {
    SCALAR_STRING,
    SCALAR_NULL,
    SCALAR_BOOL,
    SCALAR_INT,
    SCALAR_UINT,  // above INT64_MAX
    SCALAR_FLOAT, // may be NaN or infinite, which JSON has not
    SCALAR_HUGE,  // an integer that only a wider type could hold
    SCALAR_MERGE  // "<<"
};

struct yaml_scalar {
    enum scalar_type type;
    union {
        bool flag;
        int64_t i;
        uint64_t u;
        double d;
    } value;
};

struct yaml_scalar yaml_scalar_resolve(const char *text, size_t n); // text[n] is NUL

#endif
