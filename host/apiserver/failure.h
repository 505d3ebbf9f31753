// What the server answers when it says no: metav1.Status bodies, worded as kube-apiserver words them. A
// failure is written straight into a response; functions return -1 so that `return failure_...(...)` reads
// well. Loop thread.
#ifndef APISERVER_FAILURE_H
#define APISERVER_FAILURE_H

#include "apiserver/kinds.h"
#include "apiserver/managed_fields.h"
#include "apiserver/response.h"

struct failure_cause {
    const char *reason; // "" is left out
    const char *message;
    const char *field; // or NULL
};

struct failure {
    int code;
    const char *reason; // NULL or "": left out
    const char *message;
    bool has_details;
    const char *name, *group, *kind, *uid; // of details; NULL: left out
    const struct failure_cause *causes;
    size_t cause_count;
    int retry_after_s;     // 0: left out
    const char *continue_; // metadata.continue or NULL
};

int failure_write(struct response *r, const struct failure *f);
// The Status object alone, for a watch's ERROR frame.
void failure_print(struct buf *out, const struct failure *f);

int failure_plain(struct response *r, int code, const char *reason, const char *message); // no details
int failure_page_not_found(struct response *r);                                           // plain text
int failure_not_found(struct response *r, const struct kind *k, const char *name);
int failure_conflict(struct response *r, const struct kind *k, const char *name, const char *why);
int failure_bad_request(struct response *r, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
int failure_not_implemented(struct response *r, const char *what);
int failure_method(struct response *r, const struct kind *k, const char *verb);
// 422 about one field; body is "Invalid value: ..." with its reason "FieldValueInvalid".
int failure_invalid(struct response *r, const char *group, const char *kind, const char *name,
                    const char *field, const char *reason, const char *body);
int failure_apply_conflict(struct response *r, const struct managed_conflicts *c);

#endif
