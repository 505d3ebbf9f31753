#include "kube/discovery.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "support/fake_transport.h"

struct world {
    struct clock *clock;
    struct loop *loop;
    struct fake_transport *fake;
    struct client *client;
    struct discovery *d;
    int notices, failures;
    char error[ERR_TEXT_MAX];
};

static void on_change(void *ud, const struct err *e)
{
    struct world *w = ud;
    w->notices++;
    if (e == NULL)
        return;
    w->failures++;
    snprintf(w->error, sizeof(w->error), "%s", e->text);
}

static struct world *world_new(void)
{
    struct world *w = xcalloc(1, sizeof(*w));
    w->clock = clock_virtual_new(0);
    w->loop = loop_new(w->clock);
    w->fake = fake_transport_new(w->loop);
    w->client = client_new_with(w->loop, fake_transport_get(w->fake), NULL);
    w->d = discovery_new(w->client);
    discovery_on_change(w->d, on_change, w);
    return w;
}

static void world_free(struct world *w)
{
    discovery_free(w->d);
    client_free(w->client);
    fake_transport_free(w->fake);
    loop_free(w->loop);
    clock_free(w->clock);
    free(w);
}

static void run(struct world *w, uint64_t ms)
{
    loop_run_until(w->loop, loop_now_ms(w->loop) + ms);
}

static void answer(struct world *w, const char *path, int status, const char *body)
{
    fake_answer(w->fake, METHOD_GET, path, status, body);
}

static enum discovery_answer find(struct world *w, const char *kind, struct resource *ret)
{
    return discovery_find(w->d, gvk_parse(kind, NULL), ret);
}

#define VERBS "\"verbs\":[\"create\",\"delete\",\"get\",\"list\",\"patch\",\"update\",\"watch\"]"
#define RES(plural, kind, scope, subs)                                                                       \
    "{\"resource\":\"" plural "\",\"responseKind\":{\"group\":\"\",\"version\":\"\",\"kind\":\"" kind        \
    "\"},\"scope\":\"" scope "\"," VERBS ",\"subresources\":[" subs "]}"
#define STATUS "{\"subresource\":\"status\",\"responseKind\":{\"kind\":\"X\"},\"verbs\":[\"get\"]}"
#define LIST_OF(items)                                                                                       \
    "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"items\":[" items "]}"
#define GROUP(name, versions) "{\"metadata\":{\"name\":\"" name "\"},\"versions\":[" versions "]}"
#define VERSION(v, fresh, resources)                                                                         \
    "{\"version\":\"" v "\",\"freshness\":\"" fresh "\",\"resources\":[" resources "]}"

static const char core[] = LIST_OF("{\"metadata\":{\"name\":null},\"versions\":[" VERSION(
    "v1", "Current",
    RES("pods", "Pod", "Namespaced", STATUS) "," RES("nodes", "Node", "Cluster", STATUS)) "]}");
static const char groups[] = LIST_OF(
    GROUP("apps", VERSION("v1", "Current", RES("deployments", "Deployment", "Namespaced", STATUS ",{\"subresource\":\"scale\"}"))) "," GROUP(
        "apps.x.test",
        VERSION(
            "v1", "Current",
            RES("deployments", "Deployment", "Cluster",
                ""))) "," GROUP("x.test",
                                VERSION(
                                    "v2", "Current",
                                    RES("gateways", "Gateway", "Namespaced",
                                        "")) "," VERSION("v1", "Current",
                                                         RES("gateways", "Gateway", "Namespaced", "") "," RES(
                                                             "networkchaos",
                                                             "NetworkChaos",
                                                             "Namespaced",
                                                             ""))) "," GROUP("metrics.k8s.io",
                                                                             VERSION("v1beta1", "Current",
                                                                                     RES("nodes",
                                                                                         "NodeMetrics",
                                                                                         "Cluster", ""))));
static const char groups_stale[] = LIST_OF(
    GROUP("apps", VERSION("v1", "Current", RES("deployments", "Deployment", "Namespaced", STATUS))) "," GROUP(
        "metrics.k8s.io", VERSION("v1beta1", "Stale", "")));

