#include "kube/config_pem.h"

#include <stdbool.h>
#include <string.h>

static bool has(const char *text, const char *what)
{
    return strstr(text, what) != NULL;
}

static bool has_key(const char *text)
{
    return has(text, "PRIVATE KEY-----");
}

int config_pem_check_certificates(const char *text, struct err *e)
{
    const char *begin = strstr(text, "-----BEGIN CERTIFICATE-----");
    if (begin == NULL && has_key(text))
        return err_set(e, ERR_TLS, "it holds a private key and no certificate");
    if (begin == NULL)
        return err_set(e, ERR_TLS, "it holds no PEM certificate (no line -----BEGIN CERTIFICATE-----)");
    if (!has(begin, "-----END CERTIFICATE-----"))
        return err_set(e, ERR_TLS, "a certificate in it is cut off (no line -----END CERTIFICATE-----)");
    return 0;
}

int config_pem_check_key(const char *text, struct err *e)
{
    if (!has_key(text) && has(text, "-----BEGIN CERTIFICATE-----"))
        return err_set(e, ERR_TLS, "it holds a certificate and no private key");
    if (!has_key(text))
        return err_set(e, ERR_TLS, "it holds no PEM private key (no line -----BEGIN ... PRIVATE KEY-----)");
    if (has(text, "BEGIN ENCRYPTED PRIVATE KEY") || has(text, "Proc-Type: 4,ENCRYPTED"))
        return err_set(e, ERR_TLS, "the private key is encrypted: store it without a passphrase");
    return 0;
}
