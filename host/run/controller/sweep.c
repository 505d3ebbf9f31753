#include "run/controller/sweep.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "base/random.h"
#include "data/json_write.h"
#include "kube/metadata_list.h"
#include "run/source/marks.h"

enum {
    GATHER_MS = 100,      // requests that come within this time are one
    APART_MS = 10 * 1000, // between two walks
    BACKOFF_MS = 1000,    // after a failure, doubled up to the next
    BACKOFF_MAX_MS = 300 * 1000,
    HASH_LEN = MARKS_HASH_MAX - 1,
};

// A manager of ours on an object.
struct hold {
    struct hold *next;
    char *ns, *name, *uid, *manager;
};

// The holds of one subject on one page.
struct suspect {
    char hash[MARKS_HASH_MAX];
    struct hold *holds;
    UT_hash_handle hh;
};

struct sweep {
    struct sweep_options o;
    char *manager, *script;
    struct loop *loop;
    struct loop_timer *timer;
    struct random random;
    bool walking, wanted; // wanted: once more
    bool failed;
    unsigned failures;
    uint64_t ended_ms;
    size_t kind, ns; // where the walk is
    struct resource resource;
    struct metadata_list *list;
    struct suspect *suspects; // of the page
    struct hold *holds;       // to release
    struct call *call;
};

static void begin(void *ud);
static void walk_on(struct sweep *s);
static void release_next(struct sweep *s);

struct sweep *sweep_new(const struct sweep_options *o)
{
    struct sweep *s = xcalloc(1, sizeof *s);
    s->o = *o;
    s->manager = xstrdup(o->manager);
    s->script = xstrdup(o->script);
    s->loop = client_loop(o->client);
    s->timer = loop_timer_new(s->loop, begin, s);
    random_init(&s->random, o->seed);
    return s;
}

static void free_holds(struct hold *h)
{
    while (h != NULL) {
        struct hold *next = h->next;
        free(h->ns);
        free(h->name);
        free(h->uid);
        free(h->manager);
        free(h);
        h = next;
    }
}

static void drop_suspect(struct sweep *s, struct suspect *x)
{
    HASH_DEL(s->suspects, x);
    free_holds(x->holds);
    free(x);
}

static void drop_all(struct sweep *s)
{
    struct suspect *x, *tmp;
    HASH_ITER (hh, s->suspects, x, tmp) {
        drop_suspect(s, x);
    }
    free_holds(s->holds);
    s->holds = NULL;
    metadata_list_free(s->list);
    s->list = NULL;
}

void sweep_free(struct sweep *s)
{
    if (s == NULL)
        return;
    if (s->call != NULL)
        call_cancel(s->call);
    drop_all(s);
    loop_timer_free(s->timer);
    free(s->manager);
    free(s->script);
    free(s);
}

bool sweep_is_idle(const struct sweep *s)
{
    return !s->walking && !s->wanted;
}

void sweep_request(struct sweep *s)
{
    s->wanted = true;
    if (s->walking || loop_timer_active(s->timer))
        return;
    uint64_t since = loop_now_ms(s->loop) - s->ended_ms;
    loop_timer_start(s->timer,
                     s->ended_ms == 0 || since >= APART_MS ? GATHER_MS : APART_MS - since + GATHER_MS);
}

// ---- the walk

static void end_walk(struct sweep *s)
{
    drop_all(s);
    s->walking = false;
    s->ended_ms = loop_now_ms(s->loop);
    if (s->failed) {
        uint64_t ms = (uint64_t)BACKOFF_MS << (s->failures < 8 ? s->failures : 8);
        s->failures++;
        s->wanted = true;
        loop_timer_start(s->timer,
                         random_jitter_ms(&s->random, ms < BACKOFF_MAX_MS ? ms : BACKOFF_MAX_MS, 0.2));
        return;
    }
    s->failures = 0;
    if (s->wanted)
        sweep_request(s);
}

static void begin(void *ud)
{
    struct sweep *s = ud;
    if (!s->o.ready(s->o.ud))
        return; // asked again when it is known who lives
    s->walking = true;
    s->wanted = s->failed = false;
    s->kind = s->ns = 0;
    walk_on(s);
}

static void fail(struct sweep *s, const char *what, const struct err *why)
{
    s->failed = true;
    enum log_level level = s->failures == 0 ? LOG_WARN : LOG_DEBUG;
    LOG_(level, "patches of gone subjects can not be released yet", F_STR("script", s->script),
         F_STR("kind", s->resource.gvk->text), F_STR("at", what), F_STR("error", why->text));
}

static const char *subject_hash(const struct sweep *s, const json *entry)
{
    const char *manager = json_get_str(entry, "manager");
    size_t n = strlen(s->manager);
    if (manager == NULL || strncmp(manager, s->manager, n) != 0 || manager[n] != '-' ||
        json_get_str(entry, "subresource") != NULL)
        return NULL;
    const char *hash = manager + n + 1;
    return strlen(hash) == HASH_LEN && strspn(hash, "0123456789abcdef") == HASH_LEN ? hash : NULL;
}

static void suspect(struct sweep *s, const char *hash, const json *metadata, const char *manager)
{
    struct suspect *x;
    struct hold *h = xcalloc(1, sizeof *h);
    HASH_FIND_STR(s->suspects, hash, x);
    if (x == NULL) {
        x = xcalloc(1, sizeof *x);
        memcpy(x->hash, hash, MARKS_HASH_MAX);
        HASH_ADD_STR(s->suspects, hash, x);
    }
    const char *ns = json_get_str(metadata, "namespace");
    h->ns = xstrdup(ns == NULL ? "" : ns);
    h->name = xstrdup(json_get_str(metadata, "name"));
    h->uid = xstrdup(json_get_str(metadata, "uid"));
    h->manager = xstrdup(manager);
    h->next = x->holds;
    x->holds = h;
}

