// ctest-labels: thread
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit.h"

#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/log.h"

static struct buf lines;

static void collect(void *ud, enum log_level level, const char *line)
{
    (void)level;
    buf_addf(ud, "%s\n", line);
}

static struct clock *noon;

static int setup(void **state)
{
    (void)state;
    buf_init(&lines, 64 << 20);
    noon = clock_virtual_new(1767355200000LL);
    log_set_clock(noon);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    log_stop();
    log_set_sink(NULL, NULL);
    log_set_clock(NULL);
    log_set_level(LOG_INFO);
    clock_free(noon);
    buf_fini(&lines);
    return 0;
}

// The read end; the other is the log's, and is not to block the test.
static int start_on_pipe(int *write_end, enum log_format format)
{
    int fds[2];
    assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
    log_start(fds[1], LOG_INFO, format);
    *write_end = fds[1];
    return fds[0];
}

static void read_to_end(int fd)
{
    char part[65536];
    ssize_t n;
    while ((n = read(fd, part, sizeof(part))) > 0)
        buf_add(&lines, part, (size_t)n);
    close(fd);
}

static void *reader_main(void *arg)
{
    read_to_end((int)(intptr_t)arg);
    return NULL;
}

static void test_json_lines(void **state)
{
    (void)state;
    int write_end;
    int fd = start_on_pipe(&write_end, LOG_JSON);
    log_info("started", F_STR("version", "1"), F_INT("n", -3), F_DBL("share", 0.25), F_BOOL("ok", true),
             F_STR("none", NULL));
    log_warn("odd \"text\"", F_STR("value", "a\n\t\\\x01\x7f\u20ac\xff"));
    log_debug("not enabled");
    log_error("plain", F_DBL("nan", 0.0 / 0.0));
    log_stop();
    close(write_end);
    read_to_end(fd);
    assert_string_equal(
        lines.data,
        "{\"ts\":\"2026-01-02T12:00:00.000000Z\",\"level\":\"info\",\"msg\":\"started\",\"version\":\"1\","
        "\"n\":-3,"
        "\"share\":0.25,\"ok\":true}\n"
        "{\"ts\":\"2026-01-02T12:00:00.000000Z\",\"level\":\"warn\",\"msg\":\"odd \\\"text\\\"\",\"value\":"
        "\"a\\n\\u0009\\\\\\u0001\\u007f\u20ac\ufffd\"}\n"
        "{\"ts\":\"2026-01-02T12:00:00.000000Z\",\"level\":\"error\",\"msg\":\"plain\",\"nan\":\"NaN\"}\n");
}

static void test_text_lines(void **state)
{
    (void)state;
    int write_end;
    int fd = start_on_pipe(&write_end, LOG_TEXT);
    log_info("started", F_STR("name", "a b"), F_INT("n", 7));
    log_error("two\nlines");
    log_stop();
    close(write_end);
    read_to_end(fd);
    assert_string_equal(lines.data, "I0102 12:00:00.000000 started name=\"a b\" n=7\n"
                                    "E0102 12:00:00.000000 two\\nlines\n");
}

static void test_sink_and_levels(void **state)
{
    (void)state;
    log_set_sink(collect, &lines);
    log_set_level(LOG_WARN);
    log_info("not this");
    log_warn("this");
    log_set_level(LOG_TRACE);
    log_trace("and this");
    assert_string_equal(lines.data, "W0102 12:00:00.000000 this\nT0102 12:00:00.000000 and this\n");
    enum log_level level = LOG_INFO;
    assert_int_equal(log_level_parse("debug", &level), 0);
    assert_int_equal(level, LOG_DEBUG);
    assert_int_equal(log_level_parse("loud", &level), -ERR_INVALID);
    assert_int_equal(level, LOG_DEBUG);
    assert_int_equal(log_level_of_v(0), LOG_INFO);
    assert_int_equal(log_level_of_v(4), LOG_DEBUG);
    assert_int_equal(log_level_of_v(9), LOG_TRACE);
}

