// Any text as a script's source: it is refused with a reason, or loads and runs to one of the ends of a pass.
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"

#include "base/assert.h"
#include "script/pass.h"

enum { CPU_US = 2000, MEMORY = 1 << 20 };

static const char pod[] =
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"uid\":\"u\"},"
    "\"spec\":{\"containers\":[{\"name\":\"c\"}],\"big\":9007199254740993,\"none\":null}}";

static int on_get(void *ud, const char *kind, const char *name, const char *ns, struct world_object *ret,
                  struct err *e)
{
    (void)ud;
    (void)name;
    (void)ns;
    if (strcmp(kind, "v1/Secret") == 0)
        return err_set(e, ERR_FORBIDDEN, "not this kind");
    *ret = (struct world_object){pod, sizeof(pod) - 1};
    return 0;
}

static int on_list(void *ud, const struct world_query *q, struct world_list *ret, struct err *e)
{
    static const struct world_object items[] = {{pod, sizeof(pod) - 1}, {pod, sizeof(pod) - 1}};
    (void)ud;
    if (strcmp(q->kind, "v1/Parked") == 0)
        return err_set(e, ERR_PARKED, "not yet");
    *ret = (struct world_list){items, 2};
    return 0;
}

static int on_children(void *ud, const char *kind, struct world_list *ret, struct err *e)
{
    return on_list(ud, &(struct world_query){.kind = kind}, ret, e);
}

static int on_child(void *ud, const char *api_version, const char *kind, const char *ns, const char *name,
                    struct world_object *ret, struct err *e)
{
    (void)api_version;
    return on_get(ud, kind, name, ns, ret, e);
}

static void run(struct pass_runner *r, const struct program *p)
{
    static const struct world_ops world = {
        .get = on_get, .list = on_list, .children = on_children, .child = on_child};
    struct pass_output out;
    struct pass_input in = {.program = p,
                            .entry = "reconcile",
                            .object_json = pod,
                            .object_len = sizeof(pod) - 1,
                            .now_us = 1700000000000000,
                            .world = &world,
                            .limits = {.cpu_us = CPU_US, .memory = MEMORY}};
    pass_run(r, &in, &out);
    ASSERT(out.end <= PASS_NIL || out.err.text[0] != 0);
    ASSERT(out.end == PASS_OK || out.result.len == 0);
    pass_output_fini(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static struct pass_runner *runner; // as a worker: one for all passes
    struct program_options o = {
        .main = {"fuzz.lua", (const char *)data, n}, .cpu_us = CPU_US, .memory = MEMORY};
    struct program *p;
    struct err e = {0};
    if (program_new(&o, &p, &e) < 0) {
        ASSERT(e.text[0] != 0);
        return 0;
    }
    if (runner == NULL)
        runner = pass_runner_new(NULL);
    run(runner, p);
    program_unref(p);
    return 0;
}