static void acquit(void *arg, const char *uid)
{
    struct sweep *s = arg;
    struct suspect *x;
    char hash[MARKS_HASH_MAX];
    marks_subject_hash(hash, uid);
    HASH_FIND_STR(s->suspects, hash, x);
    if (x != NULL)
        drop_suspect(s, x);
}

static void on_page(void *ud, const json *items)
{
    struct sweep *s = ud;
    struct suspect *x, *tmp;
    for (struct json_iter i = json_iter(items); json_next(&i);) {
        const json *metadata = json_get(i.value, "metadata");
        for (struct json_iter m = json_iter(json_get(metadata, "managedFields")); json_next(&m);) {
            const char *hash = subject_hash(s, m.value);
            if (hash != NULL && json_get_str(metadata, "name") != NULL &&
                json_get_str(metadata, "uid") != NULL)
                suspect(s, hash, metadata, json_get_str(m.value, "manager"));
        }
    }
    if (s->suspects != NULL && s->o.ready(s->o.ud))
        s->o.each_live(s->o.ud, acquit, s);
    HASH_ITER (hh, s->suspects, x, tmp) {
        struct hold **last = &x->holds;
        while (*last != NULL)
            last = &(*last)->next;
        *last = s->holds;
        s->holds = x->holds;
        x->holds = NULL;
        drop_suspect(s, x);
    }
    release_next(s);
}

static void on_end(void *ud, const struct api_status *why)
{
    struct sweep *s = ud;
    if (why != NULL && why->http != 404) // 404: the kind has just vanished
        fail(s, "list", &why->err);
    metadata_list_free(s->list);
    s->list = NULL;
    s->ns++;
    walk_on(s);
}

static void list_kind(struct sweep *s, const char *ns)
{
    s->list = metadata_list_new(&(struct metadata_list_options){.client = s->o.client,
                                                                .resource = s->resource,
                                                                .ns = ns,
                                                                .as = &identity_host,
                                                                .on_page = on_page,
                                                                .on_end = on_end,
                                                                .ud = s});
    metadata_list_next(s->list);
}

// The next kind, or the next of the host's namespaces.
static void walk_on(struct sweep *s)
{
    const struct inventory_kind *kinds;
    size_t n = s->o.kinds(s->o.ud, &kinds);
    size_t namespaces = s->o.namespaces == NULL ? 0 : s->o.namespaces->count;
    for (; s->kind < n && s->o.ready(s->o.ud); s->kind++, s->ns = 0) {
        const struct inventory_kind *k = &kinds[s->kind];
        if (!k->patched ||
            discovery_find_group_kind(s->o.discovery, k->group, k->kind, &s->resource) != DISCOVERY_FOUND)
            continue;
        bool all = namespaces == 0 || !s->resource.namespaced;
        if (s->ns >= (all ? 1 : namespaces))
            continue;
        list_kind(s, all ? NULL : s->o.namespaces->items[s->ns]);
        return;
    }
    end_walk(s);
}

// ---- releasing

static void on_released(void *ud, struct client_result *res)
{
    struct sweep *s = ud;
    struct hold *h = s->holds;
    s->call = NULL;
    if (res->failure == NULL)
        log_info("patch released: its subject is gone", F_STR("script", s->script),
                 F_STR("kind", s->resource.gvk->text), F_STR("namespace", h->ns), F_STR("name", h->name));
    else if (res->failure->http != 404 && res->failure->http != 409) // these: the object itself is gone
        fail(s, h->name, &res->failure->err);
    s->holds = h->next;
    h->next = NULL;
    free_holds(h);
    release_next(s);
}

static void write_bare(const struct sweep *s, const struct hold *h, struct buf *out)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    jw_member_str(&w, "apiVersion", s->resource.gvk->api_version);
    jw_member_str(&w, "kind", s->resource.gvk->kind);
    jw_key(&w, "metadata");
    jw_object(&w);
    jw_member_str(&w, "name", h->name);
    if (h->ns[0] != '\0')
        jw_member_str(&w, "namespace", h->ns);
    jw_member_str(&w, "uid", h->uid);
    jw_object_end(&w);
    jw_object_end(&w);
}

static void send_release(struct sweep *s, const struct hold *h)
{
    struct buf path, query, body;
    buf_init(&path, 64 << 10);
    buf_init(&query, 4096);
    buf_init(&body, 64 << 10);
    resource_query_add(&query, "fieldManager", h->manager);
    resource_path(&s->resource, h->ns, h->name, NULL, query.data, &path);
    write_bare(s, h, &body);
    s->call = client_send(s->o.client,
                          &(struct client_request){.method = METHOD_PATCH,
                                                   .path = path.data,
                                                   .content_type = "application/apply-patch+yaml",
                                                   .body = body.data,
                                                   .body_len = body.len,
                                                   .as = &identity_host},
                          on_released, s);
    buf_fini(&path);
    buf_fini(&query);
    buf_fini(&body);
}

static void release_next(struct sweep *s)
{
    if (!s->o.ready(s->o.ud)) { // a new version of the script: what is gone for it is not known yet
        end_walk(s);
        return;
    }
    if (s->holds != NULL)
        send_release(s, s->holds);
    else
        metadata_list_next(s->list);
}
