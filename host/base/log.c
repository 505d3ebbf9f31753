#include "base/log.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/buf.h"
#include "base/clock.h"
#include "base/err.h"
#include "base/strset.h"

enum {
    RING_SIZE = 1 << 20,
    WRITE_MAX = 64 << 10, // then the room is free again
    LINE_MAX_BYTES = 64 << 10,
    VALUE_MAX_BYTES = 8 << 10,
    LINE_TAIL = 64,         // room for what ends a line that was cut
    STUCK_MS = 1000,        // one wait for a reader that does not read
    STUCK_AT_STOP_MS = 2000 // then log_stop gives up what is left
};

// The writer sleeps until there are bytes; the bytes it is writing count as used, so nobody overwrites them.
static struct {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    pthread_t writer;
    bool running; // lines go into the ring
    bool stopping;
    int fd;
    char *ring;
    size_t start;
    size_t used;
    uint64_t dropped_said;
    void (*sink)(void *ud, enum log_level level, const char *line);
    void *sink_ud;
} logger = {.lock = PTHREAD_MUTEX_INITIALIZER, .filled = PTHREAD_COND_INITIALIZER, .fd = STDERR_FILENO};

static _Atomic int current_level = LOG_INFO;
static _Atomic int current_format = LOG_TEXT;
static _Atomic uint64_t dropped;
static _Atomic(const struct clock *) log_clock;

static const char *const level_names[] = {"error", "warn", "info", "debug", "trace"};

// ---- one line as text ----

static void add_escaped(struct buf *b, const char *s, size_t n)
{
    for (size_t i = 0; i < n;) {
        uint32_t code;
        size_t len = str_utf8_char(s + i, n - i, &code);
        if (len == 0)
            buf_add_str(b, "\xef\xbf\xbd"); // U+FFFD
        else if (code == '"' || code == '\\')
            buf_addf(b, "\\%c", (int)code);
        else if (code == '\n')
            buf_add_str(b, "\\n");
        else if (code < 0x20 || (code >= 0x7f && code <= 0x9f) || code == 0x2028 || code == 0x2029)
            buf_addf(b, "\\u%04x", (unsigned)code);
        else
            buf_add(b, s + i, len);
        i += len > 0 ? len : 1;
    }
}

static void add_quoted(struct buf *b, const char *s)
{
    size_t n = strlen(s);
    size_t cut = str_utf8_cut(s, n, VALUE_MAX_BYTES);
    buf_add_char(b, '"');
    add_escaped(b, s, cut);
    if (cut < n)
        buf_addf(b, "... (%zu bytes more)", n - cut);
    buf_add_char(b, '"');
}

static void add_double(struct buf *b, double v)
{
    if (!isfinite(v)) // JSON has no such number
        buf_addf(b, "\"%s\"", isnan(v) ? "NaN" : v > 0 ? "+Inf" : "-Inf");
    else
        buf_addf(b, "%.12g", v);
}

static void add_field(struct buf *b, const struct log_field *f, bool json)
{
    if (f->type == LOG_TYPE_STR && f->value.str == NULL)
        return;
    buf_add_str(b, json ? ",\"" : " ");
    add_escaped(b, f->key, strlen(f->key));
    buf_add_str(b, json ? "\":" : "=");
    switch (f->type) {
    case LOG_TYPE_STR:
        add_quoted(b, f->value.str);
        break;
    case LOG_TYPE_INT:
        buf_addf(b, "%lld", (long long)f->value.num);
        break;
    case LOG_TYPE_DOUBLE:
        add_double(b, f->value.dbl);
        break;
    case LOG_TYPE_BOOL:
        buf_add_str(b, f->value.flag ? "true" : "false");
        break;
    case LOG_END:
        break;
    }
}

