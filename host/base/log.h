// Structured log, JSON or text, written by a thread of its own: log_* never blocks (a bounded ring; what does
// not fit is counted and said). Any thread. One process-wide logger, as stderr is one. Layers below run/ log
// at LOG_DEBUG only.
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG, LOG_TRACE };
enum log_format { LOG_TEXT, LOG_JSON };

// A field of a line. Values are copied.
enum log_type { LOG_END, LOG_TYPE_STR, LOG_TYPE_INT, LOG_TYPE_DOUBLE, LOG_TYPE_BOOL };
struct log_field {
    enum log_type type;
    const char *key;
    union {
        const char *str;
        int64_t num;
        double dbl;
        bool flag;
    } value;
};
#define F_STR(k, v)                                                                                          \
    ((struct log_field){LOG_TYPE_STR, (k), {.str = (v)}}) /* NULL value: the field is left out */
#define F_INT(k, v) ((struct log_field){LOG_TYPE_INT, (k), {.num = (v)}})
#define F_DBL(k, v) ((struct log_field){LOG_TYPE_DOUBLE, (k), {.dbl = (v)}})
#define F_BOOL(k, v) ((struct log_field){LOG_TYPE_BOOL, (k), {.flag = (v)}})

// Line: {"ts":"2026-01-02T03:04:05.000000Z","level":"info","msg":"...",fields...}; text: klog-like
// `I0102 03:04:05.000000 msg key="value"`. log_start opens the writer thread on fd; before it (and after
// log_stop) lines go straight to stderr.
void log_start(int fd, enum log_level level, enum log_format format);
void log_stop(void); // writes out what is left, ends the thread
void log_set_level(enum log_level level);
bool log_enabled(enum log_level level);
int log_level_parse(const char *text, enum log_level *ret); // "error".."trace"; 0 or -ERR_INVALID
enum log_level log_level_of_v(int v);                       // klog's -v: 0..3 info, 4..5 debug, >= 6 trace
uint64_t log_dropped(void);
// msg is a fixed sentence; what varies goes into fields. `fields` ends with a LOG_END one.
void log_write(enum log_level level, const char *msg, const struct log_field *fields);
struct clock;
void log_set_clock(const struct clock *c); // whose wall time the lines bear; NULL: the real one
// For tests and the in-process harness: lines go to fn (called on the logging thread of the caller) instead.
// NULL undoes.
void log_set_sink(void (*fn)(void *ud, enum log_level level, const char *line), void *ud);

#define LOG_(level, msg, ...)                                                                                \
    do {                                                                                                     \
        if (log_enabled(level))                                                                              \
            log_write(level, msg, (const struct log_field[]){__VA_ARGS__ __VA_OPT__(, ){LOG_END, 0, {0}}});  \
    } while (0)
#define log_error(msg, ...) LOG_(LOG_ERROR, msg __VA_OPT__(, ) __VA_ARGS__)
#define log_warn(msg, ...) LOG_(LOG_WARN, msg __VA_OPT__(, ) __VA_ARGS__)
#define log_info(msg, ...) LOG_(LOG_INFO, msg __VA_OPT__(, ) __VA_ARGS__)
#define log_debug(msg, ...) LOG_(LOG_DEBUG, msg __VA_OPT__(, ) __VA_ARGS__)
#define log_trace(msg, ...) LOG_(LOG_TRACE, msg __VA_OPT__(, ) __VA_ARGS__)

#endif
