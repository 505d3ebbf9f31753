#include "run/world/world_view.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/strset.h"
#include "run/source/marks.h"

enum { PARSE_STEP = 16 }; // objects parsed between two questions whether to go on

static void hold(struct world_view *w, struct object *o)
{
    if (w->held_count == w->held_cap) {
        w->held_cap = w->held_cap == 0 ? 8 : w->held_cap * 2;
        w->held = xreallocarray(w->held, w->held_cap, sizeof w->held[0]);
    }
    w->held[w->held_count++] = o;
}

static void hold_memory(struct world_view *w, void *p)
{
    if (w->memory_count == w->memory_cap) {
        w->memory_cap = w->memory_cap == 0 ? 8 : w->memory_cap * 2;
        w->memory = xreallocarray(w->memory, w->memory_cap, sizeof w->memory[0]);
    }
    w->memory[w->memory_count++] = p;
}

void world_view_fini(struct world_view *w)
{
    for (size_t i = 0; i < w->held_count; i++)
        object_unref(w->held[i]);
    for (size_t i = 0; i < w->memory_count; i++)
        free(w->memory[i]);
    free(w->held);
    free(w->memory);
    reads_fini(&w->reads);
    *w = (struct world_view){0};
}

static int check_canceled(const struct world_view *w, struct err *e)
{
    if (w->canceled == NULL || !__atomic_load_n(w->canceled, __ATOMIC_ACQUIRE))
        return 0;
    return err_set(e, ERR_CANCELED, "the pass was given up");
}

// What of the kind is read: its scope rules applied. *ret_ns: NULL means all namespaces or a cluster-scoped
// kind.
static int resolve(struct world_view *w, const char *what, const char *kind, const char *ns,
                   const struct gvk **ret_gvk, const char **ret_ns, struct err *e)
{
    struct resource resource;
    int r = check_canceled(w, e);
    if (r < 0)
        return r;
    const struct gvk *gvk = gvk_parse_asked(kind, e);
    if (gvk == NULL)
        return -ERR_INVALID;
    r = script_may_read(w->script, gvk, e);
    if (r < 0)
        return r;
    bool known = discovery_find(w->discovery, gvk, &resource) == DISCOVERY_FOUND;
    const char *own = object_namespace(w->subject);
    *ret_gvk = gvk;
    if (known && !resource.namespaced) {
        if (ns != NULL && !str_eq(ns, "*"))
            return err_set(e, ERR_INVALID, "%s: %s is cluster-scoped: leave the namespace out", what,
                           gvk->text);
        *ret_ns = NULL;
        return 0;
    }
    if (ns == NULL && own[0] == '\0' && known)
        return err_set(e, ERR_INVALID,
                       "%s: the subject is cluster-scoped: name a namespace of %s, or \"*\" for all", what,
                       gvk->text);
    *ret_ns = ns == NULL ? (own[0] == '\0' ? NULL : own) : str_eq(ns, "*") ? NULL : ns;
    return script_may_enter(w->script, *ret_ns, e);
}

// Stores to read: one, or one a namespace where the host is confined to some. None: the kind is unknown,
// nothing is there.
struct stores {
    struct store **items; // +1 each
    size_t count;
};

static void stores_fini(struct stores *s)
{
    for (size_t i = 0; i < s->count; i++)
        store_unref(s->items[i]);
    free(s->items);
}

// Opens what is read and records it. 0, or an error.
static int open_stores(struct world_view *w, struct read *read, struct stores *ret, struct err *e)
{
    struct informer_scope scope = {.gvk = read->gvk, .ns = read->ns, .name = read->name};
    struct err why = {0};
    *ret = (struct stores){0};
    read->answer = informers_find_all(w->informers, &scope, w->revision, &ret->items, &ret->count, &why);
    reads_add(&w->reads, read);
    switch (read->answer) {
    case INFORMER_SYNCED:
    case INFORMER_UNKNOWN_KIND:
        return 0;
    case INFORMER_SYNCING:
        w->parked = true;
        return err_set(e, ERR_PARKED, "%s is not synced yet", read->gvk->text);
    case INFORMER_FORBIDDEN:
        return err_set(e, ERR_FORBIDDEN, "the host may not list and watch %s: %s", read->gvk->text, why.text);
    case INFORMER_UNAVAILABLE:
        break;
    }
    return err_set(e, ERR_UNAVAILABLE, "%s can not be read now: %s", read->gvk->text, why.text);
}

