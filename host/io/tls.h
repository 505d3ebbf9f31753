// Checks of certificates and keys before they are used, so that a wrong file is named at once. Any thread.
#ifndef IO_TLS_H
#define IO_TLS_H

#include <stdbool.h>

#include "base/err.h"

// ca: one or more certificates; cert: the client's own and its chain; key: the private key of the first one.
// Each may be NULL, but cert and key come together. 0, or -ERR_TLS with a sentence that names which of them
// is wrong, and how.
int tls_check_pem(const char *ca, const char *cert, const char *key, struct err *e);

// What to do about a failed check of the server's certificate (an X509_V_ERR_ code), or NULL when there is
// nothing to add.
const char *tls_verify_hint(long verify_result);

// For a connection that libcurl opens; ctx is OpenSSL's SSL_CTX as libcurl gives it. Offers HTTP/2 and
// HTTP/1.1 by ALPN (RFC 7301); *http2 is set at the handshake's end: did the server choose it? Reads of the
// socket take what is there, not a record's head and then its body.
void tls_offer_http2(void *ctx, bool *http2);

#endif
