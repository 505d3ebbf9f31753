// The host's own client, discovery and reflector over the embedded server.
#include "apiserver/kit.h"
#include "kube/client.h"
#include "kube/discovery.h"
#include "kube/watch.h"

struct seen {
    struct buf text;
};

static void on_event(void *ud, const struct watch_event *ev)
{
    static const char *const names[] = {"INIT", "INIT_APPLY", "INIT_DONE", "APPLY", "DELETE", "ERROR"};
    struct seen *s = ud;
    buf_addf(&s->text, "%s %s\n", names[ev->kind], ev->object == NULL ? "-" : object_name(ev->object));
}

static void run(struct kit *k, uint64_t ms)
{
    loop_run_until(k->loop, loop_now_ms(k->loop) + ms);
}

static void expect(struct seen *s, const char *wanted)
{
    assert_string_equal(s->text.data == NULL ? "" : s->text.data, wanted);
    buf_reset(&s->text);
}

static void apply_widget(struct kit *k, const char *name, int num)
{
    char *body = xasprintf(
        "{\"apiVersion\":\"x.test/v1\",\"kind\":\"Widget\",\"metadata\":{\"name\":\"%s\"},\"spec\":{"
        "\"num\":%d}}",
        name, num);
    int status = apiserver_apply_json(k->server, "m", body, NULL);
    assert_true(status == 200 || status == 201);
    free(body);
}

static void watch_widgets(void **state, bool no_watch_list)
{
    struct kit *k = *state;
    struct client *c = client_new_with(k->loop, apiserver_transport(k->server, "tidelock"), NULL);
    struct discovery *d = discovery_new(c);
    struct seen s;
    struct resource widgets;
    buf_init(&s.text, 1 << 20);
    discovery_refresh(d);
    run(k, 1000);
    assert_int_equal(discovery_find(d, gvk_parse("x.test/v1/Widget", NULL), &widgets), DISCOVERY_FOUND);
    assert_true(widgets.namespaced && widgets.has_status);
    apply_widget(k, "a", 1);
    apply_widget(k, "b", 1);
    struct watch_options o = {
        .client = c,
        .resource = widgets,
        .as = &identity_host,
        .seed = 1,
        .page_size = 1,
        .no_watch_list = no_watch_list,
        .on_event = on_event,
        .ud = &s,
    };
    struct watch *w = watch_new(&o);
    watch_start(w);
    run(k, 1000);
    expect(&s, "INIT -\nINIT_APPLY a\nINIT_APPLY b\nINIT_DONE -\n");
    apply_widget(k, "a", 2);
    kit_expect(k, 200, "DELETE", WIDGETS "/b", NULL, NULL);
    run(k, 1000);
    expect(&s, "APPLY a\nDELETE b\n");
    apiserver_close_watches(k->server); // an orderly end: it resumes
    apply_widget(k, "c", 1);
    run(k, 120000);
    expect(&s, "APPLY c\n");
    apiserver_close_watches(k->server);
    apply_widget(k, "c", 2);
    apiserver_compact(k->server); // the past is gone: it lists again
    run(k, 120000);
    assert_non_null(strstr(s.text.data, "INIT -\nINIT_APPLY a\nINIT_APPLY c\nINIT_DONE -\n"));
    watch_free(w);
    discovery_free(d);
    client_free(c);
    buf_fini(&s.text);
}

static void test_reflector(void **state)
{
    watch_widgets(state, false);
}

static void test_reflector_with_pages(void **state)
{
    watch_widgets(state, true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        KIT_TEST(test_reflector),
        KIT_TEST(test_reflector_with_pages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
