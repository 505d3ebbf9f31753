// Microseconds of one pass: a fresh state, the decoded subject, a reconcile of about 60 lines, its result
// checked and encoded.
//   bench_pass_bench [rounds [pod.json script.lua]]
//   bench_pass_bench dump FOLDER     writes the two files, for spec/bench/pass_cjson.lua
// Without files: a Pod of about 20 KB and a script that are made here. Prints the median, the 99th percentile
// and the memory; then what two workers do. On a machine that others use too the wall time of two threads
// says little: CPU time a pass says whether they disturb each other (caches, the allocator), switches that
// they asked for say whether they wait for each other (locks), and a loop that shares nothing says what the
// machine gives two threads at all.
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "script/pass.h"

static const char reconcile[] =
    "local k8s = require 'tidelock'\n"
    "local function labels_of(pod)\n"
    "  local labels = {}\n"
    "  for key, value in pairs(pod.metadata.labels) do\n"
    "    if key ~= 'pod-template-hash' then labels[key] = value end\n"
    "  end\n"
    "  labels['app.kubernetes.io/managed-by'] = 'bench'\n"
    "  return labels\n"
    "end\n"
    "local function ports_of(pod)\n"
    "  local ports = k8s.array {}\n"
    "  for _, container in ipairs(pod.spec.containers) do\n"
    "    for _, port in ipairs(container.ports or {}) do\n"
    "      ports[#ports + 1] = {name = port.name, port = port.containerPort, targetPort = port.name}\n"
    "    end\n"
    "  end\n"
    "  table.sort(ports, function(a, b) return a.port < b.port end)\n"
    "  return ports\n"
    "end\n"
    "local function environment_of(pod)\n"
    "  local data = {}\n"
    "  for _, container in ipairs({pod.spec.containers[1]}) do\n"
    "    for _, variable in ipairs(container.env or {}) do\n"
    "      local name = variable.name:gsub('[^%w]', '_'):lower()\n"
    "      data[container.name .. '.' .. name] = tostring(variable.value)\n"
    "    end\n"
    "  end\n"
    "  return data\n"
    "end\n"
    "local function ready_of(pod)\n"
    "  local ready, total = 0, 0\n"
    "  for _, status in ipairs(pod.status.containerStatuses) do\n"
    "    total = total + 1\n"
    "    if status.ready then ready = ready + 1 end\n"
    "  end\n"
    "  return ready, total\n"
    "end\n"
    "return {\n"
    "  subject = 'v1/Pod',\n"
    "  reconcile = function(pod, world)\n"
    "    local name, labels = pod.metadata.name, labels_of(pod)\n"
    "    local ready, total = ready_of(pod)\n"
    "    local message = string.format('%d of %d containers are ready', ready, total)\n"
    "    return {\n"
    "      apply = {\n"
    "        {apiVersion = 'v1', kind = 'Service', metadata = {name = name, labels = labels},\n"
    "         spec = {selector = labels, ports = ports_of(pod)}},\n"
    "        {apiVersion = 'v1', kind = 'ConfigMap', metadata = {name = name .. '-env', labels = labels},\n"
    "         data = environment_of(pod)},\n"
    "        {apiVersion = 'policy/v1', kind = 'PodDisruptionBudget', metadata = {name = name, labels = "
    "labels},\n"
    "         spec = {maxUnavailable = 1, selector = {matchLabels = labels}}},\n"
    "      },\n"
    "      status = {message = message, ready = ready, total = total},\n"
    "      requeue_after = ready < total and '30s' or nil,\n"
    "    }\n"
    "  end,\n"
    "}\n";

static void add_container(struct buf *b, int i)
{
    buf_addf(b,
             "%s{\"name\":\"container-%d\",\"image\":\"registry.example.com/team/"
             "application:v1.%d.0\",\"imagePullPolicy\":"
             "\"IfNotPresent\",\"ports\":[{\"name\":\"http-%d\",\"containerPort\":%d,\"protocol\":\"TCP\"}],"
             "\"env\":[",
             i > 0 ? "," : "", i, i, i, 8080 + i);
    for (int k = 0; k < 14; k++)
        buf_addf(b, "%s{\"name\":\"SETTING_NUMBER_%d\",\"value\":\"some value of the setting %d\"}",
                 k > 0 ? "," : "", k, k * 7919);
    buf_add_str(
        b,
        "],\"resources\":{\"limits\":{\"cpu\":\"500m\",\"memory\":\"256Mi\"},\"requests\":{\"cpu\":\"100m\","
        "\"memory\":\"128Mi\"}},\"volumeMounts\":[");
    for (int k = 0; k < 6; k++)
        buf_addf(b, "%s{\"name\":\"volume-%d\",\"mountPath\":\"/var/run/data/%d\",\"readOnly\":true}",
                 k > 0 ? "," : "", k, k);
    buf_add_str(
        b,
        "],\"livenessProbe\":{\"httpGet\":{\"path\":\"/healthz\",\"port\":\"http\",\"scheme\":\"HTTP\"},"
        "\"initialDelaySeconds\":5,\"timeoutSeconds\":1,\"periodSeconds\":10,\"failureThreshold\":3},"
        "\"terminationMessagePath\":\"/dev/termination-log\",\"securityContext\":{\"runAsNonRoot\":true}}");
}

