// Bundles that are large, or whose main chunks are hostile.

#include "data/json_write.h"
#include "things.h"

enum { SECOND = 1000 };

struct file {
    char *name, *text;
};

static void put_bundle(struct sim *s, const char *name, const struct file *files, size_t n)
{
    struct buf body;
    struct json_writer w;
    buf_init(&body, 64 << 20);
    jw_init(&w, &body);
    jw_object(&w);
    jw_member_str(&w, "apiVersion", "v1");
    jw_member_str(&w, "kind", "ConfigMap");
    jw_key(&w, "metadata");
    jw_object(&w);
    jw_member_str(&w, "name", name);
    jw_member_str(&w, "namespace", "tidelock-system");
    jw_key(&w, "labels");
    jw_object(&w);
    jw_member_str(&w, "tidelock.dev/scripts", "true");
    jw_object_end(&w);
    jw_object_end(&w);
    jw_key(&w, "data");
    jw_object(&w);
    for (size_t i = 0; i < n; i++)
        jw_member_str(&w, files[i].name, files[i].text);
    jw_object_end(&w);
    jw_object_end(&w);
    sim_apply(s, "kubectl", body.data);
    buf_fini(&body);
}

static char *script(const char *name, const char *head, const char *value)
{
    return xasprintf(
        "%s\nreturn { name = '%s', subject = 'x.test/v1/Thing', reconcile = function(o)\n"
        "  return { apply = { { apiVersion = 'v1', kind = 'ConfigMap', metadata = { name = '%s' },\n"
        "    data = { v = %s } } } }\nend }\n",
        head, name, name, value);
}

static void free_files(struct file *files, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        free(files[i].name);
        free(files[i].text);
    }
}

static void start(struct sim *s)
{
    things_start(s, "return {}", "");
    things_put(s, "t", "{}");
    things_settle(s);
}

static void a_thousand_files(void **unused)
{
    enum { N = 1000 };
    static struct file files[N];
    struct sim s;
    (void)unused;
    start(&s);
    for (int i = 0; i < N - 1; i++) {
        files[i].name = xasprintf("m%03d.lua", i);
        files[i].text =
            i == 0 ? xstrdup("return 'deep'") : xasprintf("return require 'm%03d'", i % 50 == 0 ? 0 : i - 1);
    }
    files[N - 1] = (struct file){xstrdup("top.lua"), script("top", "", "require 'm949'")};
    put_bundle(&s, "many", files, N);
    things_settle(&s);
    assert_string_equal(things_value(&s, "default", "top"), "deep");
    free_files(files, N);
    sim_fini(&s);
}

static void a_thousand_scripts(void **unused)
{
    enum { N = 1000 };
    static struct file files[N];
    struct sim s;
    (void)unused;
    sim_init(&s, 3);
    sim_run(&s, SECOND);
    for (int i = 0; i < N; i++) {
        char name[32];
        snprintf(name, sizeof name, "s%03d", i);
        files[i].name = xasprintf("%s.lua", name);
        files[i].text = script(name, "", "'x'");
    }
    put_bundle(&s, "many", files, N);
    things_settle(&s);
    assert_int_equal(things_events(&s, "tidelock-system", "ScriptInvalid", NULL), 0);
    struct buf why;
    buf_init(&why, 1 << 20);
    assert_true(host_is_ready(s.host, &why)); // each waits for its kind
    assert_non_null(strstr(why.data, "script s999 "));
    buf_fini(&why);
    free_files(files, N);
    sim_fini(&s);
}

static void a_mebibyte_of_source(void **unused)
{
    struct sim s;
    struct buf text;
    (void)unused;
    start(&s);
    buf_init(&text, 2 << 20);
    buf_add_str(&text, "local t = {}\n");
    for (int i = 0; text.len < (1 << 20) - 1024; i++)
        buf_addf(&text, "t[%d] = { name = 'n%d', f = function(a) return a + %d end }\n", i, i, i);
    char *last = script("big", text.data, "t[7].name");
    struct file f = {xstrdup("big.lua"), last};
    put_bundle(&s, "big", &f, 1);
    things_settle(&s);
    // It works, or says why not.
    assert_true(strcmp(things_value(&s, "default", "big"), "n7") == 0 ||
                things_events(&s, "tidelock-system", "ScriptInvalid", "big.lua") == 1);
    free_files(&f, 1);
    buf_fini(&text);
    sim_fini(&s);
}

static void hostile_main_chunks(void **unused)
{
    enum { N = 60 };
    static const char *const heads[] = {"while true do end", "while true do pcall(error) end",
                                        "local t = {} while true do t[#t + 1] = ('x'):rep(9999) .. #t end"};
    static struct file files[N];
    struct sim s;
    (void)unused;
    start(&s);
    for (int i = 0; i < N; i++) {
        char name[32];
        snprintf(name, sizeof name, "h%02d", i);
        files[i].name = xasprintf("%s.lua", name);
        files[i].text = script(name, heads[i % 3], "'x'");
    }
    put_bundle(&s, "hostile", files, N);
    things_settle(&s);
    assert_true(things_events(&s, "tidelock-system", "ScriptInvalid", "CPU budget") > 0);
    assert_string_equal(things_value(&s, "default", "h00"), "absent");
    // Others load as ever.
    struct file good = {xstrdup("good.lua"), script("good", "", "'yes'")};
    put_bundle(&s, "good", &good, 1);
    sim_run(&s, SECOND);
    assert_string_equal(things_value(&s, "default", "good"), "yes");
    free_files(&good, 1);
    free_files(files, N);
    sim_fini(&s);
}

// A bundle that is expensive to read and changes all the time gets its share, and its last version in the
// end.
static void a_bundle_that_changes_all_the_time(void **unused)
{
    struct sim s;
    (void)unused;
    start(&s);
    for (int i = 0; i < 300; i++) { // 60 ms each
        char *head = xasprintf("for i = 1, 900000 do local x = i %% 7 end local v = '%d'", i);
        struct file f = {xstrdup("busy.lua"), script("busy", head, "v")};
        put_bundle(&s, "busy", &f, 1);
        free_files(&f, 1);
        free(head);
        sim_run(&s, 20);
    }
    sim_run(&s, 2 * SECOND);
    sim_run(&s, 120 * SECOND);
    assert_string_equal(things_value(&s, "default", "busy"), "299");
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thousand_files),
        cmocka_unit_test(a_thousand_scripts),
        cmocka_unit_test(a_mebibyte_of_source),
        cmocka_unit_test(hostile_main_chunks),
        cmocka_unit_test(a_bundle_that_changes_all_the_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
