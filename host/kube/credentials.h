// The credentials of a configuration that live in files and change under a running host: the token and the
// TLS material. Loop thread. The files are read by a short-lived thread, never by a real loop (a virtual loop
// reads them itself: there are no threads).
#ifndef KUBE_CREDENTIALS_H
#define KUBE_CREDENTIALS_H

#include <stdbool.h>
#include <stdint.h>

#include "io/loop.h"
#include "kube/config.h"

struct credentials;

struct credentials_callbacks {
    // A reread asked for by credentials_refresh() is through.
    void (*on_refreshed)(void *ud);
    // CA, certificate or key changed on disk (borrowed). Non-zero: can not be used, asked again at the next
    // reread.
    int (*on_tls)(void *ud, const char *ca_pem, const char *cert_pem, const char *key_pem);
    void *ud;
};

// Reads the token file once if cfg->token is not set: start-up. `cfg` is borrowed. Rereads every 60 s if cfg
// names files.
struct credentials *credentials_new(struct loop *l, const struct kube_config *cfg,
                                    const struct credentials_callbacks *cb);
void credentials_free(struct credentials *c); // waits for a read under way
// The bearer token now, or NULL: transport_curl_options.token. A missing, empty or odd file keeps the last
// good one.
const char *credentials_token(void *credentials);
// Grows when the token or the TLS material changes.
uint64_t credentials_version(const struct credentials *c);
// Rereads now (joins a read under way); on_refreshed comes in a later turn. At most once a second the files
// are really read.
void credentials_refresh(struct credentials *c);

#endif
