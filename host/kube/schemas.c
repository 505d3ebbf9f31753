#include "kube/schemas.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/hash_table.h"
#include "base/strset.h"
#include "kube/refusals.h"

enum {
    REQUEST_MS = 10000, // nobody waits longer for a schema than for two requests
    PERIOD_MS = 300000,
    RETRY_MS = 30000,
    ABSENT_MS = 2000,    // first; a new kind's document comes a little after the kind
    DOUBT_MS = 10000,    // between two looks because somebody doubts
    LAG_MS = 2000,       // a changed kind's document comes so much later than the change, at most
    VERSIONS_MAX = 2000, // group-versions asked for
};

// The document of a group-version.
struct version {
    const char *api_version; // key; a kind's, for ever
    char *path;              // of what is there or comes: it holds the document's hash
    struct schema *schema;
    bool pending;    // NOT_YET
    bool stale;      // there is a newer one, which comes
    unsigned absent; // indexes in a row that did not have it
    struct call *call;
    struct schemas *owner;
    UT_hash_handle hh;
};

// One compilation. The thread sees its own copies only.
struct job {
    struct message message; // first
    struct loop *loop;
    struct schemas *owner; // NULL: gone
    pthread_t thread;
    bool threaded, joined;
    struct version *version; // loop thread
    const char *api_version;
    char *path;
    char *text;
    size_t len;
    struct schema *schema;
    LIST_ENTRY(job) link;
};

// Somebody asked for something new.
struct wish {
    struct message message; // first
    struct ticket *ticket;
};

// What messages hold of the schemas, which may go before they are run.
struct ticket {
    struct schemas *schemas; // NULL: gone; loop thread
    size_t refs;             // under the lock of the schemas while they are there, then the loop's
};

struct schemas {
    struct client *client;
    struct loop *loop;
    void (*on_change)(void *ud);
    void *ud;
    struct loop_timer *timer;
    struct call *index_call;
    bool again;        // asked for while the index was under way
    uint64_t asked_ms; // the last index
    struct loop_timer *look_timer;
    bool looks;    // because something was refused: the timer runs, or the index is under way
    bool confirms; // the index under way is that one
    LIST_HEAD(, job) jobs;
    struct ticket *ticket;

    pthread_mutex_t lock; // what stands below
    struct version *versions;
    bool wished; // a message is under way
    struct refusals *refusals;
    uint64_t sequence;
};

// ---- the table

static struct version *find(struct schemas *s, const char *api_version)
{
    struct version *v;
    HASH_FIND_STR(s->versions, api_version, v);
    return v;
}

// All of them: they stay until the end, so the loop thread may look at them without the lock.
static struct version **all(struct schemas *s, size_t *ret_count)
{
    size_t n = 0;
    pthread_mutex_lock(&s->lock);
    struct version **list = xcalloc(HASH_COUNT(s->versions) + 1, sizeof(struct version *));
    for (struct version *v = s->versions; v != NULL; v = v->hh.next)
        list[n++] = v;
    pthread_mutex_unlock(&s->lock);
    *ret_count = n;
    return list;
}

// Loop thread: an answer is there. Takes the reference; NULL keeps what was there.
static void settle(struct schemas *s, struct version *v, struct schema *schema)
{
    struct schema *old = NULL;
    pthread_mutex_lock(&s->lock);
    if (schema != NULL) {
        old = v->schema;
        v->schema = schema;
        refusals_forget(s->refusals);
    }
    v->pending = v->stale = false;
    s->sequence++;
    pthread_mutex_unlock(&s->lock);
    schema_unref(old);
}

static void drop(struct schemas *s, struct version *v)
{
    struct schema *old;
    pthread_mutex_lock(&s->lock);
    old = v->schema;
    v->schema = NULL;
    v->pending = v->stale = false;
    s->sequence++;
    pthread_mutex_unlock(&s->lock);
    schema_unref(old);
    free(v->path);
    v->path = NULL;
}

// ---- compiling

static void deliver(struct schemas *s, struct job *j)
{
    struct version *v = j->version;
    if (!str_eq(v->path, j->path))
        return; // a newer one comes
    settle(s, v, j->schema);
    j->schema = NULL;
    s->on_change(s->ud);
}

