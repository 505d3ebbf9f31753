// The host: everything of run/ wired together over one loop. Clock, random seed, transport and worker pool
// are passed in, so that the same host runs in production (libevent, libcurl, threads) and in a test (virtual
// clock, embedded API server, inline). Loop thread.
#ifndef RUN_HOST_H
#define RUN_HOST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/metrics.h"
#include "base/strset.h"
#include "io/loop.h"
#include "kube/client.h"
#include "run/source/grants.h"

struct host;

struct host_options { // all borrowed for the host's life
    struct loop *loop;
    struct client *client;
    struct metrics *metrics;
    const struct grants *grants;
    const char *instance;            // "tidelock"
    const char *namespace_;          // the host's own: inventories
    const char *scripts_namespace;   // where ConfigMaps with scripts are taken from
    const char *scripts_folder;      // or NULL
    const char *env_json;            // world.env, or NULL
    const struct strset *namespaces; // confined to these; NULL or empty: no limit
    unsigned workers;                // threads; 0: inline
    unsigned max_writes;             // 0: 64
    uint64_t script_cpu_us;          // CPU time a script may use a minute; 0: 10 s
    uint64_t max_pass_cpu_us; // what a script may ask for a pass, see run/source/script.h; 0: the default
    size_t max_pass_memory;
    uint64_t seed;
    // Random bytes of the host's own key, when it has to be made; NULL: the kernel's.
    void (*key_bytes)(void *ud, uint8_t *out, size_t n);
    // The very first answers show that the configuration is wrong (credentials, certificate): nothing will
    // work until a person acts.
    void (*on_fatal)(void *ud, const struct err *e);
    void *ud;
};

int host_new(const struct host_options *o, struct host **ret, struct err *e);
void host_start(struct host *h);
// No new keys; passes and writes under way finish; streams close; then on_stopped.
void host_stop(struct host *h, void (*on_stopped)(void *ud), void *ud);
void host_free(struct host *h); // after on_stopped, or before host_start
// Workers that are stuck for good: then nothing may be freed, not what the host was given either.
unsigned host_stuck_workers(const struct host *h);
// Does the process do its work, or is a new one needed?
bool host_is_alive(const struct host *h, struct buf *why);

// Are the scripts known and their kinds synced? The text says what is not ("[+]discovery ok" a line).
bool host_is_ready(struct host *h, struct buf *why);
size_t host_pending(
    const struct host *h); // keys that wait, are in process or compile: 0 is quiet (timers do not count)

#endif
