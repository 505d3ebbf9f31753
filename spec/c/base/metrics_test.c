// ctest-labels: thread
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "unit.h"

#include "base/metrics.h"

static const double bounds[] = {0.1, 1, 2.5};
static const struct metric_def requests = {
    "requests_total", "Requests by verb.", METRIC_COUNTER, "verb,code", NULL, 0};
static const struct metric_def depth = {
    "queue_depth", "Keys that wait,\nand \\ more.", METRIC_GAUGE, "", NULL, 0};
static const struct metric_def seconds = {
    "pass_seconds", "Length of a pass.", METRIC_HISTOGRAM, "script", bounds, 3};

static void assert_rendered(struct metrics *m, const char *expected)
{
    struct buf out;
    buf_init(&out, 1 << 20);
    metrics_render(m, &out);
    assert_false(out.failed);
    assert_string_equal(out.data != NULL ? out.data : "", expected);
    buf_fini(&out);
}

static void test_text(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    struct metric *r = metrics_add(m, &requests);
    struct metric *d = metrics_add(m, &depth);
    struct metric *s = metrics_add(m, &seconds);
    series_inc(metric_series(r, "put", "200"));
    series_add(metric_series(r, "get", "404"), 2.5);
    series_inc(metric_series(r, "get", NULL));
    series_set(metric_series(d), -1e20);
    struct series *h = metric_series(s, "a\"b\\c\nd\xff");
    series_observe(h, 0.1);
    series_observe(h, 2);
    series_observe(h, 100);
    assert_true(series_value(h) == 3);
    assert_rendered(m, "# HELP requests_total Requests by verb.\n"
                       "# TYPE requests_total counter\n"
                       "requests_total{verb=\"get\",code=\"\"} 1\n"
                       "requests_total{verb=\"get\",code=\"404\"} 2.5\n"
                       "requests_total{verb=\"put\",code=\"200\"} 1\n"
                       "# HELP queue_depth Keys that wait,\\nand \\\\ more.\n"
                       "# TYPE queue_depth gauge\n"
                       "queue_depth -1e+20\n"
                       "# HELP pass_seconds Length of a pass.\n"
                       "# TYPE pass_seconds histogram\n"
                       "pass_seconds_bucket{script=\"a\\\"b\\\\c\\nd?\",le=\"0.1\"} 1\n"
                       "pass_seconds_bucket{script=\"a\\\"b\\\\c\\nd?\",le=\"1\"} 1\n"
                       "pass_seconds_bucket{script=\"a\\\"b\\\\c\\nd?\",le=\"2.5\"} 2\n"
                       "pass_seconds_bucket{script=\"a\\\"b\\\\c\\nd?\",le=\"+Inf\"} 3\n"
                       "pass_seconds_sum{script=\"a\\\"b\\\\c\\nd?\"} 102.1\n"
                       "pass_seconds_count{script=\"a\\\"b\\\\c\\nd?\"} 3\n");
    metrics_free(m);
    metrics_free(NULL);
}

static void test_same_family_same_series(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    struct metric *r = metrics_add(m, &requests);
    assert_ptr_equal(metrics_add(m, &requests), r);
    assert_ptr_equal(metric_series(r, "a", "b"), metric_series(r, "a", "b"));
    assert_ptr_not_equal(metric_series(r, "a", "b"), metric_series(r, "ab", ""));
    metrics_free(m);
}

static void test_special_numbers(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    struct series *s = metric_series(metrics_add(m, &depth));
    static const char head[] =
        "# HELP queue_depth Keys that wait,\\nand \\\\ more.\n# TYPE queue_depth gauge\nqueue_depth ";
    static const struct {
        double v;
        const char *text;
    } rows[] = {{NAN, "NaN"},
                {INFINITY, "+Inf"},
                {-INFINITY, "-Inf"},
                {0, "0"},
                {0.1, "0.1"},
                {1.0 / 3, "0.3333333333333333"},
                {123456789012345, "123456789012345"}};
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++) {
        char expected[256];
        snprintf(expected, sizeof(expected), "%s%s\n", head, rows[i].text);
        series_set(s, rows[i].v);
        assert_rendered(m, expected);
    }
    metrics_free(m);
}

static void test_removed_series_are_not_shown_and_start_from_zero(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    struct metric *r = metrics_add(m, &requests);
    struct series *old = metric_series(r, "get", "200");
    series_inc(old);
    series_inc(metric_series(r, "getx", "200"));
    metric_remove(r, "get");
    series_inc(old); // still held by somebody
    assert_rendered(m, "# HELP requests_total Requests by verb.\n# TYPE requests_total counter\n"
                       "requests_total{verb=\"getx\",code=\"200\"} 1\n");
    assert_true(series_value(metric_series(r, "get", "200")) == 0);
    metric_remove(r, "getx");
    metric_remove(r, "get");
    assert_rendered(m, "");
    metrics_free(m);
}

static void test_series_are_capped(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    struct metric *r = metrics_add(m, &requests);
    char name[32];
    for (int i = 0; i < 10000; i++) {
        snprintf(name, sizeof(name), "v%d", i);
        series_inc(metric_series(r, name, "200"));
    }
    struct series *other = metric_series(r, "one more", "200");
    assert_ptr_equal(other, metric_series(r, "and more", "500"));
    assert_ptr_equal(other, metric_series(r, "other", "other"));
    assert_true(series_value(metric_series(r, "v77", "200")) == 1);
    metrics_free(m);
}

static void on_render(void *ud)
{
    series_set(ud, 42);
}

static void test_hooks_run_before_rendering(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    struct series *s = metric_series(metrics_add(m, &depth));
    metrics_on_render(m, on_render, s);
    struct buf out;
    buf_init(&out, 4096);
    metrics_render(m, &out);
    assert_non_null(strstr(out.data, "queue_depth 42\n"));
    buf_fini(&out);
    metrics_free(m);
}

static void *update(void *arg)
{
    struct metrics *m = arg;
    struct metric *r = metrics_add(m, &requests);
    struct metric *s = metrics_add(m, &seconds);
    for (int i = 0; i < 5000; i++) {
        series_add(metric_series(r, "get", "200"), 0.5);
        series_observe(metric_series(s, "x"), i % 3);
    }
    return NULL;
}

static void test_threads_lose_nothing(void **state)
{
    (void)state;
    struct metrics *m = metrics_new();
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, update, m), 0);
    struct buf out;
    buf_init(&out, 1 << 16);
    metrics_render(m, &out);
    buf_fini(&out);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_true(series_value(metric_series(metrics_add(m, &requests), "get", "200")) == 10000);
    assert_true(series_value(metric_series(metrics_add(m, &seconds), "x")) == 20000);
    metrics_free(m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_text),
        cmocka_unit_test(test_same_family_same_series),
        cmocka_unit_test(test_special_numbers),
        cmocka_unit_test(test_removed_series_are_not_shown_and_start_from_zero),
        cmocka_unit_test(test_series_are_capped),
        cmocka_unit_test(test_hooks_run_before_rendering),
        cmocka_unit_test(test_threads_lose_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
