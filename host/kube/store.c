#include "kube/store.h"

#include <malloc.h>
#include <string.h>

#include "base/strset.h"
#include "kube/store_impl.h"

size_t store_block_bytes(void *block)
{
    return malloc_usable_size(block) + sizeof(size_t); // malloc's own word in front
}

struct store *store_new(struct store_clock *c, const struct gvk *gvk)
{
    struct store *s = xcalloc(1, sizeof(*s));
    pthread_rwlockattr_t attr;
    pthread_rwlockattr_init(&attr);
    // Or a stream of readers would keep the loop thread waiting.
    pthread_rwlockattr_setkind_np(&attr, PTHREAD_RWLOCK_PREFER_WRITER_NONRECURSIVE_NP);
    pthread_rwlock_init(&s->lock, &attr);
    pthread_rwlockattr_destroy(&attr);
    atomic_init(&s->refs, 1);
    atomic_init(&s->superseded_count, 0);
    s->clock = c;
    s->gvk = gvk;
    TAILQ_INIT(&s->recent);
    STAILQ_INIT(&s->superseded);
    s->bytes = store_block_bytes(s);
    store_clock_attach(c, s);
    return s;
}

struct store *store_ref(struct store *s)
{
    atomic_fetch_add(&s->refs, 1);
    return s;
}

const struct gvk *store_gvk(const struct store *s)
{
    return s->gvk;
}

// ---- slots and versions

// namespace, NUL, name, NUL; 0 when it is longer than any object's.
static size_t make_slot_key(char key[STORE_KEY_MAX], const char *ns, const char *name)
{
    size_t n = strlen(ns) + 1;
    size_t m = strlen(name) + 1;
    if (n + m > STORE_KEY_MAX)
        return 0;
    memcpy(key, ns, n);
    memcpy(key + n, name, m);
    return n + m;
}

struct slot *store_find_slot(struct store *s, const char *ns, const char *name)
{
    char key[STORE_KEY_MAX];
    struct slot *slot = NULL;
    size_t n = make_slot_key(key, ns != NULL ? ns : "", name);
    if (n > 0)
        HASH_FIND(hh, s->slots, key, n, slot);
    return slot;
}

static struct slot *slot_new(struct store *s, const struct object *o)
{
    char key[STORE_KEY_MAX];
    size_t n = make_slot_key(key, object_namespace(o), object_name(o));
    struct slot *slot = xcalloc(1, sizeof(*slot) + n);
    memcpy(slot->key, key, n);
    slot->key_len = (uint32_t)n;
    HASH_ADD_KEYPTR(hh, s->slots, slot->key, slot->key_len, slot);
    TAILQ_INSERT_TAIL(&s->recent, slot, recent);
    s->bytes += store_block_bytes(slot);
    return slot;
}

static void slot_free(struct store *s, struct slot *slot)
{
    store_index_trim(s, slot);
    TAILQ_REMOVE(&s->recent, slot, recent);
    HASH_DEL(s->slots, slot);
    s->bytes -= store_block_bytes(slot);
    free(slot);
}

struct object *slot_visible(const struct slot *slot, uint64_t revision)
{
    if (slot->revision <= revision)
        return slot->object;
    for (const struct old_version *v = slot->older; v != NULL; v = v->older) {
        if (v->revision <= revision)
            return v->object;
    }
    return NULL;
}

// Puts the latest version of a slot behind it.
static void supersede(struct store *s, struct slot *slot, uint64_t revision)
{
    struct old_version *v = xcalloc(1, sizeof(*v));
    v->slot = slot;
    v->object = slot->object;
    v->revision = slot->revision;
    v->until = revision;
    v->older = slot->older;
    if (v->older != NULL)
        v->older->newer = v;
    slot->older = v;
    STAILQ_INSERT_TAIL(&s->superseded, v, superseded);
    atomic_fetch_add(&s->superseded_count, 1);
    s->bytes += store_block_bytes(v);
}

// The new latest version of a slot (takes the reference; NULL: a tombstone), with the write lock.
static void install(struct store *s, struct slot *slot, struct object *o, uint64_t revision)
{
    if (slot->revision > 0)
        supersede(s, slot, revision);
    s->live += (o != NULL) - (slot->object != NULL);
    slot->object = o;
    slot->revision = revision;
    slot->epoch = s->epoch;
    TAILQ_REMOVE(&s->recent, slot, recent);
    TAILQ_INSERT_TAIL(&s->recent, slot, recent);
    if (o != NULL) {
        s->bytes += object_bytes(o);
        store_index_add(s, slot, o);
    }
}

