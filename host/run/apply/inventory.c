#include "run/apply/inventory.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/random.h"
#include "base/strset.h"
#include "data/json_write.h"

// Somebody who waits until a write that holds his kinds is through.
struct pending {
    struct pending *next;
    void (*on_done)(void *ud, int r, const struct err *e);
    void *ud;
};

enum { LOAD_LATER_MS = 1000 }; // while something else is under way

struct inventory {
    struct client *client;
    struct identity as;
    char *ns, *name, *script; // of the ConfigMap; of the script, for people
    void (*on_change)(void *ud);
    void (*on_trouble)(void *ud, const struct err *e);
    void *ud;
    bool loaded;
    struct inventory_kind *kinds;
    size_t count, written; // the first `written` kinds stand in the cluster
    size_t writing;        // how many the write under way holds
    struct call *call;
    struct loop_timer *retry;
    unsigned failures;
    struct random random;
    struct pending *pending;
    struct err refused; // why the last write failed
    unsigned refusals;  // in a row
    uint64_t write_ms;  // not written before
};

// The keys of its data, one for each role a kind can have.
static const struct {
    const char *key;
    struct inventory_kind kind;
} roles[] = {{"children", {0}}, {"patched", {.patched = true}}, {"subjects", {.subject = true}}};
enum { ROLES = sizeof roles / sizeof roles[0] };

static const struct resource *config_maps(void)
{
    static struct resource r = {.plural = "configmaps", .namespaced = true};
    r.gvk = gvk_parse("v1/ConfigMap", NULL);
    return &r;
}

static char *own_path(const struct inventory *i, const char *query)
{
    struct buf path;
    buf_init(&path, 4096);
    resource_path(config_maps(), i->ns, i->name, NULL, query, &path);
    return buf_take(&path, NULL);
}

bool inventory_is_loaded(const struct inventory *i)
{
    return i->loaded;
}

size_t inventory_kinds(const struct inventory *i, const struct inventory_kind **ret)
{
    *ret = i->kinds;
    return i->written;
}

static bool is_among(const struct inventory_kind *kinds, size_t n, const struct inventory_kind *x)
{
    for (size_t k = 0; k < n; k++)
        if (kinds[k].patched == x->patched && kinds[k].subject == x->subject &&
            str_eq(kinds[k].group, x->group) && str_eq(kinds[k].kind, x->kind))
            return true;
    return false;
}

bool inventory_has(const struct inventory *i, const char *group, const char *kind, bool patched)
{
    struct inventory_kind x = {(char *)group, (char *)kind, .patched = patched};
    return is_among(i->kinds, i->written, &x);
}

static void add_kind(struct inventory_kind **kinds, size_t *count, const struct inventory_kind *x)
{
    if (is_among(*kinds, *count, x))
        return;
    *kinds = xreallocarray(*kinds, *count + 1, sizeof(*kinds)[0]);
    (*kinds)[(*count)++] =
        (struct inventory_kind){xstrdup(x->group), xstrdup(x->kind), x->patched, x->subject};
}

// ---- loading

static void start_write(struct inventory *i);

static void again(struct inventory *i, const struct api_status *why)
{
    uint64_t ms = 500ULL << (i->failures < 6 ? i->failures : 6);
    i->failures++;
    if (why->retry_after_ms > 0 && (uint64_t)why->retry_after_ms > ms)
        ms = (uint64_t)why->retry_after_ms;
    loop_timer_start(i->retry, random_jitter_ms(&i->random, ms, 0.2));
}

char *inventory_name(const char *script_hash)
{
    return xasprintf("tidelock-inventory-%s", script_hash);
}

// "group/Kind" a line
static void read_kinds(struct inventory_kind **kinds, size_t *count, const char *text,
                       const struct inventory_kind *role)
{
    struct strset lines;
    strset_init(&lines);
    strset_add_split(&lines, text == NULL ? "" : text, '\n');
    for (size_t k = 0; k < lines.count; k++) {
        char *slash = strchr(lines.items[k], '/');
        if (slash == NULL)
            continue;
        *slash = '\0';
        add_kind(kinds, count,
                 &(struct inventory_kind){lines.items[k], slash + 1, role->patched, role->subject});
    }
    strset_fini(&lines);
}