static void load(struct world *w)
{
    answer(w, "/apis", 200, groups);
    answer(w, "/api", 200, core);
    discovery_refresh(w->d);
    run(w, 10);
    assert_int_equal(w->notices, 1);
    assert_int_equal(w->failures, 0);
}

static void test_aggregated(void **state)
{
    (void)state;
    struct world *w = world_new();
    struct resource r;
    assert_int_equal(find(w, "v1/Pod", &r), DISCOVERY_NOT_LOADED);
    load(w);
    assert_int_equal(fake_request_count(w->fake), 2);
    assert_non_null(
        strstr(fake_request(w->fake, 0)->accept, "g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"));
    assert_int_equal(find(w, "v1/Pod", &r), DISCOVERY_FOUND);
    assert_string_equal(r.plural, "pods");
    assert_true(r.namespaced);
    assert_true(r.has_status && !r.has_scale);
    assert_int_equal(r.verbs, 127);
    assert_ptr_equal(r.gvk, gvk_parse("v1/Pod", NULL));
    assert_int_equal(find(w, "v1/Node", &r), DISCOVERY_FOUND);
    assert_false(r.namespaced);
    assert_int_equal(find(w, "apps/v1/Deployment", &r), DISCOVERY_FOUND);
    assert_true(r.namespaced && r.has_status && r.has_scale);
    assert_int_equal(find(w, "apps.x.test/v1/Deployment", &r), DISCOVERY_FOUND);
    assert_false(r.namespaced);
    assert_false(r.has_status);
    assert_int_equal(find(w, "apps/v2/Deployment", &r), DISCOVERY_UNKNOWN);
    assert_int_equal(find(w, "test/v1/Gateway", &r), DISCOVERY_UNKNOWN);
    assert_int_equal(find(w, "apps/v1/X", &r), DISCOVERY_UNKNOWN); // a subresource's kind
    assert_int_equal(discovery_find_group_kind(w->d, "x.test", "Gateway", &r), DISCOVERY_FOUND);
    assert_string_equal(r.gvk->version, "v2");
    assert_int_equal(discovery_find_group_kind(w->d, "x.test", "NetworkChaos", &r), DISCOVERY_FOUND);
    assert_string_equal(r.gvk->version, "v1");
    assert_string_equal(r.plural, "networkchaos");
    assert_int_equal(discovery_find_group_kind(w->d, "x.test", "gateway", &r), DISCOVERY_UNKNOWN);
    assert_int_equal(discovery_find_group_kind(w->d, "", "Pod", &r), DISCOVERY_FOUND);
    assert_int_equal(discovery_count(w->d), 8);
    world_free(w);
}

static void test_stale_group_keeps_its_entries(void **state)
{
    (void)state;
    struct world *w = world_new();
    struct resource r;
    load(w);
    answer(w, "/apis", 200, groups_stale);
    answer(w, "/api", 200, core);
    discovery_refresh(w->d);
    run(w, 10);
    assert_int_equal(w->notices, 2);
    assert_int_equal(find(w, "metrics.k8s.io/v1beta1/NodeMetrics", &r), DISCOVERY_FOUND);
    assert_int_equal(find(w, "metrics.k8s.io/v1beta1/PodMetrics", &r), DISCOVERY_UNAVAILABLE);
    assert_int_equal(discovery_find_group_kind(w->d, "metrics.k8s.io", "PodMetrics", &r),
                     DISCOVERY_UNAVAILABLE);
    assert_int_equal(find(w, "x.test/v2/Gateway", &r), DISCOVERY_UNKNOWN); // this one is gone for good
    answer(w, "/apis", 200, groups);
    answer(w, "/api", 200, core);
    run(w, 40000); // sooner than the usual period
    assert_int_equal(w->notices, 3);
    assert_int_equal(find(w, "metrics.k8s.io/v1beta1/PodMetrics", &r), DISCOVERY_UNKNOWN);
    world_free(w);
}