static void add_head(struct buf *b, enum log_level level, const char *msg, bool json)
{
    const struct clock *c = atomic_load(&log_clock);
    char time[CLOCK_TEXT_MAX];
    clock_format_micro_time(time, clock_wall_us(c != NULL ? c : clock_real()));
    if (json) {
        buf_addf(b, "{\"ts\":\"%s\",\"level\":\"%s\",\"msg\":", time, level_names[level]);
        add_quoted(b, msg);
        return;
    }
    // 2026-01-02T03:04:05.000000Z
    buf_addf(b, "%c%.2s%.2s %.15s ", "EWIDT"[level], time + 5, time + 8, time + 11);
    add_escaped(b, msg, str_utf8_cut(msg, strlen(msg), VALUE_MAX_BYTES));
}

// A field that is too much ends the line: what was written before it stays whole.
static void add_line(struct buf *b, enum log_level level, const char *msg, const struct log_field *fields)
{
    bool json = atomic_load(&current_format) == LOG_JSON;
    bool cut = false;
    add_head(b, level, msg, json);
    for (const struct log_field *f = fields; f != NULL && f->type != LOG_END && !cut; f++) {
        size_t mark = b->len;
        add_field(b, f, json);
        if (b->failed) {
            b->failed = false;
            b->len = mark;
            cut = true;
        }
    }
    b->max += LINE_TAIL;
    if (cut)
        buf_add_str(b, json ? ",\"cut\":true" : " cut=true");
    buf_add_str(b, json ? "}\n" : "\n");
}

// ---- the writer ----

// Waits for room in the pipe. False: give up.
static bool wait_writable(int fd, int *waited_ms)
{
    struct pollfd p = {.fd = fd, .events = POLLOUT};
    for (;;) {
        if (poll(&p, 1, STUCK_MS) != 0)
            return true;
        *waited_ms += STUCK_MS;
        pthread_mutex_lock(&logger.lock);
        bool stopping = logger.stopping;
        pthread_mutex_unlock(&logger.lock);
        if (stopping && *waited_ms >= STUCK_AT_STOP_MS)
            return false;
    }
}

// Writes all or gives up: nobody reads any more (EPIPE), the disk is full, or the reader hangs at the end. A
// pipe that poll calls writable takes PIPE_BUF bytes without blocking, so that log_stop can not hang in
// write.
static void write_all(int fd, const char *p, size_t n)
{
    int waited_ms = 0;
    while (n > 0) {
        if (!wait_writable(fd, &waited_ms))
            return;
        ssize_t r = write(fd, p, n < PIPE_BUF ? n : PIPE_BUF);
        if (r > 0) {
            p += r;
            n -= (size_t)r;
            waited_ms = 0;
        } else if (r == 0 || (errno != EINTR && errno != EAGAIN)) {
            return;
        }
    }
}

static void say_dropped(int fd, uint64_t count)
{
    struct buf b;
    buf_init(&b, LINE_MAX_BYTES);
    const struct log_field fields[] = {F_INT("count", (int64_t)count), {LOG_END, NULL, {0}}};
    add_line(&b, LOG_WARN, "log lines were dropped: whatever reads the log is too slow", fields);
    write_all(fd, b.data, b.len);
    buf_fini(&b);
}

static void *writer_main(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&logger.lock);
    for (;;) {
        while (logger.used == 0 && !logger.stopping)
            pthread_cond_wait(&logger.filled, &logger.lock);
        size_t n = logger.used < WRITE_MAX ? logger.used : WRITE_MAX;
        if (n > RING_SIZE - logger.start)
            n = RING_SIZE - logger.start;
        if (n == 0)
            break; // stopping, and nothing is left
        const char *p = logger.ring + logger.start;
        int fd = logger.fd;
        pthread_mutex_unlock(&logger.lock);
        write_all(fd, p, n);
        pthread_mutex_lock(&logger.lock);
        logger.start = (logger.start + n) % RING_SIZE;
        logger.used -= n;
        uint64_t now = atomic_load(&dropped);
        // Between two lines only: what was written may end within one.
        if (now != logger.dropped_said && p[n - 1] == '\n') {
            uint64_t count = now - logger.dropped_said;
            logger.dropped_said = now;
            pthread_mutex_unlock(&logger.lock);
            say_dropped(fd, count);
            pthread_mutex_lock(&logger.lock);
        }
    }
    pthread_mutex_unlock(&logger.lock);
    return NULL;
}