// Takes v, the oldest version of its slot, out of it.
static void unlink_version(struct store *s, struct old_version *v)
{
    struct slot *slot = v->slot;
    if (v->newer != NULL)
        v->newer->older = NULL;
    else
        slot->older = NULL;
    s->bytes -= store_block_bytes(v) + (v->object != NULL ? object_bytes(v->object) : 0);
    if (slot->older == NULL && slot->object == NULL)
        slot_free(s, slot);
    else
        store_index_trim(s, slot);
}

// Versions are superseded in the order of revisions: those that can go are the head of the queue, and each is
// the oldest of its slot.
void store_prune(struct store *s, uint64_t floor)
{
    struct old_versions gone = STAILQ_HEAD_INITIALIZER(gone);
    struct old_version *v;
    if (atomic_load(&s->superseded_count) == 0)
        return;
    pthread_rwlock_wrlock(&s->lock);
    while ((v = STAILQ_FIRST(&s->superseded)) != NULL && v->until <= floor) {
        STAILQ_REMOVE_HEAD(&s->superseded, superseded);
        atomic_fetch_sub(&s->superseded_count, 1);
        unlink_version(s, v);
        STAILQ_INSERT_TAIL(&gone, v, superseded);
    }
    pthread_rwlock_unlock(&s->lock);
    while ((v = STAILQ_FIRST(&gone)) != NULL) {
        STAILQ_REMOVE_HEAD(&gone, superseded);
        object_unref(v->object);
        free(v);
    }
}

static void free_contents(struct store *s)
{
    struct slot *slot, *next_slot;
    struct old_version *v;
    while ((v = STAILQ_FIRST(&s->superseded)) != NULL) {
        STAILQ_REMOVE_HEAD(&s->superseded, superseded);
        object_unref(v->object);
        free(v);
    }
    HASH_ITER (hh, s->slots, slot, next_slot) {
        object_unref(slot->object);
        slot->object = NULL;
        slot->older = NULL;
        slot_free(s, slot);
    }
    for (size_t i = 0; i < s->labels.count; i++)
        free(s->labels.names[i]);
    for (size_t i = 0; i < s->fields.count; i++)
        free(s->fields.names[i]);
}