static void make_pod(struct buf *b)
{
    enum { CONTAINERS = 9 };
    buf_add_str(
        b, "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"web-5d9c7b\",\"namespace\":"
           "\"default\","
           "\"uid\":\"0a1b2c3d-0000-4000-8000-000000000000\",\"resourceVersion\":\"123456\",\"labels\":{");
    for (int i = 0; i < 12; i++)
        buf_addf(b, "%s\"label-%d.example.com/name\":\"value-%d\"", i > 0 ? "," : "", i, i);
    buf_add_str(b, "},\"annotations\":{");
    for (int i = 0; i < 8; i++)
        buf_addf(b, "%s\"annotation-%d.example.com/name\":\"a somewhat longer value of an annotation %d\"",
                 i > 0 ? "," : "", i, i);
    buf_add_str(b, "}},\"spec\":{\"nodeName\":\"node-1\",\"containers\":[");
    for (int i = 0; i < CONTAINERS; i++)
        add_container(b, i);
    buf_add_str(b, "],\"volumes\":[");
    for (int i = 0; i < 6; i++)
        buf_addf(b, "%s{\"name\":\"volume-%d\",\"configMap\":{\"name\":\"settings-%d\",\"defaultMode\":420}}",
                 i > 0 ? "," : "", i, i);
    buf_add_str(b, "]},\"status\":{\"phase\":\"Running\",\"containerStatuses\":[");
    for (int i = 0; i < CONTAINERS; i++)
        buf_addf(b,
                 "%s{\"name\":\"container-%d\",\"ready\":%s,\"restartCount\":%d,\"state\":{\"running\":{"
                 "\"startedAt\":"
                 "\"2024-01-01T00:00:00Z\"}}}",
                 i > 0 ? "," : "", i, i % 2 == 0 ? "true" : "false", i);
    buf_add_str(b, "]}}");
}

static void read_file(const char *path, struct buf *b)
{
    FILE *f = fopen(path, "r");
    char part[4096];
    size_t n;
    if (f == NULL) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(1);
    }
    while ((n = fread(part, 1, sizeof(part), f)) > 0)
        buf_add(b, part, n);
    fclose(f);
}

static uint64_t read_ns(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t now_ns(void)
{
    return read_ns(CLOCK_MONOTONIC);
}

struct bench {
    struct watchdog *w;
    const struct program *program;
    const struct buf *pod;
    int rounds;
    uint64_t *ns;
    uint64_t cpu_ns; // of the thread
    long waits;      // switches that it asked for
    size_t peak, result_len, held;
};

// What many threads did.
struct sum {
    double wall_s, cpu_us; // CPU time a round
    long waits;
};

enum { THREADS_MAX = 8 };

static void run_pass(struct bench *b, struct pass_runner *r, int i)
{
    static const struct world_ops none;
    struct pass_input in = {.program = b->program,
                            .entry = "reconcile",
                            .object_json = b->pod->data,
                            .object_len = b->pod->len,
                            .now_us = 1700000000000000,
                            .world = &none};
    struct pass_output out;
    uint64_t start = now_ns();
    pass_run(r, &in, &out);
    b->ns[i] = now_ns() - start;
    if (out.end != PASS_OK) {
        fprintf(stderr, "%s: %s\n", pass_end_name(out.end), out.err.text);
        exit(1);
    }
    b->peak = out.memory_peak;
    b->result_len = out.result.len;
    pass_output_fini(&out);
}

static void *run_passes(void *arg)
{
    struct bench *b = arg;
    struct rusage before, after;
    struct pass_runner *r = pass_runner_new(b->w);
    getrusage(RUSAGE_THREAD, &before);
    uint64_t start = read_ns(CLOCK_THREAD_CPUTIME_ID);
    for (int i = 0; i < b->rounds; i++)
        run_pass(b, r, i);
    b->cpu_ns = read_ns(CLOCK_THREAD_CPUTIME_ID) - start;
    getrusage(RUSAGE_THREAD, &after);
    b->waits = after.ru_nvcsw - before.ru_nvcsw;
    b->held = pass_runner_memory(r);
    pass_runner_free(r);
    return NULL;
}

// As long as a pass, with nothing shared.
static void *run_loop(void *arg)
{
    struct bench *b = arg;
    uint64_t start = read_ns(CLOCK_THREAD_CPUTIME_ID);
    volatile uint64_t x = 1;
    for (int i = 0; i < b->rounds; i++) {
        for (int k = 0; k < 50000; k++)
            x = x * 6364136223846793005ULL + 1;
    }
    b->cpu_ns = read_ns(CLOCK_THREAD_CPUTIME_ID) - start;
    return NULL;
}

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a;
    const uint64_t *y = b;
    return (*x > *y) - (*x < *y);
}

