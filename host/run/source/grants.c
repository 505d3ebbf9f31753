#include "run/source/grants.h"

#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/strset.h"

struct grants {
    struct strset texts; // "script=group/Kind", "script=/Kind" for core
};

// What no script may touch by default: whoever can write these can give itself more. kind NULL: the whole
// group.
static const struct {
    const char *group, *kind;
} denied[] = {
    {"", "Secret"},
    {"", "ServiceAccount"},
    {"rbac.authorization.k8s.io", NULL},
    {"admissionregistration.k8s.io", NULL},
    {"apiextensions.k8s.io", "CustomResourceDefinition"},
    {"apiregistration.k8s.io", NULL},
    {"authentication.k8s.io", NULL},
    {"authorization.k8s.io", NULL},
    {"certificates.k8s.io", NULL},
};

struct grants *grants_new(void)
{
    return xcalloc(1, sizeof(struct grants));
}

void grants_free(struct grants *g)
{
    if (g == NULL)
        return;
    strset_fini(&g->texts);
    free(g);
}

int grants_add(struct grants *g, const char *text, struct err *e)
{
    const char *eq = strchr(text, '=');
    if (eq == NULL || eq == text || eq[1] == '\0')
        return err_set(e, ERR_INVALID,
                       "--grant %s: expected SCRIPT=group/Kind, such as backup=/Secret or *=batch/Job", text);
    char *full =
        strchr(eq, '/') != NULL ? xstrdup(text) : xasprintf("%.*s=/%s", (int)(eq - text), text, eq + 1);
    strset_add(&g->texts, full);
    free(full);
    return 0;
}

static bool is_denied(const struct gvk *gvk)
{
    for (size_t i = 0; i < sizeof denied / sizeof denied[0]; i++)
        if (str_eq(denied[i].group, gvk->group) &&
            (denied[i].kind == NULL || str_eq(denied[i].kind, gvk->kind)))
            return true;
    return false;
}

static bool is_granted(const struct grants *g, const char *script, const struct gvk *gvk)
{
    char *text = xasprintf("%s=%s/%s", script, gvk->group, gvk->kind);
    bool yes = strset_has(&g->texts, text);
    free(text);
    return yes;
}

int grants_check(const struct grants *g, const char *script, const struct gvk *gvk, struct err *e)
{
    if (!is_denied(gvk) || is_granted(g, script, gvk) || is_granted(g, "*", gvk))
        return 0;
    return err_set(e, ERR_FORBIDDEN,
                   "script %s may not touch %s: start the host with --grant %s=%s/%s to allow it", script,
                   gvk->text, script, gvk->group, gvk->kind);
}
