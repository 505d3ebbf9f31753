// Subjects that are being deleted: said when it takes too long, and let go when their namespace goes and the
// script can not finish.

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/strset.h"
#include "run/controller/controller_internal.h"

enum { TRIES = 5 }; // failures in a row before a script's finalize in a terminating namespace is given up

struct namespace_check {
    struct controller *c;
    struct call *call;
    char *key;
};

static void say(struct controller *c, const struct outcome *o, const char *reason, const char *text)
{
    struct key_state *k = key_states_get(c->keys, o->key, object_uid(o->subject));
    if (!key_state_problem(k, text))
        return;
    log_warn("subject is being deleted", F_STR("script", c->script->name), F_STR("key", o->key),
             F_STR("reason", reason), F_STR("error", text));
    recorder_event(c->env->recorder, o->subject, "Warning", reason, "Finalize", text);
}

static void abandon(struct controller *c, const char *key)
{
    if (!strset_add(&c->abandoned, key))
        return;
    log_warn("finalize is given up: the namespace is going away", F_STR("script", c->script->name),
             F_STR("key", key));
    controller_refresh_view(c);
    queue_forget(c->queue, key);
    queue_add(c->queue, key);
}

static void check_free(struct namespace_check *x)
{
    x->c->check = NULL;
    free(x->key);
    free(x);
}

static void on_namespace(void *ud, struct client_result *res)
{
    struct namespace_check *x = ud;
    const char *phase = json_str(json_path(json_root(res->doc), "status", "phase", NULL));
    if (res->failure == NULL && str_eq(phase, "Terminating"))
        abandon(x->c, x->key);
    check_free(x);
}

static void check_namespace(struct controller *c, const char *ns, const char *key)
{
    struct resource namespaces = {.gvk = gvk_parse("v1/Namespace", NULL), .plural = "namespaces"};
    struct buf path;
    if (ns[0] == '\0' || c->check != NULL)
        return;
    c->check = xcalloc(1, sizeof *c->check);
    c->check->c = c;
    c->check->key = xstrdup(key);
    buf_init(&path, 4096);
    resource_path(&namespaces, NULL, ns, NULL, NULL, &path);
    c->check->call =
        client_send(c->env->client, &(struct client_request){.path = path.data, .as = &c->script->as},
                    on_namespace, c->check);
    buf_fini(&path);
}

void controller_finalize_close(struct controller *c)
{
    if (c->check == NULL)
        return;
    call_cancel(c->check->call);
    check_free(c->check);
}

void controller_finalize_failed(struct controller *c, const struct outcome *o, bool terminating)
{
    if (!o->finalizing || o->abandoned || queue_failures(c->queue, o->key) < TRIES)
        return;
    if (terminating)
        abandon(c, o->key);
    else
        check_namespace(c, object_namespace(o->subject), o->key);
}

void controller_finalize_tell(struct controller *c, const struct outcome *o)
{
    if (o->abandoned)
        say(c, o, "FinalizeAbandoned",
            "finalize did not finish in time: the finalizer is taken off all the same");
    else if (o->overdue)
        say(c, o, "FinalizeOverdue",
            "finalize has not finished within finalize_timeout: the subject is held; see the script's "
            "errors, or let the "
            "script abandon it (finalize_timeout with abandon)");
}
