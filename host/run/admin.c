#include "run/admin.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/log.h"

struct admin {
    struct server *server;
    struct host *host;
    struct metrics *metrics;
    struct loop *loop;
    struct series *lag, *dropped, *cpu, *memory, *start;
};

static const struct metric_def def_lag = {"tidelock_loop_lag_seconds",
                                          "How late the loop thread was at most since the last scrape.",
                                          METRIC_GAUGE, ""};
static const struct metric_def def_dropped = {
    "tidelock_log_dropped_lines_total", "Log lines that did not fit into the buffer.", METRIC_COUNTER, ""};
static const struct metric_def def_cpu = {"process_cpu_seconds_total", "User and system CPU time.",
                                          METRIC_COUNTER, ""};
static const struct metric_def def_memory = {"process_resident_memory_bytes", "Resident memory.",
                                             METRIC_GAUGE, ""};
static const struct metric_def def_start = {"process_start_time_seconds",
                                            "Start of the process since the epoch.", METRIC_GAUGE, ""};
static const struct metric_def def_build = {"tidelock_build_info", "The program's version.", METRIC_GAUGE,
                                            "version"};

static double process_cpu(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

// From the second number of /proc/self/statm, a file that the kernel makes at once: reading it does not
// block.
static double resident_bytes(void)
{
    char text[128];
    int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = '\0';
    const char *second = strchr(text, ' ');
    return second == NULL ? 0 : strtod(second, NULL) * (double)sysconf(_SC_PAGESIZE);
}

static void set_to(struct series *counter, double v)
{
    series_add(counter, v - series_value(counter));
}

static void refresh(void *ud)
{
    struct admin *a = ud;
    series_set(a->lag, (double)loop_lag_us(a->loop) / 1e6);
    set_to(a->dropped, (double)log_dropped());
    set_to(a->cpu, process_cpu());
    series_set(a->memory, resident_bytes());
}

static void get_metrics(void *ud, const struct server_request *req, struct server_response *ret)
{
    struct admin *a = ud;
    (void)req;
    ret->content_type = "text/plain; version=0.0.4; charset=utf-8";
    metrics_render(a->metrics, &ret->body);
}

// The loop answers: it lives. Do the workers?
static void get_healthz(void *ud, const struct server_request *req, struct server_response *ret)
{
    const struct admin *a = ud;
    (void)req;
    bool alive = host_is_alive(a->host, &ret->body);
    ret->status = alive ? 200 : 503;
    buf_add_str(&ret->body, alive ? "ok\n" : "not alive\n");
}

static void get_readyz(void *ud, const struct server_request *req, struct server_response *ret)
{
    struct admin *a = ud;
    struct buf why;
    buf_init(&why, 1 << 20);
    bool ready = host_is_ready(a->host, &why);
    ret->status = ready ? 200 : 503;
    if (!ready || strstr(req->query, "verbose") != NULL)
        buf_add(&ret->body, why.data, why.len);
    buf_add_str(&ret->body, ready ? "ok\n" : "not ready\n");
    buf_fini(&why);
}

static const struct server_route routes[] = {
    {"GET", "/metrics", get_metrics},
    {"GET", "/healthz", get_healthz},
    {"GET", "/livez", get_healthz},
    {"GET", "/readyz", get_readyz},
};

int admin_new(struct loop *l, const char *address, struct host *host, struct metrics *m, struct admin **ret,
              struct err *e)
{
    struct admin *a = xcalloc(1, sizeof *a);
    int r = server_new(l, address, routes, sizeof routes / sizeof routes[0], a, &a->server, e);
    if (r < 0) {
        free(a);
        return e == NULL ? r : err_prefix(e, "--admin-address %s", address);
    }
    a->host = host;
    a->metrics = m;
    a->loop = l;
    a->lag = metric_series(metrics_add(m, &def_lag));
    a->dropped = metric_series(metrics_add(m, &def_dropped));
    a->cpu = metric_series(metrics_add(m, &def_cpu));
    a->memory = metric_series(metrics_add(m, &def_memory));
    a->start = metric_series(metrics_add(m, &def_start));
    series_set(a->start, (double)clock_wall_us(loop_clock(l)) / 1e6);
    series_set(metric_series(metrics_add(m, &def_build), TIDELOCK_VERSION), 1);
    metrics_on_render(m, refresh, a);
    *ret = a;
    return 0;
}

unsigned admin_port(const struct admin *a)
{
    return server_port(a->server);
}

void admin_free(struct admin *a)
{
    if (a == NULL)
        return;
    server_free(a->server);
    free(a);
}
