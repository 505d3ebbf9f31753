// Writing objects: what the server does to every object that is created, updated or removed, whatever verb
// asked for it. Loop thread.
#ifndef APISERVER_MUTATE_H
#define APISERVER_MUTATE_H

#include "apiserver/impl.h"
#include "apiserver/managed_fields.h"

enum { MUTATE_OBJECT_MAX = 1536 * 1024 }; // etcd's limit

enum mutate_how { MUTATE_PUT, MUTATE_PATCH, MUTATE_APPLY };

// The stored object as a tree, with kind and apiVersion of the request.
struct tree *mutate_load(struct request *q, const struct storage_version *v);
// Who writes, for managedFields.
struct managed_writer mutate_writer(struct request *q);
// Takes metadata.managedFields out of the object and gives it.
struct tree *mutate_take_managed(struct tree *object);

// `object` is changed. `applied` (may be NULL): the owners an apply found; else the writer owns all as an
// update. Answers 201.
void mutate_create(struct request *q, struct tree *object, struct managed_fields *applied,
                   struct response *r);
// `new` is changed; `old` is the version it replaces. `applied` as above. Answers 200.
void mutate_update(struct request *q, const struct storage_version *old, struct tree *new,
                   enum mutate_how how, struct managed_fields *applied, struct response *r);

// Stores the tree as the newest version of the object and tells the watchers. NULL with a failure in r: it
// can not be stored.
const struct storage_version *mutate_store(struct request *q, struct kind *k, const char *key,
                                           struct tree *object, struct response *r);
// Removes an object that is there, and what goes with it (a CRD's objects, a namespace's end).
void mutate_remove(struct request *q, struct kind *k, const char *key);

#endif
