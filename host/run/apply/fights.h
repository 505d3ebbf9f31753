// Fields that flip between us and another manager: found, and slowed. An object is known by an id (kind,
// name, our manager), a field by its path. Four times within 60 s a value is simply set again; the next write
// is a probe, sent unforced, that tells whose the field is. Once that is known our value is set at growing
// intervals, 30 s to 10 min; a quiet 10 min forgets it. Children that others delete are slowed in the same
// way: they are made four times more within 60 s (fights_ask_to_make, fights_made). Times in ms of one
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
// The field has to be set again. *ret_wait_ms for FIGHTS_WAIT: how long.
enum fights_move fights_ask(struct fights *f, const char *id, const char *path, uint64_t desired_hash,
                            uint64_t now_ms, uint64_t *ret_wait_ms);
// Did the last two writes want the same? Then others have changed it meanwhile.
bool fights_same_desire(const struct fights *f, const char *id, const char *path);
// The probe has shown another manager; the field is being set by force now. `text` says of whom, for
// fights_text. True: this is news.
bool fights_found(struct fights *f, const char *id, const char *path, const char *text, uint64_t now_ms);
// The probe was taken: nobody else holds the field.
void fights_calm(struct fights *f, const char *id, const char *path);

// Something (path "") is to be made: FIGHTS_WRITE or FIGHTS_WAIT. Counts nothing.
enum fights_move fights_ask_to_make(struct fights *f, const char *id, uint64_t now_ms, uint64_t *ret_wait_ms);
// It was. True: too often, so somebody takes it away: this is a fight (fights_found), and news.
bool fights_made(struct fights *f, const char *id, const char *text, uint64_t now_ms);
// What was found, when what we want has been the same for the last two writes, so that it may still go on;
// NULL: nothing.
const char *fights_text(const struct fights *f, const char *id, const char *path);

#endif
