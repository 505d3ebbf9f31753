// Things (x.test/v1, namespaced, with a status) and Rooms (cluster-scoped, without): kinds for the tests of
// what scripts return. Header only.
#ifndef SPEC_RUN_THINGS_H
#define SPEC_RUN_THINGS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "run/sim.h"
#include "unit.h"

#define THINGS_MERGE "application/merge-patch+json"
#define THINGS_CONFIG_MAPS "/api/v1/namespaces/default/configmaps"
#define THINGS_PATH "/apis/x.test/v1/namespaces/default/things"

enum { THINGS_SETTLE_MS = 10 * 1000 };

#define THINGS_CRD(plural, singular, kind, scope)                                                            \
    "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{"       \
    "\"name\":\"" plural ".x.test\"},\"spec\":{\"group\":\"x.test\",\"scope\":\"" scope                      \
    "\",\"names\":{\"plural\":\"" plural "\",\"singular\":\"" singular "\",\"kind\":\"" kind                 \
    "\"},\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true,\"subresources\":{\"status\":{}},"  \
    "\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\","                                                  \
    "\"x-kubernetes-preserve-unknown-fields\":true}}}]}}"

// `body` is that of reconcile(o, world); `rest` stands beside it in the script's table.
static inline char *things_script(const char *body, const char *rest)
{
    return xasprintf("local function cm(name, v) return { apiVersion = 'v1', kind = 'ConfigMap',\n"
                     "  metadata = { name = name }, data = { v = v } } end\n"
                     "return { name = 'things', subject = 'x.test/v1/Thing',\n"
                     "reconcile = function(o, world)\n%s\nend,\n%s }\n",
                     body, rest);
}

static inline void things_put_script(struct sim *s, const char *body, const char *rest)
{
    char *text = things_script(body, rest);
    sim_put_script_text(s, "things", "things.lua", text);
    free(text);
}

static inline void things_start(struct sim *s, const char *body, const char *rest)
{
    sim_init(s, 3);
    sim_apply(s, "kubectl", THINGS_CRD("things", "thing", "Thing", "Namespaced"));
    sim_apply(s, "kubectl", THINGS_CRD("rooms", "room", "Room", "Cluster"));
    sim_apply(s, "kubectl",
              "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"other\"}}");
    things_put_script(s, body, rest);
}

static inline void things_put(struct sim *s, const char *name, const char *spec)
{
    char *text = xasprintf("{\"apiVersion\":\"x.test/v1\",\"kind\":\"Thing\",\"metadata\":{\"name\":\"%s\","
                           "\"namespace\":\"default\"},\"spec\":%s}",
                           name, spec);
    sim_apply(s, "kubectl", text);
    free(text);
}

static inline void things_settle(struct sim *s)
{
    sim_run(s, THINGS_SETTLE_MS);
}

// data.v of a ConfigMap, "" when it has none, "absent" when there is no such ConfigMap.
static inline const char *things_value(struct sim *s, const char *ns, const char *name)
{
    static char value[64];
    struct json_doc *doc = apiserver_get_json(s->server, "v1", "configmaps", ns, name);
    const char *v = json_str(json_path(json_root(doc), "data", "v", NULL));
    snprintf(value, sizeof value, "%s", doc == NULL ? "absent" : v == NULL ? "" : v);
    json_doc_free(doc);
    return value;
}

static inline bool things_exists(struct sim *s, const char *name)
{
    struct json_doc *doc = sim_get(s, "x.test/v1", "things", name);
    bool there = doc != NULL;
    json_doc_free(doc);
    return there;
}

static inline size_t things_finalizers(struct sim *s, const char *name)
{
    struct json_doc *doc = sim_get(s, "x.test/v1", "things", name);
    size_t n = json_count(json_path(json_root(doc), "metadata", "finalizers", NULL));
    json_doc_free(doc);
    return n;
}

static inline void things_delete(struct sim *s, const char *name)
{
    char *path = xasprintf(THINGS_PATH "/%s", name);
    sim_request(s, "kubectl", "DELETE", path, NULL, NULL);
    free(path);
}

static inline void things_set(struct sim *s, const char *user, const char *config_map, const char *v)
{
    char *path = xasprintf(THINGS_CONFIG_MAPS "/%s", config_map);
    char *body = xasprintf("{\"data\":{\"v\":\"%s\"}}", v);
    sim_request(s, user, "PATCH", path, THINGS_MERGE, body);
    free(path);
    free(body);
}

// How many Events with this reason and a note that contains `text` (NULL: any) are there in `ns`?
static inline size_t things_events(struct sim *s, const char *ns, const char *reason, const char *text)
{
    char *body = NULL, *path = xasprintf("/apis/events.k8s.io/v1/namespaces/%s/events", ns);
    struct json_doc *doc;
    size_t n = 0;
    assert_int_equal(apiserver_request(s->server, "player", "GET", path, NULL, NULL, &body), 200);
    assert_int_equal(json_parse(body, strlen(body), &doc, NULL), 0);
    for (struct json_iter i = json_iter(json_get(json_root(doc), "items")); json_next(&i);)
        n += strcmp(json_get_str(i.value, "reason"), reason) == 0 &&
             (text == NULL || strstr(json_get_str(i.value, "note"), text) != NULL);
    json_doc_free(doc);
    free(body);
    free(path);
    return n;
}

// Requests of the host so far whose trace line contains both texts.
static inline size_t things_requests(struct sim *s, const char *a, const char *b)
{
    size_t n = 0;
    for (const char *line = s->trace.data; line != NULL && *line != '\0';) {
        const char *end = strchr(line, '\n');
        size_t len = (size_t)(end - line);
        n += strncmp(line, "tidelock ", 9) == 0 && memmem(line, len, a, strlen(a)) != NULL &&
             memmem(line, len, b, strlen(b)) != NULL;
        line = end + 1;
    }
    return n;
}

// The value of a series as it is rendered, name{label="..."}; 0 when there is none.
static inline double things_metric(struct sim *s, const char *series)
{
    struct buf text;
    double value = 0;
    buf_init(&text, 16 << 20);
    metrics_render(s->metrics, &text);
    const char *line = strstr(text.data, series);
    if (line != NULL)
        value = strtod(line + strlen(series), NULL);
    buf_fini(&text);
    return value;
}

// Writes of the host so far, without Events.
static inline size_t things_writes(struct sim *s)
{
    return s->host_writes - things_requests(s, "POST ", "/events ") -
           things_requests(s, "PATCH ", "/events/");
}

#endif
