#include "run/learned.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include <uthash.h>

#include "base/alloc.h"

struct fact {
    char *id;
    uint64_t desired, owned;
    UT_hash_handle hh;
};

struct learned {
    pthread_mutex_t lock;
    struct fact *facts;
};

struct learned *learned_new(void)
{
    struct learned *l = xcalloc(1, sizeof *l);
    pthread_mutex_init(&l->lock, NULL);
    return l;
}

static void drop(struct learned *l, struct fact *f)
{
    HASH_DEL(l->facts, f);
    free(f->id);
    free(f);
}

void learned_free(struct learned *l)
{
    if (l == NULL)
        return;
    struct fact *f, *tmp;
    HASH_ITER (hh, l->facts, f, tmp) {
        drop(l, f);
    }
    pthread_mutex_destroy(&l->lock);
    free(l);
}

void learned_put(struct learned *l, const char *id, uint64_t desired, uint64_t owned)
{
    pthread_mutex_lock(&l->lock);
    struct fact *f;
    HASH_FIND_STR(l->facts, id, f);
    if (f == NULL) {
        f = xcalloc(1, sizeof *f);
        f->id = xstrdup(id);
        HASH_ADD_KEYPTR(hh, l->facts, f->id, strlen(f->id), f);
    }
    f->desired = desired;
    f->owned = owned;
    pthread_mutex_unlock(&l->lock);
}

bool learned_same(struct learned *l, const char *id, uint64_t desired, uint64_t owned)
{
    pthread_mutex_lock(&l->lock);
    struct fact *f;
    HASH_FIND_STR(l->facts, id, f);
    bool same = f != NULL && f->desired == desired && f->owned == owned;
    pthread_mutex_unlock(&l->lock);
    return same;
}

void learned_forget(struct learned *l, const char *id)
{
    pthread_mutex_lock(&l->lock);
    struct fact *f;
    HASH_FIND_STR(l->facts, id, f);
    if (f != NULL)
        drop(l, f);
    pthread_mutex_unlock(&l->lock);
}
