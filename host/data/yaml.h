// YAML 1.1 as kubectl reads it (JSON types only), turned into JSON text. Any thread.
#ifndef DATA_YAML_H
#define DATA_YAML_H

#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"

// Reads a stream of documents and calls `on_document` with each one's JSON text (borrowed for the call; empty
// and comment-only documents are passed over) and its first line. Anchors are expanded within a cap. A
// callback that returns non-zero stops. 0, the callback's value, or -ERR_PARSE with line and column,
// -ERR_LIMIT.
int yaml_to_json(const char *text, size_t n,
                 int (*on_document)(void *ud, const char *doc, size_t doc_len, size_t line, struct err *e),
                 void *ud, struct err *e);

// JSON text as block YAML (sorted as given), for messages and files people read.
int yaml_from_json(const char *text, size_t n, struct buf *out, struct err *e);

#endif
