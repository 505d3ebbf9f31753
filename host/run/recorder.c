#include "run/recorder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include <uthash.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/strset.h"
#include "data/json_write.h"

enum {
    NOTE_MAX = 1024, // events.k8s.io/v1 refuses longer ones
    REASON_MAX = 128,
    QUEUE_MAX = 1000,
    BURST = 25,
    REFILL_MS = 5 * 60 * 1000,   // one more event of this object and reason
    SERIES_MS = 6 * 60 * 1000,   // equal events within this time are one series
    SERIES_WRITE_MS = 30 * 1000, // how often a series is written at most
    REMEMBERED_MAX = 4096,
};

// An event that was or is to be written, remembered so that equal ones only count.
struct entry {
    char *id;   // object, type, reason, note
    char *name; // of the Event
    struct object *about;
    char *type, *reason, *action, *note;
    int64_t first_us, last_us;
    unsigned count, written; // how many there were; how many the server knows
    uint64_t seen_ms;
    bool queued;
    TAILQ_ENTRY(entry) order; // of writing
    UT_hash_handle hh;
};
TAILQ_HEAD(entries, entry);

// Tokens of one object and reason.
struct bucket {
    char *id;
    unsigned tokens;
    uint64_t refilled_ms;
    UT_hash_handle hh;
};

struct recorder {
    struct recorder_options o;
    struct random random;
    struct entry *entries;
    struct bucket *buckets;
    struct entries queue;
    size_t queued;
    struct call *call; // one at a time: events never crowd out writes
    struct entry *writing;
    struct loop_timer *timer; // series that have grown, and what is old
    bool draining;
    struct series *sent, *failed, *dropped;
};

static const struct metric_def def_events = {
    "tidelock_events_total", "Kubernetes Events by what became of them.", METRIC_COUNTER, "result"};

static void next(struct recorder *r);

static void entry_free(struct recorder *r, struct entry *x)
{
    HASH_DEL(r->entries, x);
    if (x->queued)
        TAILQ_REMOVE(&r->queue, x, order);
    free(x->id);
    free(x->name);
    object_unref(x->about);
    free(x->type);
    free(x->reason);
    free(x->action);
    free(x->note);
    free(x);
}

static void enqueue(struct recorder *r, struct entry *x)
{
    if (!x->queued && x != r->writing) {
        TAILQ_INSERT_TAIL(&r->queue, x, order);
        x->queued = true;
        r->queued++;
    }
    next(r);
}

// Once in a while: series that have grown are written, what is old is forgotten.
static void on_timer(void *ud)
{
    struct recorder *r = ud;
    uint64_t now = loop_now_ms(r->o.loop);
    struct entry *x, *tmp;
    HASH_ITER (hh, r->entries, x, tmp) {
        if (x->count > x->written)
            enqueue(r, x);
        else if (now - x->seen_ms > SERIES_MS && x != r->writing && !x->queued)
            entry_free(r, x);
    }
    struct bucket *b, *next_bucket;
    HASH_ITER (hh, r->buckets, b, next_bucket) {
        if (now - b->refilled_ms > (uint64_t)BURST * REFILL_MS) { // full again
            HASH_DEL(r->buckets, b);
            free(b->id);
            free(b);
        }
    }
    if (HASH_COUNT(r->entries) > 0)
        loop_timer_start(r->timer, SERIES_WRITE_MS);
}

struct recorder *recorder_new(const struct recorder_options *o)
{
    struct recorder *r = xcalloc(1, sizeof *r);
    struct metric *events = metrics_add(o->metrics, &def_events);
    r->o = *o;
    random_init(&r->random, o->seed ^ 0x6576656e7473ULL);
    TAILQ_INIT(&r->queue);
    r->timer = loop_timer_new(o->loop, on_timer, r);
    r->sent = metric_series(events, "sent");
    r->failed = metric_series(events, "failed");
    r->dropped = metric_series(events, "dropped");
    return r;
}

void recorder_free(struct recorder *r)
{
    if (r == NULL)
        return;
    struct entry *x, *tmp;
    struct bucket *b, *next_bucket;
    if (r->call != NULL)
        call_cancel(r->call);
    HASH_ITER (hh, r->entries, x, tmp) {
        entry_free(r, x);
    }
    HASH_ITER (hh, r->buckets, b, next_bucket) {
        HASH_DEL(r->buckets, b);
        free(b->id);
        free(b);
    }
    loop_timer_free(r->timer);
    free(r);
}

// ---- the Event as the API takes it

