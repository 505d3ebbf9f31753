// Shared by the specs of the embedded API server: a server on a virtual loop, requests and questions in one
// line each.
#ifndef SPEC_APISERVER_KIT_H
#define SPEC_APISERVER_KIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "apiserver/apiserver.h"
#include "base/alloc.h"
#include "base/buf.h"

#define CM "/api/v1/namespaces/default/configmaps"
#define WIDGETS "/apis/x.test/v1/namespaces/default/widgets"
#define APPLY "application/apply-patch+yaml"
#define MERGE "application/merge-patch+json"
#define JSONPATCH "application/json-patch+json"
#define CRDS "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"

struct kit {
    struct clock *clock;
    struct loop *loop;
    struct random random;
    struct apiserver *server;
    struct buf trace;
    char *body; // of the last request
    struct json_doc *doc;
    int status;
};

static const char widget_crd[] =
    "{\"apiVersion\":\"apiextensions.k8s.io/"
    "v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{\"name\":"
    "\"widgets.x.test\"},\"spec\":{\"group\":\"x.test\",\"scope\":\"Namespaced\",\"names\":{\"plural\":"
    "\"widgets\","
    "\"kind\":\"Widget\",\"shortNames\":[\"wd\"]},\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":"
    "true,"
    "\"subresources\":{\"status\":{}},\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\",\"properties\":{"
    "\"spec\":{"
    "\"type\":\"object\",\"properties\":{\"num\":{\"type\":\"integer\"},\"obj\":{\"type\":\"object\","
    "\"nullable\":true,"
    "\"properties\":{\"value\":{\"type\":\"integer\"}}},\"any\":{\"type\":\"object\","
    "\"x-kubernetes-preserve-unknown-fields\":true},\"m\":{\"type\":\"object\",\"additionalProperties\":{"
    "\"type\":"
    "\"string\"}},\"set\":{\"type\":\"array\",\"x-kubernetes-list-type\":\"set\",\"items\":{\"type\":"
    "\"string\"}},\"arr\":{"
    "\"type\":\"array\",\"items\":{\"type\":\"string\"}},\"lm\":{\"type\":\"array\",\"x-kubernetes-list-"
    "type\":\"map\","
    "\"x-kubernetes-list-map-keys\":[\"name\",\"ns\"],\"items\":{\"type\":\"object\",\"properties\":{"
    "\"name\":{\"type\":"
    "\"string\"},\"ns\":{\"type\":\"string\",\"default\":\"default\"},\"v\":{\"type\":\"string\"}}}}}},"
    "\"status\":{"
    "\"type\":\"object\",\"properties\":{\"replicas\":{\"type\":\"integer\"},\"items\":{\"type\":\"array\","
    "\"items\":{"
    "\"type\":\"string\"}}}}}}}},{\"name\":\"v2\",\"served\":true,\"storage\":false,\"subresources\":{"
    "\"status\":{}},"
    "\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\",\"x-kubernetes-preserve-unknown-fields\":true}}}]}"
    "}";

static const char plain_crd[] = "{\"apiVersion\":\"apiextensions.k8s.io/"
                                "v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{\"name\":"
                                "\"plains.x.test\"},\"spec\":{\"group\":\"x.test\",\"scope\":\"Cluster\","
                                "\"names\":{\"plural\":\"plains\",\"kind\":"
                                "\"Plain\"},\"versions\":[{\"name\":\"v1\",\"served\":true,\"storage\":true,"
                                "\"schema\":{\"openAPIV3Schema\":{"
                                "\"type\":\"object\",\"x-kubernetes-preserve-unknown-fields\":true}}}]}}";

static inline void kit_on_request(void *ud, const struct apiserver_trace *t)
{
    struct kit *k = ud;
    buf_addf(&k->trace, "%s %s %s %d %.*s\n", t->user, t->method, t->path, t->status, (int)t->body_len,
             t->body);
}

static inline int kit_request(struct kit *k, const char *user, const char *method, const char *target,
                              const char *type, const char *body)
{
    json_doc_free(k->doc);
    free(k->body);
    k->doc = NULL;
    k->status = apiserver_request(k->server, user, method, target, type, body, &k->body);
    (void)!json_parse(k->body, strlen(k->body), &k->doc, NULL);
    return k->status;
}

