#include "data/digest.h"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include "base/assert.h"

void digest_sha256(const void *data, size_t n, uint8_t out[DIGEST_SHA256_LEN])
{
    unsigned int len = 0;
    ASSERT(EVP_Digest(data, n, out, &len, EVP_sha256(), NULL) == 1 && len == DIGEST_SHA256_LEN);
}

void digest_hmac_sha256(const void *key, size_t key_len, const void *data, size_t n,
                        uint8_t out[DIGEST_SHA256_LEN])
{
    ASSERT(key_len <= INT32_MAX);
    unsigned int len = 0;
    // An empty key must not be NULL, which means "the key of the last call".
    const unsigned char *r = HMAC(EVP_sha256(), key_len > 0 ? key : "", (int)key_len, data, n, out, &len);
    ASSERT(r != NULL && len == DIGEST_SHA256_LEN);
}

void digest_sha256_hex(const void *data, size_t n, char out[DIGEST_SHA256_HEX])
{
    static const char digits[] = "0123456789abcdef";
    uint8_t sum[DIGEST_SHA256_LEN];
    digest_sha256(data, n, sum);
    for (size_t i = 0; i < DIGEST_SHA256_LEN; i++) {
        out[2 * i] = digits[sum[i] >> 4];
        out[2 * i + 1] = digits[sum[i] & 15];
    }
    out[DIGEST_SHA256_HEX - 1] = 0;
}

int base64_encode(const void *data, size_t n, struct buf *out)
{
    const unsigned char *p = data;
    enum { CHUNK = 3 * 4096 }; // a multiple of 3: only the last chunk is padded
    unsigned char text[CHUNK / 3 * 4 + 1];
    if (n > SIZE_MAX / 2 || buf_reserve(out, (n + 2) / 3 * 4) < 0)
        return -ERR_LIMIT;
    for (size_t at = 0; at < n; at += CHUNK) {
        size_t len = n - at < CHUNK ? n - at : CHUNK;
        int r = buf_add(out, text, (size_t)EVP_EncodeBlock(text, p + at, (int)len));
        if (r < 0)
            return r;
    }
    return 0;
}

// 0..63, -1: not of the alphabet
static int value_of(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

// OpenSSL's decoder passes over misplaced padding and does not say how much padding there was.
int base64_decode(const char *text, size_t n, struct buf *out, struct err *e)
{
    uint32_t bits = 0;
    int count = 0; // characters of the open group of four
    int pad = 0;
    for (size_t i = 0; i < n; i++) {
        char c = text[i];
        if (c == ' ' || c == '\t' || c == '\r' || c == '\n')
            continue;
        int v = value_of(c);
        if (c == '=' && count >= 2 && count + pad < 4)
            pad++;
        else if (v < 0 || pad > 0)
            return err_set(e, ERR_PARSE, "base64: character %zu (0x%02x) is not allowed there", i + 1,
                           (unsigned char)c);
        else {
            bits = bits << 6 | (uint32_t)v;
            count++;
        }
        if (count + pad < 4)
            continue;
        bits <<= 6 * pad;
        uint8_t bytes[3] = {(uint8_t)(bits >> 16), (uint8_t)(bits >> 8), (uint8_t)bits};
        if (buf_add(out, bytes, (size_t)(3 - pad)) < 0)
            return err_set(e, ERR_LIMIT, "base64: the result is more than the room there is");
        if (pad == 0) {
            count = 0;
            bits = 0;
        }
    }
    if ((pad == 0 && count != 0) || (pad > 0 && count + pad != 4))
        return err_set(e, ERR_PARSE, "base64: the text ends within a group of four characters");
    return 0;
}
