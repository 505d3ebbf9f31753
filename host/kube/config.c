#include "kube/config.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/strset.h"
#include "kube/config_pem.h"
#include "kube/config_url.h"
#include "kube/files.h"
#include "kube/kubeconfig.h"
#include "kube/token.h"

#define SERVICE_ACCOUNT_DIR "/var/run/secrets/kubernetes.io/serviceaccount"

// ---- in the cluster

static int read_service_account(struct kube_config *c, const char *dir, struct err *e)
{
    char *token = xasprintf("%s/token", dir), *ca = xasprintf("%s/ca.crt", dir);
    char *ns = xasprintf("%s/namespace", dir);
    c->token_file = token;
    c->ca_file = ca;
    int rc = token_read(token, &c->token, e);
    if (rc == 0)
        rc = files_read(ca, &c->ca_pem, NULL, e);
    if (rc == 0 && (rc = config_pem_check_certificates(c->ca_pem, e)) < 0)
        err_prefix(e, "%s", ca);
    if (rc == 0 && files_read(ns, &c->namespace_, NULL, NULL) == 0) {
        c->namespace_[strcspn(c->namespace_, " \t\r\n")] = '\0';
        if (c->namespace_[0] == '\0') {
            free(c->namespace_);
            c->namespace_ = NULL;
        }
    }
    free(ns);
    if (rc < 0)
        err_prefix(e, "in-cluster configuration");
    return rc;
}

static int load_in_cluster(const struct kube_config_options *o, struct kube_config *c, struct err *e)
{
    c->in_cluster = true;
    c->source = xstrdup("in-cluster");
    int rc = config_url_in_cluster(o->service_host, o->service_port, &c->server, e);
    if (rc < 0)
        return rc;
    return read_service_account(
        c, o->service_account_dir != NULL ? o->service_account_dir : SERVICE_ACCOUNT_DIR, e);
}

// ---- which source

static bool is_set(const char *s)
{
    return s != NULL && *s != '\0';
}

static void add_existing(struct strset *paths, const char *path)
{
    if (access(path, F_OK) == 0)
        strset_add(paths, path);
}

static int env_paths(const char *env, struct strset *paths, struct err *e)
{
    struct strset all;
    strset_init(&all);
    strset_add_split(&all, env, ':');
    for (size_t i = 0; i < all.count; i++)
        add_existing(paths, all.items[i]);
    strset_fini(&all);
    if (paths->count == 0)
        return err_set(e, ERR_NOT_FOUND, "KUBECONFIG: no file it names exists (%.300s): correct or unset it",
                       env);
    return 0;
}

static int find_paths(const struct kube_config_options *o, struct strset *paths, struct err *e)
{
    if (is_set(o->kubeconfig)) {
        strset_add(paths, o->kubeconfig);
        return access(o->kubeconfig, F_OK) == 0
                   ? 0
                   : err_set(e, ERR_NOT_FOUND, "--kubeconfig: %s: there is no such file", o->kubeconfig);
    }
    if (is_set(o->env_kubeconfig))
        return env_paths(o->env_kubeconfig, paths, e);
    if (is_set(o->home)) {
        char *path = xasprintf("%s/.kube/config", o->home);
        add_existing(paths, path);
        free(path);
    }
    return 0;
}

static int load_server_only(const char *server, struct kube_config *c, struct err *e)
{
    c->source = xstrdup("--server");
    int rc = config_url_server(server, false, &c->server, e);
    return rc < 0 ? err_prefix(e, "--server") : 0;
}

static int load(const struct kube_config_options *o, const struct strset *paths, struct kube_config *c,
                struct err *e)
{
    if (paths->count > 0)
        return kubeconfig_load(paths, o->context, is_set(o->server) ? o->server : NULL, c, e);
    if (is_set(o->context))
        return err_set(e, ERR_INVALID,
                       "--context: there is no kubeconfig to look up \"%.100s\" in: give --kubeconfig",
                       o->context);
    if (is_set(o->server))
        return load_server_only(o->server, c, e);
    if (is_set(o->service_host))
        return load_in_cluster(o, c, e);
    return err_set(e, ERR_NOT_FOUND,
                   "no cluster is configured: give --kubeconfig, set KUBECONFIG, create ~/.kube/config, or "
                   "run in a pod");
}

int kube_config_load(const struct kube_config_options *o, struct kube_config **ret, struct err *e)
{
    struct err local;
    struct strset paths;
    struct kube_config *c = xcalloc(1, sizeof(*c));
    e = e == NULL ? &local : e;
    strset_init(&paths);
    int rc = find_paths(o, &paths, e);
    if (rc == 0)
        rc = load(o, &paths, c, e);
    strset_fini(&paths);
    if (rc < 0) {
        kube_config_free(c);
        return rc;
    }
    *ret = c;
    return 0;
}

// Keys and tokens do not stay in freed memory.
static void free_secret(char *s)
{
    if (s != NULL)
        explicit_bzero(s, strlen(s));
    free(s);
}

void kube_config_free(struct kube_config *c)
{
    if (c == NULL)
        return;
    free_secret(c->client_key_pem);
    free_secret(c->token);
    char *const all[] = {c->server,    c->ca_pem,           c->client_cert_pem, c->token_file,
                         c->ca_file,   c->client_cert_file, c->client_key_file, c->tls_server_name,
                         c->proxy_url, c->namespace_,       c->source};
    for (size_t i = 0; i < sizeof(all) / sizeof(all[0]); i++)
        free(all[i]);
    free(c);
}
