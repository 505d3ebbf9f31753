// ctest-labels: thread
// The set of informers against a simulated server: scopes that cover others, widening, refusals, kinds that
// come and go.
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

#include "base/buf.h"
#include "base/clock.h"
#include "kube/informers.h"
#include "support/fake_transport.h"

struct fixture {
    struct clock *clock;
    struct loop *loop;
    struct fake_transport *fake;
    struct client *client;
    struct discovery *discovery;
    struct store_clock *revisions;
    struct metrics *metrics;
    struct strset namespaces;
    struct informers *set;
    struct buf answer;
    bool no_widgets;          // the kind is not served
    bool cluster_widgets;     // it is cluster-scoped
    bool no_answers;          // discovery fails
    const char *bad_field;    // is answered with 400
    const char *forbidden[4]; // parts of paths that are answered with 403
    uint64_t slow_ms;         // of lists over the whole cluster
    size_t changes, states;
    struct informer *last_state;
    enum informer_answer last_answer;
};

// Every namespace has the widgets o0..o9.
static void add_widget(struct buf *out, const char *ns, const char *name)
{
    buf_addf(out,
             "{\"type\":\"ADDED\",\"object\":{\"metadata\":{\"name\":\"%s\",\"namespace\":\"%s\",\"uid\":\"%"
             "s/%s\","
             "\"resourceVersion\":\"5\"}}}\n",
             name, ns, ns, name);
}

static void add_namespace(struct buf *out, const char *ns, const char *path)
{
    for (int i = 0; i < 10; i++) {
        char name[16], wanted[40];
        snprintf(name, sizeof(name), "o%d", i);
        snprintf(wanted, sizeof(wanted), "metadata.name%%3D%s", name);
        if (strstr(path, "fieldSelector") == NULL || strstr(path, wanted) != NULL)
            add_widget(out, ns, name);
    }
}

static void answer_stream(struct fixture *f, const char *path)
{
    const char *at = strstr(path, "/namespaces/");
    char ns[32] = "";
    if (at != NULL) {
        sscanf(at, "/namespaces/%31[^/]", ns);
        add_namespace(&f->answer, ns, path);
    } else {
        for (int i = 0; i < 8; i++) {
            snprintf(ns, sizeof(ns), "n%d", i);
            add_namespace(&f->answer, ns, path);
        }
    }
    buf_add_str(&f->answer, "{\"type\":\"BOOKMARK\",\"object\":{\"metadata\":{\"resourceVersion\":\"100\","
                            "\"annotations\":{\"k8s.io/initial-events-end\":\"true\"}}}}\n");
}

#define KIND(plural, kind, scope, verbs)                                                                     \
    "{\"resource\":\"" plural "\",\"responseKind\":{\"group\":\"\",\"version\":\"\",\"kind\":\"" kind        \
    "\"},\"scope\":\"" scope "\",\"verbs\":[" verbs "]}"
#define ALL "\"get\",\"list\",\"watch\""

static void answer_discovery(struct fixture *f, const char *path)
{
    buf_add_str(&f->answer,
                "{\"kind\":\"APIGroupDiscoveryList\",\"apiVersion\":\"apidiscovery.k8s.io/v2\",\"items\":[");
    if (strncmp(path, "/apis", 5) == 0)
        buf_addf(&f->answer,
                 "{\"metadata\":{\"name\":\"x.test\"},\"versions\":[{\"version\":\"v1\",\"freshness\":"
                 "\"Current\",\"resources\":[%s%s]}]}",
                 f->no_widgets        ? ""
                 : f->cluster_widgets ? KIND("widgets", "Widget", "Cluster", ALL) ","
                                      : KIND("widgets", "Widget", "Namespaced", ALL) ",",
                 KIND("planets", "Planet", "Cluster", ALL) "," KIND("reviews", "Review", "Namespaced",
                                                                    "\"create\""));
    buf_add_str(&f->answer, "]}");
}

