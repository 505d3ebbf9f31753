// ctest-labels: thread
// Worker threads whose passes do not come back.

#include "run/workqueue/workers.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "run/workqueue/queue.h"
#include "run/world/world_view.h"
#include "unit.h"

enum { WAIT_MS = 60 * 1000 };

static const char script_text[] =
    "return { name = 'things', subject = 'x.test/v1/Thing', reconcile = function(o, world)\n"
    "  if o.metadata.name:sub(1, 5) == 'stuck' then world.get('v1/ConfigMap', 'a') end\n"
    "end }\n";

struct rig {
    struct loop *loop;
    struct metrics *metrics;
    struct store_clock *clock;
    struct store *store;
    struct workers *workers;
    struct queue *queue;
    struct pass_env env;
    struct script_host host;
    struct grants *grants;
    struct controller_view *view;
    struct loop_timer *limit, *look;
    bool (*until)(struct rig *r);
    unsigned stuck, went, failed;
    unsigned wanted_stuck, wanted_went;
    pthread_mutex_t lock;
    pthread_cond_t released;
    bool release;
    unsigned canceled; // reads that were refused after they had been stuck
};

static struct rig *current;

// Blocks until the test says so, then does what the real one does.
static int blocking_get(void *ud, const char *kind, const char *name, const char *ns,
                        struct world_object *ret, struct err *e)
{
    struct rig *r = current;
    pthread_mutex_lock(&r->lock);
    while (!r->release)
        pthread_cond_wait(&r->released, &r->lock);
    pthread_mutex_unlock(&r->lock);
    int result = world_view_ops.get(ud, kind, name, ns, ret, e);
    pthread_mutex_lock(&r->lock);
    r->canceled += result == -ERR_CANCELED;
    pthread_mutex_unlock(&r->lock);
    return result;
}

static struct world_ops ops;

static struct controller_view *take_view(void *owner)
{
    struct rig *r = owner;
    return controller_view_ref(r->view);
}

static void on_outcome(struct outcome *o)
{
    struct rig *r = o->owner;
    r->stuck += o->stuck;
    r->went += o->kind == OUTCOME_NIL;
    r->failed += o->kind == OUTCOME_FAILED;
    if (o->stuck) {
        assert_int_equal(o->kind, OUTCOME_FAILED);
        assert_int_equal(o->end, PASS_CANCELED);
        assert_non_null(o->subject);
        assert_non_null(strstr(o->err.text, "stuck"));
    }
    store_snapshot_release(r->clock, o->revision); // fails if it is not pinned
    queue_done(r->queue, o->key);
    outcome_free(o);
}

static void put_subject(struct rig *r, const char *name)
{
    char text[256];
    struct json_doc *d;
    struct object *o;
    snprintf(text, sizeof text, "{\"metadata\":{\"name\":\"%s\",\"namespace\":\"default\",\"uid\":\"u-%s\"}}",
             name, name);
    assert_int_equal(json_parse(text, strlen(text), &d, NULL), 0);
    assert_int_equal(object_new(gvk_parse("x.test/v1/Thing", NULL), json_root(d), &o, NULL), 0);
    json_doc_free(d);
    store_put(r->store, o, NULL, NULL);
}

static void add(struct rig *r, const char *name)
{
    char *key = xasprintf("default/%s", name);
    put_subject(r, name);
    queue_add(r->queue, key);
    free(key);
}

static void open_view(struct rig *r)
{
    struct program *program;
    struct script *script;
    struct err e;
    struct program_options o = {.main = {"things.lua", script_text, sizeof script_text - 1}};
    assert_int_equal(program_new(&o, &program, &e), 0);
    r->grants = grants_new();
    r->host = (struct script_host){
        .instance = "test", .scripts_namespace = "s", .host_namespace = "s", .grants = r->grants};
    assert_int_equal(script_new(&r->host, "s", "here", program, &script, &e), 0);
    struct store **stores = xcalloc(1, sizeof stores[0]);
    stores[0] = store_ref(r->store);
    r->view = controller_view_new(script, child_stores_new(0), stores, 1);
}

static void stop_waiting(void *ud)
{
    struct rig *r = ud;
    loop_stop(r->loop);
}

static void look(void *ud)
{
    struct rig *r = ud;
    if (r->until(r))
        loop_stop(r->loop);
    else
        loop_timer_start(r->look, 5);
}

static void wait_until(struct rig *r, bool (*until)(struct rig *r))
{
    r->until = until;
    loop_timer_start(r->limit, WAIT_MS);
    loop_timer_start(r->look, 1);
    loop_run(r->loop);
    assert_true(until(r));
}

