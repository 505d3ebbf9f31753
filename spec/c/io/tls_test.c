#include "io/tls.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "support/pki.h"

static struct pki ca, client, other;

static int make_all(void **state)
{
    (void)state;
    ca = pki_make(PKI_CA, NULL, "ca", NULL, 1);
    client = pki_make(PKI_CLIENT, &ca, "client", NULL, 1);
    other = pki_make(PKI_CLIENT, &ca, "other", NULL, 1);
    return 0;
}

static int free_all(void **state)
{
    (void)state;
    pki_fini(&ca);
    pki_fini(&client);
    pki_fini(&other);
    return 0;
}

static void assert_refused(const char *ca_pem, const char *cert, const char *key, const char *part)
{
    struct err e = {0};
    assert_int_equal(tls_check_pem(ca_pem, cert, key, &e), -ERR_TLS);
    if (strstr(e.text, part) == NULL)
        fail_msg("\"%s\" does not name \"%s\"", e.text, part);
    assert_int_equal(tls_check_pem(ca_pem, cert, key, NULL), -ERR_TLS);
}

static void test_good(void **state)
{
    (void)state;
    assert_int_equal(tls_check_pem(NULL, NULL, NULL, NULL), 0);
    assert_int_equal(tls_check_pem(ca.cert, NULL, NULL, NULL), 0);
    assert_int_equal(tls_check_pem(ca.cert, client.cert, client.key, NULL), 0);
    // Two, with text between them and CRLF; the chain in the client's file.
    char *two = xasprintf("# first\r\n%s\r\nsecond:\r\n%s# end\r\n", ca.cert, other.cert);
    assert_int_equal(tls_check_pem(two, NULL, NULL, NULL), 0);
    free(two);
    char *chain = xasprintf("%s%s", client.cert, ca.cert);
    assert_int_equal(tls_check_pem(NULL, chain, client.key, NULL), 0);
    free(chain);
}

static void test_bad_ca(void **state)
{
    (void)state;
    assert_refused("", NULL, NULL, "the certificate-authority holds no certificate");
    assert_refused("no PEM at all", NULL, NULL, "the certificate-authority holds no certificate");
    assert_refused(ca.key, NULL, NULL, "the certificate-authority holds no certificate");
    assert_refused("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n", NULL, NULL,
                   "the certificate-authority is damaged");
    char *cut = xasprintf("%s%.*s", ca.cert, 200, ca.cert);
    assert_refused(cut, NULL, NULL, "certificate 2");
    free(cut);
}

static void test_bad_client(void **state)
{
    (void)state;
    assert_refused(NULL, client.cert, NULL, "no client-key");
    assert_refused(NULL, NULL, client.key, "no client-certificate");
    assert_refused(NULL, client.cert, other.key, "does not belong");
    assert_refused(NULL, client.key, client.cert, "the client-certificate holds no certificate");
    assert_refused(NULL, client.cert, "", "the client-key holds no private key");
    assert_refused(NULL, client.cert, client.cert, "the client-key holds no private key");
    assert_refused(NULL, client.cert, "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n",
                   "the client-key");
    assert_refused("bad", client.cert, client.key, "the certificate-authority");
}

static void test_encrypted_key(void **state)
{
    (void)state;
    // A key that `openssl genpkey -algorithm ed25519 -aes256` wrote.
    static const char key[] = "-----BEGIN ENCRYPTED PRIVATE KEY-----\n"
                              "MIGbMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAgFsxD2dIpNBwICCAAw\n"
                              "DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEL7PdsHJlk39psSCDolgYiMEQD1h\n"
                              "HS26Xsbhw1YfRoOwtfUHzlK+w4INiFamj6z5mwTBZhDyOmveVnYnykvCtONgvI22\n"
                              "fJLCCYewPml2ercLuzo=\n"
                              "-----END ENCRYPTED PRIVATE KEY-----\n";
    assert_refused(NULL, client.cert, key, "encrypted");
}

static void test_hints(void **state)
{
    (void)state;
    assert_null(tls_verify_hint(0));
    assert_non_null(strstr(tls_verify_hint(20), "CA")); // no local issuer
    assert_non_null(strstr(tls_verify_hint(10), "expired"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good),       cmocka_unit_test(test_bad_ca),
        cmocka_unit_test(test_bad_client), cmocka_unit_test(test_encrypted_key),
        cmocka_unit_test(test_hints),
    };
    return cmocka_run_group_tests(tests, make_all, free_all);
}