static void job_done(struct message *m)
{
    struct job *j = (struct job *)m;
    if (j->threaded && !j->joined)
        pthread_join(j->thread, NULL);
    if (j->owner != NULL) {
        LIST_REMOVE(j, link);
        deliver(j->owner, j);
    }
    schema_unref(j->schema);
    free(j->path);
    free(j->text);
    free(j);
}

static void compile(struct job *j)
{
    (void)schema_compile(j->text, j->len, j->api_version, &j->schema, NULL);
}

static void *job_thread(void *arg)
{
    struct job *j = arg;
    compile(j);
    loop_post(j->loop, &j->message);
    return NULL;
}

static void compile_later(struct schemas *s, struct version *v, const char *text, size_t n)
{
    struct job *j = xcalloc(1, sizeof(*j));
    *j = (struct job){.message = {.run = job_done},
                      .loop = s->loop,
                      .owner = s,
                      .version = v,
                      .api_version = v->api_version,
                      .path = xstrdup(v->path),
                      .text = xmemdup(text, n),
                      .len = n};
    LIST_INSERT_HEAD(&s->jobs, j, link);
    j->threaded =
        !clock_is_virtual(loop_clock(s->loop)) && pthread_create(&j->thread, NULL, job_thread, j) == 0;
    if (j->threaded)
        return;
    compile(j);
    loop_post(s->loop, &j->message);
}

// ---- fetching

static struct call *get(struct schemas *s, const char *path, bool raw,
                        void (*on_done)(void *ud, struct client_result *res), void *ud)
{
    return client_send(
        s->client,
        &(struct client_request){
            .method = METHOD_GET, .path = path, .as = &identity_host, .timeout_ms = REQUEST_MS, .raw = raw},
        on_done, ud);
}

static void on_document(void *ud, struct client_result *res)
{
    struct version *v = ud;
    struct schemas *s = v->owner;
    v->call = NULL;
    if (res->failure == NULL && res->body_len > 0 && res->body_len <= SCHEMA_DOCUMENT_MAX) {
        compile_later(s, v, res->body, res->body_len);
        return;
    }
    free(v->path); // another index tries again
    v->path = NULL;
    settle(s, v, NULL);
    loop_timer_start(s->timer, RETRY_MS);
    s->on_change(s->ud);
}

static void note_stale(struct schemas *s, struct version *v)
{
    pthread_mutex_lock(&s->lock);
    v->stale = true;
    pthread_mutex_unlock(&s->lock);
}

static const char *path_of(const json *index, const struct version *v)
{
    bool core = strchr(v->api_version, '/') == NULL;
    char *name = xasprintf("%s/%s", core ? "api" : "apis", v->api_version);
    const char *path = json_str(json_path(index, "paths", name, "serverRelativeURL", NULL));
    free(name);
    return path != NULL && path[0] == '/' ? path : NULL;
}

// Fetches what is new, keeps what has the same hash, drops what the server no longer has. True: an answer
// changed.
static bool take_index(struct schemas *s, const json *index)
{
    bool changed = false;
    size_t n;
    struct version **list = all(s, &n);
    for (size_t i = 0; i < n; i++) {
        struct version *v = list[i];
        const char *path = path_of(index, v);
        v->absent = path == NULL ? v->absent + 1 : 0;
        if (path != NULL && str_eq(path, v->path))
            continue;
        changed = changed || (path == NULL && (v->pending || v->schema != NULL));
        if (v->call != NULL)
            call_cancel(v->call);
        v->call = NULL;
        if (path == NULL) {
            drop(s, v);
            continue;
        }
        free(v->path);
        v->path = xstrdup(path);
        note_stale(s, v);
        v->call = get(s, path, true, on_document, v);
    }
    free(list);
    return changed;
}

// Nobody waits for what does not come. True: somebody did.
static bool give_up(struct schemas *s)
{
    bool changed = false;
    size_t n;
    struct version **list = all(s, &n);
    for (size_t i = 0; i < n; i++) {
        if (!list[i]->pending || list[i]->path != NULL)
            continue;
        settle(s, list[i], NULL);
        changed = true;
    }
    free(list);
    return changed;
}

