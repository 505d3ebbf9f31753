// Inside of a reflector: watch.c (states, back-off), watch_list.c (paged lists), watch_stream.c (streams and
// their frames).
#ifndef KUBE_WATCH_IMPL_H
#define KUBE_WATCH_IMPL_H

#include "kube/watch.h"

enum {
    WATCH_PAGE_SIZE = 500,
    WATCH_LIST_TIMEOUT_MS = 60 * 1000,
    WATCH_BACKOFF_MIN_MS = 800,
    WATCH_BACKOFF_MAX_MS = 30 * 1000,
    WATCH_HEALTHY_MS = 2 * 60 * 1000, // a stream that lived this long makes the back-off start anew
    WATCH_SHORT_MS = 5 * 1000,        // shorter and without news: the server does not mean it
    WATCH_SHORT_IN_A_ROW = 3,         // then the resourceVersion is in doubt
    WATCH_REOPEN_MS = 300,
    WATCH_ANSWER_MS = 30 * 1000, // until the headers of a stream
    WATCH_END_MARK_QUIET_MS = 30 * 1000,
    WATCH_END_MARK_TOTAL_MS = 120 * 1000,
    WATCH_PROBE_MS = 90 * 1000,     // servers that send bookmarks send one a minute
    WATCH_TOO_LARGE_MS = 30 * 1000, // a server that lags has caught up by then
    WATCH_IDLE_MS = 10 * 60 * 1000,
    WATCH_IDLE_BOOKMARKS_MS = 3 * 60 * 1000,
    WATCH_FRAME_MAX = 16 << 20,
    WATCH_PAGES_MAX = 20000,
};

struct watch {
    struct watch_options o;
    char *ns, *labels, *fields, *user; // what o's pointers point to
    struct identity as;
    struct loop *loop;
    struct random random;
    enum watch_state state;
    struct loop_timer *retry; // the next try
    struct loop_timer *guard; // of a stream: no answer, no end mark, no bookmark
    struct call *list;
    struct client_stream *stream;

    char *rv;       // last seen, "" if none
    bool need_list; // the cache may have gaps: the next try is a list
    uint64_t last_activity;
    uint64_t relists;
    uint64_t skipped;
    uint32_t backoff_ms; // the last one; 0: none since a healthy stream

    // of a paged list
    char *token;   // of the next page, or NULL
    char *list_rv; // of the first page
    unsigned pages;
    unsigned list_restarts;
    bool whole; // without pages: their tokens died repeatedly

    // of a stream
    bool started; // 200 came
    bool initial; // it sends the list first
    bool news;    // it gave something new
    uint64_t opened_at;
    uint64_t too_large_since; // 0: the server's revision is not behind ours
    unsigned short_ends;      // in a row
    unsigned initial_failures;
    unsigned too_long; // frames beyond the limit, in a row
    bool watch_list_off;
    bool bookmarks_seen;
    bool suspicious; // the last stream broke: another server may have answered
};

void watch_enter(struct watch *w, enum watch_state s);
void watch_emit(struct watch *w, enum watch_event_kind kind, struct object *o,
                const struct api_status *error);
void watch_set_rv(struct watch *w, const char *rv);
void watch_skip_item(struct watch *w, const struct err *why);
// Appends path and selectors; what is in `query` already comes first.
void watch_path(const struct watch *w, struct buf *query, struct buf *ret);
// Stops what is under way, tells the failure and tries again after the back-off (or what `why` asks for).
// `why` may be NULL.
void watch_fail(struct watch *w, const struct api_status *why);
void watch_retry_in(struct watch *w, uint64_t ms);
uint64_t watch_next_backoff(struct watch *w, const struct api_status *why);
bool watch_is_gone(const struct api_status *s);
// The list is complete as of `rv`: opens the watch.
void watch_complete(struct watch *w, const char *rv);

void watch_list_begin(struct watch *w); // watch_list.c
void watch_list_cancel(struct watch *w);

void watch_stream_open(struct watch *w, bool initial); // watch_stream.c
void watch_stream_close(struct watch *w);
void watch_stream_on_guard(struct watch *w);

#endif