// Does the server have events.k8s.io/v1? Otherwise core/v1 it is.
static struct resource event_resource(const struct recorder *r, bool *ret_core)
{
    struct resource res;
    *ret_core =
        discovery_find(r->o.discovery, gvk_parse("events.k8s.io/v1/Event", NULL), &res) == DISCOVERY_UNKNOWN;
    return (struct resource){.gvk = gvk_parse(*ret_core ? "v1/Event" : "events.k8s.io/v1/Event", NULL),
                             .plural = "events",
                             .namespaced = true};
}

static const char *event_namespace(const struct entry *x)
{
    const char *ns = object_namespace(x->about);
    return ns[0] == '\0' ? "default" : ns; // of what is cluster-scoped
}

static void write_object_reference(struct json_writer *w, const char *key, const struct object *o)
{
    jw_key(w, key);
    jw_object(w);
    jw_member_str(w, "apiVersion", object_gvk(o)->api_version);
    jw_member_str(w, "kind", object_gvk(o)->kind);
    jw_member_str(w, "name", object_name(o));
    if (object_namespace(o)[0] != '\0')
        jw_member_str(w, "namespace", object_namespace(o));
    jw_member_str(w, "uid", object_uid(o));
    jw_object_end(w);
}

static void write_series(struct json_writer *w, const struct entry *x)
{
    char last[CLOCK_TEXT_MAX];
    clock_format_micro_time(last, x->last_us);
    jw_key(w, "series");
    jw_object(w);
    jw_member_int(w, "count", x->count);
    jw_member_str(w, "lastObservedTime", last);
    jw_object_end(w);
}

static void write_core(struct json_writer *w, const struct recorder *r, const struct entry *x)
{
    char first[CLOCK_TEXT_MAX], last[CLOCK_TEXT_MAX];
    clock_format_time(first, x->first_us);
    clock_format_time(last, x->last_us);
    write_object_reference(w, "involvedObject", x->about);
    jw_member_str(w, "message", x->note);
    jw_member_str(w, "firstTimestamp", first);
    jw_member_str(w, "lastTimestamp", last);
    jw_member_int(w, "count", x->count);
    jw_key(w, "source");
    jw_object(w);
    jw_member_str(w, "component", r->o.instance);
    jw_object_end(w);
}

static char *event_body(const struct recorder *r, const struct entry *x, bool core, size_t *ret_len)
{
    struct buf body;
    struct json_writer w;
    char time[CLOCK_TEXT_MAX];
    buf_init(&body, 64 << 10);
    jw_init(&w, &body);
    clock_format_micro_time(time, x->first_us);
    jw_object(&w);
    jw_member_str(&w, "apiVersion", core ? "v1" : "events.k8s.io/v1");
    jw_member_str(&w, "kind", "Event");
    jw_key(&w, "metadata");
    jw_object(&w);
    jw_member_str(&w, "name", x->name);
    jw_member_str(&w, "namespace", event_namespace(x));
    jw_object_end(&w);
    jw_member_str(&w, "type", x->type);
    jw_member_str(&w, "reason", x->reason);
    if (core) {
        write_core(&w, r, x);
    } else {
        write_object_reference(&w, "regarding", x->about);
        jw_member_str(&w, "note", x->note);
        jw_member_str(&w, "action", x->action);
        jw_member_str(&w, "eventTime", time);
        jw_member_str(&w, "reportingController", "tidelock.dev/host");
        jw_member_str(&w, "reportingInstance", r->o.instance);
    }
    if (!core && x->count > 1)
        write_series(&w, x);
    jw_object_end(&w);
    return buf_take(&body, ret_len);
}

static char *series_body(const struct entry *x, bool core, size_t *ret_len)
{
    struct buf body;
    struct json_writer w;
    char last[CLOCK_TEXT_MAX];
    buf_init(&body, 4096);
    jw_init(&w, &body);
    clock_format_time(last, x->last_us);
    jw_object(&w);
    if (core) {
        jw_member_int(&w, "count", x->count);
        jw_member_str(&w, "lastTimestamp", last);
    } else {
        write_series(&w, x);
    }
    jw_object_end(&w);
    return buf_take(&body, ret_len);
}

static void on_answer(void *ud, struct client_result *res)
{
    struct recorder *r = ud;
    struct entry *x = r->writing;
    r->call = NULL;
    r->writing = NULL;
    series_inc(res->failure == NULL ? r->sent : r->failed);
    // Refused or lost: an Event is not worth a second try. A series whose Event is gone begins anew.
    if (res->failure != NULL && res->failure->http == 404 && x->written > 0)
        entry_free(r, x);
    else
        x->written = x->count;
    next(r);
}

