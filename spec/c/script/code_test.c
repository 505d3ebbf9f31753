#include "script/script_support.h"

#include "base/buf.h"
#include "script/code.h"
#include "script/program.h"

static void repeat(struct buf *b, size_t n, const char *text)
{
    for (size_t i = 0; i < n; i++)
        buf_add_str(b, text);
}

static int compile(const struct buf *text, uint64_t *cpu_us, struct err *e)
{
    struct code code;
    int r = code_compile("web.lua", text->data, text->len, cpu_us, &code, e);
    if (r == 0)
        code_fini(&code);
    return r;
}

static void expect_limit(const struct buf *text, const char *limit)
{
    struct err e = {0};
    uint64_t cpu_us = CODE_CPU_US;
    char *says = xasprintf("web.lua: compiling it takes more %s than a script may use: make", limit);
    if (compile(text, &cpu_us, &e) != -ERR_LIMIT)
        fail_msg("not a limit: %s", e.text);
    assert_ptr_equal(strstr(e.text, says), e.text);
    free(says);
}

static void test_long_plain_code(void **state)
{
    struct buf text;
    struct err e = {0};
    uint64_t cpu_us = UINT64_MAX / 2;
    (void)state;
    buf_init(&text, CODE_SOURCE_MAX);
    while (text.len < 1 << 20)
        buf_add_str(&text, "function make(a, b) if a.spec.replicas > 1 then return { name = b } end end\n");
    assert_int_equal(compile(&text, &cpu_us, &e), 0);
    buf_fini(&text);
}

// The parser looks at all earlier operands for each "or" and at all earlier branches for each "elseif": a
// megabyte would take it minutes.
static void test_quadratic_chains(void **state)
{
    struct buf text;
    (void)state;
    buf_init(&text, CODE_SOURCE_MAX);
    buf_add_str(&text, "return a");
    repeat(&text, 200000, " or a");
    expect_limit(&text, "CPU time");
    buf_reset(&text);
    buf_add_str(&text, "if a then ");
    repeat(&text, 200000, "elseif b then ");
    buf_add_str(&text, "end");
    expect_limit(&text, "CPU time");
    buf_fini(&text);
}

// A global is looked for among the locals of all functions around it.
static void test_globals_below_many_locals(void **state)
{
    struct buf text;
    (void)state;
    buf_init(&text, CODE_SOURCE_MAX);
    for (int f = 0; f < 180; f++) {
        buf_add_str(&text, "function f() local l");
        for (int i = 0; i < 190; i++)
            buf_addf(&text, ", l%d", i);
        buf_add_char(&text, '\n');
    }
    repeat(&text, 200000, " x()");
    repeat(&text, 180, " end");
    expect_limit(&text, "CPU time");
    buf_fini(&text);
}

static void test_memory(void **state)
{
    struct buf text;
    struct err e = {0};
    uint64_t cpu_us = UINT64_MAX / 2;
    (void)state;
    buf_init(&text, CODE_SOURCE_MAX);
    for (int f = 0; f < 30; f++) {
        buf_add_str(&text, "function f()");
        repeat(&text, 30000, "x{1}");
        buf_add_str(&text, " end ");
    }
    assert_int_equal(compile(&text, &cpu_us, &e), -ERR_LIMIT);
    assert_non_null(strstr(e.text, "takes more memory"));
    buf_fini(&text);
}

// The files of a bundle share the time: one that eats it all leaves none.
static void test_bundle_shares_the_time(void **state)
{
    struct buf text;
    struct err e = {0};
    struct program *p = NULL;
    uint64_t used_us = 0;
    (void)state;
    buf_init(&text, CODE_SOURCE_MAX);
    buf_add_str(&text, "return a");
    repeat(&text, 200000, " or a");
    static const char good[] = "return {subject = 'v1/Pod', reconcile = function() end}";
    const struct program_file files[] = {{"a.lua", text.data, text.len}, {"b.lua", good, sizeof good - 1}};
    struct program_files *f = program_files_new(files, 2, NULL, 0);
    assert_int_equal(program_files_cpu_us(f), CODE_CPU_US);
    assert_int_equal(program_of_files(f, 1, NULL, 0, &p, &used_us, &e), -ERR_LIMIT);
    assert_non_null(strstr(e.text, "b.lua: compiling it takes more CPU time"));
    program_files_unref(f);
    f = program_files_new(files + 1, 1, NULL, 0);
    assert_in_range(program_files_cpu_us(f), 1, CODE_CPU_US - 1);
    assert_int_equal(program_of_files(f, 0, NULL, 0, &p, &used_us, &e), 0);
    program_unref(p);
    program_files_unref(f);
    buf_fini(&text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_long_plain_code),           cmocka_unit_test(test_quadratic_chains),
        cmocka_unit_test(test_globals_below_many_locals), cmocka_unit_test(test_memory),
        cmocka_unit_test(test_bundle_shares_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
