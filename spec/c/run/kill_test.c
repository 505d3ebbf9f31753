// The host is killed right after each single write, and another one that remembers nothing goes on: the end
// is the same as without, and the next pass writes nothing.

#include "base/strset.h"
#include "data/json_write.h"
#include "run/things.h"

// Three children (one that the collector does not reach, so there is a finalizer), a patch, a status.
#define SCRIPT                                                                                               \
    "local k8s = require 'tidelock'\n"                                                                       \
    "local apply = {}\n"                                                                                     \
    "for _, name in ipairs(o.spec.children) do\n"                                                            \
    "  local c = cm(name, o.spec.v)\n"                                                                       \
    "  if name == 'far' then c.metadata.namespace = 'other' end\n"                                           \
    "  apply[#apply + 1] = c\n"                                                                              \
    "end\n"                                                                                                  \
    "local patch = { apiVersion = 'v1', kind = 'ConfigMap', metadata = { name = 'target' },\n"               \
    "  data = { v = o.spec.v } }\n"                                                                          \
    "return { apply = apply, patch = { patch }, status = { seen = o.spec.v } }"
#define FINALIZE "finalize = function(o) return { patch = {}, done = true } end"

static void create(struct sim *s)
{
    things_put(s, "t", "{\"children\":[\"a\",\"b\",\"far\"],\"v\":\"1\"}");
}

static void update(struct sim *s)
{
    things_put(s, "t", "{\"children\":[\"a\",\"b\",\"far\"],\"v\":\"2\"}");
}

static void prune(struct sim *s)
{
    things_put(s, "t", "{\"children\":[\"b\"],\"v\":\"2\"}");
}

static void go(struct sim *s)
{
    things_delete(s, "t");
}

static void (*const steps[])(struct sim *s) = {create, update, prune, go};
enum { STEPS = sizeof steps / sizeof steps[0] };

static void print_managers(struct json_writer *w, const json *meta, bool of_status)
{
    for (struct json_iter i = json_iter(json_get(meta, "managedFields")); json_next(&i);) {
        const char *manager = json_get_str(i.value, "manager");
        if (!str_has_prefix(manager, "tidelock-") || of_status != (json_get(i.value, "subresource") != NULL))
            continue;
        jw_strn(w, manager, 15); // without the hash of the subject's UID
        jw_value(w, json_get(i.value, "fieldsV1"));
    }
}

// What there is, without what differs between any two runs.
static void print_object(struct buf *out, const json *o)
{
    struct json_writer w;
    static const char *const parts[] = {"data", "spec", "status", NULL};
    jw_init(&w, out);
    jw_object(&w);
    const json *meta = json_get(o, "metadata");
    jw_member(&w, "name", json_get(meta, "name"));
    jw_member(&w, "finalizers", json_get(meta, "finalizers"));
    jw_member(&w, "script", json_get(json_get(meta, "labels"), "tidelock.dev/script"));
    for (const char *const *p = parts; *p != NULL; p++)
        if (json_get(o, *p) != NULL)
            jw_member(&w, *p, json_get(o, *p));
    jw_key(&w, "owners");
    jw_int(&w, (int64_t)json_count(json_get(meta, "ownerReferences")));
    jw_key(&w, "managers");
    jw_array(&w);
    print_managers(&w, meta, false); // the server sorts by time
    print_managers(&w, meta, true);
    jw_array_end(&w);
    jw_object_end(&w);
    buf_add_char(out, '\n');
}

static void print_list(struct sim *s, struct buf *out, const char *path)
{
    char *body = NULL;
    struct json_doc *doc;
    assert_int_equal(apiserver_request(s->server, "player", "GET", path, NULL, NULL, &body), 200);
    assert_int_equal(json_parse(body, strlen(body), &doc, NULL), 0);
    for (struct json_iter i = json_iter(json_get(json_root(doc), "items")); json_next(&i);)
        print_object(out, i.value);
    json_doc_free(doc);
    free(body);
}

static char *print_all(struct sim *s)
{
    struct buf out;
    buf_init(&out, 1 << 20);
    print_list(s, &out, THINGS_CONFIG_MAPS);
    print_list(s, &out, "/api/v1/namespaces/other/configmaps");
    print_list(s, &out, THINGS_PATH);
    char *text = buf_take(&out, NULL);
    static const char owner[] = "\\\"uid\\\":\\\""; // a key of ownerReferences: another in each run
    for (char *at = text; (at = strstr(at, owner)) != NULL;)
        for (at += sizeof owner - 1; *at != '\\'; at++)
            *at = '-';
    return text;
}

static void start(struct sim *s)
{
    things_start(s, SCRIPT, FINALIZE);
    sim_request(s, "alice", "POST", THINGS_CONFIG_MAPS, "application/json",
                "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"target\"}}");
    things_settle(s);
}

static void settled(struct sim *s)
{
    sim_run(s, 60 * 1000);
}

// The state after each step when nobody is killed.
static void run_whole(char *states[STEPS])
{
    struct sim s;
    start(&s);
    for (size_t i = 0; i < STEPS; i++) {
        steps[i](&s);
        settled(&s);
        states[i] = print_all(&s);
    }
    sim_fini(&s);
}

// Killed after the n-th write of that step. False: it has fewer.
static bool run_killed(size_t step, size_t n, const char *want)
{
    struct sim s;
    start(&s);
    for (size_t i = 0; i < step; i++) {
        steps[i](&s);
        settled(&s);
    }
    steps[step](&s);
    bool died = sim_run_and_die(&s, n, 60 * 1000);
    settled(&s);
    char *have = print_all(&s);
    if (strcmp(have, want) != 0) {
        fprintf(stderr, "step %zu, killed after write %zu:\n%s\nwithout:\n%s\n", step, n, have, want);
        fail();
    }
    free(have);
    size_t writes = things_writes(&s);
    sim_restart_host(&s);
    settled(&s);
    assert_int_equal(things_writes(&s), writes);
    sim_fini(&s);
    return died;
}

static void kill_after_each_write(void **unused)
{
    char *states[STEPS];
    size_t total = 0;
    (void)unused;
    run_whole(states);
    for (size_t step = 0; step < STEPS; step++) {
        size_t n = 1;
        while (run_killed(step, n, states[step]))
            n++;
        print_message("step %zu: %zu writes\n", step, n - 1);
        total += n - 1;
        free(states[step]);
    }
    assert_true(total >= 15);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kill_after_each_write)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
