// Echoes of our own writes, in every order in which answer and watch event can come.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "run/apply/own_writes.h"
#include "unit.h"

static const struct gvk *config_map(void)
{
    return gvk_parse("v1/ConfigMap", NULL);
}

static struct object *object_at(const char *rv)
{
    struct json_doc *doc;
    struct object *o;
    char *text = xasprintf(
        "{\"metadata\":{\"name\":\"a\",\"namespace\":\"ns\",\"uid\":\"u\",\"resourceVersion\":\"%s\"}}", rv);
    assert_int_equal(json_parse(text, strlen(text), &doc, NULL), 0);
    assert_int_equal(object_new(config_map(), json_root(doc), &o, NULL), 0);
    json_doc_free(doc);
    free(text);
    return o;
}

static const struct own_writer one = {"script", "ns/one"}, two = {"script", "ns/two"},
                               other = {"other", "ns/one"};

// A change to resourceVersion rv ("": the deletion of it) comes through the watch. Is it one's own echo?
static bool comes(struct own_writes *w, const char *rv)
{
    struct object *o = object_at(rv[0] == '\0' ? "9" : rv), *old = rv[0] == '\0' ? o : NULL,
                  *new = old == NULL ? o : NULL;
    bool echo = own_writes_is_echo(w, one, old, new);
    assert_false(own_writes_is_echo(w, other, old, new)); // it has written nothing
    own_writes_came(w, old, new);
    object_unref(o);
    return echo;
}

static void on_seen(void *ud)
{
    ++*(int *)ud;
}

static void answer_then_echo(void **unused)
{
    int seen = 0;
    (void)unused;
    struct own_writes *w = own_writes_new(NULL, NULL);
    struct own_waiter *x = own_waiter_new(w, on_seen, &seen);
    own_writes_begin(w, one, config_map(), "ns", "a", x);
    assert_false(own_writes_end(w, one, config_map(), "ns", "a", "7"));
    own_waiter_arm(x);
    assert_false(own_waiter_is_clear(x));
    assert_false(comes(w, "6")); // older, somebody else's: it counts, and is not enough
    assert_int_equal(seen, 0);
    assert_true(comes(w, "7"));
    assert_int_equal(seen, 1);
    assert_false(comes(w, "8")); // a stranger's
    own_waiter_free(x);
    own_writes_free(w);
}

static void echo_then_answer(void **unused)
{
    int seen = 0;
    (void)unused;
    struct own_writes *w = own_writes_new(NULL, NULL);
    struct own_waiter *x = own_waiter_new(w, on_seen, &seen);
    own_writes_begin(w, one, config_map(), "ns", "a", x);
    assert_true(comes(w, "7")); // may be ours: decided by the answer
    assert_false(own_writes_end(w, one, config_map(), "ns", "a", "7"));
    assert_true(own_waiter_is_clear(x));
    own_waiter_free(x);
    own_writes_free(w);
}

static void foreign_change_while_in_flight(void **unused)
{
    (void)unused;
    struct own_writes *w = own_writes_new(NULL, NULL);
    own_writes_begin(w, one, config_map(), "ns", "a", NULL);
    assert_true(comes(w, "9"));
    assert_true(own_writes_end(w, one, config_map(), "ns", "a", "7")); // 9 came after ours: look again
    own_writes_begin(w, one, config_map(), "ns", "a", NULL);
    assert_true(comes(w, "10"));
    assert_true(
        own_writes_end(w, one, config_map(), "ns", "a", NULL)); // our write failed, so 10 was not ours
    own_writes_free(w);
}

// It came before ours was carried out, and both before the answer.
static void foreign_change_before_ours(void **unused)
{
    (void)unused;
    struct own_writes *w = own_writes_new(NULL, NULL);
    own_writes_begin(w, one, config_map(), "ns", "a", NULL);
    assert_true(comes(w, "6"));
    assert_true(comes(w, "7"));
    assert_true(own_writes_end(w, one, config_map(), "ns", "a", "7"));
    assert_false(comes(w, "8")); // ours was shown
    own_writes_begin(w, one, config_map(), "ns", "a", NULL);
    for (int i = 0; i < 100; i++) { // it is a busy object
        char rv[16];
        snprintf(rv, sizeof rv, "%d", 100 + i);
        assert_true(comes(w, rv));
    }
    assert_true(own_writes_end(w, one, config_map(), "ns", "a", "99"));
    own_writes_free(w);
}

// Two writes of ours to one object, answered in the other order: each is an echo, and both are waited for.
static void two_at_once(void **unused)
{
    int seen = 0;
    (void)unused;
    struct own_writes *w = own_writes_new(NULL, NULL);
    struct own_waiter *x = own_waiter_new(w, on_seen, &seen);
    own_writes_begin(w, one, config_map(), "ns", "a", x);
    own_writes_begin(w, one, config_map(), "ns", "a", x);
    assert_false(own_writes_end(w, one, config_map(), "ns", "a", "8"));
    assert_false(own_writes_end(w, one, config_map(), "ns", "a", "7"));
    own_waiter_arm(x);
    assert_true(comes(w, "7"));
    assert_int_equal(seen, 0);
    assert_true(comes(w, "8"));
    assert_int_equal(seen, 1);
    own_writes_begin(w, one, config_map(), "ns", "a", NULL);
    own_writes_begin(w, one, config_map(), "ns", "a", NULL);
    assert_true(comes(w, "9"));
    assert_true(comes(w, "10"));
    assert_false(own_writes_end(w, one, config_map(), "ns", "a", "9"));
    assert_false(
        own_writes_end(w, one, config_map(), "ns", "a", "10")); // both ours: nothing is to be looked at
    own_waiter_free(x);
    own_writes_free(w);
}

