// ctest-labels: thread
#include "kube/schemas.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "openapi.h"
#include "support/fake_transport.h"

struct world {
    struct clock *clock;
    struct loop *loop;
    struct fake_transport *fake;
    struct client *client;
    struct schemas *s;
    int changes;
};

static void on_change(void *ud)
{
    ((struct world *)ud)->changes++;
}

static struct world *world_new(void)
{
    struct world *w = xcalloc(1, sizeof(*w));
    w->clock = clock_virtual_new(0);
    w->loop = loop_new(w->clock);
    w->fake = fake_transport_new(w->loop);
    w->client = client_new_with(w->loop, fake_transport_get(w->fake), NULL);
    w->s = schemas_new(w->client, on_change, w);
    return w;
}

static void world_free(struct world *w)
{
    schemas_free(w->s);
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
    char *text = unquote(body);
    fake_answer(w->fake, METHOD_GET, path, status, text);
    free(text);
}

static enum schemas_answer find(struct world *w, const char *kind)
{
    struct schema *schema = NULL;
    const struct schema_node *node = NULL;
    enum schemas_answer a = schemas_find(w->s, gvk_parse(kind, NULL), &schema, &node);
    assert_int_equal(a == SCHEMAS_FOUND, node != NULL);
    schema_unref(schema);
    return a;
}

#define INDEX(core, custom)                                                                                  \
    "{'paths':{'api/v1':{'serverRelativeURL':'/openapi/v3/api/v1?hash=" core                                 \
    "'},'apis/x.test/v1':{'serverRelativeURL':'/openapi/v3/apis/x.test/v1?hash=" custom "'}}}"

static void test_found(void **state)
{
    (void)state;
    struct world *w = world_new();
    answer(w, "/openapi/v3", 200, INDEX("A", "B"));
    answer(w, "/openapi/v3/api/v1?hash=A", 200, openapi_core);
    assert_int_equal(find(w, "v1/Pod"), SCHEMAS_NOT_YET);
    assert_int_equal(find(w, "v1/Pod"), SCHEMAS_NOT_YET);
    assert_int_equal(fake_request_count(w->fake), 0); // a worker asked
    uint64_t before = schemas_sequence(w->s);
    run(w, 100);
    assert_int_equal(find(w, "v1/Pod"), SCHEMAS_FOUND);
    assert_int_equal(find(w, "v1/Secret"), SCHEMAS_FOUND);
    assert_int_equal(find(w, "v1/Widget"), SCHEMAS_NONE);
    assert_int_equal(w->changes, 1);
    assert_true(schemas_sequence(w->s) != before);
    assert_int_equal(fake_request_count(w->fake), 2);
    assert_true(schemas_bytes(w->s) > 1000);

    answer(w, "/openapi/v3", 200, INDEX("A", "B"));
    answer(w, "/openapi/v3/apis/x.test/v1?hash=B", 200, openapi_custom);
    assert_int_equal(find(w, "x.test/v1/Widget"), SCHEMAS_NOT_YET);
    run(w, 100);
    assert_int_equal(find(w, "x.test/v1/Widget"), SCHEMAS_FOUND);
    assert_int_equal(fake_request_count(w->fake), 4); // the other has the same hash
    assert_int_equal(fake_unmatched(w->fake), 0);
    world_free(w);
}

static void test_changed(void **state)
{
    (void)state;
    struct world *w = world_new();
    schemas_refresh(w->s); // nobody asked for anything
    run(w, 10);
    assert_int_equal(fake_request_count(w->fake), 0);
    answer(w, "/openapi/v3", 200, INDEX("A", "B"));
    answer(w, "?hash=B", 200, "{'components':{'schemas':{}}}");
    find(w, "x.test/v1/Widget");
    run(w, 100);
    assert_int_equal(find(w, "x.test/v1/Widget"), SCHEMAS_NONE);
    answer(w, "/openapi/v3", 200, INDEX("A", "C"));
    answer(w, "?hash=C", 200, openapi_custom);
    schemas_refresh(w->s);
    schemas_refresh(w->s);
    answer(w, "/openapi/v3", 200, INDEX("A", "C")); // for the second
    run(w, 100);
    assert_int_equal(find(w, "x.test/v1/Widget"), SCHEMAS_FOUND);
    // While a new one comes, and when it can not be had, the old one counts.
    answer(w, "/openapi/v3", 200, INDEX("A", "D"));
    answer(w, "?hash=D", 500, "{}");
    schemas_refresh(w->s);
    assert_int_equal(find(w, "x.test/v1/Widget"), SCHEMAS_FOUND);
    run(w, 100);
    assert_int_equal(find(w, "x.test/v1/Widget"), SCHEMAS_FOUND);
    // 30 s later it is tried again.
    answer(w, "/openapi/v3", 200, INDEX("A", "D"));
    answer(w, "?hash=D", 200, openapi_custom);
    run(w, 31000);
    assert_int_equal(fake_request_count_of(w->fake, METHOD_GET, "?hash=D"), 2);
    // A kind's group that goes takes its schema with it.
    answer(w, "/openapi/v3", 200, "{'paths':{}}");
    schemas_refresh(w->s);
    run(w, 100);
    assert_int_equal(find(w, "x.test/v1/Widget"), SCHEMAS_NONE);
    assert_int_equal(fake_unmatched(w->fake), 0);
    world_free(w);
}