static int set_up(void **state)
{
    struct rig *r = current = calloc(1, sizeof *r);
    pthread_mutex_init(&r->lock, NULL);
    pthread_cond_init(&r->released, NULL);
    r->loop = loop_new(clock_real());
    r->metrics = metrics_new();
    r->clock = store_clock_new();
    r->store = store_new(r->clock, gvk_parse("x.test/v1/Thing", NULL));
    r->limit = loop_timer_new(r->loop, stop_waiting, r);
    r->look = loop_timer_new(r->loop, look, r);
    ops = world_view_ops;
    ops.get = blocking_get;
    r->env = (struct pass_env){
        .clock = clock_real(), .store_clock = r->clock, .world_ops = &ops, .limits = {.cpu_us = 20 * 1000}};
    open_view(r);
    r->workers = workers_new(&(struct workers_options){.loop = r->loop,
                                                       .threads = 2,
                                                       .env = &r->env,
                                                       .metrics = r->metrics,
                                                       .view = take_view,
                                                       .on_outcome = on_outcome});
    r->queue = queue_new(&(struct queue_options){.loop = r->loop,
                                                 .dispatcher = workers_dispatcher(r->workers),
                                                 .metrics = r->metrics,
                                                 .name = "things",
                                                 .limiter = limiter_default,
                                                 .owner = r});
    workers_start(r->workers);
    *state = r;
    return 0;
}

static bool none_is_stuck(struct rig *r)
{
    return workers_stuck(r->workers) == 0;
}

static void let_go(struct rig *r)
{
    pthread_mutex_lock(&r->lock);
    r->release = true;
    pthread_cond_broadcast(&r->released);
    pthread_mutex_unlock(&r->lock);
}

static int tear_down(void **state)
{
    struct rig *r = *state;
    let_go(r);
    wait_until(r, none_is_stuck);
    workers_stop(r->workers);
    queue_free(r->queue);
    workers_free(r->workers);
    loop_timer_free(r->limit);
    loop_timer_free(r->look);
    loop_free(r->loop); // what came back late is delivered
    controller_view_unref(r->view);
    store_unref(r->store);
    store_clock_free(r->clock);
    grants_free(r->grants);
    metrics_free(r->metrics);
    pthread_cond_destroy(&r->released);
    pthread_mutex_destroy(&r->lock);
    free(r);
    return 0;
}

static bool as_wanted(struct rig *r)
{
    return r->stuck == r->wanted_stuck && r->went == r->wanted_went;
}

static void a_stuck_worker_is_replaced(void **state)
{
    struct rig *r = *state;
    add(r, "stuck");
    for (char name[] = "a"; name[0] < 'k'; name[0]++)
        add(r, name);
    r->wanted_stuck = 1, r->wanted_went = 10;
    wait_until(r, as_wanted);
    assert_int_equal(workers_stuck(r->workers), 1);
    assert_int_equal(queue_active(r->queue), 0); // the key was given back
    // There are two again.
    add(r, "stuck-2");
    add(r, "l");
    r->wanted_stuck = 2, r->wanted_went = 11;
    wait_until(r, as_wanted);
    assert_int_equal(workers_stuck(r->workers), 2);
    // They come back: they read nothing, and nobody hears of them.
    let_go(r);
    wait_until(r, none_is_stuck);
    assert_int_equal(r->canceled, 2);
    assert_int_equal(r->failed, 2);
    add(r, "m");
    r->wanted_went = 12;
    wait_until(r, as_wanted);
}

static void all_are_stuck(void **state)
{
    struct rig *r = *state;
    char name[32];
    for (int i = 0; i < 5; i++) {
        snprintf(name, sizeof name, "stuck-%d", i);
        add(r, name);
    }
    add(r, "a");
    r->wanted_stuck = 5, r->wanted_went = 1;
    wait_until(r, as_wanted);
    assert_int_equal(workers_stuck(r->workers), 5);
}

// ---- tasks

struct job {
    struct dispatch_task task;
    struct rig *rig;
    bool given_up, delivered;
};

static void run_job(struct dispatch_task *t, void *worker)
{
    struct job *j = (struct job *)t;
    struct object *o = controller_view_subject(j->rig->view, UINT64_MAX, "default/stuck");
    struct world_view world = {.script = j->rig->view->script, .subject = o};
    bool canceled = true; // what it reads at last is refused
    world.canceled = &canceled;
    struct pass_input in = {.program = j->rig->view->script->program,
                            .entry = "reconcile",
                            .world = &ops,
                            .ud = &world,
                            .limits = {.cpu_us = 20 * 1000}};
    struct pass_output out;
    in.object_json = object_json(o, &in.object_len);
    pass_run(worker_runner(worker), &in, &out);
    assert_int_equal(out.end, PASS_CANCELED);
    pass_output_fini(&out);
    world_view_fini(&world);
    object_unref(o);
}

static void give_up_job(struct dispatch_task *t)
{
    ((struct job *)t)->given_up = true;
}

static void deliver_job(struct message *m)
{
    struct job *j = (struct job *)((char *)m - offsetof(struct job, task.message));
    j->delivered = true;
}

static struct job *the_job;

static bool job_given_up(struct rig *r)
{
    (void)r;
    return the_job->given_up;
}

static bool job_delivered(struct rig *r)
{
    (void)r;
    return the_job->delivered;
}

static void a_task_is_given_up(void **state)
{
    struct rig *r = *state;
    struct job j = {.task = {.run = run_job, .message = {.run = deliver_job}, .give_up = give_up_job},
                    .rig = r};
    the_job = &j;
    put_subject(r, "stuck");
    dispatch_submit(workers_dispatcher(r->workers), &j.task);
    wait_until(r, job_given_up);
    assert_false(j.delivered);
    let_go(r);
    wait_until(r, job_delivered);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_stuck_worker_is_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(all_are_stuck, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_task_is_given_up, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
