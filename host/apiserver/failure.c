#include "apiserver/failure.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "data/json_write.h"

static void write_causes(struct json_writer *w, const struct failure *f)
{
    if (f->cause_count == 0)
        return;
    jw_key(w, "causes");
    jw_array(w);
    for (size_t i = 0; i < f->cause_count; i++) {
        jw_object(w);
        if (f->causes[i].reason != NULL && f->causes[i].reason[0] != '\0')
            jw_member_str(w, "reason", f->causes[i].reason);
        jw_member_str(w, "message", f->causes[i].message);
        jw_member_str(w, "field", f->causes[i].field);
        jw_object_end(w);
    }
    jw_array_end(w);
}

static void write_details(struct json_writer *w, const struct failure *f)
{
    jw_key(w, "details");
    jw_object(w);
    if (f->name != NULL && f->name[0] != '\0')
        jw_member_str(w, "name", f->name);
    if (f->group != NULL && f->group[0] != '\0')
        jw_member_str(w, "group", f->group);
    jw_member_str(w, "kind", f->kind);
    jw_member_str(w, "uid", f->uid);
    write_causes(w, f);
    if (f->retry_after_s > 0)
        jw_member_int(w, "retryAfterSeconds", f->retry_after_s);
    jw_object_end(w);
}

void failure_print(struct buf *out, const struct failure *f)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    jw_member_str(&w, "kind", "Status");
    jw_member_str(&w, "apiVersion", "v1");
    jw_key(&w, "metadata");
    jw_object(&w);
    jw_member_str(&w, "continue", f->continue_);
    jw_object_end(&w);
    jw_member_str(&w, "status", "Failure");
    jw_member_str(&w, "message", f->message);
    if (f->reason != NULL && f->reason[0] != '\0')
        jw_member_str(&w, "reason", f->reason);
    if (f->has_details)
        write_details(&w, f);
    jw_member_int(&w, "code", f->code);
    jw_object_end(&w);
}

int failure_write(struct response *r, const struct failure *f)
{
    r->status = f->code;
    r->content_type = "application/json";
    r->retry_after_s = f->retry_after_s;
    buf_reset(&r->body);
    failure_print(&r->body, f);
    return -1;
}

int failure_plain(struct response *r, int code, const char *reason, const char *message)
{
    return failure_write(r, &(struct failure){.code = code, .reason = reason, .message = message});
}

int failure_page_not_found(struct response *r)
{
    r->status = 404;
    r->content_type = "text/plain; charset=utf-8";
    buf_reset(&r->body);
    buf_add_str(&r->body, "404 page not found\n");
    return -1;
}

int failure_not_found(struct response *r, const struct kind *k, const char *name)
{
    struct arena a;
    arena_init(&a);
    struct failure f = {.code = 404,
                        .reason = "NotFound",
                        .has_details = true,
                        .name = name,
                        .group = k->group,
                        .kind = k->plural};
    f.message = arena_printf(&a, "%s \"%s\" not found", k->resource, name);
    failure_write(r, &f);
    arena_fini(&a);
    return -1;
}

int failure_conflict(struct response *r, const struct kind *k, const char *name, const char *why)
{
    struct arena a;
    arena_init(&a);
    struct failure f = {.code = 409,
                        .reason = "Conflict",
                        .has_details = true,
                        .name = name,
                        .group = k->group,
                        .kind = k->plural};
    f.message = arena_printf(&a, "Operation cannot be fulfilled on %s \"%s\": %s", k->resource, name, why);
    failure_write(r, &f);
    arena_fini(&a);
    return -1;
}

int failure_bad_request(struct response *r, const char *fmt, ...)
{
    struct buf text;
    va_list ap;
    buf_init(&text, 1 << 20);
    va_start(ap, fmt);
    buf_vaddf(&text, fmt, ap);
    va_end(ap);
    failure_plain(r, 400, "BadRequest", text.data == NULL ? "" : text.data);
    buf_fini(&text);
    return -1;
}

int failure_not_implemented(struct response *r, const char *what)
{
    struct arena a;
    arena_init(&a);
    failure_plain(
        r, 501, "NotImplemented",
        arena_printf(&a, "the embedded API server does not do this: %s; a real kube-apiserver does", what));
    arena_fini(&a);
    return -1;
}

int failure_method(struct response *r, const struct kind *k, const char *verb)
{
    struct arena a;
    arena_init(&a);
    struct failure f = {.code = 405, .reason = "MethodNotAllowed", .has_details = true};
    f.message = "the server does not allow this method on the requested resource";
    if (k != NULL) {
        f.group = k->group;
        f.kind = k->plural;
        f.message = arena_printf(&a, "%s is not supported on resources of kind \"%s\"", verb, k->resource);
    }
    failure_write(r, &f);
    arena_fini(&a);
    return -1;
}

int failure_invalid(struct response *r, const char *group, const char *kind, const char *name,
                    const char *field, const char *reason, const char *body)
{
    struct arena a;
    arena_init(&a);
    struct failure_cause cause = {reason, body, field};
    struct failure f = {.code = 422,
                        .reason = "Invalid",
                        .has_details = true,
                        .name = name,
                        .group = group,
                        .kind = kind,
                        .causes = &cause,
                        .cause_count = 1};
    const char *full = group[0] == '\0' ? kind : arena_printf(&a, "%s.%s", kind, group);
    f.message = arena_printf(&a, "%s \"%s\" is invalid: %s: %s", full, name, field, body);
    failure_write(r, &f);
    arena_fini(&a);
    return -1;
}

int failure_apply_conflict(struct response *r, const struct managed_conflicts *c)
{
    struct arena a;
    arena_init(&a);
    struct failure_cause *causes = arena_zalloc(&a, c->count * sizeof(*causes));
    struct buf text;
    buf_init(&text, 1 << 20);
    if (c->count == 1)
        buf_addf(&text, "Apply failed with 1 conflict: conflict with %s: %s", c->items[0].manager,
                 c->items[0].path);
    else
        buf_addf(&text, "Apply failed with %zu conflicts: ", c->count);
    for (size_t i = 0; i < c->count; i++) {
        const struct managed_conflict *it = &c->items[i];
        causes[i] = (struct failure_cause){"FieldManagerConflict",
                                           arena_printf(&a, "conflict with %s", it->manager), it->path};
        if (c->count == 1)
            continue;
        if (i == 0 || strcmp(c->items[i - 1].manager, it->manager) != 0)
            buf_addf(&text, "%sconflicts with %s:", i == 0 ? "" : "\n", it->manager);
        buf_addf(&text, "\n- %s", it->path);
    }
    failure_write(r, &(struct failure){.code = 409,
                                       .reason = "Conflict",
                                       .message = text.data,
                                       .has_details = true,
                                       .causes = causes,
                                       .cause_count = c->count});
    buf_fini(&text);
    arena_fini(&a);
    return -1;
}
