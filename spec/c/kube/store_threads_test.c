// ctest-labels: thread
// Readers with snapshots against a writer: what a snapshot shows stays the same while writes go on.
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "kube/store.h"

enum { READERS = 3, OBJECTS = 80, WRITES = 6000 };

struct shared {
    struct store_clock *clock;
    struct store *store;
    struct selector *even;
    struct field_selector *even_field;
    atomic_bool done;
    atomic_int broken;
    atomic_int passes;
};

static struct object *make(int i, int version)
{
    char text[512];
    struct json_doc *d;
    struct object *o;
    snprintf(text, sizeof(text),
             "{\"metadata\":{\"name\":\"p%d\",\"namespace\":\"n%d\",\"uid\":\"u%d\",\"resourceVersion\":\"%"
             "d\",\"labels\":{\"even\":\"%d\"},"
             "\"ownerReferences\":[{\"uid\":\"o%d\"}],\"managedFields\":[{\"manager\":\"tidelock-%d\","
             "\"operation\":\"Apply\"}]}}",
             i, i % 4, i + 1000 * (version % 17 == 0), version, version % 2, version % 3, version % 5);
    if (json_parse(text, strlen(text), &d, NULL) != 0 ||
        object_new(gvk_parse("v1/Pod", NULL), json_root(d), &o, NULL) != 0)
        abort();
    json_doc_free(d);
    return o;
}

static bool same(const struct object_list *a, const struct object_list *b)
{
    if (a->count != b->count)
        return false;
    for (size_t i = 0; i < a->count; i++) {
        if (a->items[i] != b->items[i])
            return false;
    }
    return true;
}

static void read_twice(struct shared *s, uint64_t revision, const struct store_query *q)
{
    struct object_list a, b;
    store_list(s->store, revision, q, &a);
    for (size_t i = 0; i < a.count; i++) {
        struct object *o =
            store_get(s->store, revision, object_namespace(a.items[i]), object_name(a.items[i]));
        if (o != a.items[i])
            atomic_fetch_add(&s->broken, 1);
        object_unref(o);
    }
    store_list(s->store, revision, q, &b);
    if (!same(&a, &b))
        atomic_fetch_add(&s->broken, 1);
    object_list_fini(&a);
    object_list_fini(&b);
}

// The index of a field leaves at least what the label has.
static void read_near(struct shared *s, uint64_t revision)
{
    struct object_list all, even;
    size_t n = 0;
    store_list(s->store, revision, &(struct store_query){.near = s->even_field}, &all);
    store_list(s->store, revision, &(struct store_query){.labels = s->even}, &even);
    for (size_t i = 0; i < all.count; i++) {
        if (!selector_matches(s->even, all.items[i]))
            continue;
        if (n == even.count || even.items[n] != all.items[i])
            atomic_fetch_add(&s->broken, 1);
        else
            n++;
    }
    if (n != even.count)
        atomic_fetch_add(&s->broken, 1);
    object_list_fini(&all);
    object_list_fini(&even);
}

static void *reader(void *ud)
{
    struct shared *s = ud;
    while (!atomic_load(&s->done)) {
        uint64_t revision = store_snapshot(s->clock);
        read_twice(s, revision, &(struct store_query){.ns = "n1"});
        read_twice(s, revision, &(struct store_query){.labels = s->even});
        read_near(s, revision);
        read_twice(s, revision, &(struct store_query){.owner_uid = "o1", .manager = "tidelock-2"});
        read_twice(s, revision, NULL);
        store_bytes(s->store);
        store_snapshot_release(s->clock, revision);
        atomic_fetch_add(&s->passes, 1);
    }
    return NULL;
}

static void count_change(void *ud, struct object *old, struct object *new, uint64_t revision)
{
    (void)revision;
    *(size_t *)ud += old != NULL || new != NULL;
}

static void write_some(struct shared *s)
{
    uint64_t pinned = store_snapshot(s->clock);
    size_t changes = 0;
    for (int k = 0; k < WRITES; k++) {
        int i = (k * 7919) % OBJECTS;
        char ns[8], name[8];
        snprintf(ns, sizeof(ns), "n%d", i % 4);
        snprintf(name, sizeof(name), "p%d", i);
        if (k % 11 == 0)
            store_remove(s->store, ns, name, NULL, NULL);
        else
            store_put(s->store, make(i, k), NULL, NULL);
        if (k % 500 == 0) {
            store_changed_since(s->store, pinned, count_change, &changes);
            store_snapshot_release(s->clock, pinned);
            pinned = store_snapshot(s->clock);
            store_relist_begin(s->store);
            for (int n = 0; n < OBJECTS / 2; n++)
                store_put(s->store, make(n, k), NULL, NULL);
            store_relist_sweep(s->store, NULL, NULL);
        }
    }
    store_snapshot_release(s->clock, pinned);
    assert_true(changes > 0);
}

static void test_snapshots_stand_still(void **state)
{
    (void)state;
    pthread_t threads[READERS];
    struct shared s = {.clock = store_clock_new()};
    s.store = store_new(s.clock, gvk_parse("v1/Pod", NULL));
    size_t empty = store_bytes(s.store);
    assert_int_equal(selector_parse("even=0", &s.even, NULL), 0);
    assert_int_equal(field_selector_parse("metadata.labels.even=0", &s.even_field, NULL), 0);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reader, &s), 0);
    do
        write_some(&s);
    while (atomic_load(&s.passes) < 2 * READERS);
    atomic_store(&s.done, true);
    for (int i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&s.broken), 0);

    // Nothing is left of the old versions.
    store_relist_begin(s.store);
    store_relist_sweep(s.store, NULL, NULL);
    assert_int_equal(store_count(s.store), 0);
    assert_true(store_bytes(s.store) < empty + 100); // the name of the label index
    store_unref(s.store);
    store_clock_free(s.clock);
    selector_free(s.even);
    field_selector_free(s.even_field);
}

// The last reference may go on a reader's thread while a snapshot is being released on another.
static void *drop(void *ud)
{
    struct shared *s = ud;
    for (int i = 0; i < 200; i++) {
        uint64_t revision = store_snapshot(s->clock);
        struct store *mine = store_new(s->clock, gvk_parse("v1/Pod", NULL));
        store_unref(store_ref(mine));
        store_snapshot_release(s->clock, revision);
        store_unref(mine);
    }
    return NULL;
}

static void test_stores_go_from_any_thread(void **state)
{
    (void)state;
    pthread_t threads[READERS];
    struct shared s = {.clock = store_clock_new()};
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, drop, &s), 0);
    for (int i = 0; i < READERS; i++)
        pthread_join(threads[i], NULL);
    store_clock_free(s.clock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_snapshots_stand_still),
        cmocka_unit_test(test_stores_go_from_any_thread),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