static void next(struct recorder *r)
{
    struct entry *x = TAILQ_FIRST(&r->queue);
    bool core;
    size_t n;
    if (r->call != NULL || x == NULL || r->draining)
        return;
    TAILQ_REMOVE(&r->queue, x, order);
    x->queued = false;
    r->queued--;
    struct resource res = event_resource(r, &core);
    bool first = x->written == 0;
    char *body = first ? event_body(r, x, core, &n) : series_body(x, core, &n);
    struct buf path;
    buf_init(&path, 4096);
    resource_path(&res, event_namespace(x), first ? NULL : x->name, NULL, NULL, &path);
    r->writing = x;
    r->call = client_send(
        r->o.client,
        &(struct client_request){.method = first ? METHOD_POST : METHOD_PATCH,
                                 .path = path.data,
                                 .content_type = first ? "application/json" : "application/merge-patch+json",
                                 .body = body,
                                 .body_len = n,
                                 .as = &identity_host},
        on_answer, r);
    buf_fini(&path);
    free(body);
}

// ---- what is to be said

// One token of this object and reason; false when they are used up.
static bool take_token(struct recorder *r, const struct object *about, const char *reason)
{
    uint64_t now = loop_now_ms(r->o.loop);
    char *id = xasprintf("%s|%s", object_uid(about), reason);
    struct bucket *b;
    HASH_FIND_STR(r->buckets, id, b);
    if (b == NULL) {
        b = xcalloc(1, sizeof *b);
        b->id = id;
        b->tokens = BURST;
        b->refilled_ms = now;
        HASH_ADD_KEYPTR(hh, r->buckets, b->id, strlen(b->id), b);
    } else {
        free(id);
    }
    uint64_t more = (now - b->refilled_ms) / REFILL_MS;
    b->refilled_ms += more * REFILL_MS;
    b->tokens = b->tokens + more > BURST ? BURST : b->tokens + (unsigned)more;
    if (b->tokens == 0)
        return false;
    b->tokens--;
    return true;
}

static char *cut(const char *text, size_t max)
{
    size_t n = strlen(text);
    return xstrndup(text, n <= max ? n : str_utf8_cut(text, n, max));
}

static struct entry *entry_new(struct recorder *r, char *id, const struct object *about)
{
    struct entry *x = xcalloc(1, sizeof *x);
    char name[200];
    size_t n = str_utf8_cut(object_name(about), strlen(object_name(about)), 180);
    snprintf(name, sizeof name, "%.*s.%016llx", (int)n, object_name(about),
             (unsigned long long)random_u64(&r->random));
    x->id = id;
    x->name = xstrdup(name);
    x->about = object_ref((struct object *)about);
    HASH_ADD_KEYPTR(hh, r->entries, x->id, strlen(x->id), x);
    return x;
}

void recorder_event(struct recorder *r, const struct object *about, const char *type, const char *reason,
                    const char *action, const char *note)
{
    int64_t now_us = clock_wall_us(loop_clock(r->o.loop));
    if (r->draining)
        return;
    char *cut_note = cut(note[0] == '\0' ? reason : note, NOTE_MAX), *cut_reason = cut(reason, REASON_MAX);
    char *id = xasprintf("%s|%s|%s|%016llx", object_uid(about), type, cut_reason,
                         (unsigned long long)hash_str(cut_note));
    struct entry *x;
    HASH_FIND_STR(r->entries, id, x);
    if (x == NULL && (r->queued >= QUEUE_MAX || HASH_COUNT(r->entries) >= REMEMBERED_MAX ||
                      !take_token(r, about, cut_reason))) {
        series_inc(r->dropped);
        free(id);
        free(cut_note);
        free(cut_reason);
        return;
    }
    bool first = x == NULL;
    if (first) {
        x = entry_new(r, id, about);
        x->type = xstrdup(type);
        x->reason = cut_reason;
        x->action = xstrdup(action);
        x->note = cut_note;
        x->first_us = now_us;
    } else {
        free(id);
        free(cut_note);
        free(cut_reason);
    }
    x->count++;
    x->last_us = now_us;
    x->seen_ms = loop_now_ms(r->o.loop);
    if (first)
        enqueue(r, x);
    if (!loop_timer_active(r->timer))
        loop_timer_start(r->timer, SERIES_WRITE_MS);
}

void recorder_drain(struct recorder *r)
{
    r->draining = true;
    loop_timer_stop(r->timer);
}
