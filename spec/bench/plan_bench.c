// Microseconds of a plan for four children (Deployment, Service, two ConfigMaps) and a status when nothing is
// to be written: what a pass costs besides its script. A host on the embedded API server runs the same key
// again and again; its calls of plan_make are timed (the linker puts this file's function before it).
//   bench_plan_bench [rounds], in the root of the source tree
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "run/plan/plan.h"
#include "run/sim.h"

enum { ROUNDS_MAX = 5000, WARM_UP = 100 };

static const char script[] =
    "local function labels(name) return { app = name, tier = 'cache' } end\n"
    "return {\n"
    "  subject = 'cache.example.com/v1alpha1/Memcached',\n"
    "  reconcile = function(m)\n"
    "    local name = m.metadata.name\n"
    "    local function meta(suffix) return { name = name .. suffix, labels = labels(name) } end\n"
    "    return {\n"
    "      apply = {\n"
    "        { apiVersion = 'apps/v1', kind = 'Deployment', metadata = meta '',\n"
    "          spec = { replicas = 3, selector = { matchLabels = labels(name) },\n"
    "            template = { metadata = { labels = labels(name) }, spec = { containers = { {\n"
    "              name = 'memcached', image = 'memcached:1.6', args = { '-m', '64' },\n"
    "              resources = { requests = { cpu = '0.1', memory = '64Mi' } },\n"
    "              ports = { { name = 'memcached', containerPort = 11211 } } } } } } } },\n"
    "        { apiVersion = 'v1', kind = 'Service', metadata = meta '',\n"
    "          spec = { selector = labels(name), ports = { { name = 'memcached', port = 11211 } } } },\n"
    "        { apiVersion = 'v1', kind = 'ConfigMap', metadata = meta '-env', data = { SIZE = '64', MODE = "
    "'lru' } },\n"
    "        { apiVersion = 'v1', kind = 'ConfigMap', metadata = meta '-cfg', data = { ['a.conf'] = 'x = "
    "1\\n' } },\n"
    "      },\n"
    "      status = { observedGeneration = m.metadata.generation, readyReplicas = 3 },\n"
    "      requeue_after = '1s',\n"
    "    }\n"
    "  end,\n"
    "}\n";

static uint64_t samples[ROUNDS_MAX];
static size_t count, planned;

int __real_plan_make(const struct plan_input *in, struct plan **ret, struct err *e);
int __wrap_plan_make(const struct plan_input *in, struct plan **ret, struct err *e);

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

int __wrap_plan_make(const struct plan_input *in, struct plan **ret, struct err *e)
{
    uint64_t start = now_ns();
    int r = __real_plan_make(in, ret, e);
    uint64_t spent = now_ns() - start;
    planned++;
    if (r == 0 && (*ret)->count == 0 && planned > WARM_UP && count < ROUNDS_MAX)
        samples[count++] = spent;
    return r;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a;
    uint64_t y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
    struct sim s;
    int rounds = argc > 1 ? atoi(argv[1]) : ROUNDS_MAX;
    sim_init(&s, 1);
    sim_apply_file(&s, "operators/memcached/crd.yaml");
    sim_apply_file(&s, "operators/memcached/sample.yaml");
    sim_put_script_text(&s, "bench", "bench.lua", script);
    sim_run(&s, (uint64_t)(WARM_UP + rounds) * 1000);
    size_t writes = s.host_writes;
    sim_run(&s, 10 * 1000);
    if (count == 0 || s.host_writes != writes) {
        fprintf(stderr, "the children do not converge: %zu plans, %zu of them empty\n", planned, count);
        return 1;
    }
    qsort(samples, count, sizeof samples[0], compare);
    printf("plans %zu, median %.1f us, 99th percentile %.1f us\n", count, (double)samples[count / 2] / 1e3,
           (double)samples[count * 99 / 100] / 1e3);
    sim_fini(&s);
    return 0;
}
