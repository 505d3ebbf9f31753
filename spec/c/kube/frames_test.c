#include "kube/frames.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/err.h"
#include "base/random.h"

// Frames joined by '|'.
static int collect(void *ud, const char *text, size_t n)
{
    struct buf *b = ud;
    buf_add(b, text, n);
    buf_add_char(b, '|');
    return 0;
}

static const char *const six[] = {
    "{\"type\":\"ADDED\",\"object\":{\"data\":{\"k\":\"\xe6\x8f\x90\xe4\xba\xa4 \xe2\x9c\x93 "
    "\xf0\x9d\x84\x9e \xc3\xa9\"}}}",
    "{\"type\":\"ADDED\",\"object\":{\"s\":\"a\\nb{[\\\"}\\\\\"}}",
    "{\"type\":\"MODIFIED\",\"object\":{\"a\":[1,[2,{}],\"]\"]}}",
    "{}",
    "[\"}\"]",
    "{\"type\":\"DELETED\",\"object\":null}",
};
enum { SIX = sizeof(six) / sizeof(six[0]) };

static void build(struct buf *in, struct buf *want, const char *between)
{
    for (size_t i = 0; i < SIX; i++) {
        buf_add_str(in, six[i]);
        buf_add_str(in, between);
        buf_add_str(want, six[i]);
        buf_add_char(want, '|');
    }
}

static void test_cut_anywhere(void **state)
{
    (void)state;
    static const char *const between[] = {"\n", "\r\n", "", "\n\n \n", " "};
    for (size_t k = 0; k < sizeof(between) / sizeof(between[0]); k++) {
        struct buf in, want, got;
        buf_init(&in, 100000);
        buf_init(&want, 100000);
        buf_init(&got, 100000);
        build(&in, &want, between[k]);
        for (size_t step = 1; step <= in.len; step++) {
            struct frames f;
            frames_init(&f, 10000);
            buf_reset(&got);
            for (size_t at = 0; at < in.len; at += step) {
                size_t n = in.len - at < step ? in.len - at : step;
                char *exact = malloc(n); // so that a read beyond the end is seen
                memcpy(exact, in.data + at, n);
                assert_int_equal(frames_feed(&f, exact, n, collect, &got), 0);
                free(exact);
            }
            assert_string_equal(got.data, want.data);
            frames_fini(&f);
        }
        buf_fini(&in);
        buf_fini(&want);
        buf_fini(&got);
    }
}

static void expect(const char *in, const char *want)
{
    struct buf got;
    struct frames f;
    buf_init(&got, 10000);
    frames_init(&f, 1000);
    buf_add_str(&got, "");
    assert_int_equal(frames_feed(&f, in, strlen(in), collect, &got), 0);
    assert_string_equal(got.len == 0 ? "" : got.data, want);
    frames_fini(&f);
    buf_fini(&got);
}

static void test_odd(void **state)
{
    (void)state;
    expect("", "");
    expect("\n\r\n  ", "");
    expect("{\"half\":", "");
    expect("null\n{}", "null\n|{}|");
    expect("oops, not JSON {}\n{}\n", "oops, not JSON {}\n|{}|");
    expect("}\n{}", "}\n|{}|");
    expect("{\"a\":\"cut\n{}\n", "{\"a\":\"cut\n|{}|");
    expect("{\n  \"pretty\": 1\n}\n{}", "{\n  \"pretty\": 1\n}|{}|");
}

static int stop_at_two(void *ud, const char *text, size_t n)
{
    (void)text;
    (void)n;
    return ++*(int *)ud == 2 ? 7 : 0;
}

static void test_stop(void **state)
{
    (void)state;
    struct frames f;
    int seen = 0;
    frames_init(&f, 1000);
    assert_int_equal(frames_feed(&f, "{}{}{}", 6, stop_at_two, &seen), 7);
    assert_int_equal(seen, 2);
    frames_fini(&f);
}

static void test_limit(void **state)
{
    (void)state;
    struct frames f;
    struct buf got;
    buf_init(&got, 1000);
    frames_init(&f, 16);
    assert_int_equal(frames_feed(&f, "{\"aaaaaaaaaaa\":1", 16, collect, &got), 0);
    assert_int_equal(frames_feed(&f, "}", 1, collect, &got), -ERR_LIMIT);
    frames_fini(&f);
    frames_init(&f, 16);
    assert_int_equal(frames_feed(&f, "{\"aaaaaaaaaa\":12}{}", 19, collect, &got),
                     -ERR_LIMIT); // whole in one piece
    frames_fini(&f);
    frames_init(&f, 16);
    assert_int_equal(frames_feed(&f, "{\"aaaaaaaaaa\":1}{}", 18, collect, &got), 0);
    assert_string_equal(got.data, "{\"aaaaaaaaaa\":1}|{}|");
    frames_fini(&f);

    enum { PIECE = 1 << 20 };
    frames_init(&f, 8 * PIECE);
    char *piece = malloc(PIECE);
    memset(piece, 'x', PIECE);
    piece[0] = '{';
    piece[1] = '"';
    int rc = 0, fed = 0;
    for (; rc == 0 && fed < 40; fed++) {
        rc = frames_feed(&f, piece, PIECE, collect, &got);
        piece[0] = piece[1] = 'x';
    }
    assert_int_equal(rc, -ERR_LIMIT);
    assert_int_equal(fed, 9);
    assert_true(f.rest.cap <= 8 * PIECE + 1);
    free(piece);
    frames_fini(&f);
    buf_fini(&got);
}

static int ignore(void *ud, const char *text, size_t n)
{
    *(size_t *)ud += n + (n > 0 ? (unsigned char)text[n - 1] : 0);
    return 0;
}

static void test_random_bytes(void **state)
{
    (void)state;
    static const char letters[] = "{}[]\"\\\n\r ,:a\x80\xff";
    struct random r;
    random_init(&r, 7);
    size_t sum = 0;
    for (int round = 0; round < 2000; round++) {
        struct frames f;
        frames_init(&f, 64);
        for (int part = 0; part < 20; part++) {
            char piece[12];
            size_t n = random_below(&r, sizeof(piece) + 1);
            for (size_t i = 0; i < n; i++)
                piece[i] = letters[random_below(&r, sizeof(letters) - 1)];
            int rc = frames_feed(&f, piece, n, ignore, &sum);
            assert_true(rc == 0 || rc == -ERR_LIMIT);
            if (rc != 0)
                break;
        }
        frames_fini(&f);
    }
    assert_true(sum > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_cut_anywhere), cmocka_unit_test(test_odd),          cmocka_unit_test(test_stop),
        cmocka_unit_test(test_limit),        cmocka_unit_test(test_random_bytes),
    };
    return cmocka_run_group_tests_name("frames", tests, NULL, NULL);
}
