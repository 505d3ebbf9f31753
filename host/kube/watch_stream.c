// The streams of a reflector: opening, frames, and what the end of one means.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/strset.h"
#include "kube/watch_impl.h"

enum { PATH_MAX_BYTES = 256 << 10, TIMEOUT_MIN_S = 300, TIMEOUT_SPREAD_S = 270 };

// ---- what ends a stream

void watch_stream_close(struct watch *w)
{
    if (w->stream != NULL)
        client_stream_close(w->stream);
    w->stream = NULL;
    loop_timer_stop(w->guard);
}

static uint64_t lived_ms(const struct watch *w)
{
    return w->started ? loop_now_ms(w->loop) - w->opened_at : 0;
}

// The server does not send lists by watch, or not to the end: the usual list, from now on.
static void give_up_watch_list(struct watch *w, const char *why)
{
    log_debug("no list by watch from this server: lists and watches instead",
              F_STR("kind", w->o.resource.gvk->text), F_STR("why", why));
    w->watch_list_off = true;
    watch_retry_in(w, random_below(&w->random, WATCH_REOPEN_MS));
}

static bool refuses_watch_list(const struct api_status *s)
{
    switch (s->http) {
    case 401:
    case 403:
    case 404:
    case 408:
    case 410:
    case 429:
        return false;
    default:
        return (s->http >= 400 && s->http < 500) || s->http == 501 || s->code == -ERR_LIMIT;
    }
}

// The way to the server broke, not its willingness.
static bool is_cut(const struct api_status *s)
{
    return s->code == -ERR_NETWORK || s->code == -ERR_TIMEOUT || s->code == -ERR_TLS;
}

static void initial_failed(struct watch *w, const struct api_status *why)
{
    if (why != NULL && refuses_watch_list(why))
        give_up_watch_list(w, why->err.text);
    else if ((why == NULL || (w->started && !is_cut(why)) || watch_is_gone(why)) &&
             ++w->initial_failures >= 2)
        give_up_watch_list(w, "it ends before its end mark");
    else
        watch_fail(w, why);
}

// Is resuming at the last resourceVersion of no use after this?
static bool asks_for_list(struct watch *w, const struct api_status *why)
{
    uint64_t now = loop_now_ms(w->loop);
    if (watch_is_gone(why))
        return true;
    if (strcmp(why->cause, "ResourceVersionTooLarge") == 0) {
        if (w->too_large_since == 0)
            w->too_large_since = now > 0 ? now : 1;
        return now - w->too_large_since >= WATCH_TOO_LARGE_MS;
    }
    if (why->code == -ERR_LIMIT && why->http == 200)
        return ++w->too_long >= WATCH_SHORT_IN_A_ROW;
    return why->http >= 400 && why->http < 500 && why->http != 401 && why->http != 408 && why->http != 429;
}

static void broke(struct watch *w, const struct api_status *why)
{
    w->suspicious = true;
    if (lived_ms(w) >= WATCH_HEALTHY_MS)
        w->backoff_ms = 0;
    if (w->initial) {
        initial_failed(w, why);
        return;
    }
    if (asks_for_list(w, why))
        w->need_list = true;
    watch_fail(w, why);
}

static void broke_with(struct watch *w, enum err_code code, const char *text)
{
    struct api_status s = {.http = w->started ? 200 : 0, .retry_after_ms = -1};
    s.code = err_set(&s.err, code, "watch of %s: %s", w->o.resource.gvk->text, text);
    broke(w, &s);
}

// An orderly end is the usual one, by the server's time limit. One at once and without news is not: for a
// resourceVersion that is too old some servers say nothing else.
static void ended(struct watch *w)
{
    uint64_t lived = lived_ms(w);
    if (w->initial) {
        initial_failed(w, NULL);
        return;
    }
    if (lived >= WATCH_HEALTHY_MS)
        w->backoff_ms = 0;
    if (lived >= WATCH_SHORT_MS || w->news) {
        w->short_ends = 0;
        uint64_t pause = lived >= WATCH_SHORT_MS ? WATCH_REOPEN_MS : WATCH_BACKOFF_MIN_MS;
        watch_retry_in(w, random_jitter_ms(&w->random, pause, 0.8));
        return;
    }
    if (++w->short_ends % WATCH_SHORT_IN_A_ROW == 0)
        w->need_list = true;
    watch_fail(w, NULL);
}

static void on_end(void *ud, const struct api_status *why)
{
    struct watch *w = ud;
    w->stream = NULL;
    if (why != NULL)
        broke(w, why);
    else
        ended(w);
}

// ---- frames; each returns non-zero when the stream is closed

static int take_change(struct watch *w, const json *node, enum watch_event_kind kind)
{
    struct object *o;
    struct err e;
    if (object_new(w->o.resource.gvk, node, &o, &e) != 0) {
        watch_skip_item(w, &e);
        return 0;
    }
    w->news = true;
    if (w->initial) { // not in the order of revisions yet: the end mark tells where we are
        watch_emit(w, kind == WATCH_APPLY ? WATCH_INIT_APPLY : kind, o, NULL);
    } else {
        if (object_resource_version(o)[0] != 0)
            watch_set_rv(w, object_resource_version(o));
        watch_emit(w, kind, o, NULL);
    }
    object_unref(o);
    return 0;
}

static int on_change(struct watch *w, const json *node)
{
    if (w->initial && loop_now_ms(w->loop) - w->opened_at < WATCH_END_MARK_TOTAL_MS)
        loop_timer_start(w->guard, WATCH_END_MARK_QUIET_MS);
    return take_change(w, node, WATCH_APPLY);
}

static int on_delete(struct watch *w, const json *node)
{
    return take_change(w, node, WATCH_DELETE);
}

