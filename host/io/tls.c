#include "io/tls.h"

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <openssl/x509_vfy.h>
#include <stdbool.h>
#include <string.h>

#include "base/assert.h"

enum { READ_AHEAD = 32 << 10 };

static BIO *text_bio(const char *text)
{
    BIO *b = BIO_new_mem_buf(text, -1);
    ASSERT(b != NULL);
    return b;
}

// The reason of OpenSSL's last error; leaves its queue empty.
static const char *take_reason(void)
{
    unsigned long code = ERR_peek_last_error();
    const char *reason = code != 0 ? ERR_reason_error_string(code) : NULL;
    ERR_clear_error();
    return reason != NULL ? reason : "it can not be read";
}

static bool is_end_of_input(void)
{
    unsigned long code = ERR_peek_last_error();
    return ERR_GET_LIB(code) == ERR_LIB_PEM && ERR_GET_REASON(code) == PEM_R_NO_START_LINE;
}

// Reads all certificates of a text; the first one goes to *ret_first (X509_free) when wanted.
static int check_certificates(const char *text, const char *what, X509 **ret_first, struct err *e)
{
    BIO *b = text_bio(text);
    X509 *first = NULL;
    int count = 0;
    ERR_clear_error();
    for (X509 *x; (x = PEM_read_bio_X509_AUX(b, NULL, NULL, NULL)) != NULL; count++) {
        if (first == NULL)
            first = x;
        else
            X509_free(x);
    }
    int r = 0;
    if (!is_end_of_input())
        r = err_set(e, ERR_TLS, "the %s is damaged: certificate %d of it can not be read: %s", what,
                    count + 1, take_reason());
    else if (count == 0)
        r = err_set(e, ERR_TLS, "the %s holds no certificate; PEM text with BEGIN CERTIFICATE is expected",
                    what);
    ERR_clear_error();
    BIO_free(b);
    if (r == 0 && ret_first != NULL)
        *ret_first = first;
    else
        X509_free(first);
    return r;
}

static int on_password(char *buf, int size, int rwflag, void *ud)
{
    bool *asked = ud;
    (void)buf, (void)size, (void)rwflag;
    *asked = true;
    return -1;
}

static int read_key(const char *text, EVP_PKEY **ret, struct err *e)
{
    BIO *b = text_bio(text);
    bool asked = false;
    ERR_clear_error();
    EVP_PKEY *key = PEM_read_bio_PrivateKey(b, NULL, on_password, &asked);
    int r = 0;
    if (key == NULL && asked)
        r = err_set(e, ERR_TLS, "the client-key is encrypted; a key without a password is needed");
    else if (key == NULL && strstr(text, "PRIVATE KEY-----") == NULL)
        r = err_set(e, ERR_TLS,
                    "the client-key holds no private key; PEM text with BEGIN PRIVATE KEY is expected");
    else if (key == NULL)
        r = err_set(e, ERR_TLS, "the client-key can not be read: %s", take_reason());
    else
        *ret = key;
    ERR_clear_error();
    BIO_free(b);
    return r;
}

static int check_pair(const char *cert, const char *key, struct err *e)
{
    X509 *x = NULL;
    EVP_PKEY *k = NULL;
    int r = check_certificates(cert, "client-certificate", &x, e);
    if (r == 0)
        r = read_key(key, &k, e);
    if (r == 0 && X509_check_private_key(x, k) != 1)
        r = err_set(e, ERR_TLS, "the client-key does not belong to the client-certificate");
    ERR_clear_error();
    X509_free(x);
    EVP_PKEY_free(k);
    return r;
}

int tls_check_pem(const char *ca, const char *cert, const char *key, struct err *e)
{
    int r = ca != NULL ? check_certificates(ca, "certificate-authority", NULL, e) : 0;
    if (r != 0)
        return r;
    if (cert != NULL && key != NULL)
        return check_pair(cert, key, e);
    if (cert != NULL)
        return err_set(e, ERR_TLS, "there is a client-certificate but no client-key");
    if (key != NULL)
        return err_set(e, ERR_TLS, "there is a client-key but no client-certificate");
    return 0;
}

const char *tls_verify_hint(long verify_result)
{
    switch (verify_result) {
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
    case X509_V_ERR_CERT_SIGNATURE_FAILURE:
        return "it was not issued by the configured CA; set the CA of this server";
    case X509_V_ERR_CERT_HAS_EXPIRED:
        return "it or its CA has expired; renew it, or set this machine's clock";
    case X509_V_ERR_CERT_NOT_YET_VALID:
        return "it is not valid yet; set this machine's clock";
    case X509_V_ERR_INVALID_CA:
    case X509_V_ERR_INVALID_PURPOSE:
        return "the certificate that issued it may not issue server certificates";
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        return "it is for another name; use a server name that it lists, or set the TLS server name";
    default:
        return NULL;
    }
}

static void on_handshake(const SSL *ssl, int where, int value)
{
    const unsigned char *name = NULL;
    unsigned n = 0;
    (void)value;
    if ((where & SSL_CB_HANDSHAKE_DONE) == 0)
        return;
    SSL_get0_alpn_selected(ssl, &name, &n);
    bool *http2 = SSL_CTX_get_app_data(SSL_get_SSL_CTX(ssl));
    *http2 = n == 2 && memcmp(name, "h2", 2) == 0;
}

void tls_offer_http2(void *ctx, bool *http2)
{
    static const unsigned char names[] = "\x02h2\x08http/1.1";
    SSL_CTX_set_app_data((SSL_CTX *)ctx, http2);
    SSL_CTX_set_info_callback(ctx, on_handshake);
    SSL_CTX_set_alpn_protos(ctx, names, sizeof(names) - 1);
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_default_read_buffer_len(ctx, READ_AHEAD);
}
