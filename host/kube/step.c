#include "kube/step.h"

#include <string.h>

#include "kube/fields_items.h"

static void add_name(const char *name, bool first, struct buf *out)
{
    if (*name == '\0' || strpbrk(name, ".[]\"") != NULL)
        buf_addf(out, "[\"%s\"]", name);
    else
        buf_addf(out, "%s%s", first ? "" : ".", name);
}

void step_path(const struct step *at, struct buf *out)
{
    if (at == NULL || at->up == NULL)
        return;
    step_path(at->up, out);
    if (at->name != NULL)
        add_name(at->name, at->up->up == NULL, out);
    else if (at->item != NULL)
        fields_item_path(at->item, out);
    else
        buf_addf(out, "[%zu]", at->index);
}