// The lock is held.
static void ring_add(const char *line, size_t n)
{
    if (n > RING_SIZE - logger.used) {
        atomic_fetch_add(&dropped, 1);
        return;
    }
    size_t at = (logger.start + logger.used) % RING_SIZE;
    size_t first = n < RING_SIZE - at ? n : RING_SIZE - at;
    memcpy(logger.ring + at, line, first);
    memcpy(logger.ring, line + first, n - first);
    if (logger.used == 0)
        pthread_cond_signal(&logger.filled);
    logger.used += n;
}

// ---- the interface ----

void log_start(int fd, enum log_level level, enum log_format format)
{
    log_stop();
    atomic_store(&current_level, level);
    atomic_store(&current_format, format);
    pthread_mutex_lock(&logger.lock);
    logger.fd = fd;
    logger.ring = xmalloc(RING_SIZE);
    logger.start = 0;
    logger.used = 0;
    logger.stopping = false;
    logger.dropped_said = atomic_load(&dropped);
    // The writer takes no signals: none of the process's, and SIGPIPE of its own writes comes as EPIPE.
    sigset_t all, old;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &old);
    logger.running = pthread_create(&logger.writer, NULL, writer_main, NULL) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (logger.running) {
        pthread_setname_np(logger.writer, "log");
    } else {
        free(logger.ring);
        logger.ring = NULL;
    }
    pthread_mutex_unlock(&logger.lock);
}

void log_stop(void)
{
    pthread_mutex_lock(&logger.lock);
    bool running = logger.running;
    logger.running = false; // from here on lines go straight to stderr
    logger.stopping = true;
    pthread_cond_signal(&logger.filled);
    pthread_mutex_unlock(&logger.lock);
    if (!running)
        return;
    pthread_join(logger.writer, NULL);
    pthread_mutex_lock(&logger.lock);
    free(logger.ring);
    logger.ring = NULL;
    logger.fd = STDERR_FILENO;
    pthread_mutex_unlock(&logger.lock);
}

void log_set_level(enum log_level level)
{
    atomic_store(&current_level, level);
}

bool log_enabled(enum log_level level)
{
    return (int)level <= atomic_load_explicit(&current_level, memory_order_relaxed);
}

int log_level_parse(const char *text, enum log_level *ret)
{
    for (size_t i = 0; i < sizeof(level_names) / sizeof(level_names[0]); i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *ret = (enum log_level)i;
            return 0;
        }
    }
    return -ERR_INVALID;
}

enum log_level log_level_of_v(int v)
{
    return v >= 6 ? LOG_TRACE : v >= 4 ? LOG_DEBUG : LOG_INFO;
}

uint64_t log_dropped(void)
{
    return atomic_load(&dropped);
}

void log_set_clock(const struct clock *c)
{
    atomic_store(&log_clock, c);
}

void log_set_sink(void (*fn)(void *ud, enum log_level level, const char *line), void *ud)
{
    pthread_mutex_lock(&logger.lock);
    logger.sink = fn;
    logger.sink_ud = ud;
    pthread_mutex_unlock(&logger.lock);
}

void log_write(enum log_level level, const char *msg, const struct log_field *fields)
{
    ASSERT((unsigned)level <= LOG_TRACE);
    struct buf line;
    buf_init(&line, LINE_MAX_BYTES);
    add_line(&line, level, msg, fields);

    pthread_mutex_lock(&logger.lock);
    void (*sink)(void *ud, enum log_level level, const char *line) = logger.sink;
    void *ud = logger.sink_ud;
    bool direct = sink == NULL && !logger.running;
    if (sink == NULL && logger.running)
        ring_add(line.data, line.len);
    pthread_mutex_unlock(&logger.lock);

    if (sink != NULL) {
        line.data[line.len - 1] = 0; // the sink gets the line without its end
        sink(ud, level, line.data);
    } else if (direct) {
        write_all(STDERR_FILENO, line.data, line.len);
    }
    buf_fini(&line);
}
