// One walk through the metadata of all objects of a kind, a page at a time: nothing is kept, and the next
// page is asked for only when the caller is through with the last. When the server has forgotten the list in
// between it begins anew, so an object may be shown twice. Loop thread.
#ifndef KUBE_METADATA_LIST_H
#define KUBE_METADATA_LIST_H

#include "kube/client.h"

struct metadata_list;

struct metadata_list_options {
    struct client *client;
    struct resource resource;
    const char *ns;            // NULL: all namespaces, or a cluster-scoped kind; copied
    const char *labels;        // selector text, or NULL; copied
    const struct identity *as; // outlives the list
    // Items have apiVersion and kind perhaps, and metadata; borrowed. Go on with metadata_list_next, also
    // from inside, or end with metadata_list_free.
    void (*on_page)(void *ud, const json *items);
    // No more calls after this; why: NULL when all was shown. The list may be freed in it.
    void (*on_end)(void *ud, const struct api_status *why);
    void *ud;
};

struct metadata_list *metadata_list_new(const struct metadata_list_options *o);
void metadata_list_next(struct metadata_list *l); // also the first
void metadata_list_free(struct metadata_list *l); // cancels; NULL is fine

#endif
