// What single kinds do on their own: namespaces, secrets, pods and CRDs. Loop thread.
#ifndef APISERVER_BUILTIN_H
#define APISERVER_BUILTIN_H

#include "apiserver/impl.h"

bool builtin_is(const struct kind *k, const char *group, const char *name);
// The empty object of the kind, to which a new one is compared for ownership.
struct tree *builtin_blank(struct request *q);
// Before ownership is settled: what the writer then owns. -1: refused, the failure is in r.
int builtin_prepare_create(struct request *q, struct tree *object, struct response *r);
int builtin_prepare_update(struct request *q, const struct tree *live, struct tree *new, struct response *r);
// After it: what nobody owns.
void builtin_fill(struct request *q, struct tree *object);
// Does something but a finalizer in metadata keep an object that is to go?
bool builtin_holds(const struct kind *k, const struct tree *object);
// An object was stored or removed.
void builtin_stored(struct request *q, struct kind *k, const struct tree *object);
void builtin_removed(struct request *q, struct kind *k, const struct tree *object);
// The namespace goes if it is to go and nothing is in it any more.
void builtin_finish_namespace(struct request *q, const char *ns);

#endif