static void test_stale_from_the_start(void **state)
{
    (void)state;
    struct world *w = world_new();
    struct resource r;
    answer(w, "/apis", 200, groups_stale);
    answer(w, "/api", 200, core);
    discovery_refresh(w->d);
    run(w, 10);
    assert_int_equal(find(w, "metrics.k8s.io/v1beta1/NodeMetrics", &r), DISCOVERY_UNAVAILABLE);
    assert_int_equal(find(w, "apps/v1/Deployment", &r), DISCOVERY_FOUND);
    world_free(w);
}

static void test_server_away(void **state)
{
    (void)state;
    struct world *w = world_new();
    struct resource r;
    discovery_refresh(w->d);
    run(w, 60000);
    assert_true(w->failures >= 3);
    assert_true(fake_request_count(w->fake) < 24);
    assert_non_null(strstr(w->error, "/api"));
    assert_int_equal(find(w, "v1/Pod", &r), DISCOVERY_NOT_LOADED);
    answer(w, "/apis", 200, groups);
    answer(w, "/api", 200, core);
    run(w, 40000);
    assert_int_equal(find(w, "v1/Pod", &r), DISCOVERY_FOUND);
    fake_reply(w->fake, &(struct fake_reply){.path_part = "/apis", .status = 503, .body = "down"});
    answer(w, "/api", 200, core);
    discovery_refresh(w->d);
    run(w, 10);
    assert_int_equal(find(w, "apps/v1/Deployment", &r), DISCOVERY_FOUND); // the last good one
    assert_int_equal(find(w, "new.test/v1/Thing", &r), DISCOVERY_UNAVAILABLE);
    assert_int_equal(find(w, "v1/Thing", &r), DISCOVERY_UNKNOWN);
    int before = w->notices;
    answer(w, "/apis", 200, groups);
    answer(w, "/api", 200, core);
    run(w, 5000);
    assert_int_equal(w->notices, before + 1);
    assert_int_equal(find(w, "new.test/v1/Thing", &r), DISCOVERY_UNKNOWN);
    world_free(w);
}

static void test_half_an_answer_and_other_pages(void **state)
{
    (void)state;
    static const char *const bodies[] = {
        "{\"kind\":\"APIGroupDisc", "<html>hello</html>", "", "null", "[]", "{}", "{\"kind\":\"Status\"}"};
    for (size_t i = 0; i < sizeof(bodies) / sizeof(bodies[0]); i++) {
        struct world *w = world_new();
        struct resource r;
        answer(w, "/apis", 200, bodies[i]);
        answer(w, "/api", 200, core);
        discovery_refresh(w->d);
        run(w, 10);
        assert_int_equal(w->failures, 1);
        assert_int_equal(find(w, "v1/Pod", &r), DISCOVERY_FOUND);
        assert_int_equal(find(w, "apps/v1/Deployment", &r), DISCOVERY_UNAVAILABLE);
        world_free(w);
    }
}

static void test_odd_entries(void **state)
{
    (void)state;
    struct world *w = world_new();
    struct resource r;
    answer(
        w, "/apis", 200,
        LIST_OF(
            "null,7,{},{\"metadata\":{\"name\":\"a.test\"},\"versions\":null},"
            "{\"metadata\":{\"name\":\"b.test\"},\"versions\":[null,{\"version\":7},{\"version\":\"v1\","
            "\"resources\":null},"
            "{\"version\":\"v2\",\"resources\":[null,{},{\"resource\":\"as\",\"responseKind\":{\"kind\":"
            "\"A\"},\"verbs\":null},"
            "{\"resource\":\"bs/"
            "x\",\"responseKind\":{\"kind\":\"B\"}},{\"resource\":\"cs\",\"responseKind\":{\"kind\":\"cs\"}},"
            "{\"resource\":\"ds\",\"responseKind\":{\"kind\":\"A\"}},"
            "{\"resource\":\"es\",\"scope\":\"Namespaced\",\"responseKind\":{\"kind\":\"E\"},\"verbs\":["
            "\"get\",null,7]}]}]}"));
    answer(w, "/api", 200, core);
    discovery_refresh(w->d);
    run(w, 10);
    assert_int_equal(w->failures, 0);
    assert_int_equal(find(w, "b.test/v2/A", &r), DISCOVERY_FOUND);
    assert_string_equal(r.plural, "as");
    assert_int_equal(r.verbs, 0);
    assert_int_equal(find(w, "b.test/v2/B", &r), DISCOVERY_UNKNOWN);
    assert_int_equal(find(w, "b.test/v2/E", &r), DISCOVERY_FOUND);
    assert_int_equal(r.verbs, RESOURCE_GET);
    world_free(w);
}

