#include "run/plan/learned.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>

#include "base/alloc.h"
#include "base/hash_table.h"

// What is known of one object: a fact for each manager of ours that writes it, so one or two.
struct fact {
    char *what; // "" or "/..."
    uint64_t desired, owned;
    SLIST_ENTRY(fact) next;
};

struct known {
    char *uid;
    SLIST_HEAD(, fact) facts;
    UT_hash_handle hh;
};

struct learned {
    pthread_mutex_t lock;
    struct known *objects;
};

struct learned *learned_new(void)
{
    struct learned *l = xcalloc(1, sizeof *l);
    pthread_mutex_init(&l->lock, NULL);
    return l;
}

static void drop(struct learned *l, struct known *s)
{
    HASH_DEL(l->objects, s);
    while (!SLIST_EMPTY(&s->facts)) {
        struct fact *f = SLIST_FIRST(&s->facts);
        SLIST_REMOVE_HEAD(&s->facts, next);
        free(f->what);
        free(f);
    }
    free(s->uid);
    free(s);
}

void learned_free(struct learned *l)
{
    if (l == NULL)
        return;
    struct known *s, *tmp;
    HASH_ITER (hh, l->objects, s, tmp) {
        drop(l, s);
    }
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static struct known *find_object(const struct learned *l, const char *uid, size_t n)
{
    struct known *s;
    HASH_FIND(hh, l->objects, uid, n, s);
    return s;
}

static struct fact *find_fact(const struct learned *l, const char *id)
{
    size_t n = strcspn(id, "/");
    struct known *s = find_object(l, id, n);
    struct fact *f = NULL;
    if (s != NULL) {
        SLIST_FOREACH (f, &s->facts, next) {
            if (strcmp(f->what, id + n) == 0)
                break;
        }
    }
    return f;
}

static struct fact *add_fact(struct learned *l, const char *id)
{
    size_t n = strcspn(id, "/");
    struct known *s = find_object(l, id, n);
    if (s == NULL) {
        s = xcalloc(1, sizeof *s);
        s->uid = xstrndup(id, n);
        SLIST_INIT(&s->facts);
        HASH_ADD_KEYPTR(hh, l->objects, s->uid, n, s);
    }
    struct fact *f = xcalloc(1, sizeof *f);
    f->what = xstrdup(id + n);
    SLIST_INSERT_HEAD(&s->facts, f, next);
    return f;
}

void learned_put(struct learned *l, const char *id, uint64_t desired, uint64_t owned)
{
    pthread_mutex_lock(&l->lock);
    struct fact *f = find_fact(l, id);
    if (f == NULL)
        f = add_fact(l, id);
    f->desired = desired;
    f->owned = owned;
    pthread_mutex_unlock(&l->lock);
}

bool learned_same(struct learned *l, const char *id, uint64_t desired, uint64_t owned)
{
    pthread_mutex_lock(&l->lock);
    const struct fact *f = find_fact(l, id);
    bool same = f != NULL && f->desired == desired && f->owned == owned;
    pthread_mutex_unlock(&l->lock);
    return same;
}

void learned_forget(struct learned *l, const char *uid)
{
    pthread_mutex_lock(&l->lock);
    struct known *s = find_object(l, uid, strlen(uid));
    if (s != NULL)
        drop(l, s);
    pthread_mutex_unlock(&l->lock);
}
