#include "script/script_support.h"

#include "script/program.h"

static int make(const char *text, struct program **ret, struct err *e)
{
    static const char lib[] = "return {answer = 42}";
    static const char loop_a[] = "return require 'loop_b'";
    static const char loop_b[] = "return require 'loop_a.lua'";
    const struct program_file modules[] = {{"lib.lua", lib, strlen(lib)},
                                           {"loop_a.lua", loop_a, strlen(loop_a)},
                                           {"loop_b.lua", loop_b, strlen(loop_b)}};
    struct program_options o = {
        .main = {"web.lua", text, strlen(text)}, .modules = modules, .module_count = 3};
    return program_new(&o, ret, e);
}

static void expect_error(const char *text, int code, const char *says)
{
    struct program *p = NULL;
    struct err e = {0};
    int r = make(text, &p, &e);
    if (r != code || strstr(e.text, says) == NULL)
        fail_msg("%d '%s', not %d with '%s'\nfor: %s", r, e.text, code, says, text);
    assert_null(p);
}

static void expect_table_error(const char *members, const char *says)
{
    char *text = xasprintf("return {subject = 'v1/Pod', reconcile = function() end, %s}", members);
    expect_error(text, -ERR_INVALID, says);
    free(text);
}

static void test_reads_the_table(void **state)
{
    (void)state;
    struct program *p = NULL;
    struct err e = {0};
    int r = make(
        "local lib = require 'lib'\n"
        "return {subject = 'cache.example.com/v1alpha1/Memcached', reconcile = function() return lib.answer "
        "end,\n"
        "selector = {app = 'x', ['b.io/c'] = 'y'}, fields = 'spec.nodeName=n', namespaces = {'a', 'b'},\n"
        "changed = {'spec.replicas'}, finalize = function() end, finalize_timeout = '1h', finalize_abandon = "
        "true,\n"
        "resync = 90, workers = 2, service_account = 'sa', crd = {}, "
        "index = {node = 'spec.nodeName', host = 'status.hostIP'},\n"
        "retry = {kind = 'fast_slow', base = '1s', max = '10s', fast_attempts = 3, jitter = true},\n"
        "limits = {cpu = '250ms', memory = '32Mi'}}",
        &p, &e);
    assert_string_equal(e.text, "");
    assert_int_equal(r, 0);
    const struct program_spec *s = program_spec(p);
    assert_string_equal(s->name, "web");
    assert_string_equal(s->subject, "cache.example.com/v1alpha1/Memcached");
    assert_string_equal(s->selector, "app=x,b.io/c=y");
    assert_string_equal(s->fields, "spec.nodeName=n");
    assert_string_equal(s->namespaces[1], "b");
    assert_null(s->namespaces[2]);
    assert_string_equal(s->changed[0], "spec.replicas");
    assert_null(s->changed[1]);
    assert_int_equal(s->index_count, 2);
    assert_string_equal(s->index[0].name, "host");
    assert_string_equal(s->index[0].path, "status.hostIP");
    assert_string_equal(s->index[1].name, "node");
    assert_string_equal(s->index[1].path, "spec.nodeName");
    assert_true(s->has_finalize && s->finalize_abandon && !s->has_when && !s->has_validate);
    assert_int_equal(s->finalize_timeout_us, 3600000000LL);
    assert_int_equal(s->resync_us, 90000000);
    assert_int_equal(s->workers, 2);
    assert_string_equal(s->service_account, "sa");
    assert_string_equal(s->retry.kind, "fast_slow");
    assert_int_equal(s->retry.base_us, 1000000);
    assert_int_equal(s->retry.max_us, 10000000);
    assert_int_equal(s->retry.fast_attempts, 3);
    assert_true(s->retry.jitter);
    assert_int_equal(s->limits.cpu_us, 250000);
    assert_int_equal(s->limits.memory, 32 << 20);
    assert_string_equal(program_file_name(p), "web.lua");
    assert_int_equal(strlen(program_hash(p)), 16);
    program_unref(program_ref(p));
    program_unref(p);
}

static void test_hash_follows_the_text(void **state)
{
    (void)state;
    struct program *a = NULL;
    struct program *b = NULL;
    struct program *c = NULL;
    struct err e;
    assert_int_equal(make("return {subject = 'v1/Pod', reconcile = function() end}", &a, &e), 0);
    assert_int_equal(make("return {subject = 'v1/Pod', reconcile = function() end}", &b, &e), 0);
    assert_int_equal(make("return {subject = 'v1/Pod', reconcile = function() end} ", &c, &e), 0);
    assert_string_equal(program_hash(a), program_hash(b));
    assert_string_not_equal(program_hash(a), program_hash(c));
    program_unref(a);
    program_unref(b);
    program_unref(c);
}

static void test_errors_of_chunks(void **state)
{
    (void)state;
    expect_error("local x = = 1", -ERR_PARSE, "web.lua:1: ");
    expect_error("\n\nfoo(", -ERR_PARSE, "web.lua:3: ");
    expect_error("\033LJ\002", -ERR_PARSE, "bytecode");
    expect_error("return {subject = 'v1/Pod', n = 1LL}", -ERR_PARSE, "without a suffix");
    expect_error("return 2i", -ERR_PARSE, "without a suffix");
    expect_error("error('no')", -ERR_SCRIPT, "web.lua:1: no");
    expect_error("local x = nil; return x.y", -ERR_SCRIPT, "web.lua:1: ");
    expect_error("while true do end", -ERR_LIMIT, "CPU budget");
    expect_error("require 'nothing'", -ERR_SCRIPT, "web.lua:1: module 'nothing' not found");
    expect_error("require 'loop_a'", -ERR_SCRIPT, "requires itself");
    expect_error("local function help() end return {help = help}", -ERR_NOT_FOUND, "module");
    expect_error("return 42", -ERR_NOT_FOUND, "module");
    expect_error("", -ERR_NOT_FOUND, "module");
}

