// One version of one script as the host runs it: its identity, its compiled program and its rights. Immutable
// and refcounted, so that a pass that has begun ends with the version it began with. Any thread.
#ifndef RUN_SOURCE_SCRIPT_H
#define RUN_SOURCE_SCRIPT_H

#include "kube/gvk.h"
#include "kube/identity.h"
#include "kube/selector.h"
#include "run/source/grants.h"
#include "run/source/marks.h"
#include "script/program.h"

struct script_host { // what the host gives all its scripts; outlives them
    const char *instance;
    const char *scripts_namespace; // ConfigMaps in there are the host's business
    const char *host_namespace;    // inventories are kept there
    const struct grants *grants;
    const struct strset *namespaces; // the host is confined to these; NULL or empty: to none
    const char *env_json;            // world.env, or NULL
    uint64_t max_pass_cpu_us;        // what a script's `limits` may ask for; 0: SCRIPT_MAX_PASS_...
    size_t max_pass_memory;
};

// The ceilings by default; why these: host/ARCHITECTURE.md.
enum { SCRIPT_MAX_PASS_CPU_US = 1000 * 1000, SCRIPT_MAX_PASS_MEMORY = 64 * 1024 * 1024 };

struct script {
    const struct script_host *host;
    char *ns; // of its ConfigMap, or "-" for files
    char *name;
    char *where; // for messages: "ConfigMap tidelock-system/memcached, key memcached.lua"
    char hash[MARKS_HASH_MAX];
    char manager[MARKS_MANAGER_MAX];
    struct program *program;
    const struct gvk *subject;
    struct selector *selector;     // parsed, or NULL
    struct field_selector *fields; // parsed, or NULL
    struct identity as;
    unsigned refs; // atomic
};

// Takes the program's reference, on failure too. -ERR_INVALID: subject or selector is malformed;
// -ERR_FORBIDDEN: subject is a denied kind; -ERR_LIMIT: it asks for more than the host gives a pass.
int script_new(const struct script_host *host, const char *ns, const char *where, struct program *program,
               struct script **ret, struct err *e);
struct script *script_ref(struct script *s);
void script_unref(struct script *s);

// May a script look into this namespace (NULL, "": no question)? 0 or -ERR_FORBIDDEN.
int script_may_enter(const struct script *s, const char *ns, struct err *e);
// May this script read the kind / write that object? 0 or -ERR_FORBIDDEN with what to change.
int script_may_read(const struct script *s, const struct gvk *gvk, struct err *e);
int script_may_write(const struct script *s, const struct gvk *gvk, const char *ns, struct err *e);

#endif