static uint64_t next_look_ms(struct schemas *s)
{
    size_t n;
    uint64_t ms = PERIOD_MS;
    struct version **list = all(s, &n);
    for (size_t i = 0; i < n; i++) {
        uint64_t wait = (uint64_t)ABSENT_MS << (list[i]->absent < 10 ? list[i]->absent : 10);
        if (list[i]->absent > 0 && wait / 2 < ms)
            ms = wait / 2;
        else if (list[i]->path == NULL && list[i]->absent == 0 && RETRY_MS < ms)
            ms = RETRY_MS; // its request failed
    }
    free(list);
    return ms;
}

// ---- being sure

static void begin_look(struct schemas *s)
{
    pthread_mutex_lock(&s->lock);
    bool begins = refusals_want_look(s->refusals) && !s->looks;
    if (begins)
        refusals_look_begins(s->refusals);
    pthread_mutex_unlock(&s->lock);
    if (!begins)
        return;
    s->looks = true;
    loop_timer_start(s->look_timer, LAG_MS);
}

// By the next index, whatever it is, documents could have changed.
static void on_look_timer(void *ud)
{
    struct schemas *s = ud;
    if (s->index_call != NULL)
        call_cancel(s->index_call); // it may tell of the time before
    s->index_call = NULL;
    s->confirms = true;
    schemas_refresh(s);
}

static bool end_look(struct schemas *s)
{
    if (!s->confirms)
        return false;
    s->confirms = s->looks = false;
    pthread_mutex_lock(&s->lock);
    refusals_look_ends(s->refusals);
    s->sequence++;
    pthread_mutex_unlock(&s->lock);
    begin_look(s);
    return true;
}

static void on_index(void *ud, struct client_result *res)
{
    struct schemas *s = ud;
    s->index_call = NULL;
    // An older or a smaller server has none, and will not have one soon.
    bool absent = res->failure != NULL && (res->failure->http == 404 || res->failure->http == 501);
    bool good = res->failure == NULL && res->doc != NULL;
    bool changed = good ? take_index(s, json_root(res->doc)) : give_up(s);
    changed |= end_look(s);
    loop_timer_start(s->timer, good ? next_look_ms(s) : absent ? PERIOD_MS : RETRY_MS);
    if (s->again) {
        s->again = false;
        schemas_refresh(s);
    }
    if (changed)
        s->on_change(s->ud);
}

void schemas_refresh(struct schemas *s)
{
    pthread_mutex_lock(&s->lock);
    bool any = s->versions != NULL;
    pthread_mutex_unlock(&s->lock);
    if (!any)
        return;
    if (s->index_call != NULL) {
        s->again = true;
        return;
    }
    loop_timer_stop(s->timer);
    s->asked_ms = loop_now_ms(s->loop);
    s->index_call = get(s, "/openapi/v3", false, on_index, s);
}

void schemas_doubt(struct schemas *s)
{
    if (loop_now_ms(s->loop) - s->asked_ms >= DOUBT_MS)
        schemas_refresh(s);
}

static void on_timer(void *ud)
{
    schemas_refresh(ud);
}

// ---- asking

static void on_wish(struct message *m)
{
    struct wish *w = (struct wish *)m;
    struct ticket *t = w->ticket;
    struct schemas *s = t->schemas;
    free(w);
    if (s == NULL) {
        if (--t->refs == 0)
            free(t);
        return;
    }
    pthread_mutex_lock(&s->lock);
    t->refs--;
    s->wished = false;
    pthread_mutex_unlock(&s->lock);
    schemas_refresh(s);
    begin_look(s);
}

// Under the lock. The loop is to look now.
static void post_wish(struct schemas *s)
{
    if (s->wished)
        return;
    struct wish *w = xcalloc(1, sizeof(*w));
    *w = (struct wish){.message = {.run = on_wish}, .ticket = s->ticket};
    s->ticket->refs++;
    s->wished = true;
    loop_post(s->loop, &w->message);
}

