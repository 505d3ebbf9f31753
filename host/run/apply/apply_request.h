// The requests of a write, one at a time, to the object it is about. Private to apply*.c. Loop thread.
#ifndef RUN_APPLY_APPLY_REQUEST_H
#define RUN_APPLY_APPLY_REQUEST_H

#include "run/apply/apply_op.h"

// `then` gets the answer of this request, from a later turn.
void apply_request_send(struct apply_op *o, const char *subresource, const char *query,
                        const struct client_request *request,
                        void (*then)(struct apply_op *o, struct client_result *res));
void apply_request_get(struct apply_op *o, const char *subresource,
                       void (*then)(struct apply_op *o, struct client_result *res));
void apply_request_patch(struct apply_op *o, const char *query, const char *content_type, const char *body,
                         size_t body_len, void (*then)(struct apply_op *o, struct client_result *res));
// The field manager as a query; free().
char *apply_request_query(const struct op *op, bool force);
// Was it refused because the object that the body names by its UID is not there, or is another by now?
bool apply_request_is_other_object(const struct api_status *why);

#endif
