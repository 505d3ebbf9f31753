// A removed script's objects are handed back, or over to another script.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "run/release/release.h"
#include "run/sim.h"
#include "unit.h"

enum { SETTLE_MS = 15 * 1000 };

#define MERGE "application/merge-patch+json"
#define THINGS "/apis/x.test/v1/namespaces/default/things"

static const char thing_crd[] =
    "{\"apiVersion\":\"apiextensions.k8s.io/"
    "v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{\"name\":\"things.x.test\"},\"spec\":{"
    "\"group\":\"x.test\",\"scope\":\"Namespaced\",\"names\":{\"plural\":\"things\",\"singular\":\"thing\","
    "\"kind\":\"Thing\"},\"versions\":[{"
    "\"name\":\"v1\",\"served\":true,\"storage\":true,\"subresources\":{\"status\":{}},\"schema\":{"
    "\"openAPIV3Schema\":{\"type\":\"object\","
    "\"x-kubernetes-preserve-unknown-fields\":true}}}]}}";

static const char script[] =
    "return { name = 'NAME', subject = 'x.test/v1/Thing', reconcile = function(o)\n"
    "  local function map(name, ns) return { apiVersion = 'v1', kind = 'ConfigMap',\n"
    "    metadata = { name = o.metadata.name .. name, namespace = ns, labels = { app = 'x' } }, data = { v = "
    "'1' } } end\n"
    "  return { apply = { map('-near'), map('-far', 'kube-system') }, status = { seen = 'yes' },\n"
    "    patch = { { apiVersion = 'v1', kind = 'ConfigMap',\n"
    "      metadata = { name = 'target', labels = { [o.metadata.name] = 'here' } } } } }\n"
    "end, finalize = function() return { done = true } end }\n";

static void put_script(struct sim *s, const char *name)
{
    const char *at = strstr(script, "NAME");
    char *text = xasprintf("%.*s%s%s", (int)(at - script), script, name, at + 4);
    sim_put_script_text(s, name, "script.lua", text);
    free(text);
}

static void remove_script(struct sim *s, const char *name)
{
    char *path = xasprintf("/api/v1/namespaces/tidelock-system/configmaps/%s", name);
    sim_request(s, "alice", "DELETE", path, "application/json", "{}");
    free(path);
    sim_run(s, SETTLE_MS);
}

static void start(struct sim *s)
{
    sim_init(s, 21);
    sim_apply(s, "kubectl", thing_crd);
    sim_request(s, "alice", "POST", "/api/v1/namespaces/default/configmaps", "application/json",
                "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"target\"}}");
    sim_apply(s, "kubectl",
              "{\"apiVersion\":\"x.test/v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"a\",\"namespace\":"
              "\"default\",\"finalizers\":[\"else.where/stays\"]},\"spec\":{\"a\":1}}");
    put_script(s, "old");
    sim_run(s, SETTLE_MS);
    remove_script(s, "old");
}

// ---- the command

struct run {
    struct buf lines;
    int result;
    size_t done;
    bool ended;
    char error[ERR_TEXT_MAX];
};

static void say(void *ud, const char *line)
{
    struct run *r = ud;
    buf_addf(&r->lines, "%s\n", line);
}

static void on_done(void *ud, int result, const struct err *e, size_t done)
{
    struct run *r = ud;
    snprintf(r->error, sizeof r->error, "%s", result < 0 ? e->text : "");
    r->result = result;
    r->done = done;
    r->ended = true;
}

static void release(struct sim *s, const char *name, const char *to, bool dry_run, struct run *ret)
{
    *ret = (struct run){0};
    buf_init(&ret->lines, 1 << 20);
    struct client *c = client_new_with(s->loop, apiserver_transport(s->server, "admin"), NULL);
    struct release *r = release_start(&(struct release_options){.client = c,
                                                                .instance = "sim",
                                                                .namespace_ = "tidelock-system",
                                                                .script_ns = "tidelock-system",
                                                                .script = name,
                                                                .to_ns = "tidelock-system",
                                                                .to = to,
                                                                .dry_run = dry_run,
                                                                .say = say,
                                                                .on_done = on_done,
                                                                .ud = ret});
    sim_run(s, SETTLE_MS);
    assert_true(ret->ended);
    release_free(r);
    client_free(c);
}

