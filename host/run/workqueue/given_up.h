// Subjects that are being deleted and whose end no longer waits for all it should: what each is let off.
// Immutable, refcounted; any thread.
#ifndef RUN_WORKQUEUE_GIVEN_UP_H
#define RUN_WORKQUEUE_GIVEN_UP_H

#include <stddef.h>

enum given_up {
    GIVEN_UP_NOTHING,
    GIVEN_UP_HOOK, // `finalize` is not run any more: children are still deleted, in order, and waited for
    GIVEN_UP_ALL,  // nothing is waited for: children are told to go, all at once, and the finalizer is taken
                   // off
};

struct given_up_set;

struct given_up_set *given_up_set_new(size_t room); // empty, one reference
// Before it is shared; at most `room` times.
void given_up_set_add(struct given_up_set *s, const char *uid, enum given_up what);
void given_up_set_seal(struct given_up_set *s);                // after the last
struct given_up_set *given_up_set_ref(struct given_up_set *s); // NULL gives NULL
void given_up_set_unref(struct given_up_set *s);
enum given_up given_up_of(const struct given_up_set *s, const char *uid); // NULL: nothing is given up

#endif
