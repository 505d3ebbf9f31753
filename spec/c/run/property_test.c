// Random sequences of desired states, with a stranger who changes things in between: each ends with live
// containing what is desired and nothing more to write; and what a script reads and returns comes back as it
// was. SEED of the environment repeats a run, SEQUENCES makes it longer.

#include "base/strset.h"
#include "data/json_write.h"
#include "run/things.h"

enum { KINDS = 4, NAMES = 3, STEPS = 6, SEQUENCES = 200, SETTLE_MS = 20 * 1000, TEXT_MAX = 1 << 20 };

static const struct kind {
    const char *api_version, *kind, *plural, *path;
} kinds[KINDS] = {
    {"v1", "ConfigMap", "configmaps", "/api/v1/namespaces/default/configmaps"},
    {"v1", "Service", "services", "/api/v1/namespaces/default/services"},
    {"apps/v1", "Deployment", "deployments", "/apis/apps/v1/namespaces/default/deployments"},
    {"x.test/v1", "Box", "boxes", "/apis/x.test/v1/namespaces/default/boxes"},
};

#define BOX_CRD                                                                                              \
    "{\"apiVersion\":\"apiextensions.k8s.io/v1\",\"kind\":\"CustomResourceDefinition\",\"metadata\":{"       \
    "\"name\":\"boxes.x.test\"},\"spec\":{\"group\":\"x.test\",\"scope\":\"Namespaced\",\"names\":{"         \
    "\"plural\":\"boxes\",\"singular\":\"box\",\"kind\":\"Box\"},\"versions\":[{\"name\":\"v1\","            \
    "\"served\":true,\"storage\":true,\"schema\":{\"openAPIV3Schema\":{\"type\":\"object\",\"properties\":{" \
    "\"spec\":{\"type\":\"object\",\"properties\":{"                                                         \
    "\"any\":{\"type\":\"object\",\"x-kubernetes-preserve-unknown-fields\":true},"                           \
    "\"m\":{\"type\":\"object\",\"additionalProperties\":{\"type\":\"string\"}},"                            \
    "\"arr\":{\"type\":\"array\",\"items\":{\"type\":\"string\"}},"                                          \
    "\"set\":{\"type\":\"array\",\"x-kubernetes-list-type\":\"set\",\"items\":{\"type\":\"string\"}},"       \
    "\"lm\":{\"type\":\"array\",\"x-kubernetes-list-type\":\"map\",\"x-kubernetes-list-map-keys\":["         \
    "\"name\"],\"items\":{\"type\":\"object\",\"properties\":{\"name\":{\"type\":\"string\"},"               \
    "\"v\":{\"type\":\"string\"},\"m\":{\"type\":\"object\",\"additionalProperties\":{\"type\":"             \
    "\"string\"}}}}}}}}}}}]}}"

// What is wanted of one child; text NULL: it is not.
struct slot {
    char *text;
    bool drifted; // a stranger has fields of his own in it
};

struct run {
    struct sim sim;
    struct random random;
    struct slot slots[KINDS][NAMES];
    unsigned touched;
};

// ---- random values

static bool chance(struct run *r, unsigned percent)
{
    return random_below(&r->random, 100) < percent;
}

static void add_text(struct run *r, struct json_writer *w)
{
    static const char *const texts[] = {
        "", "a", "1", "true", "null", "1Gi", "/x", "\xc2\x85", "\x7f", "\n\t\"\\", "\xf0\x9f\x98\x80"};
    jw_str(w, texts[random_below(&r->random, sizeof texts / sizeof texts[0])]);
}

static void add_key(struct run *r, struct json_writer *w, struct strset *used)
{
    char key[2] = {0, 0};
    do
        key[0] = (char)('a' + random_below(&r->random, 8));
    while (!strset_add(used, key));
    jw_key(w, key);
}

static void add_texts(struct run *r, struct json_writer *w) // a map
{
    struct strset used;
    strset_init(&used);
    jw_object(w);
    for (uint64_t n = random_below(&r->random, 4); n > 0; n--) {
        add_key(r, w, &used);
        add_text(r, w);
    }
    jw_object_end(w);
    strset_fini(&used);
}

static void add_number(struct run *r, struct json_writer *w)
{
    static const int64_t edges[] = {
        0, 1, -1, 500000, 9007199254740993, INT64_MAX, INT64_MIN, 999999999999999};
    if (chance(r, 30))
        jw_double(w, (double)random_below(&r->random, 1000) / 64 + 0.5);
    else
        jw_int(w, edges[random_below(&r->random, sizeof edges / sizeof edges[0])]);
}

