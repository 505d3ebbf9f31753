// ctest-labels: thread
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "unit.h"

#include "base/alloc.h"
#include "base/mailbox.h"

enum { THREADS = 4, PER_THREAD = 20000 };

struct note {
    struct message base;
    int thread;
    int number;
};

static struct mailbox *box;
static sem_t wakes;
static atomic_int wake_count;
static int next_number[THREADS];
static int order_errors;

static void on_wake(void *ud)
{
    assert_ptr_equal(ud, &wakes);
    atomic_fetch_add(&wake_count, 1);
    sem_post(&wakes);
}

static void run_note(struct message *m)
{
    struct note *n = (struct note *)m;
    if (n->number != next_number[n->thread]++)
        order_errors++;
    free(n);
}

static struct note *note_new(int thread, int number)
{
    struct note *n = xcalloc(1, sizeof(*n));
    n->base.run = run_note;
    n->thread = thread;
    n->number = number;
    return n;
}

static void *post_all(void *arg)
{
    for (int i = 0; i < PER_THREAD; i++)
        mailbox_post(box, &note_new((int)(intptr_t)arg, i)->base);
    return NULL;
}

static int setup(void **state)
{
    (void)state;
    sem_init(&wakes, 0, 0);
    atomic_store(&wake_count, 0);
    order_errors = 0;
    for (int i = 0; i < THREADS; i++)
        next_number[i] = 0;
    box = mailbox_new(on_wake, &wakes);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    mailbox_free(box);
    sem_destroy(&wakes);
    return 0;
}

static void test_four_threads(void **state)
{
    (void)state;
    pthread_t threads[THREADS];
    for (intptr_t i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, post_all, (void *)i), 0);
    int count = 0;
    int drains = 0;
    while (count < THREADS * PER_THREAD) {
        sem_wait(&wakes); // a message is never there without a wake
        count += mailbox_drain(box);
        drains++;
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(count, THREADS * PER_THREAD);
    assert_int_equal(order_errors, 0); // first in, first out for each thread
    assert_int_equal(mailbox_drain(box), 0);
    assert_true(atomic_load(&wake_count) >= drains);
}

static void test_one_wake_for_one_emptying(void **state)
{
    (void)state;
    for (int i = 0; i < 10; i++)
        mailbox_post(box, &note_new(0, i)->base);
    assert_int_equal(atomic_load(&wake_count), 1);
    assert_int_equal(mailbox_drain(box), 10);
    mailbox_post(box, &note_new(0, 10)->base);
    assert_int_equal(atomic_load(&wake_count), 2);
    struct message *m = mailbox_take(box);
    assert_non_null(m);
    assert_null(m->next);
    m->run(m);
    assert_null(mailbox_take(box));
}

static void run_and_post(struct message *m)
{
    struct note *n = (struct note *)m;
    mailbox_post(box, &note_new(0, 0)->base);
    free(n);
}

static void test_drain_runs_what_was_there_at_the_call(void **state)
{
    (void)state;
    struct note *n = note_new(0, 0);
    n->base.run = run_and_post;
    mailbox_post(box, &n->base);
    assert_int_equal(mailbox_drain(box), 1);
    assert_int_equal(atomic_load(&wake_count), 2); // posted while draining: woken again
    assert_int_equal(mailbox_drain(box), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_four_threads, setup, teardown),
        cmocka_unit_test_setup_teardown(test_one_wake_for_one_emptying, setup, teardown),
        cmocka_unit_test_setup_teardown(test_drain_runs_what_was_there_at_the_call, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
