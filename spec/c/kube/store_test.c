// The store: versions, snapshots that stand still, pruning, relist by marks, changes since a revision,
// indexes, exact bytes.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kube/store.h"

enum { EVENTS_MAX = 64 };

struct events {
    char text[EVENTS_MAX][64]; // "old>new" by resourceVersion, "-" for none
    size_t count;
};

static void on_event(void *ud, struct object *old, struct object *new, uint64_t revision)
{
    struct events *e = ud;
    assert_true(revision > 0);
    assert_true(e->count < EVENTS_MAX);
    snprintf(e->text[e->count++], sizeof(e->text[0]), "%s:%s>%s", object_name(new != NULL ? new : old),
             old != NULL ? object_resource_version(old) : "-",
             new != NULL ? object_resource_version(new) : "-");
}

static struct object *make(const char *ns, const char *name, const char *uid, const char *rv,
                           const char *more)
{
    char text[1024];
    struct json_doc *d;
    struct object *o;
    snprintf(
        text, sizeof(text),
        "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"%s\",\"uid\":\"%s\",\"resourceVersion\":\"%s\"%s}}",
        name, ns, uid, rv, more);
    assert_int_equal(json_parse(text, strlen(text), &d, NULL), 0);
    assert_int_equal(object_new(gvk_parse("v1/Pod", NULL), json_root(d), &o, NULL), 0);
    json_doc_free(d);
    return o;
}

struct fixture {
    struct store_clock *clock;
    struct store *store;
    struct events events;
};

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->clock = store_clock_new();
    f->store = store_new(f->clock, gvk_parse("v1/Pod", NULL));
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    store_unref(f->store);
    store_clock_free(f->clock);
    free(f);
    return 0;
}

static void put(struct fixture *f, const char *name, const char *rv)
{
    store_put(f->store, make("d", name, "", rv, ""), on_event, &f->events);
}

static void check_events(struct fixture *f, const char *expected)
{
    char text[EVENTS_MAX * 66] = "";
    for (size_t i = 0; i < f->events.count; i++) {
        strcat(text, i > 0 ? " " : "");
        strcat(text, f->events.text[i]);
    }
    assert_string_equal(text, expected);
    f->events.count = 0;
}

static const char *rv_at(struct fixture *f, uint64_t revision, const char *name)
{
    static char text[32];
    struct object *o = store_get(f->store, revision, "d", name);
    snprintf(text, sizeof(text), "%s", o != NULL ? object_resource_version(o) : "-");
    object_unref(o);
    return text;
}

static void check_names(struct fixture *f, uint64_t revision, const struct store_query *q,
                        const char *expected)
{
    struct object_list l;
    char text[2048] = "";
    store_list(f->store, revision, q, &l);
    for (size_t i = 0; i < l.count; i++) {
        strcat(text, i > 0 ? " " : "");
        strcat(text, object_name(l.items[i]));
    }
    object_list_fini(&l);
    assert_string_equal(text, expected);
}

static void test_put_and_remove(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "1");
    put(f, "b", "2");
    put(f, "a", "3");
    put(f, "a", "3"); // no change
    check_events(f, "a:->1 b:->2 a:1>3");
    assert_string_equal(rv_at(f, UINT64_MAX, "a"), "3");
    assert_int_equal(store_count(f->store), 2);
    store_remove(f->store, "d", "a", on_event, &f->events);
    store_remove(f->store, "d", "a", on_event, &f->events);
    store_remove(f->store, "d", "x", NULL, NULL);
    check_events(f, "a:3>-");
    assert_string_equal(rv_at(f, UINT64_MAX, "a"), "-");
    assert_int_equal(store_count(f->store), 1);
    check_names(f, UINT64_MAX, NULL, "b");
    put(f, "a", "5");
    check_events(f, "a:->5");
    // Resource versions are not compared: what came last holds.
    put(f, "a", "4");
    check_events(f, "a:5>4");
}

static void test_another_uid_is_delete_and_create(void **state)
{
    struct fixture *f = *state;
    store_put(f->store, make("d", "a", "u1", "1", ""), on_event, &f->events);
    store_put(f->store, make("d", "a", "u2", "2", ""), on_event, &f->events);
    check_events(f, "a:->1 a:1>- a:->2");
    assert_int_equal(store_clock_now(f->clock), 3);
    assert_int_equal(store_count(f->store), 1);
}

