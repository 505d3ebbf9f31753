#include "run/inventory.h"

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
};

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

static bool has_within(const struct inventory *i, size_t n, const char *group, const char *kind, bool patched)
{
    for (size_t k = 0; k < n; k++)
        if (i->kinds[k].patched == patched && str_eq(i->kinds[k].group, group) &&
            str_eq(i->kinds[k].kind, kind))
            return true;
    return false;
}

bool inventory_has(const struct inventory *i, const char *group, const char *kind, bool patched)
{
    return has_within(i, i->written, group, kind, patched);
}

static void add_kind(struct inventory *i, const char *group, const char *kind, bool patched)
{
    if (has_within(i, i->count, group, kind, patched))
        return;
    i->kinds = xreallocarray(i->kinds, i->count + 1, sizeof i->kinds[0]);
    i->kinds[i->count++] = (struct inventory_kind){xstrdup(group), xstrdup(kind), patched};
}

// ---- loading

static void load(void *ud);

static void again(struct inventory *i, const struct api_status *why)
{
    uint64_t ms = 500ULL << (i->failures < 6 ? i->failures : 6);
    i->failures++;
    if (why->retry_after_ms > 0 && (uint64_t)why->retry_after_ms > ms)
        ms = (uint64_t)why->retry_after_ms;
    loop_timer_start(i->retry, random_jitter_ms(&i->random, ms, 0.2));
}

// "group/Kind" a line
static void read_kinds(struct inventory *i, const char *text, bool patched)
{
    struct strset lines;
    strset_init(&lines);
    strset_add_split(&lines, text == NULL ? "" : text, '\n');
    for (size_t k = 0; k < lines.count; k++) {
        char *slash = strchr(lines.items[k], '/');
        if (slash == NULL)
            continue;
        *slash = '\0';
        add_kind(i, lines.items[k], slash + 1, patched);
    }
    strset_fini(&lines);
}

static void on_loaded(void *ud, struct client_result *res)
{
    struct inventory *i = ud;
    i->call = NULL;
    bool absent = res->failure != NULL && res->failure->http == 404 &&
                  !str_eq(res->failure->details_kind, "namespaces");
    if (res->failure != NULL && !absent) {
        struct err e = res->failure->err;
        err_prefix(&e, "inventory ConfigMap %s/%s can not be read", i->ns, i->name);
        i->on_trouble(i->ud, &e);
        again(i, res->failure);
        return;
    }
    if (res->failure == NULL) {
        const json *data = json_get(json_root(res->doc), "data");
        read_kinds(i, json_get_str(data, "children"), false);
        read_kinds(i, json_get_str(data, "patched"), true);
    }
    i->written = i->count;
    i->loaded = true;
    i->failures = 0;
    i->on_change(i->ud);
}

static void load(void *ud)
{
    struct inventory *i = ud;
    char *path = own_path(i, NULL);
    i->call = client_send(
        i->client, &(struct client_request){.method = METHOD_GET, .path = path, .as = &i->as}, on_loaded, i);
    free(path);
}

struct inventory *inventory_new(struct client *c, const struct script *script, uint64_t seed,
                                void (*on_change)(void *ud),
                                void (*on_trouble)(void *ud, const struct err *e), void *ud)
{
    struct inventory *i = xcalloc(1, sizeof *i);
    i->client = c;
    i->as = identity_host; // the script itself may not touch it
    i->ns = xstrdup(script->host->host_namespace);
    i->name = xasprintf("tidelock-inventory-%s", script->hash);
    i->script = xasprintf("%s/%s", script->ns, script->name);
    i->on_change = on_change;
    i->on_trouble = on_trouble;
    i->ud = ud;
    random_init(&i->random, seed);
    i->retry = loop_timer_new(client_loop(c), load, i);
    load(i);
    return i;
}

// ---- writing

static void write_kinds(struct json_writer *w, const struct inventory *i, const char *key, bool patched)
{
    struct buf lines;
    buf_init(&lines, 1 << 20);
    for (size_t k = 0; k < i->count; k++)
        if (i->kinds[k].patched == patched)
            buf_addf(&lines, "%s/%s\n", i->kinds[k].group, i->kinds[k].kind);
    if (lines.len > 0)
        jw_member_str(w, key, lines.data);
    buf_fini(&lines);
}

static char *own_body(const struct inventory *i, size_t *ret_len)
{
    struct buf body;
    struct json_writer w;
    buf_init(&body, 1 << 20);
    jw_init(&w, &body);
    jw_object(&w);
    jw_member_str(&w, "apiVersion", "v1");
    jw_member_str(&w, "kind", "ConfigMap");
    jw_key(&w, "metadata");
    jw_object(&w);
    jw_member_str(&w, "name", i->name);
    jw_member_str(&w, "namespace", i->ns);
    jw_key(&w, "labels");
    jw_object(&w);
    jw_member_str(&w, MARKS_LABEL_INVENTORY, "true");
    jw_object_end(&w);
    jw_object_end(&w);
    jw_key(&w, "data");
    jw_object(&w);
    jw_member_str(&w, "script", i->script);
    write_kinds(&w, i, "children", false);
    write_kinds(&w, i, "patched", true);
    jw_object_end(&w);
    jw_object_end(&w);
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

static void start_write(struct inventory *i);

static void on_written(void *ud, struct client_result *res)
{
    struct inventory *i = ud;
    i->call = NULL;
    if (res->failure != NULL) {
        struct err e = res->failure->err;
        err_prefix(&e, "inventory ConfigMap %s/%s can not be written", i->ns, i->name);
        e.code = res->failure->code;
        tell_pending(i, e.code, &e);
        return;
    }
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
        add_kind(i, kinds[k].group, kinds[k].kind, kinds[k].patched);
        missing |= !inventory_has(i, kinds[k].group, kinds[k].kind, kinds[k].patched);
    }
    if (!missing) {
        on_done(ud, 0, NULL);
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
    for (size_t k = 0; k < i->count; k++) {
        free(i->kinds[k].group);
        free(i->kinds[k].kind);
    }
    free(i->kinds);
    free(i->ns);
    free(i->name);
    free(i->script);
    free(i);
}
