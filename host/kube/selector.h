// Label selectors: the text form of kubectl and the API ("a=b,c in (d,e),!f"), parsed once, matched often.
// Immutable; any thread.
#ifndef KUBE_SELECTOR_H
#define KUBE_SELECTOR_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"
#include "base/err.h"
#include "kube/object.h"

struct selector;

// "" selects everything. 0 or -ERR_INVALID naming the place.
int selector_parse(const char *text, struct selector **ret, struct err *e);
void selector_free(struct selector *s);
bool selector_matches(const struct selector *s, const struct object *o); // NULL matches everything
bool selector_matches_labels(const struct selector *s, const struct object_label *labels,
                             size_t n);              // sorted by key
const char *selector_text(const struct selector *s); // canonical: sorted, as the API takes it
// An equality requirement (key=value) that every match fulfils, for an index look-up; false when there is
// none.
bool selector_equality(const struct selector *s, const char **ret_key, const char **ret_value);

// Field selectors ("metadata.name=x,status.phase!=Failed"): only = , == and !=; matched on the object's
// document.
struct field_selector;
int field_selector_parse(const char *text, struct field_selector **ret, struct err *e);
void field_selector_free(struct field_selector *s);
bool field_selector_matches(const struct field_selector *s, const json *object);
// The first equality of a value that an absent field has not, borrowed; false: there is none (or s is NULL).
bool field_selector_equality(const struct field_selector *s, const char **ret_path, const char **ret_value);
// The text that selectors compare with the value at `path`, in `text` when it is none by itself; NULL:
// absent, or no scalar.
enum { FIELD_TEXT_MAX = 24 };
const char *field_text(const json *object, const char *path, char text[FIELD_TEXT_MAX]);
const char *field_selector_text(const struct field_selector *s);

#endif
