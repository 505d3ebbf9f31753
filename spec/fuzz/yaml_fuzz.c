// Every document is JSON; printed as YAML it reads back as one document of equal value. With less memory than
// it takes it is the same, or an error that says so.
#include <string.h>

#include "fuzz.h"

#include "base/assert.h"
#include "data/json.h"
#include "data/yaml.h"

static int keep(void *ud, const char *text, size_t n, size_t line, struct err *e)
{
    (void)line;
    (void)e;
    struct buf *all = ud;
    if (all->len > 0)
        buf_add_char(all, '\n');
    buf_add(all, text, n);
    return 0;
}

static int check(void *ud, const char *text, size_t n, size_t line, struct err *e)
{
    (void)ud;
    (void)line;
    struct json_doc *a, *b;
    ASSERT(json_parse(text, n, &a, e) == 0);
    struct buf yaml, back;
    buf_init(&yaml, 16 << 20);
    buf_init(&back, 16 << 20);
    if (yaml_from_json(text, n, &yaml, e) == 0) {
        ASSERT(yaml_to_json(yaml.data, yaml.len, keep, &back, e) == 0);
        ASSERT(json_parse(back.data, back.len, &b, e) == 0); // one document: two would not parse
        ASSERT(json_equal(json_root(a), json_root(b)));
        json_doc_free(b);
    }
    buf_fini(&yaml);
    buf_fini(&back);
    json_doc_free(a);
    return 0;
}

static int pass_over(void *ud, const char *text, size_t n, size_t line, struct err *e)
{
    (void)ud, (void)text, (void)n, (void)line, (void)e;
    return 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct err e;
    struct yaml_limits whole = {.memory = SIZE_MAX};
    int r = yaml_to_json_within((const char *)data, n, &whole, check, NULL, &e);
    struct yaml_limits half = {.memory = whole.took / 2};
    int again = yaml_to_json_within((const char *)data, n, &half, pass_over, NULL, &e);
    ASSERT(again == (half.took > half.memory ? -ERR_LIMIT : r));
    return 0;
}