static void test_errors_of_tables(void **state)
{
    (void)state;
    expect_error("return {subject = 'v1/Pod'}", -ERR_INVALID, "web.lua: reconcile: is missing");
    expect_error("return {subject = 'v1/Pod', reconcile = 1}", -ERR_INVALID,
                 "reconcile: expected a function, got a number");
    expect_error("return {subject = 'Pod', reconcile = function() end}", -ERR_INVALID, "group/version/Kind");
    expect_error("return {subject = 'v1/pod', reconcile = function() end}", -ERR_INVALID,
                 "group/version/Kind");
    expect_error("return {subject = 'a/b/v1/Pod', reconcile = function() end}", -ERR_INVALID,
                 "group/version/Kind");
    expect_error("return {subject = {}, reconcile = function() end}", -ERR_INVALID,
                 "subject: expected a text");
    expect_table_error("name = 'Web'", "lower-case");
    expect_table_error("name = 3", "name: expected a text, got a number");
    expect_table_error("reconcil = 1", "reconcil: unknown key; did you mean 'reconcile'?");
    expect_table_error("zzzzzz = 1", "zzzzzz: unknown key");
    expect_table_error("1", "no name");
    expect_table_error("changed = 'spec'", "changed: expected a list of texts");
    expect_table_error("changed = {}", "changed: expected a list of 1 to");
    expect_table_error("changed = {'spec', ''}", "changed[2]: must not be empty or hold NUL");
    expect_table_error("changed = {('x'):rep(1025)}", "changed[1]: is longer than 1024 bytes");
    expect_table_error("namespaces = {'a', ('x'):rep(1025)}", "namespaces[2]: is longer than 1024 bytes");
    expect_table_error("index = {a = ('x'):rep(1025)}", "index: a name or path is longer than 1024 bytes");
    expect_table_error("selector = ('a,'):rep(33000) .. 'a'", "selector: is longer than 65536 bytes");
    expect_table_error("changed = {'a', 1}", "changed[2]: expected a text");
    expect_table_error("index = 'spec.nodeName'", "index: expected names and paths");
    expect_table_error("index = {'spec.nodeName'}", "index: expected names, got a list");
    expect_table_error("index = {node = 7}", "index.node: expected a dotted path such as");
    expect_table_error("index = {node = 'a=b'}", "index.node: expected a dotted path such as");
    expect_table_error("changed = {'a'}, when = function() end", "not both");
    expect_table_error("selector = 1", "selector: expected a map or a selector text");
    expect_table_error("selector = {a = 'b,c'}", "no label value");
    expect_table_error("resync = 0", "resync: expected a duration above zero");
    expect_table_error("resync = 'soon'", "resync: expected a duration above zero");
    expect_table_error("workers = 1.5", "workers: expected a whole number");
    expect_table_error("finalize_timeout = '1m'", "no finalize function");
    expect_table_error("retry = {kind = 'often'}", "retry.kind: 'often' is none of");
    expect_table_error("retry = {base = '2s', max = '1s'}", "retry.max");
    expect_table_error("retry = {fast_attempts = 3}", "retry.fast_attempts: is for kind = \"fast_slow\"");
    expect_table_error("retry = {kind = 'fixed', base = '1s', max = '2s'}", "retry.max: kind = \"fixed\"");
    expect_table_error("retry = {bse = '2s'}", "retry.bse: unknown key; did you mean 'base'?");
    expect_table_error("limits = '1s'", "limits: expected a table");
    expect_table_error("limits = {cpus = '1s'}", "limits.cpus: unknown key; did you mean 'cpu'?");
    expect_table_error("limits = {cpu = '0s'}", "limits.cpu: expected a duration above zero");
    expect_table_error("limits = {cpu = '10us'}", "limits.cpu: expected 1ms or more");
    expect_table_error("limits = {memory = '32MB'}", "limits.memory: expected a size from \"1Mi\"");
    expect_table_error("limits = {memory = '1023Ki'}", "limits.memory: expected a size from \"1Mi\"");
    expect_table_error("limits = {memory = -1}", "limits.memory: expected a size from \"1Mi\"");
    expect_table_error("limits = {memory = 0 / 0}", "limits.memory: expected a size from \"1Mi\"");
    expect_table_error("limits = {memory = {}}", "limits.memory: expected a size from \"1Mi\"");
    expect_table_error("crd = 'x'", "crd: expected a table");
}

static void test_check(void **state)
{
    (void)state;
    struct err e;
    struct program_file good = {"lib.lua", "return 1", 8};
    struct program_file bad = {"lib.lua", "return =", 8};
    struct program_file named = {"[C]", "return 1", 8};
    assert_int_equal(program_check(&good, &e), 0);
    assert_int_equal(program_check(&bad, &e), -ERR_PARSE);
    assert_non_null(strstr(e.text, "lib.lua:1:"));
    assert_int_equal(program_check(&named, &e), -ERR_INVALID);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_reads_the_table),
        cmocka_unit_test(test_hash_follows_the_text),
        cmocka_unit_test(test_errors_of_chunks),
        cmocka_unit_test(test_errors_of_tables),
        cmocka_unit_test(test_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