static int on_bookmark(struct watch *w, const json *node)
{
    const json *metadata = json_get(node, "metadata");
    const char *rv = json_get_str(metadata, "resourceVersion");
    bool end_mark =
        str_eq(json_get_str(json_get(metadata, "annotations"), "k8s.io/initial-events-end"), "true");
    if (rv == NULL || rv[0] == 0)
        return 0;
    if (w->initial) {
        if (!end_mark)
            return 0;
        w->initial = false;
        w->initial_failures = 0;
        w->news = true;
        loop_timer_stop(w->guard);
        watch_enter(w, WATCH_WATCHING);
        watch_complete(w, rv);
        return 0;
    }
    w->bookmarks_seen |= !end_mark;
    w->news |= strcmp(rv, w->rv) != 0;
    watch_set_rv(w, rv);
    return 0;
}

static int on_error(struct watch *w, const json *node)
{
    struct api_status s;
    api_status_from_json(node, &s);
    watch_stream_close(w);
    broke(w, &s);
    return 1;
}

static const struct {
    const char *type;
    int (*fn)(struct watch *w, const json *node);
} frame_types[] = {
    {"ADDED", on_change},      {"MODIFIED", on_change}, {"DELETED", on_delete},
    {"BOOKMARK", on_bookmark}, {"ERROR", on_error},
};

static int dispatch(struct watch *w, const json *frame)
{
    const char *type = json_get_str(frame, "type");
    if (type == NULL && w->initial && json_get(frame, "items") != NULL) {
        watch_stream_close(w);
        give_up_watch_list(w, "it answered with a plain list");
        return 1;
    }
    for (size_t i = 0; type != NULL && i < sizeof(frame_types) / sizeof(frame_types[0]); i++) {
        if (strcmp(type, frame_types[i].type) == 0)
            return frame_types[i].fn(w, json_get(frame, "object"));
    }
    log_debug("a watch's frame of an unknown type is passed over", F_STR("kind", w->o.resource.gvk->text),
              F_STR("type", type));
    return 0;
}

static int on_frame(void *ud, const char *text, size_t n)
{
    struct watch *w = ud;
    struct json_doc *d;
    struct err e;
    w->last_activity = loop_now_ms(w->loop);
    w->too_large_since = 0;
    w->too_long = 0;
    if (!w->initial) { // a sign of life: no probe, and no doubt about the server
        loop_timer_stop(w->guard);
        w->suspicious = false;
    }
    if (json_parse(text, n, &d, &e) != 0) {
        watch_stream_close(w);
        broke_with(w, ERR_PARSE, e.text);
        return 1;
    }
    int r = dispatch(w, json_root(d));
    json_doc_free(d);
    return r;
}

// ---- opening

static void on_start(void *ud)
{
    struct watch *w = ud;
    w->started = true;
    w->opened_at = w->last_activity = loop_now_ms(w->loop);
    loop_timer_stop(w->guard);
    if (w->initial)
        loop_timer_start(w->guard, WATCH_END_MARK_QUIET_MS);
    else if (w->suspicious || w->bookmarks_seen)
        loop_timer_start(w->guard, WATCH_PROBE_MS);
    if (!w->initial)
        watch_enter(w, WATCH_WATCHING);
}

void watch_stream_on_guard(struct watch *w)
{
    watch_stream_close(w);
    if (!w->started) {
        broke_with(w, ERR_TIMEOUT, "no answer within 30 s");
        return;
    }
    if (w->initial) {
        give_up_watch_list(w, "its end mark does not come");
        return;
    }
    // A server whose revision is behind ours accepts a watch and says nothing.
    log_debug("a reopened watch is silent: a list will tell", F_STR("kind", w->o.resource.gvk->text),
              F_STR("resource_version", w->rv));
    w->suspicious = false;
    w->need_list = true;
    watch_retry_in(w, random_below(&w->random, WATCH_REOPEN_MS));
}

static void add_query(struct watch *w, struct buf *query)
{
    char seconds[16];
    snprintf(seconds, sizeof(seconds), "%u",
             TIMEOUT_MIN_S + (unsigned)random_below(&w->random, TIMEOUT_SPREAD_S));
    resource_query_add(query, "watch", "1");
    resource_query_add(query, "allowWatchBookmarks", "true");
    resource_query_add(query, "timeoutSeconds", seconds);
    if (w->initial) {
        resource_query_add(query, "sendInitialEvents", "true");
        resource_query_add(query, "resourceVersionMatch", "NotOlderThan");
    } else if (w->rv[0] != 0) {
        resource_query_add(query, "resourceVersion", w->rv);
    }
}

void watch_stream_open(struct watch *w, bool initial)
{
    static const struct client_stream_callbacks callbacks = {
        .on_start = on_start, .on_frame = on_frame, .on_end = on_end};
    struct client_stream_callbacks cb = callbacks;
    struct buf query, path;
    cb.ud = w;
    w->initial = initial;
    w->started = false;
    w->news = false;
    w->opened_at = loop_now_ms(w->loop);
    buf_init(&query, PATH_MAX_BYTES);
    buf_init(&path, PATH_MAX_BYTES);
    add_query(w, &query);
    watch_path(w, &query, &path);
    watch_enter(w, initial ? WATCH_LISTING : WATCH_OPENING);
    if (query.failed || path.failed) {
        broke_with(w, ERR_LIMIT, "the request would be too long");
    } else {
        w->stream =
            client_watch(w->o.client, path.data, &w->as,
                         w->bookmarks_seen ? WATCH_IDLE_BOOKMARKS_MS : WATCH_IDLE_MS, WATCH_FRAME_MAX, &cb);
        loop_timer_start(w->guard, WATCH_ANSWER_MS);
    }
    buf_fini(&query);
    buf_fini(&path);
}
