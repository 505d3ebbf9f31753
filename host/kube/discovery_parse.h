// Reading the documents of API discovery: aggregated lists and the legacy three. Pure; any thread. Odd
// entries are passed over one by one: a null or a wrong type makes that resource unusable, not its group.
#ifndef KUBE_DISCOVERY_PARSE_H
#define KUBE_DISCOVERY_PARSE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/err.h"
#include "data/json.h"
#include "kube/resource.h"

struct discovery_version {
    const char *group;       // interned, as all strings here
    const char *api_version; // "apps/v1"
    bool listed_only;        // the document names it, but does not say what it serves
    bool stale;              // the server can not reach who serves it
    struct resource *resources;
    size_t count;
};

// In the order of the document; the versions of a group by preference.
struct discovery_list {
    struct discovery_version *items;
    size_t count;
};

// /api or /apis: APIGroupDiscoveryList, or what older servers answer (APIVersions, APIGroupList: all items
// are listed_only). 0, or -ERR_PARSE when it is none of them.
int discovery_parse_list(const json *root, struct discovery_list *ret, struct err *e);
void discovery_list_fini(struct discovery_list *l);
// The legacy APIResourceList of one group and version. 0 or -ERR_PARSE. *ret: free().
int discovery_parse_resources(const json *root, const char *api_version, struct resource **ret,
                              size_t *ret_count, struct err *e);

#endif