static bool serve(void *ud, const struct fake_request *r, struct fake_reply *ret)
{
    struct fixture *f = ud;
    buf_reset(&f->answer);
    *ret = (struct fake_reply){.status = 200};
    bool discovery = strcmp(r->path, "/api") == 0 || strcmp(r->path, "/apis") == 0;
    for (size_t i = 0; i < 4; i++) {
        if (!discovery && f->forbidden[i] != NULL && strstr(r->path, f->forbidden[i]) != NULL)
            ret->status = 403;
    }
    if (f->bad_field != NULL && strstr(r->path, f->bad_field) != NULL)
        ret->status = 400;
    if (discovery && f->no_answers)
        ret->status = 503;
    if (ret->status != 200)
        buf_add_str(&f->answer, "{\"kind\":\"Status\",\"status\":\"Failure\",\"message\":\"no\"}");
    else if (discovery)
        answer_discovery(f, r->path);
    else if (f->no_widgets && strstr(r->path, "widgets") != NULL)
        ret->status = 404;
    else if (strstr(r->path, "sendInitialEvents") != NULL)
        answer_stream(f, r->path);
    ret->body = f->answer.data != NULL ? f->answer.data : "";
    ret->body_len = f->answer.len;
    if (!discovery && strstr(r->path, "/namespaces/") == NULL)
        ret->delay_ms = f->slow_ms;
    return true;
}

static void on_change(void *ud, struct informer *i, struct object *old, struct object *new, uint64_t revision)
{
    struct fixture *f = ud;
    (void)old, (void)new;
    assert_true(revision > 0);
    assert_non_null(informer_store(i));
    f->changes++;
}

static void on_state(void *ud, struct informer *i)
{
    struct fixture *f = ud;
    f->states++;
    f->last_state = i;
    f->last_answer = informer_state(i, NULL);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof(*f));
    f->clock = clock_virtual_new(1767225600000);
    f->loop = loop_new(f->clock);
    f->fake = fake_transport_new(f->loop);
    f->client = client_new_with(f->loop, fake_transport_get(f->fake), NULL);
    f->discovery = discovery_new(f->client);
    f->revisions = store_clock_new();
    f->metrics = metrics_new();
    strset_init(&f->namespaces);
    buf_init(&f->answer, 1 << 20);
    fake_on_request(f->fake, serve, f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    informers_free(f->set);
    discovery_free(f->discovery);
    client_free(f->client);
    fake_transport_free(f->fake);
    store_clock_free(f->revisions);
    metrics_free(f->metrics);
    strset_fini(&f->namespaces);
    buf_fini(&f->answer);
    loop_free(f->loop);
    clock_free(f->clock);
    free(f);
    return 0;
}

static void run(struct fixture *f, uint64_t ms)
{
    loop_run_until(f->loop, loop_now_ms(f->loop) + ms);
}

static void start(struct fixture *f)
{
    f->set = informers_new(&(struct informers_options){
        .client = f->client,
        .discovery = f->discovery,
        .clock = f->revisions,
        .metrics = f->metrics,
        .namespaces = &f->namespaces,
        .seed = 3,
        .on_change = on_change,
        .on_state = on_state,
        .ud = f,
    });
    discovery_refresh(f->discovery);
    run(f, 10);
}

static const struct gvk *widget(void)
{
    return gvk_parse("x.test/v1/Widget", NULL);
}

static struct informer_scope scope_of(const char *ns, const char *name)
{
    return (struct informer_scope){.gvk = widget(), .ns = ns, .name = name};
}

static struct informer_use *acquire(struct fixture *f, const char *ns, const char *name)
{
    struct informer_scope scope = scope_of(ns, name);
    return informers_acquire(f->set, &scope, &identity_host);
}

static enum informer_answer find(struct fixture *f, const char *ns, const char *name, size_t *ret_count)
{
    struct informer_scope scope = scope_of(ns, name);
    struct store *s = NULL;
    struct err e = {0};
    enum informer_answer a = informers_find(f->set, &scope, &s, &e);
    if (a == INFORMER_SYNCED)
        *ret_count = store_count(s);
    else
        assert_true(s == NULL && e.text[0] != 0);
    store_unref(s);
    return a;
}