static void read_all(const json *config_map, struct inventory_kind **kinds, size_t *count)
{
    const json *data = json_get(config_map, "data");
    for (size_t r = 0; r < ROLES; r++)
        read_kinds(kinds, count, json_get_str(data, roles[r].key), &roles[r].kind);
}

size_t inventory_read(const json *config_map, struct inventory_kind **ret)
{
    size_t n = 0;
    *ret = NULL;
    read_all(config_map, ret, &n);
    return n;
}

void inventory_kinds_free(struct inventory_kind *kinds, size_t count)
{
    for (size_t k = 0; k < count; k++) {
        free(kinds[k].group);
        free(kinds[k].kind);
    }
    free(kinds);
}

static void on_loaded(void *ud, struct client_result *res)
{
    struct inventory *i = ud;
    i->call = NULL;
    if (i->loaded && i->pending != NULL) { // kinds came in the meantime, which it can not tell
        start_write(i);
        return;
    }
    bool absent = res->failure != NULL && res->failure->http == 404 &&
                  !str_eq(res->failure->details_kind, "namespaces");
    if (res->failure != NULL && !absent) {
        struct err e = res->failure->err;
        err_prefix(&e, "inventory ConfigMap %s/%s can not be read", i->ns, i->name);
        i->on_trouble(i->ud, &e);
        again(i, res->failure);
        return;
    }
    inventory_kinds_free(i->kinds, i->count);
    i->kinds = NULL;
    i->count = 0;
    if (res->failure == NULL)
        read_all(json_root(res->doc), &i->kinds, &i->count);
    i->written = i->count;
    i->loaded = true;
    i->failures = 0;
    i->on_change(i->ud);
}

static void load(struct inventory *i)
{
    char *path = own_path(i, NULL);
    i->call = client_send(
        i->client, &(struct client_request){.method = METHOD_GET, .path = path, .as = &i->as}, on_loaded, i);
    free(path);
}

static void on_retry(void *ud)
{
    struct inventory *i = ud;
    if (i->call != NULL)
        loop_timer_start(i->retry, LOAD_LATER_MS);
    else
        load(i);
}

void inventory_look_again(struct inventory *i, uint64_t ms)
{
    if (!loop_timer_active(i->retry))
        loop_timer_start(i->retry, ms);
}

struct inventory *inventory_new(struct client *c, const struct script *script, uint64_t seed,
                                void (*on_change)(void *ud),
                                void (*on_trouble)(void *ud, const struct err *e), void *ud)
{
    struct inventory *i = xcalloc(1, sizeof *i);
    i->client = c;
    i->as = identity_host; // the script itself may not touch it
    i->ns = xstrdup(script->host->host_namespace);
    i->name = inventory_name(script->hash);
    i->script = xasprintf("%s/%s", script->ns, script->name);
    i->on_change = on_change;
    i->on_trouble = on_trouble;
    i->ud = ud;
    random_init(&i->random, seed);
    i->retry = loop_timer_new(client_loop(c), on_retry, i);
    load(i);
    return i;
}

// ---- writing

static void write_kinds(struct json_writer *w, const char *key, const struct inventory_kind *role,
                        const struct inventory_kind *kinds, size_t count)
{
    struct buf lines;
    buf_init(&lines, 1 << 20);
    for (size_t k = 0; k < count; k++)
        if (kinds[k].patched == role->patched && kinds[k].subject == role->subject &&
            !is_among(kinds, k, &kinds[k]))
            buf_addf(&lines, "%s/%s\n", kinds[k].group, kinds[k].kind);
    if (lines.len > 0)
        jw_member_str(w, key, lines.data);
    buf_fini(&lines);
}

