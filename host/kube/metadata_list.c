#include "kube/metadata_list.h"

#include <stdlib.h>

#include "base/alloc.h"

enum {
    PAGE = 500,
    RESTARTS = 5, // a list that can not be finished within the server's memory
    TIMEOUT_MS = 60 * 1000,
};

struct metadata_list {
    struct metadata_list_options o;
    char *ns, *labels, *token; // token: of the next page; NULL: the first
    bool shown_all;
    unsigned restarts;
    struct call *call;
};

struct metadata_list *metadata_list_new(const struct metadata_list_options *o)
{
    struct metadata_list *l = xcalloc(1, sizeof *l);
    l->o = *o;
    l->ns = xstrdup(o->ns);
    l->labels = xstrdup(o->labels);
    return l;
}

void metadata_list_free(struct metadata_list *l)
{
    if (l == NULL)
        return;
    if (l->call != NULL)
        call_cancel(l->call);
    free(l->ns);
    free(l->labels);
    free(l->token);
    free(l);
}

static void take_token(struct metadata_list *l, const json *list)
{
    const char *token = json_str(json_path(list, "metadata", "continue", NULL));
    free(l->token);
    l->token = token == NULL || token[0] == '\0' ? NULL : xstrdup(token);
    l->shown_all = l->token == NULL;
}

static void on_answer(void *ud, struct client_result *res)
{
    struct metadata_list *l = ud;
    l->call = NULL;
    if (res->failure == NULL) {
        take_token(l, json_root(res->doc));
        l->o.on_page(l->o.ud, json_get(json_root(res->doc), "items"));
        return;
    }
    if (res->failure->http == 410 && l->token != NULL && l->restarts++ < RESTARTS) {
        free(l->token);
        l->token = NULL;
        metadata_list_next(l);
        return;
    }
    l->o.on_end(l->o.ud, res->failure);
}

static void end(void *ud)
{
    struct metadata_list *l = ud;
    l->call = NULL;
    l->o.on_end(l->o.ud, NULL);
}

static char *page_path(const struct metadata_list *l)
{
    struct buf query, path;
    buf_init(&query, 256 << 10);
    buf_init(&path, 256 << 10);
    buf_addf(&query, "limit=%d", PAGE);
    if (l->labels != NULL)
        resource_query_add(&query, "labelSelector", l->labels);
    if (l->token != NULL)
        resource_query_add(&query, "continue", l->token);
    resource_path(&l->o.resource, l->ns, NULL, NULL, query.data, &path);
    buf_fini(&query);
    return buf_take(&path, NULL);
}

void metadata_list_next(struct metadata_list *l)
{
    if (l->shown_all) {
        end(l);
        return;
    }
    char *path = page_path(l);
    l->call = client_send(
        l->o.client,
        &(struct client_request){
            .path = path,
            .accept = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            .as = l->o.as,
            .timeout_ms = TIMEOUT_MS},
        on_answer, l);
    free(path);
}
