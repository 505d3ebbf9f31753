#include "run/report/recorder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "base/strset.h"
#include "run/report/event_body.h"

#define COMBINED "(combined from similar events): "

enum {
    NOTE_MAX = 1024, // events.k8s.io/v1 refuses longer ones
    REASON_MAX = 128,
    NAME_MAX_LEN = 180, // of the object, within the Event's
    QUEUE_MAX = 1000,
    BURST = 25,
    REFILL_MS = 5 * 60 * 1000,   // one more event of this object and reason
    TEXTS_MAX = 10,              // different texts of one object, type and reason ...
    TEXTS_MS = 10 * 60 * 1000,   // ... within this time, before the rest is combined
    SERIES_MS = 6 * 60 * 1000,   // equal events within this time are one series
    SERIES_WRITE_MS = 30 * 1000, // how often a series is written at most
    TRIES_MAX = 5,
    PAUSE_MS = 5 * 1000, // after an answer that did not come, at least
    DOOMED_MS = 10 * 60 * 1000,
    REMEMBERED_MAX = 4096,
};

// An event that was or is to be written, remembered so that equal ones only count.
struct entry {
    char *id; // object, type, reason, note
    struct event ev;
    unsigned written; // how many the server knows of
    unsigned tries;
    uint64_t seen_ms;
    bool refused; // by the server: not written any more
    bool queued;
    TAILQ_ENTRY(entry) order; // of writing
    UT_hash_handle hh;
};
TAILQ_HEAD(entries, entry);

// What one object may still say with one type and reason.
struct budget {
    char *id;
    unsigned tokens;
    uint64_t refilled_ms;
    unsigned texts; // different ones since
    uint64_t texts_since_ms;
    UT_hash_handle hh;
};

// An object whose namespace takes no Events any more.
struct doomed {
    char *uid;
    uint64_t since_ms;
    UT_hash_handle hh;
};

struct recorder {
    struct recorder_options o;
    struct random random;
    struct entry *entries;
    struct budget *budgets;
    struct doomed *doomed;
    struct entries queue;
    size_t queued;
    struct call *call; // one at a time: events never crowd out writes
    struct entry *writing;
    unsigned sending;          // its count
    struct loop_timer *chores; // series that have grown, and what is old
    struct loop_timer *pause;  // after a lost answer
    bool draining, told_refusal;
    struct series *sent, *failed, *dropped;
};

static const struct metric_def def_events = {
    "tidelock_events_total", "Kubernetes Events by what became of them.", METRIC_COUNTER, "result"};

static void next(void *ud);

static void unqueue(struct recorder *r, struct entry *x)
{
    if (!x->queued)
        return;
    TAILQ_REMOVE(&r->queue, x, order);
    x->queued = false;
    r->queued--;
}

static void entry_free(struct recorder *r, struct entry *x)
{
    HASH_DEL(r->entries, x);
    unqueue(r, x);
    event_fini(&x->ev);
    free(x->id);
    free(x);
}

static void budget_free(struct recorder *r, struct budget *b)
{
    HASH_DEL(r->budgets, b);
    free(b->id);
    free(b);
}

static void doomed_free(struct recorder *r, struct doomed *d)
{
    HASH_DEL(r->doomed, d);
    free(d->uid);
    free(d);
}

static void enqueue(struct recorder *r, struct entry *x)
{
    if (!x->queued && x != r->writing && !x->refused) {
        TAILQ_INSERT_TAIL(&r->queue, x, order);
        x->queued = true;
        r->queued++;
    }
    next(r);
}

// ---- what is old

static void refill(struct budget *b, uint64_t now)
{
    uint64_t more = (now - b->refilled_ms) / REFILL_MS;
    b->refilled_ms += more * REFILL_MS;
    b->tokens = b->tokens + more > BURST ? BURST : b->tokens + (unsigned)more;
    if (now - b->texts_since_ms > TEXTS_MS) {
        b->texts = 0;
        b->texts_since_ms = now;
    }
}

static void forget_old(struct recorder *r, uint64_t now)
{
    struct budget *b, *next_budget;
    struct doomed *d, *next_doomed;
    HASH_ITER (hh, r->budgets, b, next_budget) {
        refill(b, now);
        if (b->tokens == BURST && b->texts == 0)
            budget_free(r, b);
    }
    HASH_ITER (hh, r->doomed, d, next_doomed) {
        if (now - d->since_ms > DOOMED_MS)
            doomed_free(r, d);
    }
}

