// What a list or a watch asks for: namespace, labels, fields. Owned by the request or the watcher.
#ifndef APISERVER_FILTER_H
#define APISERVER_FILTER_H

#include "apiserver/impl.h"
#include "kube/selector.h"

struct filter {
    char *prefix; // of keys: "ns/" or ""
    struct selector *labels;
    struct field_selector *fields;
};

// 0, or -1 with the failure in r. filter_fini is safe either way.
int filter_init(struct filter *f, struct request *q, struct response *r);
void filter_fini(struct filter *f);
bool filter_is_open(const struct filter *f); // nothing but the namespace
bool filter_matches(const struct filter *f, const char *key,
                    const struct storage_version *v); // NULL version: no

#endif
