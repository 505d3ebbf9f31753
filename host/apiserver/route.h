// A request's address taken apart: path segments and query, percent-decoded. Lives in the request's arena.
// Pure.
#ifndef APISERVER_ROUTE_H
#define APISERVER_ROUTE_H

#include <stdbool.h>
#include <stddef.h>

#include "apiserver/arena.h"

enum { ROUTE_SEGMENTS_MAX = 12, ROUTE_PARAMS_MAX = 32 };

struct route_param {
    const char *name, *value;
};

struct route {
    const char *segments[ROUTE_SEGMENTS_MAX]; // "/api/v1/pods" -> "api", "v1", "pods"
    size_t segment_count;
    struct route_param params[ROUTE_PARAMS_MAX];
    size_t param_count;
};

// What a path below /api or /apis names.
struct route_resource {
    const char *group, *version; // group "" for core
    const char *ns;              // "" when none is named
    const char *resource;        // plural, or NULL: a group's or version's document
    const char *name;            // or NULL: the collection
    const char *subresource;     // or NULL
    bool too_long;               // more segments than any resource has
};

// False: not a path (no leading '/', too many segments or parameters, a broken escape).
bool route_parse(struct arena *a, const char *target, struct route *ret);
const char *route_param(const struct route *r, const char *name); // NULL: absent; the first one counts
// As Kubernetes reads booleans in queries: present and not "false" or "0".
bool route_flag(const struct route *r, const char *name);
// False: neither below /api nor /apis.
bool route_resource(const struct route *r, struct route_resource *ret);

#endif