// A server whose document of a kind can change.
struct widget_server {
    const char *hash;
    uint64_t delay_ms; // of documents
    char *text, *custom;
    unsigned indexes;
};

static bool serve_widgets(void *ud, const struct fake_request *r, struct fake_reply *ret)
{
    struct widget_server *v = ud;
    bool index = strcmp(r->path, "/openapi/v3") == 0;
    v->indexes += index;
    free(v->text);
    v->text = xasprintf("{\"paths\":{\"apis/x.test/v1\":{\"serverRelativeURL\":\"/openapi/v3/x?hash=%s\"}}}",
                        v->hash);
    *ret = (struct fake_reply){
        .status = 200, .body = index ? v->text : v->custom, .delay_ms = index ? 0 : v->delay_ms};
    return true;
}

static bool sure(struct world *w, const char *what)
{
    return schemas_sure(w->s, gvk_parse("x.test/v1/Widget", NULL), what);
}

// A document that refuses something is looked at again, twice: that of a kind that changed comes late.
static void test_sure(void **state)
{
    (void)state;
    struct world *w = world_new();
    struct widget_server v = {.hash = "A", .custom = unquote(openapi_custom)};
    fake_on_request(w->fake, serve_widgets, &v);
    assert_true(sure(w, "x")); // nothing is known of it that could be wrong
    find(w, "x.test/v1/Widget");
    run(w, 100);
    assert_int_equal(v.indexes, 1);
    uint64_t before = schemas_sequence(w->s);
    int changes = w->changes;
    for (int i = 0; i < 3; i++) { // however many ask
        assert_false(sure(w, "x"));
        run(w, 100);
    }
    assert_int_equal(v.indexes, 2);
    assert_true(schemas_sequence(w->s) == before);
    assert_false(sure(w, "y")); // this came later
    run(w, 2000);
    assert_true(sure(w, "x"));
    assert_false(sure(w, "y"));
    assert_true(schemas_sequence(w->s) != before);
    assert_int_equal(w->changes, changes + 1);
    run(w, 2000);
    assert_true(sure(w, "x"));
    assert_true(sure(w, "y"));
    unsigned indexes = v.indexes;
    run(w, 50000);
    assert_true(sure(w, "x"));
    assert_int_equal(v.indexes, indexes);
    run(w, 10000);
    assert_false(sure(w, "x")); // a minute later it is another question
    run(w, 1000);
    v.hash = "B"; // it has changed, and is told of now
    v.delay_ms = 3000;
    run(w, 2000);
    assert_false(sure(w, "x"));
    changes = w->changes;
    run(w, 3000);
    assert_int_equal(w->changes, changes + 1); // that what was refused is to be looked at again
    assert_int_equal(fake_request_count_of(w->fake, METHOD_GET, "?hash=B"), 1);
    assert_false(sure(w, "x")); // nothing is known of the new one
    free(v.text);
    free(v.custom);
    world_free(w);
}

// A new kind's document comes a little after the kind: it is looked for soon, and less and less often.
static void test_late(void **state)
{
    (void)state;
    struct world *w = world_new();
    fake_reply(w->fake, &(struct fake_reply){
                            .method = METHOD_GET, .status = 200, .body = "{\"paths\":{}}", .times = 3});
    find(w, "x.test/v1/Widget");
    run(w, 100);
    assert_int_equal(find(w, "x.test/v1/Widget"), SCHEMAS_NONE);
    run(w, 2000);
    assert_int_equal(fake_request_count(w->fake), 2);
    run(w, 2000);
    assert_int_equal(fake_request_count(w->fake), 2);
    run(w, 2000);
    assert_int_equal(fake_request_count(w->fake), 3);
    answer(w, "/openapi/v3", 200, INDEX("A", "B"));
    answer(w, "?hash=B", 200, openapi_custom);
    run(w, 8000);
    assert_int_equal(find(w, "x.test/v1/Widget"), SCHEMAS_FOUND);
    assert_int_equal(fake_request_count(w->fake), 5);
    // Then somebody's writes are refused: perhaps the schema is old.
    answer(w, "/openapi/v3", 200, INDEX("A", "B"));
    run(w, 10000);
    schemas_doubt(w->s);
    schemas_doubt(w->s);
    run(w, 100);
    schemas_doubt(w->s);
    run(w, 100);
    assert_int_equal(fake_request_count(w->fake), 6);
    world_free(w);
}

static void test_not_served(void **state)
{
    (void)state;
    static const int statuses[] = {404, 403, 500, 0};
    for (size_t i = 0; i < sizeof(statuses) / sizeof(*statuses); i++) {
        struct world *w = world_new();
        fake_reply(w->fake, &(struct fake_reply){
                                .method = METHOD_GET, .status = statuses[i], .body = "{}", .times = -1});
        assert_int_equal(find(w, "v1/Pod"), SCHEMAS_NOT_YET);
        run(w, 100);
        assert_int_equal(find(w, "v1/Pod"), SCHEMAS_NONE);
        assert_int_equal(w->changes, 1); // whoever waits goes on
        size_t n = fake_request_count(w->fake);
        run(w, 40000);
        assert_int_equal(fake_request_count(w->fake) - n, statuses[i] == 404 ? 0 : 1);
        world_free(w);
    }
}