static struct json_doc *map(struct sim *s, const char *ns, const char *name)
{
    struct json_doc *doc = apiserver_get_json(s->server, "v1", "configmaps", ns, name);
    assert_non_null(doc);
    return doc;
}

static void assert_free(struct sim *s, const char *ns, const char *name)
{
    struct json_doc *doc = map(s, ns, name);
    const json *metadata = json_get(json_root(doc), "metadata");
    assert_string_equal(json_str(json_path(json_root(doc), "data", "v", NULL)), "1");
    assert_int_equal(json_count(json_get(metadata, "labels")), 1);
    assert_int_equal(json_count(json_get(metadata, "ownerReferences")), 0);
    for (struct json_iter i = json_iter(json_get(metadata, "managedFields")); json_next(&i);)
        assert_false(strncmp(json_get_str(i.value, "manager"), "tidelock-old", 12) == 0);
    json_doc_free(doc);
}

static size_t inventories(struct sim *s)
{
    char *body = NULL;
    struct json_doc *doc;
    assert_int_equal(apiserver_request(s->server, "player", "GET",
                                       "/api/v1/namespaces/tidelock-system/"
                                       "configmaps?labelSelector=tidelock.dev%2Finventory%3Dtrue",
                                       NULL, NULL, &body),
                     200);
    assert_int_equal(json_parse(body, strlen(body), &doc, NULL), 0);
    size_t n = json_count(json_get(json_root(doc), "items"));
    json_doc_free(doc);
    free(body);
    return n;
}

static size_t finalizers(struct sim *s)
{
    struct json_doc *doc = sim_get(s, "x.test/v1", "things", "a");
    size_t n = json_count(json_path(json_root(doc), "metadata", "finalizers", NULL));
    json_doc_free(doc);
    return n;
}

static void handed_back(void **unused)
{
    struct sim s;
    struct run r;
    (void)unused;
    start(&s);
    assert_int_equal(finalizers(&s), 2);
    release(&s, "old", NULL, true, &r);
    assert_int_equal(r.result, 0);
    assert_int_equal(r.done, 4);
    assert_non_null(strstr(r.lines.data, "would be"));
    assert_int_equal(finalizers(&s), 2);
    buf_fini(&r.lines);

    release(&s, "old", NULL, false, &r);
    assert_int_equal(r.result, 0);
    assert_int_equal(r.done, 4);
    assert_free(&s, "default", "a-near");
    assert_free(&s, "kube-system", "a-far");
    struct json_doc *doc = map(&s, "default", "target");
    assert_null(json_path(json_root(doc), "metadata", "labels", "a", NULL));
    json_doc_free(doc);
    doc = sim_get(&s, "x.test/v1", "things", "a");
    assert_int_equal(json_count(json_path(json_root(doc), "metadata", "finalizers", NULL)), 1);
    assert_string_equal(json_str(json_path(json_root(doc), "status", "seen", NULL)), "yes");
    json_doc_free(doc);
    assert_int_equal(inventories(&s), 0);
    buf_fini(&r.lines);

    release(&s, "old", NULL, false, &r);
    assert_int_equal(r.result, -ERR_NOT_FOUND);
    buf_fini(&r.lines);
    sim_fini(&s);
}

