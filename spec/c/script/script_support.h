// Runs one script text as a pass, for the tests of this folder. Everything inline (header only): each test is
// one program.
#ifndef SPEC_SCRIPT_SUPPORT_H
#define SPEC_SCRIPT_SUPPORT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "script/pass.h"

// For tests of the watchdog, which stops passes by signals.
static inline void support_skip_without_signals(void)
{
#ifdef __SANITIZE_THREAD__
    print_message("skipped: ThreadSanitizer defers the watchdog's signals\n");
    skip();
#endif
}

// A world with two pods, one ConfigMap text and a log that is kept.
struct fake_world {
    int answer; // of get and list: 0 or -ERR_...
    char last_kind[128], last_ns[128], last_labels[256], last_fields[256], last_owner[128];
    char log[1024];
};

static const char fake_pod_a[] =
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"a\",\"uid\":\"u-a\"},"
    "\"spec\":{\"containers\":[],\"nodeName\":\"n1\"}}";
static const char fake_pod_b[] =
    "{\"apiVersion\":\"v1\",\"kind\":\"Pod\",\"metadata\":{\"name\":\"b\",\"uid\":\"u-b\"},"
    "\"spec\":{\"containers\":[{\"name\":\"c\",\"image\":\"i\"}],\"big\":9007199254740993}}";

static inline int fake_get(void *ud, const char *kind, const char *name, const char *ns,
                           struct world_object *ret, struct err *e)
{
    struct fake_world *w = ud;
    snprintf(w->last_kind, sizeof(w->last_kind), "%s", kind);
    snprintf(w->last_ns, sizeof(w->last_ns), "%s", ns != NULL ? ns : "");
    if (w->answer != 0)
        return err_set(e, (enum err_code) - w->answer, "%s: answer of the test", kind);
    if (strcmp(name, "a") == 0)
        *ret = (struct world_object){fake_pod_a, strlen(fake_pod_a)};
    return 0;
}

static inline int fake_list(void *ud, const struct world_query *q, struct world_list *ret, struct err *e)
{
    struct fake_world *w = ud;
    static struct world_object items[2];
    items[0] = (struct world_object){fake_pod_a, strlen(fake_pod_a)};
    items[1] = (struct world_object){fake_pod_b, strlen(fake_pod_b)};
    snprintf(w->last_kind, sizeof(w->last_kind), "%s", q->kind);
    snprintf(w->last_ns, sizeof(w->last_ns), "%s", q->ns != NULL ? q->ns : "");
    snprintf(w->last_labels, sizeof(w->last_labels), "%s", q->labels != NULL ? q->labels : "");
    snprintf(w->last_fields, sizeof(w->last_fields), "%s", q->fields != NULL ? q->fields : "");
    snprintf(w->last_owner, sizeof(w->last_owner), "%s", q->owner_uid != NULL ? q->owner_uid : "");
    if (w->answer != 0)
        return err_set(e, (enum err_code) - w->answer, "%s: answer of the test", q->kind);
    *ret = (struct world_list){items, 2};
    return 0;
}

static inline int fake_children(void *ud, const char *kind, struct world_list *ret, struct err *e)
{
    (void)ud, (void)kind, (void)e;
    *ret = (struct world_list){0};
    return 0;
}

static inline const char *fake_data(void *ud, const char *key, size_t *ret_len)
{
    (void)ud;
    if (strcmp(key, "motd") != 0)
        return NULL;
    *ret_len = 5;
    return "hello";
}

static inline void fake_log(void *ud, const char *level, const char *message, const char *fields)
{
    struct fake_world *w = ud;
    snprintf(w->log, sizeof(w->log), "%s %.200s %s", level, message, fields != NULL ? fields : "-");
}

static inline int fake_secret(void *ud, const char *name, int length, const char *charset, char *out,
                              struct err *e)
{
    (void)ud, (void)name, (void)charset, (void)e;
    memset(out, 's', (size_t)length);
    out[length] = 0;
    return 0;
}

// The only child is pod a.
static inline int fake_child(void *ud, const char *api_version, const char *kind, const char *ns,
                             const char *name, struct world_object *ret, struct err *e)
{
    struct fake_world *w = ud;
    (void)e;
    snprintf(w->last_kind, sizeof(w->last_kind), "%s/%s", api_version, kind);
    snprintf(w->last_ns, sizeof(w->last_ns), "%s", ns != NULL ? ns : "");
    if (strcmp(name, "a") == 0)
        *ret = (struct world_object){fake_pod_a, strlen(fake_pod_a)};
    return 0;
}

static const struct world_ops fake_ops = {fake_get, fake_list,   fake_children, fake_data,
                                          fake_log, fake_secret, fake_child};

static const char fake_subject[] =
    "{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"s\","
    "\"namespace\":\"default\",\"uid\":\"u-s\"},\"data\":{\"k\":\"v\"},\"list\":[],\"map\":{}}";

// A program whose reconcile has `body`.
static inline struct program *support_program(const char *body)
{
    char *text =
        xasprintf("return {subject = 'v1/ConfigMap', reconcile = function(object, world)\n%s\nend}", body);
    struct program_options o = {.main = {"t.lua", text, strlen(text)}};
    struct program *p = NULL;
    struct err e = {0};
    if (program_new(&o, &p, &e) < 0)
        fail_msg("%s\nin: %s", e.text, body);
    free(text);
    return p;
}

static inline void support_run(struct pass_runner *r, const struct program *p, struct fake_world *w,
                               const struct pass_limits *limits, struct pass_output *ret)
{
    struct pass_input in = {.program = p,
                            .entry = "reconcile",
                            .object_json = fake_subject,
                            .object_len = strlen(fake_subject),
                            .env_json = "{\"name\":\"dev\"}",
                            .now_us = 1700000000500000,
                            .world = &fake_ops,
                            .ud = w};
    if (limits != NULL)
        in.limits = *limits;
    pass_run(r, &in, ret);
}

// Runs the body inline and wants that end; the error's text must contain `text` (NULL: whatever).
static inline void support_end(const char *body, enum pass_end end, const char *text)
{
    struct program *p = support_program(body);
    struct pass_runner *r = pass_runner_new(NULL);
    struct fake_world w = {0};
    struct pass_output out;
    support_run(r, p, &w, NULL, &out);
    if (out.end != end)
        fail_msg("ended %s, not %s: %s\nin: %s", pass_end_name(out.end), pass_end_name(end), out.err.text,
                 body);
    if (text != NULL && strstr(out.err.text, text) == NULL)
        fail_msg("'%s' is not in '%s'\nin: %s", text, out.err.text, body);
    pass_output_fini(&out);
    pass_runner_free(r);
    program_unref(p);
}

// Runs the body, which returns one text, and compares it.
static inline void support_value(const char *body, const char *value)
{
    char *whole = xasprintf("local function f() %s end return {status = {v = f()}}", body);
    struct program *p = support_program(whole);
    struct pass_runner *r = pass_runner_new(NULL);
    struct fake_world w = {0};
    struct pass_output out;
    support_run(r, p, &w, NULL, &out);
    char *want = xasprintf("{\"status\":{\"v\":%s}}", value);
    if (out.end != PASS_OK)
        fail_msg("ended %s: %s\nin: %s", pass_end_name(out.end), out.err.text, body);
    if (strcmp(out.result.data, want) != 0)
        fail_msg("%s, not %s\nin: %s", out.result.data, want, body);
    free(want);
    free(whole);
    pass_output_fini(&out);
    pass_runner_free(r);
    program_unref(p);
}

#endif
