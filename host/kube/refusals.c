#include "kube/refusals.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash_table.h"

enum { MAX = 1000, SURE_MS = 60 * 1000 };

struct refusal {
    char *what;
    uint64_t look;     // the first that counts
    uint64_t since_ms; // when that was asked for
    UT_hash_handle hh;
};

struct refusals {
    struct refusal *table;
    uint64_t wanted, begun, ended; // looks, counted from 1
};

struct refusals *refusals_new(void)
{
    return xcalloc(1, sizeof(struct refusals));
}

void refusals_forget(struct refusals *r)
{
    struct refusal *x, *next;
    HASH_ITER (hh, r->table, x, next) {
        HASH_DEL(r->table, x);
        free(x->what);
        free(x);
    }
}

void refusals_free(struct refusals *r)
{
    if (r == NULL)
        return;
    refusals_forget(r);
    free(r);
}

static struct refusal *add(struct refusals *r, const char *what)
{
    if (HASH_COUNT(r->table) >= MAX)
        refusals_forget(r);
    struct refusal *x = xcalloc(1, sizeof(*x));
    x->what = xstrdup(what);
    HASH_ADD_KEYPTR(hh, r->table, x->what, strlen(x->what), x);
    return x;
}

bool refusals_sure(struct refusals *r, const char *what, uint64_t now_ms)
{
    struct refusal *x;
    HASH_FIND_STR(r->table, what, x);
    if (x != NULL && (x->look > r->ended || now_ms - x->since_ms < SURE_MS))
        return x->look <= r->ended;
    if (x == NULL)
        x = add(r, what);
    x->look = r->wanted = r->begun + 1;
    x->since_ms = now_ms;
    return false;
}

bool refusals_want_look(const struct refusals *r)
{
    return r->wanted > r->begun;
}

void refusals_look_begins(struct refusals *r)
{
    r->begun++;
}

void refusals_look_ends(struct refusals *r)
{
    r->ended = r->begun;
}