static inline int kit_setup(void **state)
{
    struct kit *k = xcalloc(1, sizeof(*k));
    k->clock = clock_virtual_new(1767323045000); // 2026-01-02T03:04:05Z
    k->loop = loop_new(k->clock);
    random_init(&k->random, 7);
    buf_init(&k->trace, 1 << 24);
    k->server = apiserver_new(&(struct apiserver_options){
        .loop = k->loop, .random = &k->random, .on_request = kit_on_request, .ud = k});
    assert_int_equal(kit_request(k, "admin", "POST", CRDS, NULL, widget_crd), 201);
    assert_int_equal(kit_request(k, "admin", "POST", CRDS, NULL, plain_crd), 201);
    *state = k;
    return 0;
}

static inline int kit_teardown(void **state)
{
    struct kit *k = *state;
    json_doc_free(k->doc);
    free(k->body);
    apiserver_free(k->server);
    loop_free(k->loop);
    clock_free(k->clock);
    buf_fini(&k->trace);
    free(k);
    return 0;
}

// A request as "probe" whose status must be as told; the body is in k->doc afterwards.
static inline void kit_expect(struct kit *k, int status, const char *method, const char *target,
                              const char *type, const char *body)
{
    kit_request(k, "probe/1.0", method, target, type, body);
    if (k->status != status)
        print_error("%s %s %s\n-> %d %s\n", method, target, body == NULL ? "" : body, k->status, k->body);
    assert_int_equal(k->status, status);
}

// The value at a dotted path of the last answer ("" is the whole; a number is a place in a list) equals the
// JSON given; NULL: it is absent.
static inline void kit_has(struct kit *k, const char *path, const char *wanted)
{
    const json *v = json_root(k->doc);
    char *copy = xstrdup(path), *save = NULL;
    for (char *s = strtok_r(copy, ".", &save); s != NULL; s = strtok_r(NULL, ".", &save))
        v = json_is_array(v) ? json_at(v, strtoul(s, NULL, 10)) : json_get(v, s);
    free(copy);
    if (wanted == NULL) {
        if (v != NULL)
            print_error("%s should not be in %s\n", path, k->body);
        assert_null(v);
        return;
    }
    struct json_doc *doc;
    assert_int_equal(json_parse(wanted, strlen(wanted), &doc, NULL), 0);
    bool same = v != NULL && json_equal(v, json_root(doc));
    json_doc_free(doc);
    if (!same)
        print_error("%s is not %s in %s\n", path, wanted, k->body);
    assert_true(same);
}

// The owned fields of a manager ("m1 Apply", "m1 Apply status") in the last answer; NULL: it has no entry.
static inline void kit_owns(struct kit *k, const char *who, const char *wanted)
{
    const json *list = json_path(json_root(k->doc), "metadata", "managedFields", NULL);
    for (struct json_iter i = json_iter(list); json_next(&i);) {
        const char *sub = json_get_str(i.value, "subresource");
        char *name =
            xasprintf("%s %s%s%s", json_get_str(i.value, "manager"), json_get_str(i.value, "operation"),
                      sub == NULL ? "" : " ", sub == NULL ? "" : sub);
        bool found = strcmp(name, who) == 0;
        free(name);
        if (!found)
            continue;
        if (wanted == NULL)
            print_error("%s has an entry in %s\n", who, k->body);
        assert_non_null(wanted);
        struct json_doc *doc;
        assert_int_equal(json_parse(wanted, strlen(wanted), &doc, NULL), 0);
        bool same = json_equal(json_get(i.value, "fieldsV1"), json_root(doc));
        json_doc_free(doc);
        if (!same)
            print_error("%s does not own %s in %s\n", who, wanted, k->body);
        assert_true(same);
        return;
    }
    if (wanted != NULL)
        print_error("%s has no entry in %s\n", who, k->body);
    assert_null(wanted);
}

static inline char *kit_rv(struct kit *k) // of the last answer; free()
{
    return xstrdup(json_str(json_path(json_root(k->doc), "metadata", "resourceVersion", NULL)));
}

#define KIT_TEST(fn) cmocka_unit_test_setup_teardown(fn, kit_setup, kit_teardown)

#endif