static void count_one(void *ud, struct informer *i)
{
    (void)i;
    ++*(size_t *)ud;
}

static size_t informers(struct fixture *f)
{
    size_t n = 0;
    informers_each(f->set, count_one, &n);
    return n;
}

static size_t asked(struct fixture *f, const char *part)
{
    return fake_request_count_of(f->fake, METHOD_GET, part);
}

static void test_object_and_namespace(void **state)
{
    struct fixture *f = *state;
    size_t n = 0;
    start(f);
    assert_int_equal(find(f, "n1", "o1", &n), INFORMER_SYNCING);
    struct informer_use *u = acquire(f, "n1", "o1");
    assert_int_equal(informer_use_state(u, NULL), INFORMER_SYNCING);
    assert_false(informers_all_synced(f->set));
    run(f, 100);
    assert_int_equal(informer_use_state(u, NULL), INFORMER_SYNCED);
    assert_true(informers_all_synced(f->set));
    assert_int_equal(find(f, "n1", "o1", &n), INFORMER_SYNCED);
    assert_int_equal(n, 1);
    assert_int_equal(f->changes, 1);
    assert_int_equal(f->states, 1);
    // Wider: another informer, to which the narrower one's users move.
    assert_int_equal(find(f, "n1", NULL, &n), INFORMER_SYNCING);
    struct informer_use *wide = acquire(f, "n1", NULL);
    run(f, 100);
    assert_ptr_equal(informer_use_get(u), informer_use_get(wide));
    assert_int_equal(informers(f), 1);
    assert_int_equal(find(f, "n1", "o1", &n), INFORMER_SYNCED);
    assert_int_equal(n, 10);
    // Narrower: served by what is there.
    struct informer_use *again = acquire(f, "n1", "o2");
    assert_ptr_equal(informer_use_get(again), informer_use_get(wide));
    assert_int_equal(asked(f, "widgets"), 2);
    informer_use_release(u);
    informer_use_release(wide);
    informer_use_release(again);
    run(f, 59000);
    assert_int_equal(informers(f), 1);
    u = acquire(f, "n1", NULL); // in time
    assert_int_equal(informer_use_state(u, NULL), INFORMER_SYNCED);
    run(f, 70000);
    assert_int_equal(informers(f), 1);
    informer_use_release(u);
    run(f, 61000);
    assert_int_equal(informers(f), 0);
    assert_int_equal(fake_under_way(f->fake), 0);
}

static void test_labels_are_kept_apart_until_a_wider_read(void **state)
{
    struct fixture *f = *state;
    start(f);
    struct informer_scope scope = {.gvk = widget(), .labels = "a=b"};
    struct informer_use *children = informers_acquire(f->set, &scope, &identity_host);
    struct informer_use *object = acquire(f, "n1", "o1");
    run(f, 100);
    assert_int_equal(informers(f), 2);
    assert_int_equal(asked(f, "labelSelector=a%3Db"), 1);
    struct informer_use *all = acquire(f, NULL, NULL);
    run(f, 100);
    assert_int_equal(informers(f), 1);
    assert_ptr_equal(informer_use_get(children), informer_use_get(all));
    // Another identity has informers of its own.
    scope = scope_of("n1", NULL);
    struct informer_use *other =
        informers_acquire(f->set, &scope, &(struct identity){.user = "system:serviceaccount:a:b"});
    run(f, 100);
    assert_int_equal(informers(f), 2);
    assert_string_equal(fake_request_last(f->fake)->as_user, "system:serviceaccount:a:b");
    informer_use_release(children);
    informer_use_release(object);
    informer_use_release(all);
    informer_use_release(other);
}

