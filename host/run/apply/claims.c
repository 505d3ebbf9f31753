#include "run/apply/claims.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/hash_table.h"

struct claim {
    char *id;
    char *uid;
    char *who;
    UT_hash_handle hh;
};

struct claims {
    struct claim *claims;
};

struct claims *claims_new(void)
{
    return xcalloc(1, sizeof(struct claims));
}

static void drop(struct claims *c, struct claim *x)
{
    HASH_DEL(c->claims, x);
    free(x->id);
    free(x->uid);
    free(x->who);
    free(x);
}

void claims_free(struct claims *c)
{
    if (c == NULL)
        return;
    struct claim *x, *tmp;
    HASH_ITER (hh, c->claims, x, tmp) {
        drop(c, x);
    }
    free(c);
}

static char *child_id(const struct gvk *gvk, const char *ns, const char *name)
{
    return xasprintf("%s/%s|%s|%s", gvk->group, gvk->kind, ns, name);
}

const char *claims_take(struct claims *c, const struct gvk *gvk, const char *ns, const char *name,
                        const char *uid, const char *who)
{
    char *id = child_id(gvk, ns, name);
    struct claim *x;
    HASH_FIND_STR(c->claims, id, x);
    if (x != NULL) {
        free(id);
        return strcmp(x->uid, uid) == 0 ? NULL : x->who;
    }
    x = xcalloc(1, sizeof *x);
    x->id = id;
    x->uid = xstrdup(uid);
    x->who = xstrdup(who);
    HASH_ADD_KEYPTR(hh, c->claims, x->id, strlen(x->id), x);
    return NULL;
}

void claims_release(struct claims *c, const struct gvk *gvk, const char *ns, const char *name,
                    const char *uid)
{
    char *id = child_id(gvk, ns, name);
    struct claim *x;
    HASH_FIND_STR(c->claims, id, x);
    free(id);
    if (x != NULL && strcmp(x->uid, uid) == 0)
        drop(c, x);
}
