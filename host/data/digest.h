// SHA-256, HMAC-SHA-256, base64 and hex by OpenSSL. Any thread.
#ifndef DATA_DIGEST_H
#define DATA_DIGEST_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"

enum { DIGEST_SHA256_LEN = 32, DIGEST_SHA256_HEX = 65 };

void digest_sha256(const void *data, size_t n, uint8_t out[DIGEST_SHA256_LEN]);
void digest_hmac_sha256(const void *key, size_t key_len, const void *data, size_t n,
                        uint8_t out[DIGEST_SHA256_LEN]);
void digest_sha256_hex(const void *data, size_t n, char out[DIGEST_SHA256_HEX]);
int base64_encode(const void *data, size_t n, struct buf *out);
// Standard alphabet, white space passed over; 0 or -ERR_PARSE.
int base64_decode(const char *text, size_t n, struct buf *out, struct err *e);

#endif