static void test_snapshots(void **state)
{
    struct fixture *f = *state;
    uint64_t empty = store_snapshot(f->clock);
    put(f, "a", "1");
    put(f, "b", "1");
    uint64_t one = store_snapshot(f->clock);
    assert_int_equal(store_snapshot(f->clock), one); // counted
    put(f, "a", "2");
    put(f, "a", "3");
    uint64_t three = store_snapshot(f->clock);
    store_remove(f->store, "d", "a", NULL, NULL);
    put(f, "c", "1");
    check_names(f, empty, NULL, "");
    check_names(f, one, NULL, "a b");
    check_names(f, three, NULL, "a b");
    check_names(f, UINT64_MAX, NULL, "b c");
    assert_string_equal(rv_at(f, one, "a"), "1");
    assert_string_equal(rv_at(f, three, "a"), "3");
    assert_string_equal(rv_at(f, empty, "a"), "-");
    size_t full = store_bytes(f->store);
    store_snapshot_release(f->clock, empty);
    store_snapshot_release(f->clock, one);
    assert_string_equal(rv_at(f, one, "a"), "1");
    assert_int_equal(store_bytes(f->store), full);
    store_snapshot_release(f->clock, one); // frees a@1 and a@2
    assert_true(store_bytes(f->store) < full);
    assert_string_equal(rv_at(f, three, "a"), "3");
    full = store_bytes(f->store);
    store_snapshot_release(f->clock, three); // and the tombstone
    assert_true(store_bytes(f->store) < full);
    check_names(f, UINT64_MAX, NULL, "b c");
}

static void test_bytes_return_to_the_start(void **state)
{
    struct fixture *f = *state;
    size_t empty = store_bytes(f->store);
    char name[16];
    uint64_t pinned = store_snapshot(f->clock);
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof(name), "p%d", i);
        store_put(f->store,
                  make("d", name, "", "1", ",\"labels\":{\"a\":\"b\"},\"ownerReferences\":[{\"uid\":\"o\"}]"),
                  NULL, NULL);
        put(f, "hot", name);
        f->events.count = 0;
    }
    assert_true(store_bytes(f->store) > empty + 500 * 200);
    store_snapshot_release(f->clock, pinned);
    for (int i = 0; i < 500; i++) {
        snprintf(name, sizeof(name), "p%d", i);
        store_remove(f->store, "d", name, NULL, NULL);
    }
    store_remove(f->store, "d", "hot", NULL, NULL);
    assert_int_equal(store_bytes(f->store), empty);
}

static void test_relist(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "1");
    put(f, "b", "1");
    put(f, "c", "1");
    f->events.count = 0;
    store_relist_begin(f->store);
    put(f, "b", "1");
    put(f, "c", "2");
    put(f, "d", "2");
    store_relist_sweep(f->store, on_event, &f->events);
    check_events(f, "c:1>2 d:->2 a:1>-");
    check_names(f, UINT64_MAX, NULL, "b c d");
    // A list that begins again forgets the first one; an aborted one removes nothing.
    store_relist_begin(f->store);
    put(f, "b", "1");
    store_relist_begin(f->store);
    put(f, "c", "2");
    store_relist_abort(f->store);
    store_relist_sweep(f->store, on_event, &f->events);
    check_events(f, "");
    store_relist_begin(f->store);
    put(f, "b", "1");
    store_relist_begin(f->store);
    put(f, "c", "2");
    store_relist_sweep(f->store, on_event, &f->events);
    assert_int_equal(f->events.count, 2);
    check_names(f, UINT64_MAX, NULL, "c");
}

static void test_changed_since(void **state)
{
    struct fixture *f = *state;
    put(f, "a", "1");
    put(f, "b", "1");
    put(f, "c", "1");
    uint64_t then = store_snapshot(f->clock);
    f->events.count = 0;
    store_changed_since(f->store, then, on_event, &f->events);
    check_events(f, "");
    put(f, "b", "2");
    put(f, "new", "1");
    put(f, "b", "3");
    put(f, "flash", "1");
    store_remove(f->store, "d", "flash", NULL, NULL);
    store_remove(f->store, "d", "a", NULL, NULL);
    f->events.count = 0;
    store_changed_since(f->store, then, on_event, &f->events);
    check_events(f, "new:->1 b:1>3 a:1>-");
    store_snapshot_release(f->clock, then);
}

