#include "kube/credentials.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/alloc.h"

// A directory as the kubelet mounts it: token -> ..data/token, ..data -> a directory that is swapped whole.
struct mount {
    char dir[64];
    char *token, *ca;
    int generation;
};

static void put(const char *dir, const char *name, const char *text)
{
    char *path = xasprintf("%s/%s", dir, name);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    free(path);
}

static void swap(struct mount *m, const char *token, const char *ca)
{
    char *dir = xasprintf("%s/..%d", m->dir, m->generation);
    char *name = xasprintf("..%d", m->generation++);
    char *fresh = xasprintf("%s/..data_tmp", m->dir), *data = xasprintf("%s/..data", m->dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    if (token != NULL)
        put(dir, "token", token);
    if (ca != NULL)
        put(dir, "ca.crt", ca);
    assert_int_equal(symlink(name, fresh), 0);
    assert_int_equal(rename(fresh, data), 0);
    free(dir);
    free(name);
    free(fresh);
    free(data);
}

static void mount_init(struct mount *m)
{
    *m = (struct mount){.dir = "/tmp/credentials_test.XXXXXX"};
    assert_non_null(mkdtemp(m->dir));
    m->token = xasprintf("%s/token", m->dir);
    m->ca = xasprintf("%s/ca.crt", m->dir);
    assert_int_equal(symlink("..data/token", m->token), 0);
    assert_int_equal(symlink("..data/ca.crt", m->ca), 0);
}

static void mount_fini(struct mount *m)
{
    char *cmd = xasprintf("rm -rf '%s'", m->dir);
    assert_int_equal(system(cmd), 0);
    free(cmd);
    free(m->token);
    free(m->ca);
}

struct seen {
    struct loop *loop; // stopped when something was seen
    int refreshed, tls, refuse;
    char ca[100];
};

static void on_refreshed(void *ud)
{
    struct seen *s = ud;
    s->refreshed++;
    if (s->loop != NULL)
        loop_stop(s->loop);
}

static int on_tls(void *ud, const char *ca, const char *cert, const char *key)
{
    struct seen *s = ud;
    (void)cert;
    (void)key;
    s->tls++;
    snprintf(s->ca, sizeof(s->ca), "%s", ca);
    return s->refuse;
}

static void test_rotation(void **state)
{
    (void)state;
    struct mount m;
    mount_init(&m);
    swap(&m, "t1\n", "CA1");
    struct clock *clock = clock_virtual_new(0);
    struct loop *l = loop_new(clock);
    struct seen s = {0};
    struct kube_config cfg = {.token_file = m.token, .ca_file = m.ca, .ca_pem = "CA1"};
    struct credentials *c =
        credentials_new(l, &cfg, &(struct credentials_callbacks){on_refreshed, on_tls, &s});
    assert_string_equal(credentials_token(c), "t1");
    uint64_t v = credentials_version(c);
    swap(&m, "t2", "CA1");
    loop_run_until(l, 59999);
    assert_string_equal(credentials_token(c), "t1");
    loop_run_until(l, 60001);
    assert_string_equal(credentials_token(c), "t2");
    assert_true(credentials_version(c) > v);
    static const char *const bad[] = {"", "\n", "  \n\n", "two words", "a\nb", "\x01", "t\xc3\xa9"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        swap(&m, bad[i], "CA1");
        loop_run_until(l, loop_now_ms(l) + 60000);
        assert_string_equal(credentials_token(c), "t2");
    }
    swap(&m, NULL, "CA1"); // missing
    loop_run_until(l, loop_now_ms(l) + 60000);
    assert_string_equal(credentials_token(c), "t2");
    assert_int_equal(s.tls, 0);
    swap(&m, " t3 \r\n", "CA2");
    s.refuse = 1;
    loop_run_until(l, loop_now_ms(l) + 60000);
    assert_string_equal(credentials_token(c), "t3");
    assert_int_equal(s.tls, 1);
    assert_string_equal(s.ca, "CA2");
    s.refuse = 0;
    loop_run_until(l, loop_now_ms(l) + 180000);
    assert_int_equal(s.tls, 2); // asked again, taken, not again
    assert_int_equal(s.refreshed, 0);
    credentials_free(c);
    loop_free(l);
    clock_free(clock);
    mount_fini(&m);
}

static void test_refresh_is_joined_and_limited(void **state)
{
    (void)state;
    struct mount m;
    mount_init(&m);
    swap(&m, "t1", NULL);
    struct clock *clock = clock_virtual_new(0);
    struct loop *l = loop_new(clock);
    struct seen s = {0};
    struct kube_config cfg = {.token = "t1", .token_file = m.token};
    struct credentials *c =
        credentials_new(l, &cfg, &(struct credentials_callbacks){on_refreshed, on_tls, &s});
    credentials_refresh(c);
    credentials_refresh(c);
    assert_int_equal(s.refreshed, 0);
    loop_run_until(l, 1);
    assert_int_equal(s.refreshed, 1);
    swap(&m, "t2", NULL);
    credentials_refresh(c); // too soon for another read
    loop_run_until(l, 2);
    assert_int_equal(s.refreshed, 2);
    assert_string_equal(credentials_token(c), "t1");
    loop_run_until(l, 2000);
    credentials_refresh(c);
    loop_run_until(l, 2001);
    assert_int_equal(s.refreshed, 3);
    assert_string_equal(credentials_token(c), "t2");
    credentials_free(c);
    struct kube_config fixed = {.token = "fixed"};
    c = credentials_new(l, &fixed, &(struct credentials_callbacks){on_refreshed, on_tls, &s});
    credentials_refresh(c);
    loop_run_until(l, 3000);
    assert_int_equal(s.refreshed, 4);
    assert_string_equal(credentials_token(c), "fixed");
    credentials_free(c);
    loop_free(l);
    clock_free(clock);
    mount_fini(&m);
}

static void test_real_loop_reads_on_a_thread(void **state)
{
    (void)state;
    struct mount m;
    mount_init(&m);
    swap(&m, "t1", NULL);
    struct loop *l = loop_new(clock_real());
    struct seen s = {.loop = l};
    struct kube_config cfg = {.token = "t1", .token_file = m.token};
    struct credentials *c =
        credentials_new(l, &cfg, &(struct credentials_callbacks){on_refreshed, on_tls, &s});
    swap(&m, "t2", NULL);
    credentials_refresh(c);
    loop_run(l);
    assert_int_equal(s.refreshed, 1);
    assert_string_equal(credentials_token(c), "t2");
    credentials_free(c);
    loop_free(l);
    mount_fini(&m);
}

static void stop(void *ud)
{
    loop_stop(ud);
}

static void test_freed_while_reading(void **state)
{
    (void)state;
    struct mount m;
    mount_init(&m);
    swap(&m, "t1", NULL);
    for (int i = 0; i < 20; i++) {
        struct loop *l = loop_new(clock_real());
        struct seen s = {0};
        struct kube_config cfg = {.token = "t1", .token_file = m.token};
        struct credentials *c =
            credentials_new(l, &cfg, &(struct credentials_callbacks){on_refreshed, on_tls, &s});
        credentials_refresh(c);
        struct loop_timer *t = loop_timer_new(l, stop, l);
        loop_timer_start(t, 0); // after the refresh began, before its end can be taken in
        loop_run(l);
        int before = s.refreshed;
        credentials_free(c);
        loop_timer_free(t);
        loop_free(l);
        assert_int_equal(s.refreshed, before);
    }
    mount_fini(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_refresh_is_joined_and_limited),
        cmocka_unit_test(test_real_loop_reads_on_a_thread),
        cmocka_unit_test(test_freed_while_reading),
    };
    return cmocka_run_group_tests_name("credentials", tests, NULL, NULL);
}