// Under the lock.
static struct version *wish(struct schemas *s, const char *api_version)
{
    if (HASH_COUNT(s->versions) >= VERSIONS_MAX)
        return NULL;
    struct version *v = xcalloc(1, sizeof(*v));
    *v = (struct version){.api_version = api_version, .pending = true, .owner = s};
    HASH_ADD_KEYPTR(hh, s->versions, v->api_version, strlen(v->api_version), v);
    post_wish(s);
    return v;
}

enum schemas_answer schemas_find(struct schemas *s, const struct gvk *gvk, struct schema **ret,
                                 const struct schema_node **ret_node)
{
    enum schemas_answer answer = SCHEMAS_NONE;
    pthread_mutex_lock(&s->lock);
    struct version *v = find(s, gvk->api_version);
    if (v == NULL)
        v = wish(s, gvk->api_version);
    const struct schema_node *node =
        v == NULL || v->schema == NULL ? NULL : schema_kind(v->schema, gvk->kind);
    if (node != NULL) {
        *ret = schema_ref(v->schema);
        *ret_node = node;
        answer = SCHEMAS_FOUND;
    } else if (v != NULL && v->pending) {
        answer = SCHEMAS_NOT_YET;
    }
    pthread_mutex_unlock(&s->lock);
    return answer;
}

bool schemas_sure(struct schemas *s, const struct gvk *gvk, const char *what)
{
    uint64_t now_ms = clock_now_us(loop_clock(s->loop)) / 1000;
    char *refusal = xasprintf("%s|%s", gvk->text, what);
    pthread_mutex_lock(&s->lock);
    const struct version *v = find(s, gvk->api_version);
    bool sure = v == NULL || (refusals_sure(s->refusals, refusal, now_ms) && !v->stale);
    if (refusals_want_look(s->refusals))
        post_wish(s);
    pthread_mutex_unlock(&s->lock);
    free(refusal);
    return sure;
}

uint64_t schemas_sequence(struct schemas *s)
{
    pthread_mutex_lock(&s->lock);
    uint64_t n = s->sequence;
    pthread_mutex_unlock(&s->lock);
    return n;
}

size_t schemas_bytes(struct schemas *s)
{
    size_t n = 0;
    pthread_mutex_lock(&s->lock);
    for (const struct version *v = s->versions; v != NULL; v = v->hh.next)
        n += sizeof(*v) + (v->schema == NULL ? 0 : schema_bytes(v->schema));
    pthread_mutex_unlock(&s->lock);
    return n;
}

// ---- life

struct schemas *schemas_new(struct client *c, void (*on_change)(void *ud), void *ud)
{
    struct schemas *s = xcalloc(1, sizeof(*s));
    s->client = c;
    s->loop = client_loop(c);
    s->on_change = on_change;
    s->ud = ud;
    s->timer = loop_timer_new(s->loop, on_timer, s);
    s->look_timer = loop_timer_new(s->loop, on_look_timer, s);
    s->refusals = refusals_new();
    s->ticket = xcalloc(1, sizeof(*s->ticket));
    *s->ticket = (struct ticket){.schemas = s, .refs = 1};
    LIST_INIT(&s->jobs);
    pthread_mutex_init(&s->lock, NULL);
    return s;
}

void schemas_free(struct schemas *s)
{
    if (s == NULL)
        return;
    struct job *j;
    while ((j = LIST_FIRST(&s->jobs)) != NULL) { // its message is posted and frees it
        LIST_REMOVE(j, link);
        j->owner = NULL;
        if (j->threaded) {
            pthread_join(j->thread, NULL);
            j->joined = true;
        }
    }
    if (s->index_call != NULL)
        call_cancel(s->index_call);
    struct version *v, *next;
    HASH_ITER (hh, s->versions, v, next) {
        HASH_DEL(s->versions, v);
        if (v->call != NULL)
            call_cancel(v->call);
        schema_unref(v->schema);
        free(v->path);
        free(v);
    }
    s->ticket->schemas = NULL;
    if (--s->ticket->refs == 0)
        free(s->ticket);
    loop_timer_free(s->timer);
    loop_timer_free(s->look_timer);
    refusals_free(s->refusals);
    pthread_mutex_destroy(&s->lock);
    free(s);
}