static void test_field_selectors(void **state)
{
    struct fixture *f = *state;
    start(f);
    struct informer_scope scope = {.gvk = widget(), .ns = "n1", .fields = "spec.size=1"};
    struct informer_use *some = informers_acquire(f->set, &scope, &identity_host);
    run(f, 100);
    assert_int_equal(asked(f, "fieldSelector=spec.size%3D1"), 1);
    assert_int_equal(informer_use_state(some, NULL), INFORMER_SYNCED);
    struct informer_use *all = acquire(f, "n1", NULL); // not served by the narrower one
    run(f, 100);
    assert_int_equal(informers(f), 1);
    assert_ptr_equal(informer_use_get(some), informer_use_get(all));
    informer_use_release(some);
    informer_use_release(all);
    // One of a name and of fields at once.
    scope = (struct informer_scope){.gvk = widget(), .ns = "n2", .name = "o1", .fields = "spec.size=1"};
    some = informers_acquire(f->set, &scope, &identity_host);
    run(f, 100);
    assert_int_equal(asked(f, "fieldSelector=metadata.name%3Do1%2Cspec.size%3D1"), 1);
    informer_use_release(some);
    // Most fields can not be selected by.
    struct err e;
    f->bad_field = "spec.color";
    scope = (struct informer_scope){.gvk = widget(), .ns = "n3", .fields = "spec.color=red"};
    some = informers_acquire(f->set, &scope, &identity_host);
    run(f, 5000);
    assert_int_equal(informer_use_state(some, &e), INFORMER_UNAVAILABLE);
    assert_non_null(strstr(e.text, "no"));
    informer_use_release(some);
}

static void test_widening(void **state)
{
    struct fixture *f = *state;
    struct informer_use *u[24];
    size_t count = 0;
    char name[16];
    start(f);
    for (int i = 0; i < 4; i++) {
        snprintf(name, sizeof(name), "o%d", i);
        u[count++] = acquire(f, "n0", name);
        run(f, 10);
    }
    assert_int_equal(informers(f), 4);
    u[count++] = acquire(f, "n0", "o4"); // the fifth: the namespace's
    assert_null(informer_scope(informer_use_get(u[4]))->name);
    assert_int_equal(informer_use_state(u[0], NULL), INFORMER_SYNCED); // not before it is synced
    assert_int_equal(informers(f), 5);
    run(f, 10);
    assert_int_equal(informers(f), 1);
    assert_ptr_equal(informer_use_get(u[0]), informer_use_get(u[4]));
    for (int i = 1; i < 4; i++) {
        snprintf(name, sizeof(name), "n%d", i);
        u[count++] = acquire(f, name, NULL);
        run(f, 10);
    }
    assert_int_equal(informers(f), 4);
    u[count++] = acquire(f, "n5", NULL); // the fifth: the cluster's
    run(f, 10);
    assert_int_equal(informers(f), 1);
    for (size_t i = 0; i < count; i++) {
        assert_null(informer_scope(informer_use_get(u[i]))->ns);
        informer_use_release(u[i]);
    }
}

static void test_objects_in_many_namespaces(void **state)
{
    struct fixture *f = *state;
    struct informer_use *u[17];
    char ns[16];
    start(f);
    for (int i = 0; i < 17; i++) {
        snprintf(ns, sizeof(ns), "m%d", i);
        u[i] = acquire(f, ns, "o1");
        run(f, 10);
    }
    assert_int_equal(informers(f), 1);
    for (int i = 0; i < 17; i++)
        informer_use_release(u[i]);
}

static void test_no_gap_while_widening(void **state)
{
    struct fixture *f = *state;
    size_t n = 0;
    start(f);
    struct informer_use *narrow = acquire(f, "n1", NULL);
    run(f, 10);
    f->slow_ms = 5000;
    struct informer_use *wide = acquire(f, NULL, NULL);
    for (int i = 0; i < 60; i++) {
        run(f, 100);
        assert_int_equal(find(f, "n1", NULL, &n), INFORMER_SYNCED);
        assert_int_equal(informer_use_state(narrow, NULL), INFORMER_SYNCED);
    }
    assert_int_equal(n, 80);
    informer_use_release(narrow);
    informer_use_release(wide);
}

