// A script's subjects are of one kind as long as it has left anything on them or for them: another kind's
// version could neither finalize them nor tell which of its children are wanted, and would take what is
// theirs for forgotten. The inventory knows, also after a restart.

#include <string.h>

#include "base/strset.h"
#include "run/controller/controller_internal.h"

// The first kind with subjects that a version with `subject` would not look after.
static const struct inventory_kind *other_kind(const struct controller *c, const struct gvk *subject)
{
    const struct inventory_kind *kinds;
    size_t n = inventory_kinds(c->inventory, &kinds);
    for (size_t i = 0; i < n; i++) {
        const struct inventory_kind *k = &kinds[i];
        struct resource r;
        if (!k->subject || (str_eq(k->group, subject->group) && str_eq(k->kind, subject->kind)))
            continue;
        if (discovery_find_group_kind(c->env->discovery, k->group, k->kind, &r) != DISCOVERY_UNKNOWN)
            return k; // otherwise they went with their kind
    }
    return NULL;
}

// `so`: what follows from it.
static int say_what_is_left(const struct script *s, const struct inventory_kind *k, const char *so,
                            struct err *e)
{
    return err_set(e, ERR_CONFLICT,
                   "subject: it is %s, but the script has left children, patches or finalizers for its "
                   "subjects of %s%s%s: %s with: tidelock release %s --namespace-of-script %s",
                   s->subject->text, k->group, k->group[0] == '\0' ? "" : "/", k->kind, so, s->name, s->ns);
}

int controller_may_swap(const struct controller *c, const struct script *script, struct err *e)
{
    const struct inventory_kind *k = other_kind(c, script->subject);
    if (k == NULL || controller_is_held(c, NULL))
        return 0;
    return say_what_is_left(script, k, "give it another name; what it leaves behind is handed back then", e);
}

bool controller_is_held(const struct controller *c, struct err *e)
{
    const struct inventory_kind *k =
        inventory_is_loaded(c->inventory) ? other_kind(c, c->script->subject) : NULL;
    if (k == NULL)
        return false;
    say_what_is_left(c->script, k, "it waits until its subject is that again, or they are handed back", e);
    return true;
}
