// Is a script to be left alone for a while? After QUARANTINE_ROW passes in a row that failed, over all its
// keys and without one between them that went through, it is: for 10 s, then one pass is tried; if that fails
// too, for twice as long, up to 10 minutes. Plain value, one owner; no clock of its own.
//
// Errors that a script raises and results that are none count like overruns, with two differences, since the
// same inputs give the same error and cost little. Those of a single key count only if no other key has ever
// gone through, and once they have lasted QUARANTINE_FIRST_MS: until then the key's own back-off is the
// longer pause; where the script says itself how it wants to be retried (`paced`) they are left to that. And
// while nothing but errors was seen, a changed input is reason enough for a pass (quarantine_admits_changes).
#ifndef RUN_CONTROLLER_QUARANTINE_H
#define RUN_CONTROLLER_QUARANTINE_H

#include <stdbool.h>
#include <stdint.h>

enum { QUARANTINE_ROW = 5, QUARANTINE_FIRST_MS = 10 * 1000, QUARANTINE_MAX_MS = 600 * 1000 };

enum quarantine_verdict {
    VERDICT_NONE,    // says nothing about the script
    VERDICT_SUCCESS, // it did what it is made for, which may be to ask for a retry
    VERDICT_ERROR,
    VERDICT_OVERRUN, // of a budget or a limit
    VERDICT_STUCK,   // its worker was lost: enough by itself
};

struct quarantine {
    unsigned row;       // failures in a row
    bool overran;       // one of them was more than an error
    bool many;          // they were of several keys
    uint64_t first_key; // hash of the first one's key
    uint64_t first_ms;
    unsigned good; // keys that have gone through: none, one (good_key), several (2)
    uint64_t good_key;
    bool on;
    uint64_t since_ms, until_ms;
    unsigned level;    // how often the interval was doubled
    uint64_t ended_ms; // of the last one; it goes on where that was if it is not long ago
};

enum quarantine_turn {
    QUARANTINE_SAME,
    QUARANTINE_BEGINS, // or goes on with a longer interval
    QUARANTINE_ENDS,
};

struct quarantine_pass {
    enum quarantine_verdict verdict;
    uint64_t key;      // hash
    uint64_t begun_ms; // what began before the quarantine says nothing about it
    bool paced;
};

// A pass has ended.
enum quarantine_turn quarantine_note(struct quarantine *q, const struct quarantine_pass *p, uint64_t now_ms);
bool quarantine_admits_changes(const struct quarantine *q);

#endif