// A pass that began before an informer was synced must not take its store for the whole truth.
static void test_snapshots_from_before_the_sync(void **state)
{
    struct fixture *f = *state;
    struct informer_scope scope = scope_of("n1", NULL);
    struct store *s = NULL;
    start(f);
    uint64_t before = store_snapshot(f->revisions);
    struct informer_use *u = acquire(f, "n1", NULL);
    run(f, 10);
    uint64_t after = store_snapshot(f->revisions);
    assert_int_equal(informers_find_at(f->set, &scope, before, &s, NULL), INFORMER_SYNCING);
    assert_null(s);
    assert_int_equal(informers_find_at(f->set, &scope, after, &s, NULL), INFORMER_SYNCED);
    store_unref(s);
    // The wider one that takes over is not complete for `after`, either.
    struct informer_use *wide = acquire(f, NULL, NULL);
    run(f, 10);
    assert_int_equal(informers_find_at(f->set, &scope, after, &s, NULL), INFORMER_SYNCING);
    assert_int_equal(informers_find_at(f->set, &scope, store_clock_now(f->revisions), &s, NULL),
                     INFORMER_SYNCED);
    store_unref(s);
    store_snapshot_release(f->revisions, before);
    store_snapshot_release(f->revisions, after);
    informer_use_release(u);
    informer_use_release(wide);
}

static void test_forbidden(void **state)
{
    struct fixture *f = *state;
    size_t n = 0;
    start(f);
    f->forbidden[0] = "/v1/widgets?"; // the whole cluster
    struct informer_use *all = acquire(f, NULL, NULL);
    struct informer_use *mine = acquire(f, "n1", NULL); // served by the wide one, until that is refused
    assert_ptr_equal(informer_use_get(mine), informer_use_get(all));
    run(f, 100);
    struct err e;
    assert_int_equal(informer_use_state(all, &e), INFORMER_FORBIDDEN);
    assert_non_null(strstr(e.text, "x.test/v1/Widget"));
    assert_int_equal(informer_use_state(mine, NULL), INFORMER_SYNCED);
    assert_int_equal(find(f, NULL, NULL, &n), INFORMER_FORBIDDEN);
    assert_int_equal(find(f, "n1", "o3", &n), INFORMER_SYNCED);
    assert_int_equal(find(f, "n2", NULL, &n), INFORMER_SYNCING);
    assert_true(informers_all_synced(f->set));
    f->forbidden[0] = NULL; // granted
    run(f, 40000);
    assert_int_equal(informer_use_state(all, NULL), INFORMER_SYNCED);
    assert_int_equal(informers(f), 1);
    informer_use_release(all);
    informer_use_release(mine);
}

static void test_widening_that_is_forbidden(void **state)
{
    struct fixture *f = *state;
    struct informer_use *u[7];
    char ns[16];
    start(f);
    f->forbidden[0] = "/v1/widgets?";
    for (int i = 0; i < 7; i++) {
        snprintf(ns, sizeof(ns), "n%d", i);
        u[i] = acquire(f, ns, NULL);
        run(f, 100);
    }
    assert_int_equal(informers(f), 7);
    assert_int_equal(asked(f, "/v1/widgets?"), 1); // not tried again
    for (int i = 0; i < 7; i++) {
        assert_int_equal(informer_use_state(u[i], NULL), INFORMER_SYNCED);
        informer_use_release(u[i]);
    }
}

