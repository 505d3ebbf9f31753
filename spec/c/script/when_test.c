// The predicate of a script, when(old, new).
#include "script/script_support.h"

static void ask(const char *body, const char *old, const char *new, enum pass_end end, bool verdict,
                const char *error)
{
    char *text = xasprintf("return {subject = 'v1/Pod', reconcile = function() end, when = %s}", body);
    struct program_options o = {.main = {"p.lua", text, strlen(text)}};
    struct program *p;
    struct err e;
    assert_int_equal(program_new(&o, &p, &e), 0);
    assert_true(program_spec(p)->has_when);
    struct pass_runner *r = pass_runner_new(NULL);
    struct pass_output out;
    pass_run(r,
             &(struct pass_input){.program = p,
                                  .entry = "when",
                                  .old_json = old,
                                  .old_len = strlen(old),
                                  .object_json = new,
                                  .object_len = strlen(new)},
             &out);
    assert_int_equal(out.end, end);
    if (end == PASS_OK)
        assert_int_equal(out.verdict, verdict);
    if (error != NULL)
        assert_non_null(strstr(out.err.text, error));
    pass_output_fini(&out);
    pass_runner_free(r);
    program_unref(p);
    free(text);
}

#define ONE "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"n\":1}}"
#define TWO "{\"metadata\":{\"name\":\"a\"},\"spec\":{\"n\":2}}"

static void test_answers(void **state)
{
    (void)state;
    ask("function(old, new) return old.spec.n ~= new.spec.n end", ONE, TWO, PASS_OK, true, NULL);
    ask("function(old, new) return old.spec.n ~= new.spec.n end", ONE, ONE, PASS_OK, false, NULL);
    ask("function(old, new) return new.spec.n > old.spec.n end", TWO, ONE, PASS_OK, false, NULL);
    ask("function(old) old.spec.n = 9 return require('tidelock').get(old, 'spec.n') == 9 end", ONE, ONE,
        PASS_OK, true, NULL);
}

static void test_what_is_no_answer(void **state)
{
    (void)state;
    ask("function() end", ONE, TWO, PASS_RAISED, false, "when: must return true or false, got a nil");
    ask("function() return 1 end", ONE, TWO, PASS_RAISED, false, "got a number");
    ask("function(old) return old.status.phase == 'x' end", ONE, TWO, PASS_RAISED, false, "p.lua:1:");
    ask("function() while true do end end", ONE, TWO, PASS_DEADLINE, false, NULL);
    ask("function(old, new, world) return world.now() > 0 end", ONE, TWO, PASS_RAISED, false, "world");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_answers),
        cmocka_unit_test(test_what_is_no_answer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
