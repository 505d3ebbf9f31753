// ctest-labels: thread
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <openssl/ssl.h>

#include "base/alloc.h"
#include "support/http_rig.h"

static struct pki ca, other_ca, server, client, stranger;

static int make_all(void **state)
{
    (void)state;
    ca = pki_make(PKI_CA, NULL, "ca", NULL, 1);
    other_ca = pki_make(PKI_CA, NULL, "other ca", NULL, 1);
    server = pki_make(PKI_SERVER, &ca, "server", "IP:127.0.0.1,DNS:kubernetes", 1);
    client = pki_make(PKI_CLIENT, &ca, "client", NULL, 1);
    stranger = pki_make(PKI_CLIENT, &other_ca, "stranger", NULL, 1);
    return 0;
}

static int free_all(void **state)
{
    struct pki *const all[] = {&ca, &other_ca, &server, &client, &stranger};
    (void)state;
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        pki_fini(all[i]);
    return 0;
}

static void handle(struct rig *r, struct evhttp_request *req)
{
    (void)r;
    rig_reply(req, 200, "text/plain", rig_header(req, "Host"));
}

// One request and one stream; both give `code`, and the text has `part` in it. On success the Host header is
// `part`.
static void assert_outcome(struct rig *r, int code, const char *part)
{
    for (int i = 0; i < 2; i++) {
        struct rig_result x;
        rig_do(r, &x, (struct transport_request){.method = METHOD_GET, .path = "/x", .stream = i == 1});
        assert_int_equal(x.response.err.code, code);
        const char *text = code == 0 ? x.body.data : x.response.err.text;
        if (strstr(text, part) == NULL)
            fail_msg("\"%s\" does not have \"%s\" in it", text, part);
        if (code != 0)
            assert_int_equal(x.response.status, 0);
        rig_result_fini(&x);
    }
}

static void check(const struct pki *server_pki, const char *client_ca, struct transport_curl_options o,
                  int code, const char *part)
{
    struct rig r;
    struct err e = {0};
    rig_init(&r, server_pki, client_ca);
    r.handle = handle;
    if (rig_connect(&r, o, &e) != 0)
        fail_msg("%s", e.text);
    assert_outcome(&r, code, part);
    if (code != 0 && client_ca == NULL)
        assert_int_equal(r.requests, 0);
    rig_fini(&r);
}

#define OPTIONS(...) ((struct transport_curl_options){__VA_ARGS__})

static void test_trusted(void **state)
{
    (void)state;
    check(&server, NULL, OPTIONS(.ca_pem = ca.cert), 0, "127.0.0.1:");
    char *two = xasprintf("%s\r\ntext\r\n%s", other_ca.cert, ca.cert);
    check(&server, NULL, OPTIONS(.ca_pem = two), 0, "127.0.0.1:");
    free(two);
    check(&server, NULL, OPTIONS(.insecure = true), 0, "127.0.0.1:");
}

// No mixture of options but `insecure` accepts a server whose CA is unknown.
static void test_unknown_ca(void **state)
{
    (void)state;
    const char *const cas[] = {other_ca.cert, NULL};
    const char *const names[] = {NULL, "kubernetes"};
    for (int i = 0; i < 8; i++) {
        struct transport_curl_options o = {.ca_pem = cas[i & 1], .tls_server_name = names[i >> 1 & 1]};
        if (i & 4) {
            o.client_cert_pem = client.cert;
            o.client_key_pem = client.key;
        }
        check(&server, NULL, o, -ERR_TLS, "not issued by the configured CA");
    }
}

static void test_names(void **state)
{
    (void)state;
    // The name is for SNI and the check; Host and the address stay the server's.
    check(&server, NULL, OPTIONS(.ca_pem = ca.cert, .tls_server_name = "kubernetes"), 0, "127.0.0.1:");
    check(&server, NULL, OPTIONS(.ca_pem = ca.cert, .tls_server_name = "wrong.example"), -ERR_TLS,
          "another name");
    struct pki p = pki_make(PKI_SERVER, &ca, "x", "DNS:localhost", 1);
    check(&p, NULL, OPTIONS(.ca_pem = ca.cert), -ERR_TLS, "another name");
    pki_fini(&p);
    p = pki_make(PKI_SERVER, &ca, "127.0.0.1", NULL, 1); // only a CN
    check(&p, NULL, OPTIONS(.ca_pem = ca.cert, .tls_server_name = "kubernetes"), -ERR_TLS, "kubernetes");
    pki_fini(&p);
}

static void test_expired(void **state)
{
    (void)state;
    struct pki p = pki_make(PKI_SERVER, &ca, "x", "IP:127.0.0.1", -1);
    check(&p, NULL, OPTIONS(.ca_pem = ca.cert), -ERR_TLS, "expired");
    pki_fini(&p);
}

static void test_client_certificates(void **state)
{
    (void)state;
    struct transport_curl_options o = {.ca_pem = ca.cert};
    check(&server, ca.cert, o, -ERR_TLS, "client-certificate");
    o.client_cert_pem = client.cert;
    o.client_key_pem = client.key;
    check(&server, ca.cert, o, 0, "127.0.0.1:");
    o.client_cert_pem = stranger.cert;
    o.client_key_pem = stranger.key;
    check(&server, ca.cert, o, -ERR_TLS, "client-certificate");
}