void inventory_write(struct buf *out, const char *ns, const char *name, const char *script,
                     const struct inventory_kind *kinds, size_t count)
{
    struct json_writer w;
    jw_init(&w, out);
    jw_object(&w);
    jw_member_str(&w, "apiVersion", "v1");
    jw_member_str(&w, "kind", "ConfigMap");
    jw_key(&w, "metadata");
    jw_object(&w);
    jw_member_str(&w, "name", name);
    jw_member_str(&w, "namespace", ns);
    jw_key(&w, "labels");
    jw_object(&w);
    jw_member_str(&w, MARKS_LABEL_INVENTORY, "true");
    jw_object_end(&w);
    jw_object_end(&w);
    jw_key(&w, "data");
    jw_object(&w);
    jw_member_str(&w, "script", script);
    for (size_t r = 0; r < ROLES; r++)
        write_kinds(&w, roles[r].key, &roles[r].kind, kinds, count);
    jw_object_end(&w);
    jw_object_end(&w);
}

static char *own_body(const struct inventory *i, size_t *ret_len)
{
    struct buf body;
    buf_init(&body, 1 << 20);
    inventory_write(&body, i->ns, i->name, i->script, i->kinds, i->count);
    return buf_take(&body, ret_len);
}

static void tell_pending(struct inventory *i, int r, const struct err *e)
{
    struct pending *p = i->pending;
    i->pending = NULL;
    while (p != NULL) {
        struct pending *next = p->next;
        p->on_done(p->ud, r, e);
        free(p);
        p = next;
    }
}

// Each of a script's keys tries again at a time of its own: all together must not ask more often than one.
static void put_off_write(struct inventory *i, const struct api_status *why, const struct err *e)
{
    uint64_t ms = 100ULL << (i->refusals < 9 ? i->refusals : 9);
    i->refusals++;
    i->refused = *e;
    if (why->retry_after_ms > 0 && (uint64_t)why->retry_after_ms > ms)
        ms = (uint64_t)why->retry_after_ms;
    i->write_ms = loop_now_ms(client_loop(i->client)) + random_jitter_ms(&i->random, ms, 0.2);
}

static void on_written(void *ud, struct client_result *res)
{
    struct inventory *i = ud;
    i->call = NULL;
    if (res->failure != NULL) {
        struct err e = res->failure->err;
        err_prefix(&e, "inventory ConfigMap %s/%s can not be written", i->ns, i->name);
        e.code = res->failure->code;
        put_off_write(i, res->failure, &e);
        tell_pending(i, e.code, &e);
        return;
    }
    i->refusals = 0;
    i->written = i->writing;
    if (i->written < i->count) {
        start_write(i);
        return; // those who wait may wait for the newer kinds
    }
    i->on_change(i->ud);
    tell_pending(i, 0, NULL);
}

static void start_write(struct inventory *i)
{
    size_t n;
    char *path = own_path(i, "fieldManager=tidelock&force=true"), *body = own_body(i, &n);
    i->writing = i->count;
    i->call = client_send(i->client,
                          &(struct client_request){.method = METHOD_PATCH,
                                                   .path = path,
                                                   .content_type = "application/apply-patch+yaml",
                                                   .body = body,
                                                   .body_len = n,
                                                   .as = &i->as},
                          on_written, i);
    free(path);
    free(body);
}

void inventory_add(struct inventory *i, const struct inventory_kind *kinds, size_t count,
                   void (*on_done)(void *ud, int r, const struct err *e), void *ud)
{
    bool missing = false;
    for (size_t k = 0; k < count; k++) {
        add_kind(&i->kinds, &i->count, &kinds[k]);
        missing |= !is_among(i->kinds, i->written, &kinds[k]);
    }
    if (!missing) {
        on_done(ud, 0, NULL);
        return;
    }
    if (i->call == NULL && i->refusals > 0 && loop_now_ms(client_loop(i->client)) < i->write_ms) {
        on_done(ud, i->refused.code, &i->refused);
        return;
    }
    struct pending *p = xcalloc(1, sizeof *p);
    *p = (struct pending){i->pending, on_done, ud};
    i->pending = p;
    if (i->call == NULL)
        start_write(i);
}

void inventory_free(struct inventory *i)
{
    if (i == NULL)
        return;
    struct err e;
    err_set(&e, ERR_CANCELED, "the script was stopped");
    if (i->call != NULL)
        call_cancel(i->call);
    tell_pending(i, -ERR_CANCELED, &e);
    loop_timer_free(i->retry);
    inventory_kinds_free(i->kinds, i->count);
    free(i->ns);
    free(i->name);
    free(i->script);
    free(i);
}
