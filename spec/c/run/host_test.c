// The memcached operator through its life on the embedded API server: deterministic by seed, and the same in
// the end whatever the order of events.

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/json_write.h"
#include "run/sim.h"
#include "unit.h"

enum { SETTLE_MS = 10 * 1000 };

#define DEPLOYMENTS "/apis/apps/v1/namespaces/default/deployments"
#define SERVICES "/api/v1/namespaces/default/services"
#define MEMCACHEDS "/apis/cache.example.com/v1alpha1/namespaces/default/memcacheds"
#define MERGE "application/merge-patch+json"

static int64_t replicas_of(struct sim *s)
{
    struct json_doc *doc = sim_get(s, "apps/v1", "deployments", "sample");
    int64_t n = json_get_int(json_get(json_root(doc), "spec"), "replicas", -1);
    json_doc_free(doc);
    return n;
}

static bool exists(struct sim *s, const char *api_version, const char *plural, const char *name)
{
    struct json_doc *doc = sim_get(s, api_version, plural, name);
    bool there = doc != NULL;
    json_doc_free(doc);
    return there;
}

// What a person would compare: spec of the children, status of the subject without times.
static void add_state(struct sim *s, struct buf *out)
{
    static const char *const objects[][3] = {{"apps/v1", "deployments", "spec"},
                                             {"v1", "services", "spec"},
                                             {"cache.example.com/v1alpha1", "memcacheds", "status"}};
    for (size_t i = 0; i < sizeof objects / sizeof objects[0]; i++) {
        struct json_doc *doc = sim_get(s, objects[i][0], objects[i][1], "sample");
        const json *part = json_get(json_root(doc), objects[i][2]);
        for (struct json_iter it = json_iter(part); json_next(&it);) {
            char *text = NULL;
            const json *value =
                strcmp(it.key, "conditions") == 0 ? json_get(json_at(it.value, 0), "status") : it.value;
            assert_int_equal(json_print(value, 1 << 20, &text, NULL, NULL), 0);
            buf_addf(out, "%s.%s=%s\n", objects[i][1], it.key, text);
            free(text);
        }
        json_doc_free(doc);
    }
    buf_add_str(out, "--\n");
}

static void settle(struct sim *s, struct buf *state)
{
    sim_run(s, SETTLE_MS);
    add_state(s, state);
}

static void check_status(struct sim *s, int64_t size)
{
    struct json_doc *doc = sim_get(s, "cache.example.com/v1alpha1", "memcacheds", "sample");
    const json *status = json_get(json_root(doc), "status");
    assert_int_equal(json_get_int(status, "readyReplicas", -1), size);
    assert_int_equal((int64_t)json_count(json_get(status, "podNames")), size);
    assert_string_equal(json_get_str(json_at(json_get(status, "conditions"), 0), "status"), "True");
    json_doc_free(doc);
}

// create, scale, drift, delete; *ret_trace and *ret_state are freed by the caller.
static void live(uint64_t seed, char **ret_trace, char **ret_state)
{
    struct sim s;
    struct buf state;
    buf_init(&state, 1 << 20);
    sim_init(&s, seed);
    sim_apply_file(&s, "operators/memcached/crd.yaml");
    sim_put_script(&s, "memcached", "operators/memcached/memcached.lua");
    sim_apply(&s, "kubectl",
              "{\"apiVersion\":\"cache.example.com/"
              "v1alpha1\",\"kind\":\"Memcached\",\"metadata\":{\"name\":\"sample\",\"namespace\":"
              "\"default\"},\"spec\":{\"size\":3}}");
    settle(&s, &state);
    assert_int_equal(replicas_of(&s), 3);
    check_status(&s, 3);

    sim_request(&s, "kubectl", "PATCH", MEMCACHEDS "/sample", MERGE, "{\"spec\":{\"size\":5}}");
    settle(&s, &state);
    assert_int_equal(replicas_of(&s), 5);
    check_status(&s, 5);

    sim_request(&s, "kubectl", "PATCH", DEPLOYMENTS "/sample", MERGE, "{\"spec\":{\"replicas\":1}}");
    sim_request(&s, "kubectl", "DELETE", SERVICES "/sample", NULL, NULL);
    settle(&s, &state);
    assert_int_equal(replicas_of(&s), 5);
    assert_true(exists(&s, "v1", "services", "sample"));
    check_status(&s, 5);

    size_t writes = s.host_writes;
    sim_run(&s, 60 * 1000);
    assert_int_equal(s.host_writes, writes); // nothing to do: nothing is written

    sim_request(&s, "kubectl", "DELETE", MEMCACHEDS "/sample", NULL, NULL);
    settle(&s, &state);
    assert_false(exists(&s, "apps/v1", "deployments", "sample"));
    assert_false(exists(&s, "v1", "services", "sample"));
    *ret_trace = buf_take(&s.trace, NULL);
    *ret_state = buf_take(&state, NULL);
    sim_fini(&s);
}

static void same_seed_same_bytes(void **unused)
{
    char *trace[2], *state[2];
    (void)unused;
    live(7, &trace[0], &state[0]);
    live(7, &trace[1], &state[1]);
    assert_string_equal(trace[0], trace[1]);
    assert_string_equal(state[0], state[1]);
    assert_non_null(strstr(trace[0], "PATCH")); // there was something to compare
    for (int i = 0; i < 2; i++) {
        free(trace[i]);
        free(state[i]);
    }
}

static void other_order_same_end(void **unused)
{
    char *first_trace, *first_state;
    (void)unused;
    live(7, &first_trace, &first_state);
    for (uint64_t seed = 8; seed < 14; seed++) {
        char *trace, *state;
        live(seed, &trace, &state);
        assert_string_not_equal(trace, first_trace);
        assert_string_equal(state, first_state);
        free(trace);
        free(state);
    }
    free(first_trace);
    free(first_state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(same_seed_same_bytes),
        cmocka_unit_test(other_order_same_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