// Once in a while: series that have grown are written, what is old is forgotten.
static void on_chores(void *ud)
{
    struct recorder *r = ud;
    uint64_t now = loop_now_ms(r->o.loop);
    struct entry *x, *tmp;
    HASH_ITER (hh, r->entries, x, tmp) {
        if (x->ev.count > x->written && !x->refused)
            enqueue(r, x);
        else if (now - x->seen_ms > SERIES_MS && x != r->writing && !x->queued)
            entry_free(r, x);
    }
    forget_old(r, now);
    if (r->entries != NULL || r->budgets != NULL || r->doomed != NULL)
        loop_timer_start(r->chores, SERIES_WRITE_MS);
}

// ---- life

struct recorder *recorder_new(const struct recorder_options *o)
{
    struct recorder *r = xcalloc(1, sizeof *r);
    struct metric *events = metrics_add(o->metrics, &def_events);
    r->o = *o;
    random_init(&r->random, o->seed ^ 0x6576656e7473ULL);
    TAILQ_INIT(&r->queue);
    r->chores = loop_timer_new(o->loop, on_chores, r);
    r->pause = loop_timer_new(o->loop, next, r);
    r->sent = metric_series(events, "sent");
    r->failed = metric_series(events, "failed");
    r->dropped = metric_series(events, "dropped");
    return r;
}

void recorder_free(struct recorder *r)
{
    if (r == NULL)
        return;
    struct entry *x, *next_entry;
    struct budget *b, *next_budget;
    struct doomed *d, *next_doomed;
    if (r->call != NULL)
        call_cancel(r->call);
    HASH_ITER (hh, r->entries, x, next_entry) {
        entry_free(r, x);
    }
    HASH_ITER (hh, r->budgets, b, next_budget) {
        budget_free(r, b);
    }
    HASH_ITER (hh, r->doomed, d, next_doomed) {
        doomed_free(r, d);
    }
    loop_timer_free(r->chores);
    loop_timer_free(r->pause);
    free(r);
}

void recorder_drain(struct recorder *r)
{
    r->draining = true;
    loop_timer_stop(r->chores);
    loop_timer_stop(r->pause);
}

// ---- writing

// The namespace goes, and the object with it: nothing about it will be taken any more.
static void doom(struct recorder *r, const char *uid)
{
    struct doomed *d;
    struct entry *x, *tmp;
    HASH_FIND_STR(r->doomed, uid, d);
    if (d == NULL && HASH_COUNT(r->doomed) < REMEMBERED_MAX) {
        d = xcalloc(1, sizeof *d);
        d->uid = xstrdup(uid);
        d->since_ms = loop_now_ms(r->o.loop);
        HASH_ADD_KEYPTR(hh, r->doomed, d->uid, strlen(d->uid), d);
    }
    HASH_ITER (hh, r->entries, x, tmp) {
        if (str_eq(x->ev.about_uid, uid)) {
            x->refused = true;
            unqueue(r, x);
        }
    }
}

static void tell_refusal(struct recorder *r, const struct api_status *why)
{
    if (!r->told_refusal)
        log_warn("Events can not be written", F_STR("error", why->err.text));
    r->told_refusal = true;
}

static void take_failure(struct recorder *r, struct entry *x, const struct api_status *why)
{
    bool lost = why->http == 0 || why->http == 429 || why->http >= 500;
    bool no_namespace = str_eq(why->cause, "NamespaceTerminating") ||
                        (why->http == 404 && str_eq(why->details_kind, "namespaces"));
    if (lost && ++x->tries < TRIES_MAX) {
        uint64_t ms = why->retry_after_ms > PAUSE_MS ? (uint64_t)why->retry_after_ms : PAUSE_MS;
        TAILQ_INSERT_HEAD(&r->queue, x, order);
        x->queued = true;
        r->queued++;
        loop_timer_start(r->pause, ms);
        return;
    }
    series_inc(r->failed);
    if (no_namespace) {
        doom(r, x->ev.about_uid);
    } else if (why->http == 404 && x->written > 0) {
        entry_free(r, x); // the Event is gone by now: the series begins anew
    } else {
        x->refused = true; // given up
        if (!lost)
            tell_refusal(r, why);
    }
}

static void on_answer(void *ud, struct client_result *res)
{
    struct recorder *r = ud;
    struct entry *x = r->writing;
    r->call = NULL;
    r->writing = NULL;
    if (res->failure == NULL) {
        series_inc(r->sent);
        x->tries = 0;
        x->written = r->sending;
        r->told_refusal = false;
    } else {
        take_failure(r, x, res->failure);
    }
    next(r);
}

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