static void handed_over_without_a_change(void **unused)
{
    struct sim s;
    struct run r;
    (void)unused;
    start(&s);
    release(&s, "old", "new", false, &r);
    assert_int_equal(r.result, 0);
    buf_fini(&r.lines);
    assert_int_equal(inventories(&s), 1);
    assert_int_equal(finalizers(&s), 2);
    size_t mark = s.trace.len;
    put_script(&s, "new");
    sim_run(&s, SETTLE_MS);
    const char *since = s.trace.data + mark;
    assert_null(strstr(since, "tidelock PATCH /api/v1/namespaces/default/configmaps"));
    assert_null(strstr(since, "tidelock PATCH /api/v1/namespaces/kube-system/configmaps"));
    assert_null(strstr(since, "tidelock PATCH /apis/x.test"));
    // and they are its own: pruned with its subject
    sim_request(&s, "alice", "DELETE", THINGS "/a", "application/json", "{}");
    sim_run(&s, 2 * SETTLE_MS);
    assert_int_equal(finalizers(&s), 1);
    assert_null(apiserver_get_json(s.server, "v1", "configmaps", "kube-system", "a-far"));
    sim_fini(&s);
}

// Nobody who looks after another kind can take it over, and nothing is touched for the attempt.
static void not_handed_over_to_another_kind(void **unused)
{
    static const char maps[] = "return { name = 'maps', subject = 'v1/ConfigMap', selector = 'app=maps',\n"
                               "  reconcile = function(o) return {} end,\n"
                               "  finalize = function() return { done = true } end }\n";
    struct sim s;
    struct run r;
    (void)unused;
    start(&s);
    sim_put_script_text(&s, "maps", "script.lua", maps);
    sim_request(
        &s, "alice", "POST", "/api/v1/namespaces/default/configmaps", "application/json",
        "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"m\",\"labels\":{\"app\":"
        "\"maps\"}}}");
    sim_run(&s, SETTLE_MS);
    assert_int_equal(inventories(&s), 2);
    for (int dry_run = 1; dry_run >= 0; dry_run--) {
        size_t mark = s.trace.len;
        release(&s, "old", "maps", dry_run, &r);
        assert_int_equal(r.result, -ERR_CONFLICT);
        assert_int_equal(r.done, 0);
        assert_non_null(strstr(r.error,
                               "--adopt-by tidelock-system/maps: its subjects are of kind ConfigMap, "
                               "those of tidelock-system/old of kind x.test/Thing"));
        assert_null(strstr(s.trace.data + mark, "admin PATCH"));
        buf_fini(&r.lines);
    }
    release(&s, "old", NULL, false, &r);
    assert_int_equal(r.result, 0);
    buf_fini(&r.lines);
    sim_fini(&s);
}

static size_t count(const char *text, const char *needle)
{
    size_t n = 0;
    for (; (text = strstr(text, needle)) != NULL; text++)
        n++;
    return n;
}

// The host tells while a removed script's finalizers wait, and is quiet when none does.
static void told_while_finalizers_wait(void **unused)
{
    struct sim s;
    struct run r;
    (void)unused;
    start(&s);
    sim_run(&s, SETTLE_MS);
    assert_int_equal(count(s.trace.data, "FinalizersWait"), 1);
    assert_non_null(strstr(s.trace.data, "tidelock release old --namespace-of-script tidelock-system"));
    size_t mark = s.trace.len;
    sim_run(&s, 5 * 60 * 1000);
    assert_int_equal(count(s.trace.data + mark, "tidelock.dev%2Finventory"), 0); // it does not keep asking
    sim_restart_host(&s);
    sim_run(&s, SETTLE_MS);
    assert_true(count(s.trace.data + mark, "FinalizersWait") >= 1);
    release(&s, "old", NULL, false, &r);
    buf_fini(&r.lines);
    mark = s.trace.len;
    sim_restart_host(&s);
    sim_run(&s, SETTLE_MS);
    assert_int_equal(count(s.trace.data + mark, "FinalizersWait"), 0);
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(handed_back),
        cmocka_unit_test(handed_over_without_a_change),
        cmocka_unit_test(not_handed_over_to_another_kind),
        cmocka_unit_test(told_while_finalizers_wait),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
