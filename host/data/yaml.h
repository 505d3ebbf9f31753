// YAML 1.1 as kubectl reads it (JSON types only), turned into JSON text. Any thread.
#ifndef DATA_YAML_H
#define DATA_YAML_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

// Reads a stream of documents and calls `on_document` with each one's JSON text (borrowed for the call; empty
// and comment-only documents are passed over) and its first line. Anchors are expanded within a cap. A
// callback that returns non-zero stops. 0, the callback's value, or -ERR_PARSE with line and column,
// -ERR_LIMIT.
int yaml_to_json(const char *text, size_t n,
                 int (*on_document)(void *ud, const char *doc, size_t doc_len, size_t line, struct err *e),
                 void *ud, struct err *e);

// The same within limits.
struct yaml_limits {
    size_t memory; // bytes, the callback's own not counted, nor what the parser holds of the text (a few
                   // times one scalar)
    bool (*is_over)(void *ud, uint64_t nodes); // asked after so many more nodes: shall it stop? Or NULL
    void *ud;
    size_t took; // out: the most memory that it took; more than `memory`: what it would have taken, the
                 // result is -ERR_LIMIT then
};
// As yaml_to_json, or -ERR_CANCELED when is_over said so.
int yaml_to_json_within(const char *text, size_t n, struct yaml_limits *limits,
                        int (*on_document)(void *ud, const char *doc, size_t doc_len, size_t line,
                                           struct err *e),
                        void *ud, struct err *e);

// JSON text as block YAML (sorted as given), for messages and files people read.
int yaml_from_json(const char *text, size_t n, struct buf *out, struct err *e);
// The same within limits; the buffer's memory is not counted.
int yaml_from_json_within(const char *text, size_t n, struct yaml_limits *limits, struct buf *out,
                          struct err *e);

#endif
