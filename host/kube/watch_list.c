// Lists in pages. What is gone is decided only by a complete list; one that breaks is begun again from its
// first page.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "kube/watch_impl.h"

enum { PATH_MAX_BYTES = 256 << 10 };

static void send_page(struct watch *w);

static void forget_pages(struct watch *w)
{
    free(w->token);
    free(w->list_rv);
    w->token = NULL;
    w->list_rv = NULL;
    w->pages = 0;
}

void watch_list_cancel(struct watch *w)
{
    if (w->list != NULL)
        call_cancel(w->list);
    w->list = NULL;
    forget_pages(w);
}

// A token that died costs a restart; when that happens again and again the list is asked for in one piece.
static void fail_list(struct watch *w, const struct api_status *why)
{
    if (w->token != NULL && (watch_is_gone(why) || why->http == 400)) {
        if (++w->list_restarts >= 2)
            w->whole = true;
    } else if (w->whole && why->code == -ERR_LIMIT) {
        w->whole = false;
        w->list_restarts = 0;
    }
    watch_fail(w, why);
}

static void fail_text(struct watch *w, enum err_code code, const char *text)
{
    struct api_status s = {.http = 200, .retry_after_ms = -1};
    s.code = err_set(&s.err, code, "list of %s: %s", w->o.resource.gvk->text, text);
    fail_list(w, &s);
}

static void take_items(struct watch *w, const json *items)
{
    for (struct json_iter i = json_iter(items); json_next(&i);) {
        struct object *o;
        struct err e;
        if (object_new(w->o.resource.gvk, i.value, &o, &e) != 0) {
            watch_skip_item(w, &e);
            continue;
        }
        watch_emit(w, WATCH_INIT_APPLY, o, NULL);
        object_unref(o);
    }
}

static void take_page(struct watch *w, const json *root)
{
    const json *items = json_get(root, "items");
    const json *metadata = json_get(root, "metadata");
    const char *rv = json_get_str(metadata, "resourceVersion");
    const char *token = json_get_str(metadata, "continue");
    if (!json_is_object(root) || !(json_is_null(items) || json_is_array(items))) {
        fail_text(w, ERR_PARSE, "the answer has no array of items");
        return;
    }
    if (++w->pages > WATCH_PAGES_MAX || (token != NULL && w->token != NULL && strcmp(token, w->token) == 0)) {
        fail_text(w, ERR_PARSE, "the server's pages do not end");
        return;
    }
    // Pages of different revisions: the first one's is the watch's, so that no change between them is missed.
    if (w->list_rv == NULL)
        w->list_rv = xstrdup(rv != NULL ? rv : "");
    free(w->token);
    w->token = token != NULL && token[0] != 0 ? xstrdup(token) : NULL;
    take_items(w, items);
    if (w->token != NULL) {
        send_page(w);
        return;
    }
    char *list_rv = w->list_rv;
    w->list_rv = NULL;
    watch_complete(w, list_rv);
    free(list_rv);
    watch_stream_open(w, false);
}

static void on_page(void *ud, struct client_result *res)
{
    struct watch *w = ud;
    w->list = NULL;
    w->last_activity = loop_now_ms(w->loop);
    if (res->failure != NULL)
        fail_list(w, res->failure);
    else
        take_page(w, res->doc != NULL ? json_root(res->doc) : NULL);
}

// No resourceVersion: the answer is as new as the server can tell, so the cache never steps back, unless the
// server itself did.
static void send_page(struct watch *w)
{
    struct buf query, path;
    char limit[16];
    buf_init(&query, PATH_MAX_BYTES);
    buf_init(&path, PATH_MAX_BYTES);
    if (!w->whole) {
        snprintf(limit, sizeof(limit), "%" PRIu32, w->o.page_size > 0 ? w->o.page_size : WATCH_PAGE_SIZE);
        resource_query_add(&query, "limit", limit);
    }
    if (w->token != NULL)
        resource_query_add(&query, "continue", w->token);
    watch_path(w, &query, &path);
    if (query.failed || path.failed) {
        fail_text(w, ERR_LIMIT, "the request would be too long");
    } else {
        w->list = client_send(
            w->o.client,
            &(struct client_request){
                .method = METHOD_GET, .path = path.data, .as = &w->as, .timeout_ms = WATCH_LIST_TIMEOUT_MS},
            on_page, w);
    }
    buf_fini(&query);
    buf_fini(&path);
}

void watch_list_begin(struct watch *w)
{
    forget_pages(w);
    send_page(w);
}