static void test_old_version(void **state)
{
    (void)state;
    struct rig r;
    struct err e = {0};
    rig_init(&r, &server, NULL);
    r.handle = handle;
    SSL_CTX_set_min_proto_version(r.ssl_ctx, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(r.ssl_ctx, TLS1_1_VERSION);
    SSL_CTX_set_cipher_list(r.ssl_ctx, "ALL:@SECLEVEL=0");
    assert_int_equal(rig_connect(&r, OPTIONS(.ca_pem = ca.cert), &e), 0);
    assert_outcome(&r, -ERR_TLS, "handshake");
    rig_fini(&r);
}

static void test_no_tls_on_the_port(void **state)
{
    (void)state;
    struct rig r;
    struct err e = {0};
    rig_init(&r, NULL, NULL);
    r.handle = handle;
    char *url = xasprintf("https://127.0.0.1:%d", r.port);
    assert_int_equal(rig_connect(&r, OPTIONS(.server = url, .ca_pem = ca.cert), &e), 0);
    assert_outcome(&r, -ERR_TLS, "does not speak TLS");
    free(url);
    rig_fini(&r);
}

static void test_bad_material(void **state)
{
    (void)state;
    const struct transport_curl_options bad[] = {
        OPTIONS(.ca_pem = "x"),
        OPTIONS(.client_cert_pem = client.cert, .client_key_pem = stranger.key),
        OPTIONS(.client_cert_pem = client.cert),
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        struct rig r;
        struct err e = {0};
        rig_init(&r, &server, NULL);
        assert_int_equal(rig_connect(&r, bad[i], &e), -ERR_TLS);
        assert_true(e.text[0] != '\0');
        rig_fini(&r);
    }
    struct rig r;
    struct err e = {0};
    rig_init(&r, &server, NULL);
    assert_int_equal(rig_connect(&r, OPTIONS(.ca_pem = ca.cert, .insecure = true), &e), -ERR_INVALID);
    rig_fini(&r);
}

static void test_rotation(void **state)
{
    (void)state;
    struct pki next = pki_make(PKI_SERVER, &other_ca, "next", "IP:127.0.0.1", 1);
    struct rig r;
    struct err e = {0};
    rig_init(&r, &server, NULL);
    r.handle = handle;
    assert_int_equal(rig_connect(&r, OPTIONS(.ca_pem = ca.cert), &e), 0);
    assert_outcome(&r, 0, "127.0.0.1:");
    rig_set_certificate(&r, &next);
    assert_outcome(&r, 0, "127.0.0.1:"); // the kept connection
    assert_int_equal(transport_curl_set_tls(r.transport, "bad", NULL, NULL, &e), -ERR_TLS);
    assert_int_equal(transport_curl_set_tls(r.transport, NULL, client.cert, client.key, &e), 0);
    assert_outcome(&r, -ERR_TLS, "not issued"); // new connections, the old CA
    assert_int_equal(transport_curl_set_tls(r.transport, other_ca.cert, NULL, NULL, &e), 0);
    assert_outcome(&r, 0, "127.0.0.1:");
    pki_fini(&next);
    rig_fini(&r);
}

static void test_parallel(void **state)
{
    (void)state;
    enum { COUNT = 100 };
    static struct rig_result x[COUNT];
    struct rig r;
    struct err e = {0};
    rig_init(&r, &server, NULL);
    r.handle = handle;
    assert_int_equal(rig_connect(&r, OPTIONS(.ca_pem = ca.cert), &e), 0);
    for (int i = 0; i < COUNT; i++) {
        rig_result_init(&x[i], &r);
        rig_send(
            &r, &x[i],
            (struct transport_request){.method = METHOD_PATCH, .path = "/x", .body = "{}", .body_len = 2});
    }
    rig_wait(&r, COUNT);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(x[i].response.status, 200);
        rig_result_fini(&x[i]);
    }
    rig_fini(&r);
}

static void reply_with_uri(struct rig *r, struct evhttp_request *req)
{
    (void)r;
    rig_reply(req, 200, "text/plain", evhttp_request_get_uri(req));
}

// Handles are used again: what they asked for before must not come back.
static void test_paths(void **state)
{
    (void)state;
    static const char *const bases[] = {"", "/", "/k8s/clusters/c-1", "/k8s/clusters/c-1/"};
    static const char *const paths[] = {"/api/v1/pods?limit=500&continue=a%2Fb", "/x",
                                        "/y/../z/./%2e?a=/../b"};
    for (size_t i = 0; i < sizeof(bases) / sizeof(bases[0]); i++) {
        struct rig r;
        struct err e = {0};
        rig_init(&r, &server, NULL);
        r.handle = reply_with_uri;
        char *url = xasprintf("https://127.0.0.1:%d%s", r.port, bases[i]);
        assert_int_equal(rig_connect(&r, OPTIONS(.ca_pem = ca.cert, .server = url), &e), 0);
        for (size_t k = 0; k < 2 * sizeof(paths) / sizeof(paths[0]); k++) {
            struct rig_result x;
            const char *path = paths[k / 2];
            char *want = xasprintf("%s%s", i < 2 ? "" : "/k8s/clusters/c-1", path);
            rig_do(&r, &x,
                   (struct transport_request){.method = METHOD_GET, .path = path, .stream = k % 2 == 1});
            assert_string_equal(x.body.data, want);
            free(want);
            rig_result_fini(&x);
        }
        rig_fini(&r);
        free(url);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),        cmocka_unit_test(test_trusted),
        cmocka_unit_test(test_unknown_ca),   cmocka_unit_test(test_names),
        cmocka_unit_test(test_expired),      cmocka_unit_test(test_client_certificates),
        cmocka_unit_test(test_old_version),  cmocka_unit_test(test_no_tls_on_the_port),
        cmocka_unit_test(test_bad_material), cmocka_unit_test(test_rotation),
        cmocka_unit_test(test_parallel),
    };
    return cmocka_run_group_tests(tests, make_all, free_all);
}
