#include "run/workqueue/given_up.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

struct item {
    char *uid;
    enum given_up what;
};

struct given_up_set {
    unsigned refs; // atomic
    size_t count, room;
    struct item items[]; // by UID
};

struct given_up_set *given_up_set_new(size_t room)
{
    struct given_up_set *s = xcalloc(1, sizeof *s + room * sizeof s->items[0]);
    s->refs = 1;
    s->room = room;
    return s;
}

void given_up_set_add(struct given_up_set *s, const char *uid, enum given_up what)
{
    ASSERT(s->count < s->room);
    s->items[s->count++] = (struct item){xstrdup(uid), what};
}

static int compare(const void *a, const void *b)
{
    return strcmp(((const struct item *)a)->uid, ((const struct item *)b)->uid);
}

void given_up_set_seal(struct given_up_set *s)
{
    qsort(s->items, s->count, sizeof s->items[0], compare);
}

struct given_up_set *given_up_set_ref(struct given_up_set *s)
{
    if (s != NULL)
        __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
    return s;
}

void given_up_set_unref(struct given_up_set *s)
{
    if (s == NULL || __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) > 0)
        return;
    for (size_t i = 0; i < s->count; i++)
        free(s->items[i].uid);
    free(s);
}

enum given_up given_up_of(const struct given_up_set *s, const char *uid)
{
    struct item key = {.uid = (char *)uid};
    const struct item *found =
        s == NULL ? NULL : bsearch(&key, s->items, s->count, sizeof s->items[0], compare);
    return found == NULL ? GIVEN_UP_NOTHING : found->what;
}