static void test_indexes(void **state)
{
    struct fixture *f = *state;
    char name[16], more[512];
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof(name), "p%03d", i);
        snprintf(more, sizeof(more),
                 ",\"labels\":{\"app\":\"a%d\",\"odd\":\"%d\"},\"ownerReferences\":[{\"uid\":\"o%d\"}],"
                 "\"managedFields\":[{\"manager\":\"tidelock-%d\",\"operation\":\"Apply\",\"fieldsV1\":{}}]",
                 i % 50, i % 2, i % 20, i % 100);
        store_put(f->store, make(i % 2 ? "x" : "y", name, "", "1", more), NULL, NULL);
    }
    struct selector *app, *odd, *set;
    assert_int_equal(selector_parse("app=a7", &app, NULL), 0);
    assert_int_equal(selector_parse("odd=1,app in (a7,a8)", &odd, NULL), 0);
    assert_int_equal(selector_parse("app in (a7,a8)", &set, NULL), 0);
    check_names(f, UINT64_MAX, &(struct store_query){.labels = app}, "p007 p057 p107 p157");
    check_names(f, UINT64_MAX, &(struct store_query){.labels = app, .ns = "y"}, "");
    check_names(f, UINT64_MAX, &(struct store_query){.labels = odd}, "p007 p057 p107 p157");
    check_names(f, UINT64_MAX, &(struct store_query){.labels = set, .ns = "y"}, "p008 p058 p108 p158");
    check_names(f, UINT64_MAX, &(struct store_query){.owner_uid = "o7", .labels = app}, "p007 p107");
    check_names(f, UINT64_MAX, &(struct store_query){.owner_uid = "o7", .ns = "y"}, "");
    check_names(f, UINT64_MAX, &(struct store_query){.manager = "tidelock-7"}, "p007 p107");
    check_names(f, UINT64_MAX, &(struct store_query){.manager = "tidelock-7", .owner_uid = "none"}, "");
    check_names(f, UINT64_MAX, &(struct store_query){.ns = "nowhere"}, "");
    check_names(f, UINT64_MAX, &(struct store_query){.ns = ""}, "");

    // A version that moved to another bucket is found where it was by those who see the old one.
    uint64_t then = store_snapshot(f->clock);
    store_put(f->store, make("x", "p007", "", "2", ",\"labels\":{\"app\":\"b\"}"), NULL, NULL);
    store_remove(f->store, "x", "p057", NULL, NULL);
    check_names(f, then, &(struct store_query){.labels = app}, "p007 p057 p107 p157");
    check_names(f, UINT64_MAX, &(struct store_query){.labels = app}, "p107 p157");
    check_names(f, then, &(struct store_query){.owner_uid = "o7", .labels = app}, "p007 p107");
    check_names(f, UINT64_MAX, &(struct store_query){.owner_uid = "o7", .labels = app}, "p107");
    store_snapshot_release(f->clock, then);
    check_names(f, UINT64_MAX, &(struct store_query){.labels = app}, "p107 p157");
    store_put(f->store, make("x", "p007", "", "3", ",\"labels\":{\"app\":\"a7\"}"), NULL, NULL);
    check_names(f, UINT64_MAX, &(struct store_query){.labels = app}, "p007 p107 p157");
    selector_free(app);
    selector_free(odd);
    selector_free(set);
}

// As the caller of store_list, who selects among what the field's index has left; how many those are.
static size_t check_selected(struct fixture *f, uint64_t revision, const struct field_selector *fields,
                             const char *expected)
{
    struct object_list l;
    char text[2048] = "";
    store_list(f->store, revision, &(struct store_query){.near = fields}, &l);
    for (size_t i = 0; i < l.count; i++) {
        struct json_doc *doc = object_parse(l.items[i]);
        if (field_selector_matches(fields, json_root(doc))) {
            strcat(text, text[0] != 0 ? " " : "");
            strcat(text, object_name(l.items[i]));
        }
        json_doc_free(doc);
    }
    size_t count = l.count;
    object_list_fini(&l);
    assert_string_equal(text, expected);
    return count;
}

