#include "run/controller/departures.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "base/random.h"
#include "base/strset.h"

enum { AT_ONCE = 4, BUSY_MS = 200, BACKOFF_MS = 500, BACKOFF_MAX_MS = 128 * 1000 };

struct departure {
    struct departures *set;
    struct object *last; // +1
    const char *uid;
    struct call *call;
    unsigned failures; // in a row
    uint64_t due_ms;   // not asked before
    UT_hash_handle hh;
};

struct departures {
    struct departures_options o;
    struct departure *all; // in order of coming
    size_t asking;
    unsigned failures; // of the server's, in a row: it answers nobody
    uint64_t due_ms;   // nobody is asked for before
    struct loop_timer *timer;
    struct random random;
};

static void ask_all(void *ud);

struct departures *departures_new(const struct departures_options *o)
{
    struct departures *d = xcalloc(1, sizeof *d);
    d->o = *o;
    d->timer = loop_timer_new(client_loop(o->client), ask_all, d);
    random_init(&d->random, o->seed);
    return d;
}

static void drop(struct departure *x)
{
    if (x->call != NULL) {
        call_cancel(x->call);
        x->set->asking--;
    }
    HASH_DEL(x->set->all, x);
    object_unref(x->last);
    free(x);
}

void departures_free(struct departures *d)
{
    struct departure *x, *tmp;
    if (d == NULL)
        return;
    HASH_ITER (hh, d->all, x, tmp) {
        drop(x);
    }
    loop_timer_free(d->timer);
    free(d);
}

static struct departure *find(const struct departures *d, const char *uid)
{
    struct departure *x;
    HASH_FIND_STR(d->all, uid, x);
    return x;
}

void departures_drop(struct departures *d, const char *uid)
{
    struct departure *x = find(d, uid);
    if (x != NULL)
        drop(x);
}

void departures_each(const struct departures *d, void (*fn)(void *arg, const char *uid), void *arg)
{
    for (struct departure *x = d->all; x != NULL; x = x->hh.next)
        fn(arg, x->uid);
}

void departures_add(struct departures *d, struct object *last)
{
    if (find(d, object_uid(last)) != NULL)
        return;
    struct departure *x = xcalloc(1, sizeof *x);
    x->set = d;
    x->last = object_ref(last);
    x->uid = object_uid(x->last);
    HASH_ADD_KEYPTR(hh, d->all, x->uid, strlen(x->uid), x);
    if (!loop_timer_active(d->timer))
        loop_timer_start(d->timer, 0);
}

// ---- asking

static uint64_t now_of(const struct departures *d)
{
    return loop_now_ms(client_loop(d->o.client));
}

static uint64_t backoff_ms(struct departures *d, unsigned failures, const struct api_status *why)
{
    uint64_t ms = (uint64_t)BACKOFF_MS << (failures < 8 ? failures : 8);
    ms = random_jitter_ms(&d->random, ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS, 0.2);
    return why->retry_after_ms > 0 && (uint64_t)why->retry_after_ms > ms ? (uint64_t)why->retry_after_ms : ms;
}

// One that is refused does not hold up the others; a server that is ill is left alone by all.
static void put_off(struct departure *x, const struct api_status *why)
{
    struct departures *d = x->set;
    uint64_t now = now_of(d);
    bool ill = why->http == 0 || why->http == 429 || why->http >= 500;
    x->due_ms = now + backoff_ms(d, x->failures++, why);
    if (ill && now >= d->due_ms) // those asked side by side count once
        d->due_ms = now + backoff_ms(d, d->failures++, why);
    if (!ill)
        d->failures = 0;
    log_debug("it is not known what became of a subject", F_STR("kind", object_gvk(x->last)->text),
              F_STR("namespace", object_namespace(x->last)), F_STR("name", object_name(x->last)),
              F_STR("error", why->err.text));
}

static void on_found(struct departure *x, const json *node)
{
    struct departures *d = x->set;
    struct object *now = NULL, *last = object_ref(x->last);
    bool same =
        object_new(object_gvk(last), node, &now, NULL) == 0 && str_eq(object_uid(now), object_uid(last));
    drop(x);
    if (same)
        d->o.on_there(d->o.ud, now);
    else
        d->o.on_gone(d->o.ud, last);
    object_unref(now);
    object_unref(last);
}

static void on_answer(void *ud, struct client_result *res)
{
    struct departure *x = ud;
    struct departures *d = x->set;
    x->call = NULL;
    d->asking--;
    if (res->failure != NULL && res->failure->http != 404) {
        put_off(x, res->failure);
    } else {
        d->failures = 0;
        on_found(x, json_root(res->doc));
    }
    ask_all(d);
}

static bool ask(struct departure *x)
{
    struct departures *d = x->set;
    struct resource resource;
    struct buf path;
    if (!d->o.idle(d->o.ud, x->last))
        return false;
    enum discovery_answer known = discovery_find(d->o.discovery, object_gvk(x->last), &resource);
    if (known == DISCOVERY_UNKNOWN)
        on_found(x, NULL); // its kind is gone, and all of it
    if (known != DISCOVERY_FOUND)
        return known == DISCOVERY_UNKNOWN;
    buf_init(&path, 64 << 10);
    resource_path(&resource, object_namespace(x->last), object_name(x->last), NULL, NULL, &path);
    x->call =
        client_send(d->o.client, &(struct client_request){.path = path.data, .as = d->o.as}, on_answer, x);
    d->asking++;
    buf_fini(&path);
    return true;
}

static void ask_all(void *ud)
{
    struct departures *d = ud;
    struct departure *x, *next;
    uint64_t now = now_of(d), due = UINT64_MAX; // of the first that waits
    for (x = d->all; x != NULL && d->asking < AT_ONCE; x = next) {
        uint64_t then = x->due_ms > d->due_ms ? x->due_ms : d->due_ms;
        next = x->hh.next;
        if (x->call != NULL)
            continue;
        if (then <= now && !ask(x))
            then = now + BUSY_MS;
        if (then > now && then < due)
            due = then;
    }
    if (due != UINT64_MAX)
        loop_timer_start(d->timer, due - now);
}
