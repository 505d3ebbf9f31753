// What the API server answered when it did not say yes: a metav1.Status body, or plain text from something in
// between. Loop thread; plain values.
#ifndef KUBE_API_STATUS_H
#define KUBE_API_STATUS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "data/json.h"
#include "io/transport.h"

struct api_status {
    int http;               // 0: no answer
    int code;               // negative ERR_* it stands for
    char reason[64];        // metav1 reason ("NotFound"), "" if the body had none
    char cause[64];         // details.causes[0].reason: "NamespaceTerminating", "FieldManagerConflict",
                            // "ResourceVersionTooLarge"...
    char details_kind[64];  // details.kind: which object a 404 is about
    int64_t retry_after_ms; // the larger of header and details.retryAfterSeconds, capped at 60 s; -1 none
    bool sent_maybe;
    bool has_reason; // false on a 500: a schema fault told as a server error; repeating at once is useless
    struct err err;  // text for people: server's message, or the body cut and cleaned
};

// From a whole response (status >= 400 or 0).
void api_status_from_response(const struct transport_response *r, struct api_status *ret);
// From a Status object, e.g. in a watch's ERROR frame; any node (NULL included) gives an answer.
void api_status_from_json(const json *status, struct api_status *ret);
bool api_status_is_conflict_with_manager(const struct api_status *s);

#endif
