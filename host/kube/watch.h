// The reflector of one scope of one kind: list, then watch, for ever. It has no terminal state: every failure
// leads to a retry with the stream's own back-off. Resumes by resourceVersion, bookmarks, WatchList when the
// server has it, paged lists otherwise. Loop thread.
//
// Events come in client-go's words: INIT (a list begins), INIT_APPLY (one object of it), INIT_DONE (it is
// complete: what was not among them is gone), then APPLY and DELETE. ERROR tells a failure (for logs and
// state); the reflector goes on. A list that breaks begins again: INIT may come twice without DONE between,
// and voids the first one. APPLY's and DELETE's may tell what is known already.
#ifndef KUBE_WATCH_H
#define KUBE_WATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "base/random.h"
#include "kube/client.h"
#include "kube/object.h"

enum watch_event_kind {
    WATCH_INIT,
    WATCH_INIT_APPLY,
    WATCH_INIT_DONE,
    WATCH_APPLY,
    WATCH_DELETE,
    WATCH_ERROR
};

struct watch_event {
    enum watch_event_kind kind;
    struct object
        *object; // INIT_APPLY, APPLY, DELETE (the last state); borrowed: take a reference to keep it
    const struct api_status *error; // ERROR
};

enum watch_state { WATCH_IDLE, WATCH_LISTING, WATCH_OPENING, WATCH_WATCHING, WATCH_BACKOFF };

struct watch_options {
    struct client *client;
    struct resource resource;   // copied
    const char *ns;             // NULL or "": all
    const char *label_selector; // or NULL; copied
    const char *field_selector; // or NULL; copied
    const struct identity *as;
    uint64_t seed;      // of its jitter
    uint32_t page_size; // 0: 500
    bool no_watch_list; // always list + watch
    void (*on_event)(void *ud, const struct watch_event *ev);
    void *ud;
};

struct watch;

struct watch *watch_new(const struct watch_options *o);
void watch_start(struct watch *w);
void watch_free(struct watch *w); // closes; no event after this. Not from inside its own on_event
enum watch_state watch_state(const struct watch *w);
const char *watch_state_name(enum watch_state s);
const char *watch_resource_version(const struct watch *w); // last seen, "" if none
uint64_t watch_last_activity_ms(const struct watch *w);    // loop time of the last frame or answer
uint64_t watch_relists(const struct watch *w);             // how many lists were begun
uint64_t watch_skipped(const struct watch *w);             // objects of the server that could not be read
bool watch_list_refused(const struct watch *w); // the server does not send lists by watch: a hint for others
bool watch_is_listing(const struct watch *w);   // or a list comes next
// A consistent list now (own writes did not show up in time); nothing if one is under way; in a back-off:
// when it ends. From inside on_event, too.
void watch_relist(struct watch *w);

#endif
