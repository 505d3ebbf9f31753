#include "io/curl_drive.h"

#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

struct curl_drive {
    CURLM *multi;
    struct loop *loop;
    struct loop_timer *timer; // libcurl's
    void (*act)(void *ud, curl_socket_t fd, int events);
    void *ud;
};

struct drive_fd {
    struct curl_drive *drive;
    curl_socket_t fd;
    struct loop_fd *watcher;
};

static void on_timer(void *ud)
{
    struct curl_drive *d = ud;
    d->act(d->ud, CURL_SOCKET_TIMEOUT, 0);
}

static int on_multi_timer(CURLM *multi, long ms, void *ud)
{
    struct curl_drive *d = ud;
    (void)multi;
    if (ms < 0)
        loop_timer_stop(d->timer);
    else
        loop_timer_start(d->timer, (uint64_t)ms);
    return 0;
}

static void on_fd(void *ud, int what)
{
    struct drive_fd *f = ud;
    f->drive->act(f->drive->ud, f->fd, what == LOOP_READ ? CURL_CSELECT_IN : CURL_CSELECT_OUT);
}

static int on_multi_socket(CURL *easy, curl_socket_t fd, int what, void *ud, void *socket_ud)
{
    struct curl_drive *d = ud;
    struct drive_fd *f = socket_ud;
    (void)easy;
    if (what == CURL_POLL_REMOVE) {
        if (f != NULL)
            loop_fd_free(f->watcher);
        free(f);
        return 0;
    }
    if (f == NULL) {
        f = xmalloc(sizeof(*f));
        *f = (struct drive_fd){d, fd, loop_fd_new(d->loop, fd, on_fd, f)};
        curl_multi_assign(d->multi, fd, f);
    }
    loop_fd_want(f->watcher, (what & CURL_POLL_IN ? LOOP_READ : 0) | (what & CURL_POLL_OUT ? LOOP_WRITE : 0));
    return 0;
}

struct curl_drive *curl_drive_new(struct loop *l, void (*act)(void *ud, curl_socket_t fd, int events),
                                  void *ud)
{
    struct curl_drive *d = xmalloc(sizeof(*d));
    *d = (struct curl_drive){curl_multi_init(), l, NULL, act, ud};
    ASSERT(d->multi != NULL);
    d->timer = loop_timer_new(l, on_timer, d);
    curl_multi_setopt(d->multi, CURLMOPT_SOCKETFUNCTION, on_multi_socket);
    curl_multi_setopt(d->multi, CURLMOPT_SOCKETDATA, d);
    curl_multi_setopt(d->multi, CURLMOPT_TIMERFUNCTION, on_multi_timer);
    curl_multi_setopt(d->multi, CURLMOPT_TIMERDATA, d);
    return d;
}

void curl_drive_free(struct curl_drive *d)
{
    curl_multi_cleanup(d->multi);
    loop_timer_free(d->timer);
    free(d);
}

CURLM *curl_drive_multi(struct curl_drive *d)
{
    return d->multi;
}

void curl_drive_add(struct curl_drive *d, CURL *easy)
{
    CURLMcode r = curl_multi_add_handle(d->multi, easy);
    ASSERT(r == CURLM_OK); // other codes mean that we mixed up the states of handles
}

void curl_drive_act(struct curl_drive *d, curl_socket_t fd, int events)
{
    int running;
    curl_multi_socket_action(d->multi, fd, events, &running);
}

CURL *curl_drive_next_done(struct curl_drive *d, CURLcode *ret_result)
{
    int left;
    for (CURLMsg *m; (m = curl_multi_info_read(d->multi, &left)) != NULL;) {
        if (m->msg == CURLMSG_DONE) {
            *ret_result = m->data.result;
            return m->easy_handle;
        }
    }
    return NULL;
}
