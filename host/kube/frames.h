// Cuts a stream of bytes into JSON texts, one after another with or without a newline between them (a watch's
// frames). Pure; one owner; embedded by value.
#ifndef KUBE_FRAMES_H
#define KUBE_FRAMES_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct frames {
    struct buf rest; // the frame that is not complete yet
    size_t max;
    size_t depth; // of brackets
    bool text;    // a frame that is no object or array: ends with the line
    bool string, escape;
};

void frames_init(struct frames *f, size_t max); // longest frame in bytes
void frames_fini(struct frames *f);
// Calls on_frame with each frame that is complete now (borrowed; not NUL-terminated). Frames end with their
// last bracket; what is no object or array ends with the line, and so does a string that a line break cuts.
// Stops when on_frame returns non-zero and returns that; -ERR_LIMIT when a frame grows beyond max.
int frames_feed(struct frames *f, const char *data, size_t n,
                int (*on_frame)(void *ud, const char *json, size_t n), void *ud);

#endif
