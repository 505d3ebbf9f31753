#include "run/report/reconciled.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "base/strset.h"
#include "data/json_write.h"
#include "kube/fields.h"
#include "run/report/keyed_conditions.h"

enum {
    MESSAGE_MAX = 1024, // bytes; the API takes 32768
    REASON_MAX = 128,
    BODY_MAX = 64 << 10,
    MESSAGES_US = 10 * 1000 * 1000, // between two writes that differ in the message only
    LOST_MS = 10 * 1000,            // a write that got no answer, or not now, is tried again
};

// What a key's condition is to be.
struct report {
    struct object *subject; // +1, as the pass saw it; NULL: no report
    bool failing;
    char *reason, *message;
    uint64_t hash;
};

// What is remembered of a key that has failed.
struct record {
    struct reconciled *set;
    char *key;
    struct report wanted;  // waits for the kind's schema, or for the write under way
    struct report sending; // while a call is under way
    struct call *call;
    bool known; // the rest is of the condition as we wrote it last
    bool failing;
    uint64_t hash, refused; // of the report; refused: the server said no to it
    char *reason;
    char *version; // the subject's resourceVersion then
    char since[CLOCK_TEXT_MAX];
    uint64_t written_us;
    UT_hash_handle hh;
};

struct reconciled {
    struct reconciled_options o;
    char script[MARKS_HASH_MAX];
    char manager[MARKS_MANAGER_MAX];
    struct record *records;
};

struct reconciled *reconciled_new(const struct reconciled_options *o)
{
    struct reconciled *r = xcalloc(1, sizeof *r);
    r->o = *o;
    snprintf(r->script, sizeof r->script, "%s", o->script);
    marks_report_manager(r->manager, o->script);
    return r;
}

static void report_fini(struct report *p)
{
    object_unref(p->subject);
    free(p->reason);
    free(p->message);
    *p = (struct report){0};
}

static struct own_writer writer_of(const struct record *x)
{
    return (struct own_writer){x->set->script, x->key};
}

static void end_write(struct record *x, const char *rv)
{
    const struct object *o = x->sending.subject;
    bool foreign =
        own_writes_end(x->set->o.own, writer_of(x), object_gvk(o), object_namespace(o), object_name(o), rv);
    if (foreign)
        x->set->o.again(x->set->o.ud, x->key, 0);
}

static void record_free(struct reconciled *r, struct record *x)
{
    if (x->call != NULL) {
        const struct object *o = x->sending.subject;
        call_cancel(x->call);
        own_writes_end(r->o.own, writer_of(x), object_gvk(o), object_namespace(o), object_name(o), NULL);
    }
    HASH_DEL(r->records, x);
    report_fini(&x->wanted);
    report_fini(&x->sending);
    free(x->key);
    free(x->reason);
    free(x->version);
    free(x);
}

void reconciled_free(struct reconciled *r)
{
    if (r == NULL)
        return;
    struct record *x, *tmp;
    HASH_ITER (hh, r->records, x, tmp) {
        record_free(r, x);
    }
    free(r);
}

static struct record *find(const struct reconciled *r, const char *key)
{
    struct record *x;
    HASH_FIND_STR(r->records, key, x);
    return x;
}

static struct record *find_or_add(struct reconciled *r, const char *key)
{
    struct record *x = find(r, key);
    if (x == NULL) {
        x = xcalloc(1, sizeof *x);
        x->set = r;
        x->key = xstrdup(key);
        HASH_ADD_KEYPTR(hh, r->records, x->key, strlen(x->key), x);
    }
    return x;
}

void reconciled_forget(struct reconciled *r, const char *key)
{
    struct record *x = find(r, key);
    if (x != NULL)
        record_free(r, x);
}

// ---- the condition that is there

struct live {
    struct json_doc *doc, *managed;
    const json *condition; // of type Reconciled, or NULL
    bool ours;
};

static void live_open(const struct reconciled *r, const struct object *o, struct live *ret)
{
    size_t n;
    const char *text = object_managed(o, &n);
    *ret = (struct live){.doc = object_parse(o)};
    (void)json_parse(text, n, &ret->managed, NULL);
    const json *conditions = json_path(json_root(ret->doc), "status", "conditions", NULL);
    for (struct json_iter i = json_iter(conditions); json_next(&i);)
        if (str_eq(json_get_str(i.value, "type"), "Reconciled"))
            ret->condition = i.value;
    const json *owned = fields_of_manager(json_root(ret->managed), r->manager, "status");
    ret->ours = json_count(json_path(owned, "f:status", "f:conditions", NULL)) > 0;
}

static void live_close(struct live *l)
{
    json_doc_free(l->doc);
    json_doc_free(l->managed);
}

