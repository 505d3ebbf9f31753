// Time, passed in. Real: CLOCK_MONOTONIC and CLOCK_REALTIME. Virtual: stands still until moved, for
// deterministic runs. A clock may be read from any thread; a virtual one is moved by one thread only.
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdbool.h>
#include <stdint.h>

struct clock;

struct clock *clock_real(void);                   // static, never freed
struct clock *clock_virtual_new(int64_t wall_ms); // starts at that wall time, monotonic 0
void clock_free(struct clock *c);                 // no-op for the real one
bool clock_is_virtual(const struct clock *c);
uint64_t clock_now_ms(const struct clock *c);             // monotonic, ms
uint64_t clock_now_us(const struct clock *c);             // monotonic, us
uint64_t clock_thread_cpu_us(void);                       // CPU time of this thread
int64_t clock_wall_us(const struct clock *c);             // since the epoch, us
void clock_advance_to(struct clock *c, uint64_t mono_ms); // virtual only; never backwards

enum { CLOCK_TEXT_MAX = 40 };
// RFC 3339 UTC. metav1.Time: whole seconds; metav1.MicroTime: always six digits (truncated, never rounded
// up).
void clock_format_time(char out[CLOCK_TEXT_MAX], int64_t wall_us);
void clock_format_micro_time(char out[CLOCK_TEXT_MAX], int64_t wall_us);
// Reads RFC 3339 with 0..9 fraction digits and any offset; 0 or -ERR_PARSE.
int clock_parse_time(const char *text, int64_t *ret_wall_us);

// Go duration ("1h30m", "250ms", "1.5s") to microseconds; 0 or -ERR_PARSE (no unit, empty, overflow, NaN).
int duration_parse(const char *text, int64_t *ret_us);
// Go's spelling of it: "1m30s", "250ms".
void duration_format(char out[CLOCK_TEXT_MAX], int64_t us);

#endif