static void test_fields(void **state)
{
    struct fixture *f = *state;
    size_t empty = store_bytes(f->store);
    char name[16], more[128];
    struct field_selector *node, *number, *none, *absent;
    assert_int_equal(field_selector_parse("metadata.annotations.node=n7", &node, NULL), 0);
    assert_int_equal(field_selector_parse("metadata.name!=p007,metadata.generation=7", &number, NULL), 0);
    assert_int_equal(field_selector_parse("metadata.annotations.node=n99", &none, NULL), 0);
    assert_int_equal(field_selector_parse("metadata.annotations.node=", &absent, NULL), 0);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof(name), "p%03d", i);
        snprintf(more, sizeof(more), ",\"generation\":%d,\"annotations\":{\"node\":\"n%d\"}", i % 100,
                 i % 50);
        store_put(f->store, make(i % 2 ? "x" : "y", name, "", "1", more), NULL, NULL);
    }
    assert_int_equal(check_selected(f, UINT64_MAX, node, "p007 p057 p107 p157"), 4);
    assert_int_equal(check_selected(f, UINT64_MAX, number, "p107"), 2);
    assert_int_equal(check_selected(f, UINT64_MAX, none, ""), 0);
    // what is left out, and what is not so, have no place in the index
    assert_int_equal(check_selected(f, UINT64_MAX, absent, ""), 200);
    check_names(f, UINT64_MAX, &(struct store_query){.near = node, .ns = "y"}, "");

    uint64_t then = store_snapshot(f->clock);
    store_put(f->store, make("x", "p007", "", "2", ",\"annotations\":{\"node\":\"n99\"}"), NULL, NULL);
    store_remove(f->store, "x", "p057", NULL, NULL);
    check_selected(f, then, node, "p007 p057 p107 p157");
    check_selected(f, UINT64_MAX, node, "p107 p157");
    check_selected(f, UINT64_MAX, none, "p007");
    check_selected(f, then, none, "");
    store_snapshot_release(f->clock, then);
    assert_int_equal(check_selected(f, UINT64_MAX, node, "p107 p157"), 2);
    for (int i = 0; i < 200; i++) {
        snprintf(name, sizeof(name), "p%03d", i);
        store_remove(f->store, i % 2 ? "x" : "y", name, NULL, NULL);
    }
    assert_true(store_bytes(f->store) < empty + 256); // the two paths
    field_selector_free(node);
    field_selector_free(number);
    field_selector_free(none);
    field_selector_free(absent);
}

static void test_sorted(void **state)
{
    struct fixture *f = *state;
    static const char *const places[][2] = {{"b", "a"}, {"a", "z"}, {"a", "b-1"}, {"a", "b"}, {"", "k"}};
    for (size_t i = 0; i < 5; i++)
        store_put(f->store, make(places[i][0], places[i][1], "", "1", ""), NULL, NULL);
    check_names(f, UINT64_MAX, NULL, "k b b-1 z a");
}

// A Pod as a cluster has it: two thirds of it content, one third managedFields.
static int raw_pod(char *text, size_t n, int i)
{
    char env[4096] = "", fields[4096] = "";
    for (int k = 0; k < 30; k++) {
        size_t at = strlen(env);
        snprintf(env + at, sizeof(env) - at, "%s{\"name\":\"VARIABLE_%d\",\"value\":\"some value\"}",
                 k ? "," : "", k);
        at = strlen(fields);
        snprintf(fields + at, sizeof(fields) - at,
                 "%s\"k:{\\\"name\\\":\\\"VARIABLE_%d\\\"}\":{\".\":{},\"f:name\":{},\"f:value\":{}}",
                 k ? "," : "", k);
    }
    return snprintf(text, n,
                    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"web-%d\",\"namespace\":"
                    "\"ns-%d\",\"uid\":\"uid-%d\","
                    "\"resourceVersion\":\"%d\",\"labels\":{\"app\":\"web\",\"tier\":\"front\",\"pod-"
                    "template-hash\":\"abc\"},"
                    "\"ownerReferences\":[{\"apiVersion\":\"apps/"
                    "v1\",\"kind\":\"ReplicaSet\",\"name\":\"web\",\"uid\":\"rs-%d\"}],"
                    "\"managedFields\":[{\"manager\":\"kube-controller-manager\",\"operation\":\"Update\","
                    "\"fieldsV1\":{\"f:env\":{%s}}}]},"
                    "\"spec\":{\"containers\":[{\"name\":\"web\",\"env\":[%s]}]}}",
                    i, i % 7, i, i, i % 30, fields, env);
}

static void test_memory_is_below_raw_json(void **state)
{
    struct fixture *f = *state;
    char text[12000];
    size_t raw = 0;
    size_t before = store_bytes(f->store);
    for (int i = 0; i < 300; i++) {
        struct json_doc *d;
        struct object *o;
        int n = raw_pod(text, sizeof(text), i);
        raw += (size_t)n;
        assert_int_equal(json_parse(text, (size_t)n, &d, NULL), 0);
        assert_int_equal(object_new(gvk_parse("v1/Pod", NULL), json_root(d), &o, NULL), 0);
        json_doc_free(d);
        store_put(f->store, o, NULL, NULL);
    }
    assert_true(store_bytes(f->store) - before < raw);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_put_and_remove), TEST(test_another_uid_is_delete_and_create),
        TEST(test_snapshots),      TEST(test_bytes_return_to_the_start),
        TEST(test_relist),         TEST(test_changed_since),
        TEST(test_indexes),        TEST(test_fields),
        TEST(test_sorted),         TEST(test_memory_is_below_raw_json),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