static bool says(const json *condition, const struct report *p)
{
    return str_eq(json_get_str(condition, "status"), p->failing ? "False" : "True") &&
           str_eq(json_get_str(condition, "reason"), p->reason) &&
           str_eq(json_get_str(condition, "message"), p->message) &&
           json_get_int(condition, "observedGeneration", 0) == object_generation(p->subject);
}

// The subject of the report is older than our last write.
static bool is_stale(const struct record *x, const struct report *p)
{
    int order;
    return x->known && x->version != NULL &&
           object_rv_compare(object_resource_version(p->subject), x->version, &order) && order < 0;
}

// Is there something to write? Fills since when the condition is what it will be.
static bool differs(struct record *x, const struct report *p, const struct live *l,
                    char since[CLOCK_TEXT_MAX])
{
    clock_format_time(since, clock_wall_us(x->set->o.clock));
    if (is_stale(x, p)) {
        if (x->failing == p->failing)
            memcpy(since, x->since, CLOCK_TEXT_MAX);
        return x->hash != p->hash;
    }
    if (l->condition != NULL && !l->ours)
        return false; // somebody else's
    if (l->condition == NULL)
        return p->failing;
    const char *then = json_get_str(l->condition, "lastTransitionTime");
    bool same_status = str_eq(json_get_str(l->condition, "status"), p->failing ? "False" : "True");
    if (same_status && then != NULL)
        snprintf(since, CLOCK_TEXT_MAX, "%s", then);
    return p->failing ? !says(l->condition, p) : !same_status;
}

// ---- writing

static char *body_of(const struct report *p, const char *since, size_t *ret_len)
{
    struct buf body;
    struct json_writer w;
    const struct object *o = p->subject;
    buf_init(&body, BODY_MAX);
    jw_init(&w, &body);
    jw_object(&w);
    jw_member_str(&w, "apiVersion", object_gvk(o)->api_version);
    jw_member_str(&w, "kind", object_gvk(o)->kind);
    jw_key(&w, "metadata");
    jw_object(&w);
    jw_member_str(&w, "name", object_name(o));
    if (object_namespace(o)[0] != '\0')
        jw_member_str(&w, "namespace", object_namespace(o));
    jw_member_str(&w, "uid", object_uid(o));
    jw_object_end(&w);
    jw_key(&w, "status");
    jw_object(&w);
    jw_key(&w, "conditions");
    jw_array(&w);
    jw_object(&w);
    jw_member_str(&w, "type", "Reconciled");
    jw_member_str(&w, "status", p->failing ? "False" : "True");
    jw_member_str(&w, "reason", p->reason);
    jw_member_str(&w, "message", p->message);
    jw_member_str(&w, "lastTransitionTime", since);
    if (object_generation(o) > 0)
        jw_member_int(&w, "observedGeneration", object_generation(o));
    jw_object_end(&w);
    jw_array_end(&w);
    jw_object_end(&w);
    jw_object_end(&w);
    return buf_take(&body, ret_len);
}

static void proceed(struct record *x);

static void remember(struct record *x, const char *version)
{
    x->known = true;
    x->failing = x->sending.failing;
    x->hash = x->sending.hash;
    x->refused = 0;
    free(x->reason);
    free(x->version);
    x->reason = xstrdup(x->sending.reason);
    x->version = xstrdup(version);
    x->written_us = clock_now_us(x->set->o.clock);
}

static void on_written(void *ud, struct client_result *res)
{
    struct record *x = ud;
    const char *rv = json_str(json_path(json_root(res->doc), "metadata", "resourceVersion", NULL));
    x->call = NULL;
    if (res->failure == NULL) {
        bool same = str_eq(rv, object_resource_version(x->sending.subject));
        remember(x, rv);
        end_write(x, same ? NULL : rv);
    } else {
        int http = res->failure->http;
        bool lost = http == 0 || http == 429 || http >= 500;
        log_debug("condition Reconciled was not written", F_STR("key", x->key),
                  F_STR("error", res->failure->err.text));
        x->refused = lost ? 0 : x->sending.hash;
        end_write(x, NULL);
        if (lost)
            x->set->o.again(x->set->o.ud, x->key, LOST_MS);
    }
    report_fini(&x->sending);
    proceed(x);
}

static void send(struct record *x, const char *since)
{
    struct reconciled *r = x->set;
    const struct object *o = x->sending.subject;
    struct resource resource;
    struct buf path, query;
    size_t n;
    if (discovery_find(r->o.discovery, object_gvk(o), &resource) != DISCOVERY_FOUND)
        return;
    char *body = body_of(&x->sending, since, &n);
    memcpy(x->since, since, CLOCK_TEXT_MAX);
    buf_init(&path, 64 << 10);
    buf_init(&query, 4096);
    resource_query_add(&query, "fieldManager", r->manager);
    resource_path(&resource, object_namespace(o), object_name(o), "status", query.data, &path);
    own_writes_begin(r->o.own, writer_of(x), object_gvk(o), object_namespace(o), object_name(o), NULL);
    x->call = client_send(r->o.client,
                          &(struct client_request){.method = METHOD_PATCH,
                                                   .path = path.data,
                                                   .content_type = "application/apply-patch+yaml",
                                                   .body = body,
                                                   .body_len = n,
                                                   .as = &identity_host},
                          on_written, x);
    buf_fini(&query);
    buf_fini(&path);
    free(body);
}

