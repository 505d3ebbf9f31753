#include "kube/watch.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/log.h"
#include "kube/watch_impl.h"

const char *watch_state_name(enum watch_state s)
{
    static const char *const names[] = {
        [WATCH_IDLE] = "idle",         [WATCH_LISTING] = "listing",  [WATCH_OPENING] = "opening",
        [WATCH_WATCHING] = "watching", [WATCH_BACKOFF] = "back-off",
    };
    return names[s];
}

void watch_enter(struct watch *w, enum watch_state s)
{
    if (w->state == s)
        return;
    log_debug("watch changes its state", F_STR("kind", w->o.resource.gvk->text), F_STR("namespace", w->ns),
              F_STR("from", watch_state_name(w->state)), F_STR("to", watch_state_name(s)),
              F_STR("resource_version", w->rv));
    w->state = s;
}

void watch_emit(struct watch *w, enum watch_event_kind kind, struct object *o, const struct api_status *error)
{
    w->o.on_event(w->o.ud, &(struct watch_event){.kind = kind, .object = o, .error = error});
}

void watch_set_rv(struct watch *w, const char *rv)
{
    if (strcmp(w->rv, rv) == 0)
        return;
    free(w->rv);
    w->rv = xstrdup(rv);
}

void watch_skip_item(struct watch *w, const struct err *why)
{
    w->skipped++;
    log_debug("an object from the server can not be read and is passed over",
              F_STR("kind", w->o.resource.gvk->text), F_STR("error", why->text));
}

void watch_path(const struct watch *w, struct buf *query, struct buf *ret)
{
    if (w->labels != NULL)
        resource_query_add(query, "labelSelector", w->labels);
    if (w->fields != NULL)
        resource_query_add(query, "fieldSelector", w->fields);
    resource_path(&w->o.resource, w->ns, NULL, NULL, query->data, ret);
}

// ---- trying again

uint64_t watch_next_backoff(struct watch *w, const struct api_status *why)
{
    w->backoff_ms = w->backoff_ms == 0 ? WATCH_BACKOFF_MIN_MS : 2 * w->backoff_ms;
    if (w->backoff_ms > WATCH_BACKOFF_MAX_MS)
        w->backoff_ms = WATCH_BACKOFF_MAX_MS;
    uint64_t ms = random_jitter_ms(&w->random, w->backoff_ms, 0.2);
    if (why != NULL && why->retry_after_ms > 0 && (uint64_t)why->retry_after_ms > ms)
        ms = (uint64_t)why->retry_after_ms + random_below(&w->random, WATCH_BACKOFF_MIN_MS);
    return ms;
}

static void stop_all(struct watch *w)
{
    watch_list_cancel(w);
    watch_stream_close(w);
    loop_timer_stop(w->retry);
}

void watch_retry_in(struct watch *w, uint64_t ms)
{
    stop_all(w);
    watch_enter(w, WATCH_BACKOFF);
    loop_timer_start(w->retry, ms);
}

void watch_fail(struct watch *w, const struct api_status *why)
{
    uint64_t ms = watch_next_backoff(w, why);
    log_debug("watch failed and is tried again", F_STR("kind", w->o.resource.gvk->text),
              F_STR("namespace", w->ns), F_STR("error", why != NULL ? why->err.text : NULL),
              F_STR("next", w->need_list ? "list" : "watch"), F_INT("after_ms", (int64_t)ms));
    watch_retry_in(w, ms);
    if (why != NULL)
        watch_emit(w, WATCH_ERROR, NULL, why);
}

bool watch_is_gone(const struct api_status *s)
{
    return s->http == 410 || s->code == -ERR_GONE;
}

static void begin_list(struct watch *w)
{
    w->relists++;
    w->need_list = true;
    watch_enter(w, WATCH_LISTING);
    watch_emit(w, WATCH_INIT, NULL, NULL);
    if (w->watch_list_off)
        watch_list_begin(w);
    else
        watch_stream_open(w, true);
}

static void try(void *ud)
{
    struct watch *w = ud;
    stop_all(w);
    if (w->need_list)
        begin_list(w);
    else
        watch_stream_open(w, false);
}

void watch_complete(struct watch *w, const char *rv)
{
    watch_set_rv(w, rv);
    w->need_list = false;
    w->list_restarts = 0;
    w->whole = false;
    watch_emit(w, WATCH_INIT_DONE, NULL, NULL);
}

static void on_guard(void *ud)
{
    watch_stream_on_guard(ud);
}

// ---- life

static char *copy_text(const char *s)
{
    return s != NULL && s[0] != 0 ? xstrdup(s) : NULL;
}

struct watch *watch_new(const struct watch_options *o)
{
    ASSERT(o->as != NULL && o->on_event != NULL);
    struct watch *w = xcalloc(1, sizeof(*w));
    w->o = *o;
    w->ns = copy_text(o->ns);
    w->labels = copy_text(o->label_selector);
    w->fields = copy_text(o->field_selector);
    w->user = copy_text(o->as->user);
    w->as.user = w->user;
    w->o.as = &w->as;
    w->rv = xstrdup("");
    w->need_list = true;
    w->watch_list_off = o->no_watch_list;
    w->loop = client_loop(o->client);
    w->retry = loop_timer_new(w->loop, try, w);
    w->guard = loop_timer_new(w->loop, on_guard, w);
    random_init(&w->random, o->seed);
    return w;
}

void watch_start(struct watch *w)
{
    ASSERT(w->state == WATCH_IDLE);
    w->last_activity = loop_now_ms(w->loop);
    begin_list(w);
}

void watch_free(struct watch *w)
{
    if (w == NULL)
        return;
    stop_all(w);
    loop_timer_free(w->retry);
    loop_timer_free(w->guard);
    free(w->ns);
    free(w->labels);
    free(w->fields);
    free(w->user);
    free(w->rv);
    free(w->token);
    free(w->list_rv);
    free(w);
}

bool watch_is_listing(const struct watch *w)
{
    return w->need_list;
}

// From a later turn: it may be called from inside on_event.
void watch_relist(struct watch *w)
{
    if (w->state == WATCH_IDLE || w->need_list)
        return; // a list is under way or comes next
    w->need_list = true;
    if (w->state == WATCH_BACKOFF)
        return;
    loop_timer_start(w->retry, 0);
}

enum watch_state watch_state(const struct watch *w)
{
    return w->state;
}

const char *watch_resource_version(const struct watch *w)
{
    return w->rv;
}

uint64_t watch_last_activity_ms(const struct watch *w)
{
    return w->last_activity;
}

uint64_t watch_relists(const struct watch *w)
{
    return w->relists;
}

uint64_t watch_skipped(const struct watch *w)
{
    return w->skipped;
}

bool watch_list_refused(const struct watch *w)
{
    return w->watch_list_off;
}
