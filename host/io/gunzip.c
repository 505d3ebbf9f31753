#include "io/gunzip.h"

#include <stdlib.h>
#define ZLIB_CONST
#include <zlib.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/err.h"

enum { GZIP_ONLY = 16, PIECE = 16 << 10 };

struct gunzip {
    z_stream z;
    bool complete; // between members
};

struct gunzip *gunzip_new(void)
{
    struct gunzip *g = xcalloc(1, sizeof(*g));
    int r = inflateInit2(&g->z, MAX_WBITS + GZIP_ONLY);
    ASSERT(r == Z_OK); // its other ends are lack of memory and a wrong version
    g->complete = true;
    return g;
}

void gunzip_free(struct gunzip *g)
{
    if (g == NULL)
        return;
    inflateEnd(&g->z);
    free(g);
}

int gunzip_add(struct gunzip *g, const void *data, size_t n, struct buf *out)
{
    unsigned char piece[PIECE];
    g->z.next_in = data;
    g->z.avail_in = (unsigned)n; // pieces of an answer: far below 4 GiB
    bool more = false;
    while (g->z.avail_in > 0 || more) {
        if (g->complete) {
            inflateReset(&g->z);
            g->complete = false;
        }
        g->z.next_out = piece;
        g->z.avail_out = sizeof(piece);
        int r = inflate(&g->z, Z_NO_FLUSH);
        if (r != Z_OK && r != Z_STREAM_END && r != Z_BUF_ERROR)
            return -ERR_PARSE;
        if (buf_add(out, piece, sizeof(piece) - g->z.avail_out) != 0)
            return -ERR_LIMIT;
        g->complete = r == Z_STREAM_END;
        more = g->z.avail_out == 0 && !g->complete;
    }
    return 0;
}

bool gunzip_is_complete(const struct gunzip *g)
{
    return g->complete;
}