static void coalesced_echo_is_foreign(void **unused)
{
    int seen = 0;
    (void)unused;
    struct own_writes *w = own_writes_new(NULL, NULL);
    struct own_waiter *x = own_waiter_new(w, on_seen, &seen);
    own_writes_begin(w, one, config_map(), "ns", "a", x);
    own_writes_end(w, one, config_map(), "ns", "a", "7");
    own_waiter_arm(x);
    assert_false(comes(w, "12")); // ours and another's in one event
    assert_int_equal(seen, 1);
    own_waiter_free(x);
    own_writes_free(w);
}

static bool when_told(void *ud, const struct own_write *w)
{
    assert_string_equal(w->group, "");
    assert_string_equal(w->kind, "ConfigMap");
    assert_string_equal(w->ns, "ns");
    assert_string_equal(w->name, "a");
    assert_string_equal(w->rv, "7");
    return *(bool *)ud;
}

// Another store holds the object, too: one is not enough, and it is an echo from both.
static void shown_by_all(void **unused)
{
    int seen = 0;
    bool all = false;
    (void)unused;
    struct own_writes *w = own_writes_new(when_told, &all);
    struct own_waiter *x = own_waiter_new(w, on_seen, &seen);
    own_writes_begin(w, one, config_map(), "ns", "a", x);
    assert_true(comes(w, "7"));
    assert_false(own_writes_end(w, one, config_map(), "ns", "a", "7"));
    own_waiter_arm(x);
    assert_false(own_waiter_is_clear(x));
    own_writes_store_has(w, one, config_map(), "ns", "a", "7");
    assert_int_equal(seen, 0);
    all = true;
    assert_true(comes(w, "7"));
    assert_int_equal(seen, 1);
    own_waiter_free(x);
    own_writes_free(w);
}

static void deletion(void **unused)
{
    int seen = 0;
    (void)unused;
    struct own_writes *w = own_writes_new(NULL, NULL);
    struct own_waiter *x = own_waiter_new(w, on_seen, &seen);
    own_writes_begin(w, one, config_map(), "ns", "a", x);
    own_writes_end(w, one, config_map(), "ns", "a", "");
    own_waiter_arm(x);
    assert_true(comes(w, ""));
    assert_int_equal(seen, 1);
    own_waiter_free(x);
    own_writes_free(w);
}

static void no_change_has_no_echo(void **unused)
{
    (void)unused;
    struct own_writes *w = own_writes_new(NULL, NULL);
    struct own_waiter *x = own_waiter_new(w, on_seen, NULL);
    own_writes_begin(w, one, config_map(), "ns", "a", x);
    own_writes_end(w, one, config_map(), "ns", "a", "7");
    own_writes_store_has(w, one, config_map(), "ns", "a", "7");
    assert_true(own_waiter_is_clear(x));
    own_waiter_free(x);
    own_writes_free(w);
}

// What one key has written is news to the other, whichever of the answers comes first.
static void two_writers(void **unused)
{
    int seen = 0;
    (void)unused;
    struct own_writes *w = own_writes_new(NULL, NULL);
    struct own_waiter *x = own_waiter_new(w, on_seen, &seen), *y = own_waiter_new(w, on_seen, &seen);
    own_writes_begin(w, two, config_map(), "ns", "a", y);
    own_writes_end(w, two, config_map(), "ns", "a", "6");
    own_waiter_arm(y);
    assert_false(comes(w, "6"));
    assert_int_equal(seen, 1);
    own_writes_begin(w, one, config_map(), "ns", "a", x);
    own_writes_begin(w, two, config_map(), "ns", "a", y);
    own_waiter_arm(x);
    assert_true(comes(w, "7")); // or two's, as is decided by the answer
    assert_true(comes(w, "8"));
    assert_true(own_writes_end(w, one, config_map(), "ns", "a", "7")); // two has overwritten it
    assert_true(own_writes_end(w, two, config_map(), "ns", "a", "8")); // not knowing of it
    assert_int_equal(seen, 3);
    own_waiter_free(x);
    own_waiter_free(y);
    own_writes_free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answer_then_echo),
        cmocka_unit_test(echo_then_answer),
        cmocka_unit_test(foreign_change_while_in_flight),
        cmocka_unit_test(foreign_change_before_ours),
        cmocka_unit_test(two_at_once),
        cmocka_unit_test(coalesced_echo_is_foreign),
        cmocka_unit_test(shown_by_all),
        cmocka_unit_test(deletion),
        cmocka_unit_test(no_change_has_no_echo),
        cmocka_unit_test(two_writers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
