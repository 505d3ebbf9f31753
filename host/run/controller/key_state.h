// What a controller remembers of one key between passes, in memory only: enough to say a thing once. Loop
// thread.
#ifndef RUN_CONTROLLER_KEY_STATE_H
#define RUN_CONTROLLER_KEY_STATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "run/plan/plan.h"

struct key_state {
    char *uid;        // of the subject the rest is about
    uint64_t *events; // hashes of the events of the last pass
    size_t event_count;
    bool completed;          // a pass went through since the start
    uint64_t problem;        // hash of the last problem that was reported; 0: none
    uint64_t fight_until_ms; // until then a fight that was seen last is not over
    uint64_t seen; // of the values at the script's `changed` paths, as of the last pass if that went
                   // through; 0: unknown
    // For scripts with `when`:
    struct object *last; // the subject as of the last pass that went through (+1), or NULL
    bool failed;         // the last pass did not
    bool asking;         // `when` is being evaluated
    bool ask_again;      // the subject has changed since, or since the pass under way began
    uint64_t when_problem;
};

struct key_states;

struct key_states *key_states_new(void);
void key_states_free(struct key_states *s);
// The state of a key, made when it is not there; forgotten and begun anew when the UID differs.
struct key_state *key_states_get(struct key_states *s, const char *key, const char *uid);
struct key_state *key_states_find(struct key_states *s, const char *key, const char *uid); // or NULL
void key_states_forget(struct key_states *s, const char *key);
size_t key_states_count(const struct key_states *s);

// Which events are new against the last pass? Calls fn for each of those, then remembers this pass's.
void key_state_events(struct key_state *k, const struct plan *plan, bool silent,
                      void (*fn)(void *ud, const struct plan_event *ev), void *ud);
// True when this problem (text) was not the last one reported.
bool key_state_problem(struct key_state *k, const char *text);
void key_state_no_problem(struct key_state *k);
// A pass went through: what it saw, for the predicates of later changes (NULL and 0 where nobody asks).
void key_state_went_through(struct key_state *k, struct object *subject, uint64_t seen);
void key_state_failed(struct key_state *k);

#endif
