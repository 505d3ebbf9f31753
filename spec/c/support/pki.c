#include "support/pki.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rand.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/assert.h"

static char *take_text(BIO *b)
{
    char *data;
    long n = BIO_get_mem_data(b, &data);
    char *text = xstrndup(data, (size_t)n);
    BIO_free(b);
    return text;
}

static X509 *read_cert(const char *text)
{
    BIO *b = BIO_new_mem_buf(text, -1);
    X509 *x = PEM_read_bio_X509(b, NULL, NULL, NULL);
    BIO_free(b);
    ASSERT(x != NULL);
    return x;
}

static EVP_PKEY *read_key(const char *text)
{
    BIO *b = BIO_new_mem_buf(text, -1);
    EVP_PKEY *k = PEM_read_bio_PrivateKey(b, NULL, NULL, NULL);
    BIO_free(b);
    ASSERT(k != NULL);
    return k;
}

static void add_extension(X509 *x, X509 *issuer, int nid, const char *value)
{
    X509V3_CTX ctx;
    X509V3_set_ctx(&ctx, issuer, x, NULL, NULL, 0);
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, &ctx, nid, value);
    ASSERT(e != NULL);
    X509_add_ext(x, e, -1);
    X509_EXTENSION_free(e);
}

static void set_serial(X509 *x)
{
    int64_t serial;
    RAND_bytes((unsigned char *)&serial, sizeof(serial));
    ASN1_INTEGER_set_int64(X509_get_serialNumber(x), serial & 0x7fffffff);
}

struct pki pki_make(enum pki_use use, const struct pki *issuer, const char *name, const char *san, int days)
{
    EVP_PKEY *key = EVP_EC_gen("P-256");
    X509 *x = X509_new();
    X509 *parent = issuer != NULL ? read_cert(issuer->cert) : x;
    EVP_PKEY *signer = issuer != NULL ? read_key(issuer->key) : key;
    X509_set_version(x, X509_VERSION_3);
    set_serial(x);
    X509_gmtime_adj(X509_getm_notBefore(x), days > 0 ? -3600 : (long)(days - 1) * 86400);
    X509_gmtime_adj(X509_getm_notAfter(x), (long)days * 86400);
    X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_UTF8, (const unsigned char *)name, -1,
                               -1, 0);
    X509_set_issuer_name(x, X509_get_subject_name(parent));
    X509_set_pubkey(x, key);
    if (use == PKI_CA) {
        add_extension(x, parent, NID_basic_constraints, "critical,CA:TRUE");
        add_extension(x, parent, NID_key_usage, "critical,keyCertSign,cRLSign");
    } else {
        add_extension(x, parent, NID_ext_key_usage, use == PKI_SERVER ? "serverAuth" : "clientAuth");
    }
    if (san != NULL)
        add_extension(x, parent, NID_subject_alt_name, san);
    ASSERT(X509_sign(x, signer, EVP_sha256()) > 0);

    BIO *cert_out = BIO_new(BIO_s_mem()), *key_out = BIO_new(BIO_s_mem());
    PEM_write_bio_X509(cert_out, x);
    PEM_write_bio_PrivateKey(key_out, key, NULL, NULL, 0, NULL, NULL);
    struct pki p = {take_text(cert_out), take_text(key_out)};
    if (issuer != NULL) {
        X509_free(parent);
        EVP_PKEY_free(signer);
    }
    X509_free(x);
    EVP_PKEY_free(key);
    return p;
}

void pki_fini(struct pki *p)
{
    free(p->cert);
    free(p->key);
    *p = (struct pki){0};
}
