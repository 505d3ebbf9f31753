#include "kube/api_status.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/strset.h"

static struct api_status read(int http, const char *body, int64_t retry_after_ms)
{
    struct transport_response r = {.status = http,
                                   .content_type = "",
                                   .retry_after_ms = retry_after_ms,
                                   .body = body,
                                   .body_len = strlen(body)};
    struct api_status s;
    api_status_from_response(&r, &s);
    return s;
}

static void test_status_body(void **state)
{
    (void)state;
    struct api_status s =
        read(404,
             "{\"kind\":\"Status\",\"message\":\"namespaces \\\"x\\\" not found\",\"reason\":"
             "\"NotFound\",\"details\":{\"name\":\"x\",\"kind\":\"namespaces\"},\"code\":404}",
             -1);
    assert_int_equal(s.http, 404);
    assert_int_equal(s.code, -ERR_NOT_FOUND);
    assert_int_equal(s.err.code, -ERR_NOT_FOUND);
    assert_string_equal(s.reason, "NotFound");
    assert_string_equal(s.details_kind, "namespaces");
    assert_string_equal(s.err.text, "namespaces \"x\" not found");
    assert_int_equal(s.retry_after_ms, -1);
    assert_true(s.has_reason);
}

static void test_causes(void **state)
{
    (void)state;
    struct api_status s = read(
        409,
        "{\"kind\":\"Status\",\"reason\":\"Conflict\",\"message\":\"m\",\"details\":{\"causes\":[{\"reason\":"
        "\"FieldManagerConflict\",\"message\":\"conflict with "
        "\\\"m1\\\"\",\"field\":\".spec.num\"}]},\"code\":409}",
        -1);
    assert_int_equal(s.code, -ERR_CONFLICT);
    assert_true(api_status_is_conflict_with_manager(&s));
    s = read(409, "{\"kind\":\"Status\",\"reason\":\"AlreadyExists\",\"message\":\"m\",\"code\":409}", -1);
    assert_int_equal(s.code, -ERR_EXISTS);
    assert_false(api_status_is_conflict_with_manager(&s));
    s = read(403,
             "{\"kind\":\"Status\",\"reason\":\"Forbidden\",\"message\":\"m\",\"details\":{\"causes\":[{"
             "\"reason\":"
             "\"NamespaceTerminating\"}]}}",
             -1);
    assert_string_equal(s.cause, "NamespaceTerminating");
    assert_int_equal(s.code, -ERR_FORBIDDEN);
}

static void test_500_without_reason(void **state)
{
    (void)state;
    struct api_status s =
        read(500, "{\"kind\":\"Status\",\"message\":\".spec.nope: field not declared\",\"code\":500}", -1);
    assert_int_equal(s.code, -ERR_INTERNAL);
    assert_false(s.has_reason);
    assert_string_equal(s.err.text, ".spec.nope: field not declared");
}

static void test_retry_after(void **state)
{
    (void)state;
    const char *nine = "{\"kind\":\"Status\",\"message\":\"m\",\"details\":{\"retryAfterSeconds\":9}}";
    assert_int_equal(read(429, nine, 1000).retry_after_ms, 9000);
    assert_int_equal(read(429, nine, 12000).retry_after_ms, 12000);
    assert_int_equal(read(429, nine, -1).retry_after_ms, 9000);
    assert_int_equal(read(429, "", 7000).retry_after_ms, 7000);
    assert_int_equal(read(429, "", INT64_MAX).retry_after_ms, 60000);
    assert_int_equal(
        read(429, "{\"kind\":\"Status\",\"details\":{\"retryAfterSeconds\":9223372036854775807}}", -1)
            .retry_after_ms,
        60000);
    assert_int_equal(
        read(429, "{\"kind\":\"Status\",\"details\":{\"retryAfterSeconds\":-5}}", -1).retry_after_ms, -1);
    assert_int_equal(read(503, "", 0).retry_after_ms, 0);
}

static void test_plain_text(void **state)
{
    (void)state;
    struct api_status s = read(429, "Too many requests, please try again later.\n", -1);
    assert_int_equal(s.code, -ERR_TOO_MANY);
    assert_string_equal(s.err.text, "HTTP 429: Too many requests, please try again later.");
    s = read(
        503,
        "<html>\r\n<head><title>503</title></head><body bgcolor=\"white\">Service\x01 down</body></html>",
        -1);
    assert_int_equal(s.code, -ERR_UNAVAILABLE);
    assert_string_equal(s.err.text, "HTTP 503: 503 Service down");
    assert_int_equal(read(502, "", -1).code, -ERR_UNAVAILABLE);
    assert_int_equal(read(504, "", -1).code, -ERR_TIMEOUT);
    assert_int_equal(read(405, "", -1).code, -ERR_UNSUPPORTED);
    assert_int_equal(read(410, "null", -1).code, -ERR_GONE);
    assert_int_equal(read(401, "", -1).code, -ERR_UNAUTHORIZED);
    assert_int_equal(read(404, "404 page not found", -1).code, -ERR_NOT_FOUND);
    assert_false(read(404, "404 page not found", -1).has_reason);
    assert_string_equal(read(500, "\xff\xfe\xff", -1).err.text, "HTTP 500 without a readable body");
    char longtext[5000];
    memset(longtext, 'x', sizeof(longtext));
    longtext[4999] = '\0';
    assert_true(strlen(read(500, longtext, -1).err.text) < 300);
    for (size_t i = 0; i + 1 < sizeof(longtext); i++) // a character that the cut would halve
        longtext[i] = "\xe2\x9c\x93"[i % 3];
    s = read(500, longtext, -1);
    assert_true(strlen(s.err.text) > 200);
}

