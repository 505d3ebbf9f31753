// Generated secrets: the values themselves, and the host's key that they are made from.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "run/sim.h"
#include "run/world/secret_value.h"
#include "unit.h"

enum { SETTLE_MS = 10 * 1000 };

#define CONFIG_MAPS "/api/v1/namespaces/default/configmaps"
#define KEY_PATH "/api/v1/namespaces/tidelock-system/secrets/tidelock-host-key"

static const uint8_t key[SECRET_VALUE_KEY] = {1, 2, 3};

static void same_for_the_same(void **unused)
{
    char a[65], b[65], c[65], shorter[9];
    (void)unused;
    secret_value_make(key, "uid-1", "db", 64, NULL, a);
    secret_value_make(key, "uid-1", "db", 64, NULL, b);
    assert_string_equal(a, b);
    assert_int_equal(strlen(a), 64);
    secret_value_make(key, "uid-1", "db", 8, NULL, shorter);
    assert_memory_equal(a, shorter, 8);
    secret_value_make(key, "uid-2", "db", 64, NULL, c);
    assert_string_not_equal(a, c);
    secret_value_make(key, "uid-1", "db2", 64, NULL, c);
    assert_string_not_equal(a, c);
    secret_value_make(key, "uid-1d", "b", 64, NULL, b); // where the parts meet matters
    secret_value_make(key, "uid-1", "db", 64, NULL, c);
    assert_string_not_equal(b, c);
}

static void each_character_as_likely(void **unused)
{
    enum { VALUES = 200, LENGTH = 1000 };
    char charset[96], out[LENGTH + 1];
    size_t counts[128] = {0}, n = 0;
    (void)unused;
    for (char c = '!'; c <= '~'; c++) // 94, so that 256 % 94 = 68 of them would come half as often again
        charset[n++] = c;
    charset[n] = '\0';
    for (int i = 0; i < VALUES; i++) {
        char name[16];
        snprintf(name, sizeof name, "n%d", i);
        secret_value_make(key, "uid", name, LENGTH, charset, out);
        for (int k = 0; k < LENGTH; k++)
            counts[(unsigned char)out[k]]++;
    }
    double mean = (double)VALUES * LENGTH / (double)n; // 2128, deviation 46
    for (size_t i = 0; i < n; i++)
        assert_true((double)counts[(unsigned char)charset[i]] > mean * 0.9 &&
                    (double)counts[(unsigned char)charset[i]] < mean * 1.1);
}

static void refused(const char *name, int length, const char *charset, const char *why)
{
    struct err e = {0};
    assert_int_equal(secret_value_check(name, length, charset, &e), -ERR_INVALID);
    if (strstr(e.text, why) == NULL)
        fail_msg("\"%s\" lacks \"%s\"", e.text, why);
}

static void limits(void **unused)
{
    char name[300];
    (void)unused;
    memset(name, 'n', sizeof name);
    name[254] = '\0';
    assert_int_equal(secret_value_check("db", 1, "ab", NULL), 0);
    assert_int_equal(secret_value_check("db", SECRET_VALUE_MAX, NULL, NULL), 0);
    refused("", 8, NULL, "1 to 253 bytes");
    refused(name, 8, NULL, "1 to 253 bytes");
    refused("db", 0, NULL, "1 to 1024");
    refused("db", 1025, NULL, "1 to 1024");
    refused("db", 8, "", "two characters");
    refused("db", 8, "a", "two characters");
    refused("db", 8, "aba", "'a' twice");
    refused("db", 8, "a\xc3\xa4", "printable ASCII");
    refused("db", 8, "a\n", "printable ASCII");
}

// ---- on a host

static const char script[] =
    "return { name = 'passwords', subject = 'v1/ConfigMap', selector = 'password=yes', reconcile = "
    "function(o, w)\n"
    "  return { apply = { { apiVersion = 'v1', kind = 'ConfigMap', metadata = { name = o.metadata.name .. "
    "'-pw' },\n"
    "    data = { v = w.secret_value('db', { length = 20, charset = 'abcdefgh' }) } } } }\n"
    "end }\n";

static void put_subject(struct sim *s)
{
    sim_apply(s, "kubectl",
              "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\",\"namespace\":"
              "\"default\",\"labels\":{\"password\":\"yes\"}}}");
}

