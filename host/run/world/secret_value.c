#include "run/world/secret_value.h"

#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "data/digest.h"

static const char letters_and_digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

static int check_charset(const char *charset, struct err *e)
{
    size_t n = strlen(charset);
    if (n < 2)
        return err_set(e, ERR_INVALID,
                       "world.secret_value: charset needs two characters at least, it has %zu", n);
    for (size_t i = 0; i < n; i++) {
        unsigned char c = (unsigned char)charset[i];
        if (c < ' ' || c > '~')
            return err_set(e, ERR_INVALID,
                           "world.secret_value: charset may hold printable ASCII characters only, not byte "
                           "0x%02x at %zu",
                           c, i + 1);
        if (memchr(charset, c, i) != NULL)
            return err_set(e, ERR_INVALID,
                           "world.secret_value: charset has '%c' twice, which would make it more likely than "
                           "the others",
                           c);
    }
    return 0;
}

int secret_value_check(const char *name, int length, const char *charset, struct err *e)
{
    size_t n = strlen(name);
    if (n == 0 || n > SECRET_VALUE_NAME_MAX)
        return err_set(e, ERR_INVALID, "world.secret_value: a name has 1 to %d bytes, this one has %zu",
                       SECRET_VALUE_NAME_MAX, n);
    if (length < 1 || length > SECRET_VALUE_MAX)
        return err_set(e, ERR_INVALID, "world.secret_value: length must be a whole number from 1 to %d",
                       SECRET_VALUE_MAX);
    return charset == NULL ? 0 : check_charset(charset, e);
}

// The key of this one value. A NUL parts the texts, which hold none.
static void derive(const uint8_t key[SECRET_VALUE_KEY], const char *uid, const char *name,
                   uint8_t out[DIGEST_SHA256_LEN])
{
    static const char purpose[] = "tidelock secret_value";
    struct buf text;
    buf_init(&text, SIZE_MAX); // every part has its own limit
    buf_add(&text, purpose, sizeof purpose);
    buf_add(&text, uid, strlen(uid) + 1);
    buf_add_str(&text, name);
    digest_hmac_sha256(key, SECRET_VALUE_KEY, text.data, text.len, out);
    buf_fini(&text);
}

void secret_value_make(const uint8_t key[SECRET_VALUE_KEY], const char *uid, const char *name, int length,
                       const char *charset, char *out)
{
    if (charset == NULL)
        charset = letters_and_digits;
    unsigned n = (unsigned)strlen(charset);
    unsigned limit = 256 - 256 % n; // bytes from here on would favour the first characters
    uint8_t own[DIGEST_SHA256_LEN], block[DIGEST_SHA256_LEN];
    int made = 0;
    derive(key, uid, name, own);
    for (uint32_t counter = 1; made < length; counter++) {
        uint8_t number[4] = {(uint8_t)(counter >> 24), (uint8_t)(counter >> 16), (uint8_t)(counter >> 8),
                             (uint8_t)counter};
        digest_hmac_sha256(own, sizeof own, number, sizeof number, block);
        for (size_t i = 0; i < sizeof block && made < length; i++)
            if (block[i] < limit)
                out[made++] = charset[block[i] % n];
    }
    out[length] = '\0';
    explicit_bzero(own, sizeof own);
    explicit_bzero(block, sizeof block);
}
