// The items of an owned list ("k:{...}", "v:...", "i:0" members of a FieldsV1 node) and which nodes of an
// array they mean. Used by kube/fields.c only.
#ifndef KUBE_FIELDS_ITEMS_H
#define KUBE_FIELDS_ITEMS_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "data/json.h"
#include "kube/schema.h"

struct fields_item {
    const char *text;     // "k:{...}": the member's key
    const json *set;      // what is owned below it
    char type;            // 'k', 'v', 'i'
    struct json_doc *doc; // the JSON after the prefix; NULL: not readable, means nothing
    const json *key;      // its root
};

struct fields_items {
    struct fields_item *items;
    size_t count;
};

void fields_items_init(struct fields_items *l, const json *owned);
void fields_items_fini(struct fields_items *l);
// Which element of `array` each item means: ret[i] is NULL where there is none, no element is meant twice.
// First those whose keys are all equal, then those that lack some of them: which the server gives its
// default, by `element`'s type where that is known (may be NULL). Returns the first element that no item
// means (NULL: all are meant), its index in *ret_rest.
const json *fields_items_match(const struct fields_items *l, const json *array,
                               const struct schema_node *element, const json **ret, size_t *ret_rest);
// "[name=\"app\"]" for messages.
void fields_item_path(const struct fields_item *x, struct buf *path);

#endif