static char *value(struct sim *s)
{
    struct json_doc *doc = sim_get(s, "v1", "configmaps", "a-pw");
    char *v = xstrdup(json_str(json_path(json_root(doc), "data", "v", NULL)));
    json_doc_free(doc);
    return v;
}

static void same_after_a_restart(void **unused)
{
    struct sim s;
    (void)unused;
    sim_init(&s, 5);
    sim_put_script_text(&s, "passwords", "passwords.lua", script);
    put_subject(&s);
    sim_run(&s, SETTLE_MS);
    char *first = value(&s);
    assert_non_null(first);
    assert_int_equal(strlen(first), 20);
    assert_int_equal(strspn(first, "abcdefgh"), 20);
    size_t mark = s.trace.len;
    sim_restart_host(&s);
    sim_run(&s, SETTLE_MS);
    char *second = value(&s);
    assert_string_equal(first, second);
    assert_non_null(strstr(s.trace.data + mark, "GET " KEY_PATH));
    assert_null(strstr(s.trace.data + mark, "PATCH " CONFIG_MAPS));
    free(first);
    free(second);
    sim_fini(&s);
}

static void a_key_that_is_no_key_is_not_used(void **unused)
{
    struct sim s;
    (void)unused;
    sim_init(&s, 6);
    sim_request(&s, "alice", "POST", "/api/v1/namespaces/tidelock-system/secrets", "application/json",
                "{\"apiVersion\":\"v1\",\"kind\":\"Secret\",\"metadata\":{\"name\":\"tidelock-host-key\"},"
                "\"data\":{\"key\":\"c2hvcnQ=\"}}");
    sim_put_script_text(&s, "passwords", "passwords.lua", script);
    put_subject(&s);
    sim_run(&s, SETTLE_MS);
    assert_null(value(&s)); // parked
    sim_request(&s, "alice", "DELETE", KEY_PATH, "application/json", "{}");
    sim_run(&s, 10 * SETTLE_MS);
    char *v = value(&s);
    assert_non_null(v);
    free(v);
    sim_fini(&s);
}

static void nobody_asks_nobody_makes_one(void **unused)
{
    struct sim s;
    (void)unused;
    sim_init(&s, 7);
    sim_put_script_text(&s, "passwords", "passwords.lua",
                        "return { name = 'passwords', subject = 'v1/ConfigMap', selector = 'password=yes', "
                        "reconcile = function(o) return nil end }\n");
    put_subject(&s);
    sim_run(&s, SETTLE_MS);
    assert_null(apiserver_get_json(s.server, "v1", "secrets", "tidelock-system", "tidelock-host-key"));
    assert_null(strstr(s.trace.data, "tidelock-host-key"));
    sim_fini(&s);
}

// Not even a script that may read Secrets sees the key.
static void the_key_is_the_hosts(void **unused)
{
    struct sim s;
    (void)unused;
    sim_init(&s, 8);
    assert_int_equal(grants_add(s.grants, "passwords=/Secret", NULL), 0);
    sim_put_script_text(
        &s, "passwords", "passwords.lua",
        "return { name = 'passwords', subject = 'v1/ConfigMap', selector = 'password=yes', reconcile = "
        "function(o, w)\n"
        "  w.secret_value('db')\n"
        "  local all = #w.list('v1/Secret', { namespace = '*' })\n"
        "  local ok, why = pcall(w.get, 'v1/Secret', 'tidelock-host-key', 'tidelock-system')\n"
        "  return { apply = { { apiVersion = 'v1', kind = 'ConfigMap', metadata = { name = o.metadata.name "
        ".. '-pw' },\n"
        "    data = { v = all .. tostring(ok) .. tostring(why) } } } }\n"
        "end }\n");
    put_subject(&s);
    sim_run(&s, SETTLE_MS);
    char *v = value(&s);
    assert_non_null(v);
    assert_non_null(strstr(v, "0false"));
    assert_non_null(strstr(v, "the host's key"));
    free(v);
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_for_the_same),
        cmocka_unit_test(each_character_as_likely),
        cmocka_unit_test(limits),
        cmocka_unit_test(same_after_a_restart),
        cmocka_unit_test(a_key_that_is_no_key_is_not_used),
        cmocka_unit_test(nobody_asks_nobody_makes_one),
        cmocka_unit_test(the_key_is_the_hosts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
