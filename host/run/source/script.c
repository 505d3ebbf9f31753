#include "run/source/script.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/strset.h"
#include "data/quantity.h"

static void free_script(struct script *s)
{
    program_unref(s->program);
    selector_free(s->selector);
    field_selector_free(s->fields);
    free(s->ns);
    free(s->name);
    free(s->where);
    free(s);
}

static int over_ceiling(const struct script *s, const char *key, const char *asked, const char *ceiling,
                        const char *flag, struct err *e)
{
    return err_set(
        e, ERR_LIMIT,
        "%s: limits.%s: asks for %s, but this host gives a pass %s at most: ask for less, or start "
        "the host with a larger %s",
        program_file_name(s->program), key, asked, ceiling, flag);
}

static int check_limits(const struct script *s, struct err *e)
{
    const struct program_spec *spec = program_spec(s->program);
    const struct script_host *h = s->host;
    uint64_t cpu_us = h->max_pass_cpu_us != 0 ? h->max_pass_cpu_us : SCRIPT_MAX_PASS_CPU_US;
    size_t memory = h->max_pass_memory != 0 ? h->max_pass_memory : SCRIPT_MAX_PASS_MEMORY;
    if (spec->limits.cpu_us > cpu_us) {
        char asked[CLOCK_TEXT_MAX], ceiling[CLOCK_TEXT_MAX];
        duration_format(asked, (int64_t)spec->limits.cpu_us);
        duration_format(ceiling, (int64_t)cpu_us);
        return over_ceiling(s, "cpu", asked, ceiling, "--max-pass-cpu", e);
    }
    if (spec->limits.memory > memory) {
        char asked[QUANTITY_TEXT_MAX], ceiling[QUANTITY_TEXT_MAX];
        quantity_format(asked, spec->limits.memory);
        quantity_format(ceiling, memory);
        return over_ceiling(s, "memory", asked, ceiling, "--max-pass-memory", e);
    }
    return 0;
}

static int read_table(struct script *s, struct err *e)
{
    const struct program_spec *spec = program_spec(s->program);
    s->subject = gvk_parse(spec->subject, e);
    if (s->subject == NULL)
        return e == NULL ? -ERR_INVALID : err_prefix(e, "subject");
    int r = spec->selector == NULL ? 0 : selector_parse(spec->selector, &s->selector, e);
    if (r < 0)
        return e == NULL ? r : err_prefix(e, "selector");
    r = spec->fields == NULL ? 0 : field_selector_parse(spec->fields, &s->fields, e);
    if (r < 0)
        return e == NULL ? r : err_prefix(e, "fields");
    r = check_limits(s, e);
    return r < 0 ? r : script_may_read(s, s->subject, e);
}

int script_new(const struct script_host *host, const char *ns, const char *where, struct program *program,
               struct script **ret, struct err *e)
{
    struct script *s = xcalloc(1, sizeof *s);
    s->refs = 1;
    s->host = host;
    s->program = program;
    s->ns = xstrdup(ns);
    s->name = xstrdup(program_spec(program)->name);
    s->where = xstrdup(where);
    s->as = identity_host;
    marks_script_hash(s->hash, host->instance, ns, s->name);
    marks_manager(s->manager, s->name, s->hash);
    int r = read_table(s, e);
    if (r < 0) {
        free_script(s);
        return r;
    }
    *ret = s;
    return 0;
}

struct script *script_ref(struct script *s)
{
    __atomic_add_fetch(&s->refs, 1, __ATOMIC_RELAXED);
    return s;
}

void script_unref(struct script *s)
{
    if (s != NULL && __atomic_sub_fetch(&s->refs, 1, __ATOMIC_ACQ_REL) == 0)
        free_script(s);
}

int script_may_read(const struct script *s, const struct gvk *gvk, struct err *e)
{
    return grants_check(s->host->grants, s->name, gvk, e);
}

int script_may_enter(const struct script *s, const char *ns, struct err *e)
{
    const struct strset *only = s->host->namespaces;
    if (only == NULL || only->count == 0 || ns == NULL || ns[0] == '\0' || strset_has(only, ns))
        return 0;
    return err_set(e, ERR_FORBIDDEN, "namespace %s is not among the host's --namespaces", ns);
}

int script_may_write(const struct script *s, const struct gvk *gvk, const char *ns, struct err *e)
{
    int r = grants_check(s->host->grants, s->name, gvk, e);
    if (r == 0)
        r = script_may_enter(s, ns, e);
    if (r < 0)
        return r;
    if (str_eq(gvk->group, "") && str_eq(gvk->kind, "Secret") && str_eq(ns, s->host->host_namespace))
        return err_set(e, ERR_FORBIDDEN,
                       "script %s may not write Secrets in namespace %s: the host's key lives there", s->name,
                       ns);
    bool config_map = str_eq(gvk->group, "") && str_eq(gvk->kind, "ConfigMap");
    if (config_map && (str_eq(ns, s->host->scripts_namespace) || str_eq(ns, s->host->host_namespace)))
        return err_set(
            e, ERR_FORBIDDEN,
            "script %s may not write ConfigMaps in namespace %s: scripts and inventories live there", s->name,
            ns);
    return 0;
}
