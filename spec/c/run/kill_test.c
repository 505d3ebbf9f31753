// The host is killed right after each single write, and another one that remembers nothing goes on: the end
// is the same as without, and the next pass writes nothing.

#include "base/strset.h"
#include "data/json_write.h"
#include "run/things.h"

// ---- what is played

struct play {
    const char *name, *body, *rest;  // the script's, see things_script
    void (*prepare)(struct sim *s);  // or NULL
    void (*steps[6])(struct sim *s); // one after the other, each until all has settled
};

static void v1(struct sim *s)
{
    things_put(s, "t", "{\"v\":\"1\"}");
}

static void v2(struct sim *s)
{
    things_put(s, "t", "{\"v\":\"2\"}");
}

static void none(struct sim *s)
{
    things_put(s, "t", "{\"v\":\"3\",\"none\":true}");
}

static void go(struct sim *s)
{
    things_delete(s, "t");
}

static void post(struct sim *s, const char *user, const char *kind, const char *path, const char *rest)
{
    char *text = xasprintf("{\"apiVersion\":%s%s}", kind, rest);
    sim_request(s, user, "POST", path, "application/json", text);
    free(text);
}

#define CONFIG_MAP "\"v1\",\"kind\":\"ConfigMap\",\"metadata\":"

static void target(struct sim *s)
{
    post(s, "alice", CONFIG_MAP, THINGS_CONFIG_MAPS, "{\"name\":\"target\"}");
}

static void hers(struct sim *s)
{
    post(s, "alice", CONFIG_MAP, THINGS_CONFIG_MAPS,
         "{\"name\":\"a\"},\"data\":{\"v\":\"0\",\"hers\":\"x\"}");
}

// What is there as version 1 does not become version 2.
static enum apiserver_fault refuse_change(struct sim *s, const struct apiserver_passage *p,
                                          struct apiserver_answer *ret_answer)
{
    static const char body[] = "{\"kind\":\"Status\",\"apiVersion\":\"v1\",\"status\":\"Failure\",\"reason\":"
                               "\"Invalid\",\"message\":\"data.v: field is immutable\",\"code\":422}";
    if (p->answered || strcmp(p->method, "PATCH") != 0 || strstr(p->path, "/configmaps/a") == NULL ||
        memmem(p->body, p->body_len, "\"v\":\"2\"", 7) == NULL ||
        strcmp(things_value(s, "default", "a"), "1") != 0)
        return APISERVER_PASS;
    *ret_answer = (struct apiserver_answer){.status = 422, .body = body};
    return APISERVER_ANSWER;
}

static void immutable(struct sim *s)
{
    s->fault = refuse_change;
}

#define CRD_BEGIN(kind, plural, singular)                                                                    \
    "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{"       \
    "\"name\":\"" plural ".x.test\"},\"spec\":{\"group\":\"x.test\",\"scope\":\"Namespaced\",\"names\":{"    \
    "\"plural\":\"" plural "\",\"singular\":\"" singular "\",\"kind\":\"" kind                               \
    "\"},\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true,"
#define CRD_SCHEMA                                                                                           \
    "\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\",\"properties\":{\"spec\":{\"type\":\"object\","
#define FLEETS "/apis/x.test/v1/namespaces/default/fleets"
#define SAMPLES "/apis/x.test/v1/namespaces/default/samples"

static void fleets(struct sim *s)
{
    sim_apply(
        s, "kubectl",
        CRD_BEGIN("Fleet", "fleets",
                  "fleet") "\"subresources\":{\"scale\":{\"specReplicasPath\":"
                           "\".spec.replicas\",\"statusReplicasPath\":\".status.replicas\"}}," CRD_SCHEMA
                           "\"default\":{},\"properties\":{\"replicas\":{\"type\":\"integer\",\"default\":1},"
                           "\"image\":{\"type\":\"string\"}}}}}}}]}}");
}

static void scaled(struct sim *s)
{
    sim_request(s, "autoscaler", "PATCH", FLEETS "/f", THINGS_MERGE, "{\"spec\":{\"replicas\":7}}");
}

// Maps that alice has a part in, so that they stay when they are emptied.
static void samples(struct sim *s)
{
    sim_apply(s, "kubectl",
              CRD_BEGIN("Sample", "samples", "sample") CRD_SCHEMA
              "\"properties\":{\"m\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}}}}}}"
              "}}]}}");
    sim_request(
        s, "alice", "POST", SAMPLES, "application/json",
        "{\"apiVersion\":\"x.test/v1\",\"kind\":\"Sample\",\"metadata\":{\"name\":\"s\"},\"spec\":{\"m\":{"
        "\"hers\":\"x\"}}}");
}

static void she_drops_hers(struct sim *s)
{
    sim_request(s, "alice", "PATCH", SAMPLES "/s", THINGS_MERGE, "{\"spec\":{\"m\":{\"hers\":null}}}");
}

