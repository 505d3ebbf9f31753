// world.children: a subject's own live children, of any namespace, and nobody else's.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "run/sim.h"
#include "unit.h"

enum { SETTLE_MS = 10 * 1000 };

static const char thing_crd[] =
    "{\"apiVersion\":\"apiextensions.k8s.io/"
    "v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{\"name\":\"things.x.test\"},\"spec\":{"
    "\"group\":\"x.test\",\"scope\":\"Namespaced\",\"names\":{\"plural\":\"things\",\"singular\":\"thing\","
    "\"kind\":\"Thing\"},\"versions\":[{"
    "\"name\":\"v1\",\"served\":true,\"storage\":true,\"subresources\":{\"status\":{}},\"schema\":{"
    "\"openAPIV3Schema\":{\"type\":\"object\","
    "\"x-kubernetes-preserve-unknown-fields\":true}}}]}}";

static const char script[] =
    "return { name = 'things', subject = 'x.test/v1/Thing', reconcile = function(o, world)\n"
    "  local function map(name, ns) return { apiVersion = 'v1', kind = 'ConfigMap',\n"
    "    metadata = { name = o.metadata.name .. name, namespace = ns }, data = { v = '1' } } end\n"
    "  local names = {}\n"
    "  for _, c in ipairs(world.children('v1/ConfigMap')) do\n"
    "    names[#names + 1] = c.metadata.namespace .. '/' .. c.metadata.name .. (c.data.extra or '')\n"
    "  end\n"
    "  return { apply = { map('-1'), map('-2', 'kube-system') },\n"
    "    status = { children = table.concat(names, ' '), pods = #world.children('v1/Pod') } }\n"
    "end }\n";

static void put_thing(struct sim *s, const char *name)
{
    char *text = xasprintf("{\"apiVersion\":\"x.test/v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"%s\","
                           "\"namespace\":\"default\"},\"spec\":{\"a\":1}}",
                           name);
    sim_apply(s, "kubectl", text);
    free(text);
}

static void assert_children(struct sim *s, const char *name, const char *expected)
{
    struct json_doc *doc = sim_get(s, "x.test/v1", "things", name);
    assert_string_equal(json_str(json_path(json_root(doc), "status", "children", NULL)), expected);
    assert_int_equal(json_get_int(json_get(json_root(doc), "status"), "pods", -1), 0);
    json_doc_free(doc);
}

static void own_children(void **unused)
{
    struct sim s;
    (void)unused;
    sim_init(&s, 31);
    sim_apply(&s, "kubectl", thing_crd);
    sim_put_script_text(&s, "things", "things.lua", script);
    put_thing(&s, "a");
    put_thing(&s, "b");
    sim_run(&s, SETTLE_MS);
    assert_children(&s, "a", "default/a-1 kube-system/a-2"); // they appeared: the pass ran again
    assert_children(&s, "b", "default/b-1 kube-system/b-2");
    sim_request(&s, "alice", "PATCH", "/api/v1/namespaces/kube-system/configmaps/a-2",
                "application/merge-patch+json", "{\"data\":{\"extra\":\"!\"}}");
    sim_run(&s, SETTLE_MS);
    assert_children(&s, "a", "default/a-1 kube-system/a-2!"); // live, and a change of one is a reason to look
    sim_restart_host(&s);
    sim_run(&s, SETTLE_MS);
    assert_children(&s, "a", "default/a-1 kube-system/a-2!");
    sim_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(own_children),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
