// The event loop. Real: libevent. Virtual: no file descriptors, timers on a virtual clock, which jumps to the
// next due timer when nothing else is left to do; everything runs in one thread in a fixed order. A turn of
// the real loop runs messages (a bounded number), then due timers, then file descriptors. It ignores SIGPIPE.
// All functions are for the loop thread, except loop_post and loop_stop.
#ifndef IO_LOOP_H
#define IO_LOOP_H

#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"
#include "base/mailbox.h"

struct loop;
struct loop_timer;
struct loop_fd;

struct loop *loop_new(struct clock *clock); // a virtual clock makes a virtual loop
// Runs the messages that were posted and drops the deferred calls. All timers and fds must be freed before.
void loop_free(struct loop *l);
struct clock *loop_clock(struct loop *l);
uint64_t loop_now_ms(struct loop *l);       // monotonic
bool loop_is_current(const struct loop *l); // is the calling thread the one that runs it (or none does yet)?

void loop_run(struct loop *l);  // until loop_stop
void loop_stop(struct loop *l); // any thread
// Virtual: runs messages and due timers, moving the clock, until nothing is due before `until_ms`
// (monotonic); then the clock stands at until_ms (a timer due exactly then has run). Returns the number of
// things run. loop_stop ends it early. Real: not allowed.
uint64_t loop_run_until(struct loop *l, uint64_t until_ms);
// Virtual: one message, or else one timer (the clock jumps to it, but not past until_ms). False: nothing is
// due by then.
bool loop_step(struct loop *l, uint64_t until_ms);

// Runs m on the loop thread, soon, in order of posting. Any thread; ownership of m moves.
void loop_post(struct loop *l, struct message *m);
// The same for a plain call from the loop thread itself: never re-entrant, runs in a later turn.
void loop_defer(struct loop *l, void (*fn)(void *ud), void *ud);

// One-shot timers; fn may start it again or free it. Timers of equal due time run in order of starting.
struct loop_timer *loop_timer_new(struct loop *l, void (*fn)(void *ud), void *ud);
void loop_timer_start(struct loop_timer *t, uint64_t ms); // from now; restarts when running
void loop_timer_stop(struct loop_timer *t);
bool loop_timer_active(const struct loop_timer *t);
void loop_timer_free(struct loop_timer *t);

// Signals (real loop only). The handler runs on the loop thread.
void loop_on_signal(struct loop *l, int signo, void (*fn)(void *ud, int signo), void *ud);

// File descriptors (real loop only; used by io/ itself and by file watching).
enum { LOOP_READ = 1, LOOP_WRITE = 2 };
struct loop_fd *loop_fd_new(struct loop *l, int fd, void (*fn)(void *ud, int what), void *ud);
void loop_fd_want(struct loop_fd *f, int what); // bit set of LOOP_READ, LOOP_WRITE; persistent
void loop_fd_free(struct loop_fd *f);

// Messages aside, the loop does not see how much a turn was about: whoever reads several things from one file
// descriptor says each. By this a busy loop judges its rests (io/loop_rest.h).
void loop_did(struct loop *l);

// How late the loop is: the largest delay of a periodic 100 ms probe since the last call, in us. Real loop
// only.
uint64_t loop_lag_us(struct loop *l);

#endif
