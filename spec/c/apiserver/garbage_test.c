// Requests with bytes changed at random: every one gets an answer, and what is stored can always be read
// again.
#include "apiserver/kit.h"

static const char *const methods[] = {"GET", "POST", "PUT", "PATCH", "DELETE"};
static const char *const types[] = {APPLY, MERGE, JSONPATCH, "application/json"};
static const char *const targets[] = {
    CM,
    CM "/a?fieldManager=m&force=true",
    CM "?limit=1&labelSelector=a%3Db,c&fieldSelector=metadata.name%3Da&continue=eyJ2IjoibWV0YSJ9",
    CM "?watch=1&resourceVersion=3&allowWatchBookmarks=true",
    WIDGETS "/w?fieldManager=m2",
    WIDGETS "/w/status?fieldManager=m1",
    WIDGETS,
    "/apis/x.test/v1/plains/p?fieldManager=m",
    "/apis/apps/v1/namespaces/default/deployments/d?fieldManager=m",
    CRDS "/things.x.test?fieldManager=m",
    "/api/v1/namespaces/t?fieldManager=m",
    "/apis/x.test/v2",
};
static const char *const bodies[] = {
    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\",\"labels\":{\"a\":\"b\"},"
    "\"finalizers\":[\"x.y/z\"],"
    "\"ownerReferences\":[{\"uid\":\"1\"}]},\"data\":{\"k\":\"v\",\"l\":null}}",
    "{\"apiVersion\":\"x.test/"
    "v1\",\"kind\":\"Widget\",\"metadata\":{\"name\":\"w\"},\"spec\":{\"lm\":[{\"name\":\"a\"},{\"name\":"
    "\"b\","
    "\"v\":\"1\"}],\"set\":[\"a\",\"b\"],\"any\":{\"x\":[{\"y\":1}],\"z\":{}},\"m\":{\"k\":\"v\"},\"num\":1."
    "5},\"status\":{\"replicas\":1}}",
    "{\"apiVersion\":\"x.test/"
    "v1\",\"kind\":\"Plain\",\"metadata\":{\"name\":\"p\",\"managedFields\":[{\"manager\":\"m\","
    "\"operation\":"
    "\"Apply\",\"apiVersion\":\"x.test/"
    "v1\",\"fieldsType\":\"FieldsV1\",\"fieldsV1\":{\"f:a\":{\".\":{},\"k:{\\\"x\\\":1}\":{},"
    "\"v:1\":{},\"i:0\":{}}}}]},\"a\":[{\"x\":1}]}",
    "{\"apiVersion\":\"apps/"
    "v1\",\"kind\":\"Deployment\",\"metadata\":{\"name\":\"d\"},\"spec\":{\"template\":{\"spec\":{"
    "\"containers\":["
    "{\"name\":\"c\",\"env\":[{\"name\":\"A\"}],\"ports\":[{\"containerPort\":80}]}],\"volumes\":[{\"name\":"
    "\"v\",\"emptyDir\":{}}]}}}}",
    "{\"apiVersion\":\"apiextensions.k8s.io/"
    "v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{\"name\":\"things.x.test\"},"
    "\"spec\":{\"group\":\"x.test\",\"scope\":\"Cluster\",\"names\":{\"plural\":\"things\",\"kind\":"
    "\"Thing\"},\"versions\":[{\"name\":"
    "\"v1\",\"served\":true,\"storage\":true,\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\","
    "\"properties\":{\"a\":{\"type\":"
    "\"array\",\"x-kubernetes-list-type\":\"map\",\"x-kubernetes-list-map-keys\":[\"k\"],\"items\":{\"type\":"
    "\"object\"}}}}}}]}}",
    "[{\"op\":\"add\",\"path\":\"/metadata/labels\",\"value\":{}},{\"op\":\"move\",\"from\":\"/"
    "data\",\"path\":\"/data2\"},{\"op\":"
    "\"replace\",\"path\":\"/spec/set/0\",\"value\":null},{\"op\":\"copy\",\"from\":\"\",\"path\":\"/spec/"
    "any/me\"}]",
    "{\"apiVersion\":\"v1\",\"kind\":\"Namespace\",\"metadata\":{\"name\":\"t\"}}",
    "{\"preconditions\":{\"uid\":\"x\"},\"propagationPolicy\":\"Orphan\",\"gracePeriodSeconds\":3}",
    "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata: &d {x: yes, y: *d}\n",
};

#define PICK(list) (list)[random_below(r, sizeof(list) / sizeof((list)[0]))]

// A few bytes changed, cut or doubled; JSON's own signs are likely.
static char *garble(struct random *r, const char *text)
{
    static const char signs[] = "{}[]\",:0\\n\x80%?/&=.~-";
    size_t n = strlen(text), times = random_below(r, 4);
    char *out = xmalloc(n + 8);
    memcpy(out, text, n + 1);
    for (size_t i = 0; i < times && n > 1; i++) {
        size_t at = random_below(r, n);
        switch (random_below(r, 3)) {
        case 0:
            out[at] = signs[random_below(r, sizeof(signs) - 1)];
            break;
        case 1:
            memmove(&out[at], &out[at + 1], n - at);
            n--;
            break;
        default:
            memmove(&out[at + 1], &out[at], n - at + 1);
            n++;
        }
    }
    return out;
}

// The body that belongs to a target.
static size_t body_of(size_t target)
{
    static const size_t fitting[] = {0, 0, 0, 0, 1, 1, 1, 2, 3, 4, 6, 0};
    return fitting[target];
}

static void check_stored(struct kit *k)
{
    static const char *const lists[] = {"/api/v1/configmaps",
                                        "/apis/x.test/v1/widgets",
                                        "/apis/x.test/v1/plains",
                                        "/apis/apps/v1/deployments",
                                        CRDS,
                                        "/api/v1/namespaces"};
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {
        kit_request(k, "u", "GET", lists[i], NULL, NULL);
        assert_non_null(k->doc);
    }
}

static void test_garbage(void **state)
{
    struct kit *k = *state;
    struct random random, *r = &random;
    random_init(r, 11);
    for (int i = 0; i < 20000; i++) {
        size_t at = random_below(r, sizeof(targets) / sizeof(targets[0]));
        bool fits = random_below(r, 4) > 0; // most requests get far enough to matter
        char *target = fits ? xstrdup(targets[at]) : garble(r, targets[at]);
        char *body = garble(r, fits ? bodies[body_of(at)] : PICK(bodies));
        const char *method =
            fits && strchr(target, '?') != NULL && random_below(r, 8) > 0 ? "PATCH" : PICK(methods);
        kit_request(k, "u", method, target, PICK(types), body);
        assert_in_range(k->status, 200, 599);
        free(target);
        free(body);
        buf_reset(&k->trace);
        if (i % 500 == 0)
            check_stored(k);
    }
    check_stored(k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {KIT_TEST(test_garbage)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
