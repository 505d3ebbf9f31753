// The open watches and how changes reach them. Loop thread.
#ifndef APISERVER_WATCH_HUB_H
#define APISERVER_WATCH_HUB_H

#include "apiserver/filter.h"
#include "apiserver/impl.h"

// Where a watcher's frames go: whoever reads the stream.
struct watch_sink {
    void (*data)(void *ud, const char *bytes, size_t n); // one or more whole frames
    void (*end)(void *ud); // the server closes the stream; the watcher is gone after it
    void *ud;
};

struct watch_hub *watch_hub_new(struct apiserver *s);
void watch_hub_free(struct watch_hub *h); // forgets the watchers, tells nobody

// Handles GET ?watch=1. On success r->stream is set, r->body holds the first frames and r->watcher the
// watcher (NULL: the stream ends at once).
void watch_hub_open(struct watch_hub *h, struct request *q, struct response *r);
void watch_hub_attach(struct watcher *w, const struct watch_sink *sink); // before anything else happens
void watch_hub_close(struct watcher *w); // by the reader; the sink is not told

void watch_hub_publish(struct watch_hub *h, const struct kind *k, const struct storage_event *ev);
void watch_hub_end_kind(struct watch_hub *h, const struct kind *k); // NULL: all

#endif
