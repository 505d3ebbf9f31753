#include "run/report/keyed_conditions.h"

#include <string.h>

#include "base/strset.h"

enum keyed_answer keyed_by_schema(const struct schema_node *kind)
{
    const struct schema_node *status = schema_member(kind, "status", 6, NULL);
    const struct schema_node *conditions = schema_member(status, "conditions", 10, NULL);
    if (conditions == NULL) // or no schema is kept for it
        return kind->closed && (status == NULL || status->closed) ? KEYED_NO : KEYED_UNKNOWN;
    return conditions->by_type ? KEYED_YES : KEYED_NO;
}

enum keyed_answer keyed_by_owners(const json *entries)
{
    for (struct json_iter i = json_iter(entries); json_next(&i);) {
        const json *conditions = json_path(i.value, "fieldsV1", "f:status", "f:conditions", NULL);
        if (json_is_object(conditions) && json_count(conditions) == 0)
            return KEYED_NO; // owned as a whole
        for (struct json_iter k = json_iter(conditions); json_next(&k);)
            if (str_has_prefix(k.key, "k:{\"type\":"))
                return KEYED_YES;
    }
    return KEYED_UNKNOWN;
}
