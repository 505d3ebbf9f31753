#include "kube/config.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <setjmp.h>

#include <cmocka.h>

#include "base/alloc.h"
#include "base/buf.h"
#include "data/digest.h"

#define CA "-----BEGIN CERTIFICATE-----\nQ0E=\n-----END CERTIFICATE-----\n"
#define CERT "-----BEGIN CERTIFICATE-----\nQ0VSVA==\n-----END CERTIFICATE-----\n"
#define KEY "-----BEGIN EC PRIVATE KEY-----\nS0VZ\n-----END EC PRIVATE KEY-----\n"

static char dir[64];

static char *path_of(const char *name)
{
    static char all[8][200];
    static int next;
    char *p = all[next++ % 8];
    snprintf(p, sizeof(all[0]), "%s/%s", dir, name);
    return p;
}

static void put(const char *name, const char *text)
{
    FILE *f = fopen(path_of(name), "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
}

static int set_up(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/config_test.XXXXXX");
    assert_non_null(mkdtemp(dir));
    assert_int_equal(mkdir(path_of("sub"), 0700), 0);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char *cmd = xasprintf("rm -rf '%s'", dir);
    int rc = system(cmd);
    free(cmd);
    return rc;
}

static struct kube_config *load(const struct kube_config_options *o)
{
    struct kube_config *c = NULL;
    struct err e = {0};
    int rc = kube_config_load(o, &c, &e);
    if (rc != 0)
        print_error("%s\n", e.text);
    assert_int_equal(rc, 0);
    return c;
}

static struct kube_config *load_file(const char *name)
{
    return load(&(struct kube_config_options){.kubeconfig = path_of(name)});
}

// The error's text is one line and holds each of the words (separated by '|').
static void expect_error(const struct kube_config_options *o, const char *words)
{
    struct kube_config *c = NULL;
    struct err e = {0};
    assert_true(kube_config_load(o, &c, &e) < 0);
    assert_null(c);
    assert_null(strchr(e.text, '\n'));
    char *copy = xstrdup(words), *rest = copy, *word;
    while ((word = strsep(&rest, "|")) != NULL) {
        if (strstr(e.text, word) == NULL)
            print_error("\"%s\" is not in: %s\n", word, e.text);
        assert_non_null(strstr(e.text, word));
    }
    free(copy);
    assert_true(kube_config_load(o, &c, NULL) < 0);
}

static void expect_file_error(const char *text, const char *words)
{
    put("bad", text);
    expect_error(&(struct kube_config_options){.kubeconfig = path_of("bad")}, words);
}

static char *base64(const char *text)
{
    struct buf b;
    buf_init(&b, 10000);
    base64_encode(text, strlen(text), &b);
    return buf_take(&b, NULL);
}

// A kubeconfig with one of each; the parts are YAML flow maps' insides.
static char *kubeconfig(const char *cluster, const char *user)
{
    return xasprintf("apiVersion: v1\nkind: Config\ncurrent-context: c\n"
                     "clusters:\n- name: k\n  cluster: {%s}\n"
                     "users:\n- name: u\n  user: {%s}\n"
                     "contexts:\n- name: c\n  context: {cluster: k, user: u}\n",
                     cluster, user);
}

static struct kube_config *load_parts(const char *cluster, const char *user)
{
    char *text = kubeconfig(cluster, user);
    put("parts", text);
    free(text);
    return load_file("parts");
}

static void expect_parts_error(const char *cluster, const char *user, const char *words)
{
    char *text = kubeconfig(cluster, user);
    expect_file_error(text, words);
    free(text);
}

// ---- kubeconfig

static void test_data_and_namespace(void **state)
{
    (void)state;
    char *ca = base64(CA "text between\r\n" CA), *cert = base64(CERT), *key = base64(KEY);
    char *text = xasprintf(
        "current-context: b\n"
        "clusters:\n- name: k\n  cluster:\n    server: https://h:6443/\n    certificate-authority-data: %s\n"
        "    tls-server-name: kubernetes\n    proxy-url: http://user:pw@127.0.0.1:3128\n"
        "users:\n- name: u\n  user:\n    client-certificate-data: %s\n    client-key-data: %s\n"
        "contexts:\n- name: a\n  context: {cluster: nope}\n"
        "- name: b\n  context: {cluster: k, user: u, namespace: ns}\n",
        ca, cert, key);
    put("config", text);
    struct kube_config *c = load_file("config");
    assert_string_equal(c->server, "https://h:6443");
    assert_string_equal(c->ca_pem, CA "text between\r\n" CA);
    assert_string_equal(c->client_cert_pem, CERT);
    assert_string_equal(c->client_key_pem, KEY);
    assert_string_equal(c->tls_server_name, "kubernetes");
    assert_string_equal(c->proxy_url, "http://user:pw@127.0.0.1:3128");
    assert_string_equal(c->namespace_, "ns");
    assert_null(c->ca_file);
    assert_null(c->token);
    assert_false(c->insecure || c->in_cluster);
    assert_non_null(strstr(c->source, "(context \"b\")"));
    kube_config_free(c);
    expect_error(&(struct kube_config_options){.kubeconfig = path_of("config"), .context = "a"},
                 "contexts[\"a\"].context.cluster|nope");
    expect_error(&(struct kube_config_options){.kubeconfig = path_of("config"), .context = "z"},
                 "--context|\"z\"|config");
    free(text);
    free(ca);
    free(cert);
    free(key);
}

static void test_files_are_relative_to_the_kubeconfig(void **state)
{
    (void)state;
    put("sub/ca.crt", CA);
    put("sub/tls.crt", CERT);
    put("sub/tls.key", KEY);
    put("sub/token", "from-file\n");
    put("sub/config", "current-context: c\nclusters: [{name: k, cluster: {server: 'https://h', "
                      "certificate-authority: ca.crt}}]\n"
                      "users: [{name: u, user: {client-certificate: tls.crt, client-key: ./tls.key, token: "
                      "plain, tokenFile: token}}]\n"
                      "contexts: [{name: c, context: {cluster: k, user: u}}]\n");
    struct kube_config *c = load_file("sub/config");
    assert_string_equal(c->ca_pem, CA);
    assert_string_equal(c->ca_file, path_of("sub/ca.crt"));
    assert_string_equal(c->client_cert_file, path_of("sub/tls.crt"));
    assert_string_equal(c->client_key_file, path_of("sub/./tls.key"));
    assert_string_equal(c->token, "from-file"); // the file beats the text
    assert_string_equal(c->token_file, path_of("sub/token"));
    kube_config_free(c);
}

static void test_merging(void **state)
{
    (void)state;
    put("first", "clusters: [{name: k, cluster: {server: 'https://first'}}]\nusers:\n");
    put("second",
        "current-context: two\nclusters: [{name: k, cluster: {server: 'https://second', tls-server-name: x}},"
        " {name: only, cluster: {server: 'https://only'}}]\n"
        "contexts: [{name: two, context: {cluster: k, user: u}}, {name: o, context: {cluster: only}}]\n");
    put("sub/third", "current-context: three\nusers: [{name: u, user: {tokenFile: token}}]\n");
    put("sub/token", "t\n");
    char *env = xasprintf("%s:%s:%s::%s", path_of("missing"), path_of("first"), path_of("second"),
                          path_of("sub/third"));
    struct kube_config *c =
        load(&(struct kube_config_options){.env_kubeconfig = env, .home = "/nonexistent"});
    assert_string_equal(c->server, "https://first");
    assert_null(c->tls_server_name); // nothing of the second one's entry
    assert_string_equal(c->token, "t");
    kube_config_free(c);
    c = load(&(struct kube_config_options){.env_kubeconfig = env, .context = "o"});
    assert_string_equal(c->server, "https://only");
    kube_config_free(c);
    free(env);
    env = xasprintf("%s:/nonexistent/x", path_of("missing"));
    expect_error(&(struct kube_config_options){.env_kubeconfig = env}, "KUBECONFIG|missing");
    free(env);
}

static void test_where_it_is_looked_for(void **state)
{
    (void)state;
    char *text = kubeconfig("server: 'https://home'", "");
    mkdir(path_of(".kube"), 0700);
    put(".kube/config", text);
    struct kube_config *c = load(&(struct kube_config_options){.home = dir, .env_kubeconfig = ""});
    assert_string_equal(c->server, "https://home");
    kube_config_free(c);
    free(text);
    expect_error(&(struct kube_config_options){.kubeconfig = "/nonexistent/x"},
                 "--kubeconfig|/nonexistent/x");
    expect_error(&(struct kube_config_options){.home = "/nonexistent"}, "no cluster is configured");
    expect_error(&(struct kube_config_options){.context = "c"}, "--context|--kubeconfig");
    expect_error(&(struct kube_config_options){.kubeconfig = dir}, dir);
    c = load(&(struct kube_config_options){.server = "http://127.0.0.1:8080/"});
    assert_string_equal(c->server, "http://127.0.0.1:8080");
    kube_config_free(c);
    expect_error(&(struct kube_config_options){.server = "host:1"}, "--server|scheme");
}

static void test_server_override(void **state)
{
    (void)state;
    char *text =
        kubeconfig("server: 'https://a', tls-server-name: a, insecure-skip-tls-verify: true", "token: t");
    put("config", text);
    struct kube_config *c =
        load(&(struct kube_config_options){.kubeconfig = path_of("config"), .server = "b:7"});
    assert_string_equal(c->server, "https://b:7");
    assert_null(c->tls_server_name);
    assert_true(c->insecure);
    assert_string_equal(c->token, "t");
    kube_config_free(c);
    free(text);
}

static void test_json(void **state)
{
    (void)state;
    put("json", "{\"apiVersion\":\"v1\",\"kind\":\"Config\",\"current-context\":\"c\",\"clusters\":[{"
                "\"name\":\"k\",\"cluster\":"
                "{\"server\":\"https://"
                "h\"}}],\"users\":null,\"contexts\":[{\"name\":\"c\",\"context\":{\"cluster\":\"k\"}}]}");
    struct kube_config *c = load_file("json");
    assert_string_equal(c->server, "https://h");
    assert_null(c->token);
    kube_config_free(c);
}

static void test_server_forms(void **state)
{
    (void)state;
    static const char *const good[][2] = {
        {"https://[::1]:6443", "https://[::1]:6443"},
        {"https://[fe80::1%25eth0]:6443", "https://[fe80::1%25eth0]:6443"},
        {"https://host.", "https://host."},
        {"HTTPS://Host:443/", "https://Host:443"},
        {"http://127.0.0.1:8080", "http://127.0.0.1:8080"},
        {"https://h/k8s/clusters/c-1", "https://h/k8s/clusters/c-1"},
        {"https://h/k8s/clusters/c-1//", "https://h/k8s/clusters/c-1"},
    };
    static const char *const bad[][2] = {
        {"host:6443", "scheme|https://host:6443"},
        {"https://fd00:10:96::1:443", "brackets"},
        {"https://h:99999", "99999|port"},
        {"https://h:", "port"},
        {"https://h:0", "port"},
        {"https://h:tcp", "port"},
        {"https://user:secret@h", "credentials"},
        {"ftp://h", "ftp"},
        {"https://", "host"},
        {"https://h?x=1", "query"},
        {"https://h h", "blank"},
        {"https://[::1", "bracket"},
        {"https://[zz]:1", "IPv6"},
        {"https://[fe80::1%eth0]:1", "%25"},
        {"https://[::1]x", "between"},
        {"https://h_\\u00e9", "blank or another"},
    };
    for (size_t i = 0; i < sizeof(good) / sizeof(good[0]); i++) {
        char *cluster = xasprintf("server: \"%s\"", good[i][0]);
        struct kube_config *c = load_parts(cluster, "");
        assert_string_equal(c->server, good[i][1]);
        kube_config_free(c);
        free(cluster);
    }
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        char *cluster = xasprintf("server: \"%s\"", bad[i][0]);
        char *words = xasprintf("/bad: clusters[\"k\"].cluster.server: |%s", bad[i][1]);
        expect_parts_error(cluster, "", words);
        free(cluster);
        free(words);
    }
    struct err e;
    struct kube_config *none;
    char *text = kubeconfig("server: 'https://user:secret@h'", "");
    put("bad", text);
    kube_config_load(&(struct kube_config_options){.kubeconfig = path_of("bad")}, &none, &e);
    assert_null(strstr(e.text, "secret"));
    free(text);
    struct kube_config *c = load_parts("server: 'h:6443', insecure-skip-tls-verify: true", "");
    assert_string_equal(c->server, "https://h:6443");
    kube_config_free(c);
}

