#include <stdlib.h>

#include "base/alloc.h"
#include "base/log.h"
#include "base/strset.h"
#include "run/controller/controller_internal.h"

static bool is_cluster_scoped(const struct controller *c, const struct gvk *gvk)
{
    struct resource r;
    return discovery_find(c->env->discovery, gvk, &r) == DISCOVERY_FOUND && !r.namespaced;
}

static bool is_confined(const struct controller *c)
{
    return c->env->namespaces != NULL && c->env->namespaces->count > 0;
}

// Namespaces to look into: those the script names, within those the host is confined to. NULL in it: all.
static size_t scope_namespaces(const struct controller *c, const struct gvk *gvk, const char *const *wanted,
                               const char ***ret)
{
    size_t n = 0, cap = 1;
    for (const char *const *w = wanted; w != NULL && *w != NULL; w++)
        cap++;
    if (is_confined(c))
        cap += c->env->namespaces->count;
    const char **list = xcalloc(cap, sizeof list[0]);
    if (is_cluster_scoped(c, gvk) || (wanted == NULL && !is_confined(c))) {
        n = 1; // list[0] is NULL
    } else if (wanted == NULL) {
        for (size_t i = 0; i < c->env->namespaces->count; i++)
            list[n++] = c->env->namespaces->items[i];
    } else {
        for (; *wanted != NULL; wanted++)
            if (!is_confined(c) || strset_has(c->env->namespaces, *wanted))
                list[n++] = *wanted;
    }
    *ret = list;
    return n;
}

static void close_subjects(struct controller *c)
{
    for (size_t i = 0; i < c->subject_count; i++)
        informer_use_release(c->subjects[i]);
    free(c->subjects);
    c->subjects = NULL;
    c->subject_count = 0;
}

void controller_open_subjects(struct controller *c)
{
    struct informer_use **old = c->subjects;
    size_t old_count = c->subject_count;
    struct resource r;
    const char **namespaces;
    const struct script *s = c->script;
    c->scope_known = discovery_find(c->env->discovery, s->subject, &r) == DISCOVERY_FOUND;
    c->subject_count = scope_namespaces(c, s->subject, program_spec(s->program)->namespaces, &namespaces);
    c->subjects = xcalloc(c->subject_count + 1, sizeof c->subjects[0]);
    for (size_t i = 0; i < c->subject_count; i++) {
        struct informer_scope scope = {
            .gvk = s->subject,
            .ns = namespaces[i],
            .labels = s->selector == NULL ? NULL : selector_text(s->selector),
            .fields = s->fields == NULL || c->fields_refused ? NULL : field_selector_text(s->fields)};
        c->subjects[i] = informers_acquire(c->env->informers, &scope, &s->as);
    }
    free(namespaces);
    for (size_t i = 0; i < old_count; i++) // after the new ones: what both need goes on
        informer_use_release(old[i]);
    free(old);
}

void controller_check_fields(struct controller *c)
{
    struct err why;
    if (c->script->fields == NULL || c->fields_refused)
        return;
    for (size_t i = 0; i < c->subject_count; i++)
        if (informer_use_state(c->subjects[i], &why) == INFORMER_UNAVAILABLE &&
            informer_use_get(c->subjects[i]) != NULL) {
            log_info("subjects are selected by the host: the server does not know these fields",
                     F_STR("script", c->script->name),
                     F_STR("fields", field_selector_text(c->script->fields)), F_STR("error", why.text));
            c->fields_refused = true;
            controller_open_subjects(c);
            return;
        }
}

static void close_kinds(struct controller *c)
{
    for (size_t i = 0; i < c->kind_count; i++)
        informer_use_release(c->kinds[i].use);
    free(c->kinds);
    free(c->patch_kinds);
    c->kinds = NULL;
    c->patch_kinds = NULL;
    c->kind_count = c->patch_count = 0;
}

void controller_close_informers(struct controller *c)
{
    close_subjects(c);
    close_kinds(c);
}

static bool has_kind(const struct controller *c, const struct gvk *gvk)
{
    for (size_t i = 0; i < c->kind_count; i++)
        if (gvk_same_group_kind(c->kinds[i].gvk, gvk))
            return true;
    return false;
}

static void open_kind(struct controller *c, const struct gvk *gvk)
{
    const char **namespaces;
    char *labels = xasprintf("%s=%s", MARKS_LABEL_SCRIPT, c->script->hash);
    size_t n = scope_namespaces(c, gvk, NULL, &namespaces);
    c->kinds = xreallocarray(c->kinds, c->kind_count + n, sizeof c->kinds[0]);
    for (size_t i = 0; i < n; i++) {
        struct informer_scope scope = {.gvk = gvk, .ns = namespaces[i], .labels = labels};
        c->kinds[c->kind_count++] =
            (struct controller_kind){gvk, informers_acquire(c->env->informers, &scope, &c->script->as)};
    }
    free(labels);
    free(namespaces);
}

