#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash_table.h"
#include "base/strset.h"
#include "run/controller/controller_internal.h"
#include "run/workqueue/predicate.h"

struct subject_id {
    char *uid;
    char *key;
    UT_hash_handle hh;
};

static struct subject_id *find(const struct controller *c, const char *uid)
{
    struct subject_id *s;
    HASH_FIND_STR(c->ids, uid, s);
    return s;
}

void controller_know_subject(struct controller *c, const struct object *o)
{
    if (find(c, object_uid(o)) != NULL)
        return;
    struct subject_id *s = xcalloc(1, sizeof *s);
    s->uid = xstrdup(object_uid(o));
    s->key = controller_key(object_namespace(o), object_name(o));
    HASH_ADD_KEYPTR(hh, c->ids, s->uid, strlen(s->uid), s);
}

static void drop(struct controller *c, struct subject_id *s)
{
    HASH_DEL(c->ids, s);
    free(s->uid);
    free(s->key);
    free(s);
}

void controller_forget_subject(struct controller *c, const char *uid)
{
    struct subject_id *s = find(c, uid);
    if (s != NULL)
        drop(c, s);
}

const char *controller_key_of_uid(const struct controller *c, const char *uid)
{
    const struct subject_id *s = find(c, uid);
    return s == NULL ? NULL : s->key;
}

void controller_each_uid(const struct controller *c, void (*fn)(void *arg, const char *uid), void *arg)
{
    for (const struct subject_id *s = c->ids; s != NULL; s = s->hh.next)
        fn(arg, s->uid);
}

void controller_forget_subjects(struct controller *c)
{
    struct subject_id *s, *tmp;
    HASH_ITER (hh, c->ids, s, tmp) {
        drop(c, s);
    }
}

// ---- which changes matter

static bool changed_values_matter(struct controller *c, const struct object *old, const struct object *new,
                                  const char *key)
{
    uint64_t now = predicate_changed_hash(c->script, new);
    if (now == predicate_changed_hash(c->script, old))
        return false;
    const struct key_state *k = key_states_find(c->keys, key, object_uid(new));
    return k == NULL || k->seen != now || queue_place(c->queue, key) != QUEUE_ELSEWHERE;
}

// Is this change to be followed by a pass now? A script with `when` is asked about it, and answers later.
static bool matters(struct controller *c, const struct object *old, struct object *new, const char *key)
{
    const struct program_spec *spec = program_spec(c->script->program);
    if (predicate_is_turn(old, new))
        return true;
    if (object_content_hash(old) == object_content_hash(new) && spec->changed != NULL)
        return false;
    if (spec->changed != NULL)
        return changed_values_matter(c, old, new, key);
    if (!predicate_content_differs(c->script, old, new))
        return false;
    if (!spec->has_when)
        return true;
    controller_ask_when(c, key, new);
    return false;
}

void controller_on_subject(struct controller *c, struct informer *informer, struct object *old,
                           struct object *new)
{
    // A store that serves others too holds more than this script's subjects: what leaves them is gone.
    if (old != NULL && !predicate_selects(c->script, old))
        old = NULL;
    if (new != NULL && !predicate_selects(c->script, new))
        new = NULL;
    const struct object *o = new != NULL ? new : old;
    if (o == NULL)
        return;
    if (new == NULL)
        controller_forget_subject(c, object_uid(old));
    else
        controller_know_subject(c, new);
    if (new == NULL)
        controller_went(c, old);
    else if (old == NULL)
        controller_came_back(c, new);
    char *key = controller_key(object_namespace(o), object_name(o));
    if (new == NULL)
        controller_deletion_forget(c, key);
    else
        controller_deletion_note(c, new, false);
    if (c->ready && (new == NULL || !controller_is_echo(c, informer, key, old, new)) &&
        matters(c, old, new, key))
        controller_add(c, key);
    free(key);
}