static void test_tls_fields(void **state)
{
    (void)state;
    put("ca.crt", CA);
    put("only.key", KEY);
    put("encrypted.key",
        "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAA==\n-----END ENCRYPTED PRIVATE KEY-----\n");
    put("tls.crt", CERT);
    char *ca = base64(CA), *cut = base64("-----BEGIN CERTIFICATE-----\nQ0E=\n"), *text = base64("hello");
    char *cluster =
        xasprintf("server: 'https://h', insecure-skip-tls-verify: true, certificate-authority-data: %s", ca);
    expect_parts_error(cluster, "", "insecure-skip-tls-verify|certificate authority");
    free(cluster);
    expect_parts_error("server: 'https://h', insecure-skip-tls-verify: true, certificate-authority: ca.crt",
                       "", "insecure-skip-tls-verify");
    cluster =
        xasprintf("server: 'https://h', certificate-authority: ca.crt, certificate-authority-data: %s", ca);
    expect_parts_error(cluster, "", "certificate-authority-data|keep one");
    free(cluster);
    cluster = xasprintf("server: 'https://h', certificate-authority-data: %s", text);
    expect_parts_error(cluster, "", "clusters[\"k\"].cluster.certificate-authority-data|no PEM certificate");
    free(cluster);
    cluster = xasprintf("server: 'https://h', certificate-authority-data: %s", cut);
    expect_parts_error(cluster, "", "certificate-authority-data|cut off");
    free(cluster);
    expect_parts_error("server: 'https://h', certificate-authority-data: '!!!'", "",
                       "certificate-authority-data");
    expect_parts_error("server: 'https://h', certificate-authority: missing.crt", "",
                       "clusters[\"k\"].cluster.certificate-authority|missing.crt");
    expect_parts_error("server: 'https://h', certificate-authority: only.key", "",
                       "certificate-authority|private key");
    expect_parts_error("server: 'https://h', insecure-skip-tls-verify: 'true'", "",
                       "insecure-skip-tls-verify|true or false");
    expect_parts_error("server: 'https://h'", "client-certificate: tls.crt",
                       "users[\"u\"].user.client-key|missing");
    expect_parts_error("server: 'https://h'", "client-key: only.key",
                       "users[\"u\"].user.client-certificate|missing");
    expect_parts_error("server: 'https://h'", "client-certificate: tls.crt, client-key: encrypted.key",
                       "client-key|encrypted");
    expect_parts_error("server: 'https://h'", "client-certificate: tls.crt, client-key: tls.crt",
                       "client-key|certificate");
    static const char *const proxies[] = {"ftp://h", "h:3128", "http://", "http://h:x"};
    for (size_t i = 0; i < sizeof(proxies) / sizeof(proxies[0]); i++) {
        cluster = xasprintf("server: 'https://h', proxy-url: '%s'", proxies[i]);
        expect_parts_error(cluster, "", "clusters[\"k\"].cluster.proxy-url");
        free(cluster);
    }
    struct kube_config *c =
        load_parts("server: 'https://h', proxy-url: 'socks5://[::1]:1080', certificate-authority: ''", "");
    assert_string_equal(c->proxy_url, "socks5://[::1]:1080");
    assert_null(c->ca_pem);
    kube_config_free(c);
    free(ca);
    free(cut);
    free(text);
}

