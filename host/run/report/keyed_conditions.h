// Are a kind's conditions (status.conditions) a list keyed by `type`, so that several managers can each keep
// conditions of their own? Pure; any thread.
#ifndef RUN_REPORT_KEYED_CONDITIONS_H
#define RUN_REPORT_KEYED_CONDITIONS_H

#include "data/json.h"
#include "kube/schema.h"

enum keyed_answer { KEYED_UNKNOWN, KEYED_YES, KEYED_NO };

// By the kind's schema.
enum keyed_answer keyed_by_schema(const struct schema_node *kind);
// By what managers own of them on an object: an array as metadata.managedFields.
enum keyed_answer keyed_by_owners(const json *entries);

#endif