static void add_value(struct run *r, struct json_writer *w, unsigned depth);

static void add_object(struct run *r, struct json_writer *w, unsigned depth)
{
    struct strset used;
    strset_init(&used);
    jw_object(w);
    for (uint64_t n = random_below(&r->random, 4); n > 0; n--) {
        add_key(r, w, &used);
        add_value(r, w, depth);
    }
    jw_object_end(w);
    strset_fini(&used);
}

static void add_array(struct run *r, struct json_writer *w, unsigned depth)
{
    jw_array(w);
    for (uint64_t n = random_below(&r->random, 4); n > 0; n--)
        add_value(r, w, depth);
    jw_array_end(w);
}

static void add_value(struct run *r, struct json_writer *w, unsigned depth)
{
    uint64_t what = random_below(&r->random, depth == 0 ? 4 : 7);
    if (what == 0)
        add_number(r, w);
    else if (what == 1)
        add_text(r, w);
    else if (what == 2)
        jw_bool(w, chance(r, 50));
    else if (what == 3)
        jw_null(w);
    else if (what == 4)
        add_array(r, w, depth - 1);
    else
        add_object(r, w, depth - 1);
}

// A list of maps with distinct names; what else they hold is added by `rest`.
static void add_named(struct run *r, struct json_writer *w, const char *key,
                      void (*rest)(struct run *r, struct json_writer *w, unsigned i))
{
    jw_key(w, key);
    jw_array(w);
    unsigned first = (unsigned)random_below(&r->random, 3);
    for (unsigned i = first; i < first + random_below(&r->random, 4); i++) {
        char name[3] = {'n', (char)('0' + i), 0};
        jw_object(w);
        jw_member_str(w, "name", name);
        rest(r, w, i);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void env_rest(struct run *r, struct json_writer *w, unsigned i)
{
    (void)i;
    jw_key(w, "value");
    add_text(r, w);
}

static void container_rest(struct run *r, struct json_writer *w, unsigned i)
{
    (void)i;
    jw_member_str(w, "image", chance(r, 50) ? "i:1" : "i:2");
    if (chance(r, 60))
        add_named(r, w, "env", env_rest);
    if (chance(r, 30)) {
        jw_key(w, "args");
        jw_array(w);
        for (uint64_t n = random_below(&r->random, 3); n > 0; n--)
            add_text(r, w);
        jw_array_end(w);
    }
}

static void port_rest(struct run *r, struct json_writer *w, unsigned i)
{
    jw_member_int(w, "port", 80 + (int64_t)i);
    jw_member_str(w, "protocol", "TCP");
    if (chance(r, 50))
        jw_member_int(w, "targetPort", 8080 + (int64_t)random_below(&r->random, 2));
}

static void box_rest(struct run *r, struct json_writer *w, unsigned i)
{
    (void)i;
    if (chance(r, 50)) {
        jw_key(w, "v");
        add_text(r, w);
    }
    if (chance(r, 50)) {
        jw_key(w, "m");
        add_texts(r, w);
    }
}

static void add_map_member(struct run *r, struct json_writer *w, const char *key, unsigned percent)
{
    if (!chance(r, percent))
        return;
    jw_key(w, key);
    add_texts(r, w);
}

static void add_scalars(struct run *r, struct json_writer *w, const char *key, unsigned first)
{
    if (!chance(r, 50))
        return;
    jw_key(w, key);
    jw_array(w);
    for (unsigned i = first; i < first + random_below(&r->random, 3); i++)
        jw_strn(w, &"abcdef"[i], 1);
    jw_array_end(w);
}

static void add_box(struct run *r, struct json_writer *w)
{
    jw_key(w, "any");
    add_object(r, w, 3);
    add_map_member(r, w, "m", 50);
    add_scalars(r, w, "arr", (unsigned)random_below(&r->random, 3));
    add_scalars(r, w, "set", (unsigned)random_below(&r->random, 3));
    if (chance(r, 60))
        add_named(r, w, "lm", box_rest);
}

static void add_deployment(struct run *r, struct json_writer *w)
{
    if (chance(r, 50))
        jw_member_int(w, "replicas", (int64_t)random_below(&r->random, 3));
    jw_key(w, "template");
    jw_object(w);
    jw_key(w, "metadata");
    jw_object(w);
    add_map_member(r, w, "annotations", 50);
    jw_object_end(w);
    jw_key(w, "spec");
    jw_object(w);
    add_named(r, w, "containers", container_rest);
    add_map_member(r, w, "nodeSelector", 30);
    jw_object_end(w);
    jw_object_end(w);
}

static void add_service(struct run *r, struct json_writer *w)
{
    add_map_member(r, w, "selector", 60);
    add_named(r, w, "ports", port_rest);
}

static char *make_child(struct run *r, size_t kind, const char *name)
{
    static void (*const specs[])(struct run * r, struct json_writer * w) = {NULL, add_service, add_deployment,
                                                                            add_box};
    struct buf out;
    struct json_writer w;
    buf_init(&out, TEXT_MAX);
    jw_init(&w, &out);
    jw_object(&w);
    jw_member_str(&w, "apiVersion", kinds[kind].api_version);
    jw_member_str(&w, "kind", kinds[kind].kind);
    jw_key(&w, "metadata");
    jw_object(&w);
    jw_member_str(&w, "name", name);
    add_map_member(r, &w, "annotations", 30);
    jw_object_end(&w);
    if (kind == 0) {
        add_map_member(r, &w, "data", 80);
    } else {
        jw_key(&w, "spec");
        jw_object(&w);
        specs[kind](r, &w);
        jw_object_end(&w);
    }
    jw_object_end(&w);
    return buf_take(&out, NULL);
}

// ---- is what is wanted there?

static bool contains(const json *live, const json *want, bool exactly);

static bool has_element(const json *live, const json *want, bool exactly)
{
    for (struct json_iter i = json_iter(live); json_next(&i);)
        if (contains(i.value, want, exactly))
            return true;
    return false;
}

static bool list_contains(const json *live, const json *want, bool exactly)
{
    for (struct json_iter i = json_iter(want); json_next(&i);)
        if (!has_element(live, i.value, exactly))
            return false;
    return !exactly || json_count(live) == json_count(want);
}

static bool is_nothing(const json *v)
{
    if (!json_is_object(v) && !json_is_array(v))
        return json_is_null(v);
    for (struct json_iter i = json_iter(v); json_next(&i);)
        if (!is_nothing(i.value) || json_is_array(v))
            return false;
    return true;
}

static bool object_contains(const json *live, const json *want, bool exactly)
{
    for (struct json_iter i = json_iter(want); json_next(&i);) {
        const json *have = json_getn(live, i.key, i.key_len);
        if (!(is_nothing(i.value) && is_nothing(have)) && !contains(have, i.value, exactly))
            return false;
    }
    for (struct json_iter i = json_iter(live); exactly && json_next(&i);)
        if (json_getn(want, i.key, i.key_len) == NULL && !is_nothing(i.value))
            return false;
    return true;
}

// exactly: nothing else is there.
static bool contains(const json *live, const json *want, bool exactly)
{
    if (json_is_object(want))
        return json_is_object(live) && object_contains(live, want, exactly);
    if (json_is_array(want))
        return json_is_array(live) && list_contains(live, want, exactly);
    return json_is_null(want) ? json_is_null(live) : live != NULL && json_equal(live, want);
}

static void check_child(struct run *r, size_t kind, const char *name, const struct slot *slot)
{
    static const char *const parts[] = {"data", "spec"};
    struct json_doc *want, *live = sim_get(&r->sim, kinds[kind].api_version, kinds[kind].plural, name);
    if (slot->text == NULL) {
        assert_null(live);
        return;
    }
    assert_non_null(live);
    assert_int_equal(json_parse(slot->text, strlen(slot->text), &want, NULL), 0);
    bool same = contains(json_path(json_root(live), "metadata", "annotations", NULL),
                         json_path(json_root(want), "metadata", "annotations", NULL), false) ||
                is_nothing(json_path(json_root(want), "metadata", "annotations", NULL));
    for (size_t i = 0; i < 2; i++) {
        const json *w = json_get(json_root(want), parts[i]), *l = json_get(json_root(live), parts[i]);
        same &= (is_nothing(w) && (is_nothing(l) || slot->drifted)) || contains(l, w, !slot->drifted);
    }
    if (!same) {
        struct buf text;
        struct json_writer w;
        buf_init(&text, TEXT_MAX);
        jw_init(&w, &text);
        jw_value(&w, json_root(live));
        printf("%s\n", r->sim.trace.data);
        printf("%s %s\nwanted %s\nis     %s\n", kinds[kind].kind, name, slot->text, text.data);
        fflush(stdout);
        fail_msg("live does not contain what is wanted");
    }
    json_doc_free(want);
    json_doc_free(live);
}

// ---- a step

static const char *const names[NAMES] = {"x", "y", "z"};

static void change(struct run *r)
{
    for (size_t k = 0; k < KINDS; k++)
        for (size_t n = 0; n < NAMES; n++) {
            struct slot *slot = &r->slots[k][n];
            uint64_t what = random_below(&r->random, 100);
            if (what >= 45)
                continue;
            free(slot->text);
            slot->text = what < 30 ? make_child(r, k, names[n]) : NULL;
            slot->drifted &= slot->text != NULL;
        }
}

static void put_desired(struct run *r)
{
    struct buf list, thing;
    struct json_writer w;
    bool comma = false;
    buf_init(&list, TEXT_MAX);
    buf_add_char(&list, '[');
    for (size_t k = 0; k < KINDS; k++)
        for (size_t n = 0; n < NAMES; n++)
            if (r->slots[k][n].text != NULL) {
                buf_addf(&list, "%s%s", comma ? "," : "", r->slots[k][n].text);
                comma = true;
            }
    buf_add_char(&list, ']');
    buf_init(&thing, TEXT_MAX);
    jw_init(&w, &thing);
    jw_object(&w);
    jw_member_str(&w, "children", list.data);
    jw_object_end(&w);
    things_put(&r->sim, "t", thing.data);
    buf_fini(&list);
    buf_fini(&thing);
}

// A map that a stranger brought, and of which he owns no member any more, can not be taken away from a custom
// kind: the server would leave null in it, which its schema forbids. So he writes only into one that is
// there.
static bool in_box_m(const char *text)
{
    struct json_doc *doc;
    assert_int_equal(json_parse(text, strlen(text), &doc, NULL), 0);
    bool is = json_count(json_path(json_root(doc), "spec", "m", NULL)) > 0;
    json_doc_free(doc);
    return is;
}

// Somebody else changes, adds and removes fields, or deletes a child.
static void drift(struct run *r)
{
    size_t k = random_below(&r->random, KINDS), n = random_below(&r->random, NAMES);
    struct slot *slot = &r->slots[k][n];
    if (slot->text == NULL)
        return;
    char *path = xasprintf("%s/%s", kinds[k].path, names[n]);
    static const char *const changes[KINDS] = {
        "{\"data\":{\"a\":\"hers %u\",\"b\":null,\"alice\":\"%u\"}}",
        "{\"spec\":{\"selector\":{\"a\":\"hers %u\",\"c\":null,\"alice\":\"%u\"}}}",
        "{\"spec\":{\"replicas\":%u,\"template\":{\"spec\":{\"nodeSelector\":{\"alice\":\"%u\"}}}}}",
        "{\"spec\":{\"any\":{\"alice\":\"%u\",\"a\":%u},\"arr\":[\"hers\"]}}"};
    static const char in_m[] = "{\"spec\":{\"m\":{\"a\":\"hers %u\",\"alice\":\"%u\"}}}";
    if (chance(r, 20)) {
        apiserver_request(r->sim.server, "alice", "DELETE", path, NULL, NULL, NULL); // or it is away already
        slot->drifted = false;
    } else {
        unsigned value = 10 + ++r->touched;
        char *body = xasprintf(in_box_m(slot->text) ? in_m : changes[k], value, value);
        if (apiserver_request(r->sim.server, "alice", "PATCH", path, THINGS_MERGE, body, NULL) == 200)
            slot->drifted = true;
        free(body);
    }
    free(path);
}

static void forget_trace(struct run *r)
{
    buf_reset(&r->sim.trace);
    r->sim.host_writes = 0;
}

static void check(struct run *r)
{
    for (size_t k = 0; k < KINDS; k++)
        for (size_t n = 0; n < NAMES; n++)
            check_child(r, k, names[n], &r->slots[k][n]);
    forget_trace(r);
    if (chance(r, 20)) {
        sim_restart_host(&r->sim);
    } else {
        char *body = xasprintf("{\"metadata\":{\"annotations\":{\"touched\":\"%u\"}}}", ++r->touched);
        sim_request(&r->sim, "kubectl", "PATCH", THINGS_PATH "/t", THINGS_MERGE, body);
        free(body);
    }
    sim_run(&r->sim, SETTLE_MS);
    if (things_writes(&r->sim) != 0) {
        printf("%s\n", r->sim.trace.data);
        fflush(stdout);
        fail_msg("a pass without news wrote");
    }
}

static void one_sequence(struct run *r)
{
    for (unsigned i = 0; i < STEPS; i++) {
        forget_trace(r);
        if (i == 0 || chance(r, 70)) {
            change(r);
            put_desired(r);
            sim_run(&r->sim, SETTLE_MS);
        }
        for (uint64_t n = random_below(&r->random, 4); n > 0; n--)
            drift(r);
        sim_run(&r->sim, SETTLE_MS);
        check(r);
    }
}

static uint64_t setting(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text == NULL ? otherwise : strtoull(text, NULL, 10);
}

static void run_start(struct run *r, uint64_t seed, const char *body)
{
    *r = (struct run){0};
    random_init(&r->random, seed);
    things_start(&r->sim, body, "");
    sim_apply(&r->sim, "kubectl", BOX_CRD);
    loop_timer_stop(r->sim.player); // nobody else takes part
    things_settle(&r->sim);
}

static void run_end(struct run *r)
{
    for (size_t k = 0; k < KINDS; k++)
        for (size_t n = 0; n < NAMES; n++)
            free(r->slots[k][n].text);
    sim_fini(&r->sim);
}

static void each_sequence_converges(void **unused)
{
    (void)unused;
    uint64_t seed = setting("SEED", 20260101), n = setting("SEQUENCES", SEQUENCES);
    for (uint64_t i = 0; i < n; i++) {
        struct run r;
        print_message("SEED=%llu SEQUENCES=1\n", (unsigned long long)(seed + i));
        run_start(&r, seed + i, "return { apply = (require 'tidelock.json').decode(o.spec.children) }");
        one_sequence(&r);
        run_end(&r);
    }
}

// ---- read and returned

enum { ROUND_TRIPS = 60 };

static void post_source(struct run *r, size_t kind, const char *name)
{
    char *text = make_child(r, kind, name);
    char *path = xstrdup(kinds[kind].path);
    sim_request(&r->sim, "alice", "POST", path, "application/json", text);
    free(path);
    free(text);
}

static bool same_member(const json *a, const json *b, const char *key)
{
    const json *x = json_get(a, key), *y = json_get(b, key);
    return (x == NULL && y == NULL) || (x != NULL && y != NULL && json_equal(x, y));
}

static void expect_copy(struct run *r, size_t kind, const char *name)
{
    char *copy_name = xasprintf("%s-copy", name);
    struct json_doc *source = sim_get(&r->sim, kinds[kind].api_version, kinds[kind].plural, name);
    struct json_doc *copy = sim_get(&r->sim, kinds[kind].api_version, kinds[kind].plural, copy_name);
    assert_non_null(copy);
    const json *a = json_root(source), *b = json_root(copy);
    if (!same_member(a, b, "data") || !same_member(a, b, "spec") ||
        !same_member(json_get(a, "metadata"), json_get(b, "metadata"), "annotations")) {
        struct buf text;
        struct json_writer w;
        buf_init(&text, TEXT_MAX);
        jw_init(&w, &text);
        jw_array(&w);
        jw_value(&w, a);
        jw_value(&w, b);
        jw_array_end(&w);
        printf("%s\n", text.data);
        fflush(stdout);
        fail_msg("the copy differs");
    }
    json_doc_free(source);
    json_doc_free(copy);
    free(copy_name);
}

static void what_is_read_comes_back(void **unused)
{
    static const char script[] =
        "local all = {}\n"
        "for _, kind in ipairs { 'v1/ConfigMap', 'v1/Service', 'apps/v1/Deployment', 'x.test/v1/Box' } do\n"
        "  for _, object in ipairs(world.list(kind)) do\n"
        "    if object.metadata.name:find('^src%d+$') then\n"
        "      object.metadata.name = object.metadata.name .. '-copy'\n"
        "      all[#all + 1] = object\n"
        "    end\n"
        "  end\n"
        "end\n"
        "return { apply = all }";
    struct run r;
    (void)unused;
    run_start(&r, setting("SEED", 20260101), script);
    for (unsigned i = 0; i < ROUND_TRIPS; i++) {
        char name[16];
        snprintf(name, sizeof name, "src%u", i);
        post_source(&r, i % KINDS, name);
    }
    things_put(&r.sim, "t", "{}");
    sim_run(&r.sim, SETTLE_MS);
    for (unsigned i = 0; i < ROUND_TRIPS; i++) {
        char name[16];
        snprintf(name, sizeof name, "src%u", i);
        expect_copy(&r, i % KINDS, name);
    }
    sim_restart_host(&r.sim);
    forget_trace(&r);
    sim_run(&r.sim, SETTLE_MS);
    assert_int_equal(things_writes(&r.sim), 0);
    run_end(&r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_is_read_comes_back),
                                       cmocka_unit_test(each_sequence_converges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