static void test_wrong_types(void **state)
{
    (void)state;
    static const char *const odd[] = {
        "null",
        "[]",
        "{}",
        "7",
        "\"x\"",
        "{\"kind\":7,\"message\":null}",
        "{\"kind\":\"Status\"}",
        "{\"kind\":\"Status\",\"message\":7,\"reason\":[],\"details\":null,\"code\":\"x\"}",
        "{\"kind\":\"Status\",\"message\":\"\",\"details\":{\"causes\":{},\"kind\":1,\"retryAfterSeconds\":"
        "\"1\"}}",
        "{\"kind\":\"Status\",\"details\":{\"causes\":[null]}}",
    };
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        struct api_status s = read(409, odd[i], -1);
        assert_int_equal(s.code, -ERR_CONFLICT);
        assert_true(s.err.text[0] != '\0');
    }
    char body[400];
    memset(body, 0, sizeof(body));
    strcpy(body, "{\"kind\":\"Status\",\"reason\":\"");
    memset(body + strlen(body), 'r', 200);
    strcat(body, "\"}");
    assert_int_equal(strlen(read(400, body, -1).reason), 63);
}

// What is wrong stands at the end, after the whole value.
static void test_long_messages_lose_their_middle(void **state)
{
    (void)state;
    char body[4096];
    int n = snprintf(body, sizeof body,
                     "{\"kind\":\"Status\",\"reason\":\"Invalid\",\"message\":\"spec.template: ");
    for (int i = 0; i < 1000; i++)
        n += snprintf(body + n, sizeof body - (size_t)n, "\u00e9");
    snprintf(body + n, sizeof body - (size_t)n, ": field is immutable\",\"code\":422}");
    struct api_status s = read(422, body, -1);
    assert_non_null(strstr(s.err.text, "spec.template: "));
    assert_non_null(strstr(s.err.text, " ... "));
    assert_non_null(strstr(s.err.text, "field is immutable"));
    assert_in_range(strlen(s.err.text), 500, 600);
    assert_true(str_is_utf8(s.err.text, strlen(s.err.text)));
}

static void test_no_answer(void **state)
{
    (void)state;
    struct transport_response r = {.content_type = "", .retry_after_ms = -1, .sent_maybe = true};
    err_set(&r.err, ERR_TLS, "certificate has expired");
    struct api_status s;
    api_status_from_response(&r, &s);
    assert_int_equal(s.http, 0);
    assert_int_equal(s.code, -ERR_TLS);
    assert_true(s.sent_maybe);
    assert_string_equal(s.err.text, "certificate has expired");
    r.status = 200; // a stream that broke
    err_set(&r.err, ERR_NETWORK, "reset");
    api_status_from_response(&r, &s);
    assert_int_equal(s.code, -ERR_NETWORK);
    assert_int_equal(s.http, 200);
}

static void test_watch_error_frame(void **state)
{
    (void)state;
    static const char text[] =
        "{\"kind\":\"Status\",\"reason\":\"Expired\",\"message\":\"too old\",\"code\":410}";
    struct json_doc *d;
    assert_int_equal(json_parse(text, strlen(text), &d, NULL), 0);
    struct api_status s;
    api_status_from_json(json_root(d), &s);
    assert_int_equal(s.http, 410);
    assert_int_equal(s.code, -ERR_GONE);
    json_doc_free(d);
    api_status_from_json(NULL, &s);
    assert_int_equal(s.code, -ERR_INTERNAL);
    assert_int_equal(s.http, 500);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_status_body),        cmocka_unit_test(test_causes),
        cmocka_unit_test(test_500_without_reason), cmocka_unit_test(test_retry_after),
        cmocka_unit_test(test_plain_text),         cmocka_unit_test(test_wrong_types),
        cmocka_unit_test(test_no_answer),          cmocka_unit_test(test_long_messages_lose_their_middle),
        cmocka_unit_test(test_watch_error_frame),
    };
    return cmocka_run_group_tests_name("api_status", tests, NULL, NULL);
}
