#include "apiserver/watch_hub.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strset.h"
#include "data/json_write.h"

enum { BOOKMARK_EVERY_MS = 60 * 1000, WATCH_SECONDS_MIN = 1800, FRAME_MAX = RESPONSE_BODY_MAX };

struct watcher {
    struct watch_hub *hub;
    TAILQ_ENTRY(watcher) link;
    const struct kind *kind;
    char *version; // by name: the kind's table may be made again
    struct filter filter;
    bool bookmarks;
    struct loop_timer *life;
    struct watch_sink sink;
};

struct watch_hub {
    struct apiserver *server;
    TAILQ_HEAD(watcher_list, watcher) watchers;
    struct loop_timer *bookmark_timer;
};

static void send_bookmarks(void *ud);

struct watch_hub *watch_hub_new(struct apiserver *s)
{
    struct watch_hub *h = xcalloc(1, sizeof(*h));
    h->server = s;
    TAILQ_INIT(&h->watchers);
    h->bookmark_timer = loop_timer_new(s->options.loop, send_bookmarks, h);
    return h;
}

static void watcher_free(struct watcher *w)
{
    TAILQ_REMOVE(&w->hub->watchers, w, link);
    loop_timer_free(w->life);
    filter_fini(&w->filter);
    free(w->version);
    free(w);
}

void watch_hub_free(struct watch_hub *h)
{
    if (h == NULL)
        return;
    while (!TAILQ_EMPTY(&h->watchers))
        watcher_free(TAILQ_FIRST(&h->watchers));
    loop_timer_free(h->bookmark_timer);
    free(h);
}

void watch_hub_attach(struct watcher *w, const struct watch_sink *sink)
{
    w->sink = *sink;
}

void watch_hub_close(struct watcher *w)
{
    if (w != NULL)
        watcher_free(w);
}

static void end_watcher(struct watcher *w)
{
    struct watch_sink sink = w->sink;
    watcher_free(w);
    if (sink.end != NULL)
        sink.end(sink.ud);
}

static void on_life_over(void *ud)
{
    end_watcher(ud);
}

void watch_hub_end_kind(struct watch_hub *h, const struct kind *k)
{
    for (struct watcher *w = TAILQ_FIRST(&h->watchers), *next; w != NULL; w = next) {
        next = TAILQ_NEXT(w, link);
        if (k == NULL || w->kind == k)
            end_watcher(w);
    }
}

// ---- frames

static void add_frame(struct buf *out, const char *type, const struct kind *k, const struct kind_version *as,
                      const struct storage_version *v)
{
    buf_addf(out, "{\"type\":\"%s\",\"object\":", type);
    handle_write_object(out, k, as, v);
    buf_add_str(out, "}\n");
}

static void add_bookmark(struct buf *out, const struct kind *k, const struct kind_version *as, uint64_t rv,
                         bool initial)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    jw_member_str(&w, "type", "BOOKMARK");
    jw_key(&w, "object");
    jw_object(&w);
    jw_member_str(&w, "kind", k->kind);
    jw_member_str(&w, "apiVersion", as->api_version);
    jw_key(&w, "metadata");
    jw_object(&w);
    char text[24];
    snprintf(text, sizeof(text), "%llu", (unsigned long long)rv);
    jw_member_str(&w, "resourceVersion", text);
    if (initial) {
        jw_key(&w, "annotations");
        jw_object(&w);
        jw_member_str(&w, "k8s.io/initial-events-end", "true");
        jw_object_end(&w);
    }
    jw_object_end(&w);
    jw_object_end(&w);
    jw_object_end(&w);
    buf_add_char(out, '\n');
}

// What an event is to one who sees only what the filter lets through.
static void add_event_frame(struct buf *out, const struct watcher *w, const struct kind_version *as,
                            const struct storage_event *ev)
{
    bool before = filter_matches(&w->filter, ev->key, ev->old);
    bool after = ev->type != STORAGE_DELETED && filter_matches(&w->filter, ev->key, ev->new);
    if (after)
        add_frame(out, before ? "MODIFIED" : "ADDED", w->kind, as, ev->new);
    else if (before)
        add_frame(out, "DELETED", w->kind, as, ev->new);
}

void watch_hub_publish(struct watch_hub *h, const struct kind *k, const struct storage_event *ev)
{
    struct buf frame;
    buf_init(&frame, FRAME_MAX);
    for (struct watcher *w = TAILQ_FIRST(&h->watchers), *next; w != NULL; w = next) {
        next = TAILQ_NEXT(w, link);
        const struct kind_version *as = w->kind == k ? kind_find_version(k, w->version) : NULL;
        if (as == NULL)
            continue;
        buf_reset(&frame);
        add_event_frame(&frame, w, as, ev);
        if (frame.len > 0 && w->sink.data != NULL)
            w->sink.data(w->sink.ud, frame.data, frame.len);
    }
    buf_fini(&frame);
}

static void send_bookmarks(void *ud)
{
    struct watch_hub *h = ud;
    struct buf frame;
    bool any = false;
    buf_init(&frame, FRAME_MAX);
    for (struct watcher *w = TAILQ_FIRST(&h->watchers), *next; w != NULL; w = next) {
        next = TAILQ_NEXT(w, link);
        const struct kind_version *as = kind_find_version(w->kind, w->version);
        if (!w->bookmarks || as == NULL)
            continue;
        any = true;
        buf_reset(&frame);
        add_bookmark(&frame, w->kind, as, h->server->resource_version, false);
        if (w->sink.data != NULL)
            w->sink.data(w->sink.ud, frame.data, frame.len);
    }
    buf_fini(&frame);
    if (any)
        loop_timer_start(h->bookmark_timer, BOOKMARK_EVERY_MS);
}

