// A Kubernetes Event as the API takes it: events.k8s.io/v1, or core/v1 where only that exists. Pure.
#ifndef RUN_REPORT_EVENT_BODY_H
#define RUN_REPORT_EVENT_BODY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kube/object.h"

struct event {              // its strings are owned
    const struct gvk *kind; // of the object it is about
    char *about_ns;         // "" for a cluster-scoped object
    char *about_name, *about_uid;
    char *name; // of the Event
    char *type, *reason, *action, *note;
    int64_t first_us, last_us; // wall time
    unsigned count;
};

void event_about(struct event *ev, const struct object *o);
void event_fini(struct event *ev);
// Where it lives: beside its object; about a cluster-scoped one in `default`, the only namespace that is
// taken.
const char *event_namespace(const struct event *ev);
// The whole Event, and what changes when it has happened again (a merge patch). free().
char *event_body(const struct event *ev, const char *instance, bool core, size_t *ret_len);
char *event_series_body(const struct event *ev, bool core, size_t *ret_len);

#endif
