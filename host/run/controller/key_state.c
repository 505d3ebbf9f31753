#include "run/controller/key_state.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"
#include "base/hash_table.h"
#include "base/strset.h"

struct slot {
    char *key;
    struct key_state state;
    UT_hash_handle hh;
};

struct key_states {
    struct slot *slots;
};

struct key_states *key_states_new(void)
{
    return xcalloc(1, sizeof(struct key_states));
}

static void state_fini(struct key_state *k)
{
    free(k->uid);
    free(k->events);
    object_unref(k->last);
    *k = (struct key_state){0};
}

static void drop(struct key_states *s, struct slot *x)
{
    HASH_DEL(s->slots, x);
    state_fini(&x->state);
    free(x->key);
    free(x);
}

void key_states_free(struct key_states *s)
{
    if (s == NULL)
        return;
    struct slot *x, *tmp;
    HASH_ITER (hh, s->slots, x, tmp) {
        drop(s, x);
    }
    free(s);
}

struct key_state *key_states_get(struct key_states *s, const char *key, const char *uid)
{
    struct slot *x;
    HASH_FIND_STR(s->slots, key, x);
    if (x == NULL) {
        x = xcalloc(1, sizeof *x);
        x->key = xstrdup(key);
        HASH_ADD_KEYPTR(hh, s->slots, x->key, strlen(x->key), x);
    }
    if (!str_eq(x->state.uid, uid)) {
        state_fini(&x->state);
        x->state.uid = xstrdup(uid);
    }
    return &x->state;
}

struct key_state *key_states_find(struct key_states *s, const char *key, const char *uid)
{
    struct slot *x;
    HASH_FIND_STR(s->slots, key, x);
    return x != NULL && str_eq(x->state.uid, uid) ? &x->state : NULL;
}

void key_states_forget(struct key_states *s, const char *key)
{
    struct slot *x;
    HASH_FIND_STR(s->slots, key, x);
    if (x != NULL)
        drop(s, x);
}

size_t key_states_count(const struct key_states *s)
{
    return HASH_COUNT(s->slots);
}

static uint64_t event_hash(const struct plan_event *ev)
{
    uint64_t h = hash_fnv1a(HASH_FNV_START, ev->type, strlen(ev->type) + 1);
    h = hash_fnv1a(h, ev->reason, strlen(ev->reason) + 1);
    return hash_fnv1a(h, ev->message, strlen(ev->message));
}

static bool has(const uint64_t *hashes, size_t n, uint64_t h)
{
    for (size_t i = 0; i < n; i++)
        if (hashes[i] == h)
            return true;
    return false;
}

void key_state_events(struct key_state *k, const struct plan *plan, bool silent,
                      void (*fn)(void *ud, const struct plan_event *ev), void *ud)
{
    uint64_t *now = xcalloc(plan->event_count + 1, sizeof now[0]);
    for (size_t i = 0; i < plan->event_count; i++) {
        now[i] = event_hash(&plan->events[i]);
        if (!silent && !has(k->events, k->event_count, now[i]) && !has(now, i, now[i]))
            fn(ud, &plan->events[i]);
    }
    free(k->events);
    k->events = now;
    k->event_count = plan->event_count;
}

bool key_state_problem(struct key_state *k, const char *text)
{
    uint64_t h = hash_str(text) | 1;
    bool new = h != k->problem;
    k->problem = h;
    return new;
}

void key_state_no_problem(struct key_state *k)
{
    k->problem = 0;
}

void key_state_went_through(struct key_state *k, struct object *subject, uint64_t seen)
{
    object_unref(k->last);
    k->last = subject == NULL ? NULL : object_ref(subject);
    k->seen = seen;
    k->failed = false;
    k->completed = true;
}

void key_state_failed(struct key_state *k)
{
    k->seen = 0;
    k->failed = true;
}
