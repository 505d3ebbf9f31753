#include "script/script_support.h"

#include "base/random.h"
#include "script/arena.h"

// Random blocks keep their contents; what is freed is used again; the count is exact.
static void test_blocks_keep_their_bytes(void **state)
{
    (void)state;
    enum { BLOCKS = 500, STEPS = 60000 };
    static struct {
        unsigned char *p;
        size_t size;
        unsigned char mark;
    } blocks[BLOCKS];
    struct random r;
    random_init(&r, 7);
    struct arena *a = arena_new();
    memset(blocks, 0, sizeof(blocks));
    for (int i = 0; i < STEPS; i++) {
        int b = (int)random_below(&r, BLOCKS);
        size_t size = random_below(&r, 20) == 0 ? random_below(&r, 200000) : random_below(&r, 900);
        for (size_t k = 0; k < blocks[b].size; k += 97)
            assert_int_equal(blocks[b].p[k], blocks[b].mark);
        size_t kept = size < blocks[b].size ? size : blocks[b].size;
        blocks[b].p = arena_alloc(a, blocks[b].p, blocks[b].size, size);
        assert_true(size == 0 || blocks[b].p != NULL);
        assert_int_equal((uintptr_t)blocks[b].p % 16, 0);
        for (size_t k = 0; k < kept; k += 97)
            assert_int_equal(blocks[b].p[k], blocks[b].mark);
        blocks[b].size = size;
        blocks[b].mark = (unsigned char)i;
        if (size > 0)
            memset(blocks[b].p, blocks[b].mark, size);
    }
    for (int b = 0; b < BLOCKS; b++)
        arena_alloc(a, blocks[b].p, blocks[b].size, 0);
    assert_int_equal(arena_live(a), 0);
    assert_true(arena_peak(a) > 0);
    arena_free(a);
}

static void test_freed_blocks_are_reused(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    for (int i = 0; i < 1000000; i++) {
        void *p = arena_alloc(a, NULL, 0, 40000);
        arena_alloc(a, p, 40000, 0);
    }
    assert_true(arena_mapped(a) <= 512 * 1024);
    arena_free(a);
}

static int told;

static void on_soft(void *ud)
{
    (void)ud;
    told++;
}

static void test_limits(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    told = 0;
    arena_limit(a, 100000, 1000000, on_soft, NULL);
    void *first = arena_alloc(a, NULL, 0, 90000);
    assert_int_equal(told, 0);
    void *second = arena_alloc(a, NULL, 0, 20000);
    assert_int_equal(told, 1);
    void *third = arena_alloc(a, NULL, 0, 20000);
    assert_int_equal(told, 1);
    assert_null(arena_alloc(a, NULL, 0, 900000));
    assert_null(arena_alloc(a, first, 90000, SIZE_MAX - 64));
    arena_alloc(a, first, 90000, 0); // below 75 %: the next time counts again
    arena_alloc(a, second, 20000, 0);
    first = arena_alloc(a, NULL, 0, 90000);
    assert_int_equal(told, 2);
    arena_alloc(a, third, 20000, 0);
    arena_alloc(a, first, 90000, 0);
    arena_free(a);
}

// What others hold for the state counts like its own blocks.
static void test_memory_from_elsewhere(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    assert_true(arena_left(a) == SIZE_MAX);
    told = 0;
    arena_limit(a, 100000, 1000000, on_soft, NULL);
    size_t left = arena_left(a);
    void *p = arena_alloc(a, NULL, 0, 60000);
    arena_add(a, 60000);
    assert_int_equal(told, 1);
    assert_true(arena_live(a) >= 120000);
    assert_true(arena_left(a) <= left - 60000);
    assert_null(arena_alloc(a, NULL, 0, left - 60000 + 1));
    arena_sub(a, 60000);
    arena_add(a, 60000); // it was below 75 % in between
    assert_int_equal(told, 2);
    arena_add(a, arena_left(a));
    assert_int_equal(arena_left(a), 0);
    assert_null(arena_alloc(a, NULL, 0, 70000));
    assert_true(arena_peak(a) <= 1000000);
    arena_alloc(a, p, 60000, 0);
    arena_reset(a, 0);
    assert_int_equal(arena_live(a), 0);
    assert_true(arena_left(a) == SIZE_MAX);
    arena_free(a);
}

static void test_image_comes_back(void **state)
{
    (void)state;
    struct arena *a = arena_new();
    char *text = arena_alloc(a, NULL, 0, 100);
    char *gap = arena_alloc(a, NULL, 0, 100);
    strcpy(text, "as it was");
    arena_alloc(a, gap, 100, 0);
    arena_save(a);
    size_t live = arena_live(a);
    void *next = NULL;
    for (int round = 0; round < 3; round++) {
        strcpy(text, "spoiled");
        void *p = arena_alloc(a, NULL, 0, 100);
        assert_true(round == 0 || p == next); // the same calls give the same addresses
        next = p;
        for (int i = 0; i < 5000; i++)
            arena_alloc(a, NULL, 0, 3000);
        arena_alloc(a, NULL, 0, 5000000);
        assert_true(arena_mapped(a) > 20000000);
        arena_restore(a, 1000000);
        assert_string_equal(text, "as it was");
        assert_int_equal(arena_live(a), live);
        assert_int_equal(arena_peak(a), live);
        assert_true(arena_mapped(a) <= 1000000);
    }
    arena_free(a);
}

// Later blocks have greater numbers, also where others were before; an image brings its own numbers back.
static void test_ordinals_are_the_order_of_making(void **state)
{
    (void)state;
    enum { BLOCKS = 20000 };
    static char *blocks[BLOCKS];
    struct random r;
    random_init(&r, 11);
    struct arena *a = arena_new();
    char *first = arena_alloc(a, NULL, 0, 64);
    char *second = arena_alloc(a, NULL, 0, 64);
    arena_alloc(a, first, 64, 0);
    first = arena_alloc(a, NULL, 0, 64); // where the other was
    assert_true(first < second && arena_ordinal(a, first) > arena_ordinal(a, second));
    arena_save(a);
    uint64_t ordinal = arena_ordinal(a, first);
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < BLOCKS; i++)
            blocks[i] = arena_alloc(a, NULL, 0, 64 + (size_t)i % 5 * 100);
        uint64_t last = arena_ordinal(a, blocks[BLOCKS - 1]);
        for (int i = 0; i < BLOCKS / 2; i++) {
            int b = (int)random_below(&r, BLOCKS);
            size_t size = 64 + (size_t)b % 5 * 100;
            arena_alloc(a, blocks[b], size, 0);
            blocks[b] = arena_alloc(a, NULL, 0, size);
            assert_true(arena_ordinal(a, blocks[b]) > last);
            last = arena_ordinal(a, blocks[b]);
            assert_int_equal(arena_ordinal(a, blocks[b] + 48), last); // behind a header
        }
        arena_alloc(a, first, 64, 0);
        assert_true(arena_alloc(a, NULL, 0, 64) == first && arena_ordinal(a, first) > last);
        arena_restore(a, 1000000);
        assert_int_equal(arena_ordinal(a, first), ordinal);
    }
    arena_free(a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_blocks_keep_their_bytes),
        cmocka_unit_test(test_freed_blocks_are_reused),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_memory_from_elsewhere),
        cmocka_unit_test(test_image_comes_back),
        cmocka_unit_test(test_ordinals_are_the_order_of_making),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
