// The subject's finalizer: there only while something has to be done before the subject may go.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "data/json_write.h"
#include "run/plan/desired.h"
#include "run/plan/finalizer_patch.h"
#include "run/plan/plan_child.h"

bool plan_has_finalizer(const struct script *script, const struct object *subject)
{
    char finalizer[MARKS_FINALIZER_MAX];
    size_t n;
    const char *text = object_json(subject, &n);
    marks_finalizer(finalizer, script->hash);
    if (memmem(text, n, finalizer, strlen(finalizer)) == NULL)
        return false;
    struct json_doc *doc = object_parse(subject);
    bool there = finalizer_patch_index(json_get(json_root(doc), "metadata"), finalizer) >= 0;
    json_doc_free(doc);
    return there;
}

static struct op *add_subject_op(struct plan *p, const struct plan_input *in, enum op_kind kind,
                                 struct buf *body)
{
    const struct object *subject = in->world->subject;
    struct resource resource;
    if (discovery_find(in->world->discovery, object_gvk(subject), &resource) != DISCOVERY_FOUND) {
        buf_fini(body);
        return NULL; // its kind has just vanished, and it with it
    }
    struct op *o = plan_add(p, kind, &resource, object_namespace(subject), object_name(subject));
    o->uid = xstrdup(object_uid(subject));
    o->live_rv = xstrdup(object_resource_version(subject));
    o->body = buf_take(body, &o->body_len);
    return o;
}

// By server-side apply under a manager of its own: the list of finalizers is a set, nobody else's is touched.
static void add_finalizer(struct plan *p, const struct plan_input *in, const char *finalizer)
{
    const struct object *subject = in->world->subject;
    struct buf body;
    struct json_writer w;
    buf_init(&body, 4096);
    jw_init(&w, &body);
    jw_object(&w);
    desired_begin_identity(&w, subject);
    jw_key(&w, "finalizers");
    jw_array(&w);
    jw_str(&w, finalizer);
    jw_array_end(&w);
    jw_object_end(&w);
    jw_object_end(&w);
    struct op *o = add_subject_op(p, in, OP_FINALIZER, &body);
    if (o != NULL)
        snprintf(o->manager, sizeof o->manager, "%.100s-finalizer", in->world->script->manager);
}

static void remove_finalizer(struct plan *p, const struct plan_input *in)
{
    char finalizer[MARKS_FINALIZER_MAX];
    struct json_doc *doc = object_parse(in->world->subject);
    struct buf body;
    buf_init(&body, 4096);
    marks_finalizer(finalizer, in->world->script->hash);
    if (finalizer_patch_write(json_get(json_root(doc), "metadata"), finalizer, &body))
        add_subject_op(p, in, OP_UNFINALIZE, &body);
    else
        buf_fini(&body);
    json_doc_free(doc);
}

// While the subject lives: the finalizer is there exactly when it is needed.
void plan_finalizer(struct plan *p, const struct plan_input *in)
{
    char finalizer[MARKS_FINALIZER_MAX];
    const struct script *script = in->world->script;
    marks_finalizer(finalizer, script->hash);
    bool there = plan_has_finalizer(script, in->world->subject);
    bool needed = program_spec(script->program)->has_finalize || p->unreachable || p->ordered;
    if (needed && !there)
        add_finalizer(p, in, finalizer);
    // A result without `apply` tells nothing of the children; entries that failed may stand for one that
    // needs it.
    else if (!needed && there && !p->errors && json_is_array(json_get(in->result, "apply")))
        remove_finalizer(p, in);
}

static bool needs_order(const struct plan_input *in)
{
    struct object_list all;
    bool ordered = false;
    child_stores_list(in->world->children, in->world->revision, NULL, object_uid(in->world->subject), &all);
    for (size_t i = 0; i < all.count; i++)
        ordered |= object_label(all.items[i], MARKS_LABEL_ORDER) != NULL;
    object_list_fini(&all);
    return ordered;
}

// While it goes: the script's finalize has to be done, then the children that the collector does not reach
// (all, where they have an order), then the finalizer. None of it needs reconcile.
void plan_finalization(struct plan *p, const struct plan_input *in)
{
    if (!in->done || p->errors)
        return;
    bool all = in->leaving || (in->world->children != NULL && needs_order(in)); // nobody collects the rest
    size_t left = in->world->children == NULL ? 0 : plan_delete_children(p, in, NULL, !all);
    if (left > 0 && !in->given_up)
        return;
    remove_finalizer(p, in);
    if (in->leaving)
        plan_status_release(p, in);
    p->last = in->leaving;
}
