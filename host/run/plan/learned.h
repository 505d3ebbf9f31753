// What the server made of our desired state: for an object, the hash of what we sent and the hash of the
// values our fields had afterwards. While both are the same, spelling differences (defaults, quantities,
// nulls) are known to mean the same and no request is made. One table a host; any thread.
#ifndef RUN_PLAN_LEARNED_H
#define RUN_PLAN_LEARNED_H

#include <stdbool.h>
#include <stdint.h>

struct learned;

struct learned *learned_new(void);
void learned_free(struct learned *l);
// id: the object's UID and what was written ("UID", "UID/status", "UID/manager").
void learned_put(struct learned *l, const char *id, uint64_t desired, uint64_t owned);
bool learned_same(struct learned *l, const char *id, uint64_t desired, uint64_t owned);
void learned_forget(struct learned *l, const char *uid); // all of an object that is gone

#endif