// The host's key, whatever a script was granted.
static bool is_host_key(const struct world_view *w, const struct object *o)
{
    return str_eq(object_name(o), HOST_KEY_SECRET) && str_eq(object_gvk(o)->kind, "Secret") &&
           str_eq(object_namespace(o), w->script->host->host_namespace);
}

static bool hidden_from_scripts(const struct world_view *w, const struct object *o)
{
    return (object_label(o, MARKS_LABEL_SCRIPTS) != NULL && str_eq(object_gvk(o)->kind, "ConfigMap")) ||
           is_host_key(w, o);
}

static int world_get(void *ud, const char *kind, const char *name, const char *ns, struct world_object *ret,
                     struct err *e)
{
    struct world_view *w = ud;
    struct read read = {.name = (char *)name};
    struct stores stores;
    const char *in_ns;
    if (!resource_name_ok(name))
        return err_set(e, ERR_INVALID, "world.get: \"%s\" is not an object's name", name);
    if (ns != NULL && str_eq(ns, "*"))
        return err_set(e, ERR_INVALID, "world.get: \"*\" is not a namespace: use world.list");
    int r = resolve(w, "world.get", kind, ns, &read.gvk, &in_ns, e);
    if (r < 0)
        return r;
    read.ns = (char *)in_ns;
    r = open_stores(w, &read, &stores, e);
    *ret = (struct world_object){0};
    if (r < 0)
        return r;
    struct object *o = NULL;
    for (size_t i = 0; o == NULL && i < stores.count; i++)
        o = store_get(stores.items[i], w->revision, in_ns == NULL ? "" : in_ns, name);
    stores_fini(&stores);
    if (o == NULL)
        return 0;
    hold(w, o);
    if (hidden_from_scripts(w, o))
        return err_set(e, ERR_FORBIDDEN, "world.get: %s %s holds %s: scripts may not read it",
                       object_gvk(o)->kind, name, is_host_key(w, o) ? "the host's key" : "scripts");
    ret->json = object_json(o, &ret->len);
    return 0;
}

static bool is_over(const struct world_query *q)
{
    return q->is_over != NULL && q->is_over(q->is_over_ud, PARSE_STEP);
}

// Gives the objects of `list` (taken) that pass the filters as texts. q as for world_list, or NULL.
static void give_list(struct world_view *w, struct object_list *list, const struct world_query *q,
                      const struct field_selector *fields, struct world_list *ret)
{
    struct world_object *items = xcalloc(list->count + 1, sizeof items[0]);
    size_t n = 0;
    hold_memory(w, items);
    for (size_t i = 0; i < list->count; i++) {
        struct object *o = object_ref(list->items[i]);
        hold(w, o);
        bool match = !hidden_from_scripts(w, o);
        if (fields != NULL && i % PARSE_STEP == PARSE_STEP - 1 && is_over(q))
            break;
        if (match && fields != NULL) {
            struct json_doc *doc = object_parse(o);
            match = field_selector_matches(fields, json_root(doc));
            json_doc_free(doc);
        }
        if (match) {
            items[n].json = object_json(o, &items[n].len);
            n++;
        }
    }
    *ret = (struct world_list){.items = items, .count = n};
    object_list_fini(list);
}

static int list_with(struct world_view *w, const struct world_query *q, struct selector *labels,
                     struct field_selector *fields, struct world_list *ret, struct err *e)
{
    struct read read = {.labels = labels == NULL ? NULL : (char *)selector_text(labels),
                        .owner_uid = (char *)q->owner_uid};
    struct stores stores;
    const char *in_ns;
    int r = resolve(w, "world.list", q->kind, q->ns, &read.gvk, &in_ns, e);
    if (r < 0)
        return r;
    read.ns = (char *)in_ns;
    r = open_stores(w, &read, &stores, e);
    *ret = (struct world_list){0};
    if (r < 0)
        return r;
    struct store_query query = {.ns = in_ns, .labels = labels, .owner_uid = q->owner_uid, .near = fields};
    struct object_list found = {0};
    for (size_t i = 0; i < stores.count; i++) { // a host's namespaces are sorted, so the whole is
        struct object_list part;
        store_list(stores.items[i], w->revision, &query, &part);
        object_list_append(&found, &part);
    }
    stores_fini(&stores);
    give_list(w, &found, q, fields, ret);
    return 0;
}