static void test_confined_to_namespaces(void **state)
{
    struct fixture *f = *state;
    size_t n = 0;
    strset_add(&f->namespaces, "n1");
    strset_add(&f->namespaces, "n2");
    start(f);
    f->forbidden[0] = "/v1/widgets?";
    struct informer_use *all = acquire(f, NULL, NULL);
    assert_null(informer_use_get(all));
    assert_int_equal(informer_use_state(all, NULL), INFORMER_SYNCING);
    run(f, 100);
    assert_int_equal(informer_use_state(all, NULL), INFORMER_SYNCED);
    assert_int_equal(informers(f), 2);
    assert_int_equal(find(f, NULL, NULL, &n), INFORMER_UNAVAILABLE);
    assert_int_equal(find(f, "n2", NULL, &n), INFORMER_SYNCED);
    assert_int_equal(find(f, "n3", NULL, &n), INFORMER_FORBIDDEN);
    struct store **stores;
    struct informer_scope scope = scope_of(NULL, NULL);
    assert_int_equal(informers_find_all(f->set, &scope, UINT64_MAX, &stores, &n, NULL), INFORMER_SYNCED);
    assert_int_equal(n, 2);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(store_count(stores[i]), 10);
        store_unref(stores[i]);
    }
    free(stores);
    struct informer_use *outside = acquire(f, "n3", NULL);
    assert_int_equal(informer_use_state(outside, NULL), INFORMER_FORBIDDEN);
    // Five objects of one namespace: that namespace's; a cluster-scoped kind is no matter of namespaces.
    scope = (struct informer_scope){.gvk = gvk_parse("x.test/v1/Planet", NULL), .ns = "n1"};
    struct informer_use *planets = informers_acquire(f->set, &scope, &identity_host);
    run(f, 100);
    assert_int_equal(informer_use_state(planets, NULL), INFORMER_SYNCED);
    assert_null(informer_scope(informer_use_get(planets))->ns);
    assert_int_equal(informers_find_all(f->set, &scope, UINT64_MAX, &stores, &n, NULL), INFORMER_SYNCED);
    assert_int_equal(n, 1);
    store_unref(stores[0]);
    free(stores);
    assert_int_equal(asked(f, "/v1/widgets?"), 0);
    informer_use_release(planets);
    informer_use_release(outside);
    informer_use_release(all);
    run(f, 61000);
    assert_int_equal(informers(f), 0);
}

static void test_kind_that_comes_and_goes(void **state)
{
    struct fixture *f = *state;
    size_t n = 0;
    f->no_widgets = true;
    start(f);
    struct informer_use *u = acquire(f, "n1", NULL);
    assert_null(informer_use_get(u));
    assert_int_equal(informer_use_state(u, NULL), INFORMER_UNKNOWN_KIND);
    assert_int_equal(find(f, "n1", NULL, &n), INFORMER_UNKNOWN_KIND);
    assert_true(informers_all_synced(f->set));
    run(f, 1800000); // asked for all the time
    f->no_widgets = false;
    f->states = 0;
    run(f, 15000);
    assert_int_equal(informer_use_state(u, NULL), INFORMER_SYNCED);
    assert_int_equal(f->states, 2); // appeared, synced
    assert_int_equal(find(f, "n1", NULL, &n), INFORMER_SYNCED);

    f->no_widgets = true;
    fake_stream_end(fake_stream_last(f->fake));
    run(f, 30000);
    assert_int_equal(f->last_answer, INFORMER_UNKNOWN_KIND);
    assert_null(informer_use_get(u));
    assert_int_equal(informer_use_state(u, NULL), INFORMER_UNKNOWN_KIND);
    assert_int_equal(informers(f), 0);
    f->no_widgets = false;
    run(f, 15000);
    assert_int_equal(informer_use_state(u, NULL), INFORMER_SYNCED);
    informer_use_release(u);
}

static void test_kind_made_anew_with_another_scope(void **state)
{
    struct fixture *f = *state;
    start(f);
    struct informer_use *u = acquire(f, "n1", NULL);
    run(f, 100);
    f->cluster_widgets = true;
    discovery_refresh(f->discovery);
    run(f, 100);
    assert_int_equal(informer_use_state(u, NULL), INFORMER_SYNCED);
    assert_null(informer_scope(informer_use_get(u))->ns);
    assert_int_equal(informers(f), 1);
    informer_use_release(u);
}

static void test_kind_that_can_not_be_watched(void **state)
{
    struct fixture *f = *state;
    struct err e;
    start(f);
    struct informer_scope scope = {.gvk = gvk_parse("x.test/v1/Review", NULL), .ns = "n1"};
    struct informer_use *u = informers_acquire(f->set, &scope, &identity_host);
    assert_int_equal(informer_use_state(u, &e), INFORMER_UNAVAILABLE);
    assert_non_null(strstr(e.text, "can not be listed and watched"));
    informer_use_release(u);
}