static void test_users(void **state)
{
    (void)state;
    const char *k = "server: 'https://h'";
    expect_parts_error(k, "exec: {command: x, apiVersion: v1}",
                       "/bad: users[\"u\"].user.exec: exec credential plugins are not supported");
    expect_parts_error(k, "exec: {}", "users[\"u\"].user.exec");
    expect_parts_error(k, "auth-provider: {name: gcp}", "users[\"u\"].user.auth-provider");
    expect_parts_error(k, "username: a, password: hidden", "users[\"u\"].user.username|basic");
    expect_parts_error(k, "password: hidden", "users[\"u\"].user.password");
    expect_parts_error(k, "as: somebody", "users[\"u\"].user.as:");
    expect_parts_error(k, "token: 12345", "users[\"u\"].user.token|string");
    expect_parts_error(k, "token: \"two words\"", "users[\"u\"].user.token");
    expect_parts_error(k, "tokenFile: missing", "users[\"u\"].user.tokenFile|missing");
    put("empty", "\n");
    expect_parts_error(k, "token: t, tokenFile: empty", "users[\"u\"].user.tokenFile|empty");
    struct kube_config *c = load_parts(k, "token: ' t ', exec: null, username: '', as-groups: []");
    assert_string_equal(c->token, "t");
    kube_config_free(c);
}

