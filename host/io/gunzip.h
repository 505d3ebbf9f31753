// Undoes `Content-Encoding: gzip` piece by piece (RFC 1952: one member behind the other). One thread at a
// time.
#ifndef IO_GUNZIP_H
#define IO_GUNZIP_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct gunzip;

struct gunzip *gunzip_new(void);
void gunzip_free(struct gunzip *g);
// Adds the text of the next n bytes to out: 0, -ERR_LIMIT (out is full) or -ERR_PARSE (damaged).
int gunzip_add(struct gunzip *g, const void *data, size_t n, struct buf *out);
// May it end here: behind a member, or before anything has come?
bool gunzip_is_complete(const struct gunzip *g);

#endif
