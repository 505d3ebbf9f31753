// Builds the JSON text of a YAML document from its nodes, one after another: keys that must be unique,
// anchors, aliases and merges ("<<"), all with caps. Scalars come as JSON text. One owner; embedded by value.
#ifndef DATA_YAML_BUILD_H
#define DATA_YAML_BUILD_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "data/json_write.h"
#include "data/yaml.h"

// Where a node begins in the file, both from 1.
struct yaml_place {
    size_t line;
    size_t column;
};

struct yaml_builder {
    struct buf out; // the document so far
    size_t line;    // of its first node
    struct json_writer w;
    struct buf key;
    struct yaml_frame *frames;
    size_t depth;
    struct yaml_anchor *anchors;
    size_t expanded;
    size_t text_max;        // bytes of one document
    size_t max, held, peak; // memory: at most, beside `out` and `key`, the most so far
    size_t anchors_held;
    const struct yaml_limits *limits;
    unsigned nodes; // since limits->is_over was asked
    struct err *e;
};

// text_max: bytes of one document. peak is more than limits->memory when that was not enough.
void yaml_build_init(struct yaml_builder *b, size_t text_max, const struct yaml_limits *limits,
                     struct err *e);
void yaml_build_fini(struct yaml_builder *b);
void yaml_build_begin(struct yaml_builder *b); // a new document: its anchors are its own

// Nodes, in order. `anchor` may be NULL. 0, -ERR_PARSE or -ERR_LIMIT.
int yaml_build_open(struct yaml_builder *b, bool is_mapping, const char *anchor, struct yaml_place at);
int yaml_build_close(struct yaml_builder *b, struct yaml_place at);
int yaml_build_scalar(struct yaml_builder *b, const char *text, size_t n, const char *anchor,
                      struct yaml_place at);
int yaml_build_alias(struct yaml_builder *b, const char *name, struct yaml_place at);

// Memory of the caller's counts too: -ERR_LIMIT when it is too much. And how much more may be taken.
int yaml_build_hold(struct yaml_builder *b, size_t n, struct yaml_place at);
size_t yaml_build_left(const struct yaml_builder *b);

// After one more node of either direction: has it to stop? Asks now and then; *nodes counts since.
bool yaml_limits_end(const struct yaml_limits *l, unsigned *nodes);

// Before a node: 0, or -ERR_CANCELED.
int yaml_build_go_on(struct yaml_builder *b);

bool yaml_build_wants_key(const struct yaml_builder *b); // is the next node a key?
void yaml_build_merge(struct yaml_builder *b);           // it is "<<"

#endif