static void test_broken_files(void **state)
{
    (void)state;
    expect_file_error("", "current-context|--context");
    expect_file_error("# nothing\n", "current-context");
    expect_file_error("just text", "/bad|not a kubeconfig");
    expect_file_error("[1]", "not a kubeconfig");
    expect_file_error("a: [1\nb: }", "/bad");
    expect_file_error("kind: Pod", "kind|Config");
    expect_file_error("current-context: 7", "current-context|string");
    expect_file_error("current-context: c", "current-context|\"c\"");
    expect_file_error("current-context: c\ncontexts: {}", "contexts|list");
    expect_file_error("current-context: c\ncontexts: [null, 7, {name: 7}, {name: c, context: []}]",
                      "contexts[\"c\"].context|map");
    expect_file_error("current-context: c\ncontexts: [{name: c}]", "contexts[\"c\"].context.cluster|missing");
    expect_file_error("current-context: c\ncontexts: [{name: c, context: {cluster: k}}, {name: c}]",
                      "contexts|twice");
    expect_file_error(
        "current-context: c\ncontexts: [{name: c, context: {cluster: k}}]\nclusters: [{name: k}]",
        "clusters[\"k\"].cluster.server|missing");
    expect_file_error("current-context: c\ncontexts: [{name: c, context: {cluster: k, user: u}}]\nclusters: "
                      "[{name: k, cluster: {server: 'https://h'}}]",
                      "contexts[\"c\"].context.user|\"u\"|users");
}