static struct sum run_threads(struct bench *proto, int threads, void *(*fn)(void *arg))
{
    pthread_t ids[THREADS_MAX];
    struct bench b[THREADS_MAX];
    struct sum sum = {0};
    uint64_t start = now_ns();
    for (int i = 0; i < threads; i++) {
        b[i] = *proto;
        b[i].waits = 0;
        b[i].ns = i == 0 ? proto->ns : xcalloc((size_t)proto->rounds, sizeof(uint64_t));
        pthread_create(&ids[i], NULL, fn, &b[i]);
    }
    for (int i = 0; i < threads; i++) {
        pthread_join(ids[i], NULL);
        if (i > 0)
            free(b[i].ns);
        sum.cpu_us += (double)b[i].cpu_ns / 1e3 / proto->rounds / threads;
        sum.waits += b[i].waits;
    }
    sum.wall_s = (double)(now_ns() - start) / 1e9;
    proto->peak = b[0].peak;
    proto->result_len = b[0].result_len;
    proto->held = b[0].held;
    return sum;
}

static void print_scaling(const char *what, const struct sum *one, const struct sum *two)
{
    printf("%s: CPU %.1f us a round, two threads %.1f us; two threads do %.2f x by CPU time, %.2f x by the "
           "wall; %ld and %ld waits\n",
           what, one->cpu_us, two->cpu_us, 2 * one->cpu_us / two->cpu_us, 2 * one->wall_s / two->wall_s,
           one->waits, two->waits);
}

static void measure(struct bench *b)
{
    size_t rounds = (size_t)b->rounds;
    struct sum one = run_threads(b, 1, run_passes);
    qsort(b->ns, rounds, sizeof(*b->ns), compare);
    printf(
        "pod %zu bytes, result %zu bytes, %zu passes: median %.1f us, p99 %.1f us; peak %zu KB live, arena "
        "%zu KB\n",
        b->pod->len, b->result_len, rounds, (double)b->ns[rounds / 2] / 1e3,
        (double)b->ns[rounds * 99 / 100] / 1e3, b->peak / 1024, b->held / 1024);
    struct sum two = run_threads(b, 2, run_passes);
    print_scaling("passes", &one, &two);
    one = run_threads(b, 1, run_loop);
    two = run_threads(b, 2, run_loop);
    print_scaling("a loop", &one, &two);
}

static void dump(const char *folder, const struct buf *pod)
{
    const struct {
        const char *name, *text;
        size_t len;
    } files[] = {{"pod.json", pod->data, pod->len}, {"script.lua", reconcile, strlen(reconcile)}};
    for (int i = 0; i < 2; i++) {
        char *path = xasprintf("%s/%s", folder, files[i].name);
        FILE *f = fopen(path, "w");
        if (f == NULL || fwrite(files[i].text, 1, files[i].len, f) != files[i].len || fclose(f) != 0) {
            fprintf(stderr, "%s: %s\n", path, strerror(errno));
            exit(1);
        }
        free(path);
    }
}

int main(int argc, char **argv)
{
    int rounds = argc > 1 ? atoi(argv[1]) : 20000;
    struct buf pod;
    struct buf script;
    buf_init(&pod, 16 << 20);
    buf_init(&script, 4 << 20);
    if (argc > 3) {
        read_file(argv[2], &pod);
        read_file(argv[3], &script);
    } else {
        make_pod(&pod);
        buf_add_str(&script, reconcile);
    }
    struct program_options o = {.main = {"bench.lua", script.data, script.len}};
    struct program *p;
    struct err e;
    if (argc == 3 && strcmp(argv[1], "dump") == 0) {
        dump(argv[2], &pod);
    } else if (rounds <= 0) {
        fprintf(stderr, "usage: %s [rounds [pod.json script.lua]] | dump FOLDER\n", argv[0]);
        return 2;
    } else if (program_new(&o, &p, &e) < 0) {
        fprintf(stderr, "%s\n", e.text);
        return 1;
    } else {
        struct bench b = {.w = watchdog_new(), .program = p, .pod = &pod, .rounds = rounds};
        b.ns = xcalloc((size_t)rounds, sizeof(*b.ns));
        measure(&b);
        free(b.ns);
        watchdog_free(b.w);
        program_unref(p);
    }
    buf_fini(&pod);
    buf_fini(&script);
    return 0;
}
