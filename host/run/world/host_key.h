// The key that world.secret_value makes its values from: 32 random bytes in the Secret tidelock-host-key of
// the host's namespace, read (or created) when a script first asks for a value, then kept in memory only. Who
// deletes the Secret gets other values after the next start. Loop thread, except host_key_try.
#ifndef RUN_WORLD_HOST_KEY_H
#define RUN_WORLD_HOST_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "kube/client.h"
#include "run/world/secret_value.h"

struct host_key;

#define HOST_KEY_SECRET "tidelock-host-key"

struct host_key_options {
    struct client *client;
    const char *ns;                                  // the host's, copied
    uint64_t seed;                                   // of the back-off
    void (*bytes)(void *ud, uint8_t *out, size_t n); // of a new key; NULL: the kernel's
    void (*on_ready)(void *ud);                      // those who wait may go on
    void *ud;
};

struct host_key *host_key_new(const struct host_key_options *o);
void host_key_free(struct host_key *k);
// Somebody waits for it: it is fetched, with back-off until that works. What stands in the way is logged.
void host_key_want(struct host_key *k);
// Any thread: the key, when it is there.
bool host_key_try(struct host_key *k, uint8_t out[SECRET_VALUE_KEY]);

#endif