static void next(void *ud)
{
    struct recorder *r = ud;
    struct entry *x = TAILQ_FIRST(&r->queue);
    bool core;
    size_t n;
    if (r->call != NULL || x == NULL || r->draining || loop_timer_active(r->pause))
        return;
    unqueue(r, x);
    struct resource res = event_resource(r, &core);
    bool first = x->written == 0;
    char *body = first ? event_body(&x->ev, r->o.instance, core, &n) : event_series_body(&x->ev, core, &n);
    struct buf path;
    buf_init(&path, 4096);
    resource_path(&res, event_namespace(&x->ev), first ? NULL : x->ev.name, NULL, NULL, &path);
    r->writing = x;
    r->sending = x->ev.count;
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

static struct budget *budget_of(struct recorder *r, const struct object *about, const char *type,
                                const char *reason)
{
    uint64_t now = loop_now_ms(r->o.loop);
    char *id = xasprintf("%s|%s|%s", object_uid(about), type, reason);
    struct budget *b;
    HASH_FIND_STR(r->budgets, id, b);
    if (b == NULL) {
        b = xcalloc(1, sizeof *b);
        *b = (struct budget){.id = id, .tokens = BURST, .refilled_ms = now, .texts_since_ms = now};
        HASH_ADD_KEYPTR(hh, r->budgets, b->id, strlen(b->id), b);
    } else {
        free(id);
        refill(b, now);
    }
    return b;
}

static char *cut(const char *text, size_t max)
{
    size_t n = strlen(text);
    return xstrndup(text, n <= max ? n : str_utf8_cut(text, n, max));
}

static struct entry *find(struct recorder *r, const struct event *ev, char **ret_id)
{
    struct entry *x;
    *ret_id = xasprintf("%s|%s|%s|%016llx", ev->about_uid, ev->type, ev->reason,
                        (unsigned long long)hash_str(ev->note));
    HASH_FIND_STR(r->entries, *ret_id, x);
    return x;
}

// The entry of the series that takes in what differs in text only; its note is that of the first.
static struct entry *find_combined(struct recorder *r, struct event *ev, char **ret_id)
{
    struct entry *x;
    *ret_id = xasprintf("%s|%s|%s|combined", ev->about_uid, ev->type, ev->reason);
    HASH_FIND_STR(r->entries, *ret_id, x);
    char *text = xasprintf(COMBINED "%s", ev->note);
    free(ev->note);
    ev->note = cut(text, NOTE_MAX);
    free(text);
    return x;
}

// Takes id and ev. NULL: there is no room for it.
static struct entry *entry_new(struct recorder *r, struct budget *b, char *id, struct event *ev)
{
    if (r->queued >= QUEUE_MAX || HASH_COUNT(r->entries) >= REMEMBERED_MAX || b->tokens == 0) {
        free(id);
        event_fini(ev);
        return NULL;
    }
    struct entry *x = xcalloc(1, sizeof *x);
    int n = (int)str_utf8_cut(ev->about_name, strlen(ev->about_name), NAME_MAX_LEN);
    b->tokens--;
    b->texts++;
    x->id = id;
    x->ev = *ev;
    x->ev.name = xasprintf("%.*s.%016llx", n, ev->about_name, (unsigned long long)random_u64(&r->random));
    HASH_ADD_KEYPTR(hh, r->entries, x->id, strlen(x->id), x);
    return x;
}

static bool is_doomed(const struct recorder *r, const struct object *about)
{
    struct doomed *d;
    HASH_FIND_STR(r->doomed, object_uid(about), d);
    return d != NULL;
}

void recorder_event(struct recorder *r, const struct object *about, const char *type, const char *reason,
                    const char *action, const char *note)
{
    if (r->draining)
        return;
    if (is_doomed(r, about)) {
        series_inc(r->dropped);
        return;
    }
    int64_t now_us = clock_wall_us(loop_clock(r->o.loop));
    struct event ev = {.type = xstrdup(type),
                       .reason = cut(reason[0] == '\0' ? "Unknown" : reason, REASON_MAX),
                       .action = xstrdup(action),
                       .first_us = now_us};
    char *id;
    ev.note = cut(note[0] == '\0' ? ev.reason : note, NOTE_MAX);
    event_about(&ev, about);
    struct budget *b = budget_of(r, about, type, ev.reason);
    struct entry *x = find(r, &ev, &id);
    if (x == NULL && b->texts >= TEXTS_MAX) {
        free(id);
        x = find_combined(r, &ev, &id);
    }
    bool first = x == NULL;
    if (first) {
        x = entry_new(r, b, id, &ev);
    } else {
        free(id);
        event_fini(&ev);
    }
    if (!loop_timer_active(r->chores))
        loop_timer_start(r->chores, SERIES_WRITE_MS);
    if (x == NULL) {
        series_inc(r->dropped);
        return;
    }
    x->ev.count++;
    x->ev.last_us = now_us;
    if (!x->refused) // or it may be tried again some time
        x->seen_ms = loop_now_ms(r->o.loop);
    if (first)
        enqueue(r, x);
}
