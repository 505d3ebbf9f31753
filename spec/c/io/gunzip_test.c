#include "io/gunzip.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

#include "base/alloc.h"
#include "base/err.h"

// Adds one member (RFC 1952) with this text.
static void pack(struct buf *out, const void *text, size_t n)
{
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, 9, Z_DEFLATED, MAX_WBITS + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    size_t size = deflateBound(&z, n) + 32;
    unsigned char *to = xmalloc(size);
    z.next_in = (Bytef *)text;
    z.avail_in = (unsigned)n;
    z.next_out = to;
    z.avail_out = (unsigned)size;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    buf_add(out, to, size - z.avail_out);
    deflateEnd(&z);
    free(to);
}

// Feeds it in pieces of this size; the result of the last call.
static int feed(struct gunzip *g, const struct buf *in, size_t piece, struct buf *out)
{
    int r = 0;
    for (size_t at = 0; at < in->len && r == 0; at += piece)
        r = gunzip_add(g, in->data + at, in->len - at < piece ? in->len - at : piece, out);
    return r;
}

static void setup(struct buf *in, struct buf *out, size_t max)
{
    buf_init(in, 1 << 20);
    buf_init(out, max);
}

static void teardown(struct buf *in, struct buf *out)
{
    buf_fini(in);
    buf_fini(out);
}

static void test_members_in_any_pieces(void **state)
{
    (void)state;
    struct buf in, out;
    setup(&in, &out, 1 << 20);
    pack(&in, "one ", 4);
    pack(&in, "", 0);
    pack(&in, "two", 3);
    for (size_t piece = 1; piece <= in.len; piece++) {
        struct gunzip *g = gunzip_new();
        buf_reset(&out);
        assert_int_equal(feed(g, &in, piece, &out), 0);
        assert_true(gunzip_is_complete(g));
        assert_string_equal(out.data, "one two");
        gunzip_free(g);
    }
    teardown(&in, &out);
}

// Its text fills the pieces that are worked on, to the byte and not.
static void test_sizes(void **state)
{
    (void)state;
    static const size_t sizes[] = {1, 16383, 16384, 16385, 32768, 300000};
    for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
        struct buf in, out;
        setup(&in, &out, 1 << 20);
        char *text = xmalloc(sizes[i]);
        for (size_t k = 0; k < sizes[i]; k++)
            text[k] = (char)('a' + k * k % 23);
        pack(&in, text, sizes[i]);
        struct gunzip *g = gunzip_new();
        assert_int_equal(feed(g, &in, 1000, &out), 0);
        assert_true(gunzip_is_complete(g));
        assert_int_equal(out.len, sizes[i]);
        assert_memory_equal(out.data, text, sizes[i]);
        gunzip_free(g);
        free(text);
        teardown(&in, &out);
    }
}

static void test_each_end_that_comes_too_early(void **state)
{
    (void)state;
    struct buf in, out;
    setup(&in, &out, 1 << 20);
    pack(&in, "text", 4);
    for (size_t n = 0; n <= in.len; n++) {
        struct gunzip *g = gunzip_new();
        assert_int_equal(gunzip_add(g, in.data, n, &out), 0);
        assert_int_equal(gunzip_is_complete(g), n == 0 || n == in.len); // no body at all is none to undo
        assert_int_equal(gunzip_add(g, NULL, 0, &out), 0);
        assert_int_equal(gunzip_is_complete(g), n == 0 || n == in.len);
        gunzip_free(g);
    }
    teardown(&in, &out);
}

static void test_damage(void **state)
{
    (void)state;
    struct buf in, out;
    setup(&in, &out, 1 << 20);
    pack(&in, "some text that is long enough", 29);
    static const int flipped[] = {0, 1, 2, -8, -1}; // magic, method, checksum, length
    for (size_t i = 0; i < sizeof(flipped) / sizeof(flipped[0]); i++) {
        size_t at = flipped[i] < 0 ? in.len - (size_t)-flipped[i] : (size_t)flipped[i];
        struct gunzip *g = gunzip_new();
        in.data[at] ^= 0x40;
        assert_int_equal(feed(g, &in, 7, &out), -ERR_PARSE);
        in.data[at] ^= 0x40;
        gunzip_free(g);
    }
    buf_add(&in, "garbage behind it", 17);
    struct gunzip *g = gunzip_new();
    assert_int_equal(feed(g, &in, in.len, &out), -ERR_PARSE);
    gunzip_free(g);
    teardown(&in, &out);
}

static void test_bomb(void **state)
{
    (void)state;
    enum { MAX = 1 << 20 };
    static const char zeros[8 * MAX];
    struct buf in, out;
    setup(&in, &out, MAX);
    pack(&in, zeros, sizeof(zeros));
    assert_true(in.len < 10000);
    struct gunzip *g = gunzip_new();
    assert_int_equal(feed(g, &in, in.len, &out), -ERR_LIMIT);
    assert_true(out.len <= MAX);
    gunzip_free(g);
    in.len = 0;
    pack(&in, zeros, MAX); // just fits
    buf_reset(&out);
    g = gunzip_new();
    assert_int_equal(feed(g, &in, in.len, &out), 0);
    assert_int_equal(out.len, MAX);
    gunzip_free(g);
    teardown(&in, &out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_members_in_any_pieces),
        cmocka_unit_test(test_sizes),
        cmocka_unit_test(test_each_end_that_comes_too_early),
        cmocka_unit_test(test_damage),
        cmocka_unit_test(test_bomb),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