static const struct play plays[] = {
    {"apply, patch, status, finalizer",
     "local far = cm('far', o.spec.v)\n"
     "far.metadata.namespace = 'other'\n"
     "local patch = { apiVersion = 'v1', kind = 'ConfigMap', metadata = { name = 'target' },\n"
     "  data = { v = o.spec.v } }\n"
     "return { apply = o.spec.none and { cm('b', o.spec.v) } or { cm('a', o.spec.v), cm('b', o.spec.v), far "
     "},\n"
     "  patch = { patch }, status = { seen = o.spec.v } }",
     "finalize = function(o) return { patch = {}, done = true } end",
     target,
     {v1, v2, none, go}},
    {"patch and release",
     "local patch = { apiVersion = 'v1', kind = 'ConfigMap', metadata = { name = 'target' },\n"
     "  data = { v = o.spec.v } }\n"
     "return { patch = o.spec.none and {} or { patch } }",
     "",
     target,
     {v1, v2, none, v1, go}},
    {"replace",
     "return { apply = { { object = cm('a', o.spec.v), replace = true } } }",
     "",
     immutable,
     {v1, v2, go}},
    {"adopt",
     "return { apply = o.spec.none and {} or { { object = cm('a', o.spec.v), adopt = { 'alice' } } } }",
     "",
     hers,
     {v1, v2, none, go}},
    {"after",
     "local a, b, c = cm('a', o.spec.v), cm('b', o.spec.v), cm('c', o.spec.v)\n"
     "return { apply = o.spec.none and {} or { { object = c, after = { b } }, { object = b, after = { a } }, "
     "a } }",
     "",
     NULL,
     {v1, v2, none, v1, go}},
    {"once",
     "return { apply = o.spec.none and {} or { { object = cm('a', o.spec.v), once = true } } }",
     "",
     NULL,
     {v1, v2, none, go}},
    {"keep",
     "return { apply = o.spec.none and {} or { { object = cm('a', o.spec.v), keep = true } } }",
     "",
     NULL,
     {v1, v2, none, v2, go}},
    {"replicas handed over",
     "return { apply = { { apiVersion = 'x.test/v1', kind = 'Fleet', metadata = { name = 'f' },\n"
     "  spec = { replicas = o.spec.v == '1' and 2 or nil, image = o.spec.v } } } }",
     "",
     fleets,
     {v1, v2, scaled, none, v1}},
    {"emptied containers",
     "return { patch = { { force = true, object = { apiVersion = 'x.test/v1', kind = 'Sample',\n"
     "  metadata = { name = 's' }, spec = { m = o.spec.v == '1' and { ours = '1' } or {} } } } } }",
     "",
     samples,
     {v1, she_drops_hers, v2, go}},
    {"cluster-scoped child",
     "local room = { apiVersion = 'x.test/v1', kind = 'Room', metadata = { name = 'r' }, spec = { v = "
     "o.spec.v } }\n"
     "return { apply = o.spec.none and {} or { room } }",
     "",
     NULL,
     {v1, v2, none, v1, go}},
};
enum { PLAYS = sizeof plays / sizeof plays[0], STEPS_MAX = sizeof plays[0].steps / sizeof plays[0].steps[0] };

// ---- what there is afterwards

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
    int status = apiserver_request(s->server, "player", "GET", path, NULL, NULL, &body);
    if (status == 404) { // not every play has all kinds
        free(body);
        return;
    }
    assert_int_equal(status, 200);
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
    static const char *const paths[] = {THINGS_CONFIG_MAPS,
                                        "/api/v1/namespaces/other/configmaps",
                                        THINGS_PATH,
                                        "/apis/x.test/v1/rooms",
                                        FLEETS,
                                        SAMPLES};
    for (size_t i = 0; i < sizeof paths / sizeof paths[0]; i++)
        print_list(s, &out, paths[i]);
    char *text = buf_take(&out, NULL);
    static const char owner[] = "\\\"uid\\\":\\\""; // a key of ownerReferences: another in each run
    for (char *at = text; (at = strstr(at, owner)) != NULL;)
        for (at += sizeof owner - 1; *at != '\\'; at++)
            *at = '-';
    return text;
}

// ---- with and without

enum { SETTLED_MS = 20 * 1000 };

static void settled(struct sim *s)
{
    sim_run(s, SETTLED_MS);
}

static void start(struct sim *s, const struct play *p)
{
    things_start(s, p->body, p->rest);
    if (p->prepare != NULL)
        p->prepare(s);
    things_settle(s);
}

// The state after each step when nobody is killed.
static void run_whole(const struct play *p, char *states[STEPS_MAX])
{
    struct sim s;
    start(&s, p);
    for (size_t i = 0; i < STEPS_MAX && p->steps[i] != NULL; i++) {
        p->steps[i](&s);
        settled(&s);
        states[i] = print_all(&s);
    }
    sim_fini(&s);
}

// Killed after the n-th write of that step. False: it has fewer.
static bool run_killed(const struct play *p, size_t step, size_t n, const char *want)
{
    struct sim s;
    start(&s, p);
    for (size_t i = 0; i < step; i++) {
        p->steps[i](&s);
        settled(&s);
    }
    p->steps[step](&s);
    bool died = sim_run_and_die(&s, n, SETTLED_MS);
    settled(&s);
    char *have = print_all(&s);
    if (strcmp(have, want) != 0)
        fail_msg("%s: step %zu, killed after write %zu:\n%s\nwithout:\n%s", p->name, step, n, have, want);
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
    size_t total = 0;
    (void)unused;
    for (size_t i = 0; i < PLAYS; i++) {
        const struct play *p = &plays[i];
        char *states[STEPS_MAX];
        run_whole(p, states);
        for (size_t step = 0; step < STEPS_MAX && p->steps[step] != NULL; step++) {
            size_t n = 1;
            while (run_killed(p, step, n, states[step]))
                n++;
            print_message("%s: step %zu: %zu writes\n", p->name, step, n - 1);
            total += n - 1;
            free(states[step]);
        }
    }
    assert_true(total >= 60);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(kill_after_each_write)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