// ---- opening

struct open_options {
    bool from_start;  // all objects first
    bool initial_end; // a bookmark tells when they are through
    uint64_t resource_version;
    uint64_t seconds;
};

static int list_options_invalid(struct response *r, const char *field, const char *body)
{
    return failure_invalid(r, "meta.k8s.io", "ListOptions", "", field, "FieldValueForbidden", body);
}

static int read_initial_events(struct request *q, struct open_options *o, struct response *r)
{
    const char *match = route_param(&q->route, "resourceVersionMatch");
    bool given = route_param(&q->route, "sendInitialEvents") != NULL,
         wanted = route_flag(&q->route, "sendInitialEvents");
    if (given && !str_eq(match, "NotOlderThan"))
        return list_options_invalid(
            r, "resourceVersionMatch",
            "Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan");
    if (!given && match != NULL && match[0] != '\0')
        return list_options_invalid(
            r, "resourceVersionMatch",
            "Forbidden: resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided");
    // Asked for nothing, the server begins with what is there, and marks the end if bookmarks are wanted.
    bool from_start = given ? wanted : o->resource_version == 0;
    o->from_start = from_start;
    if (!from_start && o->resource_version == 0)
        o->resource_version = q->server->resource_version;
    o->initial_end = from_start && route_flag(&q->route, "allowWatchBookmarks");
    return 0;
}

static int read_options(struct request *q, struct open_options *o, struct response *r)
{
    const char *rv = route_param(&q->route, "resourceVersion"),
               *seconds = route_param(&q->route, "timeoutSeconds");
    char *end;
    *o = (struct open_options){0};
    if (rv != NULL && rv[0] != '\0') {
        errno = 0;
        o->resource_version = strtoull(rv, &end, 10);
        if (*end != '\0' || rv[0] < '0' || rv[0] > '9' || errno != 0)
            return failure_plain(
                r, 500, NULL,
                arena_printf(&q->arena,
                             "resourceVersion: Invalid value: \"%s\": strconv.ParseUint: parsing \"%s\": "
                             "invalid syntax",
                             rv, rv));
    }
    o->seconds = seconds == NULL ? 0 : strtoull(seconds, NULL, 10);
    return read_initial_events(q, o, r);
}

struct replay {
    struct watcher *watcher;
    const struct kind_version *as;
    struct buf *out;
};

static void replay_event(void *ud, const struct storage_event *ev)
{
    struct replay *p = ud;
    add_event_frame(p->out, p->watcher, p->as, ev);
}

static void add_initial(struct watcher *w, const struct kind_version *as, struct buf *out)
{
    struct storage_list l;
    storage_list(w->kind->storage, w->filter.prefix, 0, &l);
    for (size_t i = 0; i < l.count; i++) {
        if (filter_matches(&w->filter, l.items[i].key, l.items[i].version))
            add_frame(out, "ADDED", w->kind, as, l.items[i].version);
    }
    storage_list_fini(&l);
}

// An expired watch is told inside a 200.
static void add_gone(struct buf *out, uint64_t asked, uint64_t oldest)
{
    char text[80];
    snprintf(text, sizeof(text), "too old resource version: %llu (%llu)", (unsigned long long)asked,
             (unsigned long long)oldest);
    buf_add_str(out, "{\"type\":\"ERROR\",\"object\":");
    failure_print(out, &(struct failure){.code = 410, .reason = "Expired", .message = text});
    buf_add_str(out, "}\n");
}

static struct watcher *add_watcher(struct watch_hub *h, struct request *q, struct filter *f, uint64_t seconds)
{
    struct watcher *w = xcalloc(1, sizeof(*w));
    w->hub = h;
    w->kind = q->kind;
    w->version = xstrdup(q->version->name);
    w->filter = *f;
    w->bookmarks = route_flag(&q->route, "allowWatchBookmarks");
    w->life = loop_timer_new(h->server->options.loop, on_life_over, w);
    if (seconds == 0)
        seconds = WATCH_SECONDS_MIN + random_below(h->server->options.random, WATCH_SECONDS_MIN);
    loop_timer_start(w->life, seconds > UINT32_MAX ? UINT32_MAX : seconds * 1000);
    TAILQ_INSERT_TAIL(&h->watchers, w, link);
    if (w->bookmarks && !loop_timer_active(h->bookmark_timer))
        loop_timer_start(h->bookmark_timer, BOOKMARK_EVERY_MS);
    return w;
}

void watch_hub_open(struct watch_hub *h, struct request *q, struct response *r)
{
    struct open_options o;
    struct filter f;
    if (read_options(q, &o, r) < 0)
        return;
    if (filter_init(&f, q, r) < 0) {
        filter_fini(&f);
        return;
    }
    uint64_t oldest = storage_oldest(q->kind->storage);
    r->stream = true;
    if (!o.from_start && o.resource_version < oldest) {
        add_gone(&r->body, o.resource_version, oldest);
        filter_fini(&f);
        return;
    }
    struct watcher *w = add_watcher(h, q, &f, o.seconds);
    if (o.from_start) {
        add_initial(w, q->version, &r->body);
        if (o.initial_end)
            add_bookmark(&r->body, w->kind, q->version, h->server->resource_version, true);
    } else {
        struct replay p = {w, q->version, &r->body};
        storage_each_event_after(q->kind->storage, o.resource_version, replay_event, &p);
    }
    r->watcher = w;
}
