// An answer under construction. Owned by whoever handles the request. Loop thread.
#ifndef APISERVER_RESPONSE_H
#define APISERVER_RESPONSE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/buf.h"

struct watcher;

enum { RESPONSE_BODY_MAX = 512 * 1024 * 1024 };

struct response {
    int status;
    const char *content_type; // static
    struct buf body;
    int retry_after_s; // 0: none
    bool stream;       // a watch was opened: more follows through its sink; `body` holds the first frames
    struct watcher *watcher; // of a stream that stays open; NULL: it ends after the body
};

void response_init(struct response *r);
void response_fini(struct response *r);

#endif
