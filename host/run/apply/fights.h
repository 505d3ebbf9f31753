// Fields that flip between us and another manager, and children that others delete: found, and slowed. Each
// is known by a name that the caller gives it. Four times within 60 s it is simply set again; the next write
// is a probe, sent unforced, that tells whose the field is. Once that is known our value is set at growing
// intervals, 30 s to 10 min. A minute in which it stays as set forgets it, and 10 min without a question.
// Only what the server took counts: a write that fails has a back-off of its own. Times in ms of one
// monotonic clock. Loop thread.
#ifndef RUN_APPLY_FIGHTS_H
#define RUN_APPLY_FIGHTS_H

#include <stdbool.h>
#include <stdint.h>

struct fights;

enum fights_move {
    FIGHTS_WRITE, // forced, as ever
    FIGHTS_PROBE, // unforced; then fights_found or fights_calm
    FIGHTS_WAIT,  // not now
};

struct fights *fights_new(void);
void fights_free(struct fights *f);
// It has to be set again. *ret_wait_ms for FIGHTS_WAIT: how long.
enum fights_move fights_ask(struct fights *f, const char *name, uint64_t now_ms, uint64_t *ret_wait_ms);
// It was. `desired_hash`: of what was wanted.
void fights_written(struct fights *f, const char *name, uint64_t desired_hash, uint64_t now_ms);
// Did the last two writes want the same? Then others have changed it meanwhile.
bool fights_same_desire(const struct fights *f, const char *name);
// The probe has shown another manager, or a child was made too often; it is being set by force now. `text`
// says of whom, for fights_text. True: this is news.
bool fights_found(struct fights *f, const char *name, const char *text, uint64_t now_ms);
// The probe was taken, so that nobody else holds the field; or the child was deleted by us.
void fights_calm(struct fights *f, const char *name);
// What was found; NULL: nothing.
const char *fights_text(const struct fights *f, const char *name);

#endif