// ---- in the cluster

static struct kube_config_options in_cluster(const char *host, const char *port)
{
    return (struct kube_config_options){.service_host = host,
                                        .service_port = port,
                                        .service_account_dir = path_of("sub"),
                                        .home = "/nonexistent"};
}

static void test_in_cluster(void **state)
{
    (void)state;
    put("sub/token", "t1\n");
    put("sub/ca.crt", CA);
    put("sub/namespace", "n\n");
    static const char *const hosts[][2] = {
        {"fd00:10:96::1", "https://[fd00:10:96::1]:443"},
        {"::1", "https://[::1]:443"},
        {"[::1]", "https://[::1]:443"},
        {"::ffff:10.0.0.1", "https://[::ffff:10.0.0.1]:443"},
        {"10.96.0.1", "https://10.96.0.1:443"},
        {"kubernetes.default.svc", "https://kubernetes.default.svc:443"},
    };
    for (size_t i = 0; i < sizeof(hosts) / sizeof(hosts[0]); i++) {
        struct kube_config_options o = in_cluster(hosts[i][0], "443");
        struct kube_config *c = load(&o);
        assert_string_equal(c->server, hosts[i][1]);
        assert_string_equal(c->token, "t1");
        assert_string_equal(c->token_file, path_of("sub/token"));
        assert_string_equal(c->ca_pem, CA);
        assert_string_equal(c->namespace_, "n");
        assert_string_equal(c->source, "in-cluster");
        assert_true(c->in_cluster);
        kube_config_free(c);
    }
    struct kube_config_options o = in_cluster("10.0.0.1", "tcp://10.0.0.1:443");
    expect_error(&o, "KUBERNETES_SERVICE_PORT|tcp://");
    o = in_cluster("10.0.0.1", "");
    expect_error(&o, "KUBERNETES_SERVICE_PORT");
    o = in_cluster("10.0.0.1", NULL);
    expect_error(&o, "KUBERNETES_SERVICE_PORT");
    o = in_cluster("ho st", "443");
    expect_error(&o, "KUBERNETES_SERVICE_HOST");
    o = in_cluster("zz::1", "443");
    expect_error(&o, "KUBERNETES_SERVICE_HOST");
    o = in_cluster("", "443");
    expect_error(&o, "no cluster is configured");
    o = in_cluster("10.0.0.1", "443");
    unlink(path_of("sub/namespace"));
    struct kube_config *c = load(&o);
    assert_null(c->namespace_);
    kube_config_free(c);
    put("sub/ca.crt", "oops");
    expect_error(&o, "in-cluster|ca.crt|PEM");
    put("sub/token", "");
    expect_error(&o, "in-cluster|token|empty");
    unlink(path_of("sub/token"));
    expect_error(&o, "in-cluster|token");
}

int main(void)
{
#define T(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
    const struct CMUnitTest tests[] = {
        T(test_data_and_namespace),
        T(test_files_are_relative_to_the_kubeconfig),
        T(test_merging),
        T(test_where_it_is_looked_for),
        T(test_server_override),
        T(test_json),
        T(test_server_forms),
        T(test_tls_fields),
        T(test_users),
        T(test_broken_files),
        T(test_in_cluster),
    };
    return cmocka_run_group_tests_name("config", tests, NULL, NULL);
}
