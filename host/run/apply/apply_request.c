#include "run/apply/apply_request.h"

#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/strset.h"

static void count(const struct apply_op *o, const struct client_result *res)
{
    char code[12];
    snprintf(code, sizeof code, "%d", res->status);
    series_inc(metric_series(o->applier->writes, o->in->view->script->name, op_kind_name(o->op->kind), code));
    log_debug("write", F_STR("script", o->in->view->script->name), F_STR("key", o->in->key),
              F_STR("op", op_kind_name(o->op->kind)), F_STR("kind", o->op->resource.gvk->text),
              F_STR("namespace", o->op->ns), F_STR("name", o->op->name), F_INT("code", res->status),
              F_STR("error", res->failure == NULL ? NULL : res->failure->err.text));
}

// What the server warns of with a write is said once.
static void note_warning(struct apply_op *o, const struct client_result *res)
{
    enum { WARNINGS_MAX = 1000 };
    struct strset *said = &o->applier->warnings;
    if (res->warning == NULL || said->count >= WARNINGS_MAX || !strset_add(said, res->warning))
        return;
    log_warn("the server warns", F_STR("script", o->in->view->script->name), F_STR("key", o->in->key),
             F_STR("kind", o->op->resource.gvk->text), F_STR("name", o->op->name),
             F_STR("warning", res->warning));
}

static void on_answer(void *ud, struct client_result *res)
{
    struct apply_op *o = ud;
    if (o->writes) {
        count(o, res);
        note_warning(o, res);
        o->written |= res->failure == NULL;
    }
    o->then(o, res);
}

// Every request goes out here.
void apply_request_send(struct apply_op *o, const char *subresource, const char *query,
                        const struct client_request *request,
                        void (*then)(struct apply_op *o, struct client_result *res))
{
    const struct op *op = o->op;
    struct client_request r = *request;
    struct buf path;
    buf_init(&path, 64 << 10);
    resource_path(&op->resource, op->ns, op->name, subresource, query, &path);
    r.path = path.data;
    r.as = &o->in->view->script->as;
    o->writes = r.method != METHOD_GET;
    o->then = then;
    client_send(o->applier->o.client, &r, on_answer, o);
    buf_fini(&path);
}

void apply_request_get(struct apply_op *o, const char *subresource,
                       void (*then)(struct apply_op *o, struct client_result *res))
{
    apply_request_send(o, subresource, NULL, &(struct client_request){.method = METHOD_GET}, then);
}

void apply_request_patch(struct apply_op *o, const char *query, const char *content_type, const char *body,
                         size_t body_len, void (*then)(struct apply_op *o, struct client_result *res))
{
    apply_request_send(
        o, o->op->subresource, query,
        &(struct client_request){
            .method = METHOD_PATCH, .content_type = content_type, .body = body, .body_len = body_len},
        then);
}

char *apply_request_query(const struct op *op, bool force)
{
    struct buf query;
    buf_init(&query, 4096);
    resource_query_add(&query, "fieldManager", op->manager);
    if (force)
        resource_query_add(&query, "force", "true");
    return buf_take(&query, NULL);
}

bool apply_request_is_other_object(const struct api_status *why)
{
    return why->http == 404 || strstr(why->err.text, "uid mismatch") != NULL ||
           strstr(why->err.text, "UID in precondition") != NULL;
}