static void test_odd_answers(void **state)
{
    (void)state;
    static const char *const indexes[] = {"[]", "{'paths':7}", "{'paths':{'api/v1':{'serverRelativeURL':7}}}",
                                          "{'paths':{'api/v1':{'serverRelativeURL':'http://elsewhere/x'}}}"};
    for (size_t i = 0; i < sizeof(indexes) / sizeof(*indexes); i++) {
        struct world *w = world_new();
        answer(w, "/openapi/v3", 200, indexes[i]);
        find(w, "v1/Pod");
        run(w, 100);
        assert_int_equal(find(w, "v1/Pod"), SCHEMAS_NONE);
        world_free(w);
    }
    static const char *const documents[] = {"", "{", "null", "{'components':7}"};
    for (size_t i = 0; i < sizeof(documents) / sizeof(*documents); i++) {
        struct world *w = world_new();
        answer(w, "/openapi/v3", 200, INDEX("A", "B"));
        answer(w, "?hash=A", 200, documents[i]);
        find(w, "v1/Pod");
        run(w, 100);
        assert_int_equal(find(w, "v1/Pod"), SCHEMAS_NONE);
        world_free(w);
    }
}

static void test_freed_on_the_way(void **state)
{
    (void)state;
    for (uint64_t ms = 0; ms < 60; ms += 5) {
        struct world *w = world_new();
        fake_reply(w->fake, &(struct fake_reply){.method = METHOD_GET,
                                                 .path_part = "/openapi/v3",
                                                 .status = 200,
                                                 .body = "{\"paths\":{}}",
                                                 .delay_ms = 20});
        find(w, "v1/Pod");
        find(w, "apps/v1/Deployment");
        run(w, ms);
        world_free(w);
    }
}

// ---- on a real loop: the document is compiled by a thread, others ask meanwhile

struct real {
    struct loop *loop;
    struct schemas *s;
    struct loop_timer *poll;
};

static void *ask(void *arg)
{
    struct real *r = arg;
    for (int i = 0; i < 20000; i++) {
        struct schema *schema = NULL;
        const struct schema_node *node;
        const char *kind = i % 2 == 0 ? "v1/Pod" : "x.test/v1/Widget";
        if (schemas_find(r->s, gvk_parse(kind, NULL), &schema, &node) == SCHEMAS_FOUND)
            assert_int_equal(node->type, SCHEMA_OBJECT);
        schema_unref(schema);
    }
    return NULL;
}

static bool serve(void *ud, const struct fake_request *q, struct fake_reply *ret)
{
    char **texts = ud;
    *ret = (struct fake_reply){.status = 200,
                               .body = strstr(q->path, "hash=A") != NULL   ? texts[1]
                                       : strstr(q->path, "hash=B") != NULL ? texts[2]
                                                                           : texts[0]};
    return true;
}

static void look(void *ud)
{
    struct real *r = ud;
    struct schema *schema = NULL;
    const struct schema_node *node;
    schemas_refresh(r->s);
    if (schemas_find(r->s, gvk_parse("v1/Pod", NULL), &schema, &node) == SCHEMAS_FOUND) {
        schema_unref(schema);
        if (schemas_find(r->s, gvk_parse("x.test/v1/Widget", NULL), &schema, &node) == SCHEMAS_FOUND) {
            schema_unref(schema);
            loop_stop(r->loop);
            return;
        }
    }
    loop_timer_start(r->poll, 1);
}

static void nothing(void *ud)
{
    (void)ud;
}

static void test_threads(void **state)
{
    (void)state;
    char *texts[3] = {unquote(INDEX("A", "B")), unquote(openapi_core), unquote(openapi_custom)};
    struct real r = {.loop = loop_new(clock_real())};
    struct fake_transport *fake = fake_transport_new(r.loop);
    struct client *client = client_new_with(r.loop, fake_transport_get(fake), NULL);
    fake_on_request(fake, serve, texts);
    r.s = schemas_new(client, nothing, NULL);
    r.poll = loop_timer_new(r.loop, look, &r);
    loop_timer_start(r.poll, 0);
    pthread_t threads[2];
    for (int i = 0; i < 2; i++)
        pthread_create(&threads[i], NULL, ask, &r);
    loop_run(r.loop);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    loop_timer_free(r.poll);
    schemas_free(r.s);
    client_free(client);
    fake_transport_free(fake);
    loop_free(r.loop);
    for (int i = 0; i < 3; i++)
        free(texts[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_found),
        cmocka_unit_test(test_changed),
        cmocka_unit_test(test_sure),
        cmocka_unit_test(test_late),
        cmocka_unit_test(test_not_served),
        cmocka_unit_test(test_odd_answers),
        cmocka_unit_test(test_freed_on_the_way),
        cmocka_unit_test(test_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