// ---- legacy

#define LEGACY_LIST(gv, resources)                                                                           \
    "{\"kind\":\"APIResourceList\",\"groupVersion\":\"" gv "\",\"resources\":[" resources "]}"
#define LEGACY(name, kind, namespaced)                                                                       \
    "{\"name\":\"" name "\",\"kind\":\"" kind "\",\"namespaced\":" namespaced "," VERBS "}"

static void legacy(struct world *w)
{
    answer(w, "/apis/x.test/v1", 200, LEGACY_LIST("x.test/v1", LEGACY("widgets", "Widget", "true")));
    answer(w, "/apis/x.test/v2", 200,
           LEGACY_LIST("x.test/v2",
                       LEGACY("widgets/status", "Widget", "true") "," LEGACY(
                           "widgets", "Widget", "true") "," LEGACY("widgets/scale", "Scale", "true")));
    answer(w, "/apis", 200,
           "{\"kind\":\"APIGroupList\",\"groups\":[{\"name\":\"x.test\",\"versions\":[{\"groupVersion\":\"x."
           "test/v1\",\"version\":"
           "\"v1\"},{\"groupVersion\":\"x.test/"
           "v2\",\"version\":\"v2\"}],\"preferredVersion\":{\"groupVersion\":\"x.test/v2\","
           "\"version\":\"v2\"}},{\"name\":\"bad.test\",\"versions\":[{\"groupVersion\":\"bad.test/"
           "v1\",\"version\":\"v1\"}]}]}");
    answer(w, "/api/v1", 200,
           LEGACY_LIST("v1", LEGACY("pods", "Pod", "true") "," LEGACY(
                                 "pods/status", "Pod", "true") "," LEGACY("nodes", "Node", "false")));
    answer(w, "/api", 200, "{\"kind\":\"APIVersions\",\"versions\":[\"v1\"]}");
}

static void test_legacy(void **state)
{
    (void)state;
    struct world *w = world_new();
    struct resource r;
    fake_reply(w->fake, &(struct fake_reply){
                            .path_part = "/apis/bad.test/v1", .status = 503, .body = "service unavailable"});
    legacy(w);
    discovery_refresh(w->d);
    run(w, 100);
    assert_int_equal(w->notices, 1);
    assert_int_equal(w->failures, 0);
    assert_int_equal(find(w, "v1/Pod", &r), DISCOVERY_FOUND);
    assert_true(r.has_status && r.namespaced);
    assert_int_equal(find(w, "v1/Node", &r), DISCOVERY_FOUND);
    assert_false(r.has_status || r.namespaced);
    assert_int_equal(find(w, "x.test/v1/Widget", &r), DISCOVERY_FOUND);
    assert_false(r.has_status);
    assert_int_equal(find(w, "x.test/v2/Widget", &r), DISCOVERY_FOUND);
    assert_true(r.has_status);
    assert_int_equal(find(w, "x.test/v2/Scale", &r), DISCOVERY_UNKNOWN);
    assert_int_equal(discovery_find_group_kind(w->d, "x.test", "Widget", &r), DISCOVERY_FOUND);
    assert_string_equal(r.gvk->version, "v2"); // the preferred one
    assert_int_equal(find(w, "bad.test/v1/Thing", &r), DISCOVERY_UNAVAILABLE);
    world_free(w);
}

static void test_legacy_group_hangs(void **state)
{
    (void)state;
    struct world *w = world_new();
    struct resource r;
    fake_reply(w->fake, &(struct fake_reply){
                            .path_part = "/apis/bad.test/v1", .error = ERR_TIMEOUT, .delay_ms = 30000});
    legacy(w);
    discovery_refresh(w->d);
    run(w, 1500);
    assert_int_equal(w->notices, 1); // not held back
    assert_int_equal(find(w, "x.test/v2/Widget", &r), DISCOVERY_FOUND);
    assert_int_equal(find(w, "bad.test/v1/Thing", &r), DISCOVERY_UNAVAILABLE);
    assert_int_equal(fake_under_way(w->fake), 1);
    world_free(w);
}