// ---- may this kind have such a condition?

// False: it is not known yet.
static bool ask_schema(const struct reconciled *r, const struct gvk *gvk, enum keyed_answer *ret)
{
    const struct schema_node *kind;
    struct schema *schema;
    enum schemas_answer answer = schemas_find(r->o.schemas, gvk, &schema, &kind);
    *ret = KEYED_UNKNOWN;
    if (answer != SCHEMAS_FOUND)
        return answer != SCHEMAS_NOT_YET;
    *ret = keyed_by_schema(kind);
    schema_unref(schema);
    return true;
}

static bool is_keyed(enum keyed_answer by_schema, const struct live *l)
{
    return by_schema == KEYED_YES ||
           (by_schema == KEYED_UNKNOWN && keyed_by_owners(json_root(l->managed)) == KEYED_YES);
}

// Takes the wanted report further, unless something is under way.
static void proceed(struct record *x)
{
    struct reconciled *r = x->set;
    enum keyed_answer keyed;
    if (x->call != NULL || x->wanted.subject == NULL || !ask_schema(r, object_gvk(x->wanted.subject), &keyed))
        return; // it comes back here
    uint64_t now = clock_now_us(r->o.clock);
    struct report p = x->wanted;
    struct live l;
    char since[CLOCK_TEXT_MAX];
    x->wanted = (struct report){0};
    live_open(r, p.subject, &l);
    bool to_do = p.hash != x->refused && is_keyed(keyed, &l) && differs(x, &p, &l, since);
    live_close(&l);
    bool only_message = x->known && x->failing && p.failing && x->hash != p.hash &&
                        str_eq(x->reason, p.reason) && now - x->written_us < MESSAGES_US;
    if (!to_do || only_message) {
        if (!to_do && !p.failing) // it is told, or nobody is to be told
            x->known = true, x->failing = false, x->hash = p.hash;
        report_fini(&p);
        return;
    }
    x->sending = p;
    send(x, since);
    if (x->call == NULL)
        report_fini(&x->sending);
}

void reconciled_on_schemas(struct reconciled *r)
{
    struct record *x, *tmp;
    HASH_ITER (hh, r->records, x, tmp) {
        proceed(x);
    }
}

// ---- what is to be reported

static bool is_reason(const char *s)
{
    size_t n = strlen(s);
    if (n == 0 || n > REASON_MAX || !isalpha((unsigned char)s[0]))
        return false;
    for (; *s != '\0'; s++)
        if (!isalnum((unsigned char)*s) && *s != '_')
            return false;
    return true;
}

static void want(struct reconciled *r, const char *key, struct object *subject, bool failing,
                 const char *reason, const char *message)
{
    struct resource resource;
    if (discovery_find(r->o.discovery, object_gvk(subject), &resource) != DISCOVERY_FOUND ||
        !resource.has_status)
        return;
    struct record *x = find_or_add(r, key);
    size_t n = strlen(message);
    report_fini(&x->wanted);
    x->wanted = (struct report){.subject = object_ref(subject),
                                .failing = failing,
                                .reason = xstrdup(is_reason(reason) ? reason : "ReconcileError")};
    x->wanted.message = xstrndup(message, n <= MESSAGE_MAX ? n : str_utf8_cut(message, n, MESSAGE_MAX));
    int64_t generation = object_generation(subject);
    uint64_t h = hash_fnv1a(HASH_FNV_START, &failing, sizeof failing);
    h = hash_fnv1a(h, &generation, sizeof generation);
    h = hash_fnv1a(h, x->wanted.reason, strlen(x->wanted.reason) + 1);
    x->wanted.hash = hash_fnv1a(h, x->wanted.message, strlen(x->wanted.message)) | 1;
    proceed(x);
}

void reconciled_failing(struct reconciled *r, const char *key, struct object *subject, const char *reason,
                        const char *message)
{
    want(r, key, subject, true, reason, message);
}

void reconciled_healed(struct reconciled *r, const char *key, struct object *subject)
{
    struct record *x = find(r, key);
    size_t n;
    const char *managed = object_managed(subject, &n);
    if (x != NULL && x->known && !x->failing && x->call == NULL && x->wanted.subject == NULL)
        return; // told
    if (x == NULL && memmem(managed, n, r->manager, strlen(r->manager)) == NULL)
        return; // it never failed
    want(r, key, subject, false, "Reconciled", "the last pass went through");
}