static void test_long_values_are_cut(void **state)
{
    (void)state;
    log_set_sink(collect, &lines);
    char *big = malloc(1 << 20);
    memset(big, '\x01', 1 << 20); // six bytes each in the line
    big[(1 << 20) - 1] = 0;
    log_info("big", F_STR("a", big), F_STR("b", big), F_INT("c", 1));
    assert_non_null(strstr(lines.data, "... (1040383 bytes more)\""));
    assert_null(strstr(lines.data, " b="));
    assert_non_null(strstr(lines.data, " cut=true\n"));
    free(big);
}

static void test_slow_reader_never_blocks_and_loss_is_said(void **state)
{
    (void)state;
    uint64_t before = log_dropped();
    int write_end;
    int fd = start_on_pipe(&write_end, LOG_JSON);
    char text[4000];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = 0;
    // Nobody reads: the pipe and the ring fill, and the rest is dropped.
    for (int i = 0; i < 1000; i++)
        log_info("filler", F_STR("text", text));
    uint64_t lost = log_dropped() - before;
    assert_true(lost > 0);
    assert_true(lost < 1000);
    // log_stop flushes, so somebody has to read by then.
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, reader_main, (void *)(intptr_t)fd), 0);
    log_stop();
    close(write_end);
    pthread_join(reader, NULL);
    char expected[100];
    snprintf(expected, sizeof(expected), "\"count\":%llu}\n", (unsigned long long)lost);
    assert_non_null(strstr(lines.data, "log lines were dropped"));
    assert_non_null(strstr(lines.data, expected));
    uint64_t fillers = 0;
    for (const char *p = lines.data; (p = strstr(p, "\"filler\"")) != NULL; p++)
        fillers++;
    assert_int_equal(fillers + lost, 1000);
}

static void test_closed_pipe_does_not_kill(void **state)
{
    (void)state;
    int write_end;
    int fd = start_on_pipe(&write_end, LOG_JSON);
    close(fd);
    for (int i = 0; i < 100; i++)
        log_info("to nobody", F_INT("i", i));
    log_stop();
    close(write_end);
}

static void test_nonblocking_pipe(void **state)
{
    (void)state;
    int write_end;
    int fd = start_on_pipe(&write_end, LOG_TEXT);
    fcntl(write_end, F_SETFL, O_NONBLOCK);
    pthread_t reader;
    assert_int_equal(pthread_create(&reader, NULL, reader_main, (void *)(intptr_t)fd), 0);
    char text[1000];
    memset(text, 'x', sizeof(text));
    text[sizeof(text) - 1] = 0;
    uint64_t before = log_dropped();
    for (int i = 0; i < 500; i++)
        log_info("filler", F_STR("text", text));
    log_stop();
    close(write_end);
    pthread_join(reader, NULL);
    uint64_t fillers = 0;
    for (const char *p = lines.data; (p = strstr(p, " filler ")) != NULL; p++)
        fillers++;
    assert_int_equal(fillers + (log_dropped() - before), 500);
}

static void *log_many(void *arg)
{
    for (int i = 0; i < 500; i++)
        log_info("from a thread", F_INT("thread", (intptr_t)arg), F_INT("i", i));
    return NULL;
}

static void test_threads(void **state)
{
    (void)state;
    int write_end;
    int fd = start_on_pipe(&write_end, LOG_JSON);
    pthread_t reader, threads[4];
    assert_int_equal(pthread_create(&reader, NULL, reader_main, (void *)(intptr_t)fd), 0);
    for (intptr_t i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, log_many, (void *)i), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    log_stop();
    close(write_end);
    pthread_join(reader, NULL);
    int count = 0;
    for (char *line = strtok(lines.data, "\n"); line != NULL; line = strtok(NULL, "\n"), count++) {
        assert_memory_equal(line, "{\"ts\":", 6);
        assert_int_equal(line[strlen(line) - 1], '}');
    }
    assert_int_equal(count, 2000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_json_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_text_lines, setup, teardown),
        cmocka_unit_test_setup_teardown(test_sink_and_levels, setup, teardown),
        cmocka_unit_test_setup_teardown(test_long_values_are_cut, setup, teardown),
        cmocka_unit_test_setup_teardown(test_slow_reader_never_blocks_and_loss_is_said, setup, teardown),
        cmocka_unit_test_setup_teardown(test_closed_pipe_does_not_kill, setup, teardown),
        cmocka_unit_test_setup_teardown(test_nonblocking_pipe, setup, teardown),
        cmocka_unit_test_setup_teardown(test_threads, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