static void test_before_discovery(void **state)
{
    struct fixture *f = *state;
    f->no_answers = true;
    start(f);
    struct informer_use *u = acquire(f, "n1", NULL);
    assert_int_equal(informer_use_state(u, NULL), INFORMER_SYNCING);
    assert_false(informers_all_synced(f->set));
    f->no_answers = false;
    run(f, 60000);
    assert_int_equal(informer_use_state(u, NULL), INFORMER_SYNCED);
    informer_use_release(u);
}

static void test_numbers(void **state)
{
    struct fixture *f = *state;
    struct buf out;
    start(f);
    struct informer_use *u = acquire(f, "n1", NULL);
    struct informer_use *v = acquire(f, "n2", NULL);
    run(f, 100);
    informer_relist(informer_use_get(u));
    run(f, 100);
    buf_init(&out, 1 << 20);
    metrics_render(f->metrics, &out);
    assert_non_null(strstr(out.data, "tidelock_store_objects{kind=\"x.test/v1/Widget\"} 20"));
    assert_non_null(strstr(out.data, "tidelock_watch_relists_total{kind=\"x.test/v1/Widget\"} 3"));
    assert_non_null(strstr(out.data, "tidelock_watch_events_total{kind=\"x.test/v1/Widget\"} 30"));
    assert_non_null(strstr(out.data, "tidelock_store_bytes{kind=\"x.test/v1/Widget\"}"));
    assert_int_equal(f->changes, 20); // the second list told nothing new
    buf_fini(&out);
    run(f, 20000);
    assert_in_range(informers_quiet_ms(f->set), 20000, 20300);
    informers_drain(f->set);
    assert_int_equal(fake_under_way(f->fake), 0);
    size_t n = 0;
    assert_int_equal(find(f, "n1", NULL, &n), INFORMER_SYNCED);
    assert_int_equal(n, 10);
    informer_use_release(u);
    informer_use_release(v);
}

struct reader {
    struct fixture *f;
    atomic_bool done;
    atomic_int found, parts;
};

// What is found synced is complete, whatever the loop thread does meanwhile.
static void *read_on(void *ud)
{
    struct reader *r = ud;
    struct fixture *f = r->f;
    struct informer_scope scope = scope_of("n1", NULL);
    while (!atomic_load(&r->done)) {
        struct store *s;
        struct object_list l;
        struct err e;
        uint64_t revision = store_snapshot(f->revisions);
        if (informers_find_at(f->set, &scope, revision, &s, &e) == INFORMER_SYNCED) {
            store_list(s, revision, &(struct store_query){.ns = "n1"}, &l);
            atomic_fetch_add(&r->found, 1);
            if (l.count != 10)
                atomic_fetch_add(&r->parts, 1);
            object_list_fini(&l);
            store_unref(s);
        }
        store_snapshot_release(f->revisions, revision);
    }
    return NULL;
}

static void test_readers_on_other_threads(void **state)
{
    struct fixture *f = *state;
    struct reader r = {.f = f};
    pthread_t threads[2];
    start(f);
    for (int i = 0; i < 2; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_on, &r), 0);
    for (int round = 0; round < 100 || atomic_load(&r.found) < 100; round++) {
        struct informer_use *narrow = acquire(f, "n1", NULL);
        run(f, 50);
        struct informer_use *wide = acquire(f, NULL, NULL);
        run(f, 50);
        informer_relist(informer_use_get(wide));
        run(f, 50);
        informer_use_release(narrow);
        informer_use_release(wide);
        run(f, 61000);
    }
    atomic_store(&r.done, true);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&r.parts), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_object_and_namespace),
        TEST(test_labels_are_kept_apart_until_a_wider_read),
        TEST(test_field_selectors),
        TEST(test_widening),
        TEST(test_objects_in_many_namespaces),
        TEST(test_no_gap_while_widening),
        TEST(test_snapshots_from_before_the_sync),
        TEST(test_forbidden),
        TEST(test_widening_that_is_forbidden),
        TEST(test_confined_to_namespaces),
        TEST(test_kind_that_comes_and_goes),
        TEST(test_kind_made_anew_with_another_scope),
        TEST(test_kind_that_can_not_be_watched),
        TEST(test_before_discovery),
        TEST(test_numbers),
        TEST(test_readers_on_other_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
