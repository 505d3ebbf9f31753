#include "kube/terminating.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash_table.h"
#include "base/strset.h"

enum {
    AT_ONCE = 4,
    TOLD_MS = 60 * 1000,           // how long a refusal counts where nothing else is known
    REMEMBERED_MS = 10 * 60 * 1000 // what nobody asks for any more is forgotten
};

struct entry {
    struct terminating *set;
    char *ns;
    struct object *object; // +1, as of the last answer; NULL: unknown
    bool answered, going, wanted;
    uint64_t at_ms;   // of the answer
    uint64_t told_ms; // by a refusal; 0: never
    struct call *call;
    UT_hash_handle hh;
};

struct terminating {
    struct client *client;
    void (*on_answer)(void *ud, const char *ns, const struct api_status *failure);
    void *ud;
    struct entry *all; // in order of coming
    size_t asking;
};

static void ask_some(struct terminating *t);

struct terminating *
terminating_new(struct client *client,
                void (*on_answer)(void *ud, const char *ns, const struct api_status *failure), void *ud)
{
    struct terminating *t = xcalloc(1, sizeof *t);
    *t = (struct terminating){.client = client, .on_answer = on_answer, .ud = ud};
    return t;
}

static void drop(struct entry *e)
{
    HASH_DEL(e->set->all, e);
    if (e->call != NULL)
        call_cancel(e->call);
    object_unref(e->object);
    free(e->ns);
    free(e);
}

void terminating_free(struct terminating *t)
{
    struct entry *e, *tmp;
    if (t == NULL)
        return;
    HASH_ITER (hh, t->all, e, tmp) {
        drop(e);
    }
    free(t);
}

static uint64_t now_of(const struct terminating *t)
{
    return loop_now_ms(client_loop(t->client));
}

static struct entry *find(const struct terminating *t, const char *ns)
{
    struct entry *e;
    HASH_FIND_STR(t->all, ns, e);
    return e;
}

static void forget_old(struct terminating *t)
{
    struct entry *e, *tmp;
    uint64_t now = now_of(t);
    HASH_ITER (hh, t->all, e, tmp) {
        if (!e->wanted && e->call == NULL && now - e->at_ms > REMEMBERED_MS &&
            now - e->told_ms > REMEMBERED_MS)
            drop(e);
    }
}

static struct entry *need(struct terminating *t, const char *ns)
{
    struct entry *e = find(t, ns);
    if (e != NULL)
        return e;
    forget_old(t);
    e = xcalloc(1, sizeof *e);
    e->set = t;
    e->ns = xstrdup(ns);
    HASH_ADD_KEYPTR(hh, t->all, e->ns, strlen(e->ns), e);
    return e;
}

// ---- the answer

static void take_object(struct entry *e, const json *node)
{
    object_unref(e->object);
    e->object = NULL;
    if (node != NULL)
        object_new(gvk_parse("v1/Namespace", NULL), node, &e->object, NULL);
}

static void take_name(struct entry *e)
{
    struct json_doc *doc;
    char *text = xasprintf("{\"metadata\":{\"name\":\"%s\"}}", e->ns);
    if (json_parse(text, strlen(text), &doc, NULL) == 0) {
        take_object(e, json_root(doc));
        json_doc_free(doc);
    }
    free(text);
}

static void take_refusal(struct entry *e, const struct api_status *why)
{
    e->going = why->http == 403 && e->told_ms != 0 && now_of(e->set) - e->told_ms <= TOLD_MS;
    if (e->going)
        take_name(e);
}

static void on_namespace(void *ud, struct client_result *res)
{
    struct entry *e = ud;
    struct terminating *t = e->set;
    e->call = NULL;
    t->asking--;
    e->answered = true;
    e->at_ms = now_of(t);
    if (res->failure == NULL) {
        take_object(e, json_root(res->doc));
        e->going = e->object != NULL && object_is_deleting(e->object);
    } else {
        take_refusal(e, res->failure);
    }
    ask_some(t);
    t->on_answer(t->ud, e->ns, res->failure);
}

static void ask(struct entry *e)
{
    struct resource namespaces = {.gvk = gvk_parse("v1/Namespace", NULL), .plural = "namespaces"};
    struct terminating *t = e->set;
    struct buf path;
    e->wanted = false;
    t->asking++;
    buf_init(&path, 4096);
    resource_path(&namespaces, NULL, e->ns, NULL, NULL, &path);
    e->call = client_send(t->client, &(struct client_request){.path = path.data, .as = &identity_host},
                          on_namespace, e);
    buf_fini(&path);
}

static void ask_some(struct terminating *t)
{
    for (struct entry *e = t->all; e != NULL && t->asking < AT_ONCE; e = e->hh.next)
        if (e->wanted)
            ask(e);
}

enum terminating_answer terminating_is(struct terminating *t, const char *ns, uint64_t max_age_ms)
{
    if (ns[0] == '\0')
        return TERMINATING_NO;
    struct entry *e = need(t, ns);
    if (e->answered && now_of(t) - e->at_ms <= max_age_ms)
        return e->going ? TERMINATING_YES : TERMINATING_NO;
    if (e->call == NULL) {
        e->wanted = true;
        ask_some(t);
    }
    return TERMINATING_ASKED;
}

void terminating_tell(struct terminating *t, const char *ns)
{
    if (ns[0] != '\0')
        need(t, ns)->told_ms = now_of(t);
}

const struct object *terminating_object(const struct terminating *t, const char *ns)
{
    const struct entry *e = find(t, ns);
    return e == NULL ? NULL : e->object;
}