void store_unref(struct store *s)
{
    if (s == NULL || atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    store_clock_detach(s->clock, s);
    free_contents(s);
    pthread_rwlock_destroy(&s->lock);
    free(s);
}

// ---- writing

static bool is_same(const struct object *a, const struct object *b)
{
    size_t na, nb, ma, mb;
    const char *ta = object_json(a, &na);
    const char *tb = object_json(b, &nb);
    // The managed entries of equal text are one record.
    return na == nb && strcmp(object_resource_version(a), object_resource_version(b)) == 0 &&
           memcmp(ta, tb, na) == 0 && object_managed(a, &ma) == object_managed(b, &mb);
}

static bool is_other_uid(const struct object *a, const struct object *b)
{
    return object_uid(a)[0] != 0 && object_uid(b)[0] != 0 && strcmp(object_uid(a), object_uid(b)) != 0;
}

static void published(struct store *s, uint64_t revision)
{
    store_prune(s, store_clock_publish(s->clock, revision));
}

// Does the store hold an object of that name, but another one?
static bool holds_other(struct store *s, const struct object *o)
{
    pthread_rwlock_rdlock(&s->lock);
    struct slot *slot = store_find_slot(s, object_namespace(o), object_name(o));
    bool other = slot != NULL && slot->object != NULL && is_other_uid(slot->object, o);
    pthread_rwlock_unlock(&s->lock);
    return other;
}

void store_put(struct store *s, struct object *o, store_event_fn *fn, void *ud)
{
    struct object *old = NULL;
    if (holds_other(s, o))
        store_remove(s, object_namespace(o), object_name(o), fn, ud);
    uint64_t revision = store_clock_next(s->clock);
    pthread_rwlock_wrlock(&s->lock);
    struct slot *slot = store_find_slot(s, object_namespace(o), object_name(o));
    if (slot != NULL && slot->object != NULL && is_same(slot->object, o)) {
        slot->epoch = s->epoch;
        pthread_rwlock_unlock(&s->lock);
        object_unref(o);
        return;
    }
    if (slot == NULL)
        slot = slot_new(s, o);
    if (slot->object != NULL)
        old = object_ref(slot->object);
    object_ref(o); // for fn
    install(s, slot, o, revision);
    pthread_rwlock_unlock(&s->lock);
    published(s, revision);
    if (fn != NULL)
        fn(ud, old, o, revision);
    object_unref(old);
    object_unref(o);
}

void store_remove(struct store *s, const char *ns, const char *name, store_event_fn *fn, void *ud)
{
    struct object *old = NULL;
    uint64_t revision = store_clock_next(s->clock);
    pthread_rwlock_wrlock(&s->lock);
    struct slot *slot = store_find_slot(s, ns, name);
    if (slot != NULL && slot->object != NULL) {
        old = object_ref(slot->object);
        install(s, slot, NULL, revision);
    }
    pthread_rwlock_unlock(&s->lock);
    if (old == NULL)
        return;
    published(s, revision);
    if (fn != NULL)
        fn(ud, old, NULL, revision);
    object_unref(old);
}

// ---- relist: an epoch is the mark

void store_relist_begin(struct store *s)
{
    pthread_rwlock_wrlock(&s->lock);
    s->epoch++;
    s->relisting = true;
    pthread_rwlock_unlock(&s->lock);
}

void store_relist_abort(struct store *s)
{
    pthread_rwlock_wrlock(&s->lock);
    s->relisting = false;
    pthread_rwlock_unlock(&s->lock);
}

static void collect_marked(struct store *s, struct object_list *ret)
{
    pthread_rwlock_wrlock(&s->lock);
    if (s->relisting) {
        ret->items = xreallocarray(NULL, s->live, sizeof(ret->items[0]));
        for (struct slot *slot = s->slots; slot != NULL; slot = slot->hh.next) {
            if (slot->object != NULL && slot->epoch != s->epoch)
                ret->items[ret->count++] = object_ref(slot->object);
        }
    }
    s->relisting = false;
    pthread_rwlock_unlock(&s->lock);
}

void store_relist_sweep(struct store *s, store_event_fn *fn, void *ud)
{
    struct object_list gone = {0};
    collect_marked(s, &gone);
    for (size_t i = 0; i < gone.count; i++)
        store_remove(s, object_namespace(gone.items[i]), object_name(gone.items[i]), fn, ud);
    object_list_fini(&gone);
}

// ---- what changed

struct change {
    struct object *old, *new;
    uint64_t revision;
};

static struct change change_of(const struct slot *slot, uint64_t revision)
{
    struct object *old = slot_visible(slot, revision);
    struct change c = {old != NULL ? object_ref(old) : NULL,
                       slot->object != NULL ? object_ref(slot->object) : NULL, slot->revision};
    return c;
}

static size_t collect_changes(struct store *s, uint64_t revision, struct change **ret)
{
    size_t n = 0;
    struct slot *slot;
    struct slot *first = NULL;
    pthread_rwlock_rdlock(&s->lock);
    TAILQ_FOREACH_REVERSE(slot, &s->recent, slots, recent)
    {
        if (slot->revision <= revision)
            break;
        first = slot;
        n++;
    }
    if (n > 0)
        *ret = xreallocarray(NULL, n, sizeof(**ret));
    n = 0;
    for (slot = first; slot != NULL; slot = TAILQ_NEXT(slot, recent))
        (*ret)[n++] = change_of(slot, revision);
    pthread_rwlock_unlock(&s->lock);
    return n;
}

void store_changed_since(struct store *s, uint64_t revision, store_event_fn *fn, void *ud)
{
    struct change *changes = NULL;
    size_t n = collect_changes(s, revision, &changes);
    for (size_t i = 0; i < n; i++) {
        struct change *c = &changes[i];
        if (c->old != NULL || c->new != NULL) // else it came and went in between
            fn(ud, c->old, c->new, c->revision);
        object_unref(c->old);
        object_unref(c->new);
    }
    free(changes);
}