// ---- misses

static void test_miss(void **state)
{
    (void)state;
    struct world *w = world_new();
    struct resource r;
    load(w);
    fake_reply(w->fake,
               &(struct fake_reply){.path_part = "/apis", .status = 200, .body = groups, .times = -1});
    fake_reply(w->fake, &(struct fake_reply){.path_part = "/api", .status = 200, .body = core, .times = -1});
    const struct gvk *g = gvk_parse("new.test/v1/Thing", NULL);
    for (int i = 0; i < 100; i++)
        discovery_miss(w->d, g);
    run(w, 60000);
    size_t n = fake_request_count_of(w->fake, METHOD_GET, "/apis");
    assert_true(n >= 25 && n <= 32);
    run(w, 100000);
    size_t later = fake_request_count_of(w->fake, METHOD_GET, "/apis") - n;
    assert_true(later >= 9 && later <= 11);
    fake_forget_replies(w->fake);
    answer(w, "/apis", 200,
           LIST_OF(GROUP("new.test", VERSION("v1", "Current", RES("things", "Thing", "Cluster", "")))));
    answer(w, "/api", 200, core);
    run(w, 11000);
    assert_int_equal(discovery_find(w->d, g, &r), DISCOVERY_FOUND);
    n = fake_request_count(w->fake);
    run(w, 200000); // found: quiet again
    assert_int_equal(fake_request_count(w->fake), n);
    world_free(w);
}

static void test_refresh_is_joined(void **state)
{
    (void)state;
    struct world *w = world_new();
    fake_reply(w->fake,
               &(struct fake_reply){.path_part = "/apis", .status = 200, .body = groups, .times = -1});
    fake_reply(w->fake, &(struct fake_reply){.path_part = "/api", .status = 200, .body = core, .times = -1});
    for (int i = 0; i < 10; i++)
        discovery_refresh(w->d);
    run(w, 1000);
    assert_int_equal(fake_request_count(w->fake), 4);
    assert_int_equal(w->notices, 1); // the second brought nothing new
    run(w, 700000);
    assert_int_equal(fake_request_count(w->fake), 6); // the periodic one
    discovery_refresh(w->d);
    world_free(w); // while one is under way
}

// ---- threads

static atomic_bool over;

static void *reader(void *arg)
{
    struct discovery *d = arg;
    const struct gvk *g = gvk_parse("apps/v1/Deployment", NULL);
    size_t found = 0;
    while (!atomic_load(&over)) {
        struct resource r;
        found += discovery_find(d, g, &r) == DISCOVERY_FOUND && strcmp(r.plural, "deployments") == 0;
        (void)discovery_find_group_kind(d, "x.test", "Gateway", &r);
    }
    return (void *)found;
}

static void test_find_from_any_thread(void **state)
{
    (void)state;
    struct world *w = world_new();
    load(w);
    pthread_t t[2];
    atomic_store(&over, false);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&t[i], NULL, reader, w->d), 0);
    for (int i = 0; i < 100; i++) {
        answer(w, "/apis", 200, i % 2 == 0 ? groups_stale : groups);
        answer(w, "/api", 200, core);
        discovery_refresh(w->d);
        run(w, 5);
    }
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    world_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_aggregated),
        cmocka_unit_test(test_stale_group_keeps_its_entries),
        cmocka_unit_test(test_stale_from_the_start),
        cmocka_unit_test(test_server_away),
        cmocka_unit_test(test_half_an_answer_and_other_pages),
        cmocka_unit_test(test_odd_entries),
        cmocka_unit_test(test_legacy),
        cmocka_unit_test(test_legacy_group_hangs),
        cmocka_unit_test(test_miss),
        cmocka_unit_test(test_refresh_is_joined),
        cmocka_unit_test(test_find_from_any_thread),
    };
    return cmocka_run_group_tests_name("discovery", tests, NULL, NULL);
}
