// ctest-labels: thread
// The last resort: a host that has lost too many workers says so to the kubelet, over HTTP, and recovers when
// they come back. workers_stuck is wrapped here; that it counts rightly is in workers_test.c.
#include "run/admin.h"
#include "run/workqueue/workers.h"
#include "support/http_rig.h"
#include "things.h"

static unsigned stuck;

unsigned __wrap_workers_stuck(const struct workers *w);
unsigned __wrap_workers_stuck(const struct workers *w)
{
    (void)w;
    return stuck;
}

struct fixture {
    struct sim sim;
    struct rig rig;
    struct admin *admin;
};

static void ask(struct fixture *f, const char *path, int status, const char *body)
{
    struct rig_result x;
    rig_do(&f->rig, &x, (struct transport_request){.method = METHOD_GET, .path = path});
    assert_int_equal(x.response.err.code, 0);
    assert_int_equal(x.response.status, status);
    assert_string_equal(x.body.data, body);
    rig_result_fini(&x);
}

static void liveness(void **unused)
{
    struct fixture f;
    struct err e = {0};
    (void)unused;
    things_start(&f.sim, "return {}", "");
    things_settle(&f.sim);
    rig_init_raw(&f.rig);
    assert_int_equal(admin_new(f.rig.loop, "127.0.0.1:0", f.sim.host, f.sim.metrics, &f.admin, &e), 0);
    char *url = xasprintf("http://127.0.0.1:%u", admin_port(f.admin));
    assert_int_equal(rig_connect(&f.rig, (struct transport_curl_options){.server = url}, &e), 0);
    static const char *const paths[] = {"/livez", "/healthz"};
    for (size_t i = 0; i < 2; i++) {
        stuck = 0;
        ask(&f, paths[i], 200, "ok\n");
        stuck = 4;
        ask(&f, paths[i], 200, "ok\n");
        stuck = 5;
        ask(&f, paths[i], 503, "5 workers are stuck in passes that do not end\nnot alive\n");
        ask(&f, "/readyz", 200, "ok\n"); // its work is done by the workers that took their place
        stuck = 0;
        ask(&f, paths[i], 200, "ok\n");
    }
    admin_free(f.admin);
    free(url);
    rig_fini(&f.rig);
    sim_fini(&f.sim);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(liveness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
