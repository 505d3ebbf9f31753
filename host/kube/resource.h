// A kind as the server serves it, and the URL paths of its objects. Plain values; strings are interned for
// the process's life.
#ifndef KUBE_RESOURCE_H
#define KUBE_RESOURCE_H

#include <stdbool.h>

#include "base/buf.h"
#include "kube/gvk.h"

enum resource_verb {
    RESOURCE_GET = 1,
    RESOURCE_LIST = 2,
    RESOURCE_WATCH = 4,
    RESOURCE_CREATE = 8,
    RESOURCE_UPDATE = 16,
    RESOURCE_PATCH = 32,
    RESOURCE_DELETE = 64,
};

struct resource {
    const struct gvk *gvk;
    const char *plural; // "deployments"
    bool namespaced;
    bool has_status; // the /status subresource exists
    bool has_scale;  // the /scale subresource exists: spec.replicas has other writers too
    unsigned verbs;
};

// "/api/v1/namespaces/ns/pods/name/status?query": segments percent-encoded; ns NULL or "": cluster scope or
// all namespaces; name, subresource, query NULL: left out. query is put in as it is (see resource_query_add).
// Appends to out.
void resource_path(const struct resource *r, const char *ns, const char *name, const char *subresource,
                   const char *query, struct buf *out);
// Appends "key=value" (with & when needed), value percent-encoded.
void resource_query_add(struct buf *query, const char *key, const char *value);
// Is it a legal path segment name ("", ".", "..", '/' and '%' are not)?
bool resource_name_ok(const char *name);
// The one copy of a text for the process's life; any thread. NULL when 40,000 are held (a server that makes
// them up).
const char *resource_intern(const char *text);

#endif