static void know_patch_kind(struct controller *c, const struct gvk *gvk)
{
    for (size_t i = 0; i < c->patch_count; i++)
        if (gvk_same_group_kind(c->patch_kinds[i], gvk))
            return;
    c->patch_kinds = xreallocarray(c->patch_kinds, c->patch_count + 1, sizeof c->patch_kinds[0]);
    c->patch_kinds[c->patch_count++] = gvk;
}

void controller_open_kinds(struct controller *c)
{
    const struct inventory_kind *kinds;
    size_t n = inventory_kinds(c->inventory, &kinds);
    for (size_t i = 0; i < n; i++) {
        struct resource r;
        if (discovery_find_group_kind(c->env->discovery, kinds[i].group, kinds[i].kind, &r) !=
            DISCOVERY_FOUND)
            continue; // no such kind (any more): it has no objects
        if (kinds[i].subject)
            continue;
        if (kinds[i].patched)
            know_patch_kind(c, r.gvk);
        else if (!has_kind(c, r.gvk))
            open_kind(c, r.gvk);
    }
}

// ---- the view

static struct child_stores *children_now(const struct controller *c)
{
    if (!inventory_is_loaded(c->inventory))
        return NULL;
    struct child_stores *s = child_stores_new(c->kind_count);
    s->patch_count = c->patch_count;
    s->patch_kinds = xmemdup(c->patch_kinds, c->patch_count * sizeof c->patch_kinds[0]);
    size_t n = 0;
    for (size_t i = 0; i < c->kind_count; i++) {
        struct informer *informer = informer_use_get(c->kinds[i].use);
        enum informer_answer answer = informer_use_state(c->kinds[i].use, NULL);
        if (informer == NULL && answer == INFORMER_UNKNOWN_KIND)
            continue; // it vanished, and its objects with it
        s->items[n].gvk = c->kinds[i].gvk;
        s->items[n].synced = answer == INFORMER_SYNCED && informer != NULL;
        s->items[n].store = informer == NULL ? NULL : store_ref(informer_store(informer));
        n++;
    }
    s->count = n;
    return s;
}

static bool same_children(const struct child_stores *a, const struct child_stores *b)
{
    if (a == NULL || b == NULL || a->count != b->count || a->patch_count != b->patch_count)
        return a == b;
    for (size_t i = 0; i < a->count; i++)
        if (a->items[i].store != b->items[i].store || a->items[i].synced != b->items[i].synced)
            return false;
    return true;
}

static bool same_view(const struct controller_view *a, const struct controller_view *b)
{
    if (a->script != b->script || a->paused != b->paused || a->given_up != b->given_up ||
        a->store_count != b->store_count || !same_children(a->children, b->children))
        return false;
    for (size_t i = 0; i < a->store_count; i++)
        if (a->stores[i] != b->stores[i])
            return false;
    for (size_t i = 0; i < a->leaving_count; i++)
        if (i >= b->leaving_count || a->leaving[i] != b->leaving[i])
            return false;
    if (a->leaving_count != b->leaving_count)
        return false;
    return true;
}

// A new view when anything it is made of has changed.
void controller_refresh_view(struct controller *c)
{
    struct store **stores = xcalloc(c->subject_count + 1, sizeof stores[0]);
    size_t n = 0;
    for (size_t i = 0; i < c->subject_count; i++) {
        struct informer *informer = informer_use_get(c->subjects[i]);
        if (informer != NULL)
            stores[n++] = store_ref(informer_store(informer));
    }
    struct controller_view *v = controller_view_new(script_ref(c->script), children_now(c), stores, n),
                           *old = c->view;
    v->paused = c->paused;
    v->given_up = given_up_set_ref(c->given_up);
    controller_view_leavers(c, v);
    if (old != NULL && same_view(old, v)) {
        controller_view_unref(v);
        return;
    }
    pthread_mutex_lock(&c->view_lock);
    c->view = v;
    pthread_mutex_unlock(&c->view_lock);
    controller_view_unref(old);
}

bool controller_is_subject_informer(const struct controller *c, const struct informer *i)
{
    for (size_t k = 0; k < c->subject_count; k++)
        if (informer_use_get(c->subjects[k]) == i)
            return true;
    return false;
}

bool controller_is_child_informer(const struct controller *c, const struct informer *i)
{
    for (size_t k = 0; k < c->kind_count; k++)
        if (informer_use_get(c->kinds[k].use) == i)
            return true;
    return false;
}

void controller_each_subject(struct controller *c, void (*fn)(struct controller *c, struct object *o))
{
    for (size_t i = 0; i < c->subject_count; i++) {
        struct informer *informer = informer_use_get(c->subjects[i]);
        struct object_list list;
        if (informer == NULL)
            continue;
        store_list(informer_store(informer), UINT64_MAX, &(struct store_query){0}, &list);
        for (size_t k = 0; k < list.count; k++)
            fn(c, list.items[k]);
        object_list_fini(&list);
    }
}