static int world_list(void *ud, const struct world_query *q, struct world_list *ret, struct err *e)
{
    struct selector *labels = NULL;
    struct field_selector *fields = NULL;
    int r = q->labels == NULL ? 0 : selector_parse(q->labels, &labels, e);
    if (r == 0 && q->fields != NULL)
        r = field_selector_parse(q->fields, &fields, e);
    if (r == 0)
        r = list_with(ud, q, labels, fields, ret, e);
    selector_free(labels);
    field_selector_free(fields);
    return r;
}

static int world_children(void *ud, const char *kind, struct world_list *ret, struct err *e)
{
    struct world_view *w = ud;
    *ret = (struct world_list){0};
    int r = check_canceled(w, e);
    if (r < 0)
        return r;
    const struct gvk *gvk = gvk_parse_asked(kind, e);
    if (gvk == NULL)
        return -ERR_INVALID;
    w->read_children = true;
    if (w->children == NULL)
        return 0; // the script never made one; a kind is in the inventory before its first child
    struct object_list found;
    child_stores_list(w->children, w->revision, gvk, object_uid(w->subject), &found);
    give_list(w, &found, NULL, NULL, ret);
    return 0;
}

static int world_child(void *ud, const char *api_version, const char *kind, const char *ns, const char *name,
                       struct world_object *ret, struct err *e)
{
    struct world_view *w = ud;
    struct resource resource;
    *ret = (struct world_object){0};
    int r = check_canceled(w, e);
    if (r < 0)
        return r;
    const struct gvk *gvk = gvk_of_asked(api_version, kind, e);
    if (gvk == NULL)
        return -ERR_INVALID;
    if (w->children == NULL || discovery_find(w->discovery, gvk, &resource) != DISCOVERY_FOUND)
        return 0;
    if (!resource.namespaced)
        ns = "";
    else if (ns == NULL)
        ns = object_namespace(w->subject);
    struct object *o = child_stores_get(w->children, w->revision, gvk, ns, name);
    if (o == NULL)
        return 0;
    hold(w, o);
    if (str_eq(object_label(o, MARKS_LABEL_OWNER), object_uid(w->subject)))
        ret->json = object_json(o, &ret->len);
    return 0;
}

static const char *world_data(void *ud, const char *key, size_t *ret_len)
{
    const struct world_view *w = ud;
    return program_text(w->script->program, key, ret_len);
}

static int world_secret_value(void *ud, const char *name, int length, const char *charset, char *out,
                              struct err *e)
{
    struct world_view *w = ud;
    uint8_t key[SECRET_VALUE_KEY];
    int r = secret_value_check(name, length, charset, e);
    if (r < 0)
        return r;
    if (w->host_key == NULL)
        return err_set(e, ERR_UNSUPPORTED, "world.secret_value: this host has no key to make secrets from");
    if (!host_key_try(w->host_key, key)) {
        w->parked = w->wants_key = true;
        return err_set(e, ERR_PARKED, "the host's key is not there yet");
    }
    secret_value_make(key, object_uid(w->subject), name, length, charset, out);
    explicit_bzero(key, sizeof key);
    return 0;
}

static void world_log(void *ud, const char *level, const char *message, const char *fields)
{
    const struct world_view *w = ud;
    enum log_level l = LOG_INFO;
    (void)log_level_parse(level, &l);
    LOG_(l, "script says", F_STR("script", w->script->name), F_STR("namespace", object_namespace(w->subject)),
         F_STR("name", object_name(w->subject)), F_STR("message", message), F_STR("fields", fields));
}

const struct world_ops world_view_ops = {
    .get = world_get,
    .list = world_list,
    .children = world_children,
    .child = world_child,
    .data = world_data,
    .log = world_log,
    .secret_value = world_secret_value,
};
